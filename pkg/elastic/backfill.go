// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import (
	"cmp"
	"slices"
	"time"
)

// step is one end that is to be expected.
type step struct {
	id       string
	line     *line
	requests Resources
	ranks    []int // all if nil
	pods     int
	// turn: 0 is about to go, 1 has a known end, 2 has none.
	turn  int
	order time.Time
	// end is zero if it is not known.
	end time.Time
}

// steps are the ends in the order in which they are expected: those that are about
// to go, those that are known, and of the others the oldest first, since jobs that
// are alike end in the order in which they began.
func (p *plan) steps() []step {
	if p.ends != nil {
		return p.ends
	}
	steps := make([]step, 0, len(p.runs)+len(p.admitted))
	for _, r := range p.runs {
		steps = append(steps, p.stepsOf(r)...)
	}
	for _, e := range p.admitted {
		s := step{id: e.ID, line: e.line, requests: e.Requests, pods: len(e.nodes), turn: 2, order: p.now}
		if e.Limit > 0 {
			s.turn, s.end = 1, p.now.Add(e.Limit)
			s.order = s.end
		}
		steps = append(steps, s)
	}
	slices.SortStableFunc(steps, func(a, b step) int { return cmp.Or(cmp.Compare(a.turn, b.turn), a.order.Compare(b.order)) })
	p.ends = steps
	return steps
}

// stepsOf are the ends of one gang: ranks that leave, and the rest.
func (p *plan) stepsOf(r *run) []step {
	known := func(at time.Time) time.Time {
		if at.After(p.now) {
			return at
		}
		return time.Time{} // late: nobody knows
	}
	rest := step{id: r.ID, line: r.line, requests: r.Requests, pods: len(r.Ranks), turn: 2, order: r.Admitted, end: known(r.End)}
	switch {
	case r.Ending || r.evicted:
		rest.turn, rest.end = 0, time.Time{}
		return []step{rest}
	case !r.End.IsZero():
		rest.turn, rest.order = 1, r.End
	}
	leaving := slices.Concat(r.draining, r.drains)
	if len(leaving) == 0 {
		return []step{rest}
	}
	rest.pods -= len(leaving)
	first := step{id: r.ID, line: r.line, requests: r.Requests, pods: len(leaving), ranks: leaving, order: r.Admitted, end: known(r.DrainBy)}
	return []step{first, rest}
}

// older are the ends that a gang can wait for: of those whose time is not known not the
// ones that began since it waits, or it would wait for ever new ones.
func (p *plan) older(e *entry) []step {
	steps := p.steps()
	n := slices.IndexFunc(steps, func(s step) bool { return s.turn == 2 && s.order.After(e.Blocked) })
	if n < 0 || e.Blocked.IsZero() {
		return steps
	}
	return steps[:n]
}

func (v *view) take(steps []step) *view {
	v = v.snapshot()
	for _, s := range steps {
		if s.ranks == nil {
			v.room.Release(s.id)
		} else {
			v.room.Shrink(s.id, s.ranks)
		}
		v.add(s.line, s.requests, -s.pods)
	}
	return v
}

// until is how many of the ends it takes until a gang fits, and the room then. If
// it is still too small after all of them, fits is false.
func (v *view) until(e *entry, steps []step) (n int, after *view, fits bool) {
	least := e.least()
	var low, high int
	base := v
	for stride := 1; ; stride *= 2 {
		high = min(low+stride, len(steps))
		after = base.take(steps[low:high])
		if after.most(e, least) >= least {
			break
		}
		if high == len(steps) {
			return high, after, false
		}
		low, base = high, after
	}
	for high-low > 1 {
		middle := (low + high) / 2
		if trial := base.take(steps[low:middle]); trial.most(e, least) >= least {
			high, after = middle, trial
		} else {
			low, base = middle, trial
		}
	}
	return high, after, true
}

// guard sees to it that nobody delays a gang that is blocked.
type guard struct {
	head *entry
	// fits: it fits once those that run have ended. If not even then, others hold its
	// nodes, or they are away, and it would help nobody to wait.
	fits bool
	// after is the room when it is expected to fit.
	after *view
	// shadow is when that is; zero if it is not known.
	shadow time.Time
	// strict: it has waited for unknown ends for long enough, and what is free is kept
	// for it: floor of its pods.
	strict bool
	floor  int
	// gone are those that have ended by then.
	gone map[string]bool
	// refused is, by queue and class, the smallest size that is known to do harm.
	refused map[string]int
}

func (p *plan) newGuard(e *entry) *guard {
	g := &guard{head: e, gone: map[string]bool{}, refused: map[string]int{}}
	if p.settles.After(p.now) && !e.fullUntil.IsZero() { // it may take what is free in a moment
		g.fits, g.strict, g.floor = true, true, p.view.most(e, e.least())
		return g
	}
	steps := p.older(e)
	var n int
	n, g.after, g.fits = p.view.until(e, steps)
	if !g.fits {
		steps = p.steps()
		n, g.after, g.fits = p.view.until(e, steps)
	}
	if !g.fits {
		return g
	}
	n, g.after = p.tied(steps, n, g.after, e.line.Patience/20)
	unknown := false
	for _, s := range steps[:n] {
		g.gone[s.id] = g.gone[s.id] || s.ranks == nil
		unknown = unknown || s.end.IsZero()
		if s.end.After(g.shadow) {
			g.shadow = s.end
		}
	}
	if unknown {
		g.shadow = time.Time{}
		g.strict = !e.Blocked.IsZero() && p.now.Sub(e.Blocked) >= e.line.Patience
		g.floor = p.view.most(e, e.least())
	}
	return g
}

// tied ends, with those that a gang waits for, those that began so little later
// that nobody can tell which of them ends first.
func (p *plan) tied(steps []step, n int, after *view, slack time.Duration) (int, *view) {
	last := n
	for last < len(steps) && steps[last].turn == 2 && steps[n-1].turn == 2 && steps[last].order.Sub(steps[n-1].order) <= slack {
		last++
	}
	if last == n {
		return n, after
	}
	return last, after.take(steps[n:last])
}

// binds reports whether a gang has to respect the guard.
func (g *guard) binds(e *entry) bool {
	l := g.head.line
	switch {
	case !g.fits || len(g.head.nodes) > 0:
		return false
	case e.line != l:
		return !g.head.overCapacity && e.line.Priority <= l.Priority && l.head == g.head
	case l.head == g.head || len(e.nodes) > 0:
		return true
	default:
		return g.head.index < e.index
	}
}

func (e *entry) kind() string { return e.line.Name + "/" + e.class }

// refuses reports whether a gang is known to do harm at a size.
func (g *guard) refuses(e *entry, size int, now time.Time) bool {
	refused, known := g.refused[e.kind()]
	return known && size >= refused && len(e.nodes) == 0 && (g.strict || !g.over(e, now))
}

// over: the gang will have ended when the head gets its nodes.
func (g *guard) over(e *entry, now time.Time) bool {
	if len(e.nodes) > 0 {
		return g.gone[e.ID]
	}
	return e.Limit > 0 && !now.Add(e.Limit).After(g.shadow)
}

// bears reports whether the head is not delayed by a gang that starts at a size, as
// in the trial, and returns the room then, if it is another.
func (g *guard) bears(e *entry, size int, trial *view, now time.Time) (after *view, ok bool) {
	least := g.head.least()
	switch {
	case !g.fits:
		return nil, true
	case g.strict:
		if ok = trial.most(g.head, least) >= g.floor; !ok {
			g.refused[e.kind()] = size
		}
		return nil, ok
	case g.over(e, now):
		return nil, true
	}
	after = g.after.snapshot()
	if len(e.nodes) > 0 {
		after.unplace(e, len(e.nodes))
	}
	if after.place(e, size) == nil || after.most(g.head, least) < least {
		g.refused[e.kind()] = size
		return nil, false
	}
	return after, true
}

// accept takes note of a gang that has started.
func (g *guard) accept(e *entry, after *view) {
	switch {
	case !g.fits || g.strict:
	case after != nil:
		g.after = after
	default:
		g.gone[e.ID] = true
	}
}

// protected is how many gangs of a queue are guarded at most.
const protected = 100

// backfill lets gangs pass the first of their queue if they delay nobody. Large
// ones are tried first: they find room seldom, small ones always.
func (p *plan) backfill() {
	if p.settles.After(p.now) {
		return
	}
	var candidates []*entry
	for _, l := range p.lines {
		if l.head != nil && (l.Backfill == EASY || l.Backfill == Conservative) {
			candidates = append(candidates, l.waiting[l.next:]...)
		}
	}
	lines := slices.Clone(p.lines)
	slices.SortFunc(lines, p.servedBefore)
	place := make([]int, len(lines))
	for i, l := range lines {
		place[l.index] = i
	}
	slices.SortFunc(candidates, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(b.least(), a.least()), cmp.Compare(place[a.line.index], place[b.line.index]), cmp.Compare(a.index, b.index))
	})
	for _, e := range candidates {
		p.admit(e, "backfill")
	}
}

// guarding are the guards that a gang has to do with.
func (p *plan) guarding(e *entry) []*guard {
	return slices.Concat(p.guards, e.line.guards)
}

// protect guards the gangs of a conservative queue that are before one of its
// gangs which may pass them. It reports false if they are too many.
func (p *plan) protect(e *entry) bool {
	l := e.line
	if l.Backfill != Conservative || l.head == nil || l.head == e {
		return true
	}
	if l.guards == nil {
		for _, before := range l.waiting[l.next:min(l.next+protected, len(l.waiting))] {
			if before != e && len(before.nodes) == 0 {
				l.guards = append(l.guards, p.newGuard(before))
			}
		}
	}
	before := 0
	for _, other := range l.waiting[l.next:] {
		if other.index < e.index && len(other.nodes) == 0 {
			before++
		}
	}
	return before <= protected
}
