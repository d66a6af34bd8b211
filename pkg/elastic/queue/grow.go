// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"slices"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// resize hands out what is left to gangs that were admitted at their smallest size. Each in turn
// gets the largest size at which all others keep theirs.
func (c *cycle) resize() { c.enlarge(c.admitted) }

func (c *cycle) enlarge(gangs []*entry) {
	raised := false
	for _, e := range gangs {
		raised = c.raise(e) || raised
	}
	c.renewBroken()
	if raised {
		c.layOut()
	}
}

func (c *cycle) raise(e *entry) bool {
	if len(e.nodes) >= e.sizes.Most() {
		return false
	}
	trial := c.state.snapshot()
	trial.unplace(e, len(e.nodes))
	most := trial.fits(e, e.Sizing.Size)
	larger := e.sizes.Between(len(e.nodes)+1, most)
	low, high := 0, len(larger) // the first low of them are known to fit
	for low < high {
		middle := (low + high + 1) / 2
		if c.start(e, larger[middle-1]) {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low > 0
}

// layOut places all admitted gangs again at their sizes, so that the first has the best choice.
// It changes nothing if a gang waits for certain nodes.
func (c *cycle) layOut() {
	if slices.ContainsFunc(c.reservations, func(r *reservation) bool { return r.fits }) {
		return
	}
	room := c.base.Snapshot()
	nodes := make([][]string, len(c.admitted))
	for i, e := range c.admitted {
		if nodes[i] = room.Place(e.ID, []int{len(e.nodes)}); nodes[i] == nil {
			return
		}
	}
	for i, e := range c.admitted {
		e.nodes = nodes[i]
	}
	c.state.room, c.forecasts = room, nil
	clear(c.atMost) // the new places may leave room for others
}

// bestEffort admits gangs that request nothing but their pods' place, after all others.
func (c *cycle) bestEffort() {
	for _, q := range c.queues {
		for _, e := range q.all {
			if e.verdict == "" && e.BestEffort && c.admit(e, "allocate") {
				c.raise(e)
			}
		}
	}
	c.renewBroken()
}

// growing gives running gangs nodes.
type growing struct {
	*cycle
	growths []Growth
	at      time.Time // when it will be worth a restart to grow a gang; zero if that is not known
}

// grow gives running gangs nodes that no waiting gang could use.
func (g *growing) grow() {
	runs := slices.DeleteFunc(slices.Clone(g.runs), func(r *run) bool { return !r.mayGrow() })
	if len(runs) == 0 || !g.keep() {
		return
	}
	slices.SortFunc(runs, func(a, b *run) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	for _, r := range runs {
		g.growOne(r)
	}
}

// keep keeps growth off all nodes that waiting gangs could use, also once these nodes are empty. So
// growth delays no gang that waits for nodes. It reports false if guarantees of other queues may need nodes
// of a waiting gang: what the gang has to leave to them also depends on what is free on other nodes.
func (g *growing) keep() bool {
	for _, q := range g.queues {
		kept := map[string]bool{} // by class
		for _, e := range q.all {
			if kept[e.class] || e.verdict != "" || len(e.nodes) > 0 || e.overCapacity && !e.Taken.waits() || g.limitOf(e) != noLimit {
				continue
			}
			if slices.ContainsFunc(g.queues, func(other *jobQueue) bool {
				return other != q && other.guarantees(e.Requests) && other.meets(g.state.room, e.ID)
			}) {
				return false
			}
			kept[e.class] = true
			g.state.room.Keep(e.ID)
		}
	}
	return true
}

// guarantees reports whether a queue has a guarantee of a resource that a pod requests.
func (q *jobQueue) guarantees(requests Resources) bool {
	for name, amount := range q.Guarantee {
		if amount > 0 && requests[name] > 0 {
			return true
		}
	}
	return false
}

// mayGrow reports whether a gang can take more ranks without using up the capacity for which a gang
// of its queue waits.
func (r *run) mayGrow() bool {
	leaves := r.Ending || r.evicted || len(r.Draining) > 0 || len(r.drains) > 0
	return r.Malleable && r.Max > len(r.Ranks) && !leaves && !r.queue.Suspended &&
		!slices.ContainsFunc(r.queue.heads, r.usesUp) && !slices.ContainsFunc(r.queue.holding, r.usesUp)
}

// usesUp reports whether more ranks may use up what a waiting gang of the queue may have.
func (r *run) usesUp(e *entry) bool {
	return len(r.queue.Capacity) > 0 || r.queue.Users.MaxNodes > 0 && e.user == r.user
}

// worthRestart reports whether a gang ends sooner with more ranks, although its command stands still while it is run
// again with them. One of which nothing is known runs for as long again as it has run (Harchol-Balter and Downey 1997).
// Once the user has set a size, it is had as soon as all of its nodes are free.
func (g *growing) worthRestart(r *run, more int) bool {
	has := len(r.Ranks)
	if r.RestartCost == 0 || r.Sought && has+more >= r.Sizing.Size {
		return true
	}
	age := g.now.Sub(r.Began)
	left := corrected(age, r.runs(has)) - age
	if !r.End.IsZero() {
		left = min(left, r.End.Sub(g.now))
	}
	costs := time.Duration(times(int64(r.RestartCost), has+more)) / time.Duration(more)
	if at := r.Began.Add(max(late(r.runs(has)), costs) + 1); at.After(g.now) { // it runs for as long again
		g.at = elastic.Earliest(g.at, at)
	}
	return left > costs
}

// growOne gives a gang all free nodes, up to a size that it may have.
func (g *growing) growOne(r *run) {
	has := len(r.Ranks)
	want := g.state.allowed(&r.Gang, r.user, 0, max(r.Max-has, 0))
	if want == 0 {
		return
	}
	got := len(g.state.room.Snapshot().Grow(r.ID, want))
	if has+got < r.Sizing.Size {
		got = r.Sizing.LargestWithin(has+got) - has
	}
	if got <= 0 || !g.worthRestart(r, got) {
		return
	}
	if grown := g.state.room.Grow(r.ID, got); len(grown) > 0 {
		g.state.add(r.user, r.needs, 0, len(grown))
		r.grows = len(grown)
		g.growths = append(g.growths, Growth{Gang: r.ID, Pods: grown})
	}
}
