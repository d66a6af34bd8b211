// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
)

// Extract reads the figures from a log. A figure that the log does not have is not in the result. It fails if a match
// is no finite number.
func (d *Definition) Extract(log []byte) (map[string]float64, error) {
	out := map[string]float64{}
	for _, f := range d.Figures {
		pattern, err := regexp.Compile(f.Regexp)
		if err != nil {
			return nil, fmt.Errorf("the figure %s: %w", f.Name, err)
		}
		var values []float64
		for _, match := range pattern.FindAllSubmatch(log, -1) {
			value, err := strconv.ParseFloat(string(match[1]), 64)
			if err != nil || math.IsNaN(value) || math.IsInf(value, 0) {
				return out, fmt.Errorf("the figure %s: %q is no number", f.Name, match[1])
			}
			values = append(values, value)
		}
		if len(values) > 0 {
			out[f.Name] = f.Take.of(values)
		}
	}
	return out, nil
}

// of makes one number of several.
func (t Take) of(values []float64) float64 {
	sum := 0.0
	for _, value := range values {
		sum += value
	}
	switch t {
	case TakeFirst:
		return values[0]
	case TakeMin:
		return slices.Min(values)
	case TakeMax:
		return slices.Max(values)
	case TakeSum:
		return sum
	case TakeMean:
		return sum / float64(len(values))
	}
	return values[len(values)-1]
}
