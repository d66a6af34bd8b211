// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
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
	for _, want := range []string{"scaling", "efficiency", "nodes", "utilization", "waits", "sizes"} {
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

func TestComparison(t *testing.T) {
	table, page, drawings, err := Comparison(study(t, 40), study(t, 20))
	if err != nil || len(drawings) == 0 || elsewhere.Match(page) {
		t.Fatalf("%d drawings, %v", len(drawings), err)
	}
	if len(table.Rows) != 9 { // three cases, three measures
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
