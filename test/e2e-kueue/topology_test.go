// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2ekueue

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// rackLabel is one of the manager's --topology-labels.
const rackLabel = "cloud.provider.com/topology-rack"

// newRackedSite takes nodes with room for two brokers each, in racks r0, r1 ... of these sizes.
func newRackedSite(t *testing.T, racks ...int) *site {
	t.Helper()
	nodes := 0
	for _, size := range racks {
		nodes += size
	}
	s := newSite(t, nodes)
	t.Cleanup(func() { s.labelNodes(func(int) string { return "null" }) })
	s.labelNodes(func(node int) string {
		rack := 0
		for ; node >= racks[rack]; rack++ {
			node -= racks[rack]
		}
		return fmt.Sprintf(`"r%d"`, rack)
	})
	return s
}

// labelNodes gives each node of the site the label of its rack.
func (s *site) labelNodes(rack func(node int) string) {
	s.T.Helper()
	for i, name := range s.Nodes {
		s.Patch(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, `{"metadata":{"labels":{%q:%s}}}`, rackLabel, rack(i))
	}
}

// withTopology lets a ClusterQueue have one flavor, with a Topology of these levels.
func (s *site) withTopology(levels ...string) option {
	s.T.Helper()
	topology := &kueueapi.Topology{ObjectMeta: metav1.ObjectMeta{Name: s.name("topology")}}
	for _, level := range levels {
		topology.Spec.Levels = append(topology.Spec.Levels, kueueapi.TopologyLevel{NodeLabel: level})
	}
	s.make(topology)
	flavor := &kueueapi.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: s.name("racks")}}
	flavor.Spec.NodeLabels = map[string]string{harness.SiteLabel: s.Namespace}
	flavor.Spec.TopologyName = new(kueueapi.TopologyReference(topology.Name))
	s.make(flavor)
	return func(_ *site, spec *kueueapi.ClusterQueueSpec) {
		spec.ResourceGroups[0].Flavors[0].Name = kueueapi.ResourceFlavorReference(flavor.Name)
	}
}

// half begins a MiniCluster whose brokers take half a node each.
func (s *site) half(name string, size int32) *fixture.MiniClusterWrapper {
	return s.miniCluster(name).CPU("4").Size(size)
}

// domains are the values of a label of the nodes of a MiniCluster's brokers, with their numbers, once
// all brokers are bound.
func (s *site) domains(mc *v1alpha2.MiniCluster, label string) string {
	s.T.Helper()
	var count map[string]int32
	harness.Eventually(s.T, func() error {
		count = map[string]int32{}
		bound := 0
		for _, pod := range s.Pods(mc) {
			if pod.Spec.NodeName == "" {
				continue
			}
			var node corev1.Node
			if err := s.Cluster.Client.Get(s.Ctx, client.ObjectKey{Name: pod.Spec.NodeName}, &node); err != nil {
				return err
			}
			count[node.Labels[label]]++
			bound++
		}
		if size := int(mc.Status.Admission.Size); bound != size {
			return fmt.Errorf("%d of %d brokers of %s are bound", bound, size, mc.Name)
		}
		return nil
	})
	return counts(count)
}

// counts tells numbers of brokers by domain.
func counts(count map[string]int32) string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(count)) {
		out = append(out, fmt.Sprintf("%s:%d", name, count[name]))
	}
	return strings.Join(out, " ")
}

// assignedTo are the domains that Kueue assigned to a Workload, by the values of the innermost level.
func assignedTo(workload *kueueapi.Workload) map[string]int32 {
	count := map[string]int32{}
	for _, set := range workload.Status.Admission.PodSetAssignments {
		if set.TopologyAssignment == nil {
			continue
		}
		for _, slice := range set.TopologyAssignment.Slices {
			level := slice.ValuesPerLevel[len(slice.ValuesPerLevel)-1]
			for i := range slice.DomainCount {
				var name string
				if level.Universal != nil {
					name = *level.Universal
				} else {
					each := level.Individual
					for _, part := range []*string{each.Prefix, &each.Roots[i], each.Suffix} {
						if part != nil {
							name += *part
						}
					}
				}
				if slice.PodCounts.Universal != nil {
					count[name] += *slice.PodCounts.Universal
				} else {
					count[name] += slice.PodCounts.Individual[i]
				}
			}
		}
	}
	return count
}

// runsWhereAssigned waits until a MiniCluster runs, and checks that its brokers are where Kueue counts
// them, no more and no fewer.
func (s *site) runsWhereAssigned(mc *v1alpha2.MiniCluster, label string) string {
	s.T.Helper()
	s.AwaitState(mc, v1alpha2.StateRunning)
	workload := s.workloadOf(mc)
	got, want := s.domains(mc, label), counts(assignedTo(workload))
	if got != want {
		s.T.Errorf("%s runs in %s, and Kueue counts %s", mc.Name, got, want)
	}
	return got
}

// A gang that requires one rack gets the rack that Kueue chose, and the nodes in it. A gang that asks for
// nothing gets the nodes that Kueue chose, too: two brokers on a node, where this project would use
// more nodes. Kueue counts each broker once, so a third gang fits exactly into what is left.
func TestTopology(t *testing.T) {
	t.Parallel()
	s := newRackedSite(t, 2, 3)
	s.newQueue("team", 40, s.withTopology(rackLabel, corev1.LabelHostname), s.withPlacement())
	rack := s.create(s.half("rack", 5).PodAnnotation(kueueapi.PodSetRequiredTopologyAnnotation, rackLabel), "team")
	s.runsWhereAssigned(rack, corev1.LabelHostname)
	if got := s.domains(rack, rackLabel); got != "r1:5" {
		t.Errorf("it runs in %s", got)
	}
	anywhere := s.create(s.half("anywhere", 2), "team")
	s.runsWhereAssigned(anywhere, corev1.LabelHostname)
	rest := s.create(s.half("rest", 3), "team")
	s.runsWhereAssigned(rest, corev1.LabelHostname)
	s.succeed(rack, anywhere, rest)
	again := s.create(s.half("again", 10), "team")
	s.runsWhereAssigned(again, corev1.LabelHostname)
	s.succeed(again)
}

// placement.topologyKey asks Kueue, too. Without a level for nodes, Kueue counts brokers by rack, and
// the nodes in each rack are the scheduler's choice. The ClusterQueue has no check of ours. A launcher
// does not grow there, and leaves the idle nodes to others.
func TestTopologyOfRacks(t *testing.T) {
	t.Parallel()
	s := newRackedSite(t, 2, 3)
	s.newQueue("team", 40, s.withTopology(rackLabel))
	required := s.create(s.half("required", 3).MaxSize(8).Launcher().Grow().Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Placement = v1alpha2.PlacementSpec{TopologyKey: rackLabel, Topology: v1alpha2.TopologyRequired}
	}), "team")
	s.runsWhereAssigned(required, rackLabel)
	rest := s.create(s.half("rest", 7).Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Placement = v1alpha2.PlacementSpec{TopologyKey: rackLabel}
	}), "team")
	s.runsWhereAssigned(rest, rackLabel)
	if required.Status.Admission.Size != 3 {
		t.Errorf("it has grown to %d", required.Status.Admission.Size)
	}
	s.succeed(required, rest)
}

// Kueue grants what one rack holds. A smaller size is in the fewest of the assigned domains.
func TestTopologyAndPartialAdmission(t *testing.T) {
	t.Parallel()
	s := newRackedSite(t, 2, 3)
	s.newQueue("team", 40, s.withTopology(rackLabel, corev1.LabelHostname), s.withPlacement())
	mc := s.create(s.half("lmp", 8).MinSize(2).Tasks(8).PodAnnotation(kueueapi.PodSetRequiredTopologyAnnotation, rackLabel), "team")
	s.runsWhereAssigned(mc, corev1.LabelHostname)
	if got := s.domains(mc, rackLabel); got != "r1:6" || mc.Status.Admission.Quota.Size != 6 {
		t.Errorf("it runs in %s, with quota for %d", got, mc.Status.Admission.Quota.Size)
	}
	s.succeed(mc)
}

// A MiniCluster that lost its quota gets the domains of its next reservation, and none of the last one.
func TestTopologyAfterEviction(t *testing.T) {
	t.Parallel()
	s := newRackedSite(t, 1, 1)
	queue := s.newQueue("team", 40, s.withTopology(rackLabel, corev1.LabelHostname), s.withPlacement())
	mc := s.create(s.half("lmp", 2).PodAnnotation(kueueapi.PodSetRequiredTopologyAnnotation, rackLabel), "team")
	before := s.runsWhereAssigned(mc, corev1.LabelHostname)
	s.Patch(queue, `{"spec":{"stopPolicy":%q}}`, kueueapi.HoldAndDrain)
	s.awaitWaiting(mc, "ClusterQueue")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: strings.Split(before, ":")[0]}}
	s.Patch(node, `{"spec":{"unschedulable":true}}`)
	t.Cleanup(func() { s.Patch(node, `{"spec":{"unschedulable":null}}`) })
	s.Patch(queue, `{"spec":{"stopPolicy":%q}}`, kueueapi.None)
	if after := s.runsWhereAssigned(mc, corev1.LabelHostname); after == before {
		t.Errorf("it runs in %s again, where no pod may come", after)
	}
	s.succeed(mc)
}

// A level that the Topology does not have is refused with the levels that it has. Once the annotation
// is mended, the MiniCluster runs.
func TestUnknownTopologyLevel(t *testing.T) {
	t.Parallel()
	s := newRackedSite(t, 1)
	s.newQueue("team", 40, s.withTopology(rackLabel, corev1.LabelHostname))
	mc := s.create(s.half("lmp", 2).PodAnnotation(kueueapi.PodSetRequiredTopologyAnnotation, "example.com/block"), "team")
	s.awaitWaiting(mc, `he level "example.com/block" of `+kueueapi.PodSetRequiredTopologyAnnotation+
		" is not in the topology of its queue's flavors: their levels are "+rackLabel+", "+corev1.LabelHostname)
	s.Patch(mc, `{"spec":{"pod":{"annotations":{%q:%q}}}}`, kueueapi.PodSetRequiredTopologyAnnotation, rackLabel)
	s.runsWhereAssigned(mc, corev1.LabelHostname)
	s.succeed(mc)
}

// In a queue whose flavors have no topology, Kueue hears of no level, and placement.topologyKey is the
// scheduler's. Kueue counts the pods as others, so they have none of its annotations.
func TestTopologyKeyWithoutTopology(t *testing.T) {
	t.Parallel()
	s := newRackedSite(t, 2, 3)
	s.newQueue("team", 40, s.withPlacement())
	mc := s.create(s.half("lmp", 5).PodAnnotation(kueueapi.PodSetRequiredTopologyAnnotation, "example.com/block").Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Placement = v1alpha2.PlacementSpec{TopologyKey: rackLabel, Topology: v1alpha2.TopologyRequired}
	}), "team")
	s.AwaitState(mc, v1alpha2.StateRunning)
	if got := s.domains(mc, rackLabel); got != "r1:5" {
		t.Errorf("it runs in %s", got)
	}
	if mc.Status.Admission.Quota.Topology != nil || len(assignedTo(s.workloadOf(mc))) > 0 {
		t.Errorf("Kueue assigned %+v", mc.Status.Admission.Quota.Topology)
	}
	for _, pod := range s.Pods(mc) {
		for name := range pod.Annotations {
			if strings.HasPrefix(name, v1alpha2.KueuePodSetPrefix) {
				t.Errorf("pod %s has the annotation %s", pod.Name, name)
			}
		}
	}
	s.succeed(mc)
}
