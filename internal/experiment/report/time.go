// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/internal/chart"
	"github.com/flux-elastic/flux-elastic/internal/experiment"
)

// kind is what happens to a run.
type kind int

const (
	waiting  kind = iota // it has no nodes
	starting             // it has nodes, which are hostages: its command does not run
	running              // its command runs
)

// phase is a part of the life of a run, with so many nodes.
type phase struct {
	kind     kind
	from, to time.Time
	size     int32
}

// phases are the parts of the life of a run, with those of the attempts that were given up.
func phases(r *experiment.Record, s span) (out []phase) {
	add := func(kind kind, from, to time.Time, size int32) {
		if to.After(from) {
			out = append(out, phase{kind, from, to, size})
		}
	}
	free := *r.Submitted // since when it has no nodes
	attempt := func(size int32, admitted, started, ended time.Time) {
		add(waiting, free, admitted, 0)
		add(starting, admitted, cmp.Or(started, ended), size)
		if !started.IsZero() {
			add(running, started, ended, size)
		}
		free = ended
	}
	for i := range r.GivenUp {
		a := &r.GivenUp[i]
		attempt(a.Size, a.Admitted.Time, momentOf(a.Started), a.Ended.Time)
	}
	end := s.to
	if r.Finished != nil {
		end = *r.Finished
	}
	if r.Admitted == nil {
		add(waiting, free, end, 0)
		return out
	}
	started := time.Time{}
	if r.Started != nil {
		started = *r.Started
	}
	attempt(r.Size, *r.Admitted, started, end)
	return out
}

func momentOf(t *metav1.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.Time
}

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
func utilization(records []*experiment.Record, s span) []Drawing {
	var held, busy, queued []change
	add := func(to *[]change, p phase, n int32) {
		*to = append(*to, change{s.at(p.from), int(n)}, change{s.at(p.to), -int(n)})
	}
	for _, r := range records {
		for _, p := range phases(r, s) {
			switch p.kind {
			case waiting:
				add(&queued, p, 1)
			case running:
				add(&busy, p, p.size)
				fallthrough
			default:
				add(&held, p, p.size)
			}
		}
	}
	last := s.at(s.to)
	area := func(name, title, label, caption string, marks ...chart.Mark) Drawing {
		most := 1.0
		for _, mark := range marks {
			for _, point := range mark.Points {
				most = max(most, point.Y)
			}
		}
		return Drawing{name, caption, &chart.Plot{Title: title, Width: wide, Height: 170, X: s.axis(), Y: chart.Axis{Label: label, Max: most * 1.05, Whole: true}, Marks: marks}}
	}
	use := area("utilization", "Nodes in use", "nodes", "The nodes of all runs over time. They are hostages while they are held and no command runs on them.",
		chart.Mark{Shape: chart.Area, Class: hostageClass, Points: levels(held, last)}, chart.Mark{Shape: chart.Area, Class: "c0", Points: levels(busy, last)})
	use.Plot.Legend = []chart.Entry{{Label: "a command runs", Class: "c0"}, {Label: "hostage", Class: hostageClass}}
	queue := area("waiting", "Runs that wait", "runs", "The runs that were submitted and had no nodes.",
		chart.Mark{Shape: chart.Area, Class: "c4 pale", Points: levels(queued, last)}, chart.Mark{Shape: chart.Steps, Class: "c4", Points: levels(queued, last)})
	return []Drawing{use, queue}
}
