// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"fmt"
	"io"
	"maps"
	"slices"
)

// SetStatus says whether the vertex of a path is up. What is below one that is down
// is not used either, though it keeps its own status.
func (m *Matcher) SetStatus(path string, up bool) error {
	vertices := m.graph.at(path)
	if len(vertices) == 0 {
		return fmt.Errorf("setting the status of %s: %w", path, ErrNotFound)
	}
	for _, v := range vertices {
		m.setStatus(v, up)
	}
	return nil
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

// upBelow counts the nodes at v and below that are up, and all they are in from v
// on.
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

// Vertex is what is known of a vertex.
type Vertex struct {
	UniqID     int64
	Up         bool
	Properties map[string]string
}

// Vertices are those of a path: one, or several where ranks differ.
func (m *Matcher) Vertices(path string) ([]Vertex, error) {
	vertices := m.graph.at(path)
	if len(vertices) == 0 {
		return nil, fmt.Errorf("looking for %s: %w", path, ErrNotFound)
	}
	out := make([]Vertex, 0, len(vertices))
	for _, v := range vertices {
		out = append(out, Vertex{m.graph.vertices[v].uniq, !m.graph.vertices[v].down, maps.Clone(m.graph.properties[v])})
	}
	return out, nil
}

// SetProperty gives the vertices of a path a property.
func (m *Matcher) SetProperty(path, key, value string) error {
	vertices := m.graph.at(path)
	if len(vertices) == 0 {
		return fmt.Errorf("setting a property of %s: %w", path, ErrNotFound)
	}
	for _, v := range vertices {
		if m.graph.properties[v] == nil {
			m.graph.properties[v] = map[string]string{}
		}
		m.graph.properties[v][key] = value
	}
	m.graph.shape++
	return nil
}

// Attach adds the vertices of a JGF document that the graph does not have. What it
// has, by path and rank, is left as it is. An error changes nothing.
func (m *Matcher) Attach(r io.Reader) error {
	grown := m.graph.clone()
	if err := grown.addJGF(r); err != nil {
		return fmt.Errorf("attaching a subgraph: %w: %w", ErrInvalid, err)
	}
	*m.graph = *grown
	m.replant()
	return nil
}

// Remove cuts off the vertex of a path, and what is below it. Jobs lose what they
// have there.
func (m *Matcher) Remove(path string) error {
	vertices := m.graph.at(path)
	switch {
	case len(vertices) == 0:
		return fmt.Errorf("removing %s: %w", path, ErrNotFound)
	case slices.Contains(vertices, m.graph.root):
		return fmt.Errorf("removing %s: %w: it is the root", path, ErrInvalid)
	}
	m.cutOff(vertices[len(vertices)-1:])
	return nil
}

// RemoveRanks cuts off the topmost vertices of broker ranks, and what is below
// them. Jobs lose what they have there.
func (m *Matcher) RemoveRanks(ranks []int64) error {
	roots, missing := m.graph.rankRoots(ranks)
	if len(missing) > 0 {
		return fmt.Errorf("removing ranks: rank %d: %w", missing[0], ErrNotFound)
	}
	if slices.Contains(roots, m.graph.root) {
		return fmt.Errorf("removing ranks: %w: the root has one of them", ErrInvalid)
	}
	m.cutOff(roots)
	return nil
}

// cutOff removes subtrees; jobs lose what they have there, and stay, if only in
// name, until they are cancelled.
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

// replant counts anew after the tree has changed.
func (m *Matcher) replant() {
	for parent, children := range m.ordered {
		for c := m.graph.vertices[parent].first; c != none; c = m.graph.vertices[c].next {
			if !slices.Contains(children, c) {
				children = append(children, c)
			}
		}
		slices.SortFunc(children, m.freer)
		m.ordered[parent] = children
	}
	m.prime()
}
