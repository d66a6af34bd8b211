// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

func eightCores() Resources { return Resources{CPU: 8000, Pods: 110} }

// shape is the shape of brokers of n cores.
func shape(n int64) Shape { return Shape{Requests: broker(n)} }

// alone is the shape of brokers of n cores, each of which has its node alone.
func alone(n int64) Shape { return Shape{Requests: broker(n).plus(Resources{WholeNode: 1}, 1)} }

// line are nodes n0, n1, ... of 8 cores each, which are in no domain.
func line(n int) []Node {
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i] = Node{Name: fmt.Sprintf("n%d", i), Capacity: eightCores()}
	}
	return nodes
}

// rackNodes are nodes in racks of the given sizes, in two zones.
func rackNodes(sizes ...int) []Node {
	var nodes []Node
	for rack, size := range sizes {
		zone := fmt.Sprint("z", rack*2/len(sizes))
		for range size {
			nodes = append(nodes, Node{
				Name: fmt.Sprintf("n%d", len(nodes)), Capacity: eightCores(), Topology: []string{zone, fmt.Sprint("r", rack)},
			})
		}
	}
	return nodes
}

// heldGraph is a graph of nodes of which something is held.
func heldGraph(t *testing.T, nodes []Node, held map[string]Resources) *Graph {
	t.Helper()
	g, err := NewGraph(nodes, "zone", "rack")
	if err != nil {
		t.Fatal(err)
	}
	for node, resources := range held {
		g.Occupy(node, resources)
	}
	return g
}

// without excludes nodes from a gang's pods.
func (gang Gang) without(reason string, nodes ...int) Gang {
	e := Exclusion{Reason: reason}
	for _, i := range nodes {
		e.Nodes.Set(i)
	}
	gang.Pods.Infeasible = append(slices.Clone(gang.Pods.Infeasible), e)
	return gang
}

// closed closes nodes for a gang's pods.
func (gang Gang) closed(reason string, nodes ...int) Gang {
	gang.Pods.Closed = append(slices.Clone(gang.Pods.Closed), Gang{}.without(reason, nodes...).Pods.Infeasible...)
	return gang
}

func TestMatchGang(t *testing.T) {
	cases := map[string]struct {
		nodes []Node
		held  map[string]Resources
		gang  Gang
		want  string // a host list; "" for a refusal
	}{
		"a gang gets whole nodes, in order": {
			nodes: line(4), gang: Gang{Pods: shape(8), Sizes: []int{3}}, want: "n[0-2]",
		},
		"the largest size that fits": {
			nodes: line(5), gang: Gang{Pods: shape(8), Sizes: []int{2, 8, 4}}, want: "n[0-3]",
		},
		"all or nothing at the least size": {
			nodes: line(3), gang: Gang{Pods: shape(8), Sizes: []int{4, 8}},
		},
		"no allowed size is no size": {
			nodes: line(3), gang: Gang{Pods: shape(8), Sizes: []int{0, -1, math.MaxInt}},
		},
		"what is held is not given again": {
			nodes: line(4), held: map[string]Resources{"n1": broker(8), "n2": broker(1)},
			gang: Gang{Pods: shape(8), Sizes: []int{2}}, want: "n[0,3]",
		},
		"distinct nodes, one broker each": {
			nodes: line(4), gang: Gang{Pods: shape(2), Sizes: []int{4}, Distinct: true}, want: "n[0-3]",
		},
		"distinct nodes are shared evenly where there are not enough": {
			nodes: line(2), gang: Gang{Pods: shape(2), Sizes: []int{5}, Distinct: true}, want: "n[0,0,0,1,1]",
		},
		"the fewest nodes": {
			nodes: line(4), gang: Gang{Pods: shape(2), Sizes: []int{6}}, want: "n[0,0,0,0,1,1]",
		},
		"the node with least room that takes them all": {
			nodes: line(3), held: map[string]Resources{"n1": broker(4)},
			gang: Gang{Pods: shape(2), Sizes: []int{2}}, want: "n[1,1]",
		},
		"the emptiest nodes are left to others": {
			nodes: line(3), held: map[string]Resources{"n2": broker(6)},
			gang: Gang{Pods: shape(2), Sizes: []int{1}, Distinct: true}, want: "n2",
		},
		"of nodes with the same room, those that get full come first, untouched ones last": {
			nodes: []Node{
				{Name: "untouched", Capacity: Resources{CPU: 9000, Pods: 9}}, {Name: "used", Capacity: Resources{CPU: 10000, Pods: 9}},
				{Name: "full", Capacity: Resources{CPU: 8000, Pods: 9}},
			},
			held: map[string]Resources{"used": broker(1)},
			gang: Gang{Pods: shape(8), Sizes: []int{2}}, want: "full,used",
		},
		"nodes that are down or infeasible are not used": {
			nodes: []Node{{Name: "a", Capacity: eightCores(), Down: "not ready"}, {Name: "b", Capacity: eightCores()}, {Name: "c", Capacity: eightCores()}},
			gang:  Gang{Pods: shape(8), Sizes: []int{1}}.without("tainted gpu", 1), want: "c",
		},
		"a resource that a node does not have is not there": {
			nodes: []Node{{Name: "a", Capacity: eightCores()}, {Name: "b", Capacity: Resources{CPU: 8000, Pods: 110, "nvidia.com/gpu": 2}}},
			gang:  Gang{Pods: Shape{Requests: Resources{CPU: 1000, Pods: 1, "nvidia.com/gpu": 1}}, Sizes: []int{2}}, want: "b,b",
		},
		"nor is one that no node has, unless nothing of it is asked for": {
			nodes: line(1), gang: Gang{Pods: Shape{Requests: Resources{"x": 0}}, Sizes: []int{1, 2}}, want: "n[0,0]",
		},
		"brokers that ask for nothing are limited by pods": {
			nodes: []Node{{Name: "a", Capacity: Resources{CPU: 1000, Pods: 3}}},
			gang:  Gang{Pods: Shape{Requests: Resources{Pods: 1}}, Sizes: []int{2, 4}}, want: "a,a",
		},
		"an overcommitted node has no room": {
			nodes: line(1), held: map[string]Resources{"n0": broker(20)}, gang: Gang{Pods: shape(1), Sizes: []int{1}},
		},
		"nodes are in the order in which people count": {
			nodes: []Node{{Name: "n10", Capacity: eightCores()}, {Name: "n9", Capacity: eightCores()}},
			gang:  Gang{Pods: shape(8), Sizes: []int{2}}, want: "n[9-10]",
		},
		"the rack in which least is left over": {
			nodes: rackNodes(2, 5, 3, 4), gang: Gang{Pods: shape(8), Sizes: []int{3}}, want: "n[7-9]",
		},
		"one zone rather than fewer racks": {
			nodes: rackNodes(6, 1, 3, 5), gang: Gang{Pods: shape(8), Sizes: []int{8}}, want: "n[7-14]",
		},
		"the fewest racks, the roomiest and the tightest": {
			nodes: rackNodes(2, 5, 3, 4), gang: Gang{Pods: shape(8), Sizes: []int{7}}, want: "n[0-6]",
		},
		"all racks where it takes all": {
			nodes: rackNodes(2, 5, 3, 4), gang: Gang{Pods: shape(8), Sizes: []int{14}}, want: "n[0-13]",
		},
		"all in one rack if that is required, at the size that it has room for": {
			nodes: rackNodes(2, 5, 3, 4), gang: Gang{Pods: shape(8), Sizes: []int{1, 5, 6}, Topology: Topology{"rack", true}}, want: "n[2-6]",
		},
		"the tightest zone if one is required": {
			nodes: rackNodes(2, 5, 3, 3), gang: Gang{Pods: shape(8), Sizes: []int{2, 6}, Topology: Topology{"zone", true}}, want: "n[7-12]",
		},
		"no node without a rack if one is required": {
			nodes: line(4), gang: Gang{Pods: shape(8), Sizes: []int{1}, Topology: Topology{"rack", true}},
		},
		"nor any in a level that there is not": {
			nodes: rackNodes(2, 2), gang: Gang{Pods: shape(8), Sizes: []int{1}, Topology: Topology{"row", true}},
		},
		"one zone is preferred to fewer racks": {
			nodes: rackNodes(4, 1, 1, 1, 1, 1), held: map[string]Resources{"n0": broker(8), "n1": broker(8)},
			gang: Gang{Pods: shape(8), Sizes: []int{4}, Topology: Topology{"zone", false}}, want: "n[2-5]",
		},
		"several zones are used if one does not do": {
			nodes: rackNodes(2, 3), gang: Gang{Pods: shape(8), Sizes: []int{4}, Topology: Topology{"zone", false}}, want: "n[0,2-4]",
		},
		"a preference for a level that there is not is none": {
			nodes: rackNodes(2, 3), gang: Gang{Pods: shape(8), Sizes: []int{3}, Topology: Topology{"row", false}}, want: "n[2-4]",
		},
		"spread over all racks, evenly": {
			nodes: rackNodes(1, 5, 5), gang: Gang{Pods: shape(2), Sizes: []int{7}, Policy: Spread}, want: "n[0-3,6-8]",
		},
		"spread over all nodes before a second broker on one": {
			nodes: rackNodes(1, 5), gang: Gang{Pods: shape(2), Sizes: []int{6}, Policy: Spread}, want: "n[0-5]",
		},
		"whole nodes, however little is asked of them": {
			nodes: line(3), gang: Gang{Pods: alone(1), Sizes: []int{3, 4}}, want: "n[0-2]",
		},
		"no whole node on which a pod is": {
			nodes: line(3), held: map[string]Resources{"n1": {}}, gang: Gang{Pods: alone(0), Sizes: []int{1, 2, 3}}, want: "n[0,2]",
		},
		"nothing of a whole node of others, not even for pods that ask for nothing": {
			nodes: line(3), held: map[string]Resources{"n1": {WholeNode: 1}}, gang: Gang{Sizes: []int{4}}, want: "n[0,0,0,0]",
		},
		"of whole nodes the one that gets full comes first": {
			nodes: []Node{{Name: "a", Capacity: Resources{CPU: 16000, Pods: 9}}, {Name: "b", Capacity: eightCores()}},
			gang:  Gang{Pods: alone(8), Sizes: []int{1}}, want: "b",
		},
		"whole nodes of one rack": {
			nodes: rackNodes(2, 3), held: map[string]Resources{"n2": broker(1)},
			gang: Gang{Pods: alone(1), Sizes: []int{1, 2, 3}, Topology: Topology{"rack", true}}, want: "n[0-1]",
		},
		"nothing on no nodes": {gang: Gang{Pods: shape(1), Sizes: []int{1}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			g := heldGraph(t, tc.nodes, tc.held)
			got, refusal := g.MatchGang(tc.gang)
			want, err := hostlist.Decode(tc.want, 100)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.Nodes, want) {
				t.Errorf("got nodes %v, want %v", got.Nodes, want)
			}
			if (refusal == nil) != (len(want) > 0) {
				t.Errorf("got refusal %v with nodes %v", refusal, got.Nodes)
			}
		})
	}
}

func TestNewGraphRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		nodes  []Node
		levels []string
	}{
		"two nodes of one name":                     {nodes: []Node{{Name: "a"}, {Name: "a"}}},
		"two nodes of one name in different places": {nodes: []Node{{Name: "a", Topology: []string{"x"}}, {Name: "b"}, {Name: "a"}}},
		"two levels of one name":                    {levels: []string{"rack", "rack"}},
		"a level named as one without a name":       {nodes: []Node{{Name: "a", Topology: []string{"x", "y"}}}, levels: []string{"level 2"}},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := NewGraph(tc.nodes, tc.levels...); err == nil {
				t.Error("they were taken")
			}
		})
	}
}

// Each domain is a range of nodes, in whatever order they come.
func TestNodesAreInTheOrderOfTopology(t *testing.T) {
	nodes := []Node{
		{Name: "n2", Topology: []string{"z1", "r1"}}, {Name: "n1", Topology: []string{"z1", "r10"}},
		{Name: "n4", Topology: []string{"z1", "r1"}}, {Name: "n3", Topology: []string{"z0"}},
		{Name: "n6"}, {Name: "n5", Topology: []string{"z1", "r9"}}, {Name: "n0", Topology: []string{"z0", "r1"}},
	}
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	g, err := NewGraph(nodes)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(g.nodes.names, " "); got != "n6 n3 n0 n2 n4 n5 n1" {
		t.Errorf("got %s", got)
	}
	if got := fmt.Sprint(g.nodes.levels); got != "[{level 1 [0 1 1 2 2 2] [false true true true true true]} {level 2 [0 1 2 3 4 5] [false false true true true true]}]" {
		t.Errorf("got levels %s", got)
	}
	if i, ok := g.Index("n4"); !ok || g.Name(i) != "n4" || g.Len() != len(nodes) {
		t.Errorf("n4 is at %d (%v) of %d", i, ok, g.Len())
	}
	if _, ok := g.Index("n7"); ok {
		t.Error("there is a node n7")
	}
}

func TestBitmap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		var b Bitmap
		want := map[int]bool{}
		for range random.IntN(100) {
			i := random.IntN(300)
			b.Set(i)
			want[i] = true
		}
		if b.Has(-1) {
			t.Fatal("the set has a node below 0")
		}
		first := random.IntN(400)
		window := b.window(int32(first))
		for i := range 64 {
			if in := window>>i&1 == 1; in != want[first+i] || in != b.Has(first+i) {
				t.Fatalf("the window from %d has bit %d %v, want %v", first, i, in, want[first+i])
			}
		}
		more := random.Uint64() & random.Uint64()
		b.add(int32(first), more)
		for i := range 500 {
			if added := i >= first && more>>(i-first)&1 == 1; b.Has(i) != (want[i] || added) {
				t.Fatalf("%b from %d: the set has %d: %t", more, first, i, b.Has(i))
			}
		}
	}
}

func TestExclusions(t *testing.T) {
	g := heldGraph(t, line(3), nil)
	reasons := func(yield func(node, reason string) bool) {
		_ = yield("n2", "tainted") && yield("n0", "old") && yield("n1", "tainted") && yield("gone", "tainted")
	}
	if got := fmt.Sprint(g.Exclusions(reasons)); got != "[{old [1]} {tainted [6]}]" {
		t.Errorf("got %s", got)
	}
}

// The amounts of many nodes stay within int64.
func TestAmountsOfManyNodes(t *testing.T) {
	nodes := line(1 << 15)
	for i := range nodes {
		nodes[i].Capacity = Resources{Memory: MaxAmount, Pods: 110}
	}
	g := heldGraph(t, nodes, nil)
	usable := g.Usable(Gang{Pods: Shape{Requests: Resources{Pods: 1}}})
	for resource, want := range map[string]int64{Memory: 1 << 61, Pods: 110 << 15} {
		if free, all := usable.AmountIn(g, resource); free != want || all != want {
			t.Errorf("%d of %d %s are free, want %d", free, all, resource, want)
		}
	}
}

// Amounts beyond all bounds do not make room.
func TestAmountsStayWithinBounds(t *testing.T) {
	g := heldGraph(t, []Node{{Name: "a", Capacity: Resources{CPU: math.MaxInt64, Memory: math.MinInt64, Pods: 110}}}, nil)
	for range 100 {
		g.Occupy("a", Resources{CPU: math.MaxInt64, Memory: math.MinInt64, "unknown": 1})
	}
	if left := g.Left("a"); left[CPU] >= 0 || left[Memory] >= 0 {
		t.Errorf("left are %v", left)
	}
	if _, refusal := g.MatchGang(Gang{Pods: shape(1), Sizes: []int{1}}); refusal == nil {
		t.Error("there is room")
	}
	g.Occupy("b", broker(1))
	g.Vacate("b", broker(1))
	g.SetDown("b", "gone")
	if g.Left("b") != nil {
		t.Error("there is a node b")
	}
}

// A match allocates memory for its result, and no other memory.
func TestMatchGangDoesNotAllocate(t *testing.T) {
	g, err := NewGraph(racks(2000), "zone", "rack")
	if err != nil {
		t.Fatal(err)
	}
	halfBusy(g)
	for name, gang := range map[string]Gang{
		"pack":      {Pods: shape(3), Sizes: []int{300}},
		"distinct":  {Pods: shape(3), Sizes: []int{300}, Distinct: true},
		"spread":    {Pods: shape(3), Sizes: []int{300}, Policy: Spread},
		"preferred": {Pods: shape(3), Sizes: []int{3000}, Topology: Topology{"zone", false}},
		"required":  {Pods: shape(3), Sizes: []int{100}, Topology: Topology{"rack", true}},
		"refused":   {Pods: shape(3), Sizes: []int{4001}},
	} {
		t.Run(name, func(t *testing.T) {
			if allocs := testing.AllocsPerRun(100, func() { g.MatchGang(gang) }); allocs > 1 {
				t.Errorf("%.0f allocations, want 1", allocs)
			}
		})
	}
}

// 100,000 nodes take little memory.
func TestLargeGraph(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a second")
	}
	nodes := racks(100000)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	g, err := NewGraph(nodes, "zone", "rack")
	if err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if size := int64(after.HeapAlloc) - int64(before.HeapAlloc); size > 50<<20 {
		t.Errorf("%d nodes take %d bytes", g.Len(), size)
	}
	runtime.KeepAlive(nodes)
	if placement, _ := g.MatchGang(wholeNodes(99999)); len(placement.Nodes) != 99999 {
		t.Errorf("%d nodes are found", len(placement.Nodes))
	}
}

// Nodes that all differ in class, rack and resources are matched, too.
func TestNodesThatAreAllDifferent(t *testing.T) {
	nodes := racks(5000)
	for i := range nodes {
		nodes[i].Capacity[CPU] = int64(8000 + i)
		nodes[i].Capacity[fmt.Sprint("example.com/", i%20)] = 1
		nodes[i].Topology = []string{"z", fmt.Sprint("r", i)}
	}
	g := heldGraph(t, nodes, nil)
	gang := Gang{Job: "a", Pods: shape(8), Sizes: []int{4999}}
	placement, _ := g.MatchGang(gang)
	if len(placement.Nodes) != 4999 || len(maps.Collect(slices.All(slices.Compact(slices.Clone(placement.Nodes))))) != 4999 {
		t.Fatalf("%d nodes are found", len(placement.Nodes))
	}
	if err := g.Take(gang, placement); err != nil {
		t.Fatal(err)
	}
}
