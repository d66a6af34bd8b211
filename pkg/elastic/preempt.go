// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import (
	"cmp"
	"slices"
	"sort"
)

// preempt takes nodes for gangs that are blocked from gangs of lower priority in
// the same queue. Nothing is taken for one that fits once all that was asked to go
// has gone, or that holds out for its size.
func (p *plan) preempt() {
	for _, head := range p.heads() {
		if p.comes(head) {
			continue
		}
		p.takeFor(head, "preempt", func(r *run) bool {
			return r.line == head.line && r.Priority < head.Priority
		}, func(*view, *run, int) bool { return true })
	}
}

// comes reports whether a gang needs nothing to be taken, and reserves its room
// then.
func (p *plan) comes(head *entry) bool {
	if head.holdsOut {
		return true
	}
	if p.coming == nil {
		steps := p.steps()
		n := slices.IndexFunc(steps, func(s step) bool { return s.turn > 0 })
		if n < 0 {
			n = len(steps)
		}
		p.coming = p.view.take(steps[:n])
	}
	if head.served {
		return true
	}
	least := head.least()
	head.served = p.coming.most(head, least) >= least && p.coming.place(head, least) != nil
	return head.served
}

// taking is what has to go to make room for a gang.
type taking struct {
	base    *view
	taker   *entry
	victims []*victim
	// spares reports whether so many pods of a gang may be taken.
	spares func(*view, *run, int) bool
}

// victim is a gang of which ranks, or all, are taken.
type victim struct {
	*run
	surplus, take int
	whole         bool
}

// takeFor takes the least it can from the gangs that may be taken from.
func (p *plan) takeFor(head *entry, action string, may func(*run) bool, spares func(*view, *run, int) bool) {
	t := &taking{base: p.coming, taker: head, spares: spares}
	for _, r := range p.runs {
		if !r.Ending && !r.evicted && may(r) {
			t.victims = append(t.victims, &victim{run: r})
		}
	}
	if !t.find() {
		return
	}
	t.prune()
	for _, v := range t.victims {
		switch {
		case v.whole:
			v.evicted, v.drains = true, nil
		case v.take > 0:
			v.drains = append(v.drains, t.base.room.Victims(v.ID, v.take)...)
			slices.Sort(v.drains)
		default:
			continue
		}
		v.taker, v.action = head, action
	}
	p.coming = t.apply()
	p.coming.place(head, head.least())
	head.served = true
	p.ends = nil
	p.renew(p.guards)
}

func (t *taking) enough(v *view) bool {
	return v.most(t.taker, t.taker.least()) >= t.taker.least()
}

// apply is the room once all that is taken has gone.
func (t *taking) apply() *view {
	after := t.base.snapshot()
	for _, v := range t.victims {
		if v.whole {
			after.end(v.run, v.kept())
		} else if v.take > 0 {
			after.shrink(v.run, after.room.Victims(v.ID, v.take))
		}
	}
	return after
}

// kept is how many ranks a gang has that nobody asked to leave before.
func (r *run) kept() int { return r.held() - len(r.drains) }

// find makes room: by surplus alone, by one gang more, or by several.
func (t *taking) find() bool {
	shrunk := t.base.snapshot()
	if t.shrinkAll(shrunk) {
		return true
	}
	if !t.enough(t.without()) {
		return false
	}
	if t.evictOne(shrunk) || t.evictSeveral(shrunk) {
		return true
	}
	// What shrank may be what keeps a queue from giving up a gang.
	for _, v := range t.victims {
		v.take = 0
	}
	return t.evictOne(t.base) || t.evictSeveral(t.base)
}

// without is the room once all that may be taken from are gone.
func (t *taking) without() *view {
	after := t.base.snapshot()
	for _, v := range t.victims {
		after.end(v.run, v.kept())
	}
	return after
}

func youngest(a, b *victim) int {
	return cmp.Or(b.Admitted.Compare(a.Admitted), cmp.Compare(a.ID, b.ID))
}

func lowest(a, b *victim) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), youngest(a, b))
}

// shrinkAll takes the surplus of one gang after the other until there is room.
func (t *taking) shrinkAll(trial *view) bool {
	slices.SortFunc(t.victims, lowest)
	for _, v := range t.victims {
		if !v.Malleable {
			continue
		}
		v.surplus = max(v.kept()-v.Sizing.Min, 0)
		for v.surplus > 0 && !t.spares(trial, v.run, v.surplus) {
			v.surplus--
		}
		if v.surplus == 0 {
			continue
		}
		v.take = v.surplus
		trial.shrink(v.run, trial.room.Victims(v.ID, v.take))
		if t.enough(trial) {
			return true
		}
	}
	return false
}

// evictOne takes a single gang, if one is enough.
func (t *taking) evictOne(trial *view) bool {
	slices.SortFunc(t.victims, lowest)
	for _, v := range t.victims {
		left := v.kept() - v.take
		if !t.spares(trial, v.run, left) {
			continue
		}
		one := trial.snapshot()
		one.end(v.run, left)
		if t.enough(one) {
			v.whole = true
			return true
		}
	}
	return false
}

// evictSeveral takes whole gangs, the largest of a priority first, until there is room.
func (t *taking) evictSeveral(trial *view) bool {
	trial = trial.snapshot()
	slices.SortFunc(t.victims, func(a, b *victim) int {
		return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(b.kept()-b.take, a.kept()-a.take), youngest(a, b))
	})
	for _, v := range t.victims {
		left := v.kept() - v.take
		if !t.spares(trial, v.run, left) {
			continue
		}
		v.whole = true
		trial.end(v.run, left)
		if t.enough(trial) {
			return true
		}
	}
	for _, v := range t.victims {
		v.whole = false
	}
	return false
}

// prune gives back what is not needed: to the highest priority and the oldest
// first.
func (t *taking) prune() {
	slices.SortFunc(t.victims, func(a, b *victim) int { return lowest(b, a) })
	for _, v := range t.victims {
		if v.whole {
			v.whole = false
			if !t.enough(t.apply()) {
				v.whole = true
				continue
			}
		}
		if v.take > 0 {
			least := sort.Search(v.take, func(n int) bool {
				v.take = n
				return t.enough(t.apply())
			})
			v.take = least
		}
	}
}
