// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package report writes what came out of an experiment as a page that stands alone, and as drawings.
package report

import (
	"fmt"
	"slices"
	"time"

	"github.com/flux-elastic/flux-elastic/internal/chart"
	"github.com/flux-elastic/flux-elastic/internal/experiment"
	"github.com/flux-elastic/flux-elastic/internal/timeline"
)

// Study is what a report is about. Results are in Where.
type Study struct {
	Where      string
	Definition *experiment.Definition
	Records    []*experiment.Record
}

// recorded are the records of runs that were submitted.
func (s Study) recorded() []*experiment.Record {
	return slices.DeleteFunc(slices.Clone(s.Records), func(r *experiment.Record) bool { return r.Submitted == nil })
}

// New returns the report of an experiment: the page, and the drawings in it.
func New(s Study) (page []byte, drawings []chart.Drawing, err error) {
	records := s.recorded()
	if len(records) == 0 {
		return nil, nil, fmt.Errorf("%s has no records of runs", s.Where)
	}
	merit := s.Definition.Measures()[0]
	sizes, e := sizesOf(records), extentOf(records)
	scalingPlots := scaling(merit, s.Definition.Scaling(merit, records))
	time := append(utilization(records, e), lives(records, sizes, e), held(records, sizes, e))
	sizePlots := []chart.Drawing{waits(records, sizes), got(records, sizes), hostage(records, sizes)}
	drawings = slices.Concat(scalingPlots, sizePlots, time)
	v := chart.Page{
		Title: s.Definition.Name, Subtitle: subtitle(records, e), Tiles: tiles(records, e, merit),
		Sections: []chart.Section{
			{Title: "Scaling", Drawings: scalingPlots, Tables: []chart.Table{scalingTable(s.Definition, merit, records)}},
			{Title: "Waits, sizes and hostage time", Drawings: sizePlots},
			{Title: "Over time", Drawings: time},
			{Title: "Cases", Tables: []chart.Table{caseTable(s.Definition, records)}},
			{Title: "Runs", Tables: []chart.Table{runTable(s.Definition, records)}},
		},
	}
	return v.HTML(), drawings, nil
}

func subtitle(records []*experiment.Record, e timeline.Extent) string {
	return fmt.Sprintf("%d runs, from %s to %s", len(records), e.From.UTC().Format("2006-01-02 15:04:05"), e.To.UTC().Format("2006-01-02 15:04:05 MST"))
}

// tiles are the figures at the top.
func tiles(records []*experiment.Record, e timeline.Extent, merit experiment.Measure) []chart.Tile {
	succeeded, attempts := 0, 0
	var waits []float64
	for _, r := range records {
		if r.Succeeded() {
			succeeded++
		}
		attempts += len(r.GivenUp)
		if wait, ok := r.Wait(); ok {
			waits = append(waits, wait)
		}
	}
	wait := experiment.NewSpread(waits)
	_, used := spending(records)
	out := []chart.Tile{
		{Label: "Runs that succeeded", Value: fmt.Sprintf("%d of %d", succeeded, len(records)), More: fmt.Sprintf("%d attempts were given up", attempts)},
		{Label: "Time of all runs", Value: clockText(e.To.Sub(e.From)), More: fmt.Sprintf("%.3g runs a minute", float64(len(records))/max(e.To.Sub(e.From).Minutes(), 1./60))},
		{Label: "Median wait for nodes", Value: clockText(time.Duration(wait.Median * float64(time.Second))), More: "longest " + clockText(time.Duration(wait.Most*float64(time.Second)))},
	}
	for _, part := range []struct {
		label, more string
		amount      float64
	}{
		{"Useful node-seconds", "commands that succeeded", used.useful}, {"Hostage node-seconds", "nodes were held, no command ran", used.hostage},
		{"Lost to other commands", "node-seconds", used.other},
	} {
		if part.amount > 0 {
			out = append(out, chart.Tile{Label: part.label, Value: fmt.Sprintf("%.0f", part.amount), More: percent(part.amount, used.all()) + ": " + part.more})
		}
	}
	return append(out, chart.Tile{Label: "Figure of merit", Value: merit.Name, More: "better: " + string(merit.Better)})
}

func clockText(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.3g s", d.Seconds())
	}
	return d.Round(time.Second).String()
}
