// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package chart draws plots as SVG: in a page, whose style sheet has the colors, or in a file that stands alone.
package chart

import (
	"fmt"
	"html"
	"math"
	"slices"
	"strings"
)

// Plot is a drawing with two axes.
type Plot struct {
	Title string
	// Width and Height are those of the part between the axes, in pixels.
	Width, Height int
	// Left is the least width of the labels of the vertical axis.
	Left   int
	X, Y   Axis
	Marks  []Mark
	Legend []Entry
}

// Axis is one axis. Without ticks of its own, it gets some.
type Axis struct {
	Label    string
	Min, Max float64
	Log      bool
	Ticks    []Tick
	// Down is true if values increase to the bottom.
	Down bool
	// Bare is true if the axis has no grid.
	Bare bool
	// Whole is true if ticks are at whole numbers alone.
	Whole bool
}

// Tick is a labeled value of an axis.
type Tick struct {
	At    float64
	Label string
}

// Point is a point in the units of the axes.
type Point struct{ X, Y float64 }

// Shape is what a mark draws.
type Shape int

// Shapes.
const (
	Line  Shape = iota // through all points
	Steps              // a line whose value holds until the next point
	Area               // Steps, filled down to 0
	Dots               // a dot at each point
	Box                // a rectangle between two points
	Boxes              // many of them, without titles: two points for each
	Text               // the title, at one point
	Above              // the title, above one point
)

// Mark is drawn in a plot. Class is a class of Style: c0 to c11, ink, dim, pale with a color, or dashed.
type Mark struct {
	Shape  Shape
	Class  string
	Points []Point
	// Title is what a viewer sees over the mark.
	Title string
	// Radius is that of dots, in pixels; 0 stands for 3.5.
	Radius float64
}

// Entry is a line of the legend.
type Entry struct{ Label, Class string }

// Colors is the number of the classes c0, c1 and so on.
const Colors = 12

// Color returns the class of the i-th series.
func Color(i int) string { return fmt.Sprintf("c%d", i%Colors) }

// Style is the style sheet of plots in a page. The page defines its variables: see Light and Dark.
const Style = `.plot{font:11px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}
.plot text{fill:var(--ink)}.plot .dim{fill:var(--dim)}.plot .title{font-size:14px;font-weight:600}
.plot .grid{stroke:var(--grid);fill:none}.plot .line{fill:none;stroke-width:1.8}.plot .dashed{stroke-dasharray:5 4;stroke-width:1.2}
.plot .pale{fill-opacity:.35}.plot .faint{fill-opacity:.2}.plot .dot{fill-opacity:.75}
`

// Light and Dark have the values of the variables of Style.
var (
	Light = [][2]string{
		{"ink", "#1f2933"}, {"dim", "#616e7c"}, {"grid", "#e4e7eb"}, {"paper", "#ffffff"},
		{"c0", "#0072b2"}, {"c1", "#d55e00"}, {"c2", "#009e73"}, {"c3", "#b5568f"}, {"c4", "#c78500"}, {"c5", "#3fa2d9"}, {"c6", "#6a51a3"}, {"c7", "#8c564b"}, {"c8", "#3f4c5a"}, {"c9", "#8f9a27"}, {"c10", "#7a1f3d"}, {"c11", "#1f9e9e"},
	}
	Dark = [][2]string{
		{"ink", "#e4e7eb"}, {"dim", "#9aa5b1"}, {"grid", "#323f4b"}, {"paper", "#15191e"},
		{"c0", "#4ea8de"}, {"c1", "#ff8c42"}, {"c2", "#3ecf9b"}, {"c3", "#e08dc0"}, {"c4", "#f2b84b"}, {"c5", "#8fd3f4"}, {"c6", "#a99be0"}, {"c7", "#c49a8e"}, {"c8", "#8c9bab"}, {"c9", "#c9d45c"}, {"c10", "#d0587e"}, {"c11", "#5fd3d3"},
	}
)

// classes are the rules of the colors.
var classes = func() string {
	var out strings.Builder
	rule := func(class, variable string) {
		fmt.Fprintf(&out, ".plot .%[1]s{fill:var(--%[2]s);stroke:none}.plot .line.%[1]s{fill:none;stroke:var(--%[2]s)}\n", class, variable)
	}
	for i := range Colors {
		rule(Color(i), Color(i))
	}
	rule("ink", "ink")
	rule("gray", "dim")
	return out.String()
}()

// Sheet returns the style sheet of plots in a page.
func Sheet() string { return Style + classes }

// Variables returns declarations of variables.
func Variables(values [][2]string) string {
	var out strings.Builder
	for _, value := range values {
		fmt.Fprintf(&out, "--%s:%s;", value[0], value[1])
	}
	return out.String()
}

// File returns the plot as a file, with light colors.
func (p *Plot) File() []byte {
	var pairs []string
	for _, value := range Light {
		pairs = append(pairs, "var(--"+value[0]+")", value[1])
	}
	sheet := strings.NewReplacer(pairs...).Replace(Sheet())
	return []byte(p.draw("<style>" + sheet + `</style><rect width="100%" height="100%" fill="#fff"/>`))
}

// Inline returns the plot as an element of a page.
func (p *Plot) Inline() string { return p.draw("") }

// Measures around the part between the axes, in pixels.
const (
	marginTop    = 34
	marginBottom = 46
	marginRight  = 22
	leastLeft    = 64
	legendRow    = 18
	letter       = 6.2
	// Distances of ticks.
	xDistance = 70
	yDistance = 34
)

type drawing struct {
	*Plot
	out  strings.Builder
	left int
	rows [][]Entry // of the legend
}

func (p *Plot) draw(style string) string {
	d := &drawing{Plot: p, left: max(p.Left, leastLeft)}
	for _, tick := range p.Y.ticks(p.Height / yDistance) {
		d.left = max(d.left, 30+int(letter*float64(len([]rune(tick.Label)))))
	}
	d.layLegend()
	width, height := d.left+p.Width+marginRight, marginTop+p.Height+marginBottom+len(d.rows)*legendRow
	fmt.Fprintf(&d.out, `<svg xmlns="http://www.w3.org/2000/svg" class="plot" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">%s`+"\n",
		width, height, width, height, html.EscapeString(p.Title), style)
	fmt.Fprintf(&d.out, `<text class="title" x="%d" y="18">%s</text>`+"\n", d.left, html.EscapeString(p.Title))
	d.axes()
	for _, mark := range p.Marks {
		d.mark(mark)
	}
	d.legend()
	d.out.WriteString("</svg>\n")
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
	return marginTop + part*float64(d.Height)
}

func (d *drawing) axes() {
	bottom, right := marginTop+d.Height, d.left+d.Width
	for _, tick := range d.X.ticks(d.Width / xDistance) {
		x := d.x(tick.At)
		if !d.X.Bare {
			fmt.Fprintf(&d.out, `<line class="grid" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/>`, x, x, marginTop, bottom)
		}
		fmt.Fprintf(&d.out, `<text class="dim" x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", x, bottom+16, html.EscapeString(tick.Label))
	}
	for _, tick := range d.Y.ticks(d.Height / yDistance) {
		y := d.y(tick.At)
		if !d.Y.Bare {
			fmt.Fprintf(&d.out, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, d.left, right, y, y)
		}
		fmt.Fprintf(&d.out, `<text class="dim" x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", d.left-7, y+3.8, html.EscapeString(tick.Label))
	}
	fmt.Fprintf(&d.out, `<rect class="grid" x="%d" y="%d" width="%d" height="%d"/>`+"\n", d.left, marginTop, d.Width, d.Height)
	fmt.Fprintf(&d.out, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", float64(d.left)+float64(d.Width)/2, bottom+34, html.EscapeString(d.X.Label))
	if d.Y.Label != "" {
		middle := marginTop + float64(d.Height)/2
		fmt.Fprintf(&d.out, `<text transform="translate(13 %.1f) rotate(-90)" text-anchor="middle">%s</text>`+"\n", middle, html.EscapeString(d.Y.Label))
	}
}

func (d *drawing) mark(m Mark) {
	if len(m.Points) == 0 {
		return
	}
	title := ""
	if m.Title != "" {
		title = "<title>" + html.EscapeString(m.Title) + "</title>"
	}
	first := m.Points[0]
	switch m.Shape {
	case Line, Steps:
		fmt.Fprintf(&d.out, `<path class="line %s" d="%s">%s</path>`+"\n", m.Class, d.path(m.Points, m.Shape == Steps), title)
	case Area:
		last := m.Points[len(m.Points)-1]
		fmt.Fprintf(&d.out, `<path class="%s" d="%sL%.1f %.1fL%.1f %.1fZ">%s</path>`+"\n",
			m.Class, d.path(m.Points, true), d.x(last.X), d.y(d.Y.Min), d.x(first.X), d.y(d.Y.Min), title)
	case Dots:
		radius := m.Radius
		if radius == 0 {
			radius = 3.5
		}
		for _, point := range m.Points {
			fmt.Fprintf(&d.out, `<circle class="dot %s" cx="%.1f" cy="%.1f" r="%.1f">%s</circle>`+"\n", m.Class, d.x(point.X), d.y(point.Y), radius, title)
		}
	case Box:
		second := m.Points[1]
		x, y := math.Min(d.x(first.X), d.x(second.X)), math.Min(d.y(first.Y), d.y(second.Y))
		width, height := math.Abs(d.x(first.X)-d.x(second.X)), math.Abs(d.y(first.Y)-d.y(second.Y))
		fmt.Fprintf(&d.out, `<rect class="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f">%s</rect>`+"\n", m.Class, x, y, math.Max(width, 0.5), math.Max(height, 0.5), title)
	case Boxes:
		fmt.Fprintf(&d.out, `<path class="%s" d="%s"/>`+"\n", m.Class, d.boxes(m.Points))
	case Text, Above:
		down := 4.
		if m.Shape == Above {
			down = -5
		}
		fmt.Fprintf(&d.out, `<text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", d.x(first.X), d.y(first.Y)+down, html.EscapeString(m.Title))
	}
}

func (d *drawing) path(points []Point, steps bool) string {
	var out strings.Builder
	for i, point := range points {
		switch {
		case i == 0:
			out.WriteByte('M')
		case steps:
			fmt.Fprintf(&out, "H%.1fL", d.x(point.X))
		default:
			out.WriteByte('L')
		}
		fmt.Fprintf(&out, "%.1f %.1f", d.x(point.X), d.y(point.Y))
	}
	return out.String()
}

// boxes is the path of rectangles.
func (d *drawing) boxes(points []Point) string {
	var out strings.Builder
	for pair := range slices.Chunk(points, 2) {
		x, y, width := d.x(pair[0].X), d.y(pair[0].Y), math.Max(d.x(pair[1].X)-d.x(pair[0].X), 0.3)
		fmt.Fprintf(&out, "M%.1f %.2fh%.1fv%.2fh%.1fz", x, y, width, math.Max(d.y(pair[1].Y)-y, 0.3), -width)
	}
	return out.String()
}

// layLegend puts the entries of the legend into rows.
func (d *drawing) layLegend() {
	used := 0.0
	for _, entry := range d.Legend {
		width := entry.width()
		if len(d.rows) == 0 || used+width > float64(d.Width) {
			d.rows, used = append(d.rows, nil), 0
		}
		used += width
		last := len(d.rows) - 1
		d.rows[last] = append(d.rows[last], entry)
	}
}

func (e Entry) width() float64 { return 34 + letter*float64(len([]rune(e.Label))) }

func (d *drawing) legend() {
	for i, row := range d.rows {
		x, y := float64(d.left), float64(marginTop+d.Height+marginBottom+i*legendRow)
		for _, entry := range row {
			if strings.Contains(entry.Class, "line") {
				fmt.Fprintf(&d.out, `<path class="%s" d="M%.1f %.1fh16"/>`, entry.Class, x, y+5)
			} else {
				fmt.Fprintf(&d.out, `<rect class="%s" x="%.1f" y="%.1f" width="14" height="10"/>`, entry.Class, x, y)
			}
			fmt.Fprintf(&d.out, `<text x="%.1f" y="%.1f">%s</text>`+"\n", x+21, y+9, html.EscapeString(entry.Label))
			x += entry.width()
		}
	}
}
