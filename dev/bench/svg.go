// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/flux-elastic/flux-elastic/internal/chart"
)

// Measures of the drawing, in pixels.
const (
	columnWidth = 130
	barWidth    = 90 // of the longest bar; its value is beside it
	rowHeight   = 22
)

// Classes of bars.
const (
	oursClass  = "c0"
	peerClass  = "gray tint2"
	rangeClass = "line ink"
)

// drawn are the figures of the drawing.
var drawn = []string{"ratio", "hostage", "waitP95", "podsPerSecond", "cpuPerPod", "writesPerPod", "unfair"}

// SVG draws the comparison: a row for each scheduler, and a column for each figure, with the median as
// a bar and the range as a line.
func (c *Comparison) SVG() []byte {
	f := &chart.Figure{Legend: []chart.Entry{
		{Label: "ours", Class: oursClass}, {Label: "other schedulers", Class: peerClass}, {Label: "the range over the seeds; a bar ends at the median", Class: rangeClass},
		{Label: "pale: not all gangs finished, and bars may be cut", Class: "gray pale"},
	}}
	for i := range c.Scenarios {
		f.Rows = append(f.Rows, c.Scenarios[i].draw())
	}
	return f.File()
}

// columns returns the figures of the drawing that the scenario has.
func (s *ScenarioRows) columns() (out []figure) {
	for _, name := range drawn {
		i := slices.IndexFunc(figures, func(f figure) bool { return f.name == name })
		if slices.ContainsFunc(s.Rows, func(row Row) bool { _, ok := row.Figures[name]; return ok }) {
			out = append(out, figures[i])
		}
	}
	return out
}

func (s *ScenarioRows) draw() chart.Row {
	row := chart.Row{
		Title: s.Name + ": " + s.What,
		Note:  fmt.Sprintf("%d gangs with %d pods on %d nodes; no makespan is shorter than %.1f s", s.Gangs, s.Pods, s.Nodes, s.Bound),
	}
	for i, f := range s.columns() {
		p := s.plot(f)
		if i == 0 {
			p.Y.Ticks = s.systems()
		}
		row.Plots = append(row.Plots, p)
	}
	return row
}

// systems are the names of the schedulers, as labels of the rows.
func (s *ScenarioRows) systems() (out []chart.Tick) {
	for i, row := range s.Rows {
		tick := chart.Tick{At: float64(i) + .5, Label: row.System}
		if len(row.Troubles) == row.Runs {
			tick.Label += " (failed)"
		}
		if row.Ours {
			tick.Class = "strong"
		}
		out = append(out, tick)
	}
	return out
}

// plot draws the values of a figure. The longest bar is of a scheduler that finished all gangs, if there is one.
func (s *ScenarioRows) plot(f figure) *chart.Plot {
	p := &chart.Plot{Title: f.title, Note: "more is better", Width: columnWidth, Height: rowHeight * len(s.Rows), Bare: true,
		X: chart.Axis{Max: columnWidth, Ticks: []chart.Tick{}}, Y: chart.Axis{Max: float64(len(s.Rows)), Down: true, Bare: true, Ticks: []chart.Tick{}}}
	if f.less {
		p.Note = "less is better"
	}
	finished, all := 0.0, 0.0
	for _, row := range s.Rows {
		all = max(all, row.Figures[f.name].Most)
		if row.Limits == 0 {
			finished = max(finished, row.Figures[f.name].Most)
		}
	}
	length := func(value float64) float64 { return min(value/max(cmp.Or(finished, all), 1e-9), 1) * barWidth }
	for i, row := range s.Rows {
		v, ok := row.Figures[f.name]
		if !ok {
			continue
		}
		class, middle := peerClass, float64(i)+.5
		if row.Ours {
			class = oursClass
		}
		if row.Limits > 0 {
			class += " pale"
		}
		p.Marks = append(p.Marks, chart.Mark{Shape: chart.Box, Class: class, Points: []chart.Point{{Y: middle - .27}, {X: length(v.Median), Y: middle + .27}}})
		if v.Least != v.Most {
			p.Marks = append(p.Marks, chart.Mark{Shape: chart.Line, Class: "ink", Points: []chart.Point{{X: length(v.Least), Y: middle}, {X: length(v.Most), Y: middle}}})
		}
		p.Marks = append(p.Marks, chart.Mark{Shape: chart.Beside, Title: fmt.Sprintf(f.format, v.Median), Points: []chart.Point{{X: length(v.Most), Y: middle}}})
	}
	return p
}
