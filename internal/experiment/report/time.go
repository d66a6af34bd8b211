// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"slices"

	"github.com/flux-elastic/flux-elastic/internal/chart"
	"github.com/flux-elastic/flux-elastic/internal/experiment"
	"github.com/flux-elastic/flux-elastic/internal/story"
	"github.com/flux-elastic/flux-elastic/internal/timeline"
)

// change is a change of a number at a time, in seconds.
type change struct {
	at float64
	by int
}

// levels returns the number over time, as the points of steps.
func levels(changes []change, last float64) []chart.Point {
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	points := []chart.Point{{}}
	level := 0
	for _, c := range changes {
		level += c.by
		if end := &points[len(points)-1]; end.X == c.at {
			end.Y = float64(level)
		} else {
			points = append(points, chart.Point{X: c.at, Y: float64(level)})
		}
	}
	return append(points, chart.Point{X: last, Y: float64(level)})
}

// utilization draws how many nodes were held and how many ran a command, and how many runs waited.
func utilization(records []*experiment.Record, e timeline.Extent) []chart.Drawing {
	var held, busy, queued []change
	add := func(to *[]change, p story.Phase, n int32) {
		*to = append(*to, change{e.At(p.From), int(n)}, change{e.At(p.To), -int(n)})
	}
	for _, r := range records {
		s := r.Story()
		for _, p := range s.Phases(e.To) {
			switch p.Kind {
			case story.KindWaiting:
				add(&queued, p, 1)
			case story.KindRunning:
				add(&busy, p, p.Size)
				fallthrough
			case story.KindStarting:
				add(&held, p, p.Size)
			}
		}
	}
	last := e.At(e.To)
	area := func(name, title, label, caption string, marks ...chart.Mark) chart.Drawing {
		most := 1.0
		for _, mark := range marks {
			for _, point := range mark.Points {
				most = max(most, point.Y)
			}
		}
		return chart.Drawing{Name: name, Caption: caption, Plot: &chart.Plot{
			Title: title, Width: timeline.Width, Height: 170, X: e.Axis(), Y: chart.Axis{Label: label, Max: most * 1.05, Whole: true}, Marks: marks,
		}}
	}
	use := area("utilization", "Nodes in use", "nodes", "The nodes of all runs over time. They are hostages while they are held and no command runs on them.",
		chart.Mark{Shape: chart.Area, Class: hostageClass, Points: levels(held, last)}, chart.Mark{Shape: chart.Area, Class: "c0", Points: levels(busy, last)})
	use.Plot.Legend = []chart.Entry{{Label: "a command runs", Class: "c0"}, {Label: "hostage", Class: hostageClass}}
	queue := area("waiting", "Runs that wait", "runs", "The runs that were submitted and had no nodes.",
		chart.Mark{Shape: chart.Area, Class: "c4 pale", Points: levels(queued, last)}, chart.Mark{Shape: chart.Steps, Class: "c4", Points: levels(queued, last)})
	return []chart.Drawing{use, queue}
}
