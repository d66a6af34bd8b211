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

// carry gives the gangs of a line the starts that they had in the last cycle, the earliest first, as far as heads leave room. So
// what ends earlier than expected serves the gangs in their order, and none loses its start to those that are planned
// before it now. Of gangs that are alike, the first has the earliest start. (Mu'alem and Feitelson 2001: compression.)
func (c *cycle) carry(p *profile, line []*entry) {
	type kind struct {
		class  string
		user   *user
		sizing elastic.Sizing
		limit  time.Duration
	}
	var had []*entry
	last := map[kind]time.Time{}
	for _, e := range line {
		if e.isHead { // its reservation comes first
			p.reserve(e, 0)
			continue
		}
		k := kind{e.class, e.user, e.Sizing, e.Limit}
		before, there := last[k]
		if last[k] = e.Reserved; there && (before.IsZero() || e.Reserved.Before(before)) {
			last[k] = before
			continue
		}
		if !e.Reserved.IsZero() && c.waitsForUser(e) == noLimit {
			had = append(had, e)
		}
	}
	slices.SortStableFunc(had, func(a, b *entry) int { return a.Reserved.Compare(b.Reserved) })
	for _, e := range had {
		p.reserveBy(e, e.Reserved)
	}
	for _, e := range line {
		e.Reserved = time.Time{}
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
	line := q.waiting[q.heads[len(q.heads)-1].place:]
	q.profile = c.newProfile(line[len(line)-1])
	c.carry(q.profile, line)
	// The profile has no heads of other queues, which may go before those behind the head.
	sure := !slices.ContainsFunc(c.heads(), func(head *entry) bool { return head.queue != q })
	for _, e := range c.planned(line) {
		if c.waitsForUser(e) != noLimit { // since others of its user start
			continue
		}
		q.profile.remove(e)
		first := q.profile.reserve(e, 0)
		if first == 0 && (e.isHead || !c.admit(e, "backfill")) { // a reservation of others is in the way
			q.profile.remove(e)
			first = q.profile.reserve(e, 1)
		}
		if first == 0 { // it has started
			continue
		}
		if first > 0 {
			e.Reserved = q.profile.steps[first].at
		}
		// One that may start earlier than reserved may put off those behind it.
		sure = sure && first > 0 && !slices.ContainsFunc(q.profile.steps[:first+1], func(s profileStep) bool { return !s.sure })
		if sure {
			e.reserved = q.profile.steps[first].at
			q.profile.promise(e.reserved)
		}
	}
}
