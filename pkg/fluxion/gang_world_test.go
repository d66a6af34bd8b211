// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"fmt"
	"maps"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// world is the naive twin of a graph. It keeps no sums and no index, and tries every
// possibility.
type world struct {
	nodes  []Node // in the order of the graph
	levels []string
	others map[string][]Resources // what each pod of no job holds, by node
	jobs   map[string]*worldJob
}

type worldJob struct {
	gang Gang
	// nodes are by rank; "" for a rank without a pod.
	nodes []string
}

func (r Resources) plus(other Resources, n int64) Resources {
	sum := maps.Clone(r)
	if sum == nil {
		sum = Resources{}
	}
	for name, amount := range other {
		sum[name] += n * amount
	}
	return sum
}

// covers reports whether r has all that is requested.
func (r Resources) covers(request Resources) bool {
	for name, amount := range request {
		if amount > 0 && r[name] < amount && name != WholeNode {
			return false
		}
	}
	return true
}

func (w *world) clone() *world {
	c := &world{slices.Clone(w.nodes), w.levels, maps.Clone(w.others), map[string]*worldJob{}}
	for id, job := range w.jobs {
		c.jobs[id] = &worldJob{job.gang, slices.Clone(job.nodes)}
	}
	return c
}

func (w *world) index(name string) int {
	return slices.IndexFunc(w.nodes, func(n Node) bool { return n.Name == name })
}

// free is what is left of each node.
func (w *world) free() []Resources {
	free := make([]Resources, len(w.nodes))
	for i, node := range w.nodes {
		free[i] = node.Capacity
		for _, takes := range w.others[node.Name] {
			free[i] = free[i].plus(takes, -1)
		}
	}
	for _, job := range w.jobs {
		for _, name := range job.nodes {
			if i := w.index(name); i >= 0 {
				free[i] = free[i].plus(job.gang.Pods.Requests, -1)
			}
		}
	}
	return free
}

// held are the number of pods on each node, and how many of them have asked for a whole one.
func (w *world) held() (pods, whole []int) {
	pods, whole = make([]int, len(w.nodes)), make([]int, len(w.nodes))
	add := func(i int, takes Resources) {
		if i >= 0 {
			pods[i]++
			whole[i] += int(takes[WholeNode])
		}
	}
	for i, node := range w.nodes {
		for _, takes := range w.others[node.Name] {
			add(i, takes)
		}
	}
	for _, job := range w.jobs {
		for _, name := range job.nodes {
			add(w.index(name), job.gang.Pods.Requests)
		}
	}
	return pods, whole
}

func (s *Shape) allows(i int) bool { return !excludes(s.Infeasible, i) }

func excludes(exclusions []Exclusion, i int) bool {
	return slices.ContainsFunc(exclusions, func(e Exclusion) bool { return e.Nodes.Has(i) })
}

// puzzle is a gang, and the nodes on which it may be placed.
type puzzle struct {
	w    *world
	gang Gang
	// left is what is left of each node, and nil for a node that is down or closed. has is the
	// number of pods of the gang on each node.
	left []Resources
	has  []int
	// pods is the number of pods on each node, and whole is how many of them have it alone.
	pods, whole []int
	// top is the most pods that a node may have, and room the number of pods that each
	// node can take.
	top  int
	room []int
}

func (w *world) puzzle(gang Gang, empty bool) *puzzle {
	p := &puzzle{w: w, gang: gang, left: w.free(), has: make([]int, len(w.nodes)), top: unlimited}
	p.pods, p.whole = w.held()
	for i, node := range w.nodes {
		if empty {
			p.left[i], p.pods[i], p.whole[i] = node.Capacity, 0, 0
		} else if node.Down != "" || excludes(gang.Pods.Closed, i) {
			p.left[i] = nil
		}
	}
	if job := w.jobs[gang.Job]; job != nil {
		for _, name := range job.nodes {
			if i := w.index(name); i >= 0 {
				p.has[i]++
			}
		}
	}
	return p.count()
}

// count fills in the room: it puts one pod after the other on each node.
func (p *puzzle) count() *puzzle {
	p.room = make([]int, len(p.w.nodes))
	for i, left := range p.left {
		alone := p.gang.Pods.Requests[WholeNode] > 0
		for left != nil && p.gang.Pods.allows(i) && p.whole[i] == 0 && (!alone || p.pods[i]+p.room[i] == 0) && p.has[i]+p.room[i] < p.top && left.covers(p.gang.Pods.Requests) {
			left = left.plus(p.gang.Pods.Requests, -1)
			p.room[i]++
		}
	}
	return p
}

// most is the number of pods that nodes can take.
func (p *puzzle) most(nodes []int) int { return total(p.room, nodes) }

// capped is the puzzle in which no node may have more than top pods.
func (p *puzzle) capped(top int) *puzzle {
	with := *p
	with.top = top
	return with.count()
}

func (w *world) all() []int {
	all := make([]int, len(w.nodes))
	for i := range all {
		all[i] = i
	}
	return all
}

// domains are the nodes of each domain of a level, by the path of the domain. Nodes in no
// domain of the level are together.
func (w *world) domains(level string, nodes []int) map[string][]int {
	depth := slices.Index(w.levels, level) + 1
	domains := map[string][]int{}
	for _, i := range nodes {
		path := make([]string, depth)
		copy(path, w.nodes[i].Topology)
		key := fmt.Sprint(path)
		if depth > 0 && path[depth-1] == "" {
			key += " none"
		}
		domains[key] = append(domains[key], i)
	}
	return domains
}

// fewest is the smallest number of domains that together take n pods. It tries all choices.
// Domains that have pods of the gang are in every choice, and do not count.
func (p *puzzle) fewest(domains map[string][]int, n int) int {
	var free []int
	var others [][]int
	for _, key := range slices.Sorted(maps.Keys(domains)) {
		if nodes := domains[key]; slices.ContainsFunc(nodes, func(i int) bool { return p.has[i] > 0 }) {
			free = append(free, nodes...)
		} else {
			others = append(others, nodes)
		}
	}
	best := len(others) + 1
	for choice := range 1 << len(others) {
		count := bits.OnesCount(uint(choice))
		if count >= best {
			continue
		}
		nodes := slices.Clone(free)
		for d := range others {
			if choice>>d&1 == 1 {
				nodes = append(nodes, others[d]...)
			}
		}
		if p.most(nodes) >= n {
			best = count
		}
	}
	return best
}

// size is the largest allowed size that fits.
func (p *puzzle) size() (size, fits int) {
	fits = p.most(p.w.all())
	if t := p.gang.Topology; t.Required && t.Level != "" {
		fits = 0
		for key, nodes := range p.w.domains(t.Level, p.w.all()) {
			if slices.Contains(p.w.levels, t.Level) && !isNone(key) {
				fits = max(fits, p.most(nodes))
			}
		}
	}
	for _, allowed := range p.gang.Sizes {
		if allowed <= fits {
			size = max(size, allowed)
		}
	}
	return size, fits
}

func isNone(key string) bool { return len(key) > 5 && key[len(key)-5:] == " none" }

// gpu is a resource that some nodes have.
const gpu = "example.com/gpu"

// randomWorld is a small cluster.
func randomWorld(random *rand.Rand) *world {
	w := &world{others: map[string][]Resources{}, jobs: map[string]*worldJob{}}
	w.levels = [][]string{nil, {"rack"}, {"zone", "rack"}}[random.IntN(3)]
	for i := range random.IntN(14) {
		node := Node{
			Name:     fmt.Sprintf("n%d", i),
			Capacity: randomCapacity(random),
		}
		if random.IntN(8) == 0 {
			node.Down = "not ready"
		}
		switch {
		case random.IntN(12) == 0: // nowhere
		case len(w.levels) == 1:
			node.Topology = []string{fmt.Sprint(random.IntN(4))}
		case len(w.levels) == 2:
			node.Topology = []string{fmt.Sprint(random.IntN(2)), fmt.Sprint(random.IntN(3))}
		}
		w.nodes = append(w.nodes, node)
	}
	w.sort()
	return w
}

// sort puts the nodes in the order of the graph.
func (w *world) sort() {
	slices.SortFunc(w.nodes, func(a, b Node) int {
		pathA, pathB := append(slices.Clone(a.Topology), "", ""), append(slices.Clone(b.Topology), "", "")
		for l := range 2 {
			if c := hostlist.Compare(pathA[l], pathB[l]); c != 0 {
				return c
			}
		}
		return hostlist.Compare(a.Name, b.Name)
	})
}

func randomCapacity(random *rand.Rand) Resources {
	capacity := Resources{CPU: random.Int64N(5) * 2, Memory: random.Int64N(9), Pods: 1 + random.Int64N(6)}
	if random.IntN(3) == 0 {
		capacity[gpu] = random.Int64N(3)
	}
	return capacity
}

func randomShape(random *rand.Rand, nodes int) Shape {
	s := Shape{Requests: Resources{CPU: random.Int64N(4), Memory: random.Int64N(4), Pods: 1}}
	if random.IntN(6) == 0 {
		s.Requests[gpu] = 1
	}
	if random.IntN(4) == 0 {
		s.Requests[WholeNode] = 1
	}
	if random.IntN(40) == 0 {
		s.Requests["nobody/has"] = random.Int64N(2)
	}
	for _, reason := range []string{"tainted a", "tainted b"} {
		if random.IntN(3) == 0 {
			s.Infeasible = append(s.Infeasible, randomExclusion(random, reason, nodes))
		}
	}
	if random.IntN(4) == 0 {
		s.Closed = append(s.Closed, randomExclusion(random, "reserved", nodes))
	}
	return s
}

func randomExclusion(random *rand.Rand, reason string, nodes int) Exclusion {
	e := Exclusion{Reason: reason}
	for i := range nodes {
		if random.IntN(5) == 0 {
			e.Nodes.Set(i)
		}
	}
	return e
}

func (w *world) randomGang(random *rand.Rand, id string) Gang {
	gang := Gang{
		Job: id, Pods: randomShape(random, len(w.nodes)), Policy: Policy(random.IntN(2) * random.IntN(2)),
		Distinct: random.IntN(2) == 0,
	}
	for range 1 + random.IntN(3) {
		gang.Sizes = append(gang.Sizes, random.IntN(9))
	}
	if random.IntN(2) == 0 {
		gang.Topology = Topology{Level: []string{"zone", "rack", "nothing"}[random.IntN(20)*2/19], Required: random.IntN(2) == 0}
	}
	if random.IntN(3) > 0 {
		gang.End = noon.Add(time.Duration(random.IntN(5)) * time.Hour)
	}
	return gang
}

// graph makes the graph of a world. It shuffles the nodes first.
func (w *world) graph(t *testing.T, random *rand.Rand) *Graph {
	t.Helper()
	nodes := slices.Clone(w.nodes)
	random.Shuffle(len(nodes), func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
	g, err := NewGraph(nodes, w.levels...)
	if err != nil {
		t.Fatal(err)
	}
	for name, pods := range w.others {
		for _, takes := range pods {
			g.Occupy(name, takes)
		}
	}
	for _, job := range w.jobs {
		if err := g.Adopt(job.gang, Placement{job.nodes}); err != nil {
			t.Fatal(err)
		}
	}
	return g
}
