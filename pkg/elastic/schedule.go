// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Schedule decides one cycle: who starts, where and at which size, who has to give
// nodes back, and who gets more. It changes neither the snapshot nor the room.
//
// Takers go before backfill, so that nobody is evicted for nodes that a gang which
// passes takes in the same cycle.
func Schedule(s Snapshot, room Room, now time.Time) Cycle {
	p := newPlan(s, room, now)
	p.enqueue()
	p.deserve()
	p.allocate()
	p.preempt()
	p.reclaim()
	if p.took {
		p.renew(p.guards)
	}
	p.resize()
	p.backfill()
	p.resize()
	p.bestEffort()
	p.grow()
	return p.cycle()
}

// plan is a cycle in the making. It lives as long as one call of Schedule.
type plan struct {
	now, settles time.Time
	// base is the room before the cycle.
	base Room
	// crowded: more waits than the cluster holds.
	crowded bool
	// view is what is free now, after what was decided so far.
	view  *view
	lines []*line // by name
	runs  []*run  // by ID
	// admitted are those that start, in the order in which it was decided.
	admitted []*entry
	guards   []*guard
	// atMost bounds, by class, how many pods there is room for: room only shrinks.
	atMost  map[string]int
	ends    []step
	growths []Growth
	// coming is the view once all that is asked to go has gone, and gangs that
	// wait for it are there; nil before it is needed.
	coming *view
	took   bool // nodes were taken from some
	amount func(name string, amount int64) string
}

// line is a queue and those who wait in it.
type line struct {
	Queue
	index    int
	known    bool // it is in the snapshot
	deserved float64
	all      []*entry // in the order of the queue
	waiting  []*entry // those that can be admitted and ask for something
	next     int      // of waiting
	head     *entry   // the first that was not admitted
	guards   []*guard // of those behind the head, for Conservative
}

// entry is a gang that waits.
type entry struct {
	Gang
	line     *line
	index    int   // in line.all
	allowed  []int // all sizes
	sizes    []int // those that count now
	holdsOut bool
	// fullUntil is until when it starts at its full size or not at all; zero: it need not.
	fullUntil time.Time
	class     string
	// overCapacity: it is its queue that has no more, not the nodes.
	overCapacity bool
	// yields: it would start if others were smaller, and uses no more than they do.
	yields bool
	// served: its room was made, or comes.
	served  bool
	verdict Verdict // of enqueue
	message string
	action  string
	nodes   []string
}

// run is a gang that runs, and what is taken from it.
type run struct {
	Running
	line     *line
	draining []int
	drains   []int
	evicted  bool
	action   string
	taker    *entry
}

func (e *entry) least() int { return e.sizes[0] }

func (l *line) weight() float64 { return float64(max(l.Weight, 1)) }

func newPlan(s Snapshot, room Room, now time.Time) *plan {
	p := &plan{now: now, settles: s.Settles, base: room.Snapshot(), atMost: map[string]int{}, amount: s.Amount}
	if p.amount == nil {
		p.amount = func(name string, amount int64) string { return fmt.Sprintf("%d %s", amount, name) }
	}
	byName := p.makeLines(s)
	p.view = &view{room: room.Snapshot(), lines: p.lines, total: s.Total, used: make([]Resources, len(p.lines)), sum: Resources{}}
	for i := range p.view.used {
		p.view.used[i] = Resources{}
	}
	for _, running := range s.Running {
		r := &run{Running: running, line: byName[running.Queue]}
		r.Requests = withPod(r.Requests)
		for _, rank := range running.Draining {
			if slices.Contains(running.Ranks, rank) {
				r.draining = append(r.draining, rank)
			}
		}
		p.view.add(r.line, r.Requests, len(r.Ranks))
		p.runs = append(p.runs, r)
	}
	slices.SortFunc(p.runs, func(a, b *run) int { return cmp.Compare(a.ID, b.ID) })
	for _, gang := range s.Waiting {
		l := byName[gang.Queue]
		l.all = append(l.all, p.newEntry(gang, l))
	}
	for _, l := range p.lines {
		l.sort()
		for i, e := range l.all {
			e.index = i
		}
	}
	return p
}

// makeLines are the queues, by name, with those that gangs name and that are not
// there.
func (p *plan) makeLines(s Snapshot) map[string]*line {
	byName := map[string]*line{}
	for _, q := range s.Queues {
		byName[q.Name] = &line{Queue: q, known: true}
	}
	missing := func(name string) {
		if byName[name] == nil {
			byName[name] = &line{Queue: Queue{Name: name}}
		}
	}
	for i := range s.Waiting {
		missing(s.Waiting[i].Queue)
	}
	for i := range s.Running {
		missing(s.Running[i].Queue)
	}
	for _, l := range byName {
		p.lines = append(p.lines, l)
	}
	slices.SortFunc(p.lines, func(a, b *line) int { return cmp.Compare(a.Name, b.Name) })
	for i, l := range p.lines {
		l.index = i
	}
	return byName
}

func (p *plan) newEntry(gang Gang, l *line) *entry {
	e := &entry{Gang: gang, line: l, allowed: gang.Sizing.Allowed(), class: gang.Class}
	e.Requests = withPod(e.Requests)
	if e.class == "" {
		e.class = "gang " + e.ID
	}
	e.sizes = e.allowed
	if len(e.sizes) == 1 {
		return e
	}
	until := e.Since.Add(e.WaitForSize)
	e.holdsOut = until.After(p.now)
	if until.Before(p.settles) { // there will be more
		until = p.settles
	}
	if until.After(p.now) {
		e.fullUntil, e.sizes = until, e.sizes[len(e.sizes)-1:]
	}
	return e
}

// atOnce is how long gangs are made that count as made at once, where age alone does not
// decide. These times do not depend on who waits, so the order does not either.
const atOnce = 5 * time.Second

// sort puts those who wait in the order of the queue. Of those that were made at once the
// largest are first: small ones fill what these leave.
func (l *line) sort() {
	slices.SortFunc(l.all, func(a, b *entry) int {
		if l.Ordering == ByAge {
			return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(b.Sizing.Size, a.Sizing.Size), cmp.Compare(a.ID, b.ID))
		}
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Created.Truncate(atOnce).Compare(b.Created.Truncate(atOnce)),
			cmp.Compare(b.Sizing.Size, a.Sizing.Size), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
}

// heads are the gangs that are first in their queue and do not fit, in the order
// in which they were found.
func (p *plan) heads() []*entry {
	var heads []*entry
	for _, g := range p.guards {
		heads = append(heads, g.head)
	}
	return heads
}
