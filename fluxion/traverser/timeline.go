// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import "slices"

// timeline is a planner: it tells how much of a vertex is in use at each time. It counts
// several amounts side by side: the units of the pool that are taken, the jobs that use the
// vertex or a vertex below it, and the units of each type that its pruning filter counts.
//
// Invariant: points rise in time, and the amounts of a point hold until the next point.
// Nothing is in use before the first point and after the last one. A point stays as long as
// a span starts or ends there.
type timeline struct {
	points []point
	// used are the amounts of the points, dims for each point.
	used []int64
}

type point struct {
	at   int64
	refs int32
}

// A timeline counts these before the types of the pruning filter.
const (
	poolDim = iota
	jobsDim
	filterDims
)

// add adds amounts on [from, until).
func (t *timeline) add(from, until int64, amounts []int64) {
	i := t.point(from, len(amounts))
	j := t.point(until, len(amounts))
	t.points[i].refs++
	t.points[j].refs++
	t.change(i, j, amounts, 1)
}

// remove takes back what add has added.
func (t *timeline) remove(from, until int64, amounts []int64) {
	i, j := t.search(from), t.search(until)
	t.change(i, j, amounts, -1)
	t.release(j, len(amounts))
	t.release(i, len(amounts))
}

// reduce takes back a part of what add has added. The span stays.
func (t *timeline) reduce(from, until int64, amounts []int64) {
	t.change(t.search(from), t.search(until), amounts, -1)
}

func (t *timeline) change(i, j int, amounts []int64, sign int64) {
	dims := len(amounts)
	for ; i < j; i++ {
		used := t.used[i*dims : i*dims+dims]
		for d, amount := range amounts {
			used[d] += sign * amount
		}
	}
}

// search is the index of the first point at or after a time.
func (t *timeline) search(at int64) int {
	low, high := 0, len(t.points)
	for low < high {
		mid := int(uint(low+high) >> 1)
		if t.points[mid].at < at {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low
}

// point is the index of the point at a time, new or known.
func (t *timeline) point(at int64, dims int) int {
	i := t.search(at)
	if i < len(t.points) && t.points[i].at == at {
		return i
	}
	t.points = slices.Insert(t.points, i, point{at: at})
	n := len(t.used)
	t.used = slices.Grow(t.used, dims)[:n+dims]
	copy(t.used[(i+1)*dims:], t.used[i*dims:n])
	if i == 0 {
		clear(t.used[:dims])
	} else {
		copy(t.used[i*dims:(i+1)*dims], t.used[(i-1)*dims:i*dims])
	}
	return i
}

func (t *timeline) release(i, dims int) {
	if t.points[i].refs--; t.points[i].refs == 0 {
		t.points = slices.Delete(t.points, i, i+1)
		t.used = slices.Delete(t.used, i*dims, (i+1)*dims)
	}
}

// peak is the largest amount of one dimension on [from, until).
func (t *timeline) peak(dims, dim int, from, until int64) int64 {
	var peak int64
	for i := t.current(from); i < len(t.points) && t.points[i].at < until; i++ {
		peak = max(peak, t.used[i*dims+dim])
	}
	return peak
}

// now is the amount of one dimension at a time.
func (t *timeline) now(dims, dim int, at int64) int64 {
	if i := t.search(at + 1); i > 0 {
		return t.used[(i-1)*dims+dim]
	}
	return 0
}

// current is the index of the point that holds at a time, or of the first point.
func (t *timeline) current(at int64) int {
	return max(t.search(at+1)-1, 0)
}

// fits reports whether the filter's amounts leave room for needs within totals, on [from,
// until).
func (t *timeline) fits(dims int, needs, totals []int64, from, until int64) bool {
	for i := t.current(from); i < len(t.points) && t.points[i].at < until; i++ {
		used := t.used[i*dims+filterDims : (i+1)*dims]
		for d, need := range needs {
			if used[d]+need > totals[d] {
				return false
			}
		}
	}
	return true
}

func (t *timeline) clone() timeline {
	return timeline{slices.Clone(t.points), slices.Clone(t.used)}
}
