// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import "slices"

// allocate serves the queues in turn, each in its order, until their first gangs
// do not fit. Every gang gets its least size, unless none behind it uses what is left
// better: resize gives what is left.
func (c *cycle) allocate() {
	c.oversubscribed = c.wantsMore()
	for q := c.nextQueue(); q != nil; q = c.nextQueue() {
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

// wantsMore reports whether more is waited for than the cluster holds.
func (c *cycle) wantsMore() bool {
	wanted := Resources{}
	for _, q := range c.queues {
		for _, e := range q.waiting {
			for name, amount := range e.Requests {
				wanted[name] += amount * int64(e.Sizing.Size)
			}
		}
	}
	for name, amount := range wanted {
		if total := c.state.total[name]; total > 0 && amount > total {
			return true
		}
	}
	return false
}

// alike are the gangs that were admitted, of a gang's queue and with pods like its own, that
// can be larger.
func (c *cycle) alike(e *entry) []*entry {
	var alike []*entry
	for _, other := range c.admitted {
		if other.queue == e.queue && other.class == e.class && len(other.nodes) < other.Sizing.Size {
			alike = append(alike, other)
		}
	}
	return alike
}

// worthShrinking reports whether more nodes are used if others, which are alike, stay small for
// a gang. If not, they had better be large. Where more is waited for than the cluster holds, they always
// stay small: of smaller gangs more run.
func (c *cycle) worthShrinking(e *entry, others []*entry) bool {
	if c.oversubscribed || len(others) == 0 {
		return true
	}
	missing := e.least()
	for _, other := range others {
		missing += other.Sizing.Size - len(other.nodes)
	}
	free := c.state.fits(e, missing)
	return free < e.least() || e.least()+usable(others, free-e.least()) > usable(others, free)
}

// usable is how many of so many free pods gangs can take in turn.
func usable(gangs []*entry, free int) int {
	taken := 0
	for _, e := range gangs {
		for _, size := range slices.Backward(e.sizes) {
			if more := size - len(e.nodes); more <= free-taken {
				taken += max(more, 0)
				break
			}
		}
	}
	return taken
}

// block makes a gang the head of its queue: those behind it have to leave room for it.
func (c *cycle) block(e *entry) {
	e.queue.head = e
	e.overCapacity = c.state.withinCapacity(e.queue, e.Requests, e.allowed[0]) < e.allowed[0]
	if e.Blocked.IsZero() {
		e.Blocked = c.now
	}
	c.reservations = append(c.reservations, c.reserve(e))
}

// admit starts a gang at its least size if it fits and delays nobody that goes
// before it.
func (c *cycle) admit(e *entry, action string) bool {
	size := e.least()
	if most, known := c.atMost[e.class]; known && most < size {
		return false
	}
	if c.state.allowed(e.queue, e.Requests, size) < size {
		return false
	}
	if fits := c.state.room.Fits(e.ID, size); fits < size {
		c.atMost[e.class] = fits
		return false
	}
	if !c.protect(e) || !c.start(e, size) {
		return false
	}
	e.action = action
	return true
}

// start places a gang at a size, again if it has nodes, unless it delays a gang
// that has a reservation.
func (c *cycle) start(e *entry, size int) bool {
	reservations := slices.Concat(c.reservations, e.queue.behind)
	if slices.ContainsFunc(reservations, func(r *reservation) bool { return r.binds(e) && r.isDelayedBy(e, size, c.now) }) {
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
	afters := make([]*clusterState, len(reservations))
	var broken []*reservation
	for i, r := range reservations {
		var ok bool
		if afters[i], ok = r.allows(e, size, trial, c.now); !ok {
			if r.binds(e) {
				return false
			}
			broken = append(broken, r)
		}
	}
	c.accept(e, nodes, trial)
	for i, r := range reservations {
		r.accept(e, afters[i])
	}
	c.renew(broken)
	return true
}

func (c *cycle) accept(e *entry, nodes []string, trial *clusterState) {
	if len(e.nodes) == 0 {
		c.admitted = append(c.admitted, e)
	}
	c.state, e.nodes, c.ends = trial, nodes, nil
}

// renew makes reservations again, for what their gangs wait for now.
func (c *cycle) renew(reservations []*reservation) {
	for _, r := range reservations {
		*r = *c.reserve(r.head)
	}
}
