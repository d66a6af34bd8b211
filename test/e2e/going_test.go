// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
)

// goes adds the taint of a node that is about to go, until the test ends.
func (s *site) goes(node, taint string) {
	s.t.Helper()
	object := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
	s.patch(object, `{"spec":{"taints":[{"key":%q,"effect":"NoSchedule"}]}}`, taint)
	s.t.Cleanup(func() { s.patch(object, `{"spec":{"taints":null}}`) })
}

// A malleable command goes on without the rank on a node that is about to go, which ends its work first, and gets another
// node. A command that could not go on stays.
func TestNodeAboutToGo(t *testing.T) {
	t.Parallel()
	s := newSite(t, 5)
	record := s.newRecord()
	give := s.withhold(s.nodes[4])
	rigid := s.create(s.miniCluster("rigid").Size(1).PodAnnotation(simulator.Runtime, untilTold))
	s.awaitState(rigid, v1alpha2.StateRunning)
	mc := s.launcher("moves")
	s.awaitBrokers(mc, 3)
	departures := s.watchDepartures(mc)
	gone := s.nodesOf(mc)[1]
	s.goes(s.nodesOf(rigid)[0], "karpenter.sh/disrupted")
	s.goes(gone, "karpenter.sh/disrupted")
	s.awaitBrokers(mc, 2)
	departures.check(t, 1)
	give()
	s.awaitBrokers(mc, 3)
	if nodes := s.nodesOf(mc); slices.Contains(nodes, gone) {
		t.Errorf("it has the nodes %v, and %s goes", nodes, gone)
	}
	s.awaitDecisions(mc, map[string]int{"Admitted": 1, "Started": 1, "Draining": 1, "Vacated": 1, "Grew": 1})
	s.endCommand(rigid)
	s.awaitSuccess(rigid)
	s.awaitDecisions(rigid, map[string]int{"Admitted": 1, "Started": 1, "Succeeded": 1})
	record.check(s)
}

// A command with checkpoints is warned before a node of it goes, and goes on elsewhere from its checkpoint.
func TestNodeAboutToGoWithCheckpoint(t *testing.T) {
	t.Parallel()
	for name, goes := range map[string]func(s *site, node string, mc *v1alpha2.MiniCluster){
		"removed": func(s *site, node string, _ *v1alpha2.MiniCluster) { s.goes(node, "ToBeDeletedByClusterAutoscaler") },
		"reserved for maintenance": func(s *site, node string, mc *v1alpha2.MiniCluster) {
			from := mc.CreationTimestamp.Add(time.Minute)
			s.reserveNodes(fixture.Reservation(s.namespace, from, from.Add(time.Hour)).Nodes(node))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, 3)
			record := s.newRecord()
			mc := s.create(s.saving("saves", 2).PodAnnotation(simulator.Checkpoint, "1s"))
			s.awaitRuns(mc, 1, 2)
			gone := s.nodesOf(mc)[1]
			goes(s, gone, mc)
			s.awaitRuns(mc, 2, 2)
			if mc.Status.CheckpointTime == nil || slices.Contains(s.nodesOf(mc), gone) {
				t.Errorf("its checkpoint is of %v, it has the nodes %v, and %s goes", mc.Status.CheckpointTime, s.nodesOf(mc), gone)
			}
			s.endCommand(mc)
			s.awaitSuccess(mc)
			s.awaitDecisions(mc, map[string]int{"Admitted": 2, "Started": 2, "Warned": 1, v1alpha2.ReasonNodesGo: 1, "Succeeded": 1})
			record.check(s)
		})
	}
}

// saving begins a MiniCluster of some brokers whose command writes a checkpoint when it is asked to.
func (s *site) saving(name string, size int32) *fixture.MiniClusterWrapper {
	return s.miniCluster(name).Size(size).Tasks(size).PodAnnotation(simulator.Runtime, untilTold).Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Elastic.Checkpoint = &v1alpha2.Checkpoint{Signal: "SIGUSR1", Wait: duration("5m")}
	})
}

// awaitRuns waits until the command of a MiniCluster was begun n times, and runs with some brokers.
func (s *site) awaitRuns(mc *v1alpha2.MiniCluster, n, brokers int32) {
	s.t.Helper()
	s.await(mc, fmt.Sprintf("running for the %d. time, with %d brokers", n, brokers), func(mc *v1alpha2.MiniCluster) bool {
		a := mc.Status.Admission
		return state(mc) == v1alpha2.StateRunning && mc.Status.Runs == n && mc.Status.Size == brokers && mc.Status.Nodes == brokers && a.Restart == nil && a.Quorum == brokers
	})
}
