// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"
)

// taking chooses the gangs that give nodes to one gang, the taker.
type taking struct {
	base    *clusterState
	taker   *entry
	victims []*victim
	// mayLose reports whether n pods of a gang may be taken.
	mayLose func(*clusterState, *run, int) bool
}

// victim is a gang that gives up some ranks, or all.
type victim struct {
	*run
	// lost are the node-seconds of work that are lost if the whole gang goes.
	lost float64
	// protected is true if the gang has not run for its queue's MinRuntime, or changes its size just now, and not because its
	// user wants that: no more than its surplus is taken.
	protected bool
	// surplus is how many ranks the gang can lose and go on, and lent is how many of them it has above its size. It got those
	// since nobody else could use their nodes. onlyLends is true if no others may be taken.
	surplus, lent int
	onlyLends     bool
	take          int // how many of its ranks
	whole         bool
}

// newVictim is a gang that may lose what it has above its size, and if may is true, more than that.
func newVictim(r *run, may bool, now time.Time) *victim {
	ran, unsaved := now.Sub(r.Admitted), now.Sub(r.Admitted)
	if r.Saved.After(r.Admitted) {
		unsaved = now.Sub(r.Saved)
	}
	if r.SaveCost > 0 {
		unsaved = min(unsaved, r.SaveCost)
	}
	v := &victim{run: r, lost: float64(len(r.Ranks)) * unsaved.Seconds(), protected: ran < r.queue.MinRuntime || r.Changing && !r.Sought, onlyLends: !may, surplus: r.lent(), lent: r.lent()}
	if may && r.Malleable {
		v.surplus = max(r.kept()-r.least(), 0)
	}
	return v
}

// stays reports whether the gang may not go as a whole.
func (v *victim) stays() bool { return v.protected || v.onlyLends }

// lent is how many ranks a gang has above its size, and can lose and go on.
func (r *run) lent() int {
	if !r.Malleable || len(r.Ranks) <= r.Sizing.Size {
		return 0
	}
	return max(r.kept()-max(r.Sizing.Size, r.least()), 0)
}

// enough reports whether the taker could start, also if other queues take what they are guaranteed
// first. A taker that its queue has no capacity for needs nodes as well.
func (t *taking) enough(v *clusterState) bool {
	least := t.taker.least()
	return v.fits(t.taker, least) >= least && v.room.Fits(t.taker.ID, least) >= least && v.sparesGuarantees(t.taker)
}

// apply is the cluster after all victims have left.
func (t *taking) apply() *clusterState {
	after := t.base.snapshot()
	for _, v := range t.victims {
		if v.whole {
			after.end(v.run, v.kept())
		} else {
			after.lose(v.run, v.take, t.taker.ID)
		}
	}
	return after
}

// kept is how many ranks of a gang nobody has asked to leave.
func (r *run) kept() int { return len(r.Ranks) - len(r.draining) - len(r.drains) }

// stays reports whether nobody has asked a rank to leave.
func (r *run) stays(rank int) bool {
	return !slices.Contains(r.draining, rank) && !slices.Contains(r.drains, rank)
}

// least is how many ranks have to stay if the gang is to go on.
func (r *run) least() int { return cmp.Or(r.Least, r.Sizing.Allowed().Least()) }

// find chooses victims: surplus ranks alone, one whole gang, or several.
func (t *taking) find() bool {
	all := t.base.snapshot()
	for _, v := range t.victims {
		if v.stays() {
			all.lose(v.run, v.surplus, t.taker.ID)
		} else {
			all.end(v.run, v.kept())
		}
	}
	if !t.enough(all) {
		return false
	}
	if shrunk := t.base.snapshot(); t.shrinkAll(shrunk) || t.evict(shrunk) {
		return true
	}
	// A queue that lost surplus ranks may be unable to lose a whole gang.
	lent := t.base.snapshot()
	for _, v := range t.victims {
		v.take = 0
		t.shrink(lent, v, v.lent)
	}
	if t.evict(lent) {
		return true
	}
	for _, v := range t.victims {
		v.take = 0
	}
	return t.evict(t.base)
}

// cheapest orders the victims of a priority: those first that lose the least work.
func cheapest(a, b *victim) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.lost, b.lost), cmp.Compare(a.ID, b.ID))
}

// youngest orders the victims of a priority: those first that lose the least work for each node. Commands that stand still
// when ranks leave come last.
func youngest(a, b *victim) int {
	return cmp.Or(cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.RestartCost, b.RestartCost), b.Admitted.Compare(a.Admitted), cmp.Compare(a.ID, b.ID))
}

// shrinkAll takes the surplus of one gang after the other until the taker fits: first what all have above their sizes.
func (t *taking) shrinkAll(trial *clusterState) bool {
	slices.SortFunc(t.victims, youngest)
	for _, v := range t.victims {
		if t.shrink(trial, v, v.lent) {
			return true
		}
	}
	for _, v := range t.victims {
		more := sort.Search(v.surplus-v.lent, func(n int) bool { return !t.mayLose(trial, v.run, n+1) })
		if t.shrink(trial, v, more) {
			return true
		}
	}
	return false
}

// shrink takes more ranks of a gang, and reports whether the taker fits then.
func (t *taking) shrink(trial *clusterState, v *victim, more int) bool {
	if more <= 0 {
		return false
	}
	v.take += more
	trial.lose(v.run, more, t.taker.ID)
	return t.enough(trial)
}

// evict takes whole gangs until the taker fits: of the lowest priorities, with the least lost work,
// and as few as possible.
func (t *taking) evict(trial *clusterState) bool {
	best := t.cheapestOf(t.one(trial), t.several(trial, cheapest), t.several(trial, youngest))
	for _, v := range best {
		v.whole = true
	}
	return best != nil
}

// cheapestOf is the cheapest set of victims; nil if all are.
func (t *taking) cheapestOf(sets ...[]*victim) []*victim {
	type cost struct {
		priority int32
		lost     float64
	}
	of := func(set []*victim) cost {
		c := cost{priority: math.MinInt32}
		for _, v := range set {
			c.priority, c.lost = max(c.priority, v.Priority), c.lost+v.lost
		}
		return c
	}
	var best []*victim
	for _, set := range sets {
		if set == nil {
			continue
		}
		a, b := of(set), of(best)
		if best == nil || cmp.Or(cmp.Compare(a.priority, b.priority), cmp.Compare(a.lost, b.lost), cmp.Compare(len(set), len(best))) < 0 {
			best = set
		}
	}
	return best
}

// one is the cheapest gang that is enough alone; nil if none is.
func (t *taking) one(trial *clusterState) []*victim {
	slices.SortFunc(t.victims, cheapest)
	for _, v := range t.victims {
		if t.ends(trial, v) {
			one := trial.snapshot()
			one.end(v.run, v.kept()-v.take)
			if t.enough(one) {
				return []*victim{v}
			}
		}
	}
	return nil
}

// ends reports whether a whole gang may be taken.
func (t *taking) ends(trial *clusterState, v *victim) bool {
	return !v.stays() && t.mayLose(trial, v.run, v.kept()-v.take)
}

// several are gangs that are enough together, in an order, without those that are not needed; nil
// if all are not enough.
func (t *taking) several(trial *clusterState, order func(a, b *victim) int) []*victim {
	slices.SortFunc(t.victims, order)
	var set []*victim
	after := trial.snapshot()
	for _, v := range t.victims {
		if !t.ends(after, v) {
			continue
		}
		after.end(v.run, v.kept()-v.take)
		if set = append(set, v); t.enough(after) {
			return t.needed(trial, set)
		}
	}
	return nil
}

// needed are the victims without those that can stay: the dearest stay first.
func (t *taking) needed(trial *clusterState, set []*victim) []*victim {
	slices.SortFunc(set, func(a, b *victim) int { return cheapest(b, a) })
	losses := make([]*loss, len(set))
	for i, v := range set {
		losses[i] = &loss{victim: v, now: 1}
	}
	t.reduce(trial, losses, func(s *clusterState, v *victim, n int) {
		if n > 0 {
			s.end(v.run, v.kept()-v.take)
		}
	})
	set = set[:0]
	for _, l := range losses {
		if l.now > 0 {
			set = append(set, l.victim)
		}
	}
	return set
}

// prune gives back ranks that are not needed, to the gangs that would lose the most first: of their sizes, and then of what
// they have above. All gangs that go as a whole are needed.
func (t *taking) prune() {
	slices.SortFunc(t.victims, func(a, b *victim) int { return cheapest(b, a) })
	t.giveBack(func(v *victim) (floor int, may bool) { return v.lent, v.take > v.lent })
	t.giveBack(func(v *victim) (floor int, may bool) { return 0, v.lent > 0 })
}

// giveBack gives ranks back that are not needed, to gangs that may get some, down to a floor of what they lose.
func (t *taking) giveBack(least func(*victim) (floor int, may bool)) {
	base := t.base.snapshot()
	var losses []*loss
	for _, v := range t.victims {
		if v.whole {
			base.end(v.run, v.kept())
		} else if floor, may := least(v); may && v.take > 0 {
			losses = append(losses, &loss{v, floor, v.take})
		} else {
			base.lose(v.run, v.take, t.taker.ID)
		}
	}
	t.reduce(base, losses, func(s *clusterState, v *victim, n int) { s.lose(v.run, n, t.taker.ID) })
	for _, l := range losses {
		l.take = l.now
	}
}

// loss is how much a gang loses: at least the floor.
type loss struct {
	*victim
	floor, now int
}

// reduce lets each gang lose as little as it has to so that the taker fits. The first get something back before the others.
// base is the cluster without these losses, and lose lets a gang lose something. It needs few checks if few gangs have to
// lose something, and otherwise n log n changes of the cluster for n gangs (QuickXplain, Junker 2004).
func (t *taking) reduce(base *clusterState, losses []*loss, lose func(s *clusterState, v *victim, n int)) {
	trial := base.snapshot()
	for _, l := range losses {
		lose(trial, l.victim, l.floor)
	}
	if t.enough(trial) {
		for _, l := range losses {
			l.now = l.floor
		}
		return
	}
	if len(losses) <= 1 {
		for _, l := range losses {
			l.now = l.floor + 1 + sort.Search(l.now-l.floor-1, func(n int) bool {
				trial := base.snapshot()
				lose(trial, l.victim, l.floor+1+n)
				return t.enough(trial)
			})
		}
		return
	}
	first, second := losses[:len(losses)/2], losses[len(losses)/2:]
	after := func(losses []*loss) *clusterState {
		s := base.snapshot()
		for _, l := range losses {
			lose(s, l.victim, l.now)
		}
		return s
	}
	t.reduce(after(second), first, lose)
	t.reduce(after(first), second, lose)
}
