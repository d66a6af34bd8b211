// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import "slices"

// mostReservations is the largest number of gangs behind the head that get a reservation.
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
		if q.head == nil || q.Backfill == NoBackfill {
			continue
		}
		for _, e := range q.waiting[q.next:] {
			c.admit(e, "backfill")
		}
	}
}

// protect makes reservations for the gangs of a conservative queue that are ahead of a gang which
// may pass them. It reports false if there are too many.
func (c *cycle) protect(e *entry) bool {
	q := e.queue
	if q.Backfill != Conservative || q.head == nil || q.head == e {
		return true
	}
	if q.behind == nil {
		for _, before := range q.waiting[q.next:min(q.next+mostReservations, len(q.waiting))] {
			if before != e && len(before.nodes) == 0 && c.waitsForUser(before) == noLimit {
				q.behind = append(q.behind, c.reserve(before))
			}
		}
	}
	before := 0
	for _, other := range q.waiting[q.next:] {
		if other.index < e.index && len(other.nodes) == 0 {
			before++
		}
	}
	return before <= mostReservations
}
