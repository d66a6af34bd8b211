// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"fmt"
	"io"
	"maps"
	"slices"
)

// SetStatus sets the vertices of a path up or down. Nothing below a vertex that is down is
// used, though the vertices below keep their own status.
func (m *Matcher) SetStatus(path string, up bool) error {
	vertices, err := m.at("setting the status of", path)
	for _, v := range vertices {
		m.setStatus(v, up)
	}
	return err
}

// at finds the vertices of a path; what tells what for.
func (m *Matcher) at(what, path string) (vertices []int32, err error) {
	if vertices = m.graph.at(path); len(vertices) == 0 {
		err = fmt.Errorf("%s %s: %w", what, path, ErrNotFound)
	}
	return vertices, err
}

func (m *Matcher) setStatus(v int32, up bool) {
	x := &m.graph.vertices[v]
	if x.down != up {
		return
	}
	x.down = false
	n := m.graph.upBelow(v)
	if x.down = !up; !up {
		n = -n
	}
	m.changedStatus(v)
	for p := x.parent; p != none; p = m.graph.vertices[p].parent {
		if m.graph.vertices[p].down {
			return
		}
	}
	m.graph.nodesUp += n
}

// upBelow is the number of nodes at v and below that are up, and below no vertex that is
// down.
func (g *Graph) upBelow(v int32) int64 {
	x := &g.vertices[v]
	if x.down {
		return 0
	}
	var n int64
	if x.kind == nodeKind {
		n = 1
	}
	for c := x.first; c != none; c = g.vertices[c].next {
		n += g.upBelow(c)
	}
	return n
}

// Vertex is the state of a vertex.
type Vertex struct {
	UniqID     int64
	Up         bool
	Properties map[string]string
}

// Vertices are the vertices of a path: one, or several of different ranks.
func (m *Matcher) Vertices(path string) ([]Vertex, error) {
	vertices, err := m.at("looking for", path)
	var out []Vertex
	for _, v := range vertices {
		out = append(out, Vertex{m.graph.vertices[v].uniq, !m.graph.vertices[v].down, maps.Clone(m.graph.properties[v])})
	}
	return out, err
}

// SetProperty sets a property of the vertices of a path.
func (m *Matcher) SetProperty(path, key, value string) error {
	vertices, err := m.at("setting a property of", path)
	for _, v := range vertices {
		if m.graph.properties[v] == nil {
			m.graph.properties[v] = map[string]string{}
		}
		m.graph.properties[v][key] = value
	}
	m.graph.shape++
	return err
}

// Attach adds the vertices of a JGF document that the graph does not have, by path and
// rank. The others stay as they are. An error changes nothing.
func (m *Matcher) Attach(r io.Reader) error {
	grown := m.graph.clone()
	if err := grown.addJGF(r); err != nil {
		return fmt.Errorf("attaching a subgraph: %w: %w", ErrInvalid, err)
	}
	*m.graph = *grown
	m.replant()
	return nil
}

// Remove removes the vertex of a path, and all vertices below. Jobs lose what they have
// there.
func (m *Matcher) Remove(path string) error {
	vertices, err := m.at("removing", path)
	switch {
	case err != nil:
		return err
	case slices.Contains(vertices, m.graph.root):
		return fmt.Errorf("removing %s: %w: it is the root", path, ErrInvalid)
	}
	m.cutOff(vertices[len(vertices)-1:])
	return nil
}

// RemoveRanks removes the topmost vertices of broker ranks, and all vertices below. Jobs
// lose what they have there.
func (m *Matcher) RemoveRanks(ranks []int64) error {
	byRank := m.graph.rootsByRank()
	var roots []int32
	for _, rank := range ranks {
		if rank < 0 || len(byRank[rank]) == 0 {
			return fmt.Errorf("removing ranks: rank %d: %w", rank, ErrNotFound)
		}
		roots = append(roots, byRank[rank]...)
	}
	if slices.Contains(roots, m.graph.root) {
		return fmt.Errorf("removing ranks: %w: the root has one of them", ErrInvalid)
	}
	slices.Sort(roots)
	m.cutOff(slices.Compact(roots))
	return nil
}

// cutOff removes subtrees. A job that loses everything stays until it is cancelled.
func (m *Matcher) cutOff(vertices []int32) {
	var all []int32
	for _, v := range vertices {
		m.graph.below(v, func(u int32) { all = append(all, u) })
	}
	for _, j := range m.jobs {
		m.giveBack(j, all)
	}
	for _, u := range all {
		m.graph.vertices[u].gone = true
		delete(m.graph.paths, u)
	}
	clear(m.graph.byPath)
	for _, v := range vertices {
		parent := m.graph.vertices[v].parent
		m.graph.unlink(v)
		if children, ordered := m.ordered[parent]; ordered {
			m.ordered[parent] = slices.DeleteFunc(children, func(c int32) bool { return c == v })
		}
	}
	m.replant()
}

// replant updates what depends on the tree, after the tree has changed.
func (m *Matcher) replant() {
	for parent, children := range m.ordered {
		known := make(map[int32]bool, len(children))
		for _, c := range children {
			known[c] = true
		}
		for c := m.graph.vertices[parent].first; c != none; c = m.graph.vertices[c].next {
			if !known[c] {
				children = append(children, c)
			}
		}
		slices.SortFunc(children, m.freer)
		m.ordered[parent] = children
	}
	m.prime()
}
