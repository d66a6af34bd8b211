// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2ekueue

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// hasGrowth checks that the Workloads of a MiniCluster but the first are as many as the test expects, and
// admitted.
func (s *site) hasGrowth(mc *v1alpha2.MiniCluster, first *kueueapi.Workload, count int) error {
	workloads, err := s.workloads(mc)
	if err != nil {
		return err
	}
	names, admitted := []string{}, 0
	for i := range workloads {
		wl := &workloads[i]
		if wl.Name == first.Name {
			continue
		}
		names = append(names, wl.Name)
		if meta.IsStatusConditionTrue(wl.Status.Conditions, kueueapi.WorkloadAdmitted) {
			admitted++
		}
	}
	if len(names) != count || admitted != count {
		return fmt.Errorf("beside %s there are %v, of which %d are admitted; want %d", first.Name, names, admitted, count)
	}
	return nil
}

// awaitGrowth waits until it has (hasGrowth).
func (s *site) awaitGrowth(mc *v1alpha2.MiniCluster, first *kueueapi.Workload, count int) {
	s.T.Helper()
	harness.Eventually(s.T, func() error { return s.hasGrowth(mc, first, count) })
}

// A running MiniCluster grows as far as Kueue has quota for a further Workload. Others with quota in
// sight take that quota back, and the brokers leave that used it.
func TestGrowth(t *testing.T) {
	t.Parallel()
	s := newSite(t, 6)
	s.newQueue("team", 32, preempting, s.withPlacement())
	mc := s.create(s.miniCluster("grows").Size(2).MinSize(2).MaxSize(6).Launcher().Grow(), "team")
	first := s.workloadOf(mc)
	s.Await(mc, "on all nodes for which there is quota", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.Size == 4 })
	s.awaitGrowth(mc, first, 1) // a second request is refused and deleted
	placed := 0
	for _, pod := range s.Pods(mc) {
		if protocol.PinnedNode(&pod) != "" {
			placed++
		}
	}
	if placed != 4 {
		t.Errorf("%d pods have nodes, with quota for 4", placed)
	}

	other := s.newWorkload("other", "team", podSet("lead", 2, "8"))
	s.awaitCondition(other, kueueapi.WorkloadQuotaReserved, metav1.ConditionTrue)
	s.Await(mc, "as small as at its start", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.Size == 2 })
	if harness.State(mc) != v1alpha2.StateRunning {
		t.Errorf("it is %s", harness.State(mc))
	}
	s.awaitGrowth(mc, first, 0)

	s.Delete(other)
	s.Await(mc, "large again", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.Size == 4 })
	s.succeed(mc)
	s.awaitGrowth(mc, first, 0)
	all := s.newWorkload("all", "team", podSet("lead", 4, "8"))
	s.awaitCondition(all, kueueapi.WorkloadQuotaReserved, metav1.ConditionTrue)
}
