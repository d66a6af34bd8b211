// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"cmp"
	"math"
	"slices"
)

// score collects the candidates below a vertex.
type score struct {
	evals     []evals
	constrain bool
	overall   int64
	avail     int64
}

// evals are the candidates of one type.
type evals struct {
	kind      kind
	qualified int64
	total     int64
	groups    []group
	bestN     int // the first bestN groups are chosen
	next      int
}

// group is a candidate: a vertex, or a slot of several vertices. Its edges are in
// scratch.edges.
type group struct {
	score       int64
	count       int64
	first, last int32
	root        bool
}

// edge leads to a vertex of a candidate.
type edge struct {
	vertex    int32
	exclusive bool
	count     int64
}

func (s *score) reset() {
	s.evals, s.constrain, s.overall, s.avail = s.evals[:0], false, -1, 0
}

// of are the candidates of a type.
func (s *score) of(k kind) *evals {
	for i := range s.evals {
		if s.evals[i].kind == k {
			return &s.evals[i]
		}
	}
	if len(s.evals) < cap(s.evals) {
		s.evals = s.evals[:len(s.evals)+1]
	} else {
		s.evals = append(s.evals, evals{})
	}
	e := &s.evals[len(s.evals)-1]
	*e = evals{kind: k, groups: e.groups[:0]}
	return e
}

// saturate bounds an amount to the range of a count.
func saturate(n int64) uint32 { return uint32(min(n, math.MaxUint32)) }

func (s *score) add(k kind, g group) {
	e := s.of(k)
	e.total += g.count
	if g.score > 0 {
		e.qualified += g.count
	}
	e.groups = append(e.groups, g)
}

// merge adds the candidates of another score.
func (s *score) merge(o *score) {
	for i := range o.evals {
		from := &o.evals[i]
		to := s.of(from.kind)
		to.qualified += from.qualified
		to.total += from.total
		to.groups = append(to.groups, from.groups...)
	}
}

// choose takes the best candidates of a type, until they have n units.
func (s *score) choose(k kind, n int64, better func(a, b group) int) {
	e := s.of(k)
	if n == 0 || n > e.qualified {
		return
	}
	slices.SortStableFunc(e.groups, better)
	e.bestN = 0
	for left := n; left > 0; e.bestN++ {
		left -= e.groups[e.bestN].count
	}
	s.constrain = true
}

func higher(a, b group) int { return cmp.Compare(b.score, a.score) }

func lower(a, b group) int { return cmp.Compare(a.score, b.score) }

func (s *search) better() func(a, b group) int {
	if s.policy.order == lowFirst || s.policy.order == classFirst {
		return lower
	}
	return higher
}
