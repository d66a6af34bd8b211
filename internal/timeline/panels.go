// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"
	"time"
)

// Measures of the panels, in pixels.
const (
	panelWidth  = 860
	panelHeight = 150
	panelMargin = 20
	panelTitle  = 44 // above each panel
	panelsTop   = 62
	panelsFoot  = 36
)

// Panel is a record in a drawing of several records.
type Panel struct {
	Title, Note string
	Record      *Recorder
}

// styles has colors for a light page and for a dark one. A command has one of four shades of blue.
const styles = `<style>.page{fill:#fff}text{fill:#1f2933}.dim{fill:#616e7c}.idle{fill:#dde1e6}.held{fill:#f0883e;stroke:#f0883e}
.run0{fill:#1158c7;stroke:#1158c7}.run1{fill:#1f6feb;stroke:#1f6feb}.run2{fill:#388bfd;stroke:#388bfd}.run3{fill:#58a6ff;stroke:#58a6ff}
path{stroke-width:1.05}rect{stroke:none}
@media(prefers-color-scheme:dark){.page{fill:#0d1117}text{fill:#e6edf3}.dim{fill:#9198a1}.idle{fill:#2a313c}}</style>
`

// Panels draws records below each other, each from its beginning, with one axis of time. A row is a
// node. The color of a row says whether a command runs on the node, a pod only holds it, or it is idle.
func Panels(w io.Writer, title string, panels []Panel) error {
	seconds := 1.0
	for _, p := range panels {
		seconds = math.Max(seconds, p.Record.Usage().Makespan.Seconds())
	}
	bottom := panelsTop + len(panels)*(panelTitle+panelHeight)
	width, height := panelWidth+2*panelMargin, bottom+panelsFoot
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif" font-size="12">
%s<rect class="page" width="100%%" height="100%%"/>
<text x="%d" y="26" font-size="16" font-weight="600">%s</text>
`, width, height, width, height, styles, panelMargin, html.EscapeString(title))
	drawKey(&out)
	for i, p := range panels {
		p.draw(&out, panelsTop+i*(panelTitle+panelHeight)+panelTitle, seconds)
	}
	for t := 0.0; t <= seconds; t += tickStep(seconds) {
		fmt.Fprintf(&out, `<text class="dim" x="%.1f" y="%d" text-anchor="middle">%g s</text>`+"\n", panelMargin+t/seconds*panelWidth, bottom+18, t)
	}
	out.WriteString("</svg>\n")
	_, err := io.WriteString(w, out.String())
	return err
}

// drawKey says what the colors mean.
func drawKey(out *strings.Builder) {
	x := float64(panelMargin)
	for _, entry := range []struct{ class, text string }{
		{"run1", "a command runs"}, {"held", "pods hold the node, and their command does not run"}, {"idle", "idle"},
	} {
		fmt.Fprintf(out, `<rect class="%s" x="%.0f" y="41" width="22" height="10"/><text class="dim" x="%.0f" y="50">%s</text>`+"\n", entry.class, x, x+28, entry.text)
		x += 52 + letterWidth*float64(len(entry.text))
	}
}

// draw draws a panel whose rows begin at top. It scales lines of a thickness of 1, with x in tenths of
// a second and y in rows: their coordinates are short.
func (p *Panel) draw(out *strings.Builder, top int, seconds float64) {
	first, last := p.Record.bounds()
	rows := map[string]int{}
	for i, node := range p.Record.nodes {
		rows[node] = i
	}
	fmt.Fprintf(out, `<text x="%d" y="%d" font-size="14" font-weight="600">%s <tspan class="dim" font-size="12" font-weight="400">%s</tspan></text>`+"\n",
		panelMargin, top-8, html.EscapeString(p.Title), html.EscapeString(p.Note))
	fmt.Fprintf(out, `<rect class="idle" x="%d" y="%d" width="%.1f" height="%d"/>`+"\n", panelMargin, top, last.Sub(first).Seconds()/seconds*panelWidth, panelHeight)
	scale := panelHeight / float64(max(len(rows), 1))
	fmt.Fprintf(out, `<g transform="translate(%d %.3f)scale(%.5f %.5f)">`+"\n", panelMargin, float64(top)+scale/2, panelWidth/seconds/10, scale)
	lines := p.lines(rows, first)
	for _, class := range []string{"held", "run0", "run1", "run2", "run3"} {
		fmt.Fprintf(out, `<path class="%s" d="%s"/>`+"\n", class, strings.Join(lines[class], ""))
	}
	out.WriteString("</g>\n")
}

// lines returns the lines of the rows, by class.
func (p *Panel) lines(rows map[string]int, first time.Time) map[string][]string {
	shade := map[string]string{}
	for i, run := range p.Record.Runs() {
		shade[run.Name] = fmt.Sprint("run", i%4)
	}
	out := map[string][]string{}
	for _, span := range p.Record.spans {
		line := func(class string, from, to time.Time) {
			x, end := math.Round(from.Sub(first).Seconds()*10), math.Round(to.Sub(first).Seconds()*10)
			if end > x {
				out[class] = append(out[class], fmt.Sprintf("M%g %dh%g", x, rows[span.Node], end-x))
			}
		}
		until := span.end(p.Record.last)
		start, end := p.Record.commandTime(span)
		if !end.After(start) {
			line("held", span.Held, until)
			continue
		}
		line("held", span.Held, start)
		line(shade[span.MiniCluster], start, end)
		line("held", end, until)
	}
	for _, list := range out {
		slices.Sort(list) // spans are a map
	}
	return out
}
