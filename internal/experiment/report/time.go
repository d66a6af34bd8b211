// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/flux-elastic/flux-elastic/internal/chart"
	"github.com/flux-elastic/flux-elastic/internal/experiment"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// mostNodes bounds the nodes of a run that are drawn.
const mostNodes = 100_000

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
	var held, running, waiting []change
	for _, r := range records {
		if r.Submitted == nil {
			continue
		}
		until := s.to
		if r.Finished != nil {
			until = *r.Finished
		}
		waited := until
		if r.Admitted != nil {
			waited = *r.Admitted
			held = append(held, change{s.seconds(*r.Admitted), int(r.Size)}, change{s.seconds(until), -int(r.Size)})
		}
		if r.Started != nil {
			running = append(running, change{s.seconds(*r.Started), int(r.Size)}, change{s.seconds(until), -int(r.Size)})
		}
		waiting = append(waiting, change{s.seconds(*r.Submitted), 1}, change{s.seconds(waited), -1})
	}
	last := s.seconds(s.to)
	area := func(name, title, label, caption string, marks ...chart.Mark) Drawing {
		most := 1.0
		for _, mark := range marks {
			for _, point := range mark.Points {
				most = max(most, point.Y)
			}
		}
		return Drawing{name, caption, &chart.Plot{Title: title, Width: wide, Height: 170, X: s.axis(), Y: chart.Axis{Label: label, Max: most * 1.05}, Marks: marks}}
	}
	busy := area("utilization", "Nodes in use", "nodes", "The nodes of the last attempts of all runs. Where the pale part shows, nodes were held while pods started.",
		chart.Mark{Shape: chart.Area, Class: "c1 pale", Points: levels(held, last)}, chart.Mark{Shape: chart.Area, Class: "c0", Points: levels(running, last)})
	busy.Plot.Legend = []chart.Entry{{Label: "a command runs", Class: "c0"}, {Label: "pods start", Class: "c1 pale"}}
	queue := area("waiting", "Runs that wait", "runs", "The runs that were submitted and had no nodes yet for their last attempt.",
		chart.Mark{Shape: chart.Area, Class: "c4 pale", Points: levels(waiting, last)}, chart.Mark{Shape: chart.Steps, Class: "c4", Points: levels(waiting, last)})
	return []Drawing{busy, queue}
}

// rows makes a drawing with one row for each name.
func rows(title string, names []string, s span) *chart.Plot {
	each := min(14, max(2.5, 700/float64(max(len(names), 1))))
	p := &chart.Plot{Title: title, Width: wide, Height: max(30, int(each*float64(len(names)))), X: s.axis(),
		Y: chart.Axis{Max: float64(len(names)), Down: true, Bare: true, Ticks: []chart.Tick{}}, Left: 64}
	every := int(11/each) + 1
	for i, name := range names {
		if i%every == 0 {
			p.Y.Ticks = append(p.Y.Ticks, chart.Tick{At: float64(i) + .5, Label: name})
		}
		p.Left = max(p.Left, 16+int(6.4*float64(len(name))))
	}
	return p
}

// box is a bar in a row.
func box(class string, row int, from, to float64, title string) chart.Mark {
	return chart.Mark{Shape: chart.Box, Class: class, Title: title, Points: []chart.Point{{X: from, Y: float64(row) + .08}, {X: to, Y: float64(row) + .92}}}
}

// lives draws a row for each run: its wait, its start, and its command.
func lives(records []*experiment.Record, sizes sizes, s span) Drawing {
	sorted := slices.SortedStableFunc(slices.Values(records), func(a, b *experiment.Record) int {
		waitA, _ := a.Wait()
		waitB, _ := b.Wait()
		return cmp.Or(a.Submitted.Compare(*b.Submitted), cmp.Compare(waitA, waitB), cmp.Compare(a.Name, b.Name))
	})
	names := make([]string, len(sorted))
	for i, r := range sorted {
		names[i] = r.Name
	}
	p := rows("The life of each run", names, s)
	for i, r := range sorted {
		until := s.to
		if r.Finished != nil {
			until = *r.Finished
		}
		title := fmt.Sprintf("%s: %s, %d of %d nodes", r.Name, r.State, r.Size, r.Wanted)
		admitted, started := until, until
		if r.Started != nil {
			started = *r.Started
		}
		if r.Admitted != nil {
			admitted = *r.Admitted
		}
		bars := []chart.Mark{
			box("gray faint", i, s.seconds(*r.Submitted), s.seconds(admitted), title),
			box(sizes.class[r.Wanted]+" pale", i, s.seconds(admitted), s.seconds(started), title),
			box(sizes.class[r.Wanted], i, s.seconds(started), s.seconds(until), title),
		}
		for _, bar := range bars {
			if bar.Points[1].X > bar.Points[0].X {
				p.Marks = append(p.Marks, bar)
			}
		}
	}
	p.Legend = append([]chart.Entry{{Label: "waits for nodes", Class: "gray faint"}}, sizes.legend()...)
	return Drawing{"lives", "Gray: the run waits for nodes. Pale: its pods start. Full: its command runs. The color is the size that was wanted.", p}
}

// held draws a row for each node: which run held the node.
func held(records []*experiment.Record, sizes sizes, s span) Drawing {
	byNode := map[string][]*experiment.Record{}
	for _, r := range records {
		hosts, err := hostlist.Decode(r.Nodes, mostNodes)
		if err != nil || r.Admitted == nil {
			continue
		}
		for _, host := range slices.Compact(slices.Sorted(slices.Values(hosts))) {
			byNode[host] = append(byNode[host], r)
		}
	}
	names := slices.SortedFunc(maps.Keys(byNode), hostlist.Compare)
	p := rows("Which node ran what", names, s)
	for i, name := range names {
		for _, r := range byNode[name] {
			until, started := s.to, s.to
			if r.Finished != nil {
				until, started = *r.Finished, *r.Finished
			}
			if r.Started != nil {
				started = *r.Started
			}
			title := fmt.Sprintf("%s: %s of %d nodes", name, r.Name, r.Size)
			p.Marks = append(p.Marks, box(sizes.class[r.Wanted]+" pale", i, s.seconds(*r.Admitted), s.seconds(started), title))
			if r.Started != nil {
				p.Marks = append(p.Marks, box(sizes.class[r.Wanted], i, s.seconds(*r.Started), s.seconds(until), title))
			}
		}
	}
	p.Legend = sizes.legend()
	return Drawing{"nodes", "The nodes that the runs had in their last attempts. Pale: pods start. Full: the command runs. Nodes that no run had are not shown.", p}
}
