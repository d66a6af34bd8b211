// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"html"
	"math"
	"slices"
	"time"
)

// layWaits gives each wait a row. Waits share a row if they follow each other.
func (d *drawing) layWaits() {
	var busy []time.Time
	for _, wait := range d.Waits() {
		index := slices.IndexFunc(busy, func(until time.Time) bool { return !until.After(wait.From) })
		if index < 0 {
			index = len(busy)
			busy = append(busy, time.Time{})
		}
		busy[index] = wait.To
		d.waits = append(d.waits, lane{Span: &Span{MiniCluster: wait.MiniCluster, Held: wait.From, Freed: wait.To}, index: index})
	}
	d.waitLanes = len(busy)
}

// waiting draws the waits below the nodes.
func (d *drawing) waiting() {
	if d.waitLanes == 0 {
		return
	}
	top, height := d.bottom()+waitGap, d.waitHeight()
	fmt.Fprintf(&d.out, `<text class="dim" x="%d" y="%.1f" text-anchor="end" font-size="10">waiting</text>`+"\n", marginLeft-8, top+math.Max(height, 9))
	for _, l := range d.waits {
		fmt.Fprintf(&d.out, `<rect class="q" fill="%s" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%s waited from %.1f to %.1f s</title></rect>`+"\n",
			d.colours[l.MiniCluster], d.x(l.Held), top+float64(l.index)*height, math.Max(d.x(l.Freed)-d.x(l.Held), 0.5), math.Max(height-1, 1),
			html.EscapeString(l.MiniCluster), l.Held.Sub(d.first).Seconds(), l.Freed.Sub(d.first).Seconds())
	}
}
