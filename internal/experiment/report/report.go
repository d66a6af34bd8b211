// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package report writes what came out of an experiment as a page that stands alone, and as drawings.
package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"slices"
	"time"

	"github.com/flux-elastic/flux-elastic/internal/chart"
	"github.com/flux-elastic/flux-elastic/internal/experiment"
)

//go:embed page.html
var pageText string

var page = template.Must(template.New("page").Parse(pageText))

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

// view is what the template shows.
type view struct {
	Title, Subtitle string
	Style           template.CSS
	Tiles           []tile
	Sections        []section
}

type tile struct{ Label, Value, More string }

type section struct {
	Title    string
	Drawings []shown
	Tables   []Table
}

type shown struct {
	SVG     template.HTML
	Caption string
	// Wide is true if nothing is beside the drawing.
	Wide bool
}

// Table is a table of texts.
type Table struct {
	Header []string
	Rows   [][]string
	// Left is the number of columns that are aligned to the left.
	Left int
}

// New returns the report of an experiment: the page, and the drawings in it.
func New(s Study) (page []byte, drawings []Drawing, err error) {
	records := s.recorded()
	if len(records) == 0 {
		return nil, nil, fmt.Errorf("%s has no records of runs", s.Where)
	}
	merit := s.Definition.Measures()[0]
	sizes, span := sizesOf(records), spanOf(records)
	scalingPlots := scaling(merit, s.Definition.Scaling(merit, records))
	time := append(utilization(records, span), lives(records, sizes, span), held(records, sizes, span))
	sizePlots := []Drawing{waits(records, sizes), got(records, sizes), hostage(records, sizes)}
	drawings = slices.Concat(scalingPlots, sizePlots, time)
	v := view{
		Title: s.Definition.Name, Subtitle: subtitle(records, span), Tiles: tiles(records, span, merit),
		Sections: []section{
			{"Scaling", inline(scalingPlots), []Table{scalingTable(s.Definition, merit, records)}},
			{"Waits, sizes and hostage time", inline(sizePlots), nil},
			{"Over time", inline(time), nil},
			{"Cases", nil, []Table{caseTable(s.Definition, records)}},
			{"Runs", nil, []Table{runTable(s.Definition, records)}},
		},
	}
	page, err = v.render()
	return page, drawings, err
}

func (v *view) render() ([]byte, error) {
	v.Style = template.CSS(":root{" + chart.Variables(chart.Light) + "}@media screen and (prefers-color-scheme:dark){:root{" + chart.Variables(chart.Dark) + "}}" + chart.Sheet()) //nolint:gosec // it is ours
	var out bytes.Buffer
	err := page.Execute(&out, v)
	return out.Bytes(), err
}

func inline(drawings []Drawing) (out []shown) {
	for _, d := range drawings {
		out = append(out, shown{template.HTML(d.Plot.Inline()), d.Caption, d.Plot.Width == wide}) //nolint:gosec // texts in it are escaped
	}
	return out
}

func subtitle(records []*experiment.Record, s span) string {
	return fmt.Sprintf("%d runs, from %s to %s", len(records), s.from.UTC().Format("2006-01-02 15:04:05"), s.to.UTC().Format("2006-01-02 15:04:05 MST"))
}

// tiles are the figures at the top.
func tiles(records []*experiment.Record, s span, merit experiment.Measure) []tile {
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
	out := []tile{
		{"Runs that succeeded", fmt.Sprintf("%d of %d", succeeded, len(records)), fmt.Sprintf("%d attempts were given up", attempts)},
		{"Time of all runs", clockText(s.to.Sub(s.from)), fmt.Sprintf("%.3g runs a minute", float64(len(records))/max(s.to.Sub(s.from).Minutes(), 1./60))},
		{"Median wait for nodes", clockText(time.Duration(wait.Median * float64(time.Second))), "longest " + clockText(time.Duration(wait.Most*float64(time.Second)))},
	}
	for _, part := range []struct {
		label, more string
		amount      float64
	}{
		{"Useful node-seconds", "commands that succeeded", used.useful}, {"Hostage node-seconds", "nodes were held, no command ran", used.hostage},
		{"Lost to other commands", "node-seconds", used.other},
	} {
		if part.amount > 0 {
			out = append(out, tile{part.label, fmt.Sprintf("%.0f", part.amount), percent(part.amount, used.all()) + ": " + part.more})
		}
	}
	return append(out, tile{"Figure of merit", merit.Name, "better: " + string(merit.Better)})
}

func clockText(d time.Duration) string {
	if d < time.Minute {
		return fmt.Sprintf("%.3g s", d.Seconds())
	}
	return d.Round(time.Second).String()
}
