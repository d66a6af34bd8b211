// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"slices"
	"time"
)

// expectedEnd is the expected end of a gang, or of some of its ranks.
type expectedEnd struct {
	id       string
	queue    *jobQueue
	requests Resources
	ranks    []int // nil for all ranks
	pods     int
	kind     endKind
	// order sorts ends of the same kind.
	order time.Time
	// at is the expected time; zero if it is not known.
	at time.Time
}

// endKind is how certain an end is. More certain ends come first.
type endKind int

const (
	// leaving: the ranks were already asked to leave.
	leaving endKind = iota
	// limitKnown: the gang has a time limit.
	limitKnown
	// limitUnknown: the gang has no time limit.
	limitUnknown
)

// expectedEnds are the ends in the order in which they are expected: ranks that leave, then gangs
// with a time limit, then the others, oldest first, because similar jobs end in the order in
// which they began.
func (c *cycle) expectedEnds() []expectedEnd {
	if c.ends != nil {
		return c.ends
	}
	ends := make([]expectedEnd, 0, len(c.runs)+len(c.admitted))
	for _, r := range c.runs {
		ends = append(ends, c.endsOf(r)...)
	}
	for _, e := range c.admitted {
		end := expectedEnd{id: e.ID, queue: e.queue, requests: e.Requests, pods: len(e.nodes), kind: limitUnknown, order: c.now}
		if e.Limit > 0 {
			end.kind, end.at = limitKnown, c.now.Add(e.Limit)
			end.order = end.at
		}
		ends = append(ends, end)
	}
	slices.SortStableFunc(ends, func(a, b expectedEnd) int { return cmp.Or(cmp.Compare(a.kind, b.kind), a.order.Compare(b.order)) })
	c.ends = ends
	return ends
}

// endsOf are the ends of one gang: of its ranks that leave, and of the rest.
func (c *cycle) endsOf(r *run) []expectedEnd {
	known := func(at time.Time) time.Time {
		if at.After(c.now) {
			return at
		}
		return time.Time{} // overdue: the time is not known any more
	}
	rest := expectedEnd{id: r.ID, queue: r.queue, requests: r.Requests, pods: len(r.Ranks), kind: limitUnknown, order: r.Admitted, at: known(r.End)}
	switch {
	case r.Ending || r.evicted:
		rest.kind, rest.at = leaving, time.Time{}
		return []expectedEnd{rest}
	case !r.End.IsZero():
		rest.kind, rest.order = limitKnown, r.End
	}
	ranks := slices.Concat(r.draining, r.drains)
	if len(ranks) == 0 {
		return []expectedEnd{rest}
	}
	rest.pods -= len(ranks)
	first := expectedEnd{id: r.ID, queue: r.queue, requests: r.Requests, pods: len(ranks), ranks: ranks, order: r.Admitted, at: known(r.DrainBy)}
	return []expectedEnd{first, rest}
}

// endsFor are the ends for which a gang can wait. Ends without a time of gangs that began after
// it was blocked do not count: there would always be new ones.
func (c *cycle) endsFor(e *entry) []expectedEnd {
	ends := c.expectedEnds()
	n := slices.IndexFunc(ends, func(end expectedEnd) bool { return end.kind == limitUnknown && end.order.After(e.Blocked) })
	if n < 0 || e.Blocked.IsZero() {
		return ends
	}
	return ends[:n]
}

// after is the cluster after some ends.
func (s *clusterState) after(ends []expectedEnd) *clusterState {
	s = s.snapshot()
	for _, end := range ends {
		if end.ranks == nil {
			s.room.Release(end.id)
		} else {
			s.room.Shrink(end.id, end.ranks)
		}
		s.add(end.queue, end.requests, -end.pods)
	}
	return s
}

// fitsAfter returns how many of the ends a gang needs until it fits, and the cluster after them.
// fits is false if the gang does not even fit after all of them.
func (s *clusterState) fitsAfter(e *entry, ends []expectedEnd) (n int, after *clusterState, fits bool) {
	least := e.least()
	var low, high int
	base := s
	for stride := 1; ; stride *= 2 {
		high = min(low+stride, len(ends))
		after = base.after(ends[low:high])
		if after.fits(e, least) >= least {
			break
		}
		if high == len(ends) {
			return high, after, false
		}
		low, base = high, after
	}
	for high-low > 1 {
		middle := (low + high) / 2
		if trial := base.after(ends[low:middle]); trial.fits(e, least) >= least {
			high, after = middle, trial
		} else {
			low, base = middle, trial
		}
	}
	return high, after, true
}

// withTies adds to the ends for which a gang waits the ends of gangs that began at almost the
// same time, because any of them may end first.
func withTies(ends []expectedEnd, n int, after *clusterState, slack time.Duration) (int, *clusterState) {
	last := n
	for last < len(ends) && ends[last].kind == limitUnknown && ends[n-1].kind == limitUnknown && ends[last].order.Sub(ends[n-1].order) <= slack {
		last++
	}
	if last == n {
		return n, after
	}
	return last, after.after(ends[n:last])
}
