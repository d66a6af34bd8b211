// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-elastic/flux-elastic/internal/chart"
	"github.com/flux-elastic/flux-elastic/internal/experiment"
	"github.com/flux-elastic/flux-elastic/internal/timeline"
)

// Comparison compares two experiments: as a table for a terminal, as a page, and as drawings.
func Comparison(a, b Study) (t chart.Table, page []byte, drawings []chart.Drawing, err error) {
	rows, alone := experiment.Compare(a.Definition, b.Definition, a.Records, b.Records)
	if len(rows) == 0 {
		return t, nil, nil, fmt.Errorf("%s and %s have no case in common of which a run succeeded", a.Where, b.Where)
	}
	t = comparisonTable(rows)
	v := chart.Page{
		Title:    a.Definition.Name + " and " + b.Definition.Name,
		Subtitle: fmt.Sprintf("A is %s, with %d runs. B is %s, with %d runs.", a.Where, len(a.Records), b.Where, len(b.Records)),
	}
	if len(alone) > 0 {
		v.Subtitle += " Without a partner: " + strings.Join(alone, "; ") + "."
	}
	add := func(title string, more []chart.Drawing, tables ...chart.Table) {
		if len(more)+len(tables) > 0 {
			v.Sections = append(v.Sections, chart.Section{Title: title, Drawings: more, Tables: tables})
			drawings = append(drawings, more...)
		}
	}
	add("Ratios", allRatios(rows), t)
	add("Scaling", overlay(a, b))
	each, wide := sides(a.recorded(), b.recorded())
	add("Waits, sizes and hostage time", each)
	add("Over time", wide)
	return t, v.HTML(), drawings, nil
}

func comparisonTable(rows []experiment.Comparison) chart.Table {
	t := chart.Table{Header: []string{"parameters", "measure", "runs A", "runs B", "A", "B", "B / A", "5 % to 95 %"}, Left: 2}
	for _, r := range rows {
		ratio, bounds := "–", "–"
		if r.Ratio.Count > 0 {
			ratio, bounds = fmt.Sprintf("%.3f", r.Ratio.Median), fmt.Sprintf("%.3f to %.3f", r.Low, r.High)
		}
		t.Rows = append(t.Rows, []string{r.Case, r.Measure.Label(), strconv.Itoa(r.A.Count), strconv.Itoa(r.B.Count), spreadText(r.A), spreadText(r.B), ratio, bounds})
	}
	return t
}

// overlay draws the figure of merit of both over the size, and the parallel efficiency; nothing if there are not several
// sizes.
func overlay(a, b Study) []chart.Drawing {
	m := a.Definition.Measures()[0]
	var series []experiment.Series
	for _, s := range []struct {
		name  string
		study Study
	}{{"A", a}, {"B", b}} {
		for _, one := range s.study.Definition.Scaling(m, s.study.Records) {
			one.Name = strings.TrimSpace(s.name + " " + one.Name)
			series = append(series, one)
		}
	}
	drawings := scaling(m, series)
	for i := range drawings {
		drawings[i].Plot.Title += " of A and B"
	}
	return drawings
}

// sides are drawings of two experiments beside each other, with the same axes: small ones, and those over time below each
// other.
func sides(a, b []*experiment.Record) (each, wide []chart.Drawing) {
	sizes := sizesOf(slices.Concat(a, b))
	extents := [2]timeline.Extent{extentOf(a), extentOf(b)}
	extents[0].Least, extents[1].Least = extents[1].Seconds(), extents[0].Seconds()
	var small, long [2][]chart.Drawing
	for i, records := range [][]*experiment.Record{a, b} {
		small[i] = []chart.Drawing{waits(records, sizes), got(records, sizes), hostage(records, sizes)}
		long[i] = append(utilization(records, extents[i]), held(records, sizes, extents[i]))
	}
	return pairs(small), pairs(long)
}

// pairs puts the drawings of A and B beside each other.
func pairs(of [2][]chart.Drawing) (out []chart.Drawing) {
	for i := range of[0] {
		a, b := of[0][i], of[1][i]
		for _, axes := range [][2]*chart.Axis{{&a.Plot.X, &b.Plot.X}, {&a.Plot.Y, &b.Plot.Y}} {
			if axes[0].Ticks == nil { // numbers, and not names
				most := max(axes[0].Max, axes[1].Max)
				axes[0].Max, axes[1].Max = most, most
			}
		}
		for _, side := range []struct {
			name string
			d    chart.Drawing
		}{{"A", a}, {"B", b}} {
			d := side.d
			d.Name, d.Plot.Title = strings.ToLower(side.name)+"-"+d.Name, side.name+": "+d.Plot.Title
			out = append(out, d)
		}
	}
	return out
}

// allRatios draws the ratios of each measure that has some.
func allRatios(rows []experiment.Comparison) (out []chart.Drawing) {
	seen := map[string]bool{}
	for _, r := range rows {
		if name := r.Measure.Name; !seen[name] {
			seen[name] = true
			if d := ratios(rows, name); len(d.Plot.Marks) > 1 {
				out = append(out, d)
			}
		}
	}
	return out
}

// notInFiles are what names of files do not have.
var notInFiles = regexp.MustCompile(`[^A-Za-z0-9_.]+`)

// ratios draws the ratio of a measure for each case.
func ratios(rows []experiment.Comparison, measure string) chart.Drawing {
	rows = slices.DeleteFunc(slices.Clone(rows), func(r experiment.Comparison) bool { return r.Measure.Name != measure || r.Ratio.Count == 0 })
	p := &chart.Plot{Title: measure + ", B / A", Width: half, Height: max(60, 26*len(rows)),
		X: chart.Axis{Label: "ratio", Min: 1, Max: 1}, Y: chart.Axis{Max: float64(len(rows)), Down: true, Bare: true, Ticks: []chart.Tick{}}}
	for i, r := range rows {
		y := float64(i) + .5
		p.X.Min, p.X.Max = min(p.X.Min, r.Low), max(p.X.Max, r.High)
		p.Y.Ticks = append(p.Y.Ticks, chart.Tick{At: y, Label: r.Case})
		p.Marks = append(p.Marks,
			chart.Mark{Shape: chart.Line, Class: "c0", Points: []chart.Point{{X: r.Low, Y: y}, {X: r.High, Y: y}}},
			chart.Mark{Shape: chart.Dots, Class: "c0", Points: []chart.Point{{X: r.Ratio.Median, Y: y}}})
	}
	room := math.Max((p.X.Max-p.X.Min)*.08, .02)
	p.X.Min, p.X.Max = p.X.Min-room, p.X.Max+room
	one := chart.Mark{Shape: chart.Line, Class: "gray dashed", Points: []chart.Point{{X: 1}, {X: 1, Y: p.Y.Max}}}
	p.Marks = append([]chart.Mark{one}, p.Marks...)
	return chart.Drawing{Name: "ratio-" + notInFiles.ReplaceAllString(measure, "-"), Plot: p, Caption: "The median ratio over all pairs of a run of B and a run of A. The line bounds nine tenths of the pairs."}
}
