// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

// explore visits the children of a vertex: all of them, or the freest ones first, until
// there are so many shares of everything wanted.
func (s *search) explore(u int32, wanted []*request, pristine, exclusive bool, found *score, shares uint32) {
	if len(wanted) == 0 && !pristine && !s.countVisits {
		return // no vertex below can match
	}
	if s.policy.stopEarly {
		s.exploreUntilEnough(u, wanted, pristine, exclusive, found, shares)
		return
	}
	for c := s.graph.vertices[u].first; c != none; c = s.graph.vertices[c].next {
		s.exploreChild(c, wanted, pristine, exclusive, found)
	}
}

func (s *search) exploreChild(c int32, wanted []*request, pristine, exclusive bool, found *score) bool {
	x := exclusive
	if !s.visit(c, wanted, pristine, &x, found) {
		return false
	}
	at := int32(len(s.scratch.edges))
	s.scratch.edges = append(s.scratch.edges, edge{c, x, found.avail})
	found.add(s.graph.vertices[c].kind, group{
		score: found.overall, count: found.avail, first: at, last: at + 1,
	})
	return true
}

// exploreUntilEnough visits the freest children first, until there are so many shares.
func (s *search) exploreUntilEnough(
	u int32, wanted []*request, pristine, exclusive bool, found *score, shares uint32,
) {
	first := len(s.scratch.tallies)
	for _, r := range wanted {
		s.scratch.tallies = append(s.scratch.tallies, tally{kind: r.kind, share: int64(r.most)})
	}
	for _, c := range s.byWeight(u) {
		tallies := s.scratch.tallies[first:]
		if satisfied(tallies, s.graph.vertices[c].kind, shares) {
			continue
		}
		if !s.exploreChild(c, wanted, pristine, exclusive, found) {
			continue
		}
		tallies = s.scratch.tallies[first:]
		enough := true
		for i := range tallies {
			t := &tallies[i]
			if total := found.of(t.kind).total; total > t.seen {
				t.add(total - t.seen)
				t.seen = total
			}
			enough = enough && t.enough(shares)
		}
		if enough {
			break
		}
	}
	s.scratch.tallies = s.scratch.tallies[:first]
}

// satisfied reports whether enough vertices of a type were found.
func satisfied(tallies []tally, k kind, shares uint32) bool {
	for i := range tallies {
		if tallies[i].kind == k {
			return tallies[i].seen > 0 && tallies[i].enough(shares)
		}
	}
	return false
}

// tally counts shares: groups of whole vertices that reach the count of one request.
type tally struct {
	kind                   kind
	share, seen, sum, made int64
}

func (t *tally) enough(shares uint32) bool { return t.share == 0 || t.made >= int64(shares) }

func (t *tally) add(n int64) {
	if t.sum += n; t.share > 0 && t.sum >= t.share {
		t.made++
		t.sum = 0 // a surplus belongs to no other share
	}
}

// slots makes slots below a vertex. A slot is a group of whole vertices, the best ones
// first, with the count of every type of the slot.
func (s *search) slots(u int32, shape []*request, most uint32, pristine bool, found *score) {
	below := s.frame()
	s.explore(u, shape, pristine, true, below, most)
	for i := range below.evals {
		e := &below.evals[i]
		below.choose(e.kind, e.qualified, s.slotOrder())
	}
	for range s.countSlots(shape, below) {
		slot := group{score: matched, count: 1, first: int32(len(s.scratch.edges))}
		for _, r := range shape {
			e := below.of(r.kind)
			slot.score += s.fillSlot(e, int64(r.count.Largest(saturate(e.qualified))))
		}
		slot.last = int32(len(s.scratch.edges))
		found.add(slotKind, slot)
	}
}

// fillSlot gives a slot its share of one type, and returns the sum of the scores.
func (s *search) fillSlot(e *evals, share int64) (score int64) {
	for taken := int64(0); taken < share; {
		g := &e.groups[e.next]
		e.next++
		chosen := s.scratch.edges[g.first]
		chosen.exclusive = true
		score += g.score
		taken += chosen.count
		s.scratch.edges = append(s.scratch.edges, chosen)
	}
	return score
}

// slotOrder is the order in which candidates fill slots.
func (s *search) slotOrder() func(a, b group) int {
	if s.policy.order == lowFirst {
		return lower
	}
	return higher
}

// countSlots is the number of slots of a shape that the candidates make.
func (s *search) countSlots(shape []*request, below *score) int64 {
	least := int64(-1)
	for _, r := range shape {
		e := below.of(r.kind)
		t := tally{share: int64(r.count.Largest(saturate(e.qualified)))}
		for i := range e.groups {
			t.add(s.scratch.edges[e.groups[i].first].count)
		}
		if least < 0 || t.made < least {
			least = t.made
		}
	}
	return max(least, 0)
}
