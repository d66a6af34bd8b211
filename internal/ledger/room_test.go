// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// fourNodes are two racks of two nodes, the second of a kind, of which lmp has the first
// two.
func fourNodes(t *testing.T) *Ledger {
	t.Helper()
	c := New([]state.TopologyLevel{{Name: "rack", Label: "rack"}}, nil)
	for i := range 4 {
		c.SetNode(fixture.Node(fmt.Sprintf("n%d", i)).Label("rack", fmt.Sprint(i/2)).Label("kind", fmt.Sprint(i%2)).Obj())
	}
	c.Confirm("uid-lmp", &state.Promise{Nodes: []string{"n0", "n1"}, Requests: fluxion.Resources{"cpu": 8000, "pods": 1}})
	return c
}

// asks are what gangs ask for, by ID.
type asks map[string]state.Ask

func (a asks) of(id string) (state.Ask, bool) {
	ask, ok := a[id]
	return ask, ok
}

// roomOf is a room for MiniClusters with pods of 8 CPUs.
func roomOf(t *testing.T, c *Ledger, miniClusters ...*fixture.MiniClusterWrapper) queue.Room {
	t.Helper()
	asks := asks{}
	for _, mc := range miniClusters {
		obj := mc.Defaulted()
		asks[string(obj.UID)] = requestOf(c, obj, fixture.Pod("p").Spec(func(s *corev1.PodSpec) { s.NodeSelector = obj.Spec.Pod.NodeSelector }).Obj())
	}
	r, err := c.Room(asks.of)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// What one gang could use does not hold another, also if it is in use.
func TestRoomBesideOthers(t *testing.T) {
	of := func(kind string) *fixture.MiniClusterWrapper {
		w := fixture.MiniCluster("kind" + kind)
		if kind != "" {
			w.Spec(func(s *v1alpha2.MiniClusterSpec) { s.Pod.NodeSelector = map[string]string{"kind": kind} })
		}
		return w
	}
	r := roomOf(t, fourNodes(t), of(""), of("0"), of("1"))
	for _, tc := range []struct {
		id     string
		others []string
		most   int
	}{
		{"uid-kind", nil, 4}, {"uid-kind", []string{"uid-kind0"}, 2}, {"uid-kind", []string{"uid-kind0", "uid-kind1"}, 0},
		{"uid-kind0", []string{"uid-kind1", "unknown"}, 2}, {"uid-kind0", []string{"uid-kind"}, 0}, {"unknown", nil, 0},
	} {
		for size := range 5 {
			if got := r.CouldHoldBeside(tc.id, []int{size + 1}, tc.others); got != (size < tc.most) {
				t.Errorf("%d of %s beside %v: %v", size+1, tc.id, tc.others, got)
			}
		}
	}
}

func TestRoomPlaces(t *testing.T) {
	r := roomOf(t, fourNodes(t), fixture.MiniCluster("next"))
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
	r := roomOf(t, c, fixture.MiniCluster("lmp").Spec(kind))
	if victims := r.Victims("uid-lmp", 3, ""); !slices.Equal(victims, []int{1}) {
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
	if again := roomOf(t, c).Victims("uid-lmp", 3, ""); !slices.Equal(again, []int{1}) {
		t.Errorf("the cluster has changed with the room: %v", again)
	}
}

// No gang grows onto nodes that a waiting gang could use, also if that gang avoids them now or could
// use them only after others have gone.
func TestRoomKeepsNodesForOthers(t *testing.T) {
	waits := func(kind string) *fixture.MiniClusterWrapper {
		return fixture.MiniCluster("next").Spec(func(s *v1alpha2.MiniClusterSpec) { s.Pod.NodeSelector = map[string]string{"kind": kind} })
	}
	for name, tc := range map[string]struct {
		waits *fixture.MiniClusterWrapper
		want  []elastic.Pod
	}{
		"of one kind":       {waits("1"), []elastic.Pod{{Rank: 2, Node: "n2"}}},
		"of the other kind": {waits("0"), []elastic.Pod{{Rank: 2, Node: "n3"}}},
		"of no kind":        {waits("2"), []elastic.Pod{{Rank: 2, Node: "n2"}, {Rank: 3, Node: "n3"}}},
		"of all kinds":      {fixture.MiniCluster("next"), nil},
		"one is avoided": {waits("1").Status(func(s *v1alpha2.MiniClusterStatus) {
			s.Avoid = &v1alpha2.Avoid{Nodes: "n3", Until: metav1.NewTime(fixture.Noon)}
		}), []elastic.Pod{{Rank: 2, Node: "n2"}}},
	} {
		t.Run(name, func(t *testing.T) {
			r := roomOf(t, fourNodes(t), tc.waits, fixture.MiniCluster("lmp"))
			kept := r.Snapshot()
			kept.Keep("uid-next")
			if pods := kept.Snapshot().Grow("uid-lmp", 9); !slices.Equal(pods, tc.want) {
				t.Errorf("it got %v", pods)
			}
			if pods := r.Grow("uid-lmp", 9); len(pods) != 2 {
				t.Errorf("where nothing is kept it got %v", pods)
			}
		})
	}
	r := roomOf(t, fourNodes(t), waits("1"))
	r.Keep("uid-next")
	if pods := r.Grow("uid-lmp", 9); pods != nil {
		t.Errorf("one whose nodes are not known got %v", pods)
	}
}

func TestRoomKeepsToOneRack(t *testing.T) {
	rack := func(s *v1alpha2.MiniClusterSpec) {
		s.Placement = v1alpha2.PlacementSpec{TopologyKey: "rack", Topology: v1alpha2.TopologyRequired}
	}
	r := roomOf(t, fourNodes(t), fixture.MiniCluster("next").Spec(rack), fixture.MiniCluster("lmp").Spec(rack))
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
	r := roomOf(t, c, fixture.MiniCluster("lmp"))
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

// The matcher has the last word on the nodes, but not on what is free.
func TestChoose(t *testing.T) {
	for name, tc := range map[string]struct {
		chosen  []string
		refusal *fluxion.Refusal
		decided string
		want    []string
	}{
		"its choice":                   {[]string{"n3"}, nil, "n2", []string{"n3"}},
		"what it refuses":              {nil, &fluxion.Refusal{}, "n2", []string{"n2"}},
		"what it cannot have":          {[]string{"n0"}, nil, "n2", []string{"n2"}},
		"a size that is not asked":     {[]string{"n2", "n3"}, nil, "n2", []string{"n2"}},
		"nor what others were assumed": {[]string{"n0"}, nil, "n1", nil},
	} {
		t.Run(name, func(t *testing.T) {
			c := fourNodes(t)
			c.matcher = func(_ *fluxion.Graph, gang fluxion.Gang) (fluxion.Placement, *fluxion.Refusal) {
				if !slices.Equal(gang.Sizes, []int{1}) {
					t.Errorf("it is asked for %v", gang.Sizes)
				}
				return fluxion.Placement{Nodes: tc.chosen}, tc.refusal
			}
			ask := requestOf(c, fixture.MiniCluster("next").Defaulted(), fixture.Pod("p").Obj())
			if nodes := c.Choose(ask, []string{tc.decided}); !slices.Equal(nodes, tc.want) {
				t.Errorf("got %v, want %v", nodes, tc.want)
			}
		})
	}
}

// The matcher chooses for a gang although pods of its last attempt have not ended.
func TestChooseForTheNextAttempt(t *testing.T) {
	c := clusterOf(fixture.Nodes("a", "b", "c"), []*corev1.Pod{fixture.BrokerPod("lmp", 3).On("a").Up().Leaving().Obj()}, nil)
	c.matcher = func(graph *fluxion.Graph, gang fluxion.Gang) (fluxion.Placement, *fluxion.Refusal) {
		return graph.MatchGang(gang)
	}
	ask := requestOf(c, fixture.MiniCluster("lmp").Defaulted(), fixture.Pod("p").CPU("8").Obj())
	if nodes := c.Choose(ask, []string{"c"}); !slices.Equal(nodes, []string{"b"}) {
		t.Errorf("got %v", nodes)
	}
}

// An Ask stays true when nodes come: what it excludes goes by the nodes of the room.
func TestAsksOutliveTheGraph(t *testing.T) {
	c := fourNodes(t)
	ask := requestOf(c, fixture.MiniCluster("next").Defaulted(),
		fixture.Pod("p").Spec(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"kind": "1"} }).Obj())
	c.SetNode(fixture.Node("a").Label("kind", "1").Obj())
	r, err := c.Room(asks{"next": ask}.of)
	if err != nil {
		t.Fatal(err)
	}
	if nodes := r.Place("next", []int{2}); !slices.Equal(nodes, []string{"a", "n3"}) {
		t.Errorf("got %v", nodes)
	}
}

// Nodes are avoided for a while, as long as others would do.
func TestRoomAvoidsNodes(t *testing.T) {
	avoids := func(size int32, nodes string) *fixture.MiniClusterWrapper {
		return fixture.MiniCluster("lmp").Size(size).Status(func(s *v1alpha2.MiniClusterStatus) {
			s.Avoid = &v1alpha2.Avoid{Nodes: nodes, Until: metav1.NewTime(fixture.Noon)}
		})
	}
	for name, tc := range map[string]struct {
		mc   *fixture.MiniClusterWrapper
		at   time.Time
		want []string
	}{
		"avoided":                           {avoids(2, "a"), fixture.Noon.Add(-time.Second), []string{"b", "c"}},
		"no longer":                         {avoids(2, "a"), fixture.Noon, []string{"a", "b"}},
		"without them it would never fit":   {avoids(3, "a"), fixture.Noon.Add(-time.Second), []string{"a", "b", "c"}},
		"nodes that are not there":          {avoids(3, "x[1-9]"), fixture.Noon.Add(-time.Second), []string{"a", "b", "c"}},
		"what cannot be read avoids nobody": {avoids(3, "x["), fixture.Noon.Add(-time.Second), []string{"a", "b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := clusterOf(fixture.Nodes("a", "b", "c"), nil, map[types.UID]state.Promise{})
			mc := tc.mc.Defaulted()
			r, err := c.Room(asks{"uid-lmp": requestOf(c, mc, fixture.Pod("p").Obj()).At(tc.at)}.of)
			if err != nil {
				t.Fatal(err)
			}
			if nodes := r.Place("uid-lmp", []int{int(mc.Spec.Size)}); !slices.Equal(nodes, tc.want) {
				t.Errorf("it got %v, want %v", nodes, tc.want)
			}
		})
	}
}

// A gang with n pods leaves room for n pods less of gangs like it, wherever its pods are: queue.Gang.Confined.
func TestGangsLeaveRoomForFewerLikeThem(t *testing.T) {
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		c := New([]state.TopologyLevel{{Name: "rack", Label: "rack"}}, nil)
		for i := range 10 {
			c.SetNode(fixture.Node(fmt.Sprintf("n%d", i)).Label("rack", fmt.Sprint(random.IntN(3))).Has("cpu", fmt.Sprint(4+random.IntN(12))).Obj())
			if i%2 == 0 {
				c.SetPod(fixture.Pod(fmt.Sprint("p", i)).CPU(fmt.Sprint(random.IntN(4))).On(fmt.Sprintf("n%d", i)).Obj())
			}
		}
		asks := asks{}
		for _, name := range []string{"a", "b"} {
			mc := fixture.MiniCluster(name).Spec(func(s *v1alpha2.MiniClusterSpec) { s.Network.DisableAffinity = seed%2 == 0 })
			if seed%3 == 0 {
				mc.Topology("rack", v1alpha2.TopologyPreferred)
			}
			if seed%5 == 0 {
				mc.Policy(v1alpha2.PlacementSpread)
			}
			pod := fixture.Pod("p").CPU(fmt.Sprint(1 + seed%4)).Obj()
			if seed%4 == 0 {
				pod = alonePod(name, 0).CPU("2").Obj()
			}
			asks["uid-"+name] = requestOf(c, mc.Defaulted(), pod)
		}
		r, err := c.Room(asks.of)
		if err != nil {
			t.Fatal(err)
		}
		before := r.Fits("uid-b", 1000)
		if before == 0 {
			t.Fatalf("seed %d: nothing fits", seed)
		}
		n := len(r.Place("uid-a", []int{1 + random.IntN(before)}))
		if left := r.Fits("uid-b", 1000); left != before-n {
			t.Errorf("seed %d: %d of %d fit beside %d", seed, left, before, n)
		}
	}
}
