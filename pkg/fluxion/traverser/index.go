// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion/jobspec"
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

// quick is a search by index. It reports whether it could: if not, nothing is done.
func (s *search) quick(requests []*request) (needs int64, could bool, err error) {
	p := s.picker(requests)
	if p == nil {
		return 0, false, nil
	}
	if !s.open(s.graph.root) {
		return 0, true, ErrBusy
	}
	asked := requests[0]
	p.collect(int64(asked.most))
	n := int64(asked.count.Largest(saturate(min(p.units, int64(asked.most)))))
	if n == 0 {
		return 0, true, ErrUnsatisfiable
	}
	p.take(n)
	return 1, true, nil
}

// picker returns what goes through an index for a request; nil where none can.
func (s *search) picker(requests []*request) *picker {
	// A policy that stops early takes others, but finds something in the same cases.
	if s.policy.stopEarly && !s.ignoring || s.countVisits || len(requests) != 1 {
		return nil
	}
	p := &s.scratch.picker
	*p = picker{search: s, wanted: requests, inSlot: requests[0].kind == slotKind}
	if p.inSlot {
		if p.wanted = requests[0].with; !single(p.wanted) {
			return nil
		}
	}
	p.alone = p.inSlot || p.wanted[0].exclusive == jobspec.Yes
	if p.index = s.indexOf(p.wanted[0].kind); p.index == nil || s.policy.order == intervalFirst && !p.unique {
		return nil
	}
	return p
}

// single reports whether a slot is of one vertex.
func single(shape []*request) bool {
	return len(shape) == 1 && shape[0].count.Min == 1 && shape[0].most == 1
}

// open reports whether the traversal would go below v: a level that the request
// leaves out.
func (s *search) open(v int32) bool {
	x := &s.graph.vertices[v]
	return (!x.down || s.ignoring) && s.avail(x) > 0 && s.allows(v, x)
}

// picker goes through an index.
type picker struct {
	*search
	*index
	wanted []*request
	inSlot bool
	// alone: the request wants the vertices for itself.
	alone bool
	// units are what the positions in scratch.picked make up.
	units int64
}

// collect finds the best positions, until they make up most.
func (p *picker) collect(most int64) {
	p.scratch.classes = slices.Grow(p.scratch.classes[:0], p.classes)[:p.classes]
	clear(p.scratch.classes)
	p.scratch.picked = p.scratch.picked[:0]
	if p.policy.order == intervalFirst {
		p.collectRuns(most)
		return
	}
	for at := p.next(0); at >= 0 && p.units < most; at = p.next(at + 1) {
		if p.fits(at) {
			p.pick(at)
		}
	}
}

// next is the first position from at on that may match, -1 if there is none. What
// running jobs are on is no match for a request of its own, as long as none of them
// is past its end.
func (p *picker) next(at int32) int32 {
	skip := p.alone && p.now && p.firstEnd() > p.from
	for w := int(at / 64); w < len(p.idle); w++ {
		word := ^uint64(0)
		if skip {
			word = ^p.active[w]
		}
		if w == int(at/64) {
			word &= ^uint64(0) << (at % 64)
		}
		if word != 0 {
			if found := int32(w*64 + bits.TrailingZeros64(word)); int(found) < len(p.order) {
				return found
			}
			return -1
		}
	}
	return -1
}

// fits reports whether the vertex at a position matches. Of idle ones that look the
// same, one speaks for all.
func (p *picker) fits(at int32) bool {
	if p.constraint != nil || !p.idle.has(at) && !p.ignoring {
		return p.visitAt(at)
	}
	class := &p.scratch.classes[p.class[at]]
	if *class == 0 {
		if *class = -1; p.visitAt(at) {
			*class = 1
		}
	}
	return *class > 0
}

// visitAt goes through the vertex at a position, as the traversal would that gets
// there; it marks what it chooses inside.
func (p *picker) visitAt(at int32) bool {
	v := p.order[at]
	p.factor = 0
	for a := p.graph.vertices[v].parent; a != none; a = p.graph.vertices[a].parent {
		if (p.constraint != nil || !p.idle.has(at)) && !p.open(a) {
			return false
		}
		p.factor += p.policy.factor(&p.graph.vertices[a])
	}
	p.depth = 0
	found := p.frame()
	exclusive := p.inSlot
	if !p.visit(v, p.wanted, !p.inSlot, &exclusive, found) {
		return false
	}
	p.scratch.last = edge{v, exclusive || p.inSlot, found.avail}
	return true
}

func (p *picker) pick(at int32) {
	p.scratch.picked = append(p.scratch.picked, at)
	p.units += p.unitsAt(at)
}

// unitsAt is what a position counts for.
func (p *picker) unitsAt(at int32) int64 {
	if p.inSlot {
		return 1
	}
	return p.avail(&p.graph.vertices[p.order[at]])
}

// collectRuns picks from the runs of consecutive scores, the highest first; in a
// run, in the order of edges.
func (p *picker) collectRuns(most int64) {
	for at := p.next(0); at >= 0 && p.units < most; {
		if !p.fits(at) {
			at = p.next(at + 1)
			continue
		}
		first := at
		for at++; int(at) < len(p.order) && !p.gaps.has(at); at++ {
			if at%64 == 0 && p.alike() && p.idle[at/64] == ^uint64(0) && p.gaps[at/64] == 0 {
				at += 63
				continue
			}
			if !p.fits(at) {
				break
			}
		}
		p.pickRun(first, at, most)
		at = p.next(at)
	}
}

// alike reports whether all idle vertices match: they look the same, and one does.
func (p *picker) alike() bool {
	return p.classes == 1 && p.constraint == nil && p.scratch.classes[0] > 0
}

// pickRun picks from the positions of a run in the order of edges; slots that the
// same vertex has are in the order of scores.
func (p *picker) pickRun(first, end int32, most int64) {
	run := p.scratch.run[:0]
	for at := end - 1; at >= first && (!p.rising || int64(len(run)) < most-p.units || p.inSlot && p.parentAt(at) == p.parentAt(at+1)); at-- {
		run = append(run, at) // the order of edges, if that rises
	}
	p.scratch.run = run
	if !p.rising {
		slices.SortFunc(run, func(a, b int32) int { return cmp.Compare(p.edgeOrder[a], p.edgeOrder[b]) })
	}
	for i := 0; i < len(run); {
		siblings := i + 1
		for p.inSlot && siblings < len(run) && p.parentAt(run[siblings]) == p.parentAt(run[i]) {
			siblings++
		}
		slices.Sort(run[i:siblings])
		for ; i < siblings; i++ {
			if p.units < most {
				p.pick(run[i])
			}
		}
	}
}

func (p *picker) parentAt(at int32) int32 { return p.graph.vertices[p.order[at]].parent }

// take marks the first positions that make up n, and what leads to them.
func (p *picker) take(n int64) {
	for _, at := range p.scratch.picked {
		if n <= 0 {
			return
		}
		n -= p.unitsAt(at)
		if !p.visitAt(at) {
			panic("a vertex that matched does not") // classes are wrong
		}
		chosen := p.scratch.last
		p.mark(chosen.vertex, chosen.count, chosen.exclusive)
		p.markPath(chosen.vertex)
	}
}

// firstEnd is when the first running job ends.
func (m *Matcher) firstEnd() int64 {
	if m.nextEnd == 0 {
		m.nextEnd = math.MaxInt64
		for _, j := range m.jobs {
			if !j.later {
				m.nextEnd = min(m.nextEnd, j.until)
			}
		}
	}
	return m.nextEnd
}
