// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"fmt"
	"maps"
	"slices"
)

// A graph can be asked for gangs and, by a Matcher, with jobspecs. What was made of
// one kind is translated for the other here.

// othersID is the job that has what a graph of nodes has given before a Matcher took
// it over.
const othersID = ^uint64(0)

// mebibyte is the unit of pools whose resources are counted in bytes: counts of
// jobspecs have 32 bits.
const mebibyte = 1 << 20

func poolUnit(resource string) (unit string, size int64) {
	if resource == Memory || resource == EphemeralStorage {
		return "MiB", mebibyte
	}
	return "", 1
}

// plant makes the tree of a graph of nodes: a cluster, the domains of its topology, a
// node of a rank for each, and in it a divisible pool of each resource, named as the
// resource, memory in MiB. What the graph has given stays given, to a job of Fluxion's
// highest id.
func (g *Graph) plant() (*tree, map[int32]int64, error) {
	p := &planter{graph: g, builder: newBuilder(), used: map[int32]int64{}}
	root, err := p.add(-1, "cluster", "", 0, -1, 1)
	if err != nil {
		return nil, nil, err
	}
	above := make([]int, len(g.nodes.levels)+1)
	above[0] = root
	last := make([]int32, len(g.nodes.levels))
	for i := range last {
		last[i] = none
	}
	for node := range g.nodes.names {
		page := g.nodes.pageOf[node]
		for i, level := range g.nodes.levels {
			if !level.placed[page] {
				above[i+1] = above[i]
				continue
			}
			if level.domain[page] != last[i] {
				last[i] = level.domain[page]
				for j := i + 1; j < len(last); j++ {
					last[j] = none
				}
				if above[i+1], err = p.add(above[i], level.name, "", int64(last[i]), -1, 1); err != nil {
					return nil, nil, err
				}
			}
		}
		if err := p.addNode(above[len(above)-1], int32(node)); err != nil {
			return nil, nil, err
		}
	}
	return p.builder.tree, p.used, nil
}

type planter struct {
	graph   *Graph
	builder *builder
	// used is what is taken of pools.
	used map[int32]int64
}

func (p *planter) add(parent int, typeName, name string, id, rank, size int64) (int, error) {
	if name == "" {
		name = fmt.Sprint(typeName, id)
	}
	unit, _ := poolUnit(typeName)
	return p.builder.add(parent, VertexSpec{
		Type: typeName, Basename: typeName, Name: name, ID: id, UniqID: int64(len(p.builder.tree.vertices)), Rank: rank, Size: size,
		Unit: unit, Divisible: p.graph.nodes.isResource(typeName),
	})
}

func (p *planter) addNode(parent int, node int32) error {
	nodes := &p.graph.nodes
	v, err := p.add(parent, "node", nodes.names[node], int64(node), int64(node), 1)
	if err != nil {
		return err
	}
	p.builder.tree.vertices[v].down = nodes.down(node) != ""
	page, mask := nodes.locate(node)
	capacity := nodes.model(nodes.pages[page].classes[nodes.pages[page].of(mask)].model)
	left := nodes.left(node)
	for r, name := range nodes.resources {
		_, unit := poolUnit(name)
		if capacity[r] < unit {
			continue
		}
		pool, err := p.add(v, name, "", int64(r), int64(node), capacity[r]/unit)
		if err != nil {
			return err
		}
		if used := capacity[r]/unit - max(left[r], 0)/unit; used > 0 {
			p.used[int32(pool)] = used
		}
	}
	return nil
}

func (l *layout) isResource(name string) bool {
	_, is := slices.BinarySearch(l.resources, name)
	return is
}

// holdForOthers gives what others have of pools to a job that stays.
func (m *Matcher) holdForOthers(used map[int32]int64) {
	if len(used) == 0 {
		return
	}
	m.sequence++
	s := &search{Matcher: m}
	for _, v := range slices.Sorted(maps.Keys(used)) {
		s.mark(v, used[v], false)
		s.markPath(v)
	}
	u := &update{Matcher: m, job: &job{id: othersID, until: graphEnd}}
	u.run(1, false)
	m.remember(u.job)
}

// setNodesOfTree lets gangs ask a graph that was read: its nodes, what is in them by
// type, in units, and as topology what they are in. What is down in a node is taken.
func (g *Graph) setNodesOfTree() error {
	specs, vertices, levels := g.tree.nodeSpecs()
	if err := g.setNodes(specs, levels); err != nil {
		return err
	}
	for i, v := range vertices {
		down := Resources{}
		g.tree.eachPool(v, func(u int32, usable bool) {
			if !usable {
				down[g.tree.kinds[g.tree.vertices[u].kind]] += g.tree.vertices[u].size
			}
		}, func(u int32) bool { return !g.tree.vertices[u].down })
		if len(down) > 0 {
			g.Occupy(specs[i].Name, down)
		}
	}
	return nil
}

// nodeSpecs are the nodes of a tree, their vertices, and the levels of what they are
// in, by type; a type that is in itself is a level each time.
func (t *tree) nodeSpecs() (specs []Node, vertices []int32, levels []string) {
	t.below(t.root, func(v int32) {
		if t.vertices[v].kind == nodeKind {
			vertices = append(vertices, v)
		}
	})
	chains := make([][]place, len(vertices))
	for i, v := range vertices {
		chains[i] = t.places(v)
		levels = addLevels(levels, chains[i])
	}
	seen := make(map[string]bool, len(vertices))
	for i, v := range vertices {
		spec := Node{Name: t.vertices[v].name, Capacity: Resources{}, Topology: make([]string, len(levels))}
		for n := 1; seen[spec.Name]; n++ {
			spec.Name = fmt.Sprintf("%s (%d)", t.path(v), n)
		}
		seen[spec.Name] = true
		for _, p := range chains[i] {
			spec.Topology[slices.Index(levels, p.level)] = p.name
		}
		t.eachPool(v, func(u int32, _ bool) { spec.Capacity[t.kinds[t.vertices[u].kind]] += t.vertices[u].size }, nil)
		for p := v; p != none && spec.Down == ""; p = t.vertices[p].parent {
			if t.vertices[p].down {
				spec.Down = "down"
			}
		}
		specs = append(specs, spec)
	}
	return specs, vertices, levels
}

// place is a domain that a node is in.
type place struct{ level, name string }

// places are the domains that a node is in, outermost first.
func (t *tree) places(v int32) []place {
	var chain []place
	for p := t.vertices[v].parent; p != none && p != t.root; p = t.vertices[p].parent {
		chain = append(chain, place{t.kinds[t.vertices[p].kind], t.vertices[p].name})
	}
	slices.Reverse(chain)
	times := map[string]int{}
	for i := range chain {
		if times[chain[i].level]++; times[chain[i].level] > 1 {
			chain[i].level = fmt.Sprintf("%s %d", chain[i].level, times[chain[i].level])
		}
	}
	return chain
}

// addLevels adds those of a chain that are not known, each after the one that it is
// in.
func addLevels(levels []string, chain []place) []string {
	after := 0
	for _, p := range chain {
		at := slices.Index(levels, p.level)
		if at < 0 {
			at = after
			levels = slices.Insert(levels, at, p.level)
		}
		after = at + 1
	}
	return levels
}

// eachPool calls visit for the leaves below a vertex, and tells whether all that they
// are in is usable, below the vertex.
func (t *tree) eachPool(v int32, visit func(pool int32, usable bool), usable func(u int32) bool) {
	var walk func(u int32, above bool)
	walk = func(u int32, above bool) {
		for c := t.vertices[u].first; c != none; c = t.vertices[c].next {
			ok := above && (usable == nil || usable(c))
			if t.vertices[c].first == none {
				visit(c, ok)
			}
			walk(c, ok)
		}
	}
	walk(v, true)
}

// Graph is what the matcher has at a time, for gangs to ask: its nodes, without what
// jobs hold then. From then on the two know nothing of each other.
func (m *Matcher) Graph(now int64) (*Graph, error) {
	specs, vertices, levels := m.tree.nodeSpecs()
	g, err := NewGraph(specs, levels...)
	if err != nil {
		return nil, err
	}
	t := m.tree
	for i, v := range vertices {
		if m.heldWhole(v, now) {
			g.Occupy(specs[i].Name, specs[i].Capacity)
			continue
		}
		held := Resources{}
		t.eachPool(v, func(u int32, usable bool) {
			pool := &t.vertices[u]
			units := m.heldOf(pool, now)
			if !usable {
				units = pool.size
			}
			held[t.kinds[pool.kind]] += units
		}, func(u int32) bool {
			x := &t.vertices[u]
			return !x.down && (x.first == none || m.heldOf(x, now) == 0)
		})
		g.Occupy(specs[i].Name, held)
	}
	return g, nil
}

// heldOf are the units of a pool that jobs hold.
func (m *Matcher) heldOf(x *vertex, now int64) int64 {
	if x.plan == none {
		return 0
	}
	return m.tree.plans[x.plan].now(m.tree.dims(x), poolDim, now)
}

// heldWhole reports whether some job holds a vertex, or what it is in, as a whole.
func (m *Matcher) heldWhole(v int32, now int64) bool {
	for ; v != none; v = m.tree.vertices[v].parent {
		if m.heldOf(&m.tree.vertices[v], now) > 0 {
			return true
		}
	}
	return false
}
