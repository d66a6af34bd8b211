// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import "slices"

// worthShrinking reports whether similar gangs had better stay small so that one more gang starts: if they end sooner
// then, or, if their run times were not learned, if more nodes are used. Where the run times were not learned and the
// gangs want more than the cluster holds, they stay small, because more of them run then. (Estimates of users are too
// far off for the first: with them, jobs of test/bench-queue wait longer.)
func (c *cycle) worthShrinking(e *entry, others []*entry) bool {
	unknown := !e.endIsLearned() || slices.ContainsFunc(others, func(other *entry) bool { return !other.endIsLearned() })
	if len(others) == 0 || c.oversubscribed && unknown {
		return true
	}
	missing := e.least()
	for _, other := range others {
		missing += other.Sizing.Size - len(other.nodes)
	}
	free := c.state.fits(e, missing)
	if free < e.least() {
		return true
	}
	small, more := sizesWith(others, free-e.least())
	large, most := sizesWith(others, free)
	if unknown || more == most {
		return e.least()+more > most
	}
	return c.endsSooner(e, others, small, large)
}

// endIsLearned reports whether the size at which a gang starts tells when it ends. One that can grow later may end
// sooner.
func (g *Gang) endIsLearned() bool { return g.Learned && !g.StartsAtOnce }

// sizesWith are the sizes of gangs that take what they can of some free pods in turn, and how many pods they take.
func sizesWith(gangs []*entry, free int) (sizes []int, taken int) {
	for _, e := range gangs {
		size := max(e.sizes.Within(len(e.nodes)+free-taken), len(e.nodes))
		taken += size - len(e.nodes)
		sizes = append(sizes, size)
	}
	return sizes, taken
}

// endsSooner reports whether gangs end sooner, in sum, if one more starts now at its smallest size beside the small
// others, than if that one starts once there is room beside the large others. The time of each counts relative to its
// run time at the full size, because it is worse for a short gang to wait.
func (c *cycle) endsSooner(e *entry, others []*entry, small, large []int) bool {
	cost, later := 0.0, c.state.snapshot()
	ends := slices.DeleteFunc(slices.Clone(c.expectedEnds()), func(end expectedEnd) bool {
		return slices.ContainsFunc(others, func(other *entry) bool { return other.ID == end.id })
	})
	for i, other := range others {
		cost += other.stretch(small[i]) - other.stretch(large[i])
		later.unplace(other, len(other.nodes))
		if later.place(other, large[i]) == nil {
			return true
		}
		ends = append(ends, other.end(large[i], c.now))
	}
	slices.SortStableFunc(ends, byTime)
	n, later, fits := newForecast(later, ends).until(e)
	if !fits {
		return true
	}
	wait := max(ends[n-1].at.Sub(c.now), 0)
	size := e.Sizing.LargestWithin(later.fits(e, e.Sizing.Size))
	return float64(wait)/float64(e.Expected)+e.stretch(size)-e.stretch(e.least()) >= cost
}

// stretch is how many times longer a gang runs at a size than at its full size.
func (g *Gang) stretch(size int) float64 { return float64(g.Sizing.Size) / float64(max(size, 1)) }
