// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"slices"
	"time"

	"github.com/flux-elastic/flux-elastic/internal/chart"
	"github.com/flux-elastic/flux-elastic/internal/story"
)

// Width of drawings over time, and heights of a row and of all rows together, in pixels.
const (
	Width      = 980
	highestRow = 16
	lowestRow  = .5
	lineFrom   = 4 // rows of this height have lines between them
	allRows    = 720
	nameHeight = 11 // of a label
	waitLane   = .5 // rows
	waitGap    = .07
)

// WaitClass is the class of a time without nodes.
const WaitClass = "gray faint"

// Rows is a plot with one row for each name, in which a row may have bars.
type Rows struct {
	*chart.Plot
	Extent
}

// NewRows makes rows without bars.
func NewRows(title string, names []string, e Extent) Rows {
	each := min(highestRow, max(lowestRow, allRows/float64(max(len(names), 1))))
	p := &chart.Plot{Title: title, Width: Width, Height: max(30, int(each*float64(len(names)))), X: e.Axis(),
		Y: chart.Axis{Max: float64(len(names)), Down: true, Bare: true, Ticks: []chart.Tick{}}}
	every := int(nameHeight/each) + 1
	for i, name := range names {
		if i%every == 0 && name != "" {
			p.Y.Ticks = append(p.Y.Ticks, chart.Tick{At: float64(i) + .5, Label: name})
		}
	}
	return Rows{p, e}
}

func (r Rows) rowHeight() float64 { return float64(r.Height) / max(r.Y.Max, 1) }

// Bar draws a bar from a row to another one, if it has a length. Thin rows have no titles: one mark has all of a class.
func (r Rows) Bar(class string, top, bottom float64, from, to time.Time, title string) {
	left, right := max(0, r.At(from)), r.At(to)
	if right <= left {
		return
	}
	points := []chart.Point{{X: left, Y: top}, {X: right, Y: bottom}}
	if r.rowHeight() >= lineFrom {
		r.Marks = append(r.Marks, chart.Mark{Shape: chart.Box, Class: class, Title: title, Points: points})
		return
	}
	i := slices.IndexFunc(r.Marks, func(m chart.Mark) bool { return m.Class == class })
	if i < 0 {
		i = len(r.Marks)
		r.Marks = append(r.Marks, chart.Mark{Shape: chart.Boxes, Class: class})
	}
	r.Marks[i].Points = append(r.Marks[i].Points, points...)
}

// Lines draws a line between rows, if they are high enough.
func (r Rows) Lines() {
	if r.rowHeight() < lineFrom {
		return
	}
	lines := chart.Mark{Shape: chart.Boxes, Class: "paper"}
	half := .5 / r.rowHeight()
	for row := 1.; row < r.Y.Max; row++ {
		lines.Points = append(lines.Points, chart.Point{Y: row - half}, chart.Point{X: r.X.Max, Y: row + half})
	}
	r.Marks = append(r.Marks, lines)
}

// lanes give each of several bars a lane. Bars share a lane if they follow each other.
type lanes []time.Time // the end of the last bar of each lane

func (l *lanes) take(from, to time.Time) int {
	lane := slices.IndexFunc(*l, func(until time.Time) bool { return !until.After(from) })
	if lane < 0 {
		lane = len(*l)
		*l = append(*l, time.Time{})
	}
	(*l)[lane] = to
	return lane
}

// wait is a time in which a gang waits, and its lane.
type wait struct {
	story.Phase
	gang, lane int
}

// waits are the waits of all stories in the order of their begin, and how many lanes they need.
func (r *Record) waits() (out []wait, count int) {
	for i := range r.Stories {
		for _, p := range r.Stories[i].Phases(r.Last) {
			if p.Kind == story.KindWaiting {
				out = append(out, wait{Phase: p, gang: i})
			}
		}
	}
	slices.SortStableFunc(out, func(a, b wait) int {
		return cmp.Or(a.From.Compare(b.From), a.To.Compare(b.To))
	})
	var l lanes
	for i := range out {
		out[i].lane = l.take(out[i].From, out[i].To)
	}
	return out, len(l)
}
