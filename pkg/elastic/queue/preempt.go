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

// preemptor takes nodes from running gangs.
type preemptor struct {
	*cycle
	// afterLeaving is the cluster once all that leaves has left and the heads that wait for this have started; nil until needed.
	afterLeaving *clusterState
	pools        map[string]*pool // by class
	took         bool             // nodes were taken
}

// preempt takes nodes for heads from gangs of lower priority in the same queue, unless the queue
// goes by age or the head never preempts.
func (p *preemptor) preempt() {
	for _, head := range p.heads() {
		if !p.mayTake(head) {
			continue
		}
		p.takeFor(head, "preempt", func(r *run) bool {
			return !head.NeverPreempts && r.queue == head.queue && r.queue.Ordering != ByAge && r.Priority < head.Priority
		}, func(*clusterState, *run, int) bool { return true })
	}
}

// mayTake reports whether nodes may be taken for a head. If it lacks nodes although those were left that were taken, others got
// these. From the second time on, nothing is taken for a while then: others would get that, too.
func (p *preemptor) mayTake(head *entry) bool {
	if p.needsNothing(head) {
		return false
	}
	if t := &head.Taken; t.waits() {
		if t.Size >= head.least() && p.haveLeft(t) {
			t.lose(p.now)
		}
		t.At, t.From = time.Time{}, nil
	}
	return !head.Taken.Pause.After(p.now)
}

// haveLeft reports whether all gangs have left what was taken from them.
func (p *preemptor) haveLeft(t *Taken) bool {
	return !slices.ContainsFunc(p.runs, func(r *run) bool {
		keeps, gives := t.From[r.ID]
		return gives && len(r.Ranks) > keeps && !r.Admitted.After(t.At)
	})
}

// needsNothing reports whether nothing has to be taken for a head, also if it holds out for its full size. A head that fits
// once the leaving ranks are gone keeps that room, unless it is guaranteed to another queue.
func (p *preemptor) needsNothing(head *entry) bool {
	if !head.fullUntil.IsZero() || head.deferred {
		return true
	}
	if p.afterLeaving == nil {
		p.afterLeaving = p.state.after(slices.DeleteFunc(slices.Clone(p.expectedEnds()), func(end expectedEnd) bool { return !end.leaving }))
	}
	if head.provided {
		return true
	}
	least, with := head.least(), p.afterLeaving.snapshot()
	if head.provided = with.fits(head, least) >= least && with.sparesGuarantees(head) && with.place(head, least) != nil; head.provided {
		p.afterLeaving = with
	}
	return head.provided
}

// takeFor takes as little as it can from the gangs that may lose nodes. It also takes what gangs have above their sizes, in
// the queue of the head and in those from which others may reclaim: they got that since nobody else could use it.
func (p *preemptor) takeFor(head *entry, action string, may func(*run) bool, mayLose func(*clusterState, *run, int) bool) {
	t := &taking{base: p.afterLeaving, taker: head, victims: p.victimsFor(head, may), mayLose: mayLose}
	if !t.find() {
		for _, v := range t.victims {
			if at := v.Admitted.Add(v.queue.MinRuntime); v.protected && !v.onlyLends && at.After(p.now) {
				head.takesAt = elastic.Earliest(head.takesAt, at)
			}
		}
		return
	}
	t.prune()
	before := head.Taken
	head.Taken.At, head.Taken.Size, head.Taken.From = p.now, head.least(), map[string]int{}
	if !p.goesTo(head, t.victims) {
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
	p.afterLeaving = t.apply()
	p.afterLeaving.place(head, head.least())
	head.provided = true
	p.forecasts, p.took = nil, true
}

// victimsFor are the gangs from which something may be taken for a head: all for which may is true, and what the others have
// above their sizes.
func (p *preemptor) victimsFor(head *entry, may func(*run) bool) []*victim {
	var victims []*victim
	for _, r := range p.runs {
		if r.Ending || r.evicted {
			continue
		}
		if all := may(r); all || r.lent() > 0 && (r.queue == head.queue || r.queue.Reclaimable) {
			victims = append(victims, newVictim(r, all, p.now))
		}
	}
	return victims
}

// goesTo reports whether a gang is the one that starts after its victims are gone. It runs
// allocate for that state, because other gangs may be served first, even an evicted one, which
// would then be evicted again.
func (p *preemptor) goesTo(head *entry, victims []*victim) bool {
	room, s := p.state.room.Snapshot(), p.soFar()
	taken := map[string]*victim{}
	for _, v := range victims {
		taken[v.ID] = v
	}
	for _, r := range p.runs {
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
	then := newCycle(s, room, p.now)
	then.enqueue()
	then.deserve()
	q := then.queues[slices.IndexFunc(then.queues, func(q *jobQueue) bool { return q.Name == head.queue.Name })]
	same := q.all[slices.IndexFunc(q.all, func(e *entry) bool { return e.ID == head.ID })]
	then.allocateUntil(func() bool { return same.isHead || len(same.nodes) > 0 })
	return len(same.nodes) > 0
}

// soFar is the snapshot after this cycle's admissions, without the gangs that ran before.
func (p *preemptor) soFar() Snapshot {
	s := Snapshot{Total: p.state.total, Running: make([]Running, 0, len(p.runs)+len(p.admitted))} // without what others use
	waiting := 0
	for _, q := range p.queues {
		waiting += len(q.all)
	}
	s.Waiting = make([]Gang, 0, waiting)
	for _, q := range p.queues {
		if q.known {
			s.Queues = append(s.Queues, q.Queue)
		}
		for _, e := range q.all {
			if len(e.nodes) == 0 {
				s.Waiting = append(s.Waiting, e.Gang)
				continue
			}
			r := Running{Gang: e.Gang, Admitted: p.now}
			for rank := range e.nodes {
				r.Ranks = append(r.Ranks, rank)
			}
			s.Running = append(s.Running, r)
		}
	}
	return s
}
