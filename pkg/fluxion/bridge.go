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

// mebibytes are the units of pools whose resources are counted in bytes: counts of
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
		for p := m.tree.vertices[v].parent; p != m.tree.root && m.tree.vertices[p].mark != m.sequence; p = m.tree.vertices[p].parent {
			s.mark(p, m.tree.vertices[p].size, false)
		}
	}
	u := &update{Matcher: m, job: &job{id: othersID, until: graphEnd}}
	u.run(1, false)
	m.remember(u.job)
}

// setNodesOfTree lets gangs ask a graph that was read: its nodes, what is in them by
// type, in units, and as topology what they are in.
func (g *Graph) setNodesOfTree() error {
	specs, _, levels := g.tree.nodeSpecs()
	return g.setNodes(specs, levels)
}

// nodeSpecs are the nodes of a tree, and their vertices.
func (t *tree) nodeSpecs() (specs []Node, vertices []int32, levels []string) {
	seen := map[string]bool{}
	t.below(t.root, func(v int32) {
		if t.vertices[v].kind != nodeKind {
			return
		}
		spec := Node{Name: t.vertices[v].name, Capacity: Resources{}}
		if seen[spec.Name] {
			spec.Name = t.path(v)
		}
		seen[spec.Name] = true
		t.eachPool(v, func(name string, pool *vertex) { spec.Capacity[name] += pool.size })
		var kinds []string
		for p := t.vertices[v].parent; p != none && p != t.root; p = t.vertices[p].parent {
			spec.Topology = append(spec.Topology, t.vertices[p].name)
			kinds = append(kinds, t.kinds[t.vertices[p].kind])
		}
		slices.Reverse(spec.Topology)
		slices.Reverse(kinds)
		if len(kinds) > len(levels) {
			levels = kinds
		}
		for p := v; p != none && spec.Down == ""; p = t.vertices[p].parent {
			if t.vertices[p].down {
				spec.Down = "down"
			}
		}
		specs, vertices = append(specs, spec), append(vertices, v)
	})
	return specs, vertices, levels
}

// eachPool calls visit for the leaves below a vertex.
func (t *tree) eachPool(v int32, visit func(typeName string, pool *vertex)) {
	t.below(v, func(u int32) {
		if x := &t.vertices[u]; u != v && x.first == none {
			visit(t.kinds[x.kind], x)
		}
	})
}

// Graph is what the matcher has at a time, for gangs to ask: its nodes, without what
// jobs hold then. From then on the two know nothing of each other.
func (m *Matcher) Graph(now int64) (*Graph, error) {
	specs, vertices, levels := m.tree.nodeSpecs()
	g, err := NewGraph(specs, levels...)
	if err != nil {
		return nil, err
	}
	for i, v := range vertices {
		if m.heldWhole(v, now) {
			g.Occupy(specs[i].Name, specs[i].Capacity)
			continue
		}
		held := Resources{}
		m.tree.eachPool(v, func(name string, pool *vertex) { held[name] += m.heldOf(pool, now) })
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
