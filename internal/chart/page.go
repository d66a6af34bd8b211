// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	_ "embed"
	"fmt"
	"strings"
)

//go:embed page.css
var pageStyle string

// Page is a page of drawings and tables that needs no other file. Templates would keep the linker from leaving out what a program
// does not use: kubectl-minicluster would be twice as large.
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

// HTML returns the page.
func (p *Page) HTML() []byte {
	var out strings.Builder
	fmt.Fprintf(&out, `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>%s</title>
<style>
%s
%s</style>
<h1>%[1]s</h1>
<p>%[4]s</p>
`, escape(p.Title), p.style(), pageStyle, escape(p.Subtitle))
	if len(p.Tiles) > 0 {
		out.WriteString("<div class=\"tiles\">\n")
		for _, t := range p.Tiles {
			fmt.Fprintf(&out, "<div class=\"tile\"><span>%s</span><b>%s</b><div class=\"more\">%s</div></div>\n", escape(t.Label), escape(t.Value), escape(t.More))
		}
		out.WriteString("</div>\n")
	}
	for _, s := range p.Sections {
		s.write(&out)
	}
	out.WriteString("</html>\n")
	return []byte(out.String())
}

// style is the style sheet of the page's drawings.
func (p *Page) style() string {
	var drawings []string
	for _, s := range p.Sections {
		for _, d := range s.Drawings {
			drawings = append(drawings, d.Plot.Inline())
		}
	}
	return variables() + Style(drawings...)
}

func (s *Section) write(out *strings.Builder) {
	if s.Title != "" {
		fmt.Fprintf(out, "<h2>%s</h2>\n", escape(s.Title))
	}
	if len(s.Drawings) > 0 {
		out.WriteString(`<div class="drawings">`)
		for _, d := range s.Drawings {
			class := ""
			if d.Plot.Width > widePlot {
				class = ` class="wide"`
			}
			fmt.Fprintf(out, "<figure%s>%s<figcaption>%s</figcaption></figure>", class, d.Plot.Inline(), escape(d.Caption))
		}
		out.WriteString("</div>\n")
	}
	for _, t := range s.Tables {
		out.WriteString(`<div class="scroll"><table><thead>`)
		t.writeRow(out, "th", t.Header)
		out.WriteString("</thead>\n<tbody>")
		for _, row := range t.Rows {
			t.writeRow(out, "td", row)
		}
		out.WriteString("</tbody></table></div>\n")
	}
}

func (t *Table) writeRow(out *strings.Builder, element string, cells []string) {
	out.WriteString("<tr>")
	for i, cell := range cells {
		class := ""
		if i < t.Left {
			class = ` class="left"`
		}
		fmt.Fprintf(out, "<%s%s>%s</%[1]s>", element, class, escape(cell))
	}
	out.WriteString("</tr>\n")
}
