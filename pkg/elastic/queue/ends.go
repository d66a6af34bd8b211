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
	user     *user
	requests Resources
	ranks    []int // nil for all ranks
	pods     int
	kind     endKind
	// began is when the gang got its nodes, and guess when it ends, as far as one can tell.
	began, guess time.Time
	// at is the latest time of the end; zero if it is not known.
	at time.Time
	// vague is true if nothing is known: the guess says only who ends first.
	vague bool
}

// endKind is how certain an end is.
type endKind int

const (
	// leaving: the ranks were already asked to leave.
	leaving endKind = iota
	// limitKnown: the gang has a time limit.
	limitKnown
	// limitUnknown: the gang has no time limit.
	limitUnknown
)

// expectedEnds are the ends in the order in which they are expected: first those of ranks that
// leave.
func (c *cycle) expectedEnds() []expectedEnd {
	if c.ends != nil {
		return c.ends
	}
	c.typical = c.medianAge()
	ends := make([]expectedEnd, 0, len(c.runs)+len(c.admitted))
	for _, r := range c.runs {
		ends = append(ends, c.endsOf(r)...)
	}
	for _, e := range c.admitted {
		ends = append(ends, c.endOf(e, len(e.nodes)))
	}
	slices.SortStableFunc(ends, byTime)
	c.ends = ends
	return ends
}

func byTime(a, b expectedEnd) int {
	return cmp.Or(cmp.Compare(min(a.kind, limitKnown), min(b.kind, limitKnown)), a.guess.Compare(b.guess), a.began.Compare(b.began))
}

// by is when a gang has ended, as far as one can tell; zero if it is leaving for longer than it should.
func (e *expectedEnd) by() time.Time {
	if e.kind == leaving {
		return e.at
	}
	return e.guess
}

// endOf is the end of a gang that starts now at a size.
func (c *cycle) endOf(e *entry, size int) expectedEnd {
	end := expectedEnd{id: e.ID, user: e.user, requests: e.Requests, pods: size, kind: limitUnknown, began: c.now}
	if e.Limit > 0 {
		end.kind, end.at = limitKnown, c.now.Add(e.Limit)
	}
	end.guess, end.vague = c.guess(end, e.runs(size)), end.at.IsZero() && e.Expected == 0
	return end
}

// lateness is the part of its run time by which a gang may be late, and is still expected to end soon.
const lateness = 0.05

// late is how long gangs run at most that are only a little late.
func late(expected time.Duration) time.Duration {
	return expected + time.Duration(lateness*float64(expected))
}

// guess is when a gang ends, as far as one can tell: at its limit, or once it has run for as long
// as expected. One that is a little late ends soon. One that has run for longer goes on for as long
// again, as processes do on average (Harchol-Balter and Downey 1997). One of which nothing is known takes as long as half of those
// that run have taken so far; of these the oldest ends first.
func (c *cycle) guess(end expectedEnd, expected time.Duration) time.Time {
	age := c.now.Sub(end.began)
	switch {
	case !end.at.IsZero():
		return end.at
	case expected == 0:
		return c.now.Add(c.typical)
	case age < expected:
		return end.began.Add(expected)
	case age < late(expected):
		return end.began.Add(late(expected))
	default:
		return c.now.Add(age)
	}
}

// medianAge is how long half of the gangs without a limit have run at least.
func (c *cycle) medianAge() time.Duration {
	var ages []time.Duration
	for _, r := range c.runs {
		if r.End.IsZero() && !r.Ending && !r.evicted {
			ages = append(ages, c.now.Sub(r.Admitted))
		}
	}
	if len(ages) == 0 {
		return 0
	}
	slices.Sort(ages)
	return ages[len(ages)/2]
}

// endsOf are the ends of one gang: of its ranks that leave, and of the rest.
func (c *cycle) endsOf(r *run) []expectedEnd {
	known := func(at time.Time) time.Time {
		if at.After(c.now) {
			return at
		}
		return time.Time{} // overdue: the time is not known any more
	}
	rest := expectedEnd{id: r.ID, user: r.user, requests: r.Requests, pods: len(r.Ranks), kind: limitUnknown, began: r.Admitted, at: known(r.End)}
	switch {
	case r.Ending || r.evicted:
		rest.kind, rest.at = leaving, known(r.EndBy)
		return []expectedEnd{rest}
	case !r.End.IsZero():
		rest.kind, rest.guess = limitKnown, r.End
	default:
		rest.guess, rest.vague = c.guess(rest, r.runs(len(r.Ranks))), r.Expected == 0
	}
	ranks := slices.Concat(r.draining, r.drains)
	if len(ranks) == 0 {
		return []expectedEnd{rest}
	}
	rest.pods -= len(ranks)
	first := expectedEnd{id: r.ID, user: r.user, requests: r.Requests, pods: len(ranks), ranks: ranks, began: r.Admitted, at: known(r.DrainBy)}
	return []expectedEnd{first, rest}
}

// endsFor are the ends for which a gang can wait. Ends without a time of gangs that began after
// it was blocked do not count: there would always be new ones.
func (c *cycle) endsFor(e *entry) []expectedEnd {
	ends := c.expectedEnds()
	if e.Blocked.IsZero() {
		return ends
	}
	return slices.DeleteFunc(slices.Clone(ends), func(end expectedEnd) bool { return end.kind == limitUnknown && end.began.After(e.Blocked) })
}

// after is the cluster after some ends.
func (s *clusterState) after(ends []expectedEnd) *clusterState {
	s = s.snapshot()
	for _, end := range ends {
		if end.ranks == nil {
			s.room.Release(end.id)
			s.add(end.user, end.requests, -1, -end.pods)
		} else {
			s.room.Shrink(end.id, end.ranks)
			s.add(end.user, end.requests, 0, -end.pods)
		}
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

// withTies adds to the ends for which a gang waits those that may come before them: ends at the same time, ends without
// a time of gangs that began at almost the same time, and those that are expected while the gang has patience.
func withTies(ends []expectedEnd, n int, after *clusterState, slack time.Duration, patient time.Time) (int, *clusterState) {
	last, tie := n, func(a, b expectedEnd) bool {
		if a.kind != limitUnknown || b.kind != limitUnknown {
			return a.kind == b.kind && !a.at.IsZero() && a.at.Equal(b.at)
		}
		return !b.guess.After(patient) || b.guess.Sub(a.guess) <= slack && b.began.Sub(a.began).Abs() <= slack
	}
	for last < len(ends) && tie(ends[n-1], ends[last]) {
		last++
	}
	if last == n {
		return n, after
	}
	return last, after.after(ends[n:last])
}
