// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"slices"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// preempt takes nodes for heads from gangs of lower priority in the same queue, unless the queue
// goes by age. It takes nothing for a head that fits once all leaving ranks are gone, that holds
// out for its full size, or that never preempts.
func (c *cycle) preempt() {
	for _, head := range c.heads() {
		if c.needsNothing(head) || head.NeverPreempts {
			continue
		}
		c.takeFor(head, "preempt", func(r *run) bool {
			return r.queue == head.queue && r.queue.Ordering != ByAge && r.Priority < head.Priority
		}, func(*clusterState, *run, int) bool { return true })
	}
}

// needsNothing reports whether nothing has to be taken for a head. A head that fits once the
// leaving ranks are gone keeps that room, unless it is guaranteed to another queue.
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
	least := head.least()
	head.provided = c.afterLeaving.fits(head, least) >= least && c.afterLeaving.sparesGuarantees(head) && c.afterLeaving.place(head, least) != nil
	return head.provided
}

// takeFor takes as little as it can from the gangs that may lose nodes.
func (c *cycle) takeFor(head *entry, action string, may func(*run) bool, mayLose func(*clusterState, *run, int) bool) {
	t := &taking{base: c.afterLeaving, taker: head, mayLose: mayLose}
	for _, r := range c.runs {
		if !r.Ending && !r.evicted && may(r) {
			t.victims = append(t.victims, c.newVictim(r))
		}
	}
	if !t.find() {
		for _, v := range t.victims {
			if at := v.Admitted.Add(v.queue.MinRuntime); v.protected && at.After(c.now) {
				head.takesAt = elastic.Earliest(head.takesAt, at)
			}
		}
		return
	}
	t.prune()
	if !c.goesTo(head, t.victims) {
		return
	}
	for _, v := range t.victims {
		switch {
		case v.whole:
			v.evicted, v.drains = true, nil
		case v.take > 0:
			v.drains = append(v.drains, t.base.room.Victims(v.ID, v.take)...)
			slices.Sort(v.drains)
		default:
			continue
		}
		v.taker, v.action = head, action
	}
	c.afterLeaving = t.apply()
	c.afterLeaving.place(head, head.least())
	head.provided = true
	c.ends, c.took = nil, true
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
			more := room.Victims(r.ID, v.take)
			room.Shrink(r.ID, more)
			gone = append(gone, more...)
		}
		left := r.Running
		left.Draining = nil
		left.Ranks = slices.DeleteFunc(slices.Clone(r.Ranks), func(rank int) bool { return slices.Contains(gone, rank) })
		s.Running = append(s.Running, left)
	}
	then := newCycle(s, room, c.now)
	then.enqueue()
	then.deserve()
	then.allocate()
	return slices.ContainsFunc(then.admitted, func(e *entry) bool { return e.ID == head.ID })
}

// soFar is the snapshot after this cycle's admissions, without the gangs that ran before.
func (c *cycle) soFar() Snapshot {
	s := Snapshot{Total: c.state.total} // without what others use
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
