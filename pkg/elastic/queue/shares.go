// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"slices"
	"time"
)

// division divides nodes among the queues that want them, by weight. No queue gets more than it wants and may have, or less
// than its guarantee.
type division struct {
	queues []*jobQueue
	// nodes is what the queues have of the nodes, and all what they have of all nodes.
	nodes, all *sums
	// of is a gang that could use the nodes; "" if they are all. reaches reports whether gangs like some gang could use some of
	// the nodes.
	of      string
	room    Room
	reaches func(id, class string) bool
}

// deserve divides the cluster.
func (c *cycle) deserve() {
	d := division{queues: c.queues, nodes: &c.state.sums, all: &c.state.sums}
	for i, deserved := range d.parts() {
		c.queues[i].deserved = deserved
	}
}

// parts is which part of the nodes each queue deserves.
func (d *division) parts() []float64 {
	least, most := make([]float64, len(d.queues)), make([]float64, len(d.queues))
	for i, q := range d.queues {
		least[i] = d.nodes.share(d.guarantee(q))
		most[i] = max(least[i], d.demand(q))
	}
	level := d.level(least, most)
	for i, q := range d.queues {
		least[i] = min(max(q.weight()*level, least[i]), most[i])
	}
	return least
}

// guarantee is what is guaranteed to a queue of the nodes: what it needs of them and what it has of them, without what it has
// on other nodes.
func (d *division) guarantee(q *jobQueue) Resources {
	if d.of == "" {
		return q.Guarantee
	}
	left := Resources{}
	for name, amount := range q.Guarantee {
		has := d.nodes.has(q, name)
		left[name] = max(min(amount-d.all.has(q, name)+has, max(q.part(d.room, d.of, name), has)), 0)
	}
	return left
}

// demand is the share that a queue uses and waits for, within its capacity.
func (d *division) demand(q *jobQueue) float64 {
	want := d.nodes.uses(q)
	for _, e := range q.all {
		if e.verdict == "" && (d.of == "" || d.reaches(e.ID, e.class)) {
			want.Add(e.Requests, e.wants())
			for name := range e.Requests {
				if total := d.nodes.total[name]; len(q.Capacity) == 0 && total > 0 && want[name] >= total {
					return 1 // whatever others want
				}
			}
		}
	}
	part := 1.0
	for name, may := range q.Capacity {
		if want[name] > 0 {
			part = min(part, float64(max(may-d.nodes.hasOutside(q, name), 0))/float64(want[name]))
		}
	}
	return min(d.nodes.share(want)*part, 1)
}

// level is the share per weight at which all nodes are given away, or every queue has what
// it wants. The sum of shares is linear between the levels at which a queue reaches a bound.
func (d *division) level(least, most []float64) float64 {
	var bends []float64
	for i, q := range d.queues {
		bends = append(bends, least[i]/q.weight(), most[i]/q.weight())
	}
	slices.Sort(bends)
	sum := func(level float64) float64 {
		total := 0.0
		for i, q := range d.queues {
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

// nextQueue is the queue to serve next; nil if none has a gang to try.
func (c *cycle) nextQueue() *jobQueue {
	var best *jobQueue
	for _, q := range c.queues {
		if q.served {
			continue
		}
		for q.next < len(q.waiting) && (c.waitsForUser(q.waiting[q.next]) != noLimit || !c.isNext(q.waiting[q.next])) {
			q.next++
		}
		if q.next == len(q.waiting) {
			continue
		}
		if best == nil || c.goesBefore(q, best) < 0 {
			best = q
		}
	}
	return best
}

// goesBefore orders the queues: by priority, then by their use relative to their weight. Of the
// queues of a priority, one whose next gang was promised a start goes first. Then comes one for whose next gang others give up
// nodes: otherwise another queue would take these nodes the moment they become free, and so nobody would give them up. Then
// comes one whose next gang has waited longer than its patience, the longest wait before others.
func (c *cycle) goesBefore(a, b *jobQueue) int {
	return cmp.Or(
		cmp.Compare(b.Priority, a.Priority),
		compare(b.isPromised(), a.isPromised()),
		compare(b.awaitsTaken(), a.awaitsTaken()),
		cmp.Compare(b.lateFor(c.now), a.lateFor(c.now)),
		cmp.Compare(c.state.shareOf(a)/a.weight(), c.state.shareOf(b)/b.weight()),
		cmp.Compare(b.blockedFor(c.now), a.blockedFor(c.now)),
		cmp.Compare(a.Name, b.Name),
	)
}

// compare orders false before true.
func compare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// isPromised reports whether the next gang of a queue was promised a start.
func (q *jobQueue) isPromised() bool {
	return q.next < len(q.waiting) && !q.waiting[q.next].Promised.IsZero()
}

// awaitsTaken reports whether others gave up nodes for the next gang of a queue.
func (q *jobQueue) awaitsTaken() bool {
	return q.next < len(q.waiting) && q.waiting[q.next].Taken.waits()
}

// blockedFor is how long the next gang of a queue has been blocked.
func (q *jobQueue) blockedFor(now time.Time) time.Duration {
	if q.next >= len(q.waiting) || q.waiting[q.next].Blocked.IsZero() {
		return 0
	}
	return now.Sub(q.waiting[q.next].Blocked)
}

// lateFor is blockedFor once that is longer than the patience of the queue.
func (q *jobQueue) lateFor(now time.Time) time.Duration {
	if blocked := q.blockedFor(now); blocked > q.Patience {
		return blocked
	}
	return 0
}

// uses are what the queues have after the cycle.
func (v *verdicts) uses() []Use {
	after := v.state.snapshot()
	for _, e := range v.admitted {
		if e.isPutOff {
			after.unplace(e, len(e.nodes))
		}
	}
	var uses []Use
	for _, q := range v.queues {
		if q.known {
			use := Use{Queue: q.Name, Used: after.all(q), Share: after.shareOf(q), Deserved: q.deserved}
			if q.Users.HalfLife > 0 {
				use.Users = v.userUses(q, after)
			}
			uses = append(uses, use)
		}
	}
	return uses
}
