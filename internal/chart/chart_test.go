// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"strings"
	"testing"
)

// Long labels of the vertical axis do not reach its name, which is at its left.
func TestLeft(t *testing.T) {
	for most, want := range map[float64]int{9: 64, 300_000: 67, 9e6: 64} {
		p := &Plot{Width: 400, Height: 200, X: Axis{Max: 1}, Y: Axis{Label: "node-seconds", Max: most}}
		if svg := p.Inline(); !strings.Contains(svg, fmt.Sprintf(`<rect class="grid" x="%d"`, want)) {
			t.Errorf("to %g, the plot does not begin at %d: %s", most, want, svg[:300])
		}
	}
}

// Many rectangles are one path.
func TestBoxes(t *testing.T) {
	p := &Plot{Width: 100, Height: 100, X: Axis{Max: 10}, Y: Axis{Max: 10, Down: true}, Marks: []Mark{{Shape: Boxes, Class: "c0", Points: []Point{{0, 0}, {5, 1}, {5, 2}, {10, 4}}}}}
	if svg, want := p.Inline(), `<path class="c0" shape-rendering="crispEdges" d="M64 8h50v10h-50zM114 28h50v20h-50z"/>`; !strings.Contains(svg, want) {
		t.Errorf("%s is not in %s", want, svg)
	}
}
