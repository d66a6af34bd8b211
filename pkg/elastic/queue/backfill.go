// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// mostReservations is the largest number of gangs behind the head that get a reservation in a conservative queue.
const mostReservations = 100

// backfill lets gangs pass the head of their queue if they delay nobody, in the order of the queues
// and of each queue.
func (c *cycle) backfill() {
	if c.settles.After(c.now) {
		return
	}
	queues := slices.Clone(c.queues)
	slices.SortFunc(queues, c.goesBefore)
	for _, q := range queues {
		switch {
		case len(q.heads) == 0 || q.Backfill == NoBackfill:
		case q.Backfill == Conservative:
			c.backfillLine(q)
		default:
			for _, e := range q.candidates() {
				c.admit(e, "backfill")
			}
		}
	}
}

// candidates are the gangs behind the head in the order in which they may pass the head: of the same priority, first those whose
// nodes come for them, and then the one that ends first. (Shortest job backfilled first: Tsafrir, Etsion and Feitelson 2007.)
// The gangs of a FIFO queue keep their order, and where the usage of users decides who is next, it does so here, too.
func (q *jobQueue) candidates() []*entry {
	behind := slices.DeleteFunc(slices.Clone(q.waiting[q.heads[0].place:]), func(e *entry) bool { return e.isHead || len(e.nodes) > 0 })
	if q.Ordering == ByUser || q.Ordering == ByAge || q.Ordering == BySlowdown && q.Users.HalfLife > 0 {
		return behind
	}
	slices.SortStableFunc(behind, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(a.lasts(), b.lasts()))
	})
	return behind
}

// lasts is how long a gang runs by its limit or by what was learned, and nothing if nodes come for the gang. An estimate of
// the user counts for nothing: whoever estimates less would go first.
func (e *entry) lasts() time.Duration {
	switch {
	case e.awaits:
		return 0
	case e.Limit > 0:
		return e.Limit
	case e.Learned:
		return e.runs(e.least())
	}
	return math.MaxInt64
}

// carry gives the gangs of a line the starts that they had in the last cycle, or the next ones after these, the earliest first. So
// what ends earlier than expected serves the gangs in their order, and none loses its start to those that are planned
// before it now. Of gangs that are alike, the first has the earliest start. (Mu'alem and Feitelson 2001: compression.) The head
// goes before all of them, and those of a higher priority before others.
func (q *jobQueue) carry(p *profile, line []*entry) {
	type kind struct {
		class  string
		user   *user
		sizing elastic.Sizing
		limit  time.Duration
	}
	alike := map[kind]time.Time{}
	for _, e := range line {
		k := kind{e.class, e.user, e.Sizing, e.Limit}
		before, there := alike[k]
		if there && (before.IsZero() || e.Reserved.Before(before)) {
			e.Reserved = time.Time{}
		} else {
			alike[k] = e.Reserved
		}
	}
	had := slices.Clone(line)
	slices.SortStableFunc(had, func(a, b *entry) int {
		return cmp.Or(compare(b.isHead, a.isHead), q.byPriority(&a.Gang, &b.Gang), compare(a.Reserved.IsZero(), b.Reserved.IsZero()), a.Reserved.Compare(b.Reserved))
	})
	last := len(had)
	for last > 0 && had[last-1].Reserved.IsZero() { // the line plans these
		last--
	}
	for _, e := range had[:last] {
		p.reserve(e, p.stepAt(e.Reserved))
	}
}

// planned are the gangs of a line that get a reservation: the first of each user, then the second of each, and so on. So no
// user has all reservations. They are in the order of the line.
func (c *cycle) planned(line []*entry) []*entry {
	nth := map[*user]int{}
	rounds := [][]*entry{}
	for _, e := range line {
		if c.waitsForUser(e) != noLimit {
			continue
		}
		n := nth[e.user]
		if nth[e.user]++; n == len(rounds) {
			rounds = append(rounds, nil)
		}
		rounds[n] = append(rounds[n], e)
	}
	all := slices.Concat(rounds...)
	all = all[:min(len(all), 1+mostReservations)]
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.place, b.place) })
	return all
}

// backfillLine gives each gang of a conservative queue a reservation, and starts those whose
// reservation is now.
func (c *cycle) backfillLine(q *jobQueue) {
	line := c.planned(q.waiting[q.heads[len(q.heads)-1].place:])
	if len(line) == 0 {
		return
	}
	q.profile = c.newProfile(line[len(line)-1])
	// The profile has no heads of other queues, which may go before those behind the head.
	sure := !slices.ContainsFunc(c.heads(), func(head *entry) bool { return head.queue != q })
	if q.isSteady() && sure {
		q.carry(q.profile, line)
	}
	for _, e := range line {
		if c.waitsForUser(e) != noLimit { // since others of its user start
			continue
		}
		first := c.plan(e)
		if first == 0 { // it has started
			continue
		}
		// One that may start earlier than reserved may put off those behind it.
		sure = sure && first > 0 && q.profile.isSure(first)
		if e.isSure = sure && (e.isHead || q.isSteady()); e.isSure {
			q.profile.promise(e.reserved)
		}
	}
}

// plan starts a gang of a conservative queue, or gives it a reservation. It returns the step with which the gang starts; 0 if it
// has started, -1 if there is none.
func (c *cycle) plan(e *entry) int {
	p := e.queue.profile
	p.remove(e)
	first := p.reserve(e, 0)
	if first == 0 && (e.isHead || !c.admit(e, "backfill")) { // a reservation of others is in the way
		p.remove(e)
		first = p.reserve(e, 1)
	}
	if first > 0 {
		e.reserved = p.steps[first].at
	}
	return first
}
