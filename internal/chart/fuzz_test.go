// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"testing"
)

// A plot of any texts and finite numbers is XML without an error, and has a bounded number of ticks.
func FuzzFile(f *testing.F) {
	f.Add("a <b> & \"c\" '", "s", 0., 10., false)
	f.Add("\x00\x1b[2J\u0085\ufffe", "\xff]]>", 1e17, 1e17+16, false)
	f.Add("", "", 1.7e18, 1.7e18+1000, true)
	f.Add("x", "y", -math.MaxFloat64, math.MaxFloat64, false)
	f.Add("x", "y", 5e-324, math.MaxFloat64, true)
	f.Add("x", "y", 0., 1., true)
	f.Fuzz(func(t *testing.T, title, label string, least, most float64, log bool) {
		if math.IsNaN(least-least) || math.IsNaN(most-most) {
			return
		}
		axis := Axis{Label: label, Min: least, Max: most, Log: log}
		p := &Plot{Title: title, Note: label, Width: 600, Height: 300, X: axis, Y: axis, Legend: []Entry{{label, "c0"}, {title, "c1 line"}}, Marks: []Mark{
			{Shape: Line, Class: "c0", Points: []Point{{least, most}, {most, least}}, Title: title},
			{Shape: Dots, Class: "c1", Points: []Point{{most, most}}, Title: label},
			{Shape: Name, Class: "c2", Points: []Point{{least, least}}, Title: title},
		}}
		if n := len(axis.ticks(p.Width / xDistance)); n > 1000 {
			t.Errorf("%d ticks from %g to %g", n, least, most)
		}
		figure := Figure{Title: title, Legend: p.Legend, Rows: []Row{{Title: label, Note: title, Plots: []*Plot{p}}}}
		for reader := xml.NewDecoder(bytes.NewReader(figure.File())); ; {
			if _, err := reader.Token(); errors.Is(err, io.EOF) {
				return
			} else if err != nil {
				t.Fatal(err)
			}
		}
	})
}
