// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import "slices"

// mostKinds is how many kinds of gangs of a queue tell on which nodes the guarantee of the queue is kept free.
const mostKinds = 16

// anyGang is the ID of a gang whose pods select no nodes, tolerate no taints, and request nothing. A guarantee is always for such
// gangs, too: nobody knows which gangs come.
const anyGang = ""

// addKind notes that the queue has a gang of a class.
func (q *jobQueue) addKind(id, class string) {
	if len(q.kinds) < mostKinds && !q.classes[class] {
		q.classes[class], q.kinds = true, append(q.kinds, id)
	}
}

// withinGuarantees is the number of pods of a gang that the guarantees of other queues leave, at most limit.
func (s *clusterState) withinGuarantees(g *Gang, q *jobQueue, limit int) int {
	for _, name := range s.guaranteedToOthers(q) {
		if amount := g.Requests[name]; amount > 0 {
			free := s.free(g, name)
			// A queue may always take its own guarantee, even if all guarantees exceed the
			// cluster.
			own := min(free, q.Guarantee[name]-s.has(q, name))
			free = max(free-s.keptFrom(g, q, name, free-times(amount, limit)), own)
			limit = min(limit, int(max(free, 0)/amount))
		}
	}
	return limit
}

// free is how much of a resource is free on the nodes that a gang can use now.
func (s *clusterState) free(g *Gang, name string) int64 {
	free, _ := s.room.Amount(name, g.ID, "")
	return free - s.names.amount(s.unplaced, name)
}

// guaranteedToOthers are the resources of which a queue has to leave some to others.
func (s *clusterState) guaranteedToOthers(q *jobQueue) []string {
	return slices.DeleteFunc(slices.Clone(s.guaranteed), func(name string) bool { return s.keptForOthers(q, name) == 0 })
}

// sparesGuarantees reports whether a gang at its smallest size leaves other queues what they are guaranteed, if the
// cluster holds all guarantees.
func (s *clusterState) sparesGuarantees(e *entry) bool {
	for _, name := range s.guaranteedToOthers(e.queue) {
		promised, left := int64(0), s.free(&e.Gang, name)-times(e.Requests[name], e.least())
		for _, q := range s.guarantors {
			promised = bounded(promised + q.Guarantee[name])
		}
		if e.Requests[name] > 0 && promised <= s.total[name] && left < s.keptFrom(&e.Gang, e.queue, name, left) {
			return false
		}
	}
	return true
}

// keptForOthers is how much of a resource is guaranteed to other queues and not in use.
func (s *clusterState) keptForOthers(q *jobQueue, name string) int64 {
	return s.kept(q, name, func(_ *jobQueue, kept int64) int64 { return kept })
}

// keptFrom is how much of a resource a gang of a queue has to leave to other queues on the nodes that it can use: what is
// guaranteed to them and not in use, without what they can have on other nodes. If so much is left that this does not
// matter, it is not looked at.
func (s *clusterState) keptFrom(g *Gang, q *jobQueue, name string, left int64) int64 {
	if all := s.keptForOthers(q, name); all <= left {
		return all
	}
	return s.kept(q, name, func(other *jobQueue, kept int64) int64 {
		return other.needsOf(g, s.room, kept, func(id string) int64 {
			free, _ := s.room.Amount(name, id, g.ID)
			return free
		})
	})
}

// needsOf is how much of an amount the queue needs of the nodes that a gang can use: the least that any kind of its gangs needs of
// these nodes, since that kind can have the rest on other nodes. Kinds that cannot use these nodes need nothing of them.
func (q *jobQueue) needsOf(g *Gang, room Room, amount int64, elsewhere func(id string) int64) int64 {
	need, needed := amount, false
	for _, id := range q.kinds {
		if room.Meet(id, g.ID) {
			need, needed = min(need, max(amount-elsewhere(id), 0)), true
		}
	}
	if !needed {
		return 0
	}
	return need
}

// mostOf is how much of a resource there is in all for a gang on the nodes that it can use, with what may come, and how much of
// that the guarantees of other queues leave.
func (c *cycle) mostOf(e *entry, name string) (all, left int64) {
	_, all = c.base.Amount(name, e.ID, "")
	all = bounded(all + e.mostToCome(name))
	left = all
	for _, other := range c.state.guarantors {
		if other != e.queue {
			left -= other.needsOf(&e.Gang, c.base, other.Guarantee[name], func(id string) int64 {
				_, all := c.base.Amount(name, id, e.ID)
				return all
			})
		}
	}
	return all, max(left, e.queue.Guarantee[name])
}

// kept is the sum of some part of what is guaranteed to each other queue and not in use.
func (s *clusterState) kept(q *jobQueue, name string, part func(other *jobQueue, kept int64) int64) (sum int64) {
	for _, other := range s.guarantors {
		if kept := other.Guarantee[name] - s.has(other, name); other != q && kept > 0 {
			sum = bounded(sum + part(other, kept))
		}
	}
	return sum
}
