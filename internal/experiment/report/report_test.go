// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/chart"
	"github.com/flux-elastic/flux-elastic/internal/experiment"
)

const text = `
apiVersion: experiment.flux-framework.org/v1alpha1
kind: Experiment
name: study
template:
  spec: {containers: [{image: lammps, command: lmp}]}
matrix:
  size: [1, 2, 4]
repetitions: 2
figures: [{name: loop, regexp: 'Loop (\d+)', unit: s}]
`

// study returns an experiment whose runs took some seconds each, divided by the size, one after the other.
func study(t *testing.T, seconds int) Study {
	t.Helper()
	d, err := experiment.Read([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	runs, err := d.Runs()
	if err != nil {
		t.Fatal(err)
	}
	s := Study{Where: "results", Definition: d}
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	after := func(n int) *time.Time { now = now.Add(time.Duration(n) * time.Second); at := now; return &at }
	for _, run := range runs {
		size := map[string]int32{"1": 1, "2": 2, "4": 4}[run.Parameters["size"]]
		s.Records = append(s.Records, &experiment.Record{
			Name: run.Name, Case: run.Case, Repetition: run.Repetition, Parameters: run.Parameters, State: v1alpha2.StateSucceeded,
			Submitted: after(0), Admitted: after(5), Started: after(1), Finished: after(seconds / int(size)),
			Wanted: size, Size: size, Tasks: size, Nodes: fmt.Sprintf("n[1-%d]", size), Figures: map[string]float64{"loop": float64(seconds) / float64(size)},
			UsefulNodeSeconds: int64(seconds), LostNodeSeconds: int64(size), // a second of each node until the command began
		})
	}
	return s
}

// elsewhere matches what a browser would load from another place.
var elsewhere = regexp.MustCompile(`(?i)(src|href)\s*=\s*["'][^#"']|url\(|@import`)

// checkXML checks that a drawing is XML, and returns its texts.
func checkXML(t *testing.T, name string, drawing []byte) string {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(string(drawing)))
	var texts strings.Builder
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return texts.String()
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if text, ok := token.(xml.CharData); ok {
			texts.Write(text)
		}
	}
}

func TestReport(t *testing.T) {
	page, drawings, err := New(study(t, 40))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range drawings {
		names = append(names, d.Name)
		file := d.Plot.File()
		checkXML(t, d.Name, file)
		if found := elsewhere.Find(file); found != nil || strings.Contains(string(file), "NaN") {
			t.Errorf("%s is no drawing of its own: %s", d.Name, found)
		}
	}
	for _, want := range []string{"scaling", "efficiency", "nodes", "utilization", "waits", "waiting", "lives", "sizes", "hostage"} {
		if !slices.Contains(names, want) {
			t.Errorf("there is no drawing %s, but %v", want, names)
		}
	}
	for _, want := range []string{"study", "size=1", "size=4", "prefers-color-scheme", "@media print"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("%q is not in the page", want)
		}
	}
	if found := elsewhere.Find(page); found != nil || strings.Contains(string(page), "NaN") {
		t.Errorf("the page needs another file, or has no numbers: %s", found)
	}
}

// A report can be written whatever the runs came to.
func TestReportOfLittle(t *testing.T) {
	few := study(t, 40)
	for _, r := range few.Records {
		r.State, r.Figures = v1alpha2.StateFailed, nil
	}
	unknown := study(t, 40)
	unknown.Records = unknown.Records[:1]
	unknown.Records[0].Admitted, unknown.Records[0].Started, unknown.Records[0].Finished, unknown.Records[0].Nodes = nil, nil, nil, ""
	hostile := study(t, 40)
	hostile.Where = "<script>alert(1)</script>"
	hostile.Records[0].Message, hostile.Records[0].Reason = "<script>", `"><img>`
	for name, s := range map[string]Study{"failures": few, "a run that never began": unknown, "texts of others": hostile} {
		page, drawings, err := New(s)
		if err != nil || len(page) == 0 || strings.Contains(string(page), "<script>") || strings.Contains(string(page), "<img>") {
			t.Errorf("%s: %v", name, err)
		}
		for _, d := range drawings {
			if file := d.Plot.File(); strings.Contains(checkXML(t, name+": "+d.Name, file), "NaN") || strings.Contains(string(file), "NaN") {
				t.Errorf("%s: %s has no numbers", name, d.Name)
			}
		}
	}
}

func TestNoRecords(t *testing.T) {
	none := study(t, 40)
	none.Records = nil
	if _, _, err := New(none); err == nil || err.Error() != "results has no records of runs" {
		t.Errorf("got %v", err)
	}
}

// The ratios of each case, and the drawings of both experiments beside each other, on the same axes.
// One of two studies may have sizes that the other does not have (yet).
func TestComparisonOfOtherSizes(t *testing.T) {
	whole, part := study(t, 40), study(t, 20)
	part.Records = slices.DeleteFunc(part.Records, func(r *experiment.Record) bool { return r.Wanted == 4 })
	for _, pair := range [][2]Study{{whole, part}, {part, whole}} {
		table, page, _, err := Comparison(pair[0], pair[1])
		if err != nil || len(table.Rows) != 8 || !strings.Contains(string(page), "Without a partner") { // two cases, four measures
			t.Errorf("%d rows, %v", len(table.Rows), err)
		}
	}
}

func TestComparison(t *testing.T) {
	table, page, drawings, err := Comparison(study(t, 40), study(t, 20))
	if err != nil || elsewhere.Match(page) {
		t.Fatal(err)
	}
	plots := map[string]*chart.Plot{}
	for _, d := range drawings {
		if plots[d.Name] != nil {
			t.Errorf("two drawings are called %s", d.Name)
		}
		plots[d.Name] = d.Plot
		checkXML(t, d.Name, d.Plot.File())
	}
	want := []string{
		"a-hostage", "a-nodes", "a-sizes", "a-utilization", "a-waiting", "a-waits", "b-hostage", "b-nodes", "b-sizes", "b-utilization", "b-waiting", "b-waits",
		"efficiency", "ratio-hostage-time", "ratio-loop", "ratio-run-time", "ratio-wait", "scaling",
	}
	if got := slices.Sorted(maps.Keys(plots)); !slices.Equal(got, want) {
		t.Fatalf("got %v", got)
	}
	for _, name := range []string{"hostage", "utilization", "waits"} {
		if a, b := plots["a-"+name], plots["b-"+name]; a.X.Max != b.X.Max || a.Y.Max != b.Y.Max || a.Title != "A: "+strings.TrimPrefix(b.Title, "B: ") {
			t.Errorf("%s: %+v and %+v", name, a.X, b.X)
		}
	}
	if len(table.Rows) != 12 { // three cases, four measures
		t.Errorf("%d rows: %v", len(table.Rows), table.Rows)
	}
	for _, row := range table.Rows {
		if len(row) != len(table.Header) {
			t.Errorf("%v has not the columns %v", row, table.Header)
		}
		if strings.Contains(strings.Join(row, " "), "loop") && !slices.ContainsFunc(row, func(cell string) bool { return strings.HasPrefix(cell, "0.5") }) {
			t.Errorf("B took half as long: %v", row)
		}
	}
}

// The ideal is a straight line, however far the runs are from it, and is within the axes.
func TestIdeal(t *testing.T) {
	s := study(t, 40)
	for _, r := range s.Records {
		r.Figures["loop"] = 40 // it does not scale at all
	}
	m := s.Definition.Measures()[0]
	drawings := scaling(m, s.Definition.Scaling(m, s.Records))
	line, y := drawings[0].Plot.Marks[0], drawings[0].Plot.Y
	if want := []chart.Point{{X: 1, Y: 40}, {X: 2, Y: 20}, {X: 4, Y: 10}}; !slices.Equal(line.Points, want) || y.Min > 10 || y.Max < 40 {
		t.Errorf("the ideal is %v, and the axis from %g to %g", line.Points, y.Min, y.Max)
	}
}

// Each size has a bar of its node-seconds, and the part of them that was hostage.
func TestHostage(t *testing.T) {
	s := study(t, 40)
	last := s.Records[len(s.Records)-1] // of 4 nodes: an attempt had 4 nodes for 10 s, and its command ran for 7 of them
	began := *last.Submitted
	at := func(seconds int) metav1.Time { return metav1.NewTime(began.Add(time.Duration(seconds) * time.Second)) }
	last.GivenUp = []v1alpha2.Attempt{{Size: 4, Admitted: at(-10), Started: new(at(-7)), Ended: at(0)}}
	last.LostNodeSeconds += 40
	d := hostage(s.Records, sizesOf(s.Records))
	var got []string
	for _, mark := range d.Plot.Marks {
		got = append(got, mark.Title)
	}
	want := []string{
		"1 node: 80 node-seconds useful", "1 node: 2 node-seconds hostage", "2.4 %", "2 nodes: 80 node-seconds useful", "2 nodes: 4 node-seconds hostage", "4.8 %",
		"4 nodes: 80 node-seconds useful", "4 nodes: 28 node-seconds lost to commands that did not succeed", "4 nodes: 20 node-seconds hostage", "15.6 %",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
