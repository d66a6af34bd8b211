// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// at is a time so many minutes after noon.
func at(minutes int) time.Time { return fixture.Noon.Add(time.Duration(minutes) * time.Minute) }

func maintenance(nodes ...string) Reservation {
	return Reservation{Name: "maintenance", Nodes: nodes, From: at(60), Until: at(120)}
}

func research(nodes ...string) Reservation {
	return Reservation{Name: "course", Queue: "research", Nodes: nodes, From: at(60), Until: at(120)}
}

// limited lasts a minute to start, so many minutes, and a minute to end.
func limited(minutes int64) *fixture.MiniClusterWrapper {
	return fixture.MiniCluster("next").Deadline(60 * minutes).Spec(func(s *v1alpha2.MiniClusterSpec) {
		s.Elastic.StartTimeout = &metav1.Duration{Duration: time.Minute}
	})
}

func TestReservationsKeepOff(t *testing.T) {
	for name, tc := range map[string]struct {
		of   []Reservation
		mc   *fixture.MiniClusterWrapper
		at   time.Time
		want string
	}{
		"without a time limit":                     {[]Reservation{maintenance("a", "b")}, fixture.MiniCluster("next"), at(0), "c"},
		"it ends when the reservation begins":      {[]Reservation{maintenance("a", "b")}, limited(58), at(0), "a b c"},
		"it may end a minute later":                {[]Reservation{maintenance("a", "b")}, limited(59), at(0), "c"},
		"the same, if it starts a second later":    {[]Reservation{maintenance("a", "b")}, limited(58), at(0).Add(time.Second), "c"},
		"short, but the reservation has begun":     {[]Reservation{maintenance("a", "b")}, limited(1), at(60), "c"},
		"short, just before the end":               {[]Reservation{maintenance("a", "b")}, limited(1), at(120).Add(-time.Second), "c"},
		"at the end":                               {[]Reservation{maintenance("a", "b")}, fixture.MiniCluster("next"), at(120), "a b c"},
		"for its queue, before":                    {[]Reservation{research("a", "b")}, fixture.MiniCluster("next").Queue("research"), at(0), "a b c"},
		"for its queue, meanwhile":                 {[]Reservation{research("a", "b")}, fixture.MiniCluster("next").Queue("research"), at(60), "a b c"},
		"for another queue":                        {[]Reservation{research("a", "b")}, fixture.MiniCluster("next").Queue("other"), at(60), "c"},
		"two, of which one is for its queue":       {[]Reservation{research("a", "b"), maintenance("b", "c")}, fixture.MiniCluster("next").Queue("research"), at(60), "a"},
		"a node that is not there reserves nobody": {[]Reservation{maintenance("x")}, fixture.MiniCluster("next"), at(60), "a b c"},
	} {
		t.Run(name, func(t *testing.T) {
			c := clusterOf(fixture.Nodes("a", "b", "c"), nil, nil)
			c.Reserve(tc.of, tc.at)
			mc := tc.mc.Size(3).MinSize(1).Defaulted()
			ask := requestOf(c, mc, fixture.Pod("p").Obj()).At(tc.at)
			r, err := c.Room(asks{"next": ask}.of)
			if err != nil {
				t.Fatal(err)
			}
			if nodes := strings.Join(r.Place("next", []int{1, 2, 3}), " "); nodes != tc.want {
				t.Errorf("it gets %q, want %q", nodes, tc.want)
			}
			if !r.CouldHold("next", []int{3}) {
				t.Error("reserved nodes count as lost for good")
			}
		})
	}
}

// The matcher has no say about reserved nodes.
func TestChooseKeepsOffReservedNodes(t *testing.T) {
	c := clusterOf(fixture.Nodes("a", "b"), nil, nil)
	c.matcher = func(graph *fluxion.Graph, gang fluxion.Gang) (fluxion.Placement, *fluxion.Refusal) {
		return graph.MatchGang(gang)
	}
	c.Reserve([]Reservation{maintenance("a")}, at(0))
	if nodes := c.Choose(requestOf(c, fixture.MiniCluster("next").Defaulted(), fixture.Pod("p").Obj()), []string{"b"}); !slices.Equal(nodes, []string{"b"}) {
		t.Errorf("it gets %v", nodes)
	}
}

func TestRefusalsNameReservations(t *testing.T) {
	for name, tc := range map[string]struct {
		at   time.Time
		want string
	}{
		"before":    {at(0), "needs room for 3 brokers of 8 cpu each; 1 of 3 nodes has room now for 1: 2 reserved from 2026-11-21T13:00:00Z (maintenance)"},
		"meanwhile": {at(60), "needs room for 3 brokers of 8 cpu each; 1 of 3 nodes has room now for 1: 2 reserved until 2026-11-21T14:00:00Z (maintenance)"},
		"after":     {at(120), ""},
	} {
		t.Run(name, func(t *testing.T) {
			c := clusterOf(fixture.Nodes("a", "b", "c"), nil, nil)
			c.Reserve([]Reservation{maintenance("a", "b")}, tc.at)
			r := roomOf(t, c, fixture.MiniCluster("next"))
			if why := r.Why("uid-next", []int{3}); why != tc.want {
				t.Errorf("it says %q,\nwant    %q", why, tc.want)
			}
		})
	}
}

// A gang that runs does not grow onto nodes that are reserved before it ends, also after nodes came and went.
func TestRoomGrowsBesideReservations(t *testing.T) {
	for name, tc := range map[string]struct {
		limit int64 // seconds
		want  []string
	}{
		"without a time limit": {0, []string{"c"}}, "with a long one": {3600, []string{"c"}}, "with a short one": {3480, []string{"b", "c"}},
	} {
		t.Run(name, func(t *testing.T) {
			c := clusterOf(fixture.Nodes("a", "b", "d"), nil, map[types.UID]state.Promise{
				"uid-lmp": {Nodes: []string{"a"}, Requests: fluxion.Resources{"cpu": 8000, "pods": 1}},
			})
			c.Reserve([]Reservation{maintenance("b", "d")}, at(0))
			roomOf(t, c)
			c.SetNode(fixture.Node("c").Obj())
			c.DeleteNode("d")
			lmp := fixture.MiniCluster("lmp").Deadline(tc.limit).Admitted(1, 1, "a").Status(func(s *v1alpha2.MiniClusterStatus) {
				s.StartTime = &s.Admission.Time
			}).Defaulted()
			r, err := c.Room(asks{"uid-lmp": requestOf(c, lmp, fixture.Pod("p").Obj()).At(at(0))}.of)
			if err != nil {
				t.Fatal(err)
			}
			var nodes []string
			for _, pod := range r.Grow("uid-lmp", 9) {
				nodes = append(nodes, pod.Node)
			}
			if !slices.Equal(nodes, tc.want) {
				t.Errorf("it grows onto %v, want %v", nodes, tc.want)
			}
		})
	}
}

func TestWhenReservationsMatter(t *testing.T) {
	c := clusterOf(fixture.Nodes("a"), nil, nil)
	for _, tc := range []struct{ at, next time.Time }{
		{at(0), at(60)}, {at(60), at(120)}, {at(119), at(120)}, {at(120), time.Time{}},
	} {
		if next := c.Reserve([]Reservation{maintenance("a")}, tc.at); !next.Equal(tc.next) {
			t.Errorf("at %s the next look is at %s, want %s", tc.at, next, tc.next)
		}
	}
	c.Reserve([]Reservation{maintenance("a")}, at(0))
	for name, tc := range map[string]struct {
		mc   *fixture.MiniClusterWrapper
		want time.Time
	}{
		"it loses the nodes when it could run too long": {limited(20), at(38).Add(time.Millisecond)},
		"it has lost them":           {limited(70), time.Time{}},
		"it has no time limit":       {fixture.MiniCluster("next"), time.Time{}},
		"it has nodes: these it has": {limited(20).Admitted(1, 1, "a"), time.Time{}},
	} {
		ask := requestOf(c, tc.mc.Defaulted(), fixture.Pod("p").Obj()).At(at(0))
		if next := c.BarredNext(ask); !next.Equal(tc.want) {
			t.Errorf("%s: at %s, want %s", name, next, tc.want)
		}
		if !tc.want.IsZero() && (c.Barred(ask) != "" || c.Barred(ask.At(tc.want)) == "") {
			t.Errorf("%s: barred by %q before, and by %q after", name, c.Barred(ask), c.Barred(ask.At(tc.want)))
		}
	}
}

func TestPick(t *testing.T) {
	up := fixture.Nodes
	ends := func(minutes int) state.Ask {
		if minutes == 0 {
			return state.Ask{}
		}
		return state.Ask{Ends: at(minutes)}
	}
	labelled := append(up("a", "b"), fixture.Node("c").Label("kind", "gpu").Obj(), fixture.Node("d").Label("kind", "gpu").Obj())
	for name, tc := range map[string]struct {
		nodes  []*corev1.Node
		pods   []*corev1.Pod
		ends   map[string]int // minutes by node; 0 for unknown
		before []string
		taken  string
		kind   string
		want   string
	}{
		"the first by name":                      {nodes: up("c", "b", "a"), want: "a b"},
		"too few":                                {nodes: up("a"), want: "a"},
		"free nodes":                             {nodes: up("a", "b", "c"), ends: map[string]int{"a": 61}, want: "b c"},
		"nodes that are free by then":            {nodes: up("a", "b", "c"), ends: map[string]int{"a": 60, "b": 61}, want: "a c"},
		"nodes that are free soonest":            {nodes: up("a", "b", "c", "d"), ends: map[string]int{"a": 0, "b": 300, "c": 90, "d": 200}, want: "c d"},
		"none with pods of others":               {nodes: up("a", "b", "c"), pods: []*corev1.Pod{fixture.Pod("x").On("a").Obj()}, ends: map[string]int{"b": 300}, want: "b c"},
		"but if there are no others":             {nodes: up("a", "b"), pods: []*corev1.Pod{fixture.Pod("x").On("a").Obj()}, want: "a b"},
		"nodes that are up":                      {nodes: append(up("c", "d"), fixture.Node("a").NotReady().Obj(), fixture.Node("b").Cordoned().Obj()), want: "c d"},
		"not those of others":                    {nodes: up("a", "b", "c"), taken: "a", want: "b c"},
		"what was chosen stays, busy or down":    {nodes: append(up("a", "b", "c"), fixture.Node("d").NotReady().Obj()), ends: map[string]int{"c": 0}, before: []string{"c", "d"}, want: "c d"},
		"what is gone is replaced":               {nodes: up("a", "b", "c"), before: []string{"c", "x"}, want: "a c"},
		"fewer are wanted than before":           {nodes: up("a", "b", "c"), before: []string{"c", "b", "a"}, want: "a b"},
		"only what is selected":                  {nodes: labelled, kind: "gpu", want: "c d"},
		"what is selected no longer is given up": {nodes: labelled, kind: "gpu", before: []string{"a", "d"}, want: "c d"},
	} {
		t.Run(name, func(t *testing.T) {
			promises, asks := map[types.UID]state.Promise{}, map[types.UID]state.Ask{}
			for node, minutes := range tc.ends {
				uid := types.UID("on-" + node)
				promises[uid] = state.Promise{Nodes: []string{node}, Requests: fluxion.Resources{"cpu": 1000, "pods": 1}}
				asks[uid] = ends(minutes)
			}
			c := clusterOf(tc.nodes, tc.pods, promises)
			selector := labels.Everything()
			if tc.kind != "" {
				selector = labels.SelectorFromSet(labels.Set{"kind": tc.kind})
			}
			reservation := maintenance()
			picked := c.Pick(&reservation, 2, selector, tc.before, map[string]bool{tc.taken: true}, asks)
			if got := strings.Join(picked, " "); got != tc.want {
				t.Errorf("it picks %q, want %q", got, tc.want)
			}
		})
	}
}

func TestStaying(t *testing.T) {
	on := func(node string) state.Promise {
		return state.Promise{Nodes: []string{node}, Requests: fluxion.Resources{"cpu": 1000, "pods": 1}}
	}
	c := clusterOf(fixture.Nodes("a", "b", "c"), nil, map[types.UID]state.Promise{"endless": on("a"), "long": on("b"), "short": on("a"), "ours": on("a"), "elsewhere": on("c")})
	asks := map[types.UID]state.Ask{
		"endless": {Queue: "default"}, "long": {Queue: "default", Ends: at(61)}, "short": {Queue: "default", Ends: at(60)},
		"ours": {Queue: "research"}, "elsewhere": {Queue: "default"}, "without nodes": {},
	}
	reservation := research("a", "b")
	if got := c.Staying(&reservation, asks); !slices.Equal(got, []types.UID{"endless", "long"}) {
		t.Errorf("%v stay", got)
	}
}
