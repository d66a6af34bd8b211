// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"math"
	"testing"
)

func TestLabel(t *testing.T) {
	for value, want := range map[float64]string{
		math.Copysign(0, -1): "0", 1: "1", 0.5: "0.5", 12345.6: "12350", 1e7: "1e+07", -2.25: "-2.25", 1.0 / 3: "0.3333",
	} {
		if got := Label(value); got != want {
			t.Errorf("%v: %s, want %s", value, got, want)
		}
	}
}

func TestStep(t *testing.T) {
	for _, tc := range []struct {
		extent float64
		about  int
		want   float64
	}{{100, 5, 20}, {9, 5, 2}, {1, 10, 0.1}, {3600, 6, 1000}} {
		if got := Step(tc.extent, tc.about); math.Abs(got-tc.want) > 1e-12 {
			t.Errorf("%v in about %d steps: %v, want %v", tc.extent, tc.about, got, tc.want)
		}
	}
}

// Things that are counted have whole numbers.
func TestWhole(t *testing.T) {
	for most, want := range map[float64]int{1: 2, 1.05: 2, 3: 4, 100: 6} {
		if got := (&Axis{Max: most, Whole: true}).ticks(5); len(got) != want {
			t.Errorf("to %g: %v", most, got)
		}
	}
}
