// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"cmp"
	"slices"
)

// index lists the vertices of one type in the order of the policy. Bits say which of them
// are worth a visit. An index finds the same as a full traversal, for requests of single
// vertices of the type: bare ones, or one in each slot.
//
// Invariants, after every change:
//
//   - order holds all vertices of the type in the tree, the best first. Of equal scores,
//     the first in the order of edges comes first.
//   - idle has a vertex if nothing is planned on it or below, nothing at it, below or above
//     is down, and no job holds a vertex above exclusively.
//   - active has a vertex if a job has something at it or below, and started when the job
//     was given.
type index struct {
	order []int32
	// position is the position of a vertex in order; none for other types.
	position     []int32
	idle, active bitset
	// class is the same for vertices that look the same inside: if one idle vertex fits, so
	// does the other. classes is the number of classes.
	class   []int32
	classes int
	// gaps has a position if a score is missing before it.
	gaps bitset
	// unique means that all scores differ. rising means that scores rise in the order of
	// edges; otherwise edgeOrder has that order.
	unique, rising bool
	edgeOrder      []int32
	// above are the types of the vertices above.
	above []kind
}

// bitset is a set of positions.
type bitset []uint64

func newBitset(n int) bitset { return make(bitset, (n+63)/64) }

func (b bitset) set(i int32, on bool) {
	if on {
		b[i/64] |= 1 << (i % 64)
	} else {
		b[i/64] &^= 1 << (i % 64)
	}
}

func (b bitset) has(i int32) bool { return b[i/64]&(1<<(i%64)) != 0 }

// indexOf is the index of a type. It is nil if the levels of a request may match in several
// ways, because vertices of the type are below each other, or beside vertices that have
// some below.
func (m *Matcher) indexOf(k kind) *index {
	if m.indexShape != m.graph.shape {
		clear(m.indexes)
		m.indexShape = m.graph.shape
	}
	x, known := m.indexes[k]
	if !known {
		if m.isUniform(k) {
			x = m.newIndex(k)
		}
		m.indexes[k] = x
	}
	return x
}

// isUniform reports whether the type is never at different depths below one vertex, and not
// below itself.
func (m *Matcher) isUniform(k kind) bool {
	uniform := true
	var count func(v int32) int
	count = func(v int32) int {
		x := &m.graph.vertices[v]
		direct, deeper := 0, 0
		for c := x.first; c != none; c = m.graph.vertices[c].next {
			n := count(c)
			if m.graph.vertices[c].kind == k {
				direct++
				n--
			}
			deeper += n
		}
		if deeper > 0 && (direct > 0 || x.kind == k) || direct > 0 && x.kind == k {
			uniform = false
		}
		n := direct + deeper
		if x.kind == k {
			n++
		}
		return n
	}
	count(m.graph.root)
	return uniform && m.graph.vertices[m.graph.root].kind != k
}

func (m *Matcher) newIndex(k kind) *index {
	g := m.graph
	x := &index{position: make([]int32, len(g.vertices)), unique: true, rising: true}
	scores := make([]int64, len(g.vertices))
	edgeOrder := make([]int32, len(g.vertices))
	g.below(g.root, func(v int32) {
		x.position[v] = none
		if g.vertices[v].kind == k {
			edgeOrder[v] = int32(len(x.order))
			x.order = append(x.order, v)
			scores[v] = m.policy.score(g, v, m.factorAbove(v))
		}
	})
	if len(x.order) == 0 {
		return nil
	}
	for i := 1; i < len(x.order); i++ {
		x.rising = x.rising && scores[x.order[i-1]] < scores[x.order[i]]
	}
	low := m.policy.order == lowFirst || m.policy.order == classFirst
	slices.SortStableFunc(x.order, func(a, b int32) int {
		if low {
			a, b = b, a
		}
		return cmp.Compare(scores[b], scores[a])
	})
	n := len(x.order)
	x.idle, x.active, x.gaps = newBitset(n), newBitset(n), newBitset(n)
	x.class, x.edgeOrder = make([]int32, n), make([]int32, n)
	shapes := newShapes(g)
	for i, v := range x.order {
		at := int32(i)
		x.position[v], x.edgeOrder[i], x.class[i] = at, edgeOrder[v], shapes.of(v)
		if i > 0 {
			gap := scores[x.order[i-1]] - scores[v]
			x.unique = x.unique && gap != 0
			x.gaps.set(at, gap > 1)
		}
		x.active.set(at, g.vertices[v].running > 0)
		x.refresh(g, v)
		for p := g.vertices[v].parent; p != none; p = g.vertices[p].parent {
			x.above = insert(x.above, g.vertices[p].kind)
		}
	}
	x.classes = len(shapes.ids)
	return x
}

// factorAbove is what the nodes above a vertex add to its score.
func (m *Matcher) factorAbove(v int32) int64 {
	var factor int64
	for p := m.graph.vertices[v].parent; p != none; p = m.graph.vertices[p].parent {
		factor += m.policy.factor(&m.graph.vertices[p])
	}
	return factor
}

// refresh sets whether a vertex is idle.
func (x *index) refresh(g *Graph, v int32) {
	plan := g.vertices[v].plan
	idle := (plan == none || len(g.plans[plan].points) == 0) && g.allUp(v)
	for p := g.vertices[v].parent; p != none && idle; p = g.vertices[p].parent {
		idle = !g.vertices[p].down && g.vertices[p].allocations+g.vertices[p].reservations == 0
	}
	x.idle.set(x.position[v], idle)
}

// allUp reports whether v and all vertices below are up.
func (g *Graph) allUp(v int32) bool {
	x := &g.vertices[v]
	if x.down {
		return false
	}
	for c := x.first; c != none; c = g.vertices[c].next {
		if !g.allUp(c) {
			return false
		}
	}
	return true
}

// held updates the indexes after a job has got or lost a vertex.
func (m *Matcher) held(u int32, j *job, h *hold, n int32) {
	v := &m.graph.vertices[u]
	if !j.later {
		v.running += n
	}
	if m.indexShape != m.graph.shape {
		return
	}
	if x := m.indexes[v.kind]; x != nil && x.position[u] != none {
		x.active.set(x.position[u], v.running > 0)
		x.refresh(m.graph, u)
	}
	if h.pool {
		m.refreshBelow(u)
	}
}

// refreshBelow updates the indexes for the vertices below one that has changed.
func (m *Matcher) refreshBelow(u int32) {
	for _, x := range m.indexes {
		if x != nil && slices.Contains(x.above, m.graph.vertices[u].kind) {
			m.graph.below(u, func(v int32) {
				if x.position[v] != none {
					x.refresh(m.graph, v)
				}
			})
		}
	}
}

// changedStatus updates the indexes after a vertex went up or down.
func (m *Matcher) changedStatus(u int32) {
	if m.indexShape != m.graph.shape {
		return
	}
	m.refreshBelow(u)
	for v := u; v != none; v = m.graph.vertices[v].parent {
		if x := m.indexes[m.graph.vertices[v].kind]; x != nil && x.position[v] != none {
			x.refresh(m.graph, v)
		}
	}
}

// shapes number subtrees that look the same by types, sizes and status. A subtree in which
// siblings of a type differ in size is unique, because ids decide which sibling is taken.
type shapes struct {
	graph *Graph
	ids   map[string]int32
	text  []byte
}

func newShapes(g *Graph) *shapes { return &shapes{graph: g, ids: map[string]int32{}} }

func (s *shapes) of(v int32) int32 {
	s.text = s.text[:0]
	if !s.describe(v) {
		s.text = append(s.text, "only "...)
		s.number(int64(v))
	}
	id, known := s.ids[string(s.text)]
	if !known {
		id = int32(len(s.ids))
		s.ids[string(s.text)] = id
	}
	return id
}

func (s *shapes) number(n int64) {
	for range 8 {
		s.text = append(s.text, byte(n))
		n >>= 8
	}
}

func (s *shapes) describe(v int32) (alike bool) {
	x := &s.graph.vertices[v]
	kind := int64(x.kind)
	if x.down {
		kind = ^kind
	}
	s.number(kind)
	s.number(x.size)
	alike = true
	for c := x.first; c != none; c = s.graph.vertices[c].next {
		if !s.describe(c) {
			return false
		}
		for d := x.first; d != c && alike; d = s.graph.vertices[d].next {
			a, b := &s.graph.vertices[c], &s.graph.vertices[d]
			if a.kind == b.kind {
				alike = a.size == b.size && (a.first == none) == (b.first == none)
				break
			}
		}
	}
	s.text = append(s.text, ')')
	return alike
}
