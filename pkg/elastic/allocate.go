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
		if !p.gains(e) {
			p.resize()
		}
		if !p.admit(e, "allocate") {
			p.block(e)
		}
	}
}

// gains reports whether more of the cluster is used if those of its queue that were admitted
// give way to a gang. Where more waits than the cluster holds they always do: of gangs that
// are smaller more run.
func (p *plan) gains(e *entry) bool {
	if !slices.ContainsFunc(p.admitted, func(other *entry) bool { return other.line == e.line && len(other.sizes) > 1 }) || p.crowded() {
		return true
	}
	without := p.view.snapshot()
	without.enlarge(p.admitted)
	if without.most(e, e.least()) == e.least() {
		return true
	}
	with := p.view.snapshot()
	if with.place(e, e.least()) == nil {
		return true // nobody can give way to it
	}
	with.enlarge(p.admitted)
	return with.usage() > without.usage()
}

// crowded reports whether more waits than the cluster holds.
func (p *plan) crowded() bool {
	wanted := Resources{}
	for _, l := range p.lines {
		for _, e := range l.waiting {
			for name, amount := range e.Requests {
				wanted[name] += amount * int64(e.Sizing.Size)
			}
		}
	}
	for name, amount := range wanted {
		if total := p.view.total[name]; total > 0 && amount > total {
			return true
		}
	}
	return false
}

// enlarge gives gangs that are placed what is left, in turn.
func (v *view) enlarge(gangs []*entry) {
	for _, e := range gangs {
		v.unplace(e, len(e.nodes))
		size, most := len(e.nodes), v.most(e, e.Sizing.Size)
		for _, larger := range e.sizes {
			if larger <= most {
				size = max(size, larger)
			}
		}
		v.place(e, size)
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
