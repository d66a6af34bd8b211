// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// Schedule decides one cycle: who starts, where and at which size, who has to give
// nodes back, and who gets more. It changes neither the snapshot nor the room.
//
// Preempt and reclaim go before backfill, so that nobody is evicted for nodes that a gang
// which is backfilled takes in the same cycle.
func Schedule(s Snapshot, room Room, now time.Time) Result {
	c := newCycle(s, room, now)
	c.enqueue()
	c.deserve()
	c.allocate()
	c.preempt()
	c.reclaim()
	if c.took {
		c.renew(c.reservations)
	}
	c.resize()
	c.backfill()
	c.resize()
	c.bestEffort()
	c.grow()
	return c.result()
}

// cycle is one call of Schedule.
type cycle struct {
	now, settles time.Time
	// base is the room before the cycle.
	base Room
	// oversubscribed: more is waited for than the cluster holds.
	oversubscribed bool
	// state is the cluster after what was decided so far.
	state  *clusterState
	queues []*jobQueue // by name
	runs   []*run      // by ID
	// admitted are those that start, in the order in which it was decided.
	admitted []*entry
	// reservations are those of the heads, in the order in which they were found.
	reservations []*reservation
	// atMost bounds, by class, how many pods there is room for: room only shrinks.
	atMost  map[string]int
	ends    []expectedEnd // nil before they are needed
	growths []Growth
	// afterLeaving is the cluster once all that is asked to go has gone, and gangs that
	// wait for that are there; nil before it is needed.
	afterLeaving *clusterState
	took         bool // nodes were taken from some
	amount       func(name string, amount int64) string
}

// jobQueue is a queue and those who wait in it.
type jobQueue struct {
	Queue
	index    int
	known    bool // it is in the snapshot
	deserved float64
	all      []*entry // in the order of the queue
	waiting  []*entry // those that can be admitted and ask for something
	next     int      // of waiting
	head     *entry   // the first that was not admitted
	// behind are the reservations of those behind the head, for Conservative.
	behind []*reservation
}

// entry is a gang that waits.
type entry struct {
	Gang
	queue    *jobQueue
	index    int   // in queue.all
	allowed  []int // all sizes
	sizes    []int // those that count now
	holdsOut bool
	// fullUntil is until when it starts at its full size or not at all; zero: it need not.
	fullUntil time.Time
	class     string
	// overCapacity: its queue has no capacity left for it, whatever nodes are free.
	overCapacity bool
	// deferred: it would start if others were smaller, and would use no more nodes than they do.
	deferred bool
	// provided: its room was made, or comes.
	provided bool
	verdict  elastic.Verdict // of enqueue
	message  string
	action   string
	nodes    []string
}

// run is a gang that runs, and what is taken from it.
type run struct {
	Running
	queue    *jobQueue
	draining []int
	drains   []int
	evicted  bool
	action   string
	taker    *entry
}

func (e *entry) least() int { return e.sizes[0] }

func (q *jobQueue) weight() float64 { return float64(max(q.Weight, 1)) }

func newCycle(s Snapshot, room Room, now time.Time) *cycle {
	c := &cycle{now: now, settles: s.Settles, base: room.Snapshot(), atMost: map[string]int{}, amount: s.Amount}
	if c.amount == nil {
		c.amount = func(name string, amount int64) string { return fmt.Sprintf("%d %s", amount, name) }
	}
	byName := c.makeQueues(s)
	c.state = newClusterState(room.Snapshot(), c.queues, s.Total)
	for _, running := range s.Running {
		r := &run{Running: running, queue: byName[running.Queue]}
		r.Requests = withPod(r.Requests)
		for _, rank := range running.Draining {
			if slices.Contains(running.Ranks, rank) {
				r.draining = append(r.draining, rank)
			}
		}
		c.state.add(r.queue, r.Requests, len(r.Ranks))
		c.runs = append(c.runs, r)
	}
	slices.SortFunc(c.runs, func(a, b *run) int { return cmp.Compare(a.ID, b.ID) })
	for _, gang := range s.Waiting {
		q := byName[gang.Queue]
		q.all = append(q.all, c.newEntry(gang, q))
	}
	for _, q := range c.queues {
		q.sort()
		for i, e := range q.all {
			e.index = i
		}
	}
	return c
}

// makeQueues makes the queues, by name, with those that gangs name and that are not
// there.
func (c *cycle) makeQueues(s Snapshot) map[string]*jobQueue {
	byName := map[string]*jobQueue{}
	for _, q := range s.Queues {
		byName[q.Name] = &jobQueue{Queue: q, known: true}
	}
	missing := func(name string) {
		if byName[name] == nil {
			byName[name] = &jobQueue{Queue: Queue{Name: name}}
		}
	}
	for i := range s.Waiting {
		missing(s.Waiting[i].Queue)
	}
	for i := range s.Running {
		missing(s.Running[i].Queue)
	}
	for _, q := range byName {
		c.queues = append(c.queues, q)
	}
	slices.SortFunc(c.queues, func(a, b *jobQueue) int { return cmp.Compare(a.Name, b.Name) })
	for i, q := range c.queues {
		q.index = i
	}
	return byName
}

func (c *cycle) newEntry(gang Gang, q *jobQueue) *entry {
	e := &entry{Gang: gang, queue: q, allowed: gang.Sizing.Allowed(), class: gang.Class}
	e.Requests = withPod(e.Requests)
	if e.class == "" {
		e.class = "gang " + e.ID
	}
	e.sizes = e.allowed
	if len(e.sizes) == 1 {
		return e
	}
	until := e.Since.Add(e.WaitForSize)
	e.holdsOut = until.After(c.now)
	if until.Before(c.settles) { // there will be more
		until = c.settles
	}
	if until.After(c.now) {
		e.fullUntil, e.sizes = until, e.sizes[len(e.sizes)-1:]
	}
	return e
}

// atOnce is how long gangs are made that count as made at once, where age alone does not
// decide. These times do not depend on who waits, so the order does not either.
const atOnce = 5 * time.Second

// sort puts those who wait in the order of the queue. Of those that were made at once the
// largest are first: small ones fill what these leave.
func (q *jobQueue) sort() {
	slices.SortFunc(q.all, func(a, b *entry) int {
		if q.Ordering == ByAge {
			return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(b.Sizing.Size, a.Sizing.Size), cmp.Compare(a.ID, b.ID))
		}
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Created.Truncate(atOnce).Compare(b.Created.Truncate(atOnce)),
			cmp.Compare(b.Sizing.Size, a.Sizing.Size), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
}

// heads are the gangs that are first in their queue and do not fit, in the order
// in which they were found.
func (c *cycle) heads() []*entry {
	var heads []*entry
	for _, r := range c.reservations {
		heads = append(heads, r.head)
	}
	return heads
}
