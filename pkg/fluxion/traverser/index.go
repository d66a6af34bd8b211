// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"cmp"
	"slices"
)

// index lists the vertices of one type in the order in which the policy takes them,
// with bits that say which of them are worth a visit. It finds what a full traversal
// would find, where a request is for single vertices of the type: bare, or one to a
// slot.
//
// Invariants, after every change:
//   - order holds all vertices of the type that are in the tree, best first, and of
//     those of one score the first in the order of edges first;
//   - idle has those with nothing planned on them or below, nothing down below or
//     above, and nothing above held as a whole;
//   - active has those on which, or below which, a job has something that had started
//     when it was given.
type index struct {
	order []int32
	// position is where order has a vertex, none for other types.
	position     []int32
	idle, active bitset
	// class is the same for vertices that look the same inside: what fits one of them,
	// idle, fits the other. classes is their number.
	class   []int32
	classes int
	// gaps has the positions before which a score is left out.
	gaps bitset
	// unique: no two have the same score; rising: the order of edges is that of scores,
	// which edgeOrder is else for.
	unique, rising bool
	edgeOrder      []int32
	// above are the types of what they are in.
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

// indexOf returns the index of a type; nil where a vertex of the type is below
// another, or beside other vertices that have some, so that levels of a request may
// match in several ways.
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

// isUniform reports whether all children of what has children of the type are of
// the type, or have none of it below.
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
	x.sort(scores, m.policy.order == lowFirst || m.policy.order == classFirst)
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

func (x *index) sort(scores []int64, lowFirst bool) {
	slices.SortStableFunc(x.order, func(a, b int32) int {
		if lowFirst {
			return cmp.Compare(scores[a], scores[b])
		}
		return cmp.Compare(scores[b], scores[a])
	})
}

// factorAbove is what the nodes that a vertex is in add to its score.
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

// allUp reports whether nothing at v and below is down.
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

// held keeps the indexes after a job got or lost something of a vertex.
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

// refreshBelow keeps the indexes of what is below a vertex that changed.
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

// changedStatus keeps the indexes after a vertex went up or down.
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

// shapes number subtrees that look the same: types, sizes, what is down. One in
// which siblings of a type differ in size looks like no other, as which of them is
// taken depends on their ids.
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
	s.number(int64(x.kind)<<1 | boolBit(x.down))
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

func boolBit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
