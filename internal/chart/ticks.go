// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"math"
	"strconv"
)

// ticks returns the ticks of an axis, about as many as asked for.
func (a *Axis) ticks(about int) []Tick {
	if a.Ticks != nil {
		return a.Ticks
	}
	if a.Log {
		return a.logTicks()
	}
	var out []Tick
	step := Step(a.Max-a.Min, about)
	if a.Whole {
		step = max(step, 1)
	}
	first := math.Ceil(a.Min/step - 1e-9)
	for i := range max(about, 1) + 2 { // a step may be too small to change a large number
		at := (first + float64(i)) * step
		if at > a.Max+step*1e-9 {
			break
		}
		out = append(out, Tick{At: at, Label: Label(at)})
	}
	return out
}

// Step returns 1, 2 or 5 times a power of ten, so that a range has about as many steps as asked for.
func Step(extent float64, about int) float64 {
	if extent <= 0 {
		return 1
	}
	rough := extent / float64(max(about, 1))
	power := math.Pow(10, math.Floor(math.Log10(rough)))
	for _, factor := range []float64{1, 2, 5} {
		if factor*power >= rough*(1-1e-9) {
			return factor * power
		}
	}
	return 10 * power
}

// leastExponent is that of the smallest positive number. Below are no ticks: the logarithm of 0 is infinite.
const leastExponent = -324

// logTicks returns 1, 2 and 5 times each power of ten, or powers of ten alone if the range has many.
func (a *Axis) logTicks() (out []Tick) {
	factors := []float64{1, 2, 5}
	if a.Max/a.Min > 1e4 {
		factors = factors[:1]
	}
	for exponent := math.Max(math.Floor(math.Log10(a.Min)), leastExponent); exponent <= math.Log10(a.Max); exponent++ {
		for _, factor := range factors {
			if at := factor * math.Pow(10, exponent); at >= a.Min*(1-1e-9) && at <= a.Max*(1+1e-9) {
				out = append(out, Tick{At: at, Label: Label(at)})
			}
		}
	}
	return out
}

// Label writes a number with up to four digits.
func Label(value float64) string {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(value, 'g', 4, 64), 64)
	if math.Abs(rounded) < 1e6 {
		return strconv.FormatFloat(rounded+0, 'f', -1, 64) // no -0
	}
	return strconv.FormatFloat(rounded, 'g', -1, 64)
}
