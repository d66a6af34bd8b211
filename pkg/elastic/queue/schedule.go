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

// Schedule decides one cycle: which gangs start, on which nodes and at which size, which give
// nodes back, and which get more. It changes neither the snapshot nor the room.
//
// Preempt and reclaim go before backfill. Otherwise a gang could be evicted for nodes that a
// backfilled gang takes in the same cycle. Nodes are asked for last, for gangs that nothing else gives any.
func Schedule(s Snapshot, room Room, now time.Time) Result {
	c := newCycle(s, room, now)
	c.enqueue()
	c.deserve()
	c.allocate()
	p := preemptor{cycle: c, pools: map[string]*pool{}}
	p.preempt()
	p.reclaim()
	p.clear()
	if p.took {
		c.renew(c.reservations)
	}
	c.resize()
	c.backfill()
	c.resize()
	c.holdOut()
	c.bestEffort()
	g := growing{cycle: c}
	g.grow()
	c.askForNodes()
	c.putOff(s.Unmade, s.MostUnmade)
	out := (&verdicts{c, s.Coming}).result()
	out.Growths, out.LookAgain = g.growths, g.at
	return out
}

// cycle is one call of Schedule.
type cycle struct {
	now, settles time.Time
	// base is the room before the cycle.
	base Room
	// oversubscribed is true if the waiting gangs want more than the cluster holds.
	oversubscribed bool
	// state is the cluster after the decisions so far.
	state  *clusterState
	queues []*jobQueue // by name, and last the one for those that do not exist
	runs   []*run      // by ID
	// admitted are the gangs that start, in the order of the decisions.
	admitted []*entry
	// reservations are those of the heads, in the order in which the heads were found.
	reservations []*reservation
	// broken are those of the reservations that are to be made again.
	broken []*reservation
	// atMost bounds the number of pods that fit, by class: room only shrinks.
	atMost map[string]int
	// forecasts are the state ahead: by all ends, and by those that are sure; nil until needed, and once the state or an
	// end has changed.
	forecasts []*forecast
	// plain is the profile without reservations; nil until needed.
	plain    *profile
	cameLast time.Time // when the last node was made
	amount   func(name string, amount int64) string
}

// jobQueue is a queue with its waiting gangs.
type jobQueue struct {
	Queue
	index    int
	known    bool // the snapshot has the queue
	users    map[string]*user
	deserved float64
	// kinds are gangs that tell on which nodes gangs of a queue with a guarantee could run, by ID: at first AnyGang.
	kinds   []string
	classes map[string]bool
	all     []*entry // in the order of the queue
	waiting []*entry // those that can be admitted and request something
	next    int      // index into waiting
	heads   []*entry // those that do not fit now and are not passed over
	served  bool     // there is nothing more to allocate
	// reserved are the IDs of the heads that have a reservation, and beside is what was found out of gangs that could start on
	// nodes that these cannot use.
	reserved []string
	beside   map[string][2]int
	holding  []*entry // those that hold out since this cycle
	// profile has the reservations of a conservative queue; nil before backfill.
	profile *profile
}

// entry is a waiting gang.
type entry struct {
	Gang
	needs    []need
	queue    *jobQueue
	user     *user
	allowed  elastic.Ladder // all sizes
	sizes    elastic.Ladder // the sizes that are allowed now
	holdsOut bool
	// fullUntil is until when the gang starts at its full size, or a size for which it holds out, or not at
	// all; zero if at any size.
	fullUntil time.Time
	// reserved is when the gang starts by the profile; zero if this is not known. If isSure is true, it starts then at the
	// latest.
	reserved time.Time
	isSure   bool
	// impatient is true if the gang has been put off for longer than its queue's patience.
	impatient bool
	// takesAt is when a gang may be evicted for it that is protected now; zero if there is none.
	takesAt time.Time
	class   string
	// turn is the usage of its user when it is served, as a part of the cluster. beyond is a limit that
	// its user would exceed with the gangs before it.
	turn   float64
	score  *score // nil unless the queue goes by scores
	beyond userLimit
	// overCapacity is true if the queue has no capacity left for the gang.
	overCapacity bool
	// deferred is true if the gang could start if others were smaller, without more nodes in use.
	deferred bool
	// place is the index in the waiting gangs of the queue.
	place int
	// isHead is true if the gang is one of the heads of its queue.
	isHead bool
	// awaits is true if the gang waits for nodes that an autoscaler was asked for, apart if each of its pods waits
	// for a node of its own. ask is what is to be asked; nil if nothing.
	awaits, apart bool
	ask           *Ask
	// provided is true if room for the gang was taken from others, or becomes free by itself.
	provided bool
	verdict  elastic.Verdict // set by enqueue
	message  string
	action   string
	nodes    []string
	// isPutOff is true if the gang has room, but does not start in this cycle.
	isPutOff bool
}

// run is a running gang, and what is taken from it.
type run struct {
	Running
	needs    []need
	queue    *jobQueue
	user     *user
	grows    int // by how many pods
	draining []int
	drains   []int
	evicted  bool
	action   string
	// taker is the gang that gets what is taken; nil if the nodes are about to go away.
	taker *entry
}

func (e *entry) least() int { return e.sizes.Least() }

// wants is how many pods a gang wants: none if its user may not have it beside the gangs before it.
func (e *entry) wants() int {
	if e.beyond != noLimit {
		return 0
	}
	return e.allowed.Most()
}

func (q *jobQueue) weight() float64 { return float64(max(q.Weight, 1)) }

func newCycle(s Snapshot, room Room, now time.Time) *cycle {
	c := &cycle{now: now, settles: s.Settles, base: room.Snapshot(), atMost: map[string]int{}, cameLast: s.CameLast, amount: s.Amount}
	if c.amount == nil {
		c.amount = func(name string, amount int64) string { return fmt.Sprintf("%d %s", amount, name) }
	}
	byName := c.makeQueues(s)
	c.state = newClusterState(room.Snapshot(), c.queues, s.Shared(), namesOf(&s))
	for _, running := range s.Running {
		r := &run{Running: running, queue: byName[running.Queue]}
		r.Requests = withPod(r.Requests)
		r.needs = c.state.names.needs(r.Requests)
		for _, rank := range running.Draining {
			if slices.Contains(running.Ranks, rank) {
				r.draining = append(r.draining, rank)
			}
		}
		r.user = c.userOf(&r.Gang, r.queue)
		c.state.run(r)
		if !r.Ending {
			r.queue.addKind(c.base, r.ID, r.Class)
		}
		c.runs = append(c.runs, r)
	}
	slices.SortFunc(c.runs, func(a, b *run) int { return cmp.Compare(a.ID, b.ID) })
	entries := make([]entry, len(s.Waiting))
	for i := range entries {
		e := &entries[i]
		e.Gang, e.queue = s.Waiting[i], byName[s.Waiting[i].Queue]
		c.prepare(e)
		if e.Refused.Verdict == "" {
			e.queue.addKind(c.base, e.ID, e.class)
		}
		e.queue.all = append(e.queue.all, e)
	}
	for _, q := range c.queues {
		q.sort()
	}
	return c
}

// makeQueues makes the queues, by name. Those that gangs name but that do not exist are one queue without a name, however many
// gangs name them.
func (c *cycle) makeQueues(s Snapshot) map[string]*jobQueue {
	byName, missing := map[string]*jobQueue{}, newQueue(Queue{}, false)
	for _, q := range s.Queues {
		byName[q.Name] = newQueue(q, true)
		c.queues = append(c.queues, byName[q.Name])
	}
	find := func(name string) {
		if byName[name] == nil {
			byName[name] = missing
		}
	}
	for i := range s.Waiting {
		find(s.Waiting[i].Queue)
	}
	for i := range s.Running {
		find(s.Running[i].Queue)
	}
	slices.SortFunc(c.queues, func(a, b *jobQueue) int { return cmp.Compare(a.Name, b.Name) })
	if len(byName) > len(s.Queues) {
		c.queues = append(c.queues, missing)
	}
	for i, q := range c.queues {
		q.index = i
	}
	return byName
}

func newQueue(q Queue, known bool) *jobQueue {
	return &jobQueue{Queue: q, known: known, kinds: []string{AnyGang}, classes: map[string]bool{}}
}

// prepare completes an entry, which has its gang and its queue.
func (c *cycle) prepare(e *entry) {
	if most := e.queue.Users.MaxNodes; most > 0 && (e.Sizing.Most == 0 || e.Sizing.Most > most) {
		e.Sizing.Most = most
	}
	e.allowed = e.Sizing.Allowed()
	e.user, e.class = c.userOf(&e.Gang, e.queue), e.Class
	e.Requests = withPod(e.Requests)
	e.needs = c.state.names.needs(e.Requests)
	if e.class == "" {
		e.class = "gang " + e.ID
	}
	e.sizes = e.allowed
	if e.awaitNodes(c.now); e.awaits || e.least() == e.sizes.Most() {
		return
	}
	until := e.Since.Add(e.WaitForSize)
	e.holdsOut = until.After(c.now)
	if until.Before(c.settles) { // further nodes may become free
		until = c.settles
	}
	if until.After(c.now) {
		e.fullUntil, e.sizes = until, e.sizes.From(e.sizes.Most())
	} else if e.holdsOutNow(c.now) {
		e.holdsOut, e.fullUntil = true, e.Held.Until
		e.sizes = e.holdsOutFor()
	}
}

// atOnce is the length of the time windows in which gangs count as made at the same time. The
// windows do not depend on the gangs, so the order is the same for all comparisons.
const atOnce = 5 * time.Second

// sort orders the waiting gangs.
func (q *jobQueue) sort() {
	slices.SortFunc(q.all, func(a, b *entry) int { return q.compare(&a.Gang, &b.Gang) })
}

// compare orders two gangs of the queue, without usage and scores. Of gangs made at the same time the largest goes first,
// because small gangs fill the gaps that large ones leave.
func (q *jobQueue) compare(a, b *Gang) int {
	window := atOnce
	if q.Ordering == ByAge {
		window = 0
	}
	return cmp.Or(q.byPriority(a, b), a.Created.Truncate(window).Compare(b.Created.Truncate(window)),
		cmp.Compare(b.Sizing.Size, a.Sizing.Size), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
}

// byPriority orders two gangs of the queue by priority, if the queue does.
func (q *jobQueue) byPriority(a, b *Gang) int {
	if q.Ordering == ByAge {
		return 0
	}
	return cmp.Compare(b.Priority, a.Priority)
}

// isSteady reports whether the order of the gangs of the queue stays: neither time nor usage changes it.
func (q *jobQueue) isSteady() bool { return q.Ordering != ByUser && q.Ordering != BySlowdown }

// heads are the heads of all queues that start once enough gangs have ended, in the order in which they were found.
func (c *cycle) heads() []*entry {
	c.renewBroken()
	var heads []*entry
	for _, r := range c.reservations {
		if r.fits && r.head.isHead {
			heads = append(heads, r.head)
		}
	}
	return heads
}
