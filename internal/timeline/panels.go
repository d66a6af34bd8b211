// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"

	"github.com/flux-elastic/flux-elastic/internal/chart"
)

// Panel is a record in a drawing of several records.
type Panel struct {
	Title, Note string
	Record      *Record
}

// panelHeight and panelWidth are those of the rows of a panel, in pixels.
const (
	panelHeight = 150
	panelWidth  = 860
)

// Classes of panels.
const (
	runsClass = "c0"
	heldClass = "c1"
	idleClass = "gray faint"
)

// Panels draws records below each other, each from its beginning, with one axis of time. A row is a node. The color of a
// row says whether a command runs on the node, a pod only holds it, or it is idle. A command has one of four shades.
func Panels(title string, panels []Panel) *chart.Figure {
	f := &chart.Figure{Title: title, Legend: []chart.Entry{
		{Label: "a command runs", Class: runsClass}, {Label: "pods hold the node, and their command does not run", Class: heldClass}, {Label: "idle", Class: idleClass},
	}}
	longest := 1.0
	for _, p := range panels {
		from, to := p.Record.bounds()
		longest = max(longest, to.Sub(from).Seconds())
	}
	for i, p := range panels {
		plot := p.plot(longest)
		if i < len(panels)-1 {
			plot.X.Label, plot.X.Ticks = "", []chart.Tick{}
		}
		f.Rows = append(f.Rows, chart.Row{Plots: []*chart.Plot{plot}})
	}
	return f
}

func (p *Panel) plot(longest float64) *chart.Plot {
	e := Extent{Least: longest}
	e.From, e.To = p.Record.bounds()
	rows := NewRows(p.Title, p.Record.Nodes, e)
	rows.Note, rows.Width, rows.Height, rows.Bare = p.Note, panelWidth, panelHeight, true
	rows.X.Bare, rows.Y.Ticks = true, []chart.Tick{}
	rows.Bar(idleClass, 0, rows.Y.Max, e.From, e.To, "")
	for _, b := range p.Record.blocks() {
		shade := runsClass
		if i := b.gang % 4; i > 0 {
			shade += fmt.Sprint(" tint", i)
		}
		rows.block(&b, heldClass, shade, "", p.Record.Last)
	}
	return rows.Plot
}
