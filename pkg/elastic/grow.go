// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import (
	"cmp"
	"slices"
	"sort"
)

// resize gives gangs that were admitted at their least size what is left: each in
// turn the largest size at which all others keep what they have.
func (p *plan) resize() { p.enlarge(p.admitted) }

func (p *plan) enlarge(gangs []*entry) {
	raised := false
	for _, e := range gangs {
		raised = p.raise(e) || raised
	}
	if raised {
		p.layOut()
	}
}

func (p *plan) raise(e *entry) bool {
	larger := e.sizes[slices.Index(e.sizes, len(e.nodes))+1:]
	if len(larger) == 0 {
		return false
	}
	trial := p.view.snapshot()
	trial.unplace(e, len(e.nodes))
	most := trial.most(e, e.Sizing.Size)
	n := sort.Search(len(larger), func(i int) bool { return larger[i] > most })
	low, high := 0, n // low of them are known to be possible
	for low < high {
		middle := (low + high + 1) / 2
		if p.start(e, larger[middle-1]) {
			low = middle
		} else {
			high = middle - 1
		}
	}
	return low > 0
}

// layOut places all that was admitted again, at their sizes, so that the first has
// the best choice. It is left if somebody waits for certain nodes.
func (p *plan) layOut() {
	if slices.ContainsFunc(p.guards, func(g *guard) bool { return g.fits }) {
		return
	}
	room := p.base.Snapshot()
	nodes := make([][]string, len(p.admitted))
	for i, e := range p.admitted {
		if nodes[i] = room.Place(e.ID, []int{len(e.nodes)}); nodes[i] == nil {
			return
		}
	}
	for i, e := range p.admitted {
		e.nodes = nodes[i]
	}
	p.view.room = room
	clear(p.atMost) // there may be room where there was none
}

// bestEffort admits gangs that ask for nothing but to be there, after all others.
func (p *plan) bestEffort() {
	for _, l := range p.lines {
		for _, e := range l.all {
			if e.verdict == "" && e.BestEffort && p.admit(e, "allocate") {
				p.raise(e)
			}
		}
	}
}

// grow gives what nobody waits for to gangs that run and can take it.
func (p *plan) grow() {
	for _, l := range p.lines {
		for _, e := range l.all {
			if e.verdict == "" && len(e.nodes) == 0 && !e.overCapacity {
				return
			}
		}
	}
	runs := slices.Clone(p.runs)
	slices.SortFunc(runs, func(a, b *run) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
	for _, r := range runs {
		if r.mayGrow() {
			p.growOne(r)
		}
	}
}

// mayGrow: it can take more, and nobody of its queue waits for capacity.
func (r *run) mayGrow() bool {
	leaves := r.Ending || r.evicted || len(r.Draining) > 0 || len(r.drains) > 0
	return r.Malleable && !leaves && r.line.head == nil && !r.line.Suspended
}

// growOne gives a gang as much as there is, up to a size that it may have.
func (p *plan) growOne(r *run) {
	has := len(r.Ranks)
	want := p.view.quota(r.line, r.Requests, max(r.Max-has, 0))
	if want == 0 {
		return
	}
	got := len(p.view.room.Snapshot().Grow(r.ID, want))
	if has+got < r.Sizing.Size {
		got = r.Sizing.LargestWithin(has+got) - has
	}
	if got <= 0 {
		return
	}
	if grown := p.view.room.Grow(r.ID, got); len(grown) > 0 {
		p.view.add(r.line, r.Requests, len(grown))
		p.growths = append(p.growths, Growth{Gang: r.ID, Pods: grown})
	}
}
