// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// fourNodes are two racks of two nodes, the second of a kind, of which lmp has the first
// two.
func fourNodes(t *testing.T) *Cluster {
	t.Helper()
	c := NewCluster([]TopologyLevel{{"rack", "rack"}})
	for i := range 4 {
		c.SetNode(fixture.Node(fmt.Sprintf("n%d", i)).Label("rack", fmt.Sprint(i/2)).Label("kind", fmt.Sprint(i%2)).Obj())
	}
	c.SetPromise("uid-lmp", &Promise{Nodes: []string{"n0", "n1"}, Requests: fluxion.Resources{"cpu": 8000, "pods": 1}})
	return c
}

// roomOf is a room for MiniClusters with pods of 8 CPUs.
func roomOf(t *testing.T, c *Cluster, engine Engine, miniClusters ...*fixture.MiniClusterWrapper) elastic.Room {
	t.Helper()
	asks := map[string]Ask{}
	for _, mc := range miniClusters {
		obj := mc.Defaulted()
		asks[string(obj.UID)] = Request(c, obj, fixture.Pod("p").Spec(func(s *corev1.PodSpec) { s.NodeSelector = obj.Spec.Pod.NodeSelector }).Obj())
	}
	r, err := c.Room(asks, engine)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRoomPlaces(t *testing.T) {
	r := roomOf(t, fourNodes(t), nil, fixture.MiniCluster("next"))
	if fits := r.Fits("uid-next", 10); fits != 2 {
		t.Errorf("%d fit", fits)
	}
	if fits := r.Fits("uid-next", 1); fits != 1 {
		t.Errorf("%d of 1 fit", fits)
	}
	if !r.CouldHold("uid-next", []int{4}) || r.CouldHold("uid-next", []int{5}) {
		t.Error("it could hold 4, and no more")
	}
	if why := r.Why("uid-next", []int{3, 4}); !strings.HasPrefix(why, "needs room for 3 brokers of 8 cpu each; 2 of 4 nodes have room now for 2: 2 in use; it fits once 1 job has ended") {
		t.Errorf("it says %q", why)
	}
	if nodes := r.Place("uid-next", []int{3, 4}); nodes != nil {
		t.Errorf("it got %v", nodes)
	}
	tried := r.Snapshot()
	if nodes := tried.Place("uid-next", []int{1, 2, 3}); !slices.Equal(nodes, []string{"n2", "n3"}) {
		t.Errorf("it got %v", nodes)
	}
	if tried.Fits("uid-next", 10) != 0 || r.Fits("uid-next", 10) != 2 {
		t.Error("what was tried on the copy is in the original")
	}
	if tried.Place("uid-next", []int{1}) != nil {
		t.Error("it got nodes twice")
	}
	tried.Release("uid-lmp")
	tried.Release("uid-lmp")
	if tried.Why("uid-next", []int{2}) != "" {
		t.Error("what was released is not free")
	}
	if r.Place("unknown", []int{1}) != nil || r.Fits("unknown", 1) != 0 || r.CouldHold("unknown", []int{1}) || r.Why("unknown", []int{1}) == "" {
		t.Error("it knows gangs of which it was told nothing")
	}
}

func TestRoomGrowsAndShrinks(t *testing.T) {
	kind := func(s *v1alpha2.MiniClusterSpec) { s.Pod.NodeSelector = map[string]string{"kind": "1"} }
	c := fourNodes(t)
	r := roomOf(t, c, nil, fixture.MiniCluster("lmp").Spec(kind))
	if victims := r.Victims("uid-lmp", 3); !slices.Equal(victims, []int{1}) {
		t.Errorf("victims %v", victims)
	}
	// It grows only where it may be, and gets its lowest rank that has no node.
	r.Shrink("uid-lmp", []int{0, 1, 1, 7})
	r.Shrink("unknown", []int{1})
	if pods := r.Grow("uid-lmp", 9); !slices.Equal(pods, []elastic.Pod{{Rank: 1, Node: "n1"}, {Rank: 2, Node: "n3"}}) {
		t.Errorf("it got %v", pods)
	}
	if pods := r.Grow("unknown", 1); pods != nil {
		t.Errorf("nobody got %v", pods)
	}
	if again := roomOf(t, c, nil).Victims("uid-lmp", 3); !slices.Equal(again, []int{1}) {
		t.Errorf("the cluster has changed with the room: %v", again)
	}
}

func TestRoomKeepsToOneRack(t *testing.T) {
	rack := func(s *v1alpha2.MiniClusterSpec) {
		s.Placement = v1alpha2.PlacementSpec{TopologyKey: "rack", Topology: v1alpha2.TopologyRequired}
	}
	r := roomOf(t, fourNodes(t), nil, fixture.MiniCluster("next").Spec(rack), fixture.MiniCluster("lmp").Spec(rack))
	if r.CouldHold("uid-next", []int{3}) || !r.CouldHold("uid-next", []int{2}) {
		t.Error("a rack has two nodes")
	}
	if pods := r.Grow("uid-lmp", 2); len(pods) > 0 {
		t.Errorf("it grew beyond its rack: %v", pods)
	}
	if nodes := r.Place("uid-next", []int{1, 2}); !slices.Equal(nodes, []string{"n2", "n3"}) {
		t.Errorf("it got %v", nodes)
	}
}

// What an attempt before has left is free only when it is gone, and does not keep the
// next one from being placed.
func TestRoomForTheNextAttempt(t *testing.T) {
	c := clusterOf(fixture.Nodes("a", "b"), []*corev1.Pod{fixture.BrokerPod("lmp", 3).On("a").Up().Leaving().Obj()}, nil)
	r := roomOf(t, c, nil, fixture.MiniCluster("lmp"))
	if without := r.Snapshot(); without.Place("uid-lmp", []int{2}) != nil {
		t.Error("it got what is held yet")
	}
	without := r.Snapshot()
	without.Release("uid-lmp")
	if nodes := without.Place("uid-lmp", []int{2}); !slices.Equal(nodes, []string{"a", "b"}) {
		t.Errorf("without its pods it gets %v", nodes)
	}
	if nodes := r.Place("uid-lmp", []int{1}); !slices.Equal(nodes, []string{"b"}) {
		t.Errorf("it got %v", nodes)
	}
	r.Release("uid-lmp")
	if fits := r.Fits("uid-lmp", 9); fits != 1 {
		t.Errorf("%d fit", fits)
	}
}

// engine is another one, which is as good as its answers.
type engine struct {
	placement fluxion.Placement
	refusal   *fluxion.Refusal
}

func (e engine) MatchGang(fluxion.Gang) (fluxion.Placement, *fluxion.Refusal) {
	return e.placement, e.refusal
}

func TestRoomWithAnotherEngine(t *testing.T) {
	for name, tc := range map[string]struct {
		engine engine
		want   []string
	}{
		"its choice":               {engine{placement: fluxion.Placement{Nodes: []string{"n3"}}}, []string{"n3"}},
		"what it refuses":          {engine{refusal: &fluxion.Refusal{}}, []string{"n2"}},
		"what it cannot have":      {engine{placement: fluxion.Placement{Nodes: []string{"n0"}}}, []string{"n2"}},
		"a size that is not asked": {engine{placement: fluxion.Placement{Nodes: []string{"n2", "n3"}}}, []string{"n2"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := roomOf(t, fourNodes(t), func(*fluxion.Graph) GangMatcher { return tc.engine }, fixture.MiniCluster("next"))
			if nodes := r.Snapshot().Place("uid-next", []int{1}); !slices.Equal(nodes, []string{"n2"}) {
				t.Errorf("a copy gives %v", nodes)
			}
			if nodes := r.Place("uid-next", []int{1}); !slices.Equal(nodes, tc.want) {
				t.Errorf("got %v, want %v", nodes, tc.want)
			}
		})
	}
}

// An Ask stays true when nodes come: what it excludes goes by the nodes of the room.
func TestAsksOutliveTheGraph(t *testing.T) {
	c := fourNodes(t)
	ask := Request(c, fixture.MiniCluster("next").Defaulted(),
		fixture.Pod("p").Spec(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"kind": "1"} }).Obj())
	c.SetNode(fixture.Node("a").Label("kind", "1").Obj())
	r, err := c.Room(map[string]Ask{"next": ask}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if nodes := r.Place("next", []int{2}); !slices.Equal(nodes, []string{"a", "n3"}) {
		t.Errorf("got %v", nodes)
	}
}
