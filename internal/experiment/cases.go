// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package experiment

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// Measure is a number that each run may have.
type Measure struct {
	Name, Unit string
	Better     Better
	Of         func(*Record) (float64, bool)
}

// Label is the name with the unit.
func (m Measure) Label() string {
	if m.Unit == "" {
		return m.Name
	}
	return m.Name + " [" + m.Unit + "]"
}

// Measures are the figures of an experiment, and then the time for which the command ran, the wait for nodes, and the
// hostage time. The first one is the figure of merit.
func (d *Definition) Measures() []Measure {
	var out []Measure
	for _, f := range d.Figures {
		out = append(out, Measure{f.Name, f.Unit, f.Better, func(r *Record) (float64, bool) { value, ok := r.Figures[f.Name]; return value, ok }})
	}
	return append(out,
		Measure{"run time", "s", Lower, (*Record).RunTime},
		Measure{"wait", "s", Lower, (*Record).Wait},
		Measure{"hostage time", "node s", Lower, (*Record).HostageTime})
}

// Spread says how numbers are distributed.
type Spread struct {
	Count                                       int
	Least, Quarter, Median, ThreeQuarters, Most float64
}

// NewSpread computes the spread of some numbers.
func NewSpread(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	return Spread{len(sorted), sorted[0], Quantile(sorted, .25), Quantile(sorted, .5), Quantile(sorted, .75), sorted[len(sorted)-1]}
}

// Quantile returns a quantile of sorted numbers, and interpolates between two of them.
func Quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	below := int(math.Floor(at))
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (at-float64(below))*(sorted[above]-sorted[below])
}

// Values are the numbers of the runs that succeeded.
func (m Measure) Values(records []*Record) (out []float64) {
	for _, r := range records {
		if value, ok := m.Of(r); ok && r.Succeeded() {
			out = append(out, value)
		}
	}
	return out
}

// Case has the runs with the same parameters.
type Case struct {
	Number     int
	Parameters map[string]string
	Records    []*Record
}

// Cases groups records by case.
func Cases(records []*Record) []Case {
	byNumber := map[int]*Case{}
	for _, r := range records {
		c := byNumber[r.Case]
		if c == nil {
			c = &Case{Number: r.Case, Parameters: r.Parameters}
			byNumber[r.Case] = c
		}
		c.Records = append(c.Records, r)
	}
	var out []Case
	for _, number := range slices.Sorted(maps.Keys(byNumber)) {
		out = append(out, *byNumber[number])
	}
	return out
}

// Series has the values of a measure over the size, for runs whose other parameters are the same.
type Series struct {
	// Name says these other parameters; "" if they do not vary.
	Name   string
	Points []Scale
}

// Scale has the values at one size.
type Scale struct {
	Size   int32
	Values []float64
	Spread Spread
	// Speedup is how many times better the median is than at the smallest size, and Efficiency is the speedup divided by
	// the ratio of the sizes.
	Speedup, Efficiency float64
}

// Scaling returns the values of a measure over the size with which runs started.
func (d *Definition) Scaling(m Measure, records []*Record) []Series {
	type key struct {
		series string
		size   int32
	}
	values := map[key][]float64{}
	names := map[string]bool{}
	for _, r := range records {
		if value, ok := m.Of(r); ok && r.Succeeded() && r.Size > 0 && value > 0 {
			k := key{d.seriesOf(r), r.Size}
			values[k], names[k.series] = append(values[k], value), true
		}
	}
	var out []Series
	for _, name := range slices.Sorted(maps.Keys(names)) {
		s := Series{Name: name}
		for k, found := range values {
			if k.series == name {
				s.Points = append(s.Points, Scale{Size: k.size, Values: found, Spread: NewSpread(found)})
			}
		}
		slices.SortFunc(s.Points, func(a, b Scale) int { return cmp.Compare(a.Size, b.Size) })
		for i := range s.Points {
			p, first := &s.Points[i], &s.Points[0]
			p.Speedup = p.Spread.Median / first.Spread.Median
			if m.Better == Lower {
				p.Speedup = 1 / p.Speedup
			}
			p.Efficiency = p.Speedup * float64(first.Size) / float64(p.Size)
		}
		out = append(out, s)
	}
	return out
}

// seriesOf says the parameters of a run that vary, and that do not go with the size.
func (d *Definition) seriesOf(r *Record) string {
	varied := map[string]string{}
	for name, values := range d.Matrix {
		if len(values) > 1 && name != Size {
			varied[name] = r.Parameters[name]
		}
	}
	sized := slices.ContainsFunc(d.Cases, func(set map[string]Value) bool { _, ok := set[Size]; return ok })
	if !sized && len(d.Cases) > 1 {
		for _, set := range d.Cases {
			for name := range set {
				varied[name] = r.Parameters[name]
			}
		}
	}
	return Describe(varied)
}
