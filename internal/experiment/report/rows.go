// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/flux-elastic/flux-elastic/internal/chart"
	"github.com/flux-elastic/flux-elastic/internal/experiment"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// mostNodes bounds the nodes of a run that are drawn.
const mostNodes = 100_000

// Heights of a row, in pixels, and of all rows together.
const (
	highestRow = 14
	lowestRow  = .5
	gapFrom    = 4 // rows of this height have gaps between them
	rowGap     = .08
	allRows    = 700
)

// rows makes a drawing with one row for each name.
func rows(title string, names []string, s span) *chart.Plot {
	each := min(highestRow, max(lowestRow, allRows/float64(max(len(names), 1))))
	p := &chart.Plot{Title: title, Width: wide, Height: max(30, int(each*float64(len(names)))), X: s.axis(),
		Y: chart.Axis{Max: float64(len(names)), Down: true, Bare: true, Ticks: []chart.Tick{}}, Left: 64}
	every := int(11/each) + 1
	for i, name := range names {
		if i%every == 0 && name != "" {
			p.Y.Ticks = append(p.Y.Ticks, chart.Tick{At: float64(i) + .5, Label: name})
			p.Left = max(p.Left, 16+int(6.4*float64(len(name))))
		}
	}
	return p
}

// block draws a bar over some rows, if it has a length. Thin rows have no gaps and no titles: one mark has all of a class.
func block(p *chart.Plot, class string, row, count int, from, to float64, title string) {
	if to <= from {
		return
	}
	top, bottom := float64(row), float64(row+count)
	if float64(p.Height)/p.Y.Max >= gapFrom {
		p.Marks = append(p.Marks, chart.Mark{Shape: chart.Box, Class: class, Title: title, Points: []chart.Point{{X: from, Y: top + rowGap}, {X: to, Y: bottom - rowGap}}})
		return
	}
	i := slices.IndexFunc(p.Marks, func(m chart.Mark) bool { return m.Class == class })
	if i < 0 {
		i = len(p.Marks)
		p.Marks = append(p.Marks, chart.Mark{Shape: chart.Boxes, Class: class})
	}
	p.Marks[i].Points = append(p.Marks[i].Points, chart.Point{X: from, Y: top}, chart.Point{X: to, Y: bottom})
}

// class is the class of a phase of a run that wanted some size.
func (p phase) class(s sizes, wanted int32) string {
	switch p.kind {
	case waiting:
		return waitClass
	case starting:
		return s.class[wanted] + " pale"
	}
	return s.class[wanted]
}

// lives draws a row for each run: its waits, its starts, and its commands.
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
		title := fmt.Sprintf("%s: %s, %d of %d nodes", r.Name, r.State, r.Size, r.Wanted)
		for _, phase := range phases(r, s) {
			block(p, phase.class(sizes, r.Wanted), i, 1, s.at(phase.from), s.at(phase.to), title)
		}
	}
	p.Legend = append([]chart.Entry{{Label: "waits for nodes", Class: waitClass}}, sizes.legend()...)
	return Drawing{"lives", "Gray: the run waits for nodes. Pale: it has nodes, and its pods start. Full: its command runs. The color is the size that was wanted.", p}
}

// held draws a row for each node, and which run held the node. Below, it draws the waits.
func held(records []*experiment.Record, sizes sizes, s span) Drawing {
	hosts := make([][]string, len(records))
	seen := map[string]bool{}
	for i, r := range records {
		if r.Admitted == nil {
			continue
		}
		hosts[i], _ = hostlist.Decode(r.Nodes, mostNodes) // unreadable: none
		for _, host := range hosts[i] {
			seen[host] = true
		}
	}
	names := slices.SortedFunc(maps.Keys(seen), hostlist.Compare)
	row := map[string]int{}
	for i, name := range names {
		row[name] = i
	}
	lanes := layWaits(records, s)
	below := len(names) + 1 // a row is empty
	if lanes.count > 0 {
		names = append(append(names, ""), "waiting")
		names = append(names, make([]string, lanes.count-1)...)
	}
	p := rows("Which node ran what, and what waited", names, s)
	for i, r := range records {
		inRow := make([]int, len(hosts[i]))
		for rank, host := range hosts[i] {
			inRow[rank] = row[host]
		}
		for _, phase := range phases(r, s) {
			if r.Admitted == nil || phase.from.Before(*r.Admitted) {
				continue // the nodes of earlier attempts are not known
			}
			for _, part := range blocks(inRow) {
				title := fmt.Sprintf("%s: %d nodes", r.Name, r.Size)
				block(p, phase.class(sizes, r.Wanted), part[0], part[1], s.at(phase.from), s.at(phase.to), title)
			}
		}
	}
	for _, w := range lanes.waits {
		block(p, sizes.class[w.record.Wanted]+" faint", below+w.lane, 1, s.at(w.from), s.at(w.to), w.record.Name+" waits")
	}
	p.Legend = append(sizes.legend(), chart.Entry{Label: "pale: pods start", Class: "gray pale"}, chart.Entry{Label: "below: a run waits", Class: waitClass})
	return Drawing{"nodes", "The nodes that the runs had in their last attempts, and below them the runs that waited, one beside the other. Nodes that no run had are not shown.", p}
}

// blocks are neighboring rows: the first one, and how many.
func blocks(rows []int) (out [][2]int) {
	for _, row := range slices.Compact(slices.Sorted(slices.Values(rows))) {
		if last := len(out) - 1; last >= 0 && out[last][0]+out[last][1] == row {
			out[last][1]++
		} else {
			out = append(out, [2]int{row, 1})
		}
	}
	return out
}

// wait is a time in which a run waits, and its row below the nodes.
type wait struct {
	phase
	record *experiment.Record
	lane   int
}

type lanes struct {
	waits []wait
	count int
}

// layWaits gives each wait a row. Waits share a row if they follow each other.
func layWaits(records []*experiment.Record, s span) (l lanes) {
	for _, r := range records {
		for _, p := range phases(r, s) {
			if p.kind == waiting {
				l.waits = append(l.waits, wait{phase: p, record: r})
			}
		}
	}
	slices.SortStableFunc(l.waits, func(a, b wait) int {
		return cmp.Or(a.from.Compare(b.from), a.to.Compare(b.to), cmp.Compare(a.record.Name, b.record.Name))
	})
	var busy []time.Time
	for i := range l.waits {
		w := &l.waits[i]
		if w.lane = slices.IndexFunc(busy, func(until time.Time) bool { return !until.After(w.from) }); w.lane < 0 {
			w.lane = len(busy)
			busy = append(busy, time.Time{})
		}
		busy[w.lane] = w.to
	}
	l.count = len(busy)
	return l
}
