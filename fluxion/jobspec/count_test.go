// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobspec

import (
	"math"
	"testing"
)

// The cases are from RFC 14 (resources, count). Numbers in quotes are from Fluxion, which reads
// them.
func TestParseCount(t *testing.T) {
	cases := map[string]struct {
		text string
		want Count
	}{
		"a number is fixed":                     {`4`, Count{4, 4, '+', 1}},
		"a number may be quoted (Fluxion)":      {`"4"`, Count{4, 4, '+', 1}},
		"a quoted number may be hex (Fluxion)":  {`"0x10"`, Count{16, 16, '+', 1}},
		"or octal (Fluxion)":                    {`"010"`, Count{8, 8, '+', 1}},
		"or have a plus sign (Fluxion)":         {`"+4"`, Count{4, 4, '+', 1}},
		"the largest number":                    {`4294967295`, Count{math.MaxUint32, math.MaxUint32, '+', 1}},
		"min alone is open above":               {`{"min": 2}`, Count{2, math.MaxUint32, '+', 1}},
		"a range that adds":                     {`{"min": 1, "max": 7, "operator": "+", "operand": 3}`, Count{1, 7, '+', 3}},
		"a range that multiplies":               {`{"min": 1, "max": 8, "operator": "*", "operand": 2}`, Count{1, 8, '*', 2}},
		"a range of powers":                     {`{"min": 2, "max": 16, "operator": "^", "operand": 2}`, Count{2, 16, '^', 2}},
		"a range of one":                        {`{"min": 3, "max": 3, "operator": "+", "operand": 1}`, Count{3, 3, '+', 1}},
		"a range with quoted numbers (Fluxion)": {`{"min": "1", "max": "8", "operator": "+", "operand": "1"}`, Count{1, 8, '+', 1}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			spec, err := Parse([]byte(withCount(tc.text)))
			if err != nil {
				t.Fatal(err)
			}
			if got := spec.Resources[0].Count; got != tc.want {
				t.Errorf("count %s is %+v, want %+v", tc.text, got, tc.want)
			}
		})
	}
}

// The cases are from Fluxion's calc_count (resource/policies/base/matcher.cpp).
func TestLargest(t *testing.T) {
	const most = math.MaxUint32
	cases := map[string]struct {
		count     Count
		available uint32
		want      uint32
	}{
		"as many as are asked for":                  {Count{4, 4, '+', 1}, 4, 4},
		"no more than are asked for":                {Count{4, 4, '+', 1}, 10, 4},
		"fewer than are asked for":                  {Count{4, 4, '+', 1}, 3, 0},
		"nothing available":                         {Count{1, most, '+', 1}, 0, 0},
		"open above: all that is there":             {Count{1, most, '+', 1}, 9, 9},
		"steps: the largest within what is there":   {Count{1, 10, '+', 4}, 8, 5},
		"steps: the largest within max":             {Count{1, 10, '+', 4}, 100, 9},
		"a step beyond max":                         {Count{1, 10, '+', 100}, 100, 1},
		"doubling":                                  {Count{1, 100, '*', 2}, 50, 32},
		"doubling up to max":                        {Count{3, 24, '*', 2}, 100, 24},
		"doubling stops where Fluxion wraps around": {Count{1, most, '*', 2}, most, 1 << 31},
		"tripling, whose product would wrap low":    {Count{1, most, '*', 3}, most, 3486784401},
		"a factor above 32 bits":                    {Count{3, most, '*', math.MaxInt64}, most, 3},
		"powers":                                    {Count{2, 1000, '^', 2}, 1000, 256},
		"powers within what is there":               {Count{2, 1000, '^', 2}, 255, 16},
		"powers stop where Fluxion wraps around":    {Count{2, most, '^', 2}, most, 1 << 16},
		"the third power":                           {Count{3, most, '^', 3}, most, 19683},
		"a power that is astronomical":              {Count{2, most, '^', math.MaxInt64}, most, 2},
		"powers of one":                             {Count{1, most, '^', math.MaxInt64}, most, 1},
		"min above max":                             {Count{5, 4, '+', 1}, 10, 0},
		"made by hand, without an operator":         {Count{Min: 2, Max: 4}, 10, 2},
		"made by hand, that adds nothing":           {Count{2, 4, '+', 0}, 10, 2},
		"made by hand, that multiplies by one":      {Count{2, 4, '*', 1}, 10, 2},
		"made by hand, the first power":             {Count{2, 4, '^', 1}, 10, 2},
		"made by hand, multiples of zero":           {Count{0, 4, '*', 2}, 10, 0},
		"the zero count":                            {Count{}, 10, 0},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.count.Largest(tc.available); got != tc.want {
				t.Errorf("%+v.Largest(%d) = %d, want %d", tc.count, tc.available, got, tc.want)
			}
			if tc.available == most && tc.count.EffectiveMax() != tc.want {
				t.Errorf("%+v.EffectiveMax() = %d, want %d", tc.count, tc.count.EffectiveMax(), tc.want)
			}
		})
	}
}

// Largest finds the same count as a search through all counts.
func TestLargestIsAsEnumerated(t *testing.T) {
	step := map[byte]func(n, operand int) int{
		'+': func(n, operand int) int { return n + operand },
		'*': func(n, operand int) int { return n * operand },
		'^': func(n, operand int) int { return int(math.Pow(float64(n), float64(operand))) },
	}
	for operator, next := range step {
		for operand := 2; operand < 5; operand++ {
			for low := 2; low < 12; low++ {
				for high := low; high < 70; high += 7 {
					count := Count{uint32(low), uint32(high), operator, operand}
					for available := range 80 {
						want := 0
						for n := low; n <= min(high, available); n = next(n, operand) {
							want = n
						}
						if got := count.Largest(uint32(available)); got != uint32(want) {
							t.Fatalf("%+v.Largest(%d) = %d, want %d", count, available, got, want)
						}
					}
				}
			}
		}
	}
}
