// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"cmp"
	"fmt"
	"strings"
)

// Figure is a drawing of several plots, in rows. The plots of a column begin at the same place.
type Figure struct {
	Title  string
	Legend []Entry
	Rows   []Row
}

// Row has plots beside each other. Its title is above them, with the note below the title.
type Row struct {
	Title, Note string
	Plots       []*Plot
}

// Measures of figures, in pixels.
const (
	figureMargin = 8
	headHeight   = 32
	noteHeight   = 18
)

// File returns the figure as a file.
func (f *Figure) File() []byte {
	body, width, height := f.draw()
	return []byte(f.svg("<style>"+Style(body)+`</style><rect class="paper" width="100%" height="100%"/>`+"\n"+body, width, height))
}

// Inline returns the figure as an element of a page, which has the Style of its drawings.
func (f *Figure) Inline() string { return f.svg(f.draw()) }

func (f *Figure) svg(body string, width, height int) string {
	label := f.Title
	if len(f.Rows) > 0 && len(f.Rows[0].Plots) > 0 {
		label = cmp.Or(label, f.Rows[0].Title, f.Rows[0].Plots[0].Title)
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" class="plot" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="%s">`+"\n%s</svg>\n",
		width, height, width, height, escape(label), body)
}

// lefts are how far the labels of the vertical axes reach, by column.
func (f *Figure) lefts() (out []int) {
	for _, row := range f.Rows {
		for i, p := range row.Plots {
			if i == len(out) {
				out = append(out, 0)
			}
			out[i] = max(out[i], p.left())
		}
	}
	return out
}

// draw returns the elements of the figure, and its size.
func (f *Figure) draw() (body string, width, height int) {
	var out strings.Builder
	lefts, y := f.lefts(), 0
	head := func(class, text string, down int) {
		if text != "" {
			y += down
			fmt.Fprintf(&out, `<text class="%s" x="%d" y="%d">%s</text>`+"\n", class, figureMargin, y-8, escape(text))
			width = max(width, 2*figureMargin+int(TextWidth(text)))
		}
	}
	head("head", f.Title, headHeight)
	for _, row := range f.Rows {
		x := 0
		for i, p := range row.Plots {
			w, _ := p.size(lefts[i])
			x += w
		}
		width = max(width, x)
	}
	if len(f.Legend) > 0 {
		l := legendOf(f.Legend, width-2*figureMargin)
		l.draw(&out, figureMargin, y+6)
		y += l.height() + 12
	}
	for _, row := range f.Rows {
		head("head", row.Title, headHeight)
		head("note dim", row.Note, noteHeight)
		x, highest := 0, 0
		for i, p := range row.Plots {
			w, h := p.size(lefts[i])
			if x == 0 && y == 0 {
				out.WriteString(p.draw(lefts[i]))
			} else {
				fmt.Fprintf(&out, `<g transform="translate(%d %d)">`+"\n%s</g>\n", x, y, p.draw(lefts[i]))
			}
			x, highest = x+w, max(highest, h)
		}
		y += highest
	}
	return out.String(), width, y
}
