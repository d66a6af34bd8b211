// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import (
	"fmt"
)

// cycle writes down what was decided.
func (p *plan) cycle() Cycle {
	c := Cycle{Growths: p.growths, Uses: p.uses()}
	for _, l := range p.lines {
		before := 0 // those that hold up others
		for i, e := range l.all {
			d := p.decision(e, before)
			d.Position = i + 1
			if e.verdict == "" && len(e.nodes) == 0 {
				before++
			}
			c.Decisions = append(c.Decisions, d)
		}
	}
	for _, r := range p.runs {
		switch {
		case r.evicted:
			c.Evictions = append(c.Evictions, Eviction{Gang: r.ID, For: r.taker.Name, Action: r.action, Message: r.message()})
		case len(r.drains) > 0:
			c.Drains = append(c.Drains, Drain{Gang: r.ID, Ranks: r.drains, For: r.taker.Name, Action: r.action})
		}
	}
	return c
}

func (r *run) message() string {
	if r.action == "preempt" {
		return fmt.Sprintf("gave its nodes to %s of priority %d", r.taker.Name, r.taker.Priority)
	}
	return fmt.Sprintf("gave its nodes to %s of queue %s, which had less than its share", r.taker.Name, r.taker.line.Name)
}

// decision is the verdict on a gang that so many are before.
func (p *plan) decision(e *entry, before int) Decision {
	d := Decision{Gang: e.ID, Verdict: e.verdict, Message: e.message}
	switch {
	case e.verdict != "":
		return d
	case len(e.nodes) > 0:
		d.Verdict, d.Action, d.Nodes = Admitted, e.action, e.nodes
		return d
	case e.line.head == e:
		p.decideHead(e, &d)
	case e.BestEffort:
		d.Verdict, d.Message = NoRoom, p.why(e)
	default:
		d.Verdict, d.Message = WaitingForTurn, e.turn(before)
	}
	d.LookAgain = Earliest(d.LookAgain, e.fullUntil)
	return d
}

func (e *entry) turn(before int) string {
	if before == 1 {
		return fmt.Sprintf("waits for its turn: 1 is before it in queue %s", e.line.Name)
	}
	return fmt.Sprintf("waits for its turn: %d are before it in queue %s", before, e.line.Name)
}

// decideHead is the verdict on the first of its queue that does not fit.
func (p *plan) decideHead(e *entry, d *Decision) {
	d.Verdict, d.Blocked, d.Message = NoRoom, e.Blocked, p.why(e)
	switch {
	case e.overCapacity:
		d.Verdict = NotAllowed
	case e.holdsOut:
		d.Verdict, d.Message = WaitingForSize, "holds out for its full size: "+d.Message
	}
	if p.settles.After(p.now) && e.line.next < len(e.line.waiting) {
		d.LookAgain = p.settles
	}
	for _, g := range p.guards {
		if g.head != e || !g.fits {
			continue
		}
		patient := e.Blocked.Add(e.line.Patience)
		if !g.shadow.IsZero() {
			d.Message += "; it is expected to start by " + g.shadow.UTC().Format("15:04:05 UTC")
			d.LookAgain = Earliest(d.LookAgain, g.shadow)
		} else if patient.After(p.now) {
			d.LookAgain = Earliest(d.LookAgain, patient)
		}
	}
}

// why says what is in the way of a gang: its queue, promises to others, nodes, or
// a gang that goes before it.
func (p *plan) why(e *entry) string {
	l, least := e.line, e.least()
	used := p.view.used[l.index]
	for _, name := range sorted(l.Capacity) {
		if need := e.Requests[name] * int64(least); need > 0 && used[name]+need > l.Capacity[name] {
			return fmt.Sprintf("queue %s has %s of %s in use, needs %s more", l.Name, p.amount(name, used[name]), p.amount(name, l.Capacity[name]), p.amount(name, need))
		}
	}
	for _, name := range p.view.guarantees(l) {
		free, kept := p.view.total[name]-p.view.sum[name], p.view.kept(l, name)
		if need := e.Requests[name] * int64(least); need > 0 && need > free-kept {
			return fmt.Sprintf("needs %s: %s free, of which %s are promised to other queues", p.amount(name, need), p.amount(name, free), p.amount(name, kept))
		}
	}
	if why := p.view.room.Why(e.ID, e.sizes); why != "" {
		return why
	}
	for _, g := range p.guards {
		if g.head != e && g.binds(e) {
			return fmt.Sprintf("leaves room for %s of queue %s, which waits longer", g.head.Name, g.head.line.Name)
		}
	}
	return "waits for others that go before it"
}
