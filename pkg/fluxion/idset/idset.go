// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package idset reads and writes the idsets of Flux RFC 22, such as "0-3,7" or "[0-3,7]". An idset has
// ids that are not negative, each once and in rising order. Consecutive ids are written as ranges.
// Flux writes broker ranks and the ids of cores and GPUs in this form.
//
// The package is as strict as flux-core's idset_decode. It refuses blanks, signs, leading zeros, and
// falling or overlapping ranges. Unlike idset_decode, it refuses an empty element ("1,,2").
package idset

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Set is a set of ids. It is kept as ranges, so that it takes no more memory than its text,
// however many ids it has. The zero value is the empty set. A Set never changes, and is
// safe for use by several goroutines.
type Set struct {
	ranges []idRange // rising; two ranges never overlap or touch
}

type idRange struct {
	first, last int64
}

// Parse reads an idset. The empty text and "[]" are the empty set.
func Parse(text string) (Set, error) {
	list := text
	if inner, ok := strings.CutPrefix(text, "["); ok {
		if list, ok = strings.CutSuffix(inner, "]"); !ok {
			return Set{}, fmt.Errorf("idset %q: missing ]", text)
		}
	}
	if list == "" {
		return Set{}, nil
	}
	var ranges []idRange
	for part := range strings.SplitSeq(list, ",") {
		r, ok := parseRange(part)
		if !ok {
			return Set{}, fmt.Errorf("idset %q: %q is no id or rising range", text, part)
		}
		if len(ranges) > 0 && r.first <= ranges[len(ranges)-1].last {
			return Set{}, fmt.Errorf("idset %q: %q is not above what is before it", text, part)
		}
		ranges = append(ranges, r)
	}
	return Set{ranges: merge(ranges)}, nil
}

func parseRange(text string) (idRange, bool) {
	first, last, isRange := strings.Cut(text, "-")
	low, ok := parseID(first)
	if !isRange {
		return idRange{low, low}, ok
	}
	high, okHigh := parseID(last)
	return idRange{low, high}, ok && okHigh && low < high
}

func parseID(digits string) (int64, bool) {
	if strings.ContainsAny(digits, "+-") || len(digits) > 1 && digits[0] == '0' {
		return 0, false
	}
	id, err := strconv.ParseInt(digits, 10, 64)
	return id, err == nil
}

// merge sorts ranges and joins those that touch or overlap. It changes its argument.
func merge(ranges []idRange) []idRange {
	slices.SortFunc(ranges, func(a, b idRange) int { return cmp.Compare(a.first, b.first) })
	merged := ranges[:0]
	for _, r := range ranges {
		if n := len(merged); n > 0 && r.first-1 <= merged[n-1].last {
			merged[n-1].last = max(merged[n-1].last, r.last)
			continue
		}
		merged = append(merged, r)
	}
	return merged
}

// Union returns the set of all ids of the given sets.
func Union(sets ...Set) Set {
	var ranges []idRange
	for _, s := range sets {
		ranges = append(ranges, s.ranges...)
	}
	return Set{ranges: merge(ranges)}
}

// Len returns the number of ids. If the set has all ids from 0 to the greatest int64, Len returns the
// greatest int64, which is one less.
func (s Set) Len() int64 {
	var n int64
	for _, r := range s.ranges {
		if n += r.last - r.first; n == math.MaxInt64 {
			return n // the set has all ids from 0 on
		}
		n++
	}
	return n
}

// Has reports whether the id is in the set. It allocates no memory.
func (s Set) Has(id int64) bool {
	_, found := slices.BinarySearchFunc(s.ranges, id, func(r idRange, id int64) int {
		switch {
		case r.last < id:
			return -1
		case r.first > id:
			return 1
		}
		return 0
	})
	return found
}

// String returns the set as a text without brackets. The empty set is the empty text.
func (s Set) String() string {
	var out []byte
	for i, r := range s.ranges {
		if i > 0 {
			out = append(out, ',')
		}
		out = strconv.AppendInt(out, r.first, 10)
		if r.last > r.first {
			out = strconv.AppendInt(append(out, '-'), r.last, 10)
		}
	}
	return string(out)
}

// Decode reads an idset, and returns its ids in rising order. It refuses a set of more than limit ids,
// so that a short text cannot take much memory.
func Decode(text string, limit int) ([]int64, error) {
	set, err := Parse(text)
	if err != nil {
		return nil, err
	}
	total := int64(0)
	for _, r := range set.ranges {
		if r.last-r.first >= int64(limit)-total {
			return nil, fmt.Errorf("idset %q: more than %d ids", text, max(limit, 0))
		}
		total += r.last - r.first + 1
	}
	ids := make([]int64, 0, total)
	for _, r := range set.ranges {
		for i := range r.last - r.first + 1 {
			ids = append(ids, r.first+i)
		}
	}
	return ids, nil
}

// Encode returns ids as an idset without brackets. The ids may be in any order, and repeated. Negative
// ids (Fluxion's rank of a vertex without a rank) are left out.
func Encode[T int | int64](ids []T) string {
	ranges := make([]idRange, 0, len(ids))
	for _, id := range ids {
		if id >= 0 {
			ranges = append(ranges, idRange{int64(id), int64(id)})
		}
	}
	return Set{ranges: merge(ranges)}.String()
}
