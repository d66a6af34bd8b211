// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"slices"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// mostIdle is the part of its own work, in node-seconds, that a gang may keep idle while others wait that need the nodes.
const mostIdle = 0.1

// aMoment is how much later than expected short gangs may end: to start and to end takes some of their time.
const aMoment = 2 * time.Second

// Hold is how a gang holds out for more nodes, because it ends sooner with them.
type Hold struct {
	// For is the smallest size at which the gang starts before Until; 0 if it never held out.
	For int
	// Until is when the gang starts at any of its sizes again.
	Until time.Time
	// Spent is for how long the gang held out in all, as if each time it had done so until the end.
	Spent time.Duration
}

// holdOut lets gangs wait that were placed at less than their size, if they end sooner with more nodes that are
// expected to become free. Meanwhile their nodes are idle. While others wait, a gang waits only shortly, and once. But if
// those want no more than the cluster holds, gangs at a part of their size would end last. So gangs with learned run times
// wait for longer then, and more than once, but in all for no longer than they gain. (Estimates of users are too long.)
func (c *cycle) holdOut() {
	if len(c.admitted) == 0 {
		return
	}
	first, others := c.before()
	fewLeft := !c.wantMore(func(e *entry) bool { return len(e.nodes) == 0 })
	for _, e := range slices.Clone(c.admitted) {
		placed, patient := len(e.nodes), fewLeft && e.Learned
		gain := e.runs(placed) - e.Expected
		left := gain - e.Held.Spent
		if e.StartsAtOnce || e.awaits || left <= 0 || e.Held.Spent > 0 && !patient {
			continue
		}
		longest := gain
		switch {
		case others && patient: // it gains as much as it waits, at least
			longest /= 2
		case others:
			longest = min(longest, time.Duration(mostIdle*float64(e.runs(placed))))
		}
		size, at := c.better(e, c.now.Add(min(longest, left)), first)
		if size == 0 {
			continue
		}
		until := elastic.Earliest(at.Add(max(late(e.Expected)-e.Expected, aMoment)), c.now.Add(left))
		c.state.unplace(e, placed)
		e.nodes, c.forecasts = nil, nil
		e.Held = Hold{For: size, Until: until, Spent: e.Held.Spent + until.Sub(c.now)}
		e.sizes, e.fullUntil, e.beyond = e.holdsOutFor(), until, noLimit
		c.admitted = slices.DeleteFunc(c.admitted, func(other *entry) bool { return other == e })
		e.queue.holding, first = append(e.queue.holding, e), append(first, e)
	}
}

// before are the gangs that get nodes before those that hold out from now on: heads, and gangs that hold out already.
// It also reports whether any gang waits.
func (c *cycle) before() (first []*entry, others bool) {
	for _, q := range c.queues {
		for _, e := range q.waiting {
			if len(e.nodes) > 0 || c.limitOf(e) != noLimit {
				continue
			}
			others = true
			if e.isHead || e.holdsOut {
				first = append(first, e)
			}
		}
	}
	return first, others
}

// holdsOutNow reports whether a gang holds out since an earlier cycle.
func (e *entry) holdsOutNow(now time.Time) bool { return e.Held.Until.After(now) && !e.StartsAtOnce }

// holdsOutFor are the sizes at which a gang starts while it holds out: at least the largest.
func (e *entry) holdsOutFor() elastic.Ladder { return e.sizes.From(e.Held.For) }

// better is the size, and its time, with which a gang ends soonest; 0 if it had better start now. Others get
// their nodes first.
func (c *cycle) better(e *entry, latest time.Time, first []*entry) (better int, when time.Time) {
	soonest := c.now.Add(e.runs(len(e.nodes)))
	after := c.state.snapshot()
	after.unplace(e, len(e.nodes))
	for _, end := range c.expectedEnds() {
		if end.at.After(latest) {
			break
		}
		if end.id == e.ID || end.vague {
			continue
		}
		after = after.after([]expectedEnd{end})
		if after.fits(e, e.Sizing.Size) <= len(e.nodes) {
			continue
		}
		then := after.snapshot()
		for _, other := range first {
			then.place(other, other.least())
		}
		most := then.fits(e, e.Sizing.Size)
		for _, size := range e.sizes.Between(len(e.nodes)+1, most) {
			if ends := end.at.Add(e.runs(size)); ends.Before(soonest) {
				better, when, soonest = size, end.at, ends
			}
		}
	}
	return better, when
}

// longestRun bounds what a gang can be expected to run, so that it stays a Duration: a century.
const longestRun = 100 * 365 * 24 * time.Hour

// runs is how long a gang is expected to run at a size; 0 if this is not known.
func (g *Gang) runs(size int) time.Duration {
	return g.scaled(g.Expected, size)
}

// scaled is how long a gang runs at a size that runs for some time at its full size.
func (g *Gang) scaled(runs time.Duration, size int) time.Duration {
	return time.Duration(min(float64(runs)*g.stretch(size), float64(longestRun)))
}
