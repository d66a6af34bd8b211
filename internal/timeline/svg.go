// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// Measures of the drawing, in pixels.
const (
	plotWidth    = 1100
	marginLeft   = 90
	marginRight  = 30
	marginTop    = 84
	marginBottom = 46
	waitGap      = 8 // between the rows of nodes and those of waits
	legendRow    = 20
	legendColumn = 280
	labelHeight  = 11 // the least height of a row with its node's name
	letterWidth  = 6.2
)

// style has colors for a light screen and for paper, and for a dark screen.
const style = `<style>.timeline{fill:#1f2933}.paper{fill:#fff}.grid{stroke:#e4e7eb}.dim{fill:#616e7c}.key{fill:#334e68}
rect.w{fill-opacity:.32}rect.q{fill-opacity:.6}.name{fill:#fff;font-weight:600;pointer-events:none;paint-order:stroke;stroke-width:3px;stroke-linejoin:round}
@media screen and (prefers-color-scheme:dark){.timeline{fill:#e4e7eb}.paper{fill:#15191e}.grid{stroke:#323f4b}.dim{fill:#9aa5b1}.key{fill:#829ab1}}</style>
`

// SVG draws the record.
func (r *Recorder) SVG(w io.Writer) error {
	d := &drawing{Recorder: r}
	d.layout()
	d.header()
	d.axis()
	for _, lane := range d.lanes() {
		d.lane(lane)
	}
	d.labels()
	d.waiting()
	d.legend()
	d.out.WriteString("</svg>\n")
	_, err := io.WriteString(w, d.out.String())
	return err
}

// drawing is an SVG being written.
type drawing struct {
	*Recorder
	out       strings.Builder
	first     time.Time
	seconds   float64
	rowHeight float64
	rows      map[string]int
	colours   map[string]string
	waits     []lane // of the part below the nodes
	waitLanes int
}

func (d *drawing) layout() {
	first, last := d.bounds()
	for _, wait := range d.Waits() {
		last = later(last, wait.To)
	}
	d.first, d.seconds = first, math.Max(last.Sub(first).Seconds(), 1)
	d.rowHeight = math.Min(18, math.Max(1, 720/float64(max(len(d.nodes), 1))))
	d.rows = map[string]int{}
	for i, node := range d.nodes {
		d.rows[node] = i
	}
	d.layWaits()
	// Consecutive hues are a golden angle apart, so that neighbours have very different colours.
	d.colours = map[string]string{}
	for i, run := range d.Runs() {
		d.colours[run.Name] = fmt.Sprintf("hsl(%.0f,%d%%,%d%%)", math.Mod(float64(i)*137.508+205, 360), 48+i%3*7, 50-i%2*7)
	}
}

func (d *drawing) x(t time.Time) float64 {
	return marginLeft + t.Sub(d.first).Seconds()/d.seconds*plotWidth
}

func (d *drawing) y(row int) float64 { return marginTop + float64(row)*d.rowHeight }

// bottom is the end of the rows of nodes, and foot that of the rows of waits.
func (d *drawing) bottom() float64 { return d.y(len(d.nodes)) }

func (d *drawing) foot() float64 {
	if d.waitLanes == 0 {
		return d.bottom()
	}
	return d.bottom() + waitGap + float64(d.waitLanes)*d.waitHeight()
}

func (d *drawing) waitHeight() float64 {
	return math.Min(8, math.Max(2, 240/float64(max(d.waitLanes, 1))))
}

func (d *drawing) legendRows() int {
	columns := (marginLeft + plotWidth) / legendColumn
	return (len(d.runs) + columns - 1) / columns
}

func (d *drawing) header() {
	width := marginLeft + plotWidth + marginRight
	height := d.foot() + marginBottom + float64(d.legendRows()*legendRow) + 16
	fmt.Fprintf(&d.out, `<svg xmlns="http://www.w3.org/2000/svg" class="timeline" viewBox="0 0 %d %.0f" width="%d" height="%.0f" font-family="system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif" font-size="11">
%s<rect class="paper" width="100%%" height="100%%"/>
`, width, height, width, height, style)
	usage := d.Usage()
	fmt.Fprintf(&d.out, `<text x="%d" y="30" font-size="19" font-weight="600">Which node ran what</text>`+"\n", marginLeft)
	fmt.Fprintf(&d.out, `<text x="%d" y="50" font-size="13" class="dim">%d MiniClusters on %d nodes in %.0f s: commands ran on %.0f %% of the nodes' time, %.0f %% went to starting and ending, %.0f %% was idle</text>`+"\n",
		marginLeft, len(d.runs), len(d.nodes), usage.Makespan.Seconds(), usage.Running*100, usage.Waiting*100, usage.Idle*100)
	fmt.Fprintf(&d.out, `<g class="dim"><rect class="w key" x="%d" y="61" width="22" height="10"/><text x="%d" y="70">node held, pods start or end</text><rect class="key" x="%d" y="61" width="22" height="10"/><text x="%d" y="70">command runs</text></g>`+"\n",
		marginLeft, marginLeft+28, marginLeft+200, marginLeft+228)
}

// axis draws the grid, the times, and as many names of nodes as fit.
func (d *drawing) axis() {
	unit, name := axisUnit(d.seconds)
	step := tickStep(d.seconds/unit) * unit
	for t := 0.0; t <= d.seconds; t += step {
		x := marginLeft + t/d.seconds*plotWidth
		fmt.Fprintf(&d.out, `<line class="grid" x1="%.1f" x2="%.1f" y1="%d" y2="%.1f"/><text class="dim" x="%.1f" y="%.1f" text-anchor="middle">%.4g %s</text>`+"\n",
			x, x, marginTop, d.foot(), x, d.foot()+16, t/unit, name)
	}
	every := int(math.Ceil(labelHeight / d.rowHeight))
	for i, node := range d.nodes {
		if i%every == 0 {
			fmt.Fprintf(&d.out, `<text class="dim" x="%d" y="%.1f" text-anchor="end" font-size="10">%s</text>`+"\n",
				marginLeft-8, d.y(i)+math.Min(d.rowHeight, labelHeight)-1.5, html.EscapeString(node))
		}
	}
	fmt.Fprintf(&d.out, `<rect x="%d" y="%d" width="%d" height="%.1f" fill="none" class="grid"/>`+"\n", marginLeft, marginTop, plotWidth, d.bottom()-marginTop)
}

// axisUnit returns the unit of the times on the axis, in seconds, and its name.
func axisUnit(seconds float64) (unit float64, name string) {
	switch {
	case seconds > 5*3600:
		return 3600, "h"
	case seconds > 600:
		return 60, "min"
	}
	return 1, "s"
}

// tickStep returns the distance of the times on the axis. It is 1, 2 or 5 times a power of ten, so
// that there are about ten times.
func tickStep(seconds float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(seconds/10)))
	for _, factor := range []float64{1, 2, 5} {
		if seconds/(factor*power) <= 12 {
			return factor * power
		}
	}
	return 10 * power
}

// lane is a span and its part of the row, which spans of the same node share.
type lane struct {
	*Span
	index, of int
}

// lanes returns all spans. Spans that share a node at the same time get different parts of its row.
func (d *drawing) lanes() []lane {
	byNode := map[string][]*Span{}
	for _, span := range d.spans {
		byNode[span.Node] = append(byNode[span.Node], span)
	}
	var out []lane
	for _, node := range d.nodes {
		spans := byNode[node]
		slices.SortFunc(spans, func(a, b *Span) int {
			return cmp.Or(a.Held.Compare(b.Held), cmp.Compare(a.MiniCluster, b.MiniCluster), cmp.Compare(a.Rank, b.Rank))
		})
		var busy []time.Time // the end of the last span, by lane
		first := len(out)
		for _, span := range spans {
			index := slices.IndexFunc(busy, func(until time.Time) bool { return !until.After(span.Held) })
			if index < 0 {
				index = len(busy)
				busy = append(busy, time.Time{})
			}
			busy[index] = span.end(d.last)
			out = append(out, lane{Span: span, index: index})
		}
		for i := first; i < len(out); i++ {
			out[i].of = len(busy)
		}
	}
	return out
}

// lane draws one span: pale while its node is held, full while the command runs.
func (d *drawing) lane(l lane) {
	gap := 1.
	if d.rowHeight < 4 {
		gap = 0
	}
	height := (d.rowHeight - gap) / float64(l.of)
	y := d.y(d.rows[l.Node]) + float64(l.index)*height
	from, to := l.Held, l.end(d.last)
	colour := d.colours[l.MiniCluster]
	fmt.Fprintf(&d.out, `<g fill="%s"><title>%s rank %d on %s: %.1f to %.1f s</title>`, colour,
		html.EscapeString(l.MiniCluster), l.Rank, html.EscapeString(l.Node), from.Sub(d.first).Seconds(), to.Sub(d.first).Seconds())
	bar := func(class string, from, to time.Time) {
		fmt.Fprintf(&d.out, `<rect%s x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, class, d.x(from), y, math.Max(d.x(to)-d.x(from), 0.5), height)
	}
	bar(` class="w"`, from, to)
	if start, end := d.commandTime(l.Span); end.After(start) {
		bar("", start, end)
	}
	d.out.WriteString("</g>\n")
}

// labels writes the name of each MiniCluster into its largest block of rows.
func (d *drawing) labels() {
	for _, run := range d.Runs() {
		var rows []int
		var start, end time.Time // of the time that all rows have in common
		for _, span := range d.spans {
			if span.MiniCluster != run.Name || span.Node == "" {
				continue
			}
			if s, e := d.commandTime(span); e.After(s) {
				rows = append(rows, d.rows[span.Node])
				if start.IsZero() || s.After(start) {
					start = s
				}
				if end.IsZero() || e.Before(end) {
					end = e
				}
			}
		}
		top, size := largestBlock(rows)
		width := d.x(end) - d.x(start)
		if size == 0 || float64(size)*d.rowHeight < 13 || width < letterWidth*float64(len(run.Name))+8 {
			continue
		}
		fmt.Fprintf(&d.out, `<text class="name" stroke="%s" x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n",
			d.colours[run.Name], (d.x(start)+d.x(end))/2, d.y(top)+float64(size)*d.rowHeight/2+4, html.EscapeString(run.Name))
	}
}

// largestBlock returns the longest run of neighbouring rows.
func largestBlock(rows []int) (top, size int) {
	slices.Sort(rows)
	rows = slices.Compact(rows)
	for i := 0; i < len(rows); {
		j := i + 1
		for j < len(rows) && rows[j] == rows[j-1]+1 {
			j++
		}
		if j-i > size {
			top, size = rows[i], j-i
		}
		i = j
	}
	return top, size
}

func (d *drawing) legend() {
	runs := d.Runs()
	slices.SortStableFunc(runs, func(a, b Run) int { return hostlist.Compare(a.Name, b.Name) })
	rows := d.legendRows()
	for i, run := range runs {
		x := marginLeft + i/rows*legendColumn
		y := d.foot() + marginBottom + float64(i%rows*legendRow)
		text := fmt.Sprintf("%s  %d/%d brokers", run.Name, run.Size, run.Wanted)
		if run.Tasks > 0 {
			text += fmt.Sprintf(", %d tasks", run.Tasks)
		}
		if !run.Started.IsZero() && !run.Ended.IsZero() {
			text += fmt.Sprintf(", %.1f s", run.Ended.Sub(run.Started).Seconds())
		}
		fmt.Fprintf(&d.out, `<rect x="%d" y="%.1f" width="11" height="11" rx="2" fill="%s"/><text x="%d" y="%.1f">%s</text>`+"\n",
			x, y, d.colours[run.Name], x+17, y+9.5, html.EscapeString(text))
	}
}
