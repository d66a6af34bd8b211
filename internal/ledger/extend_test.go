// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// of16 are nodes of 16 CPUs.
func of16(change ...func(*state.Shape)) state.Shape {
	s := state.Shape{Name: "of16", Capacity: fluxion.Resources{"cpu": 16000, "pods": 110}}
	for _, f := range change {
		f(&s)
	}
	return s
}

// Where a gang could be on nodes that do not exist, the matcher says: it knows the pods' selectors, tolerations and
// volumes, what else is on the nodes, and how the pods have to be to each other.
func TestNodesThatCouldCome(t *testing.T) {
	type fits struct{ all, apart int }
	pool := func(s *state.Shape) { s.Labels = map[string]string{"pool": "hpc"} }
	gpu := func(s *state.Shape) { s.Taints = []corev1.Taint{{Key: "gpu", Effect: corev1.TaintEffectNoSchedule}} }
	for name, tc := range map[string]struct {
		mc    *fixture.MiniClusterWrapper
		spec  func(*corev1.PodSpec)
		shape state.Shape
		nodes int
		want  fits
	}{
		"as it is, one node of 8 CPUs is free, and each broker takes 8": {mc: fixture.MiniCluster("next"), shape: of16(), want: fits{1, 1}},
		"two more nodes":              {mc: fixture.MiniCluster("next"), shape: of16(), nodes: 2, want: fits{5, 3}},
		"no more than there could be": {mc: fixture.MiniCluster("next"), shape: of16(), nodes: 9, want: fits{9, 5}},
		"whole nodes":                 {mc: fixture.MiniCluster("next").Spec(func(s *v1alpha2.MiniClusterSpec) { s.Placement.Exclusive = true }), shape: of16(), nodes: 2, want: fits{3, 3}},
		"of another pool": {
			mc: fixture.MiniCluster("next"), shape: of16(pool), nodes: 2,
			spec: func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"pool": "web"} },
		},
		"of the pool that the pods select": {
			mc: fixture.MiniCluster("next"), shape: of16(pool), nodes: 2, want: fits{4, 2},
			spec: func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"pool": "hpc"} },
		},
		"with a taint that the pods do not tolerate": {mc: fixture.MiniCluster("next"), shape: of16(gpu), nodes: 2, want: fits{1, 1}},
		"or do": {
			mc: fixture.MiniCluster("next"), shape: of16(gpu), nodes: 2, want: fits{5, 3},
			spec: func(s *corev1.PodSpec) {
				s.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
			},
		},
		"too small": {mc: fixture.MiniCluster("next"), shape: of16(func(s *state.Shape) { s.Capacity = fluxion.Resources{"cpu": 7000, "pods": 9} }), nodes: 2, want: fits{1, 1}},
		"all in one zone, which the new nodes can all be in": {
			mc: fixture.MiniCluster("next").Topology(corev1.LabelTopologyZone, v1alpha2.TopologyRequired), shape: of16(), nodes: 2, want: fits{4, 2},
		},
		"all in the zone of nodes that exist": {
			mc: fixture.MiniCluster("next").Topology(corev1.LabelTopologyZone, v1alpha2.TopologyRequired), nodes: 2, want: fits{5, 3},
			shape: of16(func(s *state.Shape) { s.Labels = map[string]string{corev1.LabelTopologyZone: "a"} }),
		},
		"all in one rack, of which nothing is known": {
			mc: fixture.MiniCluster("next").Topology("cloud.provider.com/topology-rack", v1alpha2.TopologyRequired), shape: of16(), nodes: 2,
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := New(state.TopologyLevels, nil)
			for _, node := range []string{"n0", "n1"} {
				l.SetNode(fixture.Node(node).Label(corev1.LabelTopologyZone, "a").Obj())
			}
			l.Confirm("uid-lmp", &state.Promise{Nodes: []string{"n0"}, Requests: fluxion.Resources{"cpu": 8000, "pods": 1}})
			mc := tc.mc.Queue("default").Defaulted()
			pod := fixture.Pod("p").Spec(func(s *corev1.PodSpec) {
				if tc.spec != nil {
					tc.spec(s)
				}
			}).Obj()
			if mc.Spec.Placement.Exclusive {
				pod.Labels = map[string]string{v1alpha2.UIDLabel: "uid-next", v1alpha2.ExclusiveLabel: "true"}
			}
			l.CouldCome(map[string][]Could{"default": {{Shape: of16(), Nodes: 0}, {Shape: tc.shape, Nodes: 4}}})
			asks := asks{"uid-next": requestOf(l, mc, pod), "uid-other": requestOf(l, fixture.MiniCluster("other").Queue("other").Defaulted(), pod)}
			r, err := l.Room(asks.of)
			if err != nil {
				t.Fatal(err)
			}
			with := r.With("default", []int{0, tc.nodes})
			if got := (fits{with.Fits("uid-next", 99), with.FitsApart("uid-next", 99)}); got != tc.want {
				t.Errorf("%+v fit, want %+v", got, tc.want)
			}
			if tc.want.all > 0 && len(with.Snapshot().Place("uid-next", []int{tc.want.all})) != tc.want.all {
				t.Error("it cannot be placed where it fits")
			}
			if got, before := with.Fits("uid-other", 99), r.Fits("uid-other", 99); got != before {
				t.Errorf("a gang of another queue has room for %d, and had for %d", got, before)
			}
		})
	}
}

// What is tried with nodes that could come changes nothing else, and holds also after further nodes, also of another
// queue.
func TestNodesOfTwoQueues(t *testing.T) {
	l := New(nil, nil)
	l.SetNode(fixture.Node("n0").Obj())
	l.CouldCome(map[string][]Could{"a": {{Shape: of16(), Nodes: 3}}, "b": {{Shape: of16(), Nodes: 3}}})
	r := roomOf(t, l, fixture.MiniCluster("x").Queue("a"), fixture.MiniCluster("y").Queue("b"), fixture.MiniCluster("z").Queue("b"))
	first := r.With("a", []int{1})
	if first.Place("uid-x", []int{3}) == nil {
		t.Fatal("x does not fit on one node that exists and one of twice the size")
	}
	for name, tc := range map[string]struct {
		room       queue.Room
		x, y, left int
	}{
		"before":                   {r, 1, 1, 1},
		"after x":                  {first, 0, 0, 0},
		"with a node for b":        {first.With("b", []int{1}), 0, 2, 2},
		"and two more for a":       {first.With("b", []int{1}).With("a", []int{3}), 4, 2, 2},
		"and two more for b":       {first.With("b", []int{1}).With("a", []int{3}).With("b", []int{3}), 4, 6, 6},
		"with other nodes instead": {r.With("b", []int{2}), 1, 5, 5},
	} {
		if name != "before" && name != "with other nodes instead" {
			tc.room = tc.room.Snapshot()
			tc.room.Release("uid-none")
		}
		if y, z := tc.room.Fits("uid-y", 99), tc.room.Fits("uid-z", 99); y != tc.y || z != tc.left {
			t.Errorf("%s: %d of y and %d of z fit, want %d", name, y, z, tc.y)
		}
	}
	ended := first.With("a", []int{3})
	ended.Release("uid-x")
	if got := ended.Fits("uid-x", 99); got != 7 {
		t.Errorf("after its end %d fit", got)
	}
	all := r.With("a", []int{3})
	if got := all.Fits("uid-x", 99); got != 7 {
		t.Errorf("%d fit in the room of the beginning", got)
	}
	if !all.CouldHold("uid-x", []int{7}) || all.CouldHold("uid-x", []int{8}) || r.With("a", []int{2}).CouldHold("uid-x", []int{6}) || all.CouldHold("uid-y", []int{2}) {
		t.Error("it is wrong about what the empty cluster could hold")
	}
}

// Nodes that are coming are those that were made since, are not ready yet, and are not to go again.
func TestComing(t *testing.T) {
	l := New(nil, nil)
	l.Nodes = labels.SelectorFromSet(labels.Set{"batch": "flux"})
	made := func(name string, after time.Duration) *corev1.Node {
		node := fixture.Node(name).Label("batch", "flux").Obj()
		node.CreationTimestamp.Time = fixture.Noon.Add(after)
		return node
	}
	old, ready, coming, starting, going, other := made("old", -time.Hour), made("ready", time.Minute), made("coming", time.Second), made("starting", 0), made("going", 2*time.Second), made("other", time.Hour)
	for _, node := range []*corev1.Node{old, coming, going} {
		node.Status.Conditions = nil
	}
	starting.Spec.Taints = []corev1.Taint{{Key: "karpenter.sh/unregistered", Effect: corev1.TaintEffectNoExecute}}
	going.Spec.Taints = []corev1.Taint{{Key: "karpenter.sh/disrupted", Effect: corev1.TaintEffectNoSchedule}}
	other.Labels, other.Status.Conditions = nil, nil
	for _, node := range []*corev1.Node{old, ready, coming, starting, going, other} {
		l.SetNode(node)
	}
	if nodes, last := l.Coming(fixture.Noon.Add(300 * time.Millisecond)); nodes != 2 || !last.Equal(ready.CreationTimestamp.Time) {
		t.Errorf("%d are coming, the last was made at %s", nodes, last)
	}
	shape := state.Shape{Labels: map[string]string{"batch": "flux"}}
	if got := l.There(&shape); got != 5 {
		t.Errorf("%d are there", got)
	}
	if got := l.Up([]state.Shape{shape}, nil); got != 1 {
		t.Errorf("%d are up", got)
	}
	if got := l.Up([]state.Shape{shape}, map[string]bool{"ready": true}); got != 0 {
		t.Errorf("%d are up that others do not have", got)
	}
}

// Nodes that an autoscaler removed come back only for those who ask for them.
func TestRemovedNodesDoNotReturn(t *testing.T) {
	for shape, want := range map[string]bool{"": true, "hpc": false, "web": true} {
		l := New(nil, nil)
		for i := range 4 {
			l.SetNode(fixture.Node(fmt.Sprint("n", i)).Label("pool", "hpc").Obj())
		}
		l.DeleteNode("n3")
		if shape != "" {
			l.CouldCome(map[string][]Could{"default": {{Shape: of16(func(s *state.Shape) { s.Labels = map[string]string{"pool": shape} })}}})
		}
		r := roomOf(t, l, fixture.MiniCluster("next").Queue("default"))
		if got := r.CouldHold("uid-next", []int{4}); got != want {
			t.Errorf("where nodes of pool %q could come: it could hold 4: %t", shape, got)
		}
		if got := strings.Contains(r.Why("uid-next", []int{4}), "may come back"); got != want {
			t.Errorf("where nodes of pool %q could come: %s", shape, r.Why("uid-next", []int{4}))
		}
	}
}
