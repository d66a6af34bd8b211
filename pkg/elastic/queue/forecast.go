// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import "slices"

// mostSteps bounds the number of ends that a forecast tells apart at once. With more, neighbours are one step.
const mostSteps = 100

// forecast is the cluster after each of some ends, as far as anybody has asked. All gangs that ask share its steps.
type forecast struct {
	ends  []expectedEnd
	steps []outlook // the first is before all ends
	// between are outlooks within a step, by their number of ends.
	between map[int]outlook
}

// outlook is the cluster after the first n ends.
type outlook struct {
	*clusterState
	n int
}

func newForecast(s *clusterState, ends []expectedEnd) *forecast {
	return &forecast{ends: ends, steps: []outlook{{s, 0}}, between: map[int]outlook{}}
}

// ahead is the forecast by all expected ends.
func (c *cycle) ahead() *forecast {
	if c.forecasts == nil {
		ends := make([]expectedEnd, 0, len(c.runs)+len(c.admitted))
		for _, r := range c.runs {
			ends = append(ends, r.ends(c.now)...)
		}
		for _, e := range c.admitted {
			ends = append(ends, e.end(len(e.nodes), c.now))
		}
		slices.SortStableFunc(ends, byTime)
		c.forecasts = []*forecast{newForecast(c.state, ends)}
	}
	return c.forecasts[0]
}

// sureAhead is the forecast by the ends that are sure for a gang.
func (c *cycle) sureAhead(e *entry) *forecast {
	all := c.expectedEnds()
	for _, f := range c.forecasts {
		if f.has(all, e) {
			return f
		}
	}
	sure := slices.DeleteFunc(slices.Clone(all), func(end expectedEnd) bool { return !end.isSureFor(e) })
	c.forecasts = append(c.forecasts, newForecast(c.state, sure))
	return c.forecasts[len(c.forecasts)-1]
}

// has reports whether the ends of the forecast are those of all that are sure for a gang.
func (f *forecast) has(all []expectedEnd, e *entry) bool {
	n := 0
	for i := range all {
		if !all[i].isSureFor(e) {
			continue
		}
		if n == len(f.ends) || f.ends[n].id != all[i].id || len(f.ends[n].ranks) != len(all[i].ranks) {
			return false
		}
		n++
	}
	return n == len(f.ends)
}

// reach makes the steps up to one, and reports whether there is such a step. Ends at the same time are one step.
func (f *forecast) reach(step int) bool {
	for len(f.steps) <= step {
		last := f.steps[len(f.steps)-1]
		if last.n == len(f.ends) {
			return false
		}
		n := min(last.n+1+len(f.ends)/mostSteps, len(f.ends))
		for n < len(f.ends) && f.ends[n].at.Equal(f.ends[n-1].at) {
			n++
		}
		f.steps = append(f.steps, outlook{last.after(f.ends[last.n:n]), n})
	}
	return true
}

// until returns how many of the ends a gang needs until it fits, and the cluster after them. fits is false if the gang does
// not even fit after all of them.
func (f *forecast) until(e *entry) (n int, after *clusterState, fits bool) {
	least := e.least()
	enough := func(s *clusterState) bool { return s.fits(e, least) >= least }
	low, high := 0, 1 // steps
	for f.reach(high) && !enough(f.steps[high].clusterState) {
		low, high = high, 2*high
	}
	if last := len(f.steps) - 1; high > last {
		if high = last; !enough(f.steps[last].clusterState) {
			return len(f.ends), f.steps[last].clusterState, false
		}
	}
	for high-low > 1 {
		if middle := (low + high) / 2; enough(f.steps[middle].clusterState) {
			high = middle
		} else {
			low = middle
		}
	}
	before, then := f.steps[low], f.steps[high]
	for then.n-before.n > 1 {
		n := (before.n + then.n) / 2
		middle, known := f.between[n]
		if !known {
			middle = outlook{before.after(f.ends[before.n:n]), n}
			f.between[n] = middle
		}
		if enough(middle.clusterState) {
			then = middle
		} else {
			before = middle
		}
	}
	return then.n, then.clusterState, true
}
