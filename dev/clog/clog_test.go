// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package clog

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

func TestParseSizes(t *testing.T) {
	for text, want := range map[string]string{
		"64x6":                   "64x6 ",
		"64x6, 32x10":            "64x6 32x10 ",
		"1x1,1x1":                "1x1 1x1 ",
		"":                       `sizes "": "" is not SIZExCOUNT, as in 64x6`,
		"64":                     `sizes "64": "64" is not SIZExCOUNT, as in 64x6`,
		"64x6,":                  `sizes "64x6,": "" is not SIZExCOUNT, as in 64x6`,
		"ax6":                    `sizes "ax6": the size in "ax6" is no number above 0`,
		"0x6":                    `sizes "0x6": the size in "0x6" is no number above 0`,
		"4x-1":                   `sizes "4x-1": the count in "4x-1" is no number above 0`,
		"4x1x2":                  `sizes "4x1x2": the count in "4x1x2" is no number above 0`,
		"4x99999999999999999999": `sizes "4x99999999999999999999": the count in "4x99999999999999999999" is no number above 0`,
	} {
		classes, err := ParseSizes(text)
		got := ""
		for _, class := range classes {
			got += fmt.Sprintf("%dx%d ", class.Size, class.Count)
		}
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

func TestGangs(t *testing.T) {
	classes := []Class{{Size: 64, Count: 6}, {Size: 32, Count: 10}, {Size: 5, Count: 1}}
	one, err := Gangs(classes, Half, 1)
	if err != nil {
		t.Fatal(err)
	}
	again, _ := Gangs(classes, Half, 1)
	other, _ := Gangs(classes, Half, 2)
	if !slices.Equal(one, again) {
		t.Error("the same seed gives another order")
	}
	if slices.Equal(one, other) {
		t.Error("another seed gives the same order")
	}
	if len(one) != 17 || Pods(one) != 709 || Pods(other) != 709 {
		t.Errorf("%d gangs of %d pods", len(one), Pods(one))
	}
	for i, gang := range one {
		if gang.Name != fmt.Sprintf("gang-%03d-%d", i, gang.Size) || gang.Min != (gang.Size+1)/2 {
			t.Errorf("gang %d is %+v", i, gang)
		}
	}
	rigid, _ := Gangs(classes, Rigid, 1)
	if rigid[0].Min != rigid[0].Size || rigid[0].Name != one[0].Name {
		t.Errorf("a rigid one is %+v", rigid[0])
	}
	if _, err := Gangs(classes, "none", 1); err == nil || err.Error() != `the minimum is "none": it can be rigid or half` {
		t.Errorf("error %v", err)
	}
}

// script returns a record of two nodes of one CPU. Each line is a change: a time, a gang, and what
// happens to it. Changes are seen in the order in which they are written.
func script(lines ...string) *Record {
	r := NewRecord(2, 1000)
	r.Submitted(Gang{Name: "a", Size: 2, Min: 2, Run: 10 * time.Second}, at(0))
	r.Submitted(Gang{Name: "b", Size: 1, Min: 1, Run: 10 * time.Second}, at(0))
	pods, statuses := map[string]Pod{}, map[string]Status{}
	for i, line := range lines {
		f := strings.Fields(line) // TIME GANG admit|preempt|start|finish|PODSTATE [TRY RANK [NODE]]
		var seconds float64
		_, _ = fmt.Sscan(f[0], &seconds)
		gang, what := f[1], f[2]
		s := statuses[gang]
		s.Gang, s.Created, s.Revision = gang, noon, uint64(i+1)
		switch what {
		case "admit":
			s.Attempt++
			s.Nodes = f[3:]
		case "preempt":
			s.Attempt--
			s.Nodes = nil
		case "start":
			s.Started = true
		case "finish":
			s.Finished, s.Succeeded = true, true
		default:
			p := pods[gang+f[3]+f[4]]
			p.UID, p.Gang, p.Try, p.CPU, p.Revision = gang+f[3]+f[4], gang, f[3], 1000, uint64(i+1)
			_, _ = fmt.Sscan(f[4], &p.Rank)
			if what == "pin" {
				p.Node = f[5]
			}
			p.Bound, p.Up, p.Ended = p.Bound || what == "bind", p.Up || what == "up", what == "end"
			pods[p.UID] = p
			r.TakePod(p, at(seconds))
			continue
		}
		statuses[gang] = s
		r.TakeStatus(s, at(seconds))
	}
	return r
}

// whole is a run of both gangs without violations: a holds both nodes, and b runs after it.
var whole = []string{
	"1 a admit n1 n2",
	"2 a make t 0", "2.5 a make t 1",
	"3 a pin t 0 n1", "3.25 a pin t 1 n2",
	"3.5 a bind t 0", "4 a bind t 1",
	"4.5 a up t 0", "5 a up t 1", "5.5 a start",
	"15 a end t 0", "15.25 a finish", "16 a end t 1",
	"16.5 b admit n2",
	"17 b make t 0", "17.5 b pin t 0 n2", "18 b bind t 0", "18.5 b up t 0", "19 b start", "28.5 b end t 0", "29 b finish",
}

func TestViolations(t *testing.T) {
	none := Violations{}
	for name, test := range map[string]struct {
		lines []string
		want  Violations
	}{
		"nothing happened": {nil, none},
		"as it should be":  {whole, none},
		"the minimum is pinned while the first is bound already": {[]string{
			"1 a admit n1 n2", "2 a make t 0", "2 a make t 1", "3 a pin t 0 n1", "4 a bind t 0", "5 a pin t 1 n2"}, none},
		"half placed to the end": {[]string{
			"1 a admit n1 n2", "2 a make t 0", "3 a pin t 0 n1", "4 a bind t 0"}, Violations{HalfPlaced: 1}},
		"half placed, and given up": {[]string{
			"1 a admit n1 n2", "3 a pin t 0 n1", "4 a bind t 0", "5 a end t 0"}, Violations{HalfPlaced: 1, GaveUp: 1}},
		"never together": {[]string{
			"1 a admit n1 n2", "3 a pin t 0 n1", "4 a bind t 0", "5 a end t 0", "6 a pin t 1 n2", "7 a bind t 1"}, Violations{HalfPlaced: 1}},
		"placed, never up, and tried again": {[]string{
			"1 a admit n1 n2", "3 a pin t 0 n1", "3 a pin t 1 n2", "4 a bind t 0", "5 a make u 0"}, Violations{GaveUp: 1}},
		"pinned and given up, but nothing was bound": {[]string{
			"1 a admit n1 n2", "3 a pin t 0 n1", "4 a end t 0", "5 a make u 0"}, none},
		"no admission": {[]string{"3 b pin t 0 n1", "4 b bind t 0"}, Violations{NotAdmitted: 1}},
		"the admission is written afterwards": {[]string{
			"3 b pin t 0 n1", "4 b bind t 0", "5 b admit n1"}, Violations{NotAdmitted: 1}},
		"bound elsewhere": {[]string{"1 b admit n2", "3 b pin t 0 n1", "4 b bind t 0"}, Violations{NotAdmitted: 1}},
		"another admission since": {[]string{
			"1 b admit n1", "3 b pin t 0 n1", "4 b bind t 0", "5 b up t 0", "6 b admit n2"}, none},
		"a node with two": {[]string{
			"1 a admit n1 n2", "1 b admit n1", "2 a pin t 0 n1", "3 b pin t 0 n1"}, Violations{DoubleBooked: 1}},
		"a node with one after the other": {[]string{
			"1 a admit n1 n2", "2 a pin t 0 n1", "3 a end t 0", "3 b admit n1", "4 b pin t 0 n1"}, none},
	} {
		if got := script(test.lines...).Violations(); got != test.want {
			t.Errorf("%s: %+v, want %+v", name, got, test.want)
		}
	}
	if got := script(whole...).LongestPartial(); got != 0 {
		t.Errorf("a part was pinned for %v", got)
	}
	if got := script("3 a pin t 0 n1", "4 a bind t 0", "5.5 a pin t 1 n2").LongestPartial(); got != 1500*time.Millisecond {
		t.Errorf("a part was pinned for %v", got)
	}
}

func TestOver(t *testing.T) {
	for n := range whole {
		if over := script(whole[:n]...).Over(); over {
			t.Errorf("over after %d of %d", n, len(whole))
		}
	}
	if r := script(whole...); !r.Over() || r.Finished() != 2 {
		t.Errorf("not over at the end, %d finished", r.Finished())
	}
}

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9 }

func TestBreakdown(t *testing.T) {
	b := script(whole...).Breakdown()
	if !near(b.Makespan, 28.5) {
		t.Errorf("makespan %g", b.Makespan)
	}
	// For each phase: the mean of the gangs, and seconds of nodes. While a gang waited for
	// room, only n1 was idle: from the end of a's lead (15) to b's room (16). From then on n1
	// was unused.
	want := map[string][2]float64{
		PhaseRoom:     {(0 + 16) / 2.0, 1.5}, // n1: 15 to 16.5, when b, which waits, is admitted
		PhaseDecision: {(1 + 0.5) / 2, 2 + 0.5},
		PhaseObjects:  {(1.5 + 0.5) / 2, 3 + 0.5},
		PhasePinning:  {(0.75 + 0.5) / 2, 1.5 + 0.5},
		PhaseBinding:  {(0.75 + 0.5) / 2, 1.5 + 0.5},
		PhaseStart:    {(1 + 0.5) / 2, 2 + 0.5},
		PhaseRun:      {10, 20 + 10},
		PhaseEnd:      {0.5, 1},
		PhaseIdle:     {0, 12}, // n1: 16.5 to 28.5
		PhaseOther:    {0, 0},
	}
	total := 0.0
	for _, p := range b.Phases {
		if w := want[p.Name]; !near(p.Gangs.Mean, w[0]) || !near(p.NodeSeconds, w[1]) {
			t.Errorf("%s: %g s of gangs, %g of nodes, want %v", p.Name, p.Gangs.Mean, p.NodeSeconds, w)
		}
		total += p.Share
	}
	if len(b.Phases) != len(want) || !near(total, 1) {
		t.Errorf("%d phases, in all %g", len(b.Phases), total)
	}
	if b.Gap != (Spread{1, 1.5, 1.5, 1.5, 1.5, 1.5}) {
		t.Errorf("gap %+v", b.Gap)
	}
	if b.Waking != (Spread{2, 0.5, 0.5, 0.5, 0.5, 0.5}) {
		t.Errorf("waking %+v", b.Waking)
	}
	if len(b.Gangs) != 2 || b.Gangs[1].Ran != 1 || !near(b.Gangs[1].Until[PhasePinning], 17.5) {
		t.Errorf("gangs %+v", b.Gangs)
	}
}

// A preempted gang that gets its nodes back was admitted the second time, not the first.
func TestBreakdownAfterPreemption(t *testing.T) {
	b := script("1 b admit n1", "2 b pin t 0 n1", "3 b preempt", "4 b end t 0",
		"20 b admit n1", "21 b pin u 0 n1", "22 b bind u 0", "23 b up u 0", "24 b start", "33 b end u 0", "33 b finish").Breakdown()
	if len(b.Gangs) != 1 || !near(b.Gangs[0].Until[PhaseDecision], 20) || !near(b.Gangs[0].Until[PhaseBinding], 22) {
		t.Errorf("gangs %+v", b.Gangs)
	}
}

// The time of gangs that have not finished, and of failed tries, counts as other, not as a phase.
func TestBreakdownOfWhatIsNotOver(t *testing.T) {
	r := script(whole[:len(whole)-2]...) // b is up, on n2 since 17.5
	r.Close(at(20))
	b := r.Breakdown()
	total := 0.0
	for _, p := range b.Phases {
		total += p.Share
		if p.Name == PhaseOther && !near(p.NodeSeconds, 2.5) {
			t.Errorf("other than phases are %g s of nodes", p.NodeSeconds)
		}
	}
	if len(b.Gangs) != 1 || !near(b.Makespan, 20) || !near(total, 1) {
		t.Errorf("%d gangs, in all %g", len(b.Gangs), total)
	}
	if b := NewRecord(2, 1000).Breakdown(); b.Makespan != 0 {
		t.Errorf("of nothing: %+v", b)
	}
}

func TestNewSpread(t *testing.T) {
	var hundred []float64
	for i := range 100 {
		hundred = append(hundred, float64(100-i))
	}
	for name, test := range map[string]struct {
		seconds []float64
		want    Spread
	}{
		"none": {nil, Spread{}}, "one": {[]float64{3}, Spread{1, 3, 3, 3, 3, 3}},
		"two": {[]float64{5, 1}, Spread{2, 3, 1, 5, 5, 5}}, "hundred": {hundred, Spread{100, 50.5, 50, 95, 99, 100}},
	} {
		if got := NewSpread(test.seconds); got != test.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestResult(t *testing.T) {
	o := &Result{}
	o.Tell(script(whole...))
	if o.Gangs != 2 || o.Finished != 2 || o.Pods != 3 || o.FinishedPods != 3 || !near(o.Bound, 15) || !near(o.Ratio, 1.9) || !near(o.Useful, 30/57.0) {
		t.Errorf("%+v", o)
	}
	if err := o.Verdict(); err != nil {
		t.Error(err)
	}
	var out strings.Builder
	if err := o.Print(&out); err != nil || !strings.Contains(out.String(), "2 of 2 gangs finished") {
		t.Errorf("%v %s", err, out.String())
	}
	o.Tell(script(whole[:5]...))
	if err := o.Verdict(); err == nil || !strings.Contains(err.Error(), "0 of 2 gangs finished, 0 violations") {
		t.Errorf("verdict %v", err)
	}
}

const served = `# HELP apiserver_request_total requests
# TYPE apiserver_request_total counter
apiserver_request_total{code="201",dry_run="",resource="pods",subresource="",verb="POST"} 30
apiserver_request_total{code="409",dry_run="",resource="pods",subresource="",verb="POST"} 2
apiserver_request_total{code="201",dry_run="All",resource="pods",subresource="",verb="POST"} 4
apiserver_request_total{code="200",dry_run="",resource="pods",subresource="status",verb="PATCH"} 1.6e+01
apiserver_request_total{code="200",dry_run="",resource="pods",subresource="",verb="GET"} 99
apiserver_request_total_other{code="200"} 5
apiserver_watch_events_total{resource="pods"} 80
cycles_bucket{le="0.001"} 50
cycles_bucket{le="0.01"} 98
cycles_bucket{le="+Inf"} 100
`

func TestMetrics(t *testing.T) {
	m, err := ReadMetrics(strings.NewReader(served), RequestsTotal, WatchEventsTotal, "cycles_bucket")
	if err != nil || len(m) != 9 {
		t.Fatalf("%v %v", m, err)
	}
	before := Metrics{`apiserver_request_total{code="201",dry_run="",resource="pods",subresource="",verb="POST"}`: 22, `apiserver_watch_events_total{resource="pods"}`: 0}
	api := NewAPI(m.Since(before), 10)
	want := []Writes{{"PATCH pods status", 16, 1.6}, {"POST pods", 10, 1}}
	if !slices.Equal(api.Writes, want) || !slices.Equal(api.DryRuns, []Writes{{"POST pods", 4, 0.4}}) {
		t.Errorf("writes %+v, dry runs %+v", api.Writes, api.DryRuns)
	}
	if !near(api.WritesPerPod, 2.6) || !near(api.WatchEventsPerPod, 8) {
		t.Errorf("per pod %g writes, %g watch events", api.WritesPerPod, api.WatchEventsPerPod)
	}
	for q, want := range map[float64]float64{0.5: 0.001, 0.74: 0.0055, 0.99: 0.01} {
		if got := m.Quantile("cycles", q); !near(got, want) {
			t.Errorf("quantile %g is %g, want %g", q, got, want)
		}
	}
	if got := (Metrics{}).Quantile("cycles", 0.5); got != 0 {
		t.Errorf("of nothing it is %g", got)
	}
	if _, err := ReadMetrics(strings.NewReader("a{} x\n"), "a"); err == nil {
		t.Error("a value that is no number is read")
	}
}

func TestLabel(t *testing.T) {
	const series = `a{code="200",xcode="1",verb=""}`
	for name, want := range map[string]string{"code": "200", "xcode": "1", "verb": "", "none": ""} {
		if got := Label(series, name); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
}
