// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strconv"

	"github.com/flux-elastic/flux-elastic/internal/chart"
	"github.com/flux-elastic/flux-elastic/internal/experiment"
)

// hostageClass means the same in all drawings.
const hostageClass = "c1"

// spent is how the node-seconds of some runs were spent.
type spent struct {
	// Useful are those of commands that succeeded. Hostage are those in which no command ran. In the other ones, a command
	// ran that did not succeed.
	useful, hostage, other float64
}

func (s spent) all() float64 { return s.useful + s.hostage + s.other }

// add adds a run. Hostage time is at most what was lost: attempts before the last one count with the sizes that they
// had in the end.
func (s *spent) add(r *experiment.Record) {
	lost := float64(r.LostNodeSeconds)
	hostage, _ := r.HostageTime()
	hostage = min(hostage, lost)
	s.useful, s.hostage, s.other = s.useful+float64(r.UsefulNodeSeconds), s.hostage+hostage, s.other+lost-hostage
}

// spending adds up the node-seconds of runs, by the size that was wanted.
func spending(records []*experiment.Record) (bySize map[int32]*spent, all spent) {
	bySize = map[int32]*spent{}
	for _, r := range records {
		if bySize[r.Wanted] == nil {
			bySize[r.Wanted] = &spent{}
		}
		bySize[r.Wanted].add(r)
		all.add(r)
	}
	return bySize, all
}

// hostage draws how the node-seconds of each size were spent.
func hostage(records []*experiment.Record, s sizes) chart.Drawing {
	bySize, all := spending(records)
	p := &chart.Plot{Title: "Hostage time", Width: half, Height: height,
		X: chart.Axis{Label: "nodes wanted", Min: -.6, Max: float64(len(s.all)) - .4, Ticks: []chart.Tick{}, Bare: true}, Y: chart.Axis{Label: "node-seconds", Max: 1}}
	for i, size := range s.all {
		x := float64(i)
		p.X.Ticks = append(p.X.Ticks, chart.Tick{At: x, Label: strconv.Itoa(int(size))})
		of := bySize[size] // nil if no run wanted this size
		if of == nil {
			of = &spent{}
		}
		bottom := 0.0
		for _, part := range []struct {
			class, what string
			amount      float64
		}{{"c0", "useful", of.useful}, {"c3", "lost to commands that did not succeed", of.other}, {hostageClass, "hostage", of.hostage}} {
			if part.amount > 0 {
				p.Marks = append(p.Marks, chart.Mark{Shape: chart.Box, Class: part.class, Points: []chart.Point{{X: x - .32, Y: bottom}, {X: x + .32, Y: bottom + part.amount}},
					Title: fmt.Sprintf("%s: %.0f node-seconds %s", nodes(size), part.amount, part.what)})
				bottom += part.amount
			}
		}
		p.Y.Max = max(p.Y.Max, bottom*1.12)
		if bottom > 0 {
			p.Marks = append(p.Marks, chart.Mark{Shape: chart.Above, Points: []chart.Point{{X: x, Y: bottom}}, Title: percent(of.hostage, bottom)})
		}
	}
	p.Legend = []chart.Entry{{Label: "a command that succeeded", Class: "c0"}}
	if all.other > 0 {
		p.Legend = append(p.Legend, chart.Entry{Label: "other commands", Class: "c3"})
	}
	p.Legend = append(p.Legend, chart.Entry{Label: "hostage", Class: hostageClass})
	return chart.Drawing{Name: "hostage", Plot: p, Caption: "The node-seconds of all runs, by the size that was wanted. Nodes are hostages while they are held and no command runs on them. Above: the part that was hostage."}
}

// percent is a part of all.
func percent(part, all float64) string { return fmt.Sprintf("%.1f %%", 100*part/all) }
