// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"fmt"
	"testing"
	"time"
)

func TestExplain(t *testing.T) {
	cases := map[string]struct {
		nodes []Node
		held  map[string]Resources
		gang  Gang
		never bool
		// light is the refusal without an explanation; "" if it is the same.
		light, want string
	}{
		"not now": {
			nodes: line(3), held: map[string]Resources{"n0": broker(8), "n1": broker(1)},
			gang:  Gang{Pods: Shape{Requests: Resources{CPU: 8000, Memory: 0, Pods: 1}}, Sizes: []int{2}},
			light: "needs room for 2 brokers of 8 cpu each; 1 of 3 nodes has room now for 1",
			want:  "needs room for 2 brokers of 8 cpu each; 1 of 3 nodes has room now for 1: 2 in use",
		},
		"not now, at all": {
			nodes: line(1), held: map[string]Resources{"n0": broker(8)}, gang: Gang{Pods: shape(8), Sizes: []int{1}},
			light: "needs room for 1 broker of 8 cpu each; none of 1 node has room now",
			want:  "needs room for 1 broker of 8 cpu each; none of 1 node has room now: 1 in use",
		},
		"which resource is in use, where several are asked for": {
			nodes: []Node{
				{Name: "a", Capacity: Resources{CPU: 8000, Memory: 8 << 30, Pods: 2}}, {Name: "b", Capacity: Resources{CPU: 8000, Memory: 8 << 30, Pods: 2}},
				{Name: "c", Capacity: Resources{CPU: 8000, Memory: 8 << 30, Pods: 2}}, {Name: "d", Capacity: Resources{CPU: 8000, Memory: 8 << 30, Pods: 2}},
			},
			held:  map[string]Resources{"a": {CPU: 7000}, "b": {Memory: 7 << 30}, "c": {Pods: 2}, "d": {Memory: 7 << 30}},
			gang:  Gang{Pods: Shape{Requests: Resources{CPU: 4000, Memory: 2 << 30, Pods: 1}}, Sizes: []int{2}},
			light: "needs room for 2 brokers of 4 cpu, 2Gi memory each; none of 4 nodes has room now",
			want:  "needs room for 2 brokers of 4 cpu, 2Gi memory each; none of 4 nodes has room now: 2 in use (memory), 1 in use (cpu), 1 in use (pods)",
		},
		"whole nodes on which others are": {
			nodes: line(4), held: map[string]Resources{"n0": broker(8), "n1": broker(1), "n2": {WholeNode: 1}},
			gang:  Gang{Pods: Shape{Requests: Resources{CPU: 2000, Memory: 0, Pods: 1, WholeNode: 1}}, Sizes: []int{2}},
			light: "needs room for 2 brokers of 2 cpu, a whole node each; 1 of 4 nodes has room now for 1",
			want:  "needs room for 2 brokers of 2 cpu, a whole node each; 1 of 4 nodes has room now for 1: 3 in use",
		},
		"others have whole nodes": {
			nodes: line(3), held: map[string]Resources{"n0": {WholeNode: 1, CPU: 8000}, "n1": {WholeNode: 1}, "n2": broker(7)},
			gang:  Gang{Pods: shape(2), Sizes: []int{1}},
			light: "needs room for 1 broker of 2 cpu each; none of 3 nodes has room now",
			want:  "needs room for 1 broker of 2 cpu each; none of 3 nodes has room now: 2 in use exclusively, 1 in use",
		},
		"never: more whole nodes than there are": {
			nodes: line(3), gang: Gang{Pods: Shape{Requests: Resources{Pods: 1, WholeNode: 1}}, Sizes: []int{4}}, never: true,
			want: "needs room for 4 brokers of a whole node each; the whole cluster of 3 nodes has room for 3",
		},
		"never: too many": {
			nodes: line(149), gang: Gang{Pods: shape(8), Sizes: []int{1000}}, never: true,
			want: "needs room for 1000 brokers of 8 cpu each; the whole cluster of 149 nodes has room for 149",
		},
		"never: too large, each reason counted": {
			nodes: []Node{
				{Name: "a", Capacity: Resources{CPU: 8000, Memory: 32 << 30, Pods: 110}},
				{Name: "b", Capacity: Resources{CPU: 64000, Memory: 32 << 30, Pods: 110}},
				{Name: "c", Capacity: Resources{CPU: 8000, Memory: 32 << 30, Pods: 110}},
				{Name: "d", Capacity: Resources{CPU: 64000, Memory: 256 << 30, Pods: 110}},
			},
			gang:  Gang{Pods: Shape{Requests: Resources{CPU: 16500, Memory: 64 << 30, Pods: 1}}, Sizes: []int{1}}.without("tainted gpu", 3),
			never: true,
			light: "needs room for 1 broker of 16500m cpu, 64Gi memory each; the whole cluster of 4 nodes has room for 0",
			want:  "needs room for 1 broker of 16500m cpu, 64Gi memory each; the whole cluster of 4 nodes has room for 0: 2 too little cpu, 1 tainted gpu, 1 too little memory",
		},
		"never: a resource that no node has": {
			nodes: line(2), gang: Gang{Pods: Shape{Requests: Resources{CPU: 1, "example.com/x": 1}}, Sizes: []int{1}}, never: true,
			light: "needs room for 1 broker of 1m cpu, 1 example.com/x each; the whole cluster of 2 nodes has room for 0",
			want:  "needs room for 1 broker of 1m cpu, 1 example.com/x each; the whole cluster of 2 nodes has room for 0: 2 without example.com/x",
		},
		"a gang larger than what is up may still fit": {
			nodes: []Node{{Name: "a", Capacity: eightCores()}, {Name: "b", Capacity: eightCores(), Down: "not ready"}},
			gang:  Gang{Pods: shape(8), Sizes: []int{2}},
			light: "needs room for 2 brokers of 8 cpu each; 1 of 2 nodes has room now for 1",
			want:  "needs room for 2 brokers of 8 cpu each; 1 of 2 nodes has room now for 1: 1 not ready",
		},
		"the first exclusion says why": {
			nodes: line(4), held: map[string]Resources{"n3": broker(4)},
			gang:  Gang{Pods: shape(8), Sizes: []int{2}}.without("tainted a", 0, 1).without("tainted b", 1, 2),
			never: true,
			light: "needs room for 2 brokers of 8 cpu each; the whole cluster of 4 nodes has room for 1",
			want:  "needs room for 2 brokers of 8 cpu each; the whole cluster of 4 nodes has room for 1: 2 tainted a, 1 tainted b",
		},
		"closed nodes, busy or not, are not lost for good": {
			nodes: append(line(4), Node{Name: "n4", Capacity: Resources{CPU: 1000, Pods: 110}}), held: map[string]Resources{"n1": broker(8), "n3": broker(8)},
			gang:  Gang{Pods: shape(8), Sizes: []int{2}}.without("tainted a", 2).closed("reserved", 1, 2, 3, 4),
			light: "needs room for 2 brokers of 8 cpu each; 1 of 5 nodes has room now for 1",
			want:  "needs room for 2 brokers of 8 cpu each; 1 of 5 nodes has room now for 1: 2 reserved, 1 tainted a, 1 too little cpu",
		},
		"never, and closed nodes do not matter": {
			nodes: line(3), gang: Gang{Pods: shape(8), Sizes: []int{4}}.closed("reserved", 1), never: true,
			want: "needs room for 4 brokers of 8 cpu each; the whole cluster of 3 nodes has room for 3",
		},
		"racks with closed nodes": {
			nodes: rackNodes(2, 5, 3), gang: Gang{Pods: shape(8), Sizes: []int{4}, Topology: Topology{"rack", true}}.closed("reserved", 2, 3),
			light: "needs room for 4 brokers of 8 cpu each in one rack; no rack has room now for more than 3",
			want:  "needs room for 4 brokers of 8 cpu each in one rack; no rack has room now for more than 3: 5 in a rack too small, 3 in a rack with too little room, 2 reserved",
		},
		"never, whoever is there now": {
			nodes: line(3), held: map[string]Resources{"n0": broker(8)}, gang: Gang{Pods: shape(8), Sizes: []int{4}}, never: true,
			want: "needs room for 4 brokers of 8 cpu each; the whole cluster of 3 nodes has room for 3",
		},
		"without nodes": {
			gang: Gang{Pods: shape(1), Sizes: []int{1}}, never: true,
			want: "needs room for 1 broker of 1 cpu each; the whole cluster of 0 nodes has room for 0",
		},
		"racks with too little room": {
			nodes: rackNodes(2, 5, 3), held: map[string]Resources{"n2": broker(8), "n3": broker(8)},
			gang:  Gang{Pods: shape(8), Sizes: []int{4}, Topology: Topology{"rack", true}},
			light: "needs room for 4 brokers of 8 cpu each in one rack; no rack has room now for more than 3",
			want:  "needs room for 4 brokers of 8 cpu each in one rack; no rack has room now for more than 3: 5 in a rack too small, 3 in a rack with too little room, 2 in use",
		},
		"racks too small": {
			nodes: append(rackNodes(2, 3), Node{Name: "x", Capacity: eightCores()}),
			gang:  Gang{Pods: shape(8), Sizes: []int{4}, Topology: Topology{"rack", true}}, never: true,
			light: "needs room for 4 brokers of 8 cpu each in one rack; no rack of the whole cluster of 6 nodes has room for more than 3",
			want:  "needs room for 4 brokers of 8 cpu each in one rack; no rack of the whole cluster of 6 nodes has room for more than 3: 5 in a rack too small, 1 in no rack",
		},
		"a level that there is not": {
			nodes: line(2), gang: Gang{Pods: shape(8), Sizes: []int{1}, Topology: Topology{"row", true}}, never: true,
			light: "needs room for 1 broker of 8 cpu each in one row; no row of the whole cluster of 2 nodes has room for more than 0",
			want:  "needs room for 1 broker of 8 cpu each in one row; no row of the whole cluster of 2 nodes has room for more than 0: 2 in no row",
		},
		"no size": {
			nodes: line(2), gang: Gang{Pods: shape(2)}, never: true,
			want: "may have no size",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := heldGraph(t, tc.nodes, tc.held)
			_, refusal := g.MatchGang(tc.gang)
			if refusal == nil {
				t.Fatal("it was not refused")
			}
			if tc.light == "" {
				tc.light = tc.want
			}
			if refusal.Never != tc.never || refusal.String() != tc.light {
				t.Errorf("got never %v, %q\nwant never %v, %q", refusal.Never, refusal, tc.never, tc.light)
			}
			if got := g.Explain(tc.gang).String(); got != tc.want {
				t.Errorf("it is explained\n     %q\nwant %q", got, tc.want)
			}
			if could := g.CouldHold(tc.gang); (could != nil) != tc.never {
				t.Errorf("CouldHold says %v, want never %v", could, tc.never)
			}
		})
	}
}

// hour is a time of day.
func hour(n int) time.Time { return noon.Add(time.Duration(n) * time.Hour) }

// busyGraph is a graph of 10 nodes. Jobs hold as many nodes as they say, until the end that
// they say.
func busyGraph(t *testing.T, jobs map[string]struct {
	nodes int
	end   time.Time
}) *Graph {
	t.Helper()
	g := heldGraph(t, line(10), nil)
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		if jobs[id].nodes == 0 {
			continue
		}
		gang := Gang{Job: id, Pods: shape(8), Sizes: []int{jobs[id].nodes}, End: jobs[id].end}
		placement, refusal := g.MatchGang(gang)
		if refusal != nil {
			t.Fatal(refusal)
		}
		if err := g.Take(gang, placement); err != nil {
			t.Fatal(err)
		}
	}
	return g
}

func TestWhatHasToEnd(t *testing.T) {
	type job = struct {
		nodes int
		end   time.Time
	}
	cases := map[string]struct {
		jobs      map[string]job
		size      int
		wantJobs  string
		wantUntil time.Time
		want      string // the end of the sentence
	}{
		"the one that ends first": {
			jobs: map[string]job{"a": {5, hour(2)}, "b": {5, hour(1)}}, size: 4,
			wantJobs: "[b]", wantUntil: hour(1), want: "; it fits once 1 job has ended, by 2026-01-02T13:00:00Z",
		},
		"not those that end before, and do not help": {
			jobs: map[string]job{"a": {1, hour(1)}, "b": {5, hour(2)}, "c": {4, hour(3)}}, size: 5,
			wantJobs: "[b]", wantUntil: hour(2), want: "; it fits once 1 job has ended, by 2026-01-02T14:00:00Z",
		},
		"several together": {
			jobs: map[string]job{"a": {3, hour(2)}, "b": {3, hour(1)}, "c": {4, hour(3)}}, size: 6,
			wantJobs: "[b a]", wantUntil: hour(2), want: "; it fits once 2 jobs have ended, by 2026-01-02T14:00:00Z",
		},
		"the largest, where it is not known when": {
			jobs: map[string]job{"a": {3, hour(2)}, "b": {3, time.Time{}}, "c": {4, time.Time{}}}, size: 4,
			wantJobs: "[c]", want: "; it fits once 1 job has ended",
		},
		"those whose end is known, if they do": {
			jobs: map[string]job{"a": {3, hour(2)}, "b": {7, time.Time{}}}, size: 3,
			wantJobs: "[a]", wantUntil: hour(2), want: "; it fits once 1 job has ended, by 2026-01-02T14:00:00Z",
		},
		"none, where others are in the way": {
			jobs: map[string]job{"a": {9, hour(2)}}, size: 10, wantJobs: "[]", want: ": 10 in use",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := busyGraph(t, tc.jobs)
			if name == "none, where others are in the way" {
				g.Occupy("n9", broker(8))
			}
			r := g.Explain(Gang{Pods: shape(8), Sizes: []int{tc.size}})
			if fmt.Sprint(r.Jobs) != tc.wantJobs || !r.Until.Equal(tc.wantUntil) {
				t.Errorf("got %v until %s, want %s until %s", r.Jobs, r.Until, tc.wantJobs, tc.wantUntil)
			}
			if text := r.String(); len(text) < len(tc.want) || text[len(text)-len(tc.want):] != tc.want {
				t.Errorf("got %q, want it to end with %q", text, tc.want)
			}
		})
	}
}
