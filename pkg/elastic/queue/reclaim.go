// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import "maps"

// rounding is by how much equal shares may differ.
const rounding = 1e-9

// reclaim takes nodes for heads from other queues that have more than their deserved share, and
// leaves them that share.
func (c *cycle) reclaim() {
	for _, head := range c.heads() {
		if c.needsNothing(head) || !c.deserves(head) {
			continue
		}
		c.takeFor(head, "reclaim", func(r *run) bool {
			return r.queue != head.queue && r.queue.Reclaimable
		}, keepsShare)
	}
}

// deserves reports whether a queue stays within its deserved share or its guarantee with a gang.
func (c *cycle) deserves(e *entry) bool {
	q := e.queue
	after := maps.Clone(c.afterLeaving.used[q.index])
	promised := false
	after.Add(e.Requests, e.least())
	for name := range e.Requests {
		promised = promised || q.Guarantee[name] > 0
	}
	for name, guarantee := range q.Guarantee {
		promised = promised && (e.Requests[name] == 0 || after[name] <= guarantee)
	}
	return promised || c.afterLeaving.share(after) <= q.deserved+rounding
}

// keepsShare reports whether a queue keeps its deserved share without n pods of a gang.
func keepsShare(s *clusterState, r *run, n int) bool {
	left := maps.Clone(s.used[r.queue.index])
	left.Add(r.Requests, -n)
	return s.share(left) >= r.queue.deserved-rounding
}
