// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"cmp"
	"math"
	"slices"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion/jobspec"
)

// search is one traversal: it looks for a request on a window of time, and marks
// in the tree what it chooses. It follows Fluxion's simple depth-first traverser:
//
//  1. Pre-order, a vertex is matched with the requests of its level, and pruned: by
//     status, constraint, pool, exclusivity, and the amounts below it.
//  2. Its children are explored, all in order, or from the freest until it is enough.
//  3. Post-order, the best of the candidates below are taken, whole vertices, until
//     their number is reached; a level that the request leaves out passes its
//     candidates up.
//
// Slots are made where a vertex has children of all types of the slot.
type search struct {
	*Matcher
	from, until int64
	// ignoring what is planned, and what is down: could it ever be?
	ignoring bool
	// now: what is allocated is taken, even past its end.
	now        bool
	constraint *jobspec.Constraint
	// factor is that of the node that the traversal is in.
	factor int64
	// reason is why the last vertex failed that failed.
	reason error
	depth  int
}

// evals are the candidates of one type.
type evals struct {
	kind      kind
	qualified int64
	total     int64
	groups    []group
	bestN     int // the first so many groups are chosen; 0: none
	next      int
}

// group is a candidate: a vertex, or a slot of several. Its edges are in
// scratch.edges.
type group struct {
	score       int64
	count       int64
	first, last int32
	root        bool
}

// edge is a vertex that a candidate would take.
type edge struct {
	vertex    int32
	exclusive bool
	count     int64
}

// score collects what was found below a vertex.
type score struct {
	evals     []evals
	constrain bool
	overall   int64
	avail     int64
}

func (s *score) reset() {
	s.evals, s.constrain, s.overall, s.avail = s.evals[:0], false, -1, 0
}

// of returns the candidates of a type.
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

func (s *score) qualified(k kind) uint32 {
	for i := range s.evals {
		if s.evals[i].kind == k {
			return saturate(s.evals[i].qualified)
		}
	}
	return 0
}

// saturate is an amount as counts have it.
func saturate(n int64) uint32 { return uint32(min(n, math.MaxUint32)) }

func (s *score) add(k kind, g group) {
	e := s.of(k)
	e.total += g.count
	if g.score > 0 {
		e.qualified += g.count
	}
	e.groups = append(e.groups, g)
}

// merge adds what another has found.
func (s *score) merge(o *score) {
	for i := range o.evals {
		from := &o.evals[i]
		to := s.of(from.kind)
		to.qualified += from.qualified
		to.total += from.total
		to.groups = append(to.groups, from.groups...)
	}
}

// choose takes the best candidates of a type that make up n.
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
func lower(a, b group) int  { return cmp.Compare(a.score, b.score) }

func (s *search) better() func(a, b group) int {
	if s.policy.order == lowFirst || s.policy.order == classFirst {
		return lower
	}
	return higher
}

// frame is a score to fill, one for each level of the traversal.
func (s *search) frame() *score {
	if s.depth == len(s.scratch.frames) {
		s.scratch.frames = append(s.scratch.frames, &score{})
	}
	f := s.scratch.frames[s.depth]
	f.reset()
	s.depth++
	return f
}

// run searches for requests from the root; it returns how much of the root is
// needed.
func (s *search) run(requests []*request, exclusive bool) (needs int64, err error) {
	m := s.Matcher
	m.sequence++
	m.preorder, m.postorder = 0, 0
	m.scratch.edges = m.scratch.edges[:0]
	s.depth, s.factor, s.reason = 0, 0, ErrBusy
	if len(m.scratch.labels) > 0 {
		clear(m.scratch.labels)
	}
	if !m.countVisits && !s.enough(&m.graph.vertices[m.graph.root], m.compiled.rootNeeds) {
		return 0, ErrBusy
	}
	if needs, could, err := s.quick(requests); could {
		return needs, err
	}
	root := m.graph.root
	found := s.frame()
	x := exclusive
	if !s.visit(root, requests, true, &x, found) {
		return 0, s.reason
	}
	at := int32(len(m.scratch.edges))
	found.add(m.graph.vertices[root].kind, group{score: found.overall, count: found.avail, first: at, last: at, root: true})
	needs, ok := s.finishGraph(root, requests, found)
	if !ok {
		return 0, ErrUnsatisfiable
	}
	return needs, nil
}

// finishGraph chooses at the top, and marks what was chosen up to the root.
func (s *search) finishGraph(root int32, requests []*request, found *score) (needs int64, ok bool) {
	for _, r := range requests {
		n := r.count.Largest(found.qualified(r.kind))
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

// intervals orders by the lower bound of the run of consecutive scores that a
// candidate is in, highest first.
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

// visit matches one vertex and what is below it, and gives the result to its
// parent's score.
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

func asksExclusive(wanted []*request, k kind) bool {
	for _, r := range wanted {
		if r.kind == k && r.exclusive == jobspec.Yes {
			return true
		}
	}
	return false
}

type matching int

const (
	noMatch matching = iota
	resourceMatch
	slotMatch
	illegalMatch
)

// level finds the request that a vertex answers, and what is requested below it.
// Two requests of one type, or a slot beside a request that matches, are not
// allowed side by side, and match nothing.
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

// avail is what is free of a vertex's pool during the window.
func (s *search) avail(v *vertex) int64 {
	if v.plan == none || s.ignoring {
		return v.size
	}
	return v.size - s.graph.plans[v.plan].peak(s.graph.dims(v), poolDim, s.from, s.until)
}

// prune says why there is no need to look below a vertex; nil if there is.
func (s *search) prune(u int32, v *vertex, wanted []*request, exclusive bool, avail int64) error {
	if v.down && !s.ignoring || avail <= 0 || !s.allows(u, v) {
		return ErrBusy
	}
	for _, r := range wanted {
		if r.kind == v.kind {
			if err := s.pruneShared(v, r, exclusive); err != nil {
				return err
			}
		}
		if (r.kind == v.kind || r.kind == slotKind) && !s.enoughBelow(v, r) {
			return ErrBusy
		}
	}
	return nil
}

// allows reports whether the constraint lets a vertex be used: it is about nodes.
func (s *search) allows(u int32, v *vertex) bool {
	return s.constraint == nil || v.kind != nodeKind && v.kind != storageNodeKind || s.constraint.Match(target{s.graph, u})
}

// pruneShared keeps a request that wants a vertex for itself off one that others
// use, or use something of.
func (s *search) pruneShared(v *vertex, r *request, exclusive bool) error {
	if exclusive && r.exclusive == jobspec.No {
		return ErrInvalid // not exclusive below a slot
	}
	if !exclusive && r.exclusive != jobspec.Yes || v.plan == none {
		return nil
	}
	if s.now && v.allocations > 0 {
		return ErrBusy
	}
	if !s.ignoring && s.graph.plans[v.plan].peak(s.graph.dims(v), jobsDim, s.from, s.until) > 0 {
		return ErrBusy
	}
	return nil
}

// enoughBelow reports whether a vertex has, by its pruning filter, what one of the
// request needs below it.
func (s *search) enoughBelow(v *vertex, r *request) bool {
	return v.totals == none || len(r.least) == 0 || s.enough(v, r.filterNeeds(s.graph, v.kind))
}

// enough reports whether the pruning filter of a vertex, if it has one, leaves room for
// needs during the window.
func (s *search) enough(v *vertex, needs []int64) bool {
	if v.totals == none {
		return true
	}
	totals := s.graph.totals[v.totals:][:len(needs)]
	for i, need := range needs {
		if need > totals[i] {
			return false
		}
	}
	return v.plan == none || s.ignoring || s.graph.plans[v.plan].fits(filterDims+len(needs), needs, totals, s.from, s.until)
}

// explore visits the children: all of them, or from the freest until there are so
// many shares of everything wanted.
func (s *search) explore(u int32, wanted []*request, pristine, exclusive bool, found *score, shares uint32) {
	if len(wanted) == 0 && !pristine && !s.countVisits {
		return // nothing below can match
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
	found.add(s.graph.vertices[c].kind, group{score: found.overall, count: found.avail, first: at, last: at + 1})
	return true
}

// tally counts shares: bundles of whole vertices that reach the count of one
// request.
type tally struct {
	kind                   kind
	share, seen, sum, made int64
}

func (t *tally) enough(shares uint32) bool { return t.share == 0 || t.made >= int64(shares) }

func (t *tally) add(n int64) {
	if t.sum += n; t.share > 0 && t.sum >= t.share {
		t.made++
		t.sum = 0 // what is over backs no other share
	}
}

func (s *search) exploreUntilEnough(u int32, wanted []*request, pristine, exclusive bool, found *score, shares uint32) {
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

// satisfied reports whether enough of a type was found.
func satisfied(tallies []tally, k kind, shares uint32) bool {
	for i := range tallies {
		if tallies[i].kind == k {
			return tallies[i].seen > 0 && tallies[i].enough(shares)
		}
	}
	return false
}

// slots makes slots of what is below a vertex: bundles of whole vertices, the best
// first, that have the count of every type of the slot.
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

// fillSlot takes a slot's share of one type from the candidates, and returns their
// scores.
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

// slotOrder is the order in which slots are filled.
func (s *search) slotOrder() func(a, b group) int {
	if s.policy.order == lowFirst {
		return lower
	}
	return higher
}

// countSlots is how many slots of a shape what was found makes.
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

// finish chooses, of what was found below a vertex, what its request has below it,
// and scores the vertex.
func (s *search) finish(u int32, wanted []*request, found *score) bool {
	for _, r := range wanted {
		if r.kind != s.graph.vertices[u].kind {
			continue
		}
		for _, below := range r.with {
			n := below.count.Largest(found.qualified(below.kind))
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

// label remembers what a vertex is called in the jobspec.
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

// enforce marks what was chosen. At the root, what leads to it is marked as well
// where the request does not speak of it.
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

// markPath marks what leads from the root to a vertex, as not the job's alone.
func (s *search) markPath(u int32) {
	for p := s.graph.vertices[u].parent; p != none && s.graph.vertices[p].mark != s.sequence; p = s.graph.vertices[p].parent {
		s.mark(p, s.graph.vertices[p].size, false)
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

// target is a vertex as constraints see it.
type target struct {
	graph  *Graph
	vertex int32
}

func (t target) Name() string { return t.graph.vertices[t.vertex].name }
func (t target) Rank() int64  { return int64(t.graph.vertices[t.vertex].rank) }
func (t target) HasProperty(name string) bool {
	_, has := t.graph.properties[t.vertex][name]
	return has
}
