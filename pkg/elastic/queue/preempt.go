// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"slices"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// Taken is what running gangs give up for a gang that waits.
type Taken struct {
	// At is when nodes were taken for the gang to start at a size; zero if none were, or they were lost.
	At   time.Time
	Size int
	// From are the gangs that give them up, by ID, with how many ranks each keeps.
	From map[string]int
	// Lost is how often others got the nodes, and Pause is until when no more are taken because of that.
	Lost  int
	Pause time.Time
}

// firstPause follows the second loss. Each further pause is twice as long, up to the longest.
const firstPause = time.Minute

// waits reports whether nodes were taken, and are not lost.
func (t *Taken) waits() bool { return !t.At.IsZero() }

// lose counts a loss.
func (t *Taken) lose(now time.Time) {
	t.Pause = now
	if t.Lost > 0 {
		t.Pause = now.Add(min(firstPause<<min(t.Lost-1, 10), longestPause))
	}
	t.Lost++
}

// preempt takes nodes for heads from gangs of lower priority in the same queue, unless the queue
// goes by age or the head never preempts.
func (c *cycle) preempt() {
	for _, head := range c.heads() {
		if !c.mayTake(head) {
			continue
		}
		c.takeFor(head, "preempt", func(r *run) bool {
			return !head.NeverPreempts && r.queue == head.queue && r.queue.Ordering != ByAge && r.Priority < head.Priority
		}, func(*clusterState, *run, int) bool { return true })
	}
}

// mayTake reports whether nodes may be taken for a head. If it lacks nodes although those were left that were taken, others got
// these. From the second time on, nothing is taken for a while then: others would get that, too.
func (c *cycle) mayTake(head *entry) bool {
	if c.needsNothing(head) {
		return false
	}
	if t := &head.Taken; t.waits() {
		if t.Size >= head.least() && c.haveLeft(t) {
			t.lose(c.now)
		}
		t.At, t.From = time.Time{}, nil
	}
	return !head.Taken.Pause.After(c.now)
}

// haveLeft reports whether all gangs have left what was taken from them.
func (c *cycle) haveLeft(t *Taken) bool {
	return !slices.ContainsFunc(c.runs, func(r *run) bool {
		keeps, gives := t.From[r.ID]
		return gives && len(r.Ranks) > keeps && !r.Admitted.After(t.At)
	})
}

// needsNothing reports whether nothing has to be taken for a head, also if it holds out for its full size. A head that fits
// once the leaving ranks are gone keeps that room, unless it is guaranteed to another queue.
func (c *cycle) needsNothing(head *entry) bool {
	if !head.fullUntil.IsZero() || head.deferred {
		return true
	}
	if c.afterLeaving == nil {
		c.afterLeaving = c.state.after(slices.DeleteFunc(slices.Clone(c.expectedEnds()), func(end expectedEnd) bool { return !end.leaving }))
	}
	if head.provided {
		return true
	}
	least, with := head.least(), c.afterLeaving.snapshot()
	if head.provided = with.fits(head, least) >= least && with.sparesGuarantees(head) && with.place(head, least) != nil; head.provided {
		c.afterLeaving = with
	}
	return head.provided
}

// takeFor takes as little as it can from the gangs that may lose nodes. It also takes what gangs have above their sizes, in
// the queue of the head and in those from which others may reclaim: they got that since nobody else could use it.
func (c *cycle) takeFor(head *entry, action string, may func(*run) bool, mayLose func(*clusterState, *run, int) bool) {
	t := &taking{base: c.afterLeaving, taker: head, victims: c.victimsFor(head, may), mayLose: mayLose}
	if !t.find() {
		for _, v := range t.victims {
			if at := v.Admitted.Add(v.queue.MinRuntime); v.protected && !v.onlyLends && at.After(c.now) {
				head.takesAt = elastic.Earliest(head.takesAt, at)
			}
		}
		return
	}
	t.prune()
	before := head.Taken
	head.Taken.At, head.Taken.Size, head.Taken.From = c.now, head.least(), map[string]int{}
	if !c.goesTo(head, t.victims) {
		head.Taken = before
		return
	}
	for _, v := range t.victims {
		switch {
		case v.whole:
			v.evicted, v.drains = true, nil
			head.Taken.From[v.ID] = 0
		case v.take > 0:
			v.drains = append(v.drains, t.base.room.Victims(v.ID, v.take, head.ID)...)
			slices.Sort(v.drains)
			head.Taken.From[v.ID] = v.kept()
		default:
			continue
		}
		if v.taker, v.action = head, action; v.onlyLends {
			v.action = "reclaim"
		}
	}
	c.afterLeaving = t.apply()
	c.afterLeaving.place(head, head.least())
	head.provided = true
	c.forecasts, c.took = nil, true
}

// victimsFor are the gangs from which something may be taken for a head: all for which may is true, and what the others have
// above their sizes.
func (c *cycle) victimsFor(head *entry, may func(*run) bool) []*victim {
	var victims []*victim
	for _, r := range c.runs {
		if r.Ending || r.evicted {
			continue
		}
		if all := may(r); all || r.lent() > 0 && (r.queue == head.queue || r.queue.Reclaimable) {
			victims = append(victims, c.newVictim(r, all))
		}
	}
	return victims
}

// goesTo reports whether a gang is the one that starts after its victims are gone. It runs
// allocate for that state, because other gangs may be served first, even an evicted one, which
// would then be evicted again.
func (c *cycle) goesTo(head *entry, victims []*victim) bool {
	room, s := c.state.room.Snapshot(), c.soFar()
	taken := map[string]*victim{}
	for _, v := range victims {
		taken[v.ID] = v
	}
	for _, r := range c.runs {
		v := taken[r.ID]
		if r.Ending || r.evicted || (v != nil && v.whole) {
			room.Release(r.ID)
			if !r.Ending {
				s.Waiting = append(s.Waiting, r.Gang)
			}
			continue
		}
		gone := slices.Concat(r.draining, r.drains)
		room.Shrink(r.ID, gone)
		if v != nil && v.take > 0 {
			more := room.Victims(r.ID, v.take, head.ID)
			room.Shrink(r.ID, more)
			gone = append(gone, more...)
		}
		left := r.Running
		left.Draining = nil
		isGone := func(rank int) bool { return slices.Contains(gone, rank) }
		left.Ranks = slices.DeleteFunc(slices.Clone(r.Ranks), isGone)
		left.Outside = slices.DeleteFunc(slices.Clone(r.Outside), isGone)
		s.Running = append(s.Running, left)
	}
	then := newCycle(s, room, c.now)
	then.enqueue()
	then.deserve()
	q := then.queues[slices.IndexFunc(then.queues, func(q *jobQueue) bool { return q.Name == head.queue.Name })]
	same := q.all[slices.IndexFunc(q.all, func(e *entry) bool { return e.ID == head.ID })]
	then.allocateUntil(func() bool { return same.isHead || len(same.nodes) > 0 })
	return len(same.nodes) > 0
}

// soFar is the snapshot after this cycle's admissions, without the gangs that ran before.
func (c *cycle) soFar() Snapshot {
	s := Snapshot{Total: c.state.total, Running: make([]Running, 0, len(c.runs)+len(c.admitted))} // without what others use
	waiting := 0
	for _, q := range c.queues {
		waiting += len(q.all)
	}
	s.Waiting = make([]Gang, 0, waiting)
	for _, q := range c.queues {
		if q.known {
			s.Queues = append(s.Queues, q.Queue)
		}
		for _, e := range q.all {
			if len(e.nodes) == 0 {
				s.Waiting = append(s.Waiting, e.Gang)
				continue
			}
			r := Running{Gang: e.Gang, Admitted: c.now}
			for rank := range e.nodes {
				r.Ranks = append(r.Ranks, rank)
			}
			s.Running = append(s.Running, r)
		}
	}
	return s
}
