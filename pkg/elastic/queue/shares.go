// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// deserve divides the cluster among the queues that want some of it: by weight,
// no more to one than it wants and may have, no less than it was promised.
func (c *cycle) deserve() {
	least, most := make([]float64, len(c.queues)), make([]float64, len(c.queues))
	for i, q := range c.queues {
		least[i] = c.state.share(q.Guarantee)
		most[i] = max(least[i], c.demand(q))
	}
	level := c.level(least, most)
	for i, q := range c.queues {
		q.deserved = min(max(q.weight()*level, least[i]), most[i])
	}
}

// demand is the share of all that a queue has and waits for, as far as its
// capacity goes.
func (c *cycle) demand(q *jobQueue) float64 {
	want := maps.Clone(c.state.used[q.index])
	for _, e := range q.all {
		if e.verdict == "" {
			for name, amount := range e.Requests {
				want[name] += amount * int64(e.Sizing.Size)
			}
		}
	}
	part := 1.0
	for name, may := range q.Capacity {
		if want[name] > 0 {
			part = min(part, float64(may)/float64(want[name]))
		}
	}
	return min(c.state.share(want)*part, 1)
}

// level is what one of weight gets such that all is given away, or all have what
// they want. The sum is straight between the levels at which one queue reaches a
// bound.
func (c *cycle) level(least, most []float64) float64 {
	var bends []float64
	for i, q := range c.queues {
		bends = append(bends, least[i]/q.weight(), most[i]/q.weight())
	}
	slices.Sort(bends)
	sum := func(level float64) float64 {
		total := 0.0
		for i, q := range c.queues {
			total += min(max(q.weight()*level, least[i]), most[i])
		}
		return total
	}
	last := 0.0
	for _, bend := range bends {
		low, high := sum(last), sum(bend)
		if high >= 1 && high > low {
			return last + max(1-low, 0)/(high-low)*(bend-last)
		}
		last = bend
	}
	return last
}

// nextQueue is the queue to serve; nil if none has a gang that can be tried.
func (c *cycle) nextQueue() *jobQueue {
	var best *jobQueue
	for _, q := range c.queues {
		if q.head != nil || q.next == len(q.waiting) {
			continue
		}
		if best == nil || c.goesBefore(q, best) < 0 {
			best = q
		}
	}
	return best
}

// goesBefore is the order of queues: priority, then how little they have for
// their weight. A queue whose first gang has waited for too long goes first among
// those of its priority, and of queues that have the same the one that waits longer:
// else another could take the room that was kept for it the moment it is there.
func (c *cycle) goesBefore(a, b *jobQueue) int {
	if byPriority := cmp.Compare(b.Priority, a.Priority); byPriority != 0 {
		return byPriority
	}
	waitsA, waitsB := c.blockedFor(a), c.blockedFor(b)
	if lateA, lateB := waitsA > a.Patience, waitsB > b.Patience; lateA || lateB {
		if !lateA {
			return 1
		}
		if !lateB {
			return -1
		}
		if waitsA != waitsB {
			return cmp.Compare(waitsB, waitsA)
		}
	}
	return cmp.Or(
		cmp.Compare(c.state.share(c.state.used[a.index])/a.weight(), c.state.share(c.state.used[b.index])/b.weight()),
		cmp.Compare(waitsB, waitsA),
		cmp.Compare(a.Name, b.Name),
	)
}

// blockedFor is how long the gang that is to be served next has been blocked.
func (c *cycle) blockedFor(q *jobQueue) time.Duration {
	if q.next >= len(q.waiting) || q.waiting[q.next].Blocked.IsZero() {
		return 0
	}
	return c.now.Sub(q.waiting[q.next].Blocked)
}

func (c *cycle) uses() []Use {
	var uses []Use
	for _, q := range c.queues {
		if q.known {
			used := c.state.used[q.index]
			uses = append(uses, Use{Queue: q.Name, Used: used, Share: c.state.share(used), Deserved: q.deserved})
		}
	}
	return uses
}
