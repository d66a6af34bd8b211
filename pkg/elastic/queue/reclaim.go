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
func (p *preemptor) reclaim() {
	for _, head := range p.heads() {
		may := func(r *run) bool { return r.queue != head.queue && r.queue.Reclaimable }
		if !p.mayTake(head) || !slices.ContainsFunc(p.runs, may) {
			continue
		}
		nodes := p.poolOf(&head.Gang)
		now := nodes.now.snapshot()
		p.afterLeaving.pool = &now
		other := func(r *run) bool { return may(r) && len(nodes.now.outside[r.ID]) < len(r.Ranks) }
		covered := head.queue.covers(p.afterLeaving.usesWith(head), head.Requests)
		if covered || nodes.now.share(nodes.now.usesWith(head)) <= nodes.deserved[head.queue.index]+rounding {
			p.takeFor(head, "reclaim", other, func(s *clusterState, r *run, n int) bool {
				if !nodes.keepsShare(s, r, n) {
					return false
				}
				own := p.poolOf(&r.Gang)
				return own == nodes || own.keepsAll(s, r, n, head.ID)
			})
		}
		if covered && !head.provided {
			p.takeFor(head, "reclaim", other, isAboveGuarantee)
		}
		p.afterLeaving.pool = nil
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

// poolOf is the pool of a gang, as it is once all that leaves has left.
func (p *preemptor) poolOf(g *Gang) *pool {
	class := cmp.Or(g.Class, "gang "+g.ID)
	nodes := p.pools[class]
	if nodes == nil {
		nodes = p.newPool(g.ID)
		p.pools[class] = nodes
	}
	nodes.update(p)
	return nodes
}

// newPool is the nodes that a gang could use, divided among the queues whose gangs could use some of them.
func (p *preemptor) newPool(id string) *pool {
	s := newClusterState(p.base, p.queues, Resources{}, p.state.names)
	s.users = make([]tally, len(p.state.users))
	for _, r := range p.runs {
		s.run(r)
	}
	nodes := &pool{of: id, now: s.sums.snapshot()}
	nodes.leaveOut(p.runs, s.room)
	for name := range p.state.total {
		free, _ := s.room.Amount(name, id, "")
		nodes.now.total[name] = max(free, 0)
		for _, q := range p.queues {
			nodes.now.total[name] += nodes.now.has(q, name)
		}
	}
	known := map[string]bool{}
	d := division{queues: p.queues, nodes: &nodes.now, all: &s.sums, of: id, room: p.base, reaches: func(other, class string) bool {
		reaches, asked := known[class]
		if !asked {
			reaches = p.base.Meet(id, other, "")
			known[class] = reaches
		}
		return reaches
	}}
	nodes.deserved = d.parts()
	return nodes
}

// leaveOut counts what gangs have on nodes that are not of the pool as outside.
func (p *pool) leaveOut(runs []*run, room Room) {
	for _, r := range runs {
		outside := p.now.outside[r.ID]
		p.now.stay(r.ID, r.user, r.needs, slices.DeleteFunc(room.Elsewhere(p.of, r.ID), func(rank int) bool { return slices.Contains(outside, rank) }))
	}
}

// update finds out what the queues have of the nodes once all that leaves has left.
func (p *pool) update(c *preemptor) {
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
	for name, guarantee := range q.Guarantee {
		if requests[name] > 0 && used[name] > guarantee {
			return false
		}
	}
	return q.guarantees(requests)
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
