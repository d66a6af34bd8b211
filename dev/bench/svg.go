// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"cmp"
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// Measures of the drawing, in pixels.
const (
	nameWidth   = 190
	columnWidth = 168
	barWidth    = 96 // of the longest bar; its value is beside it
	rowHeight   = 22
	margin      = 24
	titleHeight = 74
	legend      = 28 // height
)

// drawn are the figures of the drawing.
var drawn = []string{"ratio", "hostage", "waitP95", "podsPerSecond", "cpuPerPod", "writesPerPod", "unfair"}

// SVG draws the comparison: a row for each scheduler, and a column for each figure, with the median as
// a bar and the range as a line.
func (c *Comparison) SVG() string {
	var out strings.Builder
	columns := 0
	height := margin + legend
	for _, s := range c.Scenarios {
		columns = max(columns, len(s.columns()))
		height += titleHeight + len(s.Rows)*rowHeight + margin
	}
	width := 2*margin + nameWidth + columns*columnWidth
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif" font-size="12" fill="#1f2933">
<style>.dim{fill:#7b8794} .ours{fill:#1f6feb} .peer{fill:#9aa5b1} .cut{fill-opacity:.35} line{stroke:#1f2933} .rule{stroke:#e4e7eb}</style>
<rect width="100%%" height="100%%" fill="#fff"/>
`, width, height, width, height)
	fmt.Fprintf(&out, `<g transform="translate(%d,%d)"><rect class="ours" width="12" height="12"/><text x="18" y="10">ours</text>
<rect class="peer" x="64" width="12" height="12"/><text x="82" y="10">other schedulers</text>
<line x1="200" x2="224" y1="6" y2="6"/><text x="232" y="10">the range over the seeds; a bar ends at the median</text></g>
`, margin, margin)
	y := margin + legend
	for _, s := range c.Scenarios {
		s.draw(&out, y)
		y += titleHeight + len(s.Rows)*rowHeight + margin
	}
	out.WriteString("</svg>\n")
	return out.String()
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

func (s *ScenarioRows) draw(out *strings.Builder, top int) {
	columns := s.columns()
	text := func(x float64, y int, attributes, format string, args ...any) {
		fmt.Fprintf(out, `<text x="%.1f" y="%d"%s>%s</text>`+"\n", x, y, attributes, html.EscapeString(fmt.Sprintf(format, args...)))
	}
	text(margin, top+18, ` font-size="17" font-weight="600"`, "%s: %s", s.Name, s.What)
	text(margin, top+38, ` class="dim"`, "%d gangs with %d pods on %d nodes; no makespan is shorter than %.1f s; pale: not all gangs finished, and bars may be cut", s.Gangs, s.Pods, s.Nodes, s.Bound)
	for j, f := range columns {
		better := "more is better"
		if f.less {
			better = "less is better"
		}
		x := float64(margin + nameWidth + j*columnWidth)
		text(x, top+56, ` font-weight="600"`, "%s", f.title)
		text(x, top+69, ` class="dim" font-size="10"`, "%s", better)
	}
	for i, row := range s.Rows {
		y := top + titleHeight + i*rowHeight
		fmt.Fprintf(out, `<line class="rule" x1="%d" x2="%d" y1="%d" y2="%d"/>`+"\n", margin, margin+nameWidth+len(columns)*columnWidth, y, y)
		weight := ""
		if row.Ours {
			weight = ` font-weight="600"`
		}
		text(margin, y+15, weight, "%s", row.System)
		if len(row.Troubles) == row.Runs {
			text(margin+nameWidth, y+15, ` class="dim"`, "failed")
		}
		for j, f := range columns {
			if v, ok := row.Figures[f.name]; ok {
				s.bar(out, row, f, v, float64(margin+nameWidth+j*columnWidth), float64(y))
			}
		}
	}
}

// bar draws the value of a figure. The longest bar is of a scheduler that finished all gangs, if there is one.
func (s *ScenarioRows) bar(out *strings.Builder, row Row, f figure, v Value, x, y float64) {
	finished, all := 0.0, 0.0
	for _, other := range s.Rows {
		all = max(all, other.Figures[f.name].Most)
		if other.Limits == 0 {
			finished = max(finished, other.Figures[f.name].Most)
		}
	}
	length := func(value float64) float64 { return min(value/math.Max(cmp.Or(finished, all), 1e-9), 1) * barWidth }
	class := "peer"
	if row.Ours {
		class = "ours"
	}
	if row.Limits > 0 {
		class += " cut"
	}
	fmt.Fprintf(out, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="12" rx="2"/>`+"\n", class, x, y+5, math.Max(length(v.Median), 1))
	if v.Least != v.Most {
		fmt.Fprintf(out, `<line x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`+"\n", x+length(v.Least), x+length(v.Most), y+11, y+11)
	}
	fmt.Fprintf(out, `<text x="%.1f" y="%.1f">`+f.format+"</text>\n", x+length(v.Most)+5, y+15, v.Median)
}
