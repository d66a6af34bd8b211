// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"fmt"
	"slices"
	"time"

	"github.com/flux-elastic/flux-elastic/internal/chart"
	"github.com/flux-elastic/flux-elastic/internal/story"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// extent is the time of the record, with the waits.
func (r *Record) extent() Extent {
	var e Extent
	e.From, e.To = r.bounds()
	for i := range r.Stories {
		for _, p := range r.Stories[i].Phases(r.Last) {
			e.To = story.Later(e.To, p.To)
		}
	}
	return e
}

// Plot draws which node ran what, and what waited: a row for each node, and below the nodes rows for the waits. Each
// MiniCluster has a color.
func (r *Record) Plot() *chart.Plot {
	blocks := r.blocks()
	rows := r.rows("Which node ran what", r.extent(), chart.Color, blocks)
	r.names(rows, blocks)
	usage := r.Usage()
	rows.Note = fmt.Sprintf("%d MiniClusters on %d nodes in %.0f s: commands ran on %.0f %% of the nodes' time, %.0f %% went to starting and ending, %.0f %% was idle",
		len(r.Stories), len(r.Nodes), usage.Makespan.Seconds(), usage.Running*100, usage.Waiting*100, usage.Idle*100)
	order := make([]int, len(r.Stories))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return hostlist.Compare(r.Stories[a].Name, r.Stories[b].Name) })
	for _, i := range order {
		rows.Legend = append(rows.Legend, chart.Entry{Label: entry(&r.Stories[i]), Class: chart.Color(i)})
	}
	rows.Legend = append(rows.Legend, chart.Entry{Label: "pale: pods start or end", Class: "gray pale"}, chart.Entry{Label: "below: it waits", Class: WaitClass})
	return rows.Plot
}

// entry is the line of a gang in the legend.
func entry(s *story.Story) string {
	text := fmt.Sprintf("%s %d/%d brokers", s.Name, s.Size, s.Wanted)
	if s.Tasks > 0 {
		text += fmt.Sprintf(", %d tasks", s.Tasks)
	}
	if started := s.Started(); !started.IsZero() && !s.Ended.IsZero() {
		text += fmt.Sprintf(", %.1f s", s.Ended.Sub(started).Seconds())
	}
	return text
}

// Rows draws the nodes and the waits, without a legend. The colors are those of the gangs, by index.
func (r *Record) Rows(title string, e Extent, color func(gang int) string) Rows {
	return r.rows(title, e, color, r.blocks())
}

func (r *Record) rows(title string, e Extent, color func(gang int) string, blocks []block) Rows {
	names := slices.Clone(r.Nodes)
	waits, count := r.waits()
	below := len(names) + 1 // a row is empty
	if count > 0 {
		names = append(append(names, "", "waiting"), make([]string, (count-1)/2)...) // two lanes in a row
	}
	rows := NewRows(title, names, e)
	for i := range blocks {
		class, title := color(blocks[i].gang), blocks[i].title(r.Stories[blocks[i].gang].Name, e.From)
		rows.block(&blocks[i], class+" pale", class, title, r.Last)
	}
	for _, w := range waits {
		top := float64(below) + float64(w.lane)*waitLane
		rows.Bar(color(w.gang)+" faint", top+waitGap, top+waitLane-waitGap, w.From, w.To, fmt.Sprintf("%s waited from %.1f to %.1f s", r.Stories[w.gang].Name, w.From.Sub(e.From).Seconds(), w.To.Sub(e.From).Seconds()))
	}
	rows.Lines()
	return rows
}

// block draws the time in which the command runs, and those before and after in which pods hold the node.
func (r Rows) block(b *block, held, runs, title string, until time.Time) {
	from, to, ran := b.attempt.Command(b.stay, until)
	if !ran {
		from, to = b.stay.To, b.stay.To
	}
	r.Bar(held, b.top, b.bottom, b.stay.From, from, title)
	r.Bar(runs, b.top, b.bottom, from, to, title)
	r.Bar(held, b.top, b.bottom, to, b.stay.To, title)
}

// names writes the name of each gang into the largest part of neighboring rows in which its command runs, if there is room.
func (r *Record) names(rows Rows, blocks []block) {
	type part struct{ top, bottom, from, to float64 }
	open, largest := map[*story.Attempt]part{}, make([]part, len(r.Stories))
	for _, b := range blocks {
		from, to, runs := b.attempt.Command(b.stay, r.Last)
		if !runs {
			continue
		}
		p := part{b.top, b.bottom, rows.At(from), rows.At(to)}
		if above, ok := open[b.attempt]; ok && above.bottom == p.top {
			p.top, p.from, p.to = above.top, max(p.from, above.from), min(p.to, above.to)
		}
		open[b.attempt] = p
		if l := &largest[b.gang]; p.bottom-p.top > l.bottom-l.top {
			*l = p
		}
	}
	for i, p := range largest {
		name := chart.Mark{Shape: chart.Name, Class: chart.Color(i), Title: r.Stories[i].Name, Points: []chart.Point{{X: (p.from + p.to) / 2, Y: (p.top + p.bottom) / 2}}}
		if (p.bottom-p.top)*rows.rowHeight() >= nameHeight+2 && chart.TextWidth(name.Title)+8 <= (p.to-p.from)/rows.X.Max*Width {
			rows.Marks = append(rows.Marks, name)
		}
	}
}

// Page is the drawing with a table of the MiniClusters.
func (r *Record) Page() *chart.Page {
	table := chart.Table{Header: []string{"MiniCluster", "state", "brokers", "wanted", "tasks", "waited, s", "ran, s"}, Left: 2}
	for i := range r.Stories {
		s := &r.Stories[i]
		waited, ran := 0., 0.
		for _, p := range s.Phases(r.Last) {
			switch p.Kind {
			case story.KindWaiting:
				waited += p.To.Sub(p.From).Seconds()
			case story.KindRunning:
				ran += p.To.Sub(p.From).Seconds()
			}
		}
		table.Rows = append(table.Rows, []string{s.Name, s.State, fmt.Sprint(s.Size), fmt.Sprint(s.Wanted), fmt.Sprint(s.Tasks), fmt.Sprintf("%.0f", waited), fmt.Sprintf("%.0f", ran)})
	}
	e := r.extent()
	const form = "2006-01-02 15:04:05"
	return &chart.Page{
		Title: "Timeline", Subtitle: fmt.Sprintf("from %s to %s UTC", e.From.UTC().Format(form), e.To.UTC().Format(form)),
		Sections: []chart.Section{{Drawings: []chart.Drawing{{Name: "nodes", Plot: r.Plot()}}, Tables: []chart.Table{table}}},
	}
}
