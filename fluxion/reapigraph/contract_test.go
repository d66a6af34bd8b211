// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapigraph

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// matcher is what all engines are: a ledger.Matcher.
type matcher func(*fluxion.Graph, fluxion.Gang) (fluxion.Placement, *fluxion.Refusal)

func TestEmbeddedKeepsTheContract(t *testing.T) {
	testContract(t, func(*testing.T) matcher { return (*fluxion.Graph).MatchGang })
}

func TestFluxionKeepsTheContract(t *testing.T) {
	for _, policy := range Policies {
		t.Run(policy, func(t *testing.T) {
			openEngine(t, policy) // or skips all
			testContract(t, func(t *testing.T) matcher {
				t.Helper()
				engine := openEngine(t, policy)
				engine.failed = func(err error) { t.Error(err) }
				return engine.MatchGang
			})
		})
	}
}

var opened struct {
	sync.Mutex
	engines map[string]*Engine
}

// openEngine is an Engine of the library that FLUXION_LIBRARY names.
func openEngine(tb testing.TB, policy string) *Engine {
	tb.Helper()
	path := os.Getenv("FLUXION_LIBRARY")
	if path == "" {
		tb.Skip("FLUXION_LIBRARY does not name a libreapi_cli.so of flux-sched 0.52 or later")
	}
	opened.Lock()
	defer opened.Unlock()
	if opened.engines[policy] == nil {
		engine, err := Open(path, policy, func(err error) { panic(err) })
		if err != nil {
			tb.Fatal(err)
		}
		if opened.engines == nil {
			opened.engines = map[string]*Engine{}
		}
		opened.engines[policy] = engine
	}
	engine := *opened.engines[policy]
	return &engine
}

const gpu = "example.com/gpu"

// broker takes n cores.
func broker(n int64) fluxion.Resources {
	return fluxion.Resources{fluxion.CPU: n * 1000, fluxion.Pods: 1}
}

func shape(n int64) fluxion.Shape { return fluxion.Shape{Requests: broker(n)} }

// machine is a node n0, n1, ... of 8 cores.
func machine(i int, topology ...string) fluxion.Node {
	return fluxion.Node{
		Name:     fmt.Sprint("n", i),
		Capacity: fluxion.Resources{fluxion.CPU: 8000, fluxion.Memory: 64, fluxion.Pods: 110}, Topology: topology,
	}
}

func line(n int) []fluxion.Node {
	nodes := make([]fluxion.Node, n)
	for i := range nodes {
		nodes[i] = machine(i)
	}
	return nodes
}

// racks are as many nodes for each rack as it says, two racks to a zone.
func racks(sizes ...int) []fluxion.Node {
	var nodes []fluxion.Node
	for rack, size := range sizes {
		for range size {
			nodes = append(nodes, machine(len(nodes), fmt.Sprint("z", rack/2), fmt.Sprint("r", rack)))
		}
	}
	return nodes
}

// with is the nodes, one of them changed.
func with(nodes []fluxion.Node, i int, change func(*fluxion.Node)) []fluxion.Node {
	nodes[i].Capacity = maps.Clone(nodes[i].Capacity)
	change(&nodes[i])
	return nodes
}

// without is a shape that cannot use some nodes.
func without(s fluxion.Shape, reason string, nodes ...int) fluxion.Shape {
	e := fluxion.Exclusion{Reason: reason}
	for _, i := range nodes {
		e.Nodes.Set(i)
	}
	s.Infeasible = append(slices.Clone(s.Infeasible), e)
	return s
}

// contractCase is a sentence of the contract.
type contractCase struct {
	nodes []fluxion.Node
	held  map[string]fluxion.Resources
	gang  fluxion.Gang
	// want is the size, 0 for a refusal, and nodes the placement as a host list where
	// there is only one that is right.
	want      int
	wantNodes string
	// never and why are the refusal.
	never bool
	why   string
}

func contractCases() map[string]contractCase {
	rackRequired := fluxion.Topology{Level: "rack", Required: true}
	rackPreferred := fluxion.Topology{Level: "rack"}
	return map[string]contractCase{
		"the largest allowed size that fits": {
			nodes: line(5), gang: fluxion.Gang{Pods: shape(8), Sizes: []int{2, 8, 4}}, want: 4,
		},
		"all nodes, by rank in the order of the graph": {
			nodes: racks(2, 1, 2), gang: fluxion.Gang{Pods: shape(8), Sizes: []int{5}, Distinct: true}, want: 5, wantNodes: "n[0-4]",
		},
		"nodes are in the order in which people count": {
			nodes: []fluxion.Node{machine(10), machine(9)}, gang: fluxion.Gang{Pods: shape(4), Sizes: []int{4}}, want: 4, wantNodes: "n[9,9,10,10]",
		},
		"all or nothing": {
			nodes: line(3), gang: fluxion.Gang{Pods: shape(8), Sizes: []int{4, 8}},
			never: true, why: "needs room for 4 brokers of 8 cpu each; the whole cluster of 3 nodes has room for 3",
		},
		"no size is refused": {
			nodes: line(3), gang: fluxion.Gang{Pods: shape(8), Sizes: []int{0, -1}}, never: true, why: "may have no size",
		},
		"nothing on no nodes": {
			gang: fluxion.Gang{Pods: shape(1), Sizes: []int{1}}, never: true,
			why: "needs room for 1 broker of 1 cpu each; the whole cluster of 0 nodes has room for 0",
		},
		"room by thousandths of cores": {
			nodes: line(1), gang: fluxion.Gang{Pods: fluxion.Shape{Requests: fluxion.Resources{fluxion.CPU: 1500, fluxion.Pods: 1}}, Sizes: []int{5, 6}}, want: 5,
		},
		"room by memory": {
			nodes: line(2), gang: fluxion.Gang{Pods: fluxion.Shape{Requests: fluxion.Resources{fluxion.Memory: 20, fluxion.Pods: 1}}, Sizes: []int{6, 7}}, want: 6,
		},
		"room by pods": {
			nodes: with(line(1), 0, func(n *fluxion.Node) { n.Capacity[fluxion.Pods] = 3 }),
			gang:  fluxion.Gang{Pods: fluxion.Shape{Requests: fluxion.Resources{fluxion.Pods: 1}}, Sizes: []int{2, 4}}, want: 2, wantNodes: "n[0,0]",
		},
		"room by other resources": {
			nodes: with(line(2), 1, func(n *fluxion.Node) { n.Capacity[gpu] = 2 }),
			gang:  fluxion.Gang{Pods: fluxion.Shape{Requests: fluxion.Resources{gpu: 1, fluxion.Pods: 1}}, Sizes: []int{2, 3}}, want: 2, wantNodes: "n[1,1]",
		},
		"pods that ask for nothing fit": {
			nodes: line(2), gang: fluxion.Gang{Sizes: []int{3}}, want: 3,
		},
		"what others hold is not given": {
			nodes: line(4), held: map[string]fluxion.Resources{"n1": broker(8), "n2": broker(1)},
			gang: fluxion.Gang{Pods: shape(8), Sizes: []int{2}}, want: 2, wantNodes: "n[0,3]",
		},
		"an overcommitted node has no room": {
			nodes: line(1), held: map[string]fluxion.Resources{"n0": broker(20)}, gang: fluxion.Gang{Pods: shape(1), Sizes: []int{1}},
			why: "needs room for 1 broker of 1 cpu each; none of 1 node has room now: 1 in use",
		},
		"not now, for nodes are in use and down": {
			nodes: with(line(4), 3, func(n *fluxion.Node) { n.Down = "cordoned" }), held: map[string]fluxion.Resources{"n0": broker(1)},
			gang: fluxion.Gang{Pods: shape(8), Sizes: []int{3, 4}},
			why:  "needs room for 3 brokers of 8 cpu each; 2 of 4 nodes have room now for 2: 1 cordoned, 1 in use",
		},
		"a node that is down is not used": {
			nodes: with(line(3), 1, func(n *fluxion.Node) { n.Down = "not ready" }),
			gang:  fluxion.Gang{Pods: shape(8), Sizes: []int{1, 2, 3}, Distinct: true}, want: 2, wantNodes: "n[0,2]",
		},
		"nor is one that is infeasible": {
			nodes: line(3), gang: fluxion.Gang{Pods: without(shape(8), "tainted gpu", 0), Sizes: []int{1, 2, 3}}, want: 2, wantNodes: "n[1-2]",
		},
		"never, for nodes are infeasible": {
			nodes: line(3), gang: fluxion.Gang{Pods: without(without(shape(8), "tainted gpu", 0), "not selected", 0, 1), Sizes: []int{2}}, never: true,
			why: "needs room for 2 brokers of 8 cpu each; the whole cluster of 3 nodes has room for 1: 1 not selected, 1 tainted gpu",
		},
		"pods are packed": {
			nodes: line(8), gang: fluxion.Gang{Pods: shape(1), Sizes: []int{64}}, want: 64,
		},
		"distinct nodes": {
			nodes: line(4), gang: fluxion.Gang{Pods: shape(2), Sizes: []int{3}, Distinct: true}, want: 3,
		},
		"distinct nodes are shared evenly where there are not enough": {
			nodes: line(2), gang: fluxion.Gang{Pods: shape(2), Sizes: []int{6}, Distinct: true}, want: 6, wantNodes: "n[0,0,0,1,1,1]",
		},
		"and where one has less room": {
			nodes: line(3), held: map[string]fluxion.Resources{"n1": broker(6)},
			gang: fluxion.Gang{Pods: shape(2), Sizes: []int{5}, Distinct: true}, want: 5, wantNodes: "n[0,0,1,2,2]",
		},
		"whole nodes": {
			nodes: line(4), held: map[string]fluxion.Resources{"n1": broker(1)},
			gang: fluxion.Gang{Pods: fluxion.Shape{Requests: fluxion.Resources{fluxion.WholeNode: 1}}, Sizes: []int{2, 3, 4}}, want: 3, wantNodes: "n[0,2-3]",
		},
		"no node that others have wholly": {
			nodes: line(2), held: map[string]fluxion.Resources{"n0": {fluxion.WholeNode: 1}},
			gang: fluxion.Gang{Pods: shape(1), Sizes: []int{3}}, want: 3, wantNodes: "n[1,1,1]",
		},
		"spread": {
			nodes: racks(1, 3), gang: fluxion.Gang{Pods: shape(2), Sizes: []int{4}, Policy: fluxion.Spread}, want: 4, wantNodes: "n[0-3]",
		},
		"one rack if that is required, at the size that it has room for": {
			nodes: racks(2, 5, 3, 4), gang: fluxion.Gang{Pods: shape(8), Sizes: []int{1, 5, 6}, Topology: rackRequired}, want: 5, wantNodes: "n[2-6]",
		},
		"one rack of several that would do": {
			nodes: racks(2, 5, 3, 4), gang: fluxion.Gang{Pods: shape(4), Sizes: []int{6}, Topology: rackRequired}, want: 6,
		},
		"distinct nodes of one rack": {
			nodes: racks(2, 5, 3, 4), gang: fluxion.Gang{Pods: shape(4), Sizes: []int{10}, Topology: rackRequired, Distinct: true}, want: 10, wantNodes: "n[2,2,3,3,4,4,5,5,6,6]",
		},
		"one zone": {
			nodes: racks(2, 2, 3, 3), gang: fluxion.Gang{Pods: shape(8), Sizes: []int{6}, Topology: fluxion.Topology{Level: "zone", Required: true}}, want: 6, wantNodes: "n[4-9]",
		},
		"no rack now": {
			nodes: racks(2, 3), held: map[string]fluxion.Resources{"n2": broker(8)}, gang: fluxion.Gang{Pods: shape(8), Sizes: []int{3}, Topology: rackRequired},
			why: "needs room for 3 brokers of 8 cpu each in one rack; no rack has room now for more than 2: 2 in a rack too small, 2 in a rack with too little room, 1 in use",
		},
		"no rack ever": {
			nodes: racks(2, 3), gang: fluxion.Gang{Pods: shape(8), Sizes: []int{4}, Topology: rackRequired}, never: true,
			why: "needs room for 4 brokers of 8 cpu each in one rack; no rack of the whole cluster of 5 nodes has room for more than 3: 5 in a rack too small",
		},
		"no node without a rack": {
			nodes: line(2), gang: fluxion.Gang{Pods: shape(8), Sizes: []int{1}, Topology: rackRequired}, never: true,
			why: "needs room for 1 broker of 8 cpu each in one rack; no rack of the whole cluster of 2 nodes has room for more than 0: 2 in no rack",
		},
		"one rack is preferred, and one has room": {
			nodes: racks(2, 2, 3, 2), gang: fluxion.Gang{Pods: shape(8), Sizes: []int{3}, Topology: rackPreferred}, want: 3, wantNodes: "n[4-6]",
		},
		"one rack is preferred, and none has room": {
			nodes: racks(2, 2), gang: fluxion.Gang{Pods: shape(8), Sizes: []int{4}, Topology: rackPreferred}, want: 4, wantNodes: "n[0-3]",
		},
		"a preference for a level that there is not is none": {
			nodes: racks(2, 3), gang: fluxion.Gang{Pods: shape(8), Sizes: []int{4}, Topology: fluxion.Topology{Level: "row"}}, want: 4,
		},
	}
}

// testContract is what any engine has to do.
func testContract(t *testing.T, engine func(*testing.T) matcher) {
	t.Helper()
	for name, tc := range contractCases() {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t, tc.nodes, tc.held)
			placement, refusal := engine(t)(c.graph, tc.gang)
			c.unchanged()
			if tc.want == 0 {
				c.refused(tc.gang, refusal, tc.never, tc.why)
				return
			}
			if refusal != nil || len(placement.Nodes) != tc.want {
				t.Fatalf("got %v (%v), want %d nodes", placement.Nodes, refusal, tc.want)
			}
			c.check(tc.gang, placement)
			if want, _ := hostlist.Decode(tc.wantNodes, 100); tc.wantNodes != "" && !slices.Equal(placement.Nodes, want) {
				t.Errorf("got %v, want %v", placement.Nodes, want)
			}
		})
	}
	t.Run("what was taken is not given again", func(t *testing.T) { testTakeAgain(t, engine) })
	t.Run("snapshots are independent", func(t *testing.T) { testSnapshots(t, engine) })
	t.Run("random gangs", func(t *testing.T) { testRandom(t, engine) })
}

func testTakeAgain(t *testing.T, engine func(*testing.T) matcher) {
	t.Helper()
	c := newCluster(t, racks(4, 4), nil)
	match := engine(t)
	for i := range 3 {
		gang := fluxion.Gang{Job: fmt.Sprint("job", i), Pods: shape(5), Sizes: []int{2, 3}, Distinct: i%2 == 0}
		placement, refusal := match(c.graph, gang)
		if refusal != nil || len(placement.Nodes) != min(3, 8-3*i) {
			t.Fatalf("job %d got %v (%v)", i, placement.Nodes, refusal)
		}
		c.check(gang, placement)
		c.take(gang, placement)
	}
	gang := fluxion.Gang{Job: "late", Pods: shape(5), Sizes: []int{1}}
	_, refusal := match(c.graph, gang)
	c.refused(gang, refusal, false, "needs room for 1 broker of 5 cpu each; none of 8 nodes has room now: 8 in use; it fits once 1 job has ended")
	if err := c.graph.Take(fluxion.Gang{Job: "job0", Pods: shape(1)}, fluxion.Placement{Nodes: []string{"n0"}}); !errors.Is(err, fluxion.ErrExists) {
		t.Errorf("taking for a job again: %v", err)
	}
	if err := c.graph.Release("job0"); err != nil {
		t.Fatal(err)
	}
	if placement, refusal := match(c.graph, gang); refusal != nil {
		t.Errorf("after a job ended: %v %v", placement, refusal)
	}
}

func testSnapshots(t *testing.T, engine func(*testing.T) matcher) {
	t.Helper()
	c := newCluster(t, line(4), nil)
	gang := fluxion.Gang{Job: "job", Pods: shape(8), Sizes: []int{1, 2, 3, 4}}
	snapshot := c.graph.Snapshot()
	placement, refusal := engine(t)(snapshot, gang)
	if refusal != nil {
		t.Fatal(refusal)
	}
	if err := snapshot.Take(gang, placement); err != nil {
		t.Fatal(err)
	}
	c.unchanged()
	if again, refusal := engine(t)(c.graph, gang); refusal != nil || len(again.Nodes) != 4 {
		t.Errorf("the graph has room for %v (%v)", again.Nodes, refusal)
	}
	if _, refusal := engine(t)(snapshot, gang); refusal == nil {
		t.Error("the snapshot has room")
	}
}

func testRandom(t *testing.T, engine func(*testing.T) matcher) {
	t.Helper()
	seeds := uint64(400)
	if testing.Short() {
		seeds = 40
	}
	placed, refused := 0, 0
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 3))
		c := randomCluster(t, random)
		match := engine(t)
		for i := range 1 + random.IntN(5) {
			gang := c.randomGang(random, fmt.Sprint("job", i))
			got, refusal := match(c.graph, gang)
			c.unchanged()
			want, wantRefusal := c.graph.MatchGang(gang)
			if len(got.Nodes) != len(want.Nodes) || !reflect.DeepEqual(refusal, wantRefusal) {
				t.Fatalf("seed %d: got %v (%v), the embedded matcher finds %v (%v)", seed, got.Nodes, refusal, want.Nodes, wantRefusal)
			}
			if refusal != nil {
				refused++
				continue
			}
			placed++
			c.check(gang, got)
			c.take(gang, got)
			if t.Failed() {
				t.Fatalf("seed %d, gang %d: %+v\n%v", seed, i, gang, c.nodes)
			}
		}
	}
	if placed < int(seeds)/2 || refused < int(seeds)/2 {
		t.Errorf("%d placed, %d refused: that tests little", placed, refused)
	}
}

// cluster keeps books of its own about a graph.
type cluster struct {
	t     *testing.T
	graph *fluxion.Graph
	nodes map[string]fluxion.Node
	left  map[string]fluxion.Resources
}

func newCluster(t *testing.T, nodes []fluxion.Node, held map[string]fluxion.Resources) *cluster {
	t.Helper()
	graph, err := fluxion.NewGraph(nodes, "zone", "rack")
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t, graph, map[string]fluxion.Node{}, map[string]fluxion.Resources{}}
	for _, node := range nodes {
		c.nodes[node.Name], c.left[node.Name] = node, maps.Clone(node.Capacity)
	}
	for node, resources := range held {
		graph.Occupy(node, resources)
		c.hold(node, resources)
	}
	return c
}

func (c *cluster) hold(node string, resources fluxion.Resources) {
	for name, amount := range resources {
		c.left[node][name] -= amount
	}
}

// unchanged checks that the graph has what the books say.
func (c *cluster) unchanged() {
	c.t.Helper()
	for name, left := range c.left {
		got := c.graph.Left(name)
		for resource := range got {
			if got[resource] != left[resource] {
				c.t.Errorf("%s has %v left, not %v", name, got, left)
				return
			}
		}
	}
}

func (c *cluster) take(gang fluxion.Gang, placement fluxion.Placement) {
	c.t.Helper()
	if err := c.graph.Take(gang, placement); err != nil {
		c.t.Fatal(err)
	}
	for _, node := range placement.Nodes {
		c.hold(node, gang.Pods.Requests)
	}
	c.unchanged()
}

func (c *cluster) refused(gang fluxion.Gang, refusal *fluxion.Refusal, never bool, why string) {
	c.t.Helper()
	if refusal == nil {
		c.t.Fatal("it was not refused")
	}
	if got := c.graph.Explain(gang).String(); refusal.Never != never || got != why {
		c.t.Errorf("refused: never %v, %q\nwant never %v, %q", refusal.Never, got, never, why)
	}
	if could := c.graph.CouldHold(gang); (could != nil) != never {
		c.t.Errorf("CouldHold says %v, want never %v", could, never)
	}
}

// check checks that a placement is one that the gang may have.
func (c *cluster) check(gang fluxion.Gang, placement fluxion.Placement) {
	c.t.Helper()
	left := map[string]fluxion.Resources{}
	count := map[string]int{}
	for rank, name := range placement.Nodes {
		if left[name] == nil {
			left[name] = maps.Clone(c.left[name])
		}
		count[name]++
		for resource, amount := range gang.Pods.Requests {
			left[name][resource] -= amount
			if resource == fluxion.WholeNode && count[name] > 1 {
				c.t.Errorf("rank %d is not alone on %s", rank, name)
			}
			if amount > 0 && left[name][resource] < 0 && resource != fluxion.WholeNode {
				c.t.Errorf("rank %d has too little %s on %s", rank, resource, name)
			}
		}
		index, ok := c.graph.Index(name)
		if !ok || c.nodes[name].Down != "" || slices.ContainsFunc(gang.Pods.Infeasible, func(e fluxion.Exclusion) bool { return e.Nodes.Has(index) }) {
			c.t.Errorf("rank %d cannot be on %s", rank, name)
		}
	}
	c.checkOrder(placement.Nodes)
	c.checkTopology(&gang, placement.Nodes)
	if gang.Distinct {
		c.checkDistinct(&gang, placement.Nodes, left, count)
	}
}

// checkOrder: ranks follow the order of the graph.
func (c *cluster) checkOrder(nodes []string) {
	c.t.Helper()
	sorted := slices.IsSortedFunc(nodes, func(a, b string) int {
		i, _ := c.graph.Index(a)
		j, _ := c.graph.Index(b)
		return i - j
	})
	if !sorted {
		c.t.Errorf("ranks are not in the order of the graph: %v", nodes)
	}
}

// domain is the path of a node's domain, "" if it is in none.
func (c *cluster) domain(node, level string) string {
	depth := slices.Index(c.graph.Levels(), level) + 1
	topology := c.nodes[node].Topology
	if depth == 0 || len(topology) < depth || topology[depth-1] == "" {
		return ""
	}
	return strings.Join(topology[:depth], "/")
}

func (c *cluster) checkTopology(gang *fluxion.Gang, nodes []string) {
	c.t.Helper()
	if !gang.Topology.Required || gang.Topology.Level == "" {
		return
	}
	for _, node := range nodes {
		if domain := c.domain(node, gang.Topology.Level); domain == "" || domain != c.domain(nodes[0], gang.Topology.Level) {
			c.t.Errorf("not in one %s: %v", gang.Topology.Level, nodes)
			return
		}
	}
}

// checkDistinct: no node has two pods more than one that has room for another.
func (c *cluster) checkDistinct(gang *fluxion.Gang, nodes []string, left map[string]fluxion.Resources, count map[string]int) {
	c.t.Helper()
	fullest := 0
	for _, node := range nodes {
		fullest = max(fullest, count[node])
	}
	for name := range c.nodes {
		index, _ := c.graph.Index(name)
		if c.nodes[name].Down != "" || slices.ContainsFunc(gang.Pods.Infeasible, func(e fluxion.Exclusion) bool { return e.Nodes.Has(index) }) {
			continue
		}
		if gang.Topology.Level != "" && (!gang.Topology.Required || c.domain(name, gang.Topology.Level) != c.domain(nodes[0], gang.Topology.Level)) {
			continue
		}
		free := left[name]
		if free == nil {
			free = c.left[name]
		}
		room := true
		for resource, amount := range gang.Pods.Requests {
			room = room && (amount <= 0 || free[resource] >= amount)
		}
		if room && count[name] < fullest-1 {
			c.t.Errorf("a node has %d, and %s, which has room, %d: %v", fullest, name, count[name], nodes)
		}
	}
}

func randomCluster(t *testing.T, random *rand.Rand) *cluster {
	t.Helper()
	var nodes []fluxion.Node
	held := map[string]fluxion.Resources{}
	for i := range 1 + random.IntN(14) {
		node := machine(i)
		node.Capacity = fluxion.Resources{fluxion.CPU: random.Int64N(9), fluxion.Memory: random.Int64N(9), fluxion.Pods: 1 + random.Int64N(6)}
		if random.IntN(3) == 0 {
			node.Capacity[gpu] = random.Int64N(3)
		}
		if random.IntN(8) == 0 {
			node.Down = "not ready"
		}
		if random.IntN(8) > 0 {
			node.Topology = []string{[]string{"", "a", "b"}[random.IntN(3)], []string{"", "1", "2", "3"}[random.IntN(4)]}
		}
		if random.IntN(4) == 0 {
			held[node.Name] = fluxion.Resources{fluxion.CPU: random.Int64N(4), fluxion.Pods: 1}
		}
		nodes = append(nodes, node)
	}
	return newCluster(t, nodes, held)
}

func (c *cluster) randomShape(random *rand.Rand) fluxion.Shape {
	s := fluxion.Shape{Requests: fluxion.Resources{fluxion.CPU: random.Int64N(4), fluxion.Memory: random.Int64N(3), fluxion.Pods: 1}}
	if random.IntN(6) == 0 {
		s.Requests[gpu] = 1
	}
	if random.IntN(3) == 0 {
		for i := range c.graph.Len() {
			if random.IntN(5) == 0 {
				s = without(s, "tainted", i)
			}
		}
	}
	return s
}

func (c *cluster) randomGang(random *rand.Rand, id string) fluxion.Gang {
	gang := fluxion.Gang{
		Job: id, Pods: c.randomShape(random), Distinct: random.IntN(2) == 0, Policy: fluxion.Policy(random.IntN(5) / 4),
	}
	for range 1 + random.IntN(3) {
		gang.Sizes = append(gang.Sizes, 1+random.IntN(11))
	}
	if random.IntN(2) == 0 {
		gang.Topology = fluxion.Topology{Level: []string{"zone", "rack"}[random.IntN(2)], Required: random.IntN(2) == 0}
	}
	return gang
}
