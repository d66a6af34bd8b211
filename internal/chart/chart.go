// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package chart draws plots as SVG: in a page, or in a file that stands alone. Both have colors for a light screen and for
// paper, and for a dark screen.
package chart

import "fmt"

// Plot is a drawing with two axes.
type Plot struct {
	// Note is below the title.
	Title, Note string
	// Width and Height are those of the part between the axes, in pixels.
	Width, Height int
	X, Y          Axis
	// Bare is true if there is no frame around this part.
	Bare   bool
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

// Tick is a labeled value of an axis. Class is "", or strong for a label that stands out.
type Tick struct {
	At    float64
	Label string
	Class string
}

// Point is a point in the units of the axes.
type Point struct{ X, Y float64 }

// Shape is what a mark draws.
type Shape int

// Shapes.
const (
	Line   Shape = iota // through all points
	Steps               // a line whose value holds until the next point
	Area                // Steps, filled down to 0
	Dots                // a dot at each point
	Box                 // a rectangle between two points
	Boxes               // many of them, without titles: two points for each
	Text                // the title, at one point
	Above               // the title, above one point
	Beside              // the title, to the right of one point
	Name                // the title, at one point in a rectangle of the same class
)

// Mark is drawn in a plot. Class has classes of the style sheet: a color (Color, ink, gray, paper or grid), and pale,
// faint, tint1 to tint3, or dashed.
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

// Color returns the class of the i-th series.
func Color(i int) string { return fmt.Sprintf("c%d", i) }

// Inline returns the plot as an element of a page.
func (p *Plot) Inline() string { return p.figure().Inline() }

// File returns the plot as a file.
func (p *Plot) File() []byte { return p.figure().File() }

func (p *Plot) figure() *Figure { return &Figure{Rows: []Row{{Plots: []*Plot{p}}}} }
