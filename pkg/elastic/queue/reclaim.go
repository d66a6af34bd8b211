// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

// rounding is by how much equal shares may differ.
const rounding = 1e-9

// reclaim takes nodes for heads from other queues that have more than their deserved share, and
// leaves them that share. A guarantee is had even if they have no gangs of such sizes: then those
// with more than their guarantee have to do. What they are guaranteed is kept free for them.
func (c *cycle) reclaim() {
	for _, head := range c.heads() {
		if !c.mayTake(head) {
			continue
		}
		other := func(r *run) bool { return r.queue != head.queue && r.queue.Reclaimable }
		after := c.afterLeaving.uses(head.queue)
		after.Add(head.Requests, head.least())
		covered := head.queue.covers(after, head.Requests)
		if covered || c.afterLeaving.share(after) <= head.queue.deserved+rounding {
			c.takeFor(head, "reclaim", other, keepsShare)
		}
		if covered && !head.provided {
			c.takeFor(head, "reclaim", other, isAboveGuarantee)
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
func keepsShare(s *clusterState, r *run, n int) bool {
	left := s.uses(r.queue)
	left.Add(r.Requests, -s.inside(r, n))
	return s.share(left) >= r.queue.deserved-rounding
}

// isAboveGuarantee reports whether the queue of a gang has more than its guarantee.
func isAboveGuarantee(s *clusterState, r *run, _ int) bool {
	return !r.queue.covers(s.uses(r.queue), r.Requests)
}
