// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import (
	"cmp"
	"fmt"
	"slices"
)

// enqueue sorts out what cannot start whatever ends: it holds up nobody.
func (p *plan) enqueue() {
	holds := map[string][2]int{} // by class: a least size that fits, and one that does not
	for _, l := range p.lines {
		for _, e := range l.all {
			p.sortOut(e, holds)
			if e.verdict == "" && !e.BestEffort {
				l.waiting = append(l.waiting, e)
			}
		}
	}
}

func (p *plan) sortOut(e *entry, holds map[string][2]int) {
	l := e.line
	switch {
	case !l.known:
		e.message = fmt.Sprintf("there is no queue %s", l.Name)
	case e.NotAllowed != "":
		e.message = e.NotAllowed
	case l.Suspended:
		e.message = fmt.Sprintf("queue %s is suspended", l.Name)
	default:
		e.message = cmp.Or(p.tooLarge(e), p.tooMuchPromised(e))
	}
	if e.message != "" {
		e.verdict = NotAllowed
	} else if !p.couldHold(e, holds) {
		e.verdict, e.message = NeverFits, p.base.Why(e.ID, e.allowed)
	}
}

// tooLarge says what the whole queue has too little of for a gang; "" if it has
// enough.
func (p *plan) tooLarge(e *entry) string {
	for _, name := range sorted(e.line.Capacity) {
		need := e.Requests[name] * int64(e.allowed[0])
		if may := e.line.Capacity[name]; need > may {
			return fmt.Sprintf("needs %s, queue %s may have %s", p.amount(name, need), e.line.Name, p.amount(name, may))
		}
	}
	return ""
}

// tooMuchPromised says what is always kept free for other queues; "" if it leaves enough.
func (p *plan) tooMuchPromised(e *entry) string {
	for _, name := range sorted(e.Requests) {
		var promised int64
		for _, other := range p.lines {
			if other != e.line {
				promised += other.Guarantee[name]
			}
		}
		need, total := e.Requests[name]*int64(e.allowed[0]), p.view.total[name]
		if promised > 0 && need > max(total-promised, e.line.Guarantee[name]) && need <= total {
			return fmt.Sprintf("needs %s, of %s in all %s are promised to other queues", p.amount(name, need), p.amount(name, total), p.amount(name, promised))
		}
	}
	return ""
}

// couldHold asks the room once for what is alike.
func (p *plan) couldHold(e *entry, holds map[string][2]int) bool {
	least, seen := e.allowed[0], holds[e.class]
	switch {
	case seen[0] >= least:
		return true
	case seen[1] > 0 && least >= seen[1]:
		return false
	}
	could := p.base.CouldHold(e.ID, e.allowed)
	if could {
		seen[0] = least
	} else {
		seen[1] = least
	}
	holds[e.class] = seen
	return could
}

// sorted are the names of resources.
func sorted(r Resources) []string {
	names := make([]string, 0, len(r))
	for name := range r {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
