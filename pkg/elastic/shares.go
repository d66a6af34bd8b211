// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// deserve divides the cluster among the queues that want some of it: by weight,
// no more to one than it wants and may have, no less than it was promised.
func (p *plan) deserve() {
	least, most := make([]float64, len(p.lines)), make([]float64, len(p.lines))
	for i, l := range p.lines {
		least[i] = p.view.share(l.Guarantee)
		most[i] = max(least[i], p.demand(l))
	}
	level := p.level(least, most)
	for i, l := range p.lines {
		l.deserved = min(max(l.weight()*level, least[i]), most[i])
	}
}

// demand is the share of all that a queue has and waits for, as far as its
// capacity goes.
func (p *plan) demand(l *line) float64 {
	want := maps.Clone(p.view.used[l.index])
	for _, e := range l.all {
		if e.verdict == "" {
			for name, amount := range e.Requests {
				want[name] += amount * int64(e.Sizing.Size)
			}
		}
	}
	part := 1.0
	for name, may := range l.Capacity {
		if want[name] > 0 {
			part = min(part, float64(may)/float64(want[name]))
		}
	}
	return min(p.view.share(want)*part, 1)
}

// level is what one of weight gets such that all is given away, or all have what
// they want. The sum is straight between the levels at which one queue reaches a
// bound.
func (p *plan) level(least, most []float64) float64 {
	var bends []float64
	for i, l := range p.lines {
		bends = append(bends, least[i]/l.weight(), most[i]/l.weight())
	}
	slices.Sort(bends)
	sum := func(level float64) float64 {
		total := 0.0
		for i, l := range p.lines {
			total += min(max(l.weight()*level, least[i]), most[i])
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

// nextLine is the queue to serve; nil if none has a gang that can be tried.
func (p *plan) nextLine() *line {
	var best *line
	for _, l := range p.lines {
		if l.head != nil || l.next == len(l.waiting) {
			continue
		}
		if best == nil || p.servedBefore(l, best) < 0 {
			best = l
		}
	}
	return best
}

// servedBefore is the order of queues: priority, then how little they have for
// their weight. A queue whose first gang has waited for too long goes first among
// those of its priority, and of queues that have the same the one that waits longer:
// else another could take the room that was kept for it the moment it is there.
func (p *plan) servedBefore(a, b *line) int {
	if byPriority := cmp.Compare(b.Priority, a.Priority); byPriority != 0 {
		return byPriority
	}
	waitsA, waitsB := p.waits(a), p.waits(b)
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
		cmp.Compare(p.view.share(p.view.used[a.index])/a.weight(), p.view.share(p.view.used[b.index])/b.weight()),
		cmp.Compare(waitsB, waitsA),
		cmp.Compare(a.Name, b.Name),
	)
}

// waits is how long the gang that is to be served next has been blocked.
func (p *plan) waits(l *line) time.Duration {
	if l.next >= len(l.waiting) || l.waiting[l.next].Blocked.IsZero() {
		return 0
	}
	return p.now.Sub(l.waiting[l.next].Blocked)
}

func (p *plan) uses() []Use {
	var uses []Use
	for _, l := range p.lines {
		if l.known {
			used := p.view.used[l.index]
			uses = append(uses, Use{Queue: l.Name, Used: used, Share: p.view.share(used), Deserved: l.deserved})
		}
	}
	return uses
}
