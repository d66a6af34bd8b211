// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import "slices"

// allocate serves the queues in turn, each in its order, until their first gangs
// do not fit. Every gang gets its least size: resize gives what is left.
func (p *plan) allocate() {
	for l := p.nextLine(); l != nil; l = p.nextLine() {
		e := l.waiting[l.next]
		l.next++
		if !p.admit(e, "allocate") {
			p.block(e)
		}
	}
}

// block makes a gang the one for which those behind it have to leave room.
func (p *plan) block(e *entry) {
	e.line.head = e
	e.overCapacity = p.view.capacity(e.line, e.Requests, e.least()) < e.least()
	if e.Blocked.IsZero() {
		e.Blocked = p.now
	}
	p.guards = append(p.guards, p.newGuard(e))
}

// admit starts a gang at its least size if it fits and delays nobody that goes
// before it.
func (p *plan) admit(e *entry, action string) bool {
	size := e.least()
	if most, known := p.atMost[e.class]; known && most < size {
		return false
	}
	if p.view.quota(e.line, e.Requests, size) < size {
		return false
	}
	if fits := p.view.room.Fits(e.ID, size); fits < size {
		p.atMost[e.class] = fits
		return false
	}
	if !p.protect(e) || !p.start(e, size) {
		return false
	}
	e.action = action
	return true
}

// start places a gang at a size, again if it has nodes, unless it harms a gang
// that is guarded.
func (p *plan) start(e *entry, size int) bool {
	guards := p.guarding(e)
	if slices.ContainsFunc(guards, func(g *guard) bool { return g.binds(e) && g.refuses(e, size, p.now) }) {
		return false
	}
	trial := p.view.snapshot()
	if len(e.nodes) > 0 {
		trial.unplace(e, len(e.nodes))
	}
	nodes := trial.place(e, size)
	if nodes == nil {
		return false
	}
	afters := make([]*view, len(guards))
	var harmed []*guard
	for i, g := range guards {
		var ok bool
		if afters[i], ok = g.bears(e, size, trial, p.now); !ok {
			if g.binds(e) {
				return false
			}
			harmed = append(harmed, g)
		}
	}
	p.accept(e, nodes, trial)
	for i, g := range guards {
		g.accept(e, afters[i])
	}
	p.renew(harmed)
	return true
}

func (p *plan) accept(e *entry, nodes []string, trial *view) {
	if len(e.nodes) == 0 {
		p.admitted = append(p.admitted, e)
	}
	p.view, e.nodes, p.ends = trial, nodes, nil
}

// renew finds out again what gangs that are guarded wait for.
func (p *plan) renew(guards []*guard) {
	for _, g := range guards {
		*g = *p.newGuard(g.head)
	}
}
