// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-elastic/flux-elastic/internal/chart"
	"github.com/flux-elastic/flux-elastic/internal/experiment"
)

// Comparison compares two experiments: as a table for a terminal, as a page, and as drawings.
func Comparison(a, b Study) (t Table, page []byte, drawings []Drawing, err error) {
	rows, alone := experiment.Compare(a.Definition, b.Definition, a.Records, b.Records)
	if len(rows) == 0 {
		return t, nil, nil, fmt.Errorf("%s and %s have no case in common of which a run succeeded", a.Where, b.Where)
	}
	t = comparisonTable(rows)
	if both := overlay(a, b); both != nil {
		drawings = append(drawings, *both)
	}
	drawings = append(drawings, ratios(rows))
	v := view{
		Title:    a.Definition.Name + " and " + b.Definition.Name,
		Subtitle: fmt.Sprintf("A is %s, with %d runs. B is %s, with %d runs.", a.Where, len(a.Records), b.Where, len(b.Records)),
		Sections: []section{{"Side by side", inline(drawings), []Table{t}}},
	}
	if len(alone) > 0 {
		v.Subtitle += " Without a partner: " + strings.Join(alone, "; ") + "."
	}
	page, err = v.render()
	return t, page, drawings, err
}

func comparisonTable(rows []experiment.Comparison) Table {
	t := Table{Header: []string{"parameters", "measure", "runs A", "runs B", "A", "B", "B / A", "5 % to 95 %"}, Left: 2}
	for _, r := range rows {
		ratio, bounds := "–", "–"
		if r.Ratio.Count > 0 {
			ratio, bounds = fmt.Sprintf("%.3f", r.Ratio.Median), fmt.Sprintf("%.3f to %.3f", r.Low, r.High)
		}
		t.Rows = append(t.Rows, []string{r.Case, r.Measure.Label(), strconv.Itoa(r.A.Count), strconv.Itoa(r.B.Count), spreadText(r.A), spreadText(r.B), ratio, bounds})
	}
	return t
}

// overlay draws the figure of merit of both over the size; nil if there are not several sizes.
func overlay(a, b Study) *Drawing {
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
	if drawings == nil {
		return nil
	}
	drawings[0].Plot.Title = m.Name + " of A and B"
	return &drawings[0]
}

// ratios draws the ratio of the figure of merit for each case.
func ratios(rows []experiment.Comparison) Drawing {
	merit := rows[0].Measure.Name
	rows = slices.DeleteFunc(slices.Clone(rows), func(r experiment.Comparison) bool { return r.Measure.Name != merit || r.Ratio.Count == 0 })
	p := &chart.Plot{Title: merit + ", B / A", Width: half, Height: max(60, 26*len(rows)),
		X: chart.Axis{Label: "ratio", Min: 1, Max: 1}, Y: chart.Axis{Max: float64(len(rows)), Down: true, Bare: true, Ticks: []chart.Tick{}}}
	for i, r := range rows {
		y := float64(i) + .5
		p.X.Min, p.X.Max = min(p.X.Min, r.Low), max(p.X.Max, r.High)
		p.Y.Ticks = append(p.Y.Ticks, chart.Tick{At: y, Label: r.Case})
		p.Left = cmp.Or(max(p.Left, 16+int(6.4*float64(len(r.Case)))), 64)
		p.Marks = append(p.Marks,
			chart.Mark{Shape: chart.Line, Class: "c0", Points: []chart.Point{{X: r.Low, Y: y}, {X: r.High, Y: y}}},
			chart.Mark{Shape: chart.Dots, Class: "c0", Points: []chart.Point{{X: r.Ratio.Median, Y: y}}})
	}
	room := math.Max((p.X.Max-p.X.Min)*.08, .02)
	p.X.Min, p.X.Max = p.X.Min-room, p.X.Max+room
	one := chart.Mark{Shape: chart.Line, Class: "gray dashed", Points: []chart.Point{{X: 1}, {X: 1, Y: p.Y.Max}}}
	p.Marks = append([]chart.Mark{one}, p.Marks...)
	return Drawing{"ratios", "The median ratio over all pairs of a run of B and a run of A. The line bounds nine tenths of the pairs.", p}
}
