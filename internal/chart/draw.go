// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Measures around the part between the axes, in pixels.
const (
	marginRight = 22
	leastLeft   = 64 // if the vertical axis has labels
	legendRow   = 18
	letter      = 6.2
	// Distances of ticks.
	xDistance = 70
	yDistance = 34
)

// drawing is a plot being written. Left and top are where the part between the axes begins.
type drawing struct {
	*Plot
	out       strings.Builder
	left, top int
}

// left is how far the labels of the vertical axis reach.
func (p *Plot) left() int {
	ticks := p.Y.ticks(p.Height / yDistance)
	if len(ticks) == 0 && p.Y.Label == "" {
		return 8
	}
	left, room := leastLeft, 16.
	if p.Y.Label != "" {
		room = 30
	}
	for _, tick := range ticks {
		left = max(left, int(room+TextWidth(tick.Label)))
	}
	return left
}

// top and bottom are how far what is written over and under the plot reaches, without the legend.
func (p *Plot) top() int {
	switch {
	case p.Note != "":
		return 50
	case p.Title != "":
		return 34
	}
	return 8
}

func (p *Plot) bottom() int {
	switch {
	case p.X.Label != "":
		return 46
	case len(p.X.ticks(p.Width/xDistance)) > 0:
		return 28
	}
	return 8
}

// size is that of the whole plot.
func (p *Plot) size(left int) (width, height int) {
	legend := legendOf(p.Legend, p.Width)
	return left + p.Width + marginRight, p.top() + p.Height + p.bottom() + legend.height()
}

// draw returns the elements of the plot.
func (p *Plot) draw(left int) string {
	d := &drawing{Plot: p, left: left, top: p.top()}
	if p.Title != "" {
		fmt.Fprintf(&d.out, `<text class="title" x="%d" y="18">%s</text>`+"\n", d.left, escape(p.Title))
	}
	if p.Note != "" {
		fmt.Fprintf(&d.out, `<text class="note dim" x="%d" y="36">%s</text>`+"\n", d.left, escape(p.Note))
	}
	d.axes()
	for i := range p.Marks {
		d.mark(&p.Marks[i])
	}
	legendOf(p.Legend, p.Width).draw(&d.out, d.left, d.top+p.Height+p.bottom())
	return d.out.String()
}

// part returns where a value is on an axis, from 0 to 1.
func (a *Axis) part(value float64) float64 {
	from, to := a.Min, a.Max
	if a.Log {
		value, from, to = math.Log(math.Max(value, a.Min/2)), math.Log(from), math.Log(to)
	}
	if to == from {
		return 0.5
	}
	return (value - from) / (to - from)
}

func (d *drawing) x(value float64) float64 { return float64(d.left) + d.X.part(value)*float64(d.Width) }

func (d *drawing) y(value float64) float64 {
	part := d.Y.part(value)
	if !d.Y.Down {
		part = 1 - part
	}
	return float64(d.top) + part*float64(d.Height)
}

// n writes a coordinate.
func n(value float64) string { return strconv.FormatFloat(tenths(value), 'f', -1, 64) }

func tenths(value float64) float64 { return math.Round(value*10)/10 + 0 } // no -0

func (d *drawing) axes() {
	bottom, right := d.top+d.Height, d.left+d.Width
	for _, tick := range d.X.ticks(d.Width / xDistance) {
		x := n(d.x(tick.At))
		if !d.X.Bare {
			fmt.Fprintf(&d.out, `<line class="grid" x1="%s" x2="%s" y1="%d" y2="%d"/>`, x, x, d.top, bottom)
		}
		fmt.Fprintf(&d.out, `<text class="%s" x="%s" y="%d" text-anchor="middle">%s</text>`+"\n", tick.class(), x, bottom+16, escape(tick.Label))
	}
	for _, tick := range d.Y.ticks(d.Height / yDistance) {
		y := d.y(tick.At)
		if !d.Y.Bare {
			fmt.Fprintf(&d.out, `<line class="grid" x1="%d" x2="%d" y1="%s" y2="%s"/>`, d.left, right, n(y), n(y))
		}
		fmt.Fprintf(&d.out, `<text class="%s" x="%d" y="%s" text-anchor="end">%s</text>`+"\n", tick.class(), d.left-7, n(y+3.8), escape(tick.Label))
	}
	if !d.Bare {
		fmt.Fprintf(&d.out, `<rect class="grid" x="%d" y="%d" width="%d" height="%d"/>`+"\n", d.left, d.top, d.Width, d.Height)
	}
	if d.X.Label != "" {
		fmt.Fprintf(&d.out, `<text x="%s" y="%d" text-anchor="middle">%s</text>`+"\n", n(float64(d.left)+float64(d.Width)/2), bottom+34, escape(d.X.Label))
	}
	if d.Y.Label != "" {
		fmt.Fprintf(&d.out, `<text transform="translate(13 %s) rotate(-90)" text-anchor="middle">%s</text>`+"\n", n(float64(d.top)+float64(d.Height)/2), escape(d.Y.Label))
	}
}

func (t Tick) class() string {
	if t.Class == "" {
		return "dim"
	}
	return t.Class
}

func (d *drawing) mark(m *Mark) {
	if len(m.Points) == 0 {
		return
	}
	title := ""
	if m.Title != "" {
		title = "<title>" + escape(m.Title) + "</title>"
	}
	first := m.Points[0]
	switch m.Shape {
	case Line, Steps:
		fmt.Fprintf(&d.out, `<path class="line %s" d="%s">%s</path>`+"\n", m.Class, d.path(m.Points, m.Shape == Steps), title)
	case Area:
		last, bottom := m.Points[len(m.Points)-1], n(d.y(d.Y.Min))
		fmt.Fprintf(&d.out, `<path class="%s" d="%sL%s %sL%s %sZ">%s</path>`+"\n",
			m.Class, d.path(m.Points, true), n(d.x(last.X)), bottom, n(d.x(first.X)), bottom, title)
	case Dots:
		radius := m.Radius
		if radius == 0 {
			radius = 3.5
		}
		for _, point := range m.Points {
			fmt.Fprintf(&d.out, `<circle class="dot %s" cx="%s" cy="%s" r="%s">%s</circle>`+"\n", m.Class, n(d.x(point.X)), n(d.y(point.Y)), n(radius), title)
		}
	case Box:
		second := m.Points[1]
		x, y := math.Min(d.x(first.X), d.x(second.X)), math.Min(d.y(first.Y), d.y(second.Y))
		width, height := math.Abs(d.x(first.X)-d.x(second.X)), math.Abs(d.y(first.Y)-d.y(second.Y))
		fmt.Fprintf(&d.out, `<rect class="%s" x="%s" y="%s" width="%s" height="%s">%s</rect>`+"\n", m.Class, n(x), n(y), n(math.Max(width, 0.5)), n(math.Max(height, 0.5)), title)
	case Boxes:
		fmt.Fprintf(&d.out, `<path class="%s" shape-rendering="crispEdges" d="%s"/>`+"\n", m.Class, d.boxes(m.Points))
	default:
		d.text(m)
	}
}

// text draws the title of a mark beside its point.
func (d *drawing) text(m *Mark) {
	class, right, down, anchor := m.Class, 0., 4., "middle"
	switch m.Shape {
	case Above:
		down = -5
	case Beside:
		right, anchor = 5, "start"
	case Name:
		class = "name " + class
	}
	fmt.Fprintf(&d.out, `<text class="%s" x="%s" y="%s" text-anchor="%s">%s</text>`+"\n",
		class, n(d.x(m.Points[0].X)+right), n(d.y(m.Points[0].Y)+down), anchor, escape(m.Title))
}

func (d *drawing) path(points []Point, steps bool) string {
	var out strings.Builder
	for i, point := range points {
		x, y := n(d.x(point.X)), n(d.y(point.Y))
		switch {
		case i == 0:
			out.WriteString("M" + x + " " + y)
		case steps:
			out.WriteString("H" + x + "V" + y)
		default:
			out.WriteString("L" + x + " " + y)
		}
	}
	return out.String()
}

// boxes is the path of rectangles.
func (d *drawing) boxes(points []Point) string {
	var out strings.Builder
	for pair := range slices.Chunk(points, 2) {
		x, y := tenths(d.x(pair[0].X)), tenths(d.y(pair[0].Y)) // so that neighbors have the same edge
		width, height := math.Max(tenths(d.x(pair[1].X))-x, 0.3), math.Max(tenths(d.y(pair[1].Y))-y, 0.3)
		fmt.Fprintf(&out, "M%s %sh%sv%sh-%sz", n(x), n(y), n(width), n(height), n(width))
	}
	return out.String()
}

// legend is where the entries of a legend are: in one row, or in columns of the same width.
type legend struct {
	entries []Entry
	rows    int
	column  float64 // its width; 0 for one row
}

func legendOf(entries []Entry, width int) legend {
	all, widest := 0., 0.
	for _, entry := range entries {
		all, widest = all+entry.width(), max(widest, entry.width())
	}
	switch {
	case len(entries) == 0:
		return legend{}
	case all <= float64(width):
		return legend{entries, 1, 0}
	}
	columns := max(1, int(float64(width)/widest))
	return legend{entries, (len(entries) + columns - 1) / columns, widest}
}

func (e Entry) width() float64 { return 34 + TextWidth(e.Label) }

func (l legend) height() int { return l.rows * legendRow }

func (l legend) draw(out *strings.Builder, left, top int) {
	along := float64(left)
	for i, entry := range l.entries {
		x, y := along, float64(top)
		if l.column > 0 {
			x, y = float64(left)+float64(i/l.rows)*l.column, y+float64(i%l.rows*legendRow)
		}
		along += entry.width()
		if strings.Contains(entry.Class, "line") {
			fmt.Fprintf(out, `<path class="%s" d="M%s %sh16"/>`, entry.Class, n(x), n(y+5))
		} else {
			fmt.Fprintf(out, `<rect class="%s" x="%s" y="%s" width="14" height="10"/>`, entry.Class, n(x), n(y))
		}
		fmt.Fprintf(out, `<text x="%s" y="%s">%s</text>`+"\n", n(x+21), n(y+9), escape(entry.Label))
	}
}

// escape is a text as a part of XML, which has no place for most control characters.
func escape(text string) string {
	var out strings.Builder
	_ = xml.EscapeText(&out, []byte(text)) // a builder takes everything
	return out.String()
}

// TextWidth is about how wide a text of a plot is, in pixels.
func TextWidth(text string) float64 { return letter * float64(len([]rune(text))) }
