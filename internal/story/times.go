// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package story

import (
	"slices"
	"time"
)

// Later is the later one of two times.
func Later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// Earliest is the earliest of some times that is not zero.
func Earliest(times ...time.Time) (first time.Time) {
	for _, t := range times {
		if first.IsZero() || !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	return first
}

// Interval is the time between two moments.
type Interval = [2]time.Time

// Union merges intervals that overlap, and sorts them.
func Union(intervals []Interval) (out []Interval) {
	slices.SortFunc(intervals, func(a, b Interval) int { return a[0].Compare(b[0]) })
	for _, t := range intervals {
		if n := len(out); n > 0 && !t[0].After(out[n-1][1]) {
			out[n-1][1] = Later(out[n-1][1], t[1])
		} else {
			out = append(out, t)
		}
	}
	return out
}
