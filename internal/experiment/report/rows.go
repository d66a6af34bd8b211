// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/flux-elastic/flux-elastic/internal/chart"
	"github.com/flux-elastic/flux-elastic/internal/experiment"
	"github.com/flux-elastic/flux-elastic/internal/story"
	"github.com/flux-elastic/flux-elastic/internal/timeline"
)

// lives draws a row for each run: its waits, its starts, and its commands.
func lives(records []*experiment.Record, sizes sizes, e timeline.Extent) chart.Drawing {
	sorted := slices.SortedStableFunc(slices.Values(records), func(a, b *experiment.Record) int {
		waitA, _ := a.Wait()
		waitB, _ := b.Wait()
		return cmp.Or(a.Submitted.Compare(*b.Submitted), cmp.Compare(waitA, waitB), cmp.Compare(a.Name, b.Name))
	})
	names := make([]string, len(sorted))
	for i, r := range sorted {
		names[i] = r.Name
	}
	rows := timeline.NewRows("The life of each run", names, e)
	for i, r := range sorted {
		title := fmt.Sprintf("%s: %s, %d of %d nodes", r.Name, r.State, r.Size, r.Wanted)
		s := r.Story()
		for _, p := range s.Phases(e.To) {
			class := sizes.class[r.Wanted]
			switch p.Kind {
			case story.KindForgotten:
				continue
			case story.KindWaiting:
				class = timeline.WaitClass
			case story.KindStarting:
				class += " pale"
			}
			rows.Bar(class, float64(i), float64(i+1), p.From, p.To, title)
		}
	}
	rows.Lines()
	rows.Legend = append([]chart.Entry{{Label: "waits for nodes", Class: timeline.WaitClass}}, sizes.legend()...)
	return chart.Drawing{Name: "lives", Plot: rows.Plot, Caption: "Gray: the run waits for nodes. Pale: it has nodes, and its pods start. Full: its command runs. The color is the size that was wanted."}
}

// held draws a row for each node, and which run held the node. Below, it draws the waits.
func held(records []*experiment.Record, sizes sizes, e timeline.Extent) chart.Drawing {
	var stories []story.Story
	for _, r := range records {
		stories = append(stories, r.Story())
	}
	record := timeline.NewRecord(nil, stories, e.From, e.To)
	rows := record.Rows("Which node ran what, and what waited", e, func(run int) string { return sizes.class[record.Stories[run].Wanted] })
	rows.Legend = append(sizes.legend(), chart.Entry{Label: "pale: pods start", Class: "gray pale"}, chart.Entry{Label: "below: a run waits", Class: timeline.WaitClass})
	return chart.Drawing{Name: "nodes", Plot: rows.Plot, Caption: "The nodes that the runs had in their last attempts, and below them the runs that waited, one beside the other. Nodes that no run had are not shown."}
}
