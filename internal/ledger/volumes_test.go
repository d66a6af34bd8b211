// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// reachedBy is a volume that nodes with some value of a label reach.
func reachedBy(volume, label string, values ...string) state.Volume {
	var terms []corev1.NodeSelectorTerm
	for _, value := range values {
		terms = append(terms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: label, Operator: corev1.NodeSelectorOpIn, Values: []string{value},
		}}})
	}
	return state.Volume{Nodes: &corev1.NodeSelector{NodeSelectorTerms: terms}, Reason: "cannot reach volume " + volume}
}

// A gang gets nodes that reach all of its volumes, and is told how many do not.
func TestRoomOfVolumes(t *testing.T) {
	rack0, both, kind1 := reachedBy("rack0", "rack", "0"), reachedBy("both", "rack", "0", "1"), reachedBy("kind1", "kind", "1")
	broken := state.Volume{Reason: "cannot reach volume broken", Nodes: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "rack", Operator: "Likes", Values: []string{"0"}}},
	}}}}
	for name, tc := range map[string]struct {
		volumes []state.Volume
		pod     func(*corev1.PodSpec)
		sizes   []int
		want    []string
		why     string // at the largest size
		never   bool
	}{
		"without volumes": {sizes: []int{3, 4}, want: []string{"n0", "n1", "n2", "n3"}},
		"a volume that some nodes reach": {
			volumes: []state.Volume{rack0}, sizes: []int{1, 2, 3}, want: []string{"n0", "n1"}, never: true,
			why: "needs room for 3 brokers of 8 cpu each; the whole cluster of 4 nodes has room for 2: 2 cannot reach volume rack0",
		},
		"terms are alternatives": {volumes: []state.Volume{both}, sizes: []int{4}, want: []string{"n0", "n1", "n2", "n3"}},
		"volumes are not": {
			volumes: []state.Volume{rack0, kind1}, sizes: []int{1, 2}, want: []string{"n1"}, never: true,
			why: "needs room for 2 brokers of 8 cpu each; the whole cluster of 4 nodes has room for 1: 2 cannot reach volume rack0, 1 cannot reach volume kind1",
		},
		"a volume and the labels of the pod": {
			volumes: []state.Volume{kind1}, pod: func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"rack": "1"} },
			sizes: []int{1, 2}, want: []string{"n3"}, never: true,
			why: "needs room for 2 brokers of 8 cpu each; the whole cluster of 4 nodes has room for 1: 2 not selected by the pod's node labels, 1 cannot reach volume kind1",
		},
		"a volume that cannot be used": {
			volumes: []state.Volume{{Nodes: &corev1.NodeSelector{}, Reason: "without its volume"}}, sizes: []int{1}, never: true,
			why: "needs room for 1 broker of 8 cpu each; the whole cluster of 4 nodes has room for 0: 4 without its volume",
		},
		"an affinity that cannot be read": {
			volumes: []state.Volume{broken}, sizes: []int{1}, never: true,
			why: "needs room for 1 broker of 8 cpu each; the whole cluster of 4 nodes has room for 0: 4 cannot reach volume broken",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := fourNodes(t)
			c.Confirm("uid-lmp", nil)
			pod := fixture.Pod("p").Spec(func(s *corev1.PodSpec) {
				if tc.pod != nil {
					tc.pod(s)
				}
			}).Obj()
			ask := requestOf(c, fixture.MiniCluster("next").Defaulted(), pod)
			ask.Reach = state.Reach{Volumes: tc.volumes, Key: name}
			r, err := c.Room(asks{"next": ask}.of)
			if err != nil {
				t.Fatal(err)
			}
			most := tc.sizes[len(tc.sizes)-1:]
			if why := r.Why("next", most); why != tc.why {
				t.Errorf("it is told %q, want %q", why, tc.why)
			}
			if could := r.CouldHold("next", most); could == tc.never {
				t.Errorf("the empty cluster could hold it: %v", could)
			}
			if nodes := r.Place("next", tc.sizes); !slices.Equal(nodes, tc.want) {
				t.Errorf("it got %v, want %v", nodes, tc.want)
			}
		})
	}
}

// A running gang grows onto nodes that reach its volumes, and the answer follows the nodes.
func TestVolumesOfRunningGangs(t *testing.T) {
	c := fourNodes(t)
	ask := requestOf(c, fixture.MiniCluster("lmp").Defaulted(), fixture.Pod("p").Obj())
	ask.Reach = state.Reach{Volumes: []state.Volume{reachedBy("kind1", "kind", "1")}, Key: "kind1"}
	grown := func() []elastic.Pod {
		t.Helper()
		r, err := c.Room(asks{"uid-lmp": ask}.of)
		if err != nil {
			t.Fatal(err)
		}
		return r.Grow("uid-lmp", 9)
	}
	if pods := grown(); !slices.Equal(pods, []elastic.Pod{{Rank: 2, Node: "n3"}}) {
		t.Errorf("it got %v", pods)
	}
	c.SetNode(fixture.Node("n2").Label("rack", "1").Label("kind", "1").Obj())
	if pods := grown(); !slices.Equal(pods, []elastic.Pod{{Rank: 2, Node: "n2"}, {Rank: 3, Node: "n3"}}) {
		t.Errorf("after a node got the label it got %v", pods)
	}
}

// The exclusions are made once per cluster, and those of volumes do not change those of the pod.
func TestExclusionsOfVolumesAreCached(t *testing.T) {
	c := fourNodes(t)
	graph := graphOf(t, c)
	pod := fixture.Pod("p").Spec(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"rack": "1"} }).Obj()
	ask := requestOf(c, fixture.MiniCluster("next").Defaulted(), pod)
	for i := range 3 {
		ask.Reach = state.Reach{Volumes: []state.Volume{reachedBy(fmt.Sprint(i%2), "kind", fmt.Sprint(i%2))}, Key: fmt.Sprint(i % 2)}
		if got := c.gangOf(graph, ask).Pods.Infeasible; len(got) != 2 || got[1].Reason != "cannot reach volume "+fmt.Sprint(i%2) {
			t.Errorf("look %d: %v", i, got)
		}
	}
	if len(c.exclusions) != 3 || len(c.excluded(graph, ask.Places)) != 1 {
		t.Errorf("%d are cached, and those of the pod are %v", len(c.exclusions), c.excluded(graph, ask.Places))
	}
}
