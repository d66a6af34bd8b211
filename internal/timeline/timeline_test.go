// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time {
	return noon.Add(time.Duration(seconds * float64(time.Second)))
}

// record returns a record of two nodes over ten seconds. <one> holds both nodes from 1 to 6, and runs
// from 2 to 5. two has two pods on n9 from 4 on, and runs from 6 to its end at 10.
func record() *Recorder {
	r := NewRecorder([]string{"n10", "n9"}, noon)
	r.Seen(Run{Name: "<one>", Wanted: 2, State: "Queued"}, false, false, at(0))
	for rank, node := range []string{"n9", "n10"} {
		r.Held(fmt.Sprint("one-", rank), Span{MiniCluster: "<one>", Rank: rank, Node: node}, at(1))
		r.Held(fmt.Sprint("one-", rank), Span{MiniCluster: "<one>", Rank: rank, Node: node}, at(1.5)) // seen again
	}
	r.Seen(Run{Name: "<one>", Size: 2, Wanted: 2, Tasks: 16, State: "Running"}, true, false, at(2))
	r.Seen(Run{Name: "two", Size: 2, Wanted: 4}, false, false, at(3))
	for rank := range 2 {
		r.Held(fmt.Sprint("two-", rank), Span{MiniCluster: "two", Rank: rank, Node: "n9"}, at(4))
	}
	r.Seen(Run{Name: "<one>", Size: 2, Wanted: 2, Tasks: 16, State: "Succeeded"}, true, true, at(5))
	r.Seen(Run{Name: "two", Size: 2, Wanted: 4}, true, false, at(6))
	for rank := range 2 {
		r.Freed(fmt.Sprint("one-", rank), at(6))
		r.Freed(fmt.Sprint("one-", rank), at(7)) // seen again
	}
	r.Seen(Run{Name: "two", Size: 2, Wanted: 4}, true, true, at(10))
	return r
}

func TestUsage(t *testing.T) {
	u := record().Usage()
	// Commands ran for 3+3 and 4 (only on n9) of 20 node seconds. The nodes were held for 4 more
	// seconds: both from 1 to 2 and from 5 to 6.
	for name, v := range map[string][2]float64{
		"makespan": {u.Makespan.Seconds(), 10}, "running": {u.Running, 0.5}, "waiting": {u.Waiting, 0.2}, "idle": {u.Idle, 0.3},
	} {
		if math.Abs(v[0]-v[1]) > 1e-9 {
			t.Errorf("%s is %g, want %g", name, v[0], v[1])
		}
	}
	if u := NewRecorder(nil, noon).Usage(); u != (Usage{}) {
		t.Errorf("of nothing the usage is %+v", u)
	}
}

// A pod that holds its node at the end holds it until the record is closed.
func TestClose(t *testing.T) {
	r := NewRecorder([]string{"n"}, noon)
	r.Seen(Run{Name: "stuck", Wanted: 2}, false, false, at(0))
	r.Held("stuck-0", Span{MiniCluster: "stuck", Node: "n"}, at(5))
	r.Close(at(20))
	if u := r.Usage(); u.Makespan != 20*time.Second || u.Running != 0 || u.Waiting != 0.75 {
		t.Errorf("%+v", u)
	}
}

func TestRuns(t *testing.T) {
	runs := record().Runs()
	want := []Run{
		{Name: "<one>", Size: 2, Wanted: 2, Tasks: 16, State: "Succeeded", Submitted: at(0), Started: at(2), Ended: at(5)},
		{Name: "two", Size: 2, Wanted: 4, Submitted: at(3), Started: at(6), Ended: at(10)},
	}
	if !slices.Equal(runs, want) {
		t.Errorf("runs %+v", runs)
	}
}

// element is a rectangle or a text of the drawing.
type element struct {
	name, text, fill    string
	x, y, width, height float64
}

func elements(t *testing.T, svg string) (out []element) {
	t.Helper()
	decoder := xml.NewDecoder(strings.NewReader(svg))
	for {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatalf("the drawing is no XML: %v", err)
		}
		switch token := token.(type) {
		case xml.StartElement:
			e := element{name: token.Name.Local}
			for _, a := range token.Attr {
				if field := map[string]*float64{"x": &e.x, "y": &e.y, "width": &e.width, "height": &e.height}[a.Name.Local]; field != nil {
					_, _ = fmt.Sscan(a.Value, field)
				}
				if a.Name.Local == "fill" {
					e.fill = a.Value
				}
			}
			out = append(out, e)
		case xml.CharData:
			if len(out) > 0 {
				out[len(out)-1].text += strings.TrimSpace(string(token))
			}
		}
	}
}

// A MiniCluster waits for longer than others hold nodes. The drawing has the whole wait.
func TestLongWait(t *testing.T) {
	r := NewRecorder([]string{"n1"}, noon)
	r.Seen(Run{Name: "waits"}, false, false, at(0))
	r.Close(at(100))
	var out strings.Builder
	if err := r.SVG(&out); err != nil {
		t.Fatal(err)
	}
	bars := 0
	for i, e := range elements(t, out.String()) {
		if i > 1 && e.fill == "hsl(205,48%,50%)" && e.height < 11 {
			bars++
			if e.x != marginLeft || e.width != plotWidth {
				t.Errorf("the wait is at %+v", e)
			}
		}
	}
	if bars != 1 {
		t.Errorf("%d waits are drawn", bars)
	}
}

// Between the end of the pods and the end that is seen, a MiniCluster does not wait.
func TestNoWaitAfterTheEnd(t *testing.T) {
	r := NewRecorder([]string{"n1"}, noon)
	r.Seen(Run{Name: "ran"}, false, false, at(0))
	r.Held("p", Span{MiniCluster: "ran", Node: "n1"}, at(5))
	r.Seen(Run{Name: "ran"}, true, false, at(6))
	r.Freed("p", at(10))
	r.Seen(Run{Name: "ran"}, true, true, at(11))
	r.Close(at(20))
	if got, want := r.Waits(), []Wait{{"ran", at(0), at(5)}}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestSVG(t *testing.T) {
	var out strings.Builder
	if err := record().SVG(&out); err != nil {
		t.Fatal(err)
	}
	all := elements(t, out.String())
	texts := map[string]int{}
	for _, e := range all {
		texts[e.text]++
	}
	for _, text := range []string{"n9", "n10", "<one> rank 0 on n9: 1.0 to 6.0 s", "two rank 1 on n9: 4.0 to 10.0 s", "two waited from 3.0 to 4.0 s", "two  2/4 brokers, 4.0 s"} {
		if texts[text] != 1 {
			t.Errorf("%q is there %d times", text, texts[text])
		}
	}
	const rounding = 0.2
	// Pods of the same node do not overlap in its row. Three pods share n9.
	var bars []element
	for i, e := range all {
		if e.name == "title" && !strings.Contains(e.text, "waited") {
			bars = append(bars, all[i+1])
		}
	}
	for i, a := range bars {
		for _, b := range bars[:i] {
			if a.x < b.x+b.width && b.x < a.x+a.width && a.y < b.y+b.height-rounding && b.y < a.y+a.height-rounding {
				t.Errorf("%+v is over %+v", a, b)
			}
		}
	}
	if len(bars) != 4 {
		t.Errorf("%d pods are drawn", len(bars))
	}
}

func TestSVGOfNothing(t *testing.T) {
	var out strings.Builder
	if err := NewRecorder(nil, noon).SVG(&out); err != nil {
		t.Fatal(err)
	}
	elements(t, out.String())
	if strings.Contains(out.String(), "NaN") || strings.Contains(out.String(), "Inf") {
		t.Error(out.String())
	}
}

func TestTickStep(t *testing.T) {
	for seconds, want := range map[float64]float64{1: 0.1, 10: 1, 13: 2, 50: 5, 120: 10, 3600: 500} {
		if got := tickStep(seconds); math.Abs(got-want) > 1e-9 {
			t.Errorf("of %g s it is %g, want %g", seconds, got, want)
		}
	}
}
