// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
)

// taken is a graph of which a job holds nodes.
func taken(t *testing.T, nodes []Node, gang Gang, on ...string) *Graph {
	t.Helper()
	g := heldGraph(t, nodes, nil)
	if err := g.Take(gang, Placement{on}); err != nil {
		t.Fatal(err)
	}
	return g
}

func TestTakeRefuses(t *testing.T) {
	cases := map[string]struct {
		gang  Gang
		nodes []string
		want  error
	}{
		"a job that has some":          {Gang{Job: "known", Pods: shape(1)}, []string{"n3"}, ErrExists},
		"nodes that there are not":     {Gang{Job: "a", Pods: shape(1)}, []string{"n0", "gone"}, ErrBusy},
		"nodes that are held":          {Gang{Job: "a", Pods: shape(8)}, []string{"n0", "n1"}, ErrBusy},
		"more of a node than there is": {Gang{Job: "a", Pods: shape(3)}, []string{"n0", "n0", "n0"}, ErrBusy},
		"nodes that are down":          {Gang{Job: "a", Pods: shape(1)}, []string{"n0", "n2"}, ErrBusy},
		"a resource that no node has":  {Gang{Job: "a", Pods: Shape{Requests: Resources{"x": 1}}}, []string{"n0"}, ErrBusy},
		"a whole node twice":           {Gang{Job: "a", Pods: alone(1)}, []string{"n0", "n0"}, ErrBusy},
		"a node that is held wholly":   {Gang{Job: "a"}, []string{"n3"}, ErrBusy},
		"no nodes":                     {Gang{Job: "a", Pods: shape(1)}, nil, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := taken(t, line(4), Gang{Job: "known", Pods: shape(8)}, "n1")
			g.SetDown("n2", "cordoned")
			g.Occupy("n3", Resources{WholeNode: 1})
			before := fmt.Sprint(g.Left("n0"), g.Left("n1"), g.Left("n2"))
			err := g.Take(tc.gang, Placement{tc.nodes})
			if err == nil || (tc.want != nil && !errors.Is(err, tc.want)) {
				t.Errorf("got %v, want %v", err, tc.want)
			}
			if after := fmt.Sprint(g.Left("n0"), g.Left("n1"), g.Left("n2")); after != before {
				t.Errorf("left are %s, before it were %s", after, before)
			}
		})
	}
}

// Adopt records what a job holds, whether there is room or not.
func TestAdopt(t *testing.T) {
	g := heldGraph(t, line(2), map[string]Resources{"n0": broker(8)})
	gang := Gang{Job: "a", Pods: shape(8)}
	if err := g.Adopt(gang, Placement{[]string{"gone", "n0", "", "n1"}}); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(g.Pods("a"), g.Left("n0")[CPU], g.Left("n1")[CPU]); got != "[{1 n0} {3 n1}] -8000 0" {
		t.Errorf("got %s", got)
	}
	if err := g.Adopt(gang, Placement{[]string{"n1"}}); !errors.Is(err, ErrExists) {
		t.Errorf("adopted twice: %v", err)
	}
	if err := g.Release("a"); err != nil || g.Left("n1")[CPU] != 8000 || g.Left("n0")[CPU] != 0 {
		t.Errorf("%v; left are %v and %v", err, g.Left("n0"), g.Left("n1"))
	}
	if err := g.Adopt(gang, Placement{[]string{"gone"}}); err != nil || g.Pods("a") != nil {
		t.Errorf("%v; a job of no nodes has %v", err, g.Pods("a"))
	}
}

func TestGrow(t *testing.T) {
	cases := map[string]struct {
		gang Gang
		on   []string
		n    int
		want string
	}{
		"in its rack":                       {Gang{Pods: shape(8)}, []string{"n2", "n3"}, 2, "[{2 n4} {3 n5}]"},
		"in its rack and zone first":        {Gang{Pods: shape(8)}, []string{"n0"}, 4, "[{1 n1} {2 n2} {3 n3} {4 n4}]"},
		"as many as fit":                    {Gang{Pods: shape(8)}, []string{"n0"}, 100, "[{1 n1} {2 n2} {3 n3} {4 n4} {5 n5} {6 n6} {7 n7} {8 n8} {9 n9}]"},
		"in its rack alone, if it has to":   {Gang{Pods: shape(8), Topology: Topology{"rack", true}}, []string{"n0"}, 4, "[{1 n1}]"},
		"not at all, if its rack is full":   {Gang{Pods: shape(8), Topology: Topology{"rack", true}}, []string{"n0", "n1"}, 4, "[]"},
		"on its nodes":                      {Gang{Pods: shape(2)}, []string{"n3"}, 3, "[{1 n3} {2 n3} {3 n3}]"},
		"on other nodes, if distinct":       {Gang{Pods: shape(2), Distinct: true}, []string{"n3"}, 2, "[{1 n2} {2 n4}]"},
		"by whole nodes":                    {Gang{Pods: alone(1)}, []string{"n3"}, 2, "[{1 n2} {2 n4}]"},
		"without a node that is not for it": {Gang{Pods: shape(8)}.without("tainted", 4, 5), []string{"n2", "n3"}, 1, "[{2 n6}]"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.gang.Job = "a"
			g := taken(t, rackNodes(2, 5, 3), tc.gang, tc.on...)
			if got, refusal, err := g.Grow("a", 0); got != nil || refusal != nil || err != nil {
				t.Errorf("it grew by nothing: %v, %v, %v", got, refusal, err)
			}
			got, refusal, err := g.Grow("a", tc.n)
			if err != nil || fmt.Sprint(got) != tc.want || (refusal == nil) != (len(got) > 0) {
				t.Errorf("got %v (%v), want %s", got, refusal, tc.want)
			}
			if pods := g.Pods("a"); len(pods) != len(tc.on)+len(got) {
				t.Errorf("it has %v", pods)
			}
		})
	}
	if _, _, err := heldGraph(t, line(1), nil).Grow("nobody", 1); !errors.Is(err, ErrNotFound) {
		t.Errorf("a job that there is not grew: %v", err)
	}
}

// The refusal is about one more pod, whatever the size of the job was.
func TestGrowIsRefused(t *testing.T) {
	g := taken(t, line(2), Gang{Job: "a", Pods: shape(8), Sizes: []int{2}}, "n0", "n1")
	_, refusal, _ := g.Grow("a", 3)
	if got := refusal.String(); got != "needs room for 1 broker of 8 cpu each; none of 2 nodes has room now" {
		t.Errorf("got %q", got)
	}
}

// Grow fills ranks that have no pod, except rank 0.
func TestGrowFillsGaps(t *testing.T) {
	g := taken(t, line(6), Gang{Job: "a", Pods: shape(8)}, "n0", "n1", "n2", "n3")
	for _, rank := range []int{0, 2} {
		if err := g.Free("a", rank); err != nil {
			t.Fatal(err)
		}
	}
	got, _, _ := g.Grow("a", 2)
	if fmt.Sprint(got) != "[{2 n0} {4 n2}]" {
		t.Errorf("got %v", got)
	}
}

func TestVictims(t *testing.T) {
	cases := map[string]struct {
		on     []string
		n      int
		useful Bitmap
		want   string
	}{
		"none":                                       {[]string{"n0", "n1"}, 0, nil, "[]"},
		"the last ones":                              {[]string{"n0", "n1"}, 1, nil, "[1]"},
		"all but the lead":                           {[]string{"n0", "n1", "n7"}, 100, nil, "[1 2]"},
		"whole racks, the smallest first":            {[]string{"n0", "n2", "n3", "n4", "n7", "n8"}, 2, nil, "[4 5]"},
		"part of a rack, if it is more":              {[]string{"n0", "n2", "n3", "n4", "n7", "n8"}, 3, nil, "[3 4 5]"},
		"not the lead's rack, as long as others do":  {[]string{"n0", "n1", "n2", "n3", "n4"}, 1, nil, "[4]"},
		"whole nodes of a rack":                      {[]string{"n0", "n2", "n2", "n3", "n4", "n4"}, 1, nil, "[3]"},
		"not the lead's node, as long as others do":  {[]string{"n0", "n0", "n1", "n1"}, 2, nil, "[2 3]"},
		"then the lead's node, but never the lead":   {[]string{"n0", "n0", "n1", "n1"}, 3, nil, "[1 2 3]"},
		"all the same: those farthest along the row": {[]string{"n2", "n3", "n4", "n5"}, 2, nil, "[2 3]"},
		"those on useful nodes first":                {[]string{"n0", "n2", "n3", "n4"}, 1, Bitmap{1 << 2}, "[1]"},
		"then others":                                {[]string{"n0", "n2", "n3", "n4"}, 2, Bitmap{1 << 2}, "[1 3]"},
		"those on nodes that are down are of no use": {[]string{"n0", "n2", "n3", "n9"}, 1, Bitmap{1<<2 | 1<<9}, "[1]"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := taken(t, rackNodes(2, 5, 3), Gang{Job: "a", Pods: shape(2)}, tc.on...)
			g.SetDown("n9", "cordoned")
			if got := fmt.Sprint(g.Victims("a", tc.n, tc.useful)); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
	if got := heldGraph(t, nil, nil).Victims("a", 1, nil); got != nil {
		t.Errorf("%v of a job that there is not", got)
	}
}

func TestChangesOfJobsThatAreRefused(t *testing.T) {
	g := taken(t, line(4), Gang{Job: "a", Pods: shape(8)}, "n0", "n1", "n2", "n3")
	if err := g.Free("a", 2); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func() error{
		"no such job to free":    func() error { return g.Free("b", 0) },
		"no such job to release": func() error { return g.Release("b") },
		"a rank below 0":         func() error { return g.Free("a", -1) },
		"no such rank to free":   func() error { return g.Free("a", 4) },
		"a rank without a pod":   func() error { return g.Free("a", 2) },
	} {
		t.Run(name, func(t *testing.T) {
			if change() == nil {
				t.Error("it was done")
			}
			if pods := g.Pods("a"); len(pods) != 3 {
				t.Errorf("it has %v", pods)
			}
		})
	}
}

// A snapshot and its graph do not see each other's changes, and may be used at the same
// time (with -race).
func TestSnapshot(t *testing.T) {
	g := heldGraph(t, racks(500), nil)
	gang := func(i int) Gang {
		gang := wholeNodes(1, 7)
		gang.Job = fmt.Sprint("job-", i)
		gang.End = hour(i)
		return gang
	}
	live := func(g *Graph, seed uint64) string {
		random := rand.New(rand.NewPCG(seed, 1))
		for i := range 60 {
			id := fmt.Sprint("job-", random.IntN(20))
			switch random.IntN(6) {
			case 0, 1, 2:
				if placement, refusal := g.MatchGang(gang(i)); refusal == nil && len(g.Pods(gang(i).Job)) == 0 {
					_ = g.Take(gang(i), placement)
				}
			case 3:
				_ = g.Release(id)
			case 4:
				_, _, _ = g.Grow(id, 3)
				for _, rank := range g.Victims(id, 2, nil) {
					_ = g.Free(id, rank)
				}
				_ = g.Respecify(id, wholeNodes(random.IntN(9)))
			default:
				g.SetDown(g.Name(random.IntN(g.Len())), "x")
				g.Explain(wholeNodes(400))
			}
		}
		text := ""
		for i := range g.Len() {
			text += fmt.Sprint(g.Left(g.Name(i)), g.nodes.down(int32(i)))
		}
		for i := range 60 {
			text += fmt.Sprint(g.Pods(gang(i).Job))
		}
		return text
	}
	live(g, 1)
	var snapshots []*Graph
	for range 4 {
		snapshots = append(snapshots, g.Snapshot())
	}
	snapshots = append(snapshots, snapshots[0].Snapshot())
	// These are the states to which the snapshots come, if nobody else does anything.
	var want []string
	for i, s := range snapshots {
		want = append(want, live(s.Snapshot(), uint64(i)))
	}
	got := make([]string, len(snapshots))
	var wait sync.WaitGroup
	for i, s := range snapshots {
		wait.Go(func() { got[i] = live(s, uint64(i)) })
	}
	live(g, 99)
	wait.Wait()
	for i := range got {
		if got[i] != want[i] {
			t.Errorf("snapshot %d saw what was done to another", i)
		}
	}
}
