// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"cmp"
	"slices"

	"github.com/flux-elastic/flux-elastic/fluxion/jobspec"
)

// search is one traversal. It looks for a request during a window of time, and marks the
// vertices that it chooses. It follows Fluxion's simple depth-first traverser:
//
//  1. In pre-order, a vertex is matched with the requests of its level. It is pruned by
//     status, constraint, pool, exclusivity, and the amounts below it.
//  2. Its children are explored: all of them in order, or the freest ones first, until
//     there are enough.
//  3. In post-order, the best candidates below the vertex are chosen, until their number
//     is reached. A level that the request leaves out passes its candidates up.
//
// Slots are made at a vertex that has children of all types of the slot.
type search struct {
	*Matcher
	from, until int64
	// ignoring is true for satisfiability: neither jobs nor the status of vertices count.
	ignoring bool
	// now is true if what is allocated is taken, even past the end of its job.
	now        bool
	constraint *jobspec.Constraint
	// factor is what the nodes above add to a score.
	factor int64
	// reason is why the last vertex failed.
	reason error
	depth  int
}

// run searches for requests from the root. It returns how many units of the root the job
// gets.
func (s *search) run(requests []*request, exclusive bool) (needs int64, err error) {
	m := s.Matcher
	m.sequence++
	m.preorder, m.postorder = 0, 0
	m.scratch.edges = m.scratch.edges[:0]
	s.depth, s.factor, s.reason = 0, 0, ErrBusy
	if len(m.scratch.labels) > 0 {
		clear(m.scratch.labels)
	}
	root := m.graph.root
	if !m.countVisits && !s.enough(&m.graph.vertices[root], m.compiled.rootNeeds) {
		return 0, ErrBusy
	}
	if needs, could, err := s.quick(requests); could {
		return needs, err
	}
	found := s.frame()
	x := exclusive
	if !s.visit(root, requests, true, &x, found) {
		return 0, s.reason
	}
	at := int32(len(m.scratch.edges))
	found.add(m.graph.vertices[root].kind, group{
		score: found.overall, count: found.avail, first: at, last: at, root: true,
	})
	needs, ok := s.finishGraph(root, requests, found)
	if !ok {
		return 0, ErrUnsatisfiable
	}
	return needs, nil
}

// finishGraph chooses among all candidates, and marks the chosen ones up to the root.
func (s *search) finishGraph(root int32, requests []*request, found *score) (needs int64, ok bool) {
	for _, r := range requests {
		n := r.count.Largest(saturate(found.of(r.kind).qualified))
		if n == 0 {
			return 0, false
		}
		better := s.better()
		if s.policy.order == intervalFirst {
			better = s.intervals(found.of(r.kind).groups)
		}
		found.choose(r.kind, int64(n), better)
	}
	needs = 1
	for _, r := range requests {
		if r.kind == s.graph.vertices[root].kind {
			if needs = int64(r.count.Largest(saturate(found.avail))); needs == 0 {
				return 0, false
			}
		}
	}
	for i := range found.evals {
		if found.evals[i].qualified == 0 {
			return 0, false
		}
	}
	s.enforce(found, true)
	return needs, true
}

// intervals orders candidates by their runs of consecutive scores, the run with the highest
// lower bound first.
func (s *search) intervals(groups []group) func(a, b group) int {
	scores := make([]int64, 0, len(groups))
	for i := range groups {
		scores = append(scores, groups[i].score)
	}
	slices.Sort(scores)
	lower := make(map[int64]int64, len(scores))
	for i, score := range scores {
		switch {
		case i > 0 && score <= scores[i-1]+1:
			lower[score] = lower[scores[i-1]]
		default:
			lower[score] = score
		}
	}
	return func(a, b group) int { return cmp.Compare(lower[b.score], lower[a.score]) }
}

// frame is an empty score for the next level of the traversal.
func (s *search) frame() *score {
	if s.depth == len(s.scratch.frames) {
		s.scratch.frames = append(s.scratch.frames, &score{})
	}
	f := s.scratch.frames[s.depth]
	f.reset()
	s.depth++
	return f
}

// visit matches a vertex and the vertices below it, and adds the candidates to the score of
// the parent.
func (s *search) visit(u int32, wanted []*request, pristine bool, exclusive *bool, parent *score) bool {
	v := &s.graph.vertices[u]
	x := *exclusive || asksExclusive(wanted, v.kind)
	next, slots, matches := s.level(u, wanted)
	s.preorder++
	if matches == illegalMatch || matches == noMatch && !pristine {
		s.reason = ErrBusy
		return false
	}
	pristine = matches == noMatch
	avail := s.avail(v)
	if err := s.prune(u, v, wanted, x, avail); err != nil {
		s.reason = err
		return false
	}
	depth, factor := s.depth, s.policy.factor(v)
	s.factor += factor
	found := s.frame()
	if matches == slotMatch {
		s.slots(u, next, slots, pristine, found)
	} else {
		s.explore(u, next, pristine, x, found, 1)
	}
	*exclusive = x
	s.factor -= factor
	ok := s.finish(u, wanted, found)
	if ok {
		if found.constrain {
			s.enforce(found, false)
		} else {
			parent.merge(found)
		}
		parent.avail, parent.overall = avail, found.overall
		s.label(u, v.kind, wanted)
		s.postorder++
	}
	s.depth = depth
	return ok
}

type matching int

const (
	noMatch matching = iota
	resourceMatch
	slotMatch
	illegalMatch
)

// level finds the request that a vertex answers, and the requests below it. Two requests of
// one type match nothing side by side, and neither does a slot beside a matching request.
func (s *search) level(u int32, wanted []*request) (next []*request, slots uint32, matches matching) {
	var slot, resource *request
	count := 0
	for _, r := range wanted {
		switch r.kind {
		case s.graph.vertices[u].kind:
			count++
			resource = r
			for _, below := range r.with {
				if below.kind == slotKind {
					slot = below
				}
			}
		case slotKind:
			count++
			slot = r
		}
	}
	switch {
	case count > 1:
		return wanted, 0, illegalMatch
	case slot != nil && s.hasAll(u, slot.with):
		return slot.with, slot.most, slotMatch
	case resource != nil:
		return resource.with, 0, resourceMatch
	}
	return wanted, 0, noMatch
}

// hasAll reports whether a vertex has children of all the types.
func (s *search) hasAll(u int32, wanted []*request) bool {
	for _, r := range wanted {
		c := s.graph.vertices[u].first
		for c != none && s.graph.vertices[c].kind != r.kind {
			c = s.graph.vertices[c].next
		}
		if c == none {
			return false
		}
	}
	return true
}

// finish chooses the candidates below a vertex that its request needs, and scores the
// vertex.
func (s *search) finish(u int32, wanted []*request, found *score) bool {
	for _, r := range wanted {
		if r.kind != s.graph.vertices[u].kind {
			continue
		}
		for _, below := range r.with {
			n := below.count.Largest(saturate(found.of(below.kind).qualified))
			if n == 0 {
				s.reason = ErrBusy
				return false
			}
			found.choose(below.kind, int64(n), s.better())
		}
	}
	found.overall = s.policy.score(s.graph, u, s.factor)
	return true
}

// label notes the label that the jobspec gives to a vertex.
func (s *search) label(u int32, k kind, wanted []*request) {
	for _, r := range wanted {
		if r.kind == k && r.label != "" {
			if s.scratch.labels == nil {
				s.scratch.labels = map[int32]string{}
			}
			s.scratch.labels[u] = r.label
		}
	}
}

// enforce marks the chosen vertices. At the root, it also marks the vertices above them
// that the request leaves out.
func (s *search) enforce(found *score, toRoot bool) {
	for i := range found.evals {
		e := &found.evals[i]
		for _, g := range e.groups[:e.bestN] {
			if g.root {
				continue
			}
			for _, chosen := range s.scratch.edges[g.first:g.last] {
				s.mark(chosen.vertex, chosen.count, chosen.exclusive)
				if toRoot {
					s.markAbove(chosen.vertex, found)
				}
			}
		}
	}
}

func (s *search) mark(u int32, needs int64, exclusive bool) {
	v := &s.graph.vertices[u]
	v.mark, v.needs, v.exclusive = s.sequence, needs, exclusive
}

// markPath marks the vertices from the root to a vertex as shared.
func (s *search) markPath(u int32) {
	v := s.graph.vertices
	for p := v[u].parent; p != none && v[p].mark != s.sequence; p = v[p].parent {
		s.mark(p, v[p].size, false)
	}
}

func (s *search) markAbove(u int32, found *score) {
	for p := s.graph.vertices[u].parent; p != s.graph.root; p = s.graph.vertices[p].parent {
		v := &s.graph.vertices[p]
		if v.mark == s.sequence {
			return
		}
		for i := range found.evals {
			if e := &found.evals[i]; e.kind == v.kind && e.bestN == 0 {
				s.mark(p, v.size, false)
			}
		}
	}
}
