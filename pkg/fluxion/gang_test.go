// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// cores are n cores, and room for pods.
func eightCores() Resources { return Resources{CPU: 8000, Pods: 110} }

// broker is what one broker of n cores takes.
func broker(n int64) Resources { return Resources{CPU: n * 1000, Pods: 1} }

func graphOf(t *testing.T, nodes ...Node) *Graph {
	t.Helper()
	g, err := NewGraph(nodes)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// heldGraph is a graph of nodes some of which are held.
func heldGraph(t *testing.T, nodes []Node, held map[string]Resources) *Graph {
	t.Helper()
	g := graphOf(t, nodes...)
	for node, resources := range held {
		g.Occupy(node, resources)
	}
	return g
}

// rack are nodes n0, n1, ... of 8 cores each.
func rack(n int) []Node {
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i] = Node{Name: fmt.Sprintf("n%d", i), Capacity: eightCores()}
	}
	return nodes
}

func TestMatchGang(t *testing.T) {
	cases := map[string]struct {
		nodes []Node
		held  map[string]Resources
		gang  Gang
		want  []string
	}{
		"a gang gets whole nodes, in order": {
			nodes: rack(4), gang: Gang{Requests: broker(8), Sizes: []int{3}},
			want: []string{"n0", "n1", "n2"},
		},
		"the largest size that fits": {
			nodes: rack(5), gang: Gang{Requests: broker(8), Sizes: []int{2, 4, 8}},
			want: []string{"n0", "n1", "n2", "n3"},
		},
		"all or nothing at the least size": {
			nodes: rack(3), gang: Gang{Requests: broker(8), Sizes: []int{4, 8}},
		},
		"what is held is not given again": {
			nodes: rack(4), held: map[string]Resources{"n1": broker(8), "n2": broker(1)},
			gang: Gang{Requests: broker(8), Sizes: []int{2}},
			want: []string{"n0", "n3"},
		},
		"brokers spread over nodes": {
			nodes: rack(4), gang: Gang{Requests: broker(2), Sizes: []int{4}},
			want: []string{"n0", "n1", "n2", "n3"},
		},
		"and share them where there are not enough": {
			nodes: rack(2), gang: Gang{Requests: broker(2), Sizes: []int{5}},
			want: []string{"n0", "n0", "n0", "n1", "n1"},
		},
		"packed brokers use the fewest nodes": {
			nodes: rack(4), gang: Gang{Requests: broker(2), Sizes: []int{6}, Policy: Pack},
			want: []string{"n0", "n0", "n3", "n3", "n3", "n3"},
		},
		"packed brokers fill the node with least room that takes them all": {
			nodes: rack(3), held: map[string]Resources{"n1": broker(4)},
			gang: Gang{Requests: broker(2), Sizes: []int{2}, Policy: Pack},
			want: []string{"n1", "n1"},
		},
		"the emptiest nodes are left to others": {
			nodes: rack(3), held: map[string]Resources{"n2": broker(6)},
			gang: Gang{Requests: broker(2), Sizes: []int{1}},
			want: []string{"n2"},
		},
		"nodes that are down or excluded are not used": {
			nodes: []Node{{Name: "a", Capacity: eightCores(), Down: "not ready"}, {Name: "b", Capacity: eightCores()}, {Name: "c", Capacity: eightCores()}},
			gang:  Gang{Requests: broker(8), Sizes: []int{1}, Excluded: map[string]string{"b": "tainted gpu"}},
			want:  []string{"c"},
		},
		"a resource that a node does not have is not there": {
			nodes: []Node{{Name: "a", Capacity: eightCores()}, {Name: "b", Capacity: Resources{CPU: 8000, Pods: 110, "nvidia.com/gpu": 2}}},
			gang:  Gang{Requests: Resources{CPU: 1000, Pods: 1, "nvidia.com/gpu": 1}, Sizes: []int{2}},
			want:  []string{"b", "b"},
		},
		"brokers that ask for nothing are limited by pods": {
			nodes: []Node{{Name: "a", Capacity: Resources{CPU: 1000, Pods: 3}}},
			gang:  Gang{Requests: Resources{Pods: 1}, Sizes: []int{2, 4}},
			want:  []string{"a", "a"},
		},
		"an overcommitted node has no room": {
			nodes: rack(1), held: map[string]Resources{"n0": broker(20)},
			gang: Gang{Requests: broker(1), Sizes: []int{1}},
		},
		"nodes are in the order in which people count": {
			nodes: []Node{{Name: "n10", Capacity: eightCores()}, {Name: "n9", Capacity: eightCores()}},
			gang:  Gang{Requests: broker(8), Sizes: []int{2}},
			want:  []string{"n9", "n10"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := heldGraph(t, tc.nodes, tc.held)
			got, refusal := g.MatchGang(tc.gang)
			if !slices.Equal(got, tc.want) {
				t.Errorf("got nodes %v, want %v", got, tc.want)
			}
			if (refusal == nil) != (len(tc.want) > 0) {
				t.Errorf("got refusal %v with nodes %v", refusal, got)
			}
		})
	}
}

func TestRefusal(t *testing.T) {
	cases := map[string]struct {
		nodes []Node
		held  map[string]Resources
		gang  Gang
		never bool
		want  string
	}{
		"not now": {
			nodes: rack(3), held: map[string]Resources{"n0": broker(8), "n1": broker(1)},
			gang: Gang{Requests: Resources{CPU: 8000, Memory: 0, Pods: 1}, Sizes: []int{2}},
			want: "needs room for 2 brokers of 8 cpu each; 1 of 3 nodes has room now for 1: 2 in use",
		},
		"not now, at all": {
			nodes: rack(1), held: map[string]Resources{"n0": broker(8)}, gang: Gang{Requests: broker(8), Sizes: []int{1}},
			want: "needs room for 1 broker of 8 cpu each; none of 1 node has room now: 1 in use",
		},
		"never: too many": {
			nodes: rack(149), gang: Gang{Requests: broker(8), Sizes: []int{1000}}, never: true,
			want: "needs room for 1000 brokers of 8 cpu each; the whole cluster of 149 nodes has room for 149",
		},
		"never: too large, each reason counted": {
			nodes: []Node{
				{Name: "a", Capacity: Resources{CPU: 8000, Memory: 32 << 30, Pods: 110}},
				{Name: "b", Capacity: Resources{CPU: 64000, Memory: 32 << 30, Pods: 110}},
				{Name: "c", Capacity: Resources{CPU: 8000, Memory: 32 << 30, Pods: 110}},
				{Name: "d", Capacity: Resources{CPU: 64000, Memory: 256 << 30, Pods: 110}},
			},
			gang:  Gang{Requests: Resources{CPU: 16500, Memory: 64 << 30, Pods: 1}, Sizes: []int{1}, Excluded: map[string]string{"d": "tainted gpu"}},
			never: true,
			want:  "needs room for 1 broker of 16500m cpu, 64Gi memory each; the whole cluster of 4 nodes has room for 0: 2 too little cpu, 1 tainted gpu, 1 too little memory",
		},
		"a gang larger than what is up may still fit": {
			nodes: []Node{{Name: "a", Capacity: eightCores()}, {Name: "b", Capacity: eightCores(), Down: "not ready"}},
			gang:  Gang{Requests: broker(8), Sizes: []int{2}},
			want:  "needs room for 2 brokers of 8 cpu each; 1 of 2 nodes has room now for 1: 1 not ready",
		},
		"never, whoever is there now": {
			nodes: rack(3), held: map[string]Resources{"n0": broker(8)}, gang: Gang{Requests: broker(8), Sizes: []int{4}}, never: true,
			want: "needs room for 4 brokers of 8 cpu each; the whole cluster of 3 nodes has room for 3",
		},
		"without nodes": {
			gang: Gang{Requests: broker(1), Sizes: []int{1}}, never: true,
			want: "needs room for 1 broker of 1 cpu each; the whole cluster of 0 nodes has room for 0",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := heldGraph(t, tc.nodes, tc.held)
			_, refusal := g.MatchGang(tc.gang)
			if refusal == nil {
				t.Fatal("it was not refused")
			}
			if refusal.Never != tc.never || refusal.String() != tc.want {
				t.Errorf("got never %v, %q\nwant never %v, %q", refusal.Never, refusal, tc.never, tc.want)
			}
			if could := g.CouldHold(tc.gang); (could != nil) != tc.never {
				t.Errorf("CouldHold says %v, want never %v", could, tc.never)
			}
		})
	}
}

func TestNewGraphRefusesTwins(t *testing.T) {
	if _, err := NewGraph([]Node{{Name: "a"}, {Name: "a"}}); err == nil {
		t.Error("two nodes of one name were taken")
	}
}

// scenario is a random graph with something held, and a gang.
func scenario(random *rand.Rand) ([]Node, map[string]Resources, Gang) {
	nodes := make([]Node, random.IntN(7))
	held := map[string]Resources{}
	for i := range nodes {
		name := fmt.Sprintf("n%d", i)
		nodes[i] = Node{Name: name, Capacity: Resources{CPU: random.Int64N(9) * 1000, Memory: random.Int64N(9), Pods: random.Int64N(6)}}
		if random.IntN(6) == 0 {
			nodes[i].Down = "not ready"
		}
		if random.IntN(2) == 0 {
			held[name] = Resources{CPU: random.Int64N(5000), Memory: random.Int64N(5), Pods: random.Int64N(3)}
		}
	}
	gang := Gang{
		Requests: Resources{CPU: random.Int64N(4000), Memory: random.Int64N(4), Pods: 1},
		Excluded: map[string]string{}, Policy: Policy(random.IntN(2)),
	}
	for size := 1 + random.IntN(3); len(gang.Sizes) < 1+random.IntN(3); size += 1 + random.IntN(3) {
		gang.Sizes = append(gang.Sizes, size)
	}
	for i := range nodes {
		if random.IntN(6) == 0 {
			gang.Excluded[nodes[i].Name] = "tainted"
		}
	}
	return nodes, held, gang
}

// naive is the largest number of brokers, up to the limit, that a graph takes, by
// putting one after the other wherever there is room. One broker is as good as
// another, so this is exact.
func naive(nodes []Node, held map[string]Resources, gang Gang, limit int) int {
	placed := 0
	for _, node := range nodes {
		if _, excluded := gang.Excluded[node.Name]; excluded || node.Down != "" {
			continue
		}
		free := Resources{}
		free.add(node.Capacity, 1)
		free.add(held[node.Name], -1)
		for placed < limit && free.lacking(gang.Requests) == "" {
			free.add(gang.Requests, -1)
			placed++
		}
	}
	return placed
}

// The matcher finds a size exactly when a naive twin does, and the same; what it
// gives away was there, and is given once.
func TestMatchGangAgainstNaiveTwin(t *testing.T) {
	for seed := range uint64(20000) {
		random := rand.New(rand.NewPCG(seed, 1))
		nodes, held, gang := scenario(random)
		g := graphOf(t, nodes...)
		for node, r := range held {
			g.Occupy(node, r)
		}
		room := naive(nodes, held, gang, slices.Max(gang.Sizes))
		want := 0
		for _, size := range gang.Sizes {
			if size <= room {
				want = max(want, size)
			}
		}
		got, refusal := g.MatchGang(gang)
		if len(got) != want || (refusal == nil) != (want > 0) {
			t.Fatalf("seed %d: got %d brokers on %v (%v), want %d", seed, len(got), got, refusal, want)
		}
		again, _ := g.MatchGang(gang)
		if !slices.Equal(got, again) {
			t.Fatalf("seed %d: first %v, then %v: matching changed something", seed, got, again)
		}
		for _, node := range got {
			v := &g.nodes[g.index[node]]
			if lacking := v.free.lacking(gang.Requests); lacking != "" {
				t.Fatalf("seed %d: %s on %v has too little %s for what it was given", seed, node, got, lacking)
			}
			g.Occupy(node, gang.Requests)
		}
	}
}

// Spread uses as many nodes as it can, Pack as few.
func TestPolicies(t *testing.T) {
	for seed := range uint64(5000) {
		random := rand.New(rand.NewPCG(seed, 2))
		nodes, held, gang := scenario(random)
		g := graphOf(t, nodes...)
		for node, r := range held {
			g.Occupy(node, r)
		}
		gang.Policy = Spread
		spread, refusal := g.MatchGang(gang)
		if refusal != nil {
			continue
		}
		gang.Policy = Pack
		packed, _ := g.MatchGang(gang)
		room := g.room(gang, func(v *vertex) Resources { return v.free }, true)
		usable := 0
		for _, n := range room {
			if n > 0 {
				usable++
			}
		}
		if n := distinct(spread); n != min(usable, len(spread)) {
			t.Fatalf("seed %d: %v uses %d of %d usable nodes", seed, spread, n, usable)
		}
		slices.SortFunc(room, func(a, b int) int { return b - a })
		fewest, left := 0, len(packed)
		for ; left > 0; fewest++ {
			left -= room[fewest]
		}
		if n := distinct(packed); n != fewest {
			t.Fatalf("seed %d: %v uses %d nodes where %d do", seed, packed, n, fewest)
		}
	}
}

func distinct(nodes []string) int { return len(slices.Compact(slices.Clone(nodes))) }

func BenchmarkMatchGang(b *testing.B) {
	for _, n := range []int{1000, 10000} {
		nodes := rack(n)
		g, err := NewGraph(nodes)
		if err != nil {
			b.Fatal(err)
		}
		for i := range n / 2 {
			g.Occupy(nodes[i*2].Name, broker(8))
		}
		b.Run(fmt.Sprintf("nodes=%d/size=64", n), func(b *testing.B) {
			gang := Gang{Requests: broker(8), Sizes: []int{64}}
			for b.Loop() {
				if _, refusal := g.MatchGang(gang); refusal != nil {
					b.Fatal(refusal)
				}
			}
		})
		b.Run(fmt.Sprintf("nodes=%d/refused", n), func(b *testing.B) {
			gang := Gang{Requests: broker(8), Sizes: []int{n}}
			for b.Loop() {
				if _, refusal := g.MatchGang(gang); refusal == nil {
					b.Fatal("it was not refused")
				}
			}
		})
	}
}
