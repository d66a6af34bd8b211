// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package experiment

import "slices"

// Comparison compares a measure of a case between two experiments.
type Comparison struct {
	Case    string // its parameters
	Measure Measure
	A, B    Spread
	// Ratio is the spread of the values of B divided by those of A, over all pairs of runs. Low and High bound nine
	// tenths of the pairs.
	Ratio     Spread
	Low, High float64
}

// Compare compares the cases that two experiments have in common, by the measures that both have. alone are the
// cases that one of them has no successful run of.
func Compare(a, b *Definition, ofA, ofB []*Record) (rows []Comparison, alone []string) {
	byCase := map[string][]*Record{}
	for _, r := range ofB {
		byCase[Describe(r.Parameters)] = append(byCase[Describe(r.Parameters)], r)
	}
	compared := map[string]bool{}
	for _, c := range Cases(ofA) {
		name := Describe(c.Parameters)
		for _, m := range common(a, b) {
			x, y := m.Values(c.Records), m.Values(byCase[name])
			if len(x) > 0 && len(y) > 0 {
				rows = append(rows, newComparison(name, m, x, y))
				compared[name] = true
			}
		}
	}
	for _, c := range slices.Concat(Cases(ofA), Cases(ofB)) {
		if name := Describe(c.Parameters); !compared[name] {
			alone = append(alone, name)
			compared[name] = true
		}
	}
	return rows, alone
}

// common are the measures that both experiments have.
func common(a, b *Definition) (out []Measure) {
	for _, m := range a.Measures() {
		if slices.ContainsFunc(b.Measures(), func(other Measure) bool { return other.Name == m.Name && other.Unit == m.Unit }) {
			out = append(out, m)
		}
	}
	return out
}

func newComparison(name string, m Measure, a, b []float64) Comparison {
	var ratios []float64
	for _, x := range a {
		for _, y := range b {
			ratios = append(ratios, y/x)
		}
	}
	if slices.Min(a) <= 0 { // a ratio to nothing says nothing
		ratios = nil
	}
	slices.Sort(ratios)
	out := Comparison{Case: name, Measure: m, A: NewSpread(a), B: NewSpread(b), Ratio: NewSpread(ratios)}
	if len(ratios) > 0 {
		out.Low, out.High = Quantile(ratios, .05), Quantile(ratios, .95)
	}
	return out
}
