// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"fmt"
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

// rankRoots are the topmost vertices of broker ranks, and the ranks that no vertex has.
func (g *Graph) rankRoots(ranks []int64) (roots []int32, missing []int64) {
	byRank := g.rootsByRank()
	for _, rank := range ranks {
		if rank < 0 || len(byRank[rank]) == 0 {
			missing = append(missing, rank)
		} else {
			roots = append(roots, byRank[rank]...)
		}
	}
	slices.Sort(roots)
	return slices.Compact(roots), missing
}

// rootsByRank are the topmost vertices of all ranks.
func (g *Graph) rootsByRank() map[int64][]int32 {
	roots := map[int64][]int32{}
	g.below(g.root, func(v int32) {
		x := &g.vertices[v]
		if x.parent == none || g.vertices[x.parent].rank != x.rank {
			roots[int64(x.rank)] = append(roots[int64(x.rank)], v)
		}
	})
	return roots
}
