// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import "slices"

// allocate serves the queues in turn, each in its order, until their first gangs
// do not fit. Every gang gets its least size, unless none behind it uses what is left
// better: resize gives what is left.
func (p *plan) allocate() {
	p.crowded = p.wanted()
	for l := p.nextLine(); l != nil; l = p.nextLine() {
		e := l.waiting[l.next]
		l.next++
		if alike := p.alike(e); !p.gains(e, alike) {
			e.yields = true
			p.enlarge(alike)
		}
		if !p.admit(e, "allocate") {
			p.block(e)
		}
	}
}

// wanted reports whether more is waited for than the cluster holds.
func (p *plan) wanted() bool {
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

// alike are the gangs that were admitted, of a gang's queue and with pods like its own, that
// can be larger.
func (p *plan) alike(e *entry) []*entry {
	var alike []*entry
	for _, other := range p.admitted {
		if other.line == e.line && other.class == e.class && len(other.nodes) < other.Sizing.Size {
			alike = append(alike, other)
		}
	}
	return alike
}

// gains reports whether more nodes are used if others, which are alike, give way to a gang. If
// not, they had better be large. Where more is waited for than there is they always give way:
// of smaller gangs more run.
func (p *plan) gains(e *entry, others []*entry) bool {
	if p.crowded || len(others) == 0 {
		return true
	}
	missing := e.least()
	for _, other := range others {
		missing += other.Sizing.Size - len(other.nodes)
	}
	free := p.view.most(e, missing)
	return free < e.least() || e.least()+fill(others, free-e.least()) > fill(others, free)
}

// fill is how many of so many free pods gangs can take in turn.
func fill(gangs []*entry, free int) int {
	taken := 0
	for _, e := range gangs {
		for _, size := range slices.Backward(e.sizes) {
			if more := size - len(e.nodes); more <= free-taken {
				taken += max(more, 0)
				break
			}
		}
	}
	return taken
}

// block makes a gang the one for which those behind it have to leave room.
func (p *plan) block(e *entry) {
	e.line.head = e
	e.overCapacity = p.view.capacity(e.line, e.Requests, e.allowed[0]) < e.allowed[0]
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
