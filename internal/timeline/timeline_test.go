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

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/story"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time {
	return noon.Add(time.Duration(seconds * float64(time.Second)))
}

// record returns a record of two nodes over ten seconds. <one> holds both nodes from 1 to 6, and runs
// from 2 to 5. two has two pods on n9 from 4 on, and runs from 6 to its end at 10.
func record() *Record {
	one := story.Story{Name: "<one>", Submitted: at(0), Ended: at(5), Size: 2, Wanted: 2, Tasks: 16, State: "Succeeded", Attempts: []story.Attempt{{
		Number: 1, Size: 2, Admitted: at(1), Started: at(2), Ended: at(5), Stays: []story.Stay{{Rank: 0, Node: "n9", From: at(1), To: at(6)}, {Rank: 1, Node: "n10", From: at(1), To: at(6)}},
	}}}
	two := story.Story{Name: "two", Submitted: at(3), Ended: at(10), Size: 2, Wanted: 4, Attempts: []story.Attempt{{
		Number: 1, Size: 2, Admitted: at(4), Started: at(6), Ended: at(10), Stays: []story.Stay{{Rank: 0, Node: "n9", From: at(4)}, {Rank: 1, Node: "n9", From: at(4)}},
	}}}
	return NewRecord([]string{"n10", "n9"}, []story.Story{two, one}, noon, at(10))
}

// alone is a record of one story on one node until 20 s.
func alone(s story.Story) *Record { return NewRecord([]string{"n"}, []story.Story{s}, noon, at(20)) }

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
	if u := NewRecord(nil, nil, noon, noon).Usage(); u != (Usage{}) {
		t.Errorf("of nothing the usage is %+v", u)
	}
}

// A pod that holds its node at the end holds it until the record is closed.
func TestUsageOfAPodThatStays(t *testing.T) {
	r := alone(story.Story{Name: "stuck", Submitted: at(0), Attempts: []story.Attempt{{Admitted: at(5), Stays: []story.Stay{{Node: "n", From: at(5)}}}}})
	if u := r.Usage(); u.Makespan != 20*time.Second || u.Running != 0 || u.Waiting != 0.75 {
		t.Errorf("%+v", u)
	}
}

func TestOrder(t *testing.T) {
	r := record()
	if r.Stories[0].Name != "<one>" || r.Stories[1].Name != "two" || !slices.Equal(r.Nodes, []string{"n9", "n10"}) {
		t.Errorf("%+v", r)
	}
}

// A record has the stories of some time, and counts the attempts whose nodes nobody knows.
func TestOf(t *testing.T) {
	mc := func(name string, status v1alpha2.MiniClusterStatus) v1alpha2.MiniCluster {
		return v1alpha2.MiniCluster{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "lab", UID: types.UID(name), CreationTimestamp: metav1.NewTime(at(0))}, Status: status}
	}
	admission := &v1alpha2.Admission{Size: 1, Quorum: 1, Nodes: "n1", Time: metav1.NewTime(at(30))}
	attempt := v1alpha2.Attempt{Size: 1, Admitted: metav1.NewTime(at(10)), Ended: metav1.NewTime(at(20))}
	objects := &Objects{
		MiniClusters: []v1alpha2.MiniCluster{
			mc("ended", v1alpha2.MiniClusterStatus{Admission: admission, CompletionTime: new(metav1.NewTime(at(40)))}),
			mc("runs", v1alpha2.MiniClusterStatus{Admission: admission, Attempts: []v1alpha2.Attempt{attempt}}),
			mc("again", v1alpha2.MiniClusterStatus{Attempts: []v1alpha2.Attempt{attempt}}),
		},
		Events: []corev1.Event{{
			InvolvedObject: corev1.ObjectReference{UID: "again"}, EventTime: metav1.NewMicroTime(at(10)), Reason: "Admitted", Message: "Placed 1 of 1 brokers on n7",
		}},
		Nodes: []string{"idle"}, Qualified: true,
	}
	for since, want := range map[float64]string{0: "lab/again lab/ended lab/runs 1 idle n1 n7", 15: "lab/again lab/ended lab/runs 1 idle n1 n7", 50: "lab/again lab/runs 0 idle n1"} {
		r, unknown := Of(objects, at(since), at(100))
		var names []string
		for _, s := range r.Stories {
			names = append(names, s.Name)
		}
		if got := fmt.Sprint(strings.Join(names, " "), " ", unknown, " ", strings.Join(r.Nodes, " ")); got != want {
			t.Errorf("since %g: got %s, want %s", since, got, want)
		}
	}
}

// Times are in units in which they are short, and in the same unit for drawings beside each other.
func TestUnits(t *testing.T) {
	for length, want := range map[time.Duration]string{0: "[s] 1", 2 * time.Minute: "[s] 120", time.Hour: "[min] 60", 10 * time.Hour: "[h] 10"} {
		axis := Extent{From: noon, To: noon.Add(length)}.Axis()
		_, unit, _ := strings.Cut(axis.Label, " [")
		if got := fmt.Sprintf("[%s %g", unit, axis.Max); got != want {
			t.Errorf("%s: %s, want %s", length, got, want)
		}
	}
	if s := (Extent{From: noon, To: noon.Add(time.Minute), Least: 3600}); s.Axis().Max != 60 || s.At(s.To) != 1 {
		t.Errorf("beside one of an hour: %+v", s.Axis())
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
	svg := string(alone(story.Story{Name: "waits", Submitted: at(0)}).Plot().File())
	for _, want := range []string{`width="980" height="5.8"><title>waits waited from 0.0 to 20.0 s</title>`} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %s in %s", want, svg)
		}
	}
}

func TestPlot(t *testing.T) {
	all := elements(t, string(record().Plot().File()))
	texts := map[string]int{}
	for _, e := range all {
		texts[e.text]++
	}
	for _, text := range []string{
		"n9", "n10", "<one>", "two, ranks 0-1 on n[9,9]: 4.0 to 10.0 s", "two waited from 3.0 to 4.0 s", "two 2/4 brokers, 4.0 s", "<one> 2/2 brokers, 16 tasks, 3.0 s",
	} {
		if texts[text] == 0 {
			t.Errorf("%q is not there, but %v", text, texts)
		}
	}
	const rounding = 0.2
	// Pods of the same node do not overlap in its row. Three pods share n9.
	var bars []element
	for i, e := range all {
		if e.name == "title" && strings.Contains(e.text, ", rank") {
			bars = append(bars, all[i-1])
		}
	}
	for i, a := range bars {
		for _, b := range bars[:i] {
			if a.x < b.x+b.width-rounding && b.x < a.x+a.width-rounding && a.y < b.y+b.height-rounding && b.y < a.y+a.height-rounding {
				t.Errorf("%+v is over %+v", a, b)
			}
		}
	}
	if len(bars) != 8 { // two pods of <one> hold, run and end; those of two hold and run
		t.Errorf("%d bars are drawn", len(bars))
	}
}

// Pods on neighboring nodes at the same time are one block, those of other attempts are not.
func TestBlocks(t *testing.T) {
	stay := func(node string, from float64) story.Stay { return story.Stay{Node: node, From: at(from)} }
	r := NewRecord([]string{"n2"}, []story.Story{{Name: "a", Submitted: at(0), Attempts: []story.Attempt{
		{Admitted: at(1), Ended: at(2), Stays: []story.Stay{{Node: "n5", From: at(1), To: at(2)}}},
		{Admitted: at(3), Stays: []story.Stay{stay("n7", 3), stay("n3", 3), stay("n4", 3), stay("n1", 3), stay("n5", 3), stay("n6", 4)}},
	}}}, noon, at(20))
	var got []string
	for _, b := range r.blocks() {
		got = append(got, fmt.Sprintf("%v %g-%g", b.nodes, b.top, b.bottom))
	}
	if want := []string{"[n1] 0-1", "[n3 n4 n5] 2-5", "[n5] 4-5", "[n6] 5-6", "[n7] 6-7"}; !slices.Equal(slices.Sorted(slices.Values(got)), want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A page has the drawing, and a row for each MiniCluster.
func TestPage(t *testing.T) {
	page := string(record().Page().HTML())
	for _, want := range []string{"&lt;one&gt;", "<td>1</td><td>3</td>", "prefers-color-scheme", "</svg>"} {
		if !strings.Contains(page, want) {
			t.Errorf("no %s in the page", want)
		}
	}
	if strings.Contains(page, "<one>") {
		t.Error("a name is not escaped")
	}
}

func TestNothing(t *testing.T) {
	svg := string(NewRecord(nil, nil, noon, noon).Plot().File())
	elements(t, svg)
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		t.Error(svg)
	}
}
