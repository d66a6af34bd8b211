// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package chart

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
)

// palette has the colors of a light or of a dark screen.
type palette struct {
	ink, dim, grid, paper string
	// series are the colors of the first series. Those of further ones have a saturation and a lightness, in percent.
	series                []string
	saturation, lightness int
}

var (
	light = palette{
		"#1f2933", "#616e7c", "#e4e7eb", "#ffffff",
		[]string{"#0072b2", "#d55e00", "#009e73", "#b5568f", "#c78500", "#3fa2d9", "#6a51a3", "#8c564b", "#3f4c5a", "#8f9a27", "#7a1f3d", "#1f9e9e"}, 52, 48,
	}
	dark = palette{
		"#e4e7eb", "#9aa5b1", "#323f4b", "#15191e",
		[]string{"#4ea8de", "#ff8c42", "#3ecf9b", "#e08dc0", "#f2b84b", "#8fd3f4", "#a99be0", "#c49a8e", "#8c9bab", "#c9d45c", "#d0587e", "#5fd3d3"}, 60, 66,
	}
)

// shapes are the rules without colors.
const shapes = `.plot{font:11px system-ui,-apple-system,"Segoe UI",Roboto,"DejaVu Sans",sans-serif}.plot .title{font-size:14px;font-weight:600}.plot .head{font-size:17px;font-weight:600}
.plot .note{font-size:12px}.plot .strong,.plot .name{font-weight:600}.plot .line{fill:none;stroke-width:1.8}.plot .dashed{stroke-dasharray:5 4;stroke-width:1.2}
.plot .grid{fill:none;stroke-width:1}.plot .dot{fill-opacity:.75}.plot .tint1{fill-opacity:.85}.plot .tint2{fill-opacity:.7}.plot .tint3{fill-opacity:.55}.plot .pale{fill-opacity:.35}.plot .faint{fill-opacity:.2}
.plot .name{pointer-events:none;paint-order:stroke;stroke-width:3px;stroke-linejoin:round}
`

// rules are the colors of all parts, with those of some series.
func (p palette) rules(series int) string {
	var out strings.Builder
	fmt.Fprintf(&out, ".plot text{fill:%s}.plot .dim{fill:%s}.plot .grid{stroke:%s}", p.ink, p.dim, p.grid)
	rule := func(class, color string) {
		fmt.Fprintf(&out, ".plot .%[1]s{fill:%[2]s;stroke:none}.plot .line.%[1]s{fill:none;stroke:%[2]s}.plot .name.%[1]s{fill:#fff;stroke:%[2]s}", class, color)
	}
	rule("ink", p.ink)
	rule("gray", p.dim)
	rule("paper", p.paper)
	for i := range series {
		rule(Color(i), p.color(i))
	}
	return out.String()
}

// color is that of a series. Hues of neighbors beyond the first ones are a golden angle apart.
func (p palette) color(i int) string {
	if i < len(p.series) {
		return p.series[i]
	}
	return fmt.Sprintf("hsl(%.0f,%d%%,%d%%)", math.Mod(float64(i)*137.508, 360), p.saturation, p.lightness)
}

var usesColor = regexp.MustCompile(`class="(?:[a-z]+ )*c(\d+)[ "]`)

// Style returns the style sheet of some drawings.
func Style(drawings ...string) string {
	series := 0
	for _, drawing := range drawings {
		for _, match := range usesColor.FindAllStringSubmatch(drawing, -1) {
			i, _ := strconv.Atoi(match[1])
			series = max(series, i+1)
		}
	}
	return shapes + light.rules(series) + "\n@media screen and (prefers-color-scheme:dark){" + dark.rules(series) + "}\n"
}

// variables are the colors of a page around its drawings.
func variables() string {
	var out strings.Builder
	for _, mode := range []struct {
		palette
		open, end string
	}{{light, ":root{", "}"}, {dark, "@media screen and (prefers-color-scheme:dark){:root{", "}}\n"}} {
		fmt.Fprintf(&out, "%s--ink:%s;--dim:%s;--grid:%s;--paper:%s%s", mode.open, mode.ink, mode.dim, mode.grid, mode.paper, mode.end)
	}
	return out.String()
}
