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
	id    string
	user  *user
	needs []need
	ranks []int // nil for all ranks
	pods  int
	// began is when the gang got its nodes.
	began time.Time
	// at is when it ends, as far as one can tell, and not before now. If sure is true, it ends then at the latest.
	at   time.Time
	sure bool
	// again is the gang if it then waits again, in its old place of its queue; nil otherwise.
	again *Gang
	// leaving is true if the ranks were already asked to leave, late if the gang has outlived an estimate, and vague if
	// nothing tells how long it runs.
	leaving, late, vague bool
}

// unknownRun is how long a gang is expected to run of which nothing is known.
const unknownRun = time.Hour

// leavesLate is how long after its time nodes are expected of a gang that leaves. Then something is wrong with the
// gang's nodes, and nothing counts on them.
const leavesLate = 2 * time.Minute

// lateness is the part of its run time by which a gang may be late, and is still expected to end soon.
const lateness = 0.05

// late is how long gangs run at most that are only a little late.
func late(expected time.Duration) time.Duration {
	return expected + time.Duration(lateness*float64(expected))
}

// estimate is the best estimate of how long a gang runs at a size: its limit, what its user expects or such gangs of
// its user have taken, or what half of the gangs of its queue take at most. vague is true if there is none of these.
func (g *Gang) estimate(size int) (runs time.Duration, vague bool) {
	switch {
	case g.Limit > 0:
		return g.Limit, false
	case g.Expected > 0:
		return g.runs(size), false
	case g.Usual > 0:
		return g.scaled(g.Usual, size), false
	}
	return unknownRun, true
}

// corrected is how long a gang of an age is expected to run in all, by an estimate. One that is a little late ends soon. One
// that has run for longer goes on for as long again, as processes do on average (Harchol-Balter and Downey 1997; on the
// correction of predictions: Tsafrir, Etsion and Feitelson 2007).
func corrected(age, estimate time.Duration) time.Duration {
	switch {
	case age < estimate:
		return estimate
	case age < late(estimate):
		return late(estimate)
	}
	return 2 * age
}

// expectedEnds are the ends in the order in which they are expected.
func (c *cycle) expectedEnds() []expectedEnd { return c.ahead().ends }

// byTime orders ends. Of those at the same time the ends that are sure come first.
func byTime(a, b expectedEnd) int {
	return cmp.Or(a.at.Compare(b.at), compare(b.sure, a.sure), a.began.Compare(b.began))
}

// end is the end of a gang that starts now at a size.
func (e *entry) end(size int, now time.Time) expectedEnd {
	runs, vague := e.estimate(size)
	return expectedEnd{
		id: e.ID, user: e.user, needs: e.needs, pods: size, began: now,
		at: now.Add(runs), sure: e.Limit > 0, vague: vague, again: e.returns(e.queue),
	}
}

// returns is the gang if it waits again after its limit, in its old place of its queue; nil otherwise.
func (g *Gang) returns(q *jobQueue) *Gang {
	if !g.Returns || q.RequeuesLast {
		return nil
	}
	return g
}

// isSureFor reports whether the gang of an end ends then at the latest, and does not take its nodes again before another gang
// gets them.
func (end *expectedEnd) isSureFor(e *entry) bool {
	g := end.again
	switch {
	case g == nil:
		return end.sure
	case end.user.queue != e.queue:
		return end.sure && end.user.queue.Priority < e.queue.Priority
	}
	return end.sure && e.queue.isSteady() && e.queue.compare(&e.Gang, g) < 0
}

// ends are the ends of one gang: of its ranks that leave, and of the rest.
func (r *run) ends(now time.Time) []expectedEnd {
	rest := expectedEnd{id: r.ID, user: r.user, needs: r.needs, pods: len(r.Ranks), began: r.Admitted}
	if r.Ending || r.evicted {
		if rest.leaving = true; isStuck(r.EndBy, now) {
			return nil
		}
		rest.at, rest.sure = due(r.EndBy, now)
		return []expectedEnd{rest}
	}
	if r.End.IsZero() {
		age := now.Sub(r.Admitted)
		runs, vague := r.estimate(len(r.Ranks))
		rest.at, rest.vague, rest.late = r.Admitted.Add(corrected(age, runs)), vague, age >= runs
	} else {
		rest.at, rest.sure = due(r.End, now)
		rest.again = r.returns(r.queue)
	}
	ranks := slices.Concat(r.draining, r.drains)
	if len(ranks) == 0 || isStuck(r.DrainBy, now) {
		return []expectedEnd{rest}
	}
	first := rest
	first.ranks, first.pods, first.leaving, first.vague, first.late = ranks, len(ranks), true, false, false
	if at, sure := due(r.DrainBy, now); at.Before(rest.at) { // otherwise they leave with the rest, before it
		first.at, first.sure = at, sure
	}
	rest.pods -= len(ranks)
	return []expectedEnd{first, rest}
}

// isStuck reports whether nodes do not come back that should have by a time, which is zero if it is not known.
func isStuck(by, now time.Time) bool { return !by.IsZero() && now.Sub(by) > leavesLate }

// due is when something happens that should have happened by a time, as far as one can tell: as much later as it is
// late already. It is sure only before that time, which is zero if it is not known.
func due(by, now time.Time) (at time.Time, sure bool) {
	switch {
	case by.IsZero():
		return now, false
	case by.After(now):
		return by, true
	}
	return now.Add(now.Sub(by)), false
}

// after is the cluster after some ends.
func (s *clusterState) after(ends []expectedEnd) *clusterState {
	s = s.snapshot()
	for _, end := range ends {
		s.leave(end.id, end.user, end.needs, func(rank int) bool { return end.ranks == nil || slices.Contains(end.ranks, rank) })
		if end.ranks == nil {
			s.room.Release(end.id)
			s.add(end.user, end.needs, -1, -end.pods)
		} else {
			s.room.Shrink(end.id, end.ranks)
			s.add(end.user, end.needs, 0, -end.pods)
		}
	}
	return s
}

// withTies adds to the ends for which a gang waits those at the same time, and ends that are not sure, of gangs that began
// at almost the same time and are expected to end so: they may come first.
func withTies(ends []expectedEnd, n int, after *clusterState, slack time.Duration) (int, *clusterState) {
	last, tie := n, func(a, b expectedEnd) bool {
		return a.at.Equal(b.at) || !a.sure && !b.sure && b.at.Sub(a.at) <= slack && b.began.Sub(a.began).Abs() <= slack
	}
	for last < len(ends) && tie(ends[n-1], ends[last]) {
		last++
	}
	if last == n {
		return n, after
	}
	return last, after.after(ends[n:last])
}
