// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strconv"

	"github.com/flux-elastic/flux-elastic/internal/chart"
	"github.com/flux-elastic/flux-elastic/internal/experiment"
)

// scalingTable has a row for each size of each series.
func scalingTable(d *experiment.Definition, m experiment.Measure, records []*experiment.Record) chart.Table {
	t := chart.Table{Header: []string{"nodes", "runs", m.Label() + ", median", "least", "most", "speedup", "efficiency"}}
	series := d.Scaling(m, records)
	named := len(series) > 1
	if named {
		t.Header, t.Left = append([]string{"parameters"}, t.Header...), 1
	}
	for _, s := range series {
		for _, p := range s.Points {
			row := []string{strconv.Itoa(int(p.Size)), strconv.Itoa(p.Spread.Count), chart.Label(p.Spread.Median), chart.Label(p.Spread.Least), chart.Label(p.Spread.Most),
				fmt.Sprintf("%.2f", p.Speedup), fmt.Sprintf("%.0f %%", p.Efficiency*100)}
			if named {
				row = append([]string{s.Name}, row...)
			}
			t.Rows = append(t.Rows, row)
		}
	}
	return t
}

// caseTable has a row for each case, with the median and the range of each measure.
func caseTable(d *experiment.Definition, records []*experiment.Record) chart.Table {
	t := chart.Table{Header: []string{"parameters", "runs", "succeeded"}, Left: 1}
	measures := d.Measures()
	for _, m := range measures {
		t.Header = append(t.Header, m.Label())
	}
	t.Header = append(t.Header, "lost node-seconds")
	for _, c := range experiment.Cases(records) {
		succeeded, lost := 0, int64(0)
		for _, r := range c.Records {
			lost += r.LostNodeSeconds
			if r.Succeeded() {
				succeeded++
			}
		}
		row := []string{experiment.Describe(c.Parameters), strconv.Itoa(len(c.Records)), strconv.Itoa(succeeded)}
		for _, m := range measures {
			row = append(row, spreadText(experiment.NewSpread(m.Values(c.Records))))
		}
		t.Rows = append(t.Rows, append(row, strconv.FormatInt(lost, 10)))
	}
	return t
}

func spreadText(s experiment.Spread) string {
	switch {
	case s.Count == 0:
		return "–"
	case s.Least == s.Most:
		return chart.Label(s.Median)
	}
	return fmt.Sprintf("%s (%s to %s)", chart.Label(s.Median), chart.Label(s.Least), chart.Label(s.Most))
}

// runTable has a row for each run.
func runTable(d *experiment.Definition, records []*experiment.Record) chart.Table {
	t := chart.Table{Header: []string{"run", "state", "nodes", "parameters", "got", "wanted", "tasks", "attempts"}, Left: 4}
	measures := d.Measures()
	for _, m := range measures {
		t.Header = append(t.Header, m.Label())
	}
	for _, r := range records {
		state := r.State
		if !r.Succeeded() && r.Reason != "" && r.Reason != state {
			state += ": " + r.Reason
		}
		row := []string{r.Name, state, r.Nodes, experiment.Describe(r.Parameters), strconv.Itoa(int(r.Size)), strconv.Itoa(int(r.Wanted)), strconv.Itoa(int(r.Tasks)), strconv.Itoa(len(r.GivenUp) + 1)}
		for _, m := range measures {
			text := "–"
			if value, ok := m.Of(r); ok {
				text = chart.Label(value)
			}
			row = append(row, text)
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}
