// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	_ "embed"
	"html/template"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

// Page is a page of drawings and tables that needs no other file.
type Page struct {
	Title, Subtitle string
	Tiles           []Tile
	Sections        []Section
}

// Tile is a figure at the top of a page.
type Tile struct{ Label, Value, More string }

// Section is a part of a page. Title may be "".
type Section struct {
	Title    string
	Drawings []Drawing
	Tables   []Table
}

// Drawing is a plot with its name, which is also that of its file, and a caption.
type Drawing struct {
	Name, Caption string
	Plot          *Plot
}

// Table is a table of texts.
type Table struct {
	Header []string
	Rows   [][]string
	// Left is the number of columns that are aligned to the left.
	Left int
}

// widePlot is the width of plots beside which there is nothing.
const widePlot = 900

// Wide is true if nothing is beside the drawing.
func (d Drawing) Wide() bool { return d.Plot.Width > widePlot }

// SVG is the drawing as an element.
func (d Drawing) SVG() template.HTML { return template.HTML(d.Plot.Inline()) } //nolint:gosec // texts in it are escaped

// Style is the style sheet of the page.
func (p *Page) Style() template.CSS {
	var drawings []string
	for _, s := range p.Sections {
		for _, d := range s.Drawings {
			drawings = append(drawings, d.Plot.Inline())
		}
	}
	return template.CSS(variables() + Style(drawings...)) //nolint:gosec // it is ours
}

// HTML returns the page.
func (p *Page) HTML() ([]byte, error) {
	var out bytes.Buffer
	err := page.Execute(&out, p)
	return out.Bytes(), err
}
