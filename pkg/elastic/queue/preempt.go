// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"slices"
	"sort"
)

// preempt takes nodes for heads from gangs of lower priority in the same queue, unless the queue
// goes by age. It takes nothing for a head that fits once all leaving ranks are gone, or that
// holds out for its full size.
func (c *cycle) preempt() {
	for _, head := range c.heads() {
		if c.needsNothing(head) {
			continue
		}
		c.takeFor(head, "preempt", func(r *run) bool {
			return r.queue == head.queue && r.queue.Ordering != ByAge && r.Priority < head.Priority
		}, func(*clusterState, *run, int) bool { return true })
	}
}

// needsNothing reports whether nothing has to be taken for a head. A head that fits once the
// leaving ranks are gone keeps that room.
func (c *cycle) needsNothing(head *entry) bool {
	if !head.fullUntil.IsZero() || head.deferred {
		return true
	}
	if c.afterLeaving == nil {
		ends := c.expectedEnds()
		n := slices.IndexFunc(ends, func(end expectedEnd) bool { return end.kind > leaving })
		if n < 0 {
			n = len(ends)
		}
		c.afterLeaving = c.state.after(ends[:n])
	}
	if head.provided {
		return true
	}
	least := head.least()
	head.provided = c.afterLeaving.fits(head, least) >= least && c.afterLeaving.place(head, least) != nil
	return head.provided
}

// taking chooses the gangs that give nodes to one gang, the taker.
type taking struct {
	base    *clusterState
	taker   *entry
	victims []*victim
	// mayLose reports whether n pods of a gang may be taken.
	mayLose func(*clusterState, *run, int) bool
}

// victim is a gang that gives up some ranks, or all.
type victim struct {
	*run
	take  int // how many of its ranks
	whole bool
}

// takeFor takes as little as it can from the gangs that may lose nodes.
func (c *cycle) takeFor(head *entry, action string, may func(*run) bool, mayLose func(*clusterState, *run, int) bool) {
	t := &taking{base: c.afterLeaving, taker: head, mayLose: mayLose}
	for _, r := range c.runs {
		if !r.Ending && !r.evicted && may(r) {
			t.victims = append(t.victims, &victim{run: r})
		}
	}
	if !t.find() {
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
	s := Snapshot{Total: c.state.total}
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

// enough reports whether the taker could start. A taker that its queue has no capacity for needs
// nodes as well.
func (t *taking) enough(v *clusterState) bool {
	least := t.taker.least()
	return v.fits(t.taker, least) >= least && v.room.Fits(t.taker.ID, least) >= least
}

// apply is the cluster after all victims have left.
func (t *taking) apply() *clusterState {
	after := t.base.snapshot()
	for _, v := range t.victims {
		if v.whole {
			after.end(v.run, v.kept())
		} else if v.take > 0 {
			after.shrink(v.run, after.room.Victims(v.ID, v.take))
		}
	}
	return after
}

// kept is how many ranks of a gang nobody has asked to leave.
func (r *run) kept() int { return len(r.Ranks) - len(r.draining) - len(r.drains) }

// find chooses victims: surplus ranks alone, one whole gang, or several.
func (t *taking) find() bool {
	shrunk := t.base.snapshot()
	if t.shrinkAll(shrunk) {
		return true
	}
	all := t.base.snapshot()
	for _, v := range t.victims {
		all.end(v.run, v.kept())
	}
	if !t.enough(all) {
		return false
	}
	if t.evictOne(shrunk) || t.evictSeveral(shrunk) {
		return true
	}
	// A queue that lost surplus ranks may be unable to lose a whole gang.
	for _, v := range t.victims {
		v.take = 0
	}
	return t.evictOne(t.base) || t.evictSeveral(t.base)
}

func youngest(a, b *victim) int {
	return cmp.Or(b.Admitted.Compare(a.Admitted), cmp.Compare(a.ID, b.ID))
}

func lowest(a, b *victim) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), youngest(a, b))
}

// shrinkAll takes the surplus of one gang after the other until the taker fits.
func (t *taking) shrinkAll(trial *clusterState) bool {
	slices.SortFunc(t.victims, lowest)
	for _, v := range t.victims {
		if !v.Malleable {
			continue
		}
		v.take = max(v.kept()-v.Sizing.Min, 0)
		for v.take > 0 && !t.mayLose(trial, v.run, v.take) {
			v.take--
		}
		if v.take == 0 {
			continue
		}
		trial.shrink(v.run, trial.room.Victims(v.ID, v.take))
		if t.enough(trial) {
			return true
		}
	}
	return false
}

// evictOne takes one whole gang if that is enough.
func (t *taking) evictOne(trial *clusterState) bool {
	slices.SortFunc(t.victims, lowest)
	for _, v := range t.victims {
		left := v.kept() - v.take
		if !t.mayLose(trial, v.run, left) {
			continue
		}
		one := trial.snapshot()
		one.end(v.run, left)
		if t.enough(one) {
			v.whole = true
			return true
		}
	}
	return false
}

// evictSeveral takes whole gangs, the largest of each priority first, until the taker fits.
func (t *taking) evictSeveral(trial *clusterState) bool {
	trial = trial.snapshot()
	slices.SortFunc(t.victims, func(a, b *victim) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(b.kept()-b.take, a.kept()-a.take), youngest(a, b))
	})
	for _, v := range t.victims {
		left := v.kept() - v.take
		if !t.mayLose(trial, v.run, left) {
			continue
		}
		v.whole = true
		trial.end(v.run, left)
		if t.enough(trial) {
			return true
		}
	}
	for _, v := range t.victims {
		v.whole = false
	}
	return false
}

// prune gives back what is not needed, to the gangs of the highest priority and the oldest first.
func (t *taking) prune() {
	slices.SortFunc(t.victims, func(a, b *victim) int { return lowest(b, a) })
	for _, v := range t.victims {
		if v.whole {
			v.whole = false
			if !t.enough(t.apply()) {
				v.whole = true
				continue
			}
		}
		if v.take > 0 {
			least := sort.Search(v.take, func(n int) bool {
				v.take = n
				return t.enough(t.apply())
			})
			v.take = least
		}
	}
}
