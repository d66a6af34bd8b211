// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"slices"
	"time"
)

// allocate serves the queues in turn, each in its order, until a gang does not fit now and waits for others to end. Every
// gang gets its smallest size, unless no gang behind it would use the rest better. resize hands
// out the rest.
func (c *cycle) allocate() { c.allocateUntil(func() bool { return false }) }

// allocateUntil is allocate until something is the case.
func (c *cycle) allocateUntil(enough func() bool) {
	c.oversubscribed = c.wantMore(func(*entry) bool { return true })
	for q := c.nextQueue(); q != nil && !enough(); q = c.nextQueue() {
		e := q.waiting[q.next]
		q.next++
		if alike := c.alike(e); !c.worthShrinking(e, alike) {
			e.deferred = true
			c.enlarge(alike)
		}
		if !c.admit(e, "allocate") {
			c.block(e)
		}
	}
}

// wantMore reports whether some of the waiting gangs together want more than the cluster holds.
func (c *cycle) wantMore(some func(*entry) bool) bool {
	wanted := Resources{}
	for _, q := range c.queues {
		for _, e := range q.waiting {
			if !some(e) {
				continue
			}
			wanted.Add(e.Requests, e.wants())
			for name := range e.Requests {
				if total := c.state.total[name]; total > 0 && wanted[name] > total {
					return true
				}
			}
		}
	}
	return false
}

// alike are the admitted gangs of the same queue and class as a gang that could be larger.
func (c *cycle) alike(e *entry) []*entry {
	var alike []*entry
	for _, other := range c.admitted {
		if other.queue == e.queue && other.class == e.class && len(other.nodes) < other.Sizing.Size {
			alike = append(alike, other)
		}
	}
	return alike
}

// mostHeads is how many gangs of a queue have a reservation at most, each for nodes that those before it cannot use.
const mostHeads = 16

// mostUnfit is how many gangs of a queue at most are passed over because no end lets them start.
const mostUnfit = 100

// block makes a gang the head of its queue: gangs behind it must not delay it. If it does not even fit once all gangs have
// ended, its nodes are down or held by others. Then waiting for it would not help, and the next gang is served as if it were
// the first, unless nodes may come. With EASY, those behind a head that could start on nodes which the head cannot use are
// served, too, and may be further heads. Without backfill, the next one is served after the patience, and only if nothing
// lets the head start.
func (c *cycle) block(e *entry) {
	c.renewBroken()
	q := e.queue
	q.heads, e.isHead = append(q.heads, e), true
	least := e.allowed.Least()
	e.overCapacity = c.state.withinCapacity(e.queue, e.Requests, least) < least
	if e.Blocked.IsZero() {
		e.Blocked = c.now
	}
	c.noteDelay(e)
	r := c.reserve(e)
	c.reservations = append(c.reservations, r)
	c.reserveComing(q)
	switch {
	case e.mayAsk() || c.settles.After(c.now) || q.Backfill == NoBackfill && (r.fits || e.patient().After(c.now)):
		q.served = true
	case r.fits:
		q.reserved, q.beside = append(q.reserved, e.ID), map[string][2]int{}
		q.served = q.Backfill == Conservative || e.overCapacity || len(q.reserved) == mostHeads
	default:
		q.served = len(q.heads)-len(q.reserved) > mostUnfit
	}
}

// patient is when the patience of a queue with a head is over, if it counts from when the head found no room.
func (e *entry) patient() time.Time { return e.Blocked.Add(e.queue.Patience) }

// isNext reports whether a gang is served in its turn: no gang before it waits for nodes that it needs.
func (c *cycle) isNext(e *entry) bool {
	q := e.queue
	return len(q.reserved) == 0 || remembered(q.beside, e.class, e.allowed.Least(), func(least int) bool {
		return c.base.CouldHoldBeside(e.ID, []int{least}, q.reserved)
	})
}

// admit starts a gang at its smallest size if it fits and delays no gang with a reservation.
func (c *cycle) admit(e *entry, action string) bool {
	size := e.least()
	if most, known := c.atMost[e.class]; known && most < size {
		return false
	}
	if c.state.allowed(&e.Gang, e.user, 1, size) < size {
		return false
	}
	if fits := e.fitsIn(c.state.room, size); fits < size {
		c.atMost[e.class] = fits
		return false
	}
	if !c.start(e, size) {
		return false
	}
	e.action = action
	return true
}

// start places a gang at a size, or resizes one that was placed in this cycle. It fails if that
// delays a gang with a reservation.
func (c *cycle) start(e *entry, size int) bool {
	if slices.ContainsFunc(c.broken, func(r *reservation) bool { return r.mayBind(e) }) {
		c.renewBroken()
	}
	if slices.ContainsFunc(c.reservations, func(r *reservation) bool { return r.binds(e) && r.isDelayedBy(e, size, c.now) }) {
		return false
	}
	trial := c.state.snapshot()
	if len(e.nodes) > 0 {
		trial.unplace(e, len(e.nodes))
	}
	nodes := trial.place(e, size)
	if nodes == nil {
		return false
	}
	profile, ok := e.queue.profileWith(e, size)
	if !ok {
		return false
	}
	afters := map[*reservation]*clusterState{}
	broken, ok := c.breaks(e, size, trial, afters)
	if !ok {
		return false
	}
	c.accept(e, nodes, trial)
	for _, r := range c.reservations {
		if !r.stale {
			r.accept(e, afters, trial)
		}
	}
	e.queue.profile, c.broken = profile, append(c.broken, broken...)
	c.plain.miss(e, size)
	for _, q := range c.queues {
		if q != e.queue {
			q.profile.miss(e, size)
		}
	}
	return true
}

// breaks are the reservations that a gang breaks if it starts as in the trial, and need not respect. It reports false if the
// gang breaks one that it has to respect. It adds to afters as allows does.
func (c *cycle) breaks(e *entry, size int, trial *clusterState, afters map[*reservation]*clusterState) (broken []*reservation, ok bool) {
	for _, r := range c.reservations {
		if !r.stale && !r.allows(e, size, trial, c.now, afters) {
			if r.binds(e) {
				return nil, false
			}
			broken = append(broken, r)
		}
	}
	for _, r := range broken {
		r.stale = r.head.isHead
	}
	return broken, true
}

// profileWith is the profile of a conservative queue with a gang of the queue at a size. It reports false if that delays a
// gang of the queue.
func (q *jobQueue) profileWith(e *entry, size int) (p *profile, ok bool) {
	if q.profile == nil || q.profile.startsNow(e) == size {
		return q.profile, true
	}
	p = q.profile.with(e, size)
	return p, p != nil
}

func (c *cycle) accept(e *entry, nodes []string, trial *clusterState) {
	if len(e.nodes) == 0 {
		c.admitted = append(c.admitted, e)
	}
	c.state, e.nodes, c.forecasts = trial, nodes, nil
}

// renewBroken makes the reservations again that gangs broke which need not respect them. It does so for many such gangs at
// once, as soon as somebody asks for one of the reservations.
func (c *cycle) renewBroken() {
	broken := c.broken
	c.broken = nil
	c.renew(broken)
}

// renew makes reservations again, after the room has changed.
func (c *cycle) renew(reservations []*reservation) {
	for _, r := range reservations {
		if r.head.isHead {
			*r = *c.reserve(r.head)
		}
	}
	for _, q := range c.queues {
		if slices.ContainsFunc(reservations, func(r *reservation) bool { return r.head.queue == q }) {
			c.reserveComing(q)
		}
	}
}
