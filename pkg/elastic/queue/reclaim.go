// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"slices"
)

// rounding is by how much equal shares may differ.
const rounding = 1e-9

// reclaim takes nodes for heads from other queues that have more than their deserved share, and
// leaves them that share: of the nodes that the head could use, and of those that a gang could use that would go. A guarantee is
// had even if they have no gangs of such sizes: then those with more than their guarantee have to do. What they are guaranteed is
// kept free for them.
func (c *cycle) reclaim() {
	pools := pools{}
	for _, head := range c.heads() {
		may := func(r *run) bool { return r.queue != head.queue && r.queue.Reclaimable }
		if !c.mayTake(head) || !slices.ContainsFunc(c.runs, may) {
			continue
		}
		p := pools.of(c, head.ID, head.class)
		now := p.now.snapshot()
		c.afterLeaving.pool = &now
		other := func(r *run) bool { return may(r) && len(p.now.outside[r.ID]) < len(r.Ranks) }
		covered := head.queue.covers(c.afterLeaving.usesWith(head), head.Requests)
		if covered || p.now.share(p.now.usesWith(head)) <= p.deserved[head.queue.index]+rounding {
			c.takeFor(head, "reclaim", other, func(s *clusterState, r *run, n int) bool {
				if !p.keepsShare(s, r, n) {
					return false
				}
				own := pools.of(c, r.ID, cmp.Or(r.Class, "gang "+r.ID))
				return own == p || own.keepsAll(s, r, n, head.ID)
			})
		}
		if covered && !head.provided {
			c.takeFor(head, "reclaim", other, isAboveGuarantee)
		}
		c.afterLeaving.pool = nil
	}
}

// usesWith is what the queue of a gang has with the gang at its smallest size.
func (s *sums) usesWith(e *entry) Resources {
	after := s.uses(e.queue)
	after.Add(e.Requests, e.least())
	return after
}

// pool is the nodes that the gangs of a class could use.
type pool struct {
	of string // one of the gangs
	// deserved is the part of the nodes that each queue deserves.
	deserved []float64
	// now is what the queues have of the nodes in a state.
	now   sums
	state *clusterState
}

// pools are by class.
type pools map[string]*pool

// of is the pool of a gang of a class, as it is once all that leaves has left.
func (all pools) of(c *cycle, id, class string) *pool {
	p := all[class]
	if p == nil {
		p = c.poolOf(id)
		all[class] = p
	}
	p.update(c)
	return p
}

// poolOf is the nodes that a gang could use, divided among the queues whose gangs could use some of them.
func (c *cycle) poolOf(id string) *pool {
	s := newClusterState(c.base, c.queues, Resources{}, c.state.names)
	s.users = make([]tally, len(c.state.users))
	for _, r := range c.runs {
		s.run(r)
	}
	p := &pool{of: id, now: s.sums.snapshot()}
	p.leaveOut(c.runs, s.room)
	for name := range c.state.total {
		free, _ := s.room.Amount(name, id, "")
		p.now.total[name] = max(free, 0)
		for _, q := range c.queues {
			p.now.total[name] += p.now.has(q, name)
		}
	}
	known := map[string]bool{}
	d := division{queues: c.queues, nodes: &p.now, all: &s.sums, of: id, room: c.base, reaches: func(other, class string) bool {
		reaches, asked := known[class]
		if !asked {
			reaches = c.base.Meet(id, other, "")
			known[class] = reaches
		}
		return reaches
	}}
	p.deserved = d.parts()
	return p
}

// leaveOut counts what gangs have on nodes that are not of the pool as outside.
func (p *pool) leaveOut(runs []*run, room Room) {
	for _, r := range runs {
		outside := p.now.outside[r.ID]
		p.now.stay(r.ID, r.user, r.needs, slices.DeleteFunc(room.Elsewhere(p.of, r.ID), func(rank int) bool { return slices.Contains(outside, rank) }))
	}
}

// update finds out what the queues have of the nodes once all that leaves has left.
func (p *pool) update(c *cycle) {
	s := c.afterLeaving
	if p.state == s {
		return
	}
	total := p.now.total
	p.now, p.state = s.sums.snapshot(), s
	p.now.total = total
	p.leaveOut(c.runs, s.room)
	for _, q := range c.queues {
		for _, other := range q.waiting {
			if len(other.nodes) > 0 || other.provided {
				p.now.move(other.user, other.needs, len(s.room.Elsewhere(p.of, other.ID)))
			}
		}
	}
}

// covers reports whether the guarantee of a queue covers all that it uses of what pods request.
func (q *jobQueue) covers(used, requests Resources) bool {
	some := false
	for name, guarantee := range q.Guarantee {
		if requests[name] > 0 && used[name] > guarantee {
			return false
		}
		some = some || requests[name] > 0 && guarantee > 0
	}
	return some
}

// keepsShare reports whether a queue keeps its deserved share without n pods of a gang.
func (p *pool) keepsShare(s *clusterState, r *run, n int) bool {
	left := s.pool.uses(r.queue)
	left.Add(r.Requests, -s.pool.inside(s.room, r, n, p.of))
	return s.pool.share(left) >= p.deserved[r.queue.index]-rounding
}

// keepsAll reports whether a queue keeps its deserved share without n pods of a gang that could use the nodes alone, if all that
// was taken from the queue before was there.
func (p *pool) keepsAll(s *clusterState, r *run, n int, taker string) bool {
	left := p.now.uses(r.queue)
	left.Add(p.state.uses(r.queue), -1)
	left.Add(s.uses(r.queue), 1)
	left.Add(r.Requests, -s.inside(s.room, r, n, taker))
	return p.now.share(left) >= p.deserved[r.queue.index]-rounding
}

// isAboveGuarantee reports whether the queue of a gang has more than its guarantee.
func isAboveGuarantee(s *clusterState, r *run, _ int) bool {
	return !r.queue.covers(s.uses(r.queue), r.Requests)
}
