// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"cmp"
	"math"
	"math/bits"
	"slices"

	"github.com/flux-elastic/flux-elastic/fluxion/jobspec"
)

// quick searches by index. It reports whether an index could be used; if not, it does
// nothing.
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

// picker goes through an index for a request; nil if no index can be used.
func (s *search) picker(requests []*request) *picker {
	// A policy that stops early takes other vertices, but is satisfiable in the same cases.
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

// single reports whether a slot is a single vertex.
func single(shape []*request) bool {
	return len(shape) == 1 && shape[0].count.Min == 1 && shape[0].most == 1
}

// picker goes through an index.
type picker struct {
	*search
	*index
	wanted []*request
	inSlot bool
	// alone is true if the request wants the vertices exclusively.
	alone bool
	// units is the sum over the positions in scratch.picked.
	units int64
}

// collect picks the best positions, until they have most units.
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

// next is the first position from at on that may match; -1 if there is none. A request of
// exclusive vertices skips active ones, as long as no running job is past its end.
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

// fits reports whether the vertex at a position matches. One idle vertex speaks for its
// class.
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

// visitAt visits the vertex at a position, as the traversal would. It marks the vertices
// that are chosen below.
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

// unitsAt is the number of units at a position.
func (p *picker) unitsAt(at int32) int64 {
	if p.inSlot {
		return 1
	}
	return p.avail(&p.graph.vertices[p.order[at]])
}

// collectRuns picks from the runs of consecutive scores, the highest run first. Within a
// run it goes in the order of edges.
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

// alike reports whether all idle vertices match, because they are one class and one
// matches.
func (p *picker) alike() bool {
	return p.classes == 1 && p.constraint == nil && p.scratch.classes[0] > 0
}

// pickRun picks from the positions of a run in the order of edges. Slots at the same vertex
// are in the order of scores.
func (p *picker) pickRun(first, end int32, most int64) {
	run := p.scratch.run[:0]
	for at := end - 1; at >= first; at-- { // the order of edges, if scores rise in it
		enough := p.rising && int64(len(run)) >= most-p.units
		if enough && (!p.inSlot || p.parentAt(at) != p.parentAt(at+1)) {
			break
		}
		run = append(run, at)
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

// take marks the first positions that have n units, and the vertices above them.
func (p *picker) take(n int64) {
	for _, at := range p.scratch.picked {
		if n <= 0 {
			return
		}
		n -= p.unitsAt(at)
		if !p.visitAt(at) {
			panic("a vertex that matched does not") // the classes are wrong
		}
		chosen := p.scratch.last
		p.mark(chosen.vertex, chosen.count, chosen.exclusive)
		p.markPath(chosen.vertex)
	}
}

// firstEnd is the first end of a running job.
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
