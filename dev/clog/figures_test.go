// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package clog

import (
	"fmt"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/internal/story"
)

// jobs returns a record of four nodes with gangs that are Jobs of size 2, of two queues. Each line is a
// time, a gang, and what happens to its pods: their states by index, and the try after which their
// UIDs are named. The states are b(ound), u(p), s(ucceeded), f(ailed) and - (nothing new).
func jobs(until float64, lines ...string) *Record {
	r := NewJobRecord(4, 1000)
	for i, name := range []string{"a", "b"} {
		r.Submitted(Gang{Name: name, Size: 2, Min: 2, Run: 10 * time.Second, Queue: name}, at(float64(i)))
	}
	pods := map[string]Pod{}
	for _, line := range lines {
		var seconds float64
		var gang, states, try string
		_, _ = fmt.Sscan(line, &seconds, &gang, &states, &try)
		for i, state := range states {
			uid := fmt.Sprint(gang, try, i)
			p := pods[uid]
			p.UID, p.Gang, p.Try, p.Rank, p.CPU, p.Node = uid, gang, gang, i, 1000, gang+fmt.Sprint(i)
			switch state {
			case 'b':
				p.Bound = true
			case 'u':
				p.Up = true
			case 's', 'f':
				p.Up, p.Ended, p.Succeeded = false, true, state == 's'
			case '-':
				continue
			}
			pods[uid] = p
			r.TakePod(p, at(seconds))
		}
	}
	r.Close(at(until))
	return r
}

func TestFiguresOfJobs(t *testing.T) {
	whole := []string{"1 a bb", "2 a u-", "4 a -u", "14 a ss", "3 b bb", "5 b uu", "15 b ss"}
	for name, test := range map[string]struct {
		lines    []string
		finished int
		hostage  float64
		longest  float64
		wait     string // p50 and the most
	}{
		// Of a, both nodes are held without a command from 1 to 4, of b from 3 to 5.
		"all run":       {whole, 2, 10, 3, "4 4"},
		"one half":      {[]string{"1 a b-", "2 a u-", "3 b bb", "5 b uu", "15 b ss"}, 1, 49 + 4, 49, "4 50"},
		"tried twice":   {[]string{"1 a b-", "3 a f-", "4 a bb 2", "6 a uu 2", "16 a ss 2", "3 b bb", "5 b uu", "15 b ss"}, 2, 2 + 4 + 4, 2, "4 6"},
		"lost and over": {[]string{"1 a bb", "2 a uu", "4 a ff", "3 b bb", "5 b uu", "15 b ss"}, 1, 2 + 4, 2, "4 50"},
	} {
		t.Run(name, func(t *testing.T) {
			r := jobs(50, test.lines...)
			f := r.Figures(0)
			wait := fmt.Sprint(f.Wait.P50, f.Wait.Max)
			if r.Finished() != test.finished || !near(f.Hostage, test.hostage) || !near(f.LongestHostage, test.longest) || wait != test.wait {
				t.Errorf("%d finished, hostage %g, longest %g, wait %s", r.Finished(), f.Hostage, f.LongestHostage, wait)
			}
		})
	}
	if f := jobs(50, whole...).Figures(0); !near(f.GangsPerSecond, 2/5.0) || !near(f.PodsPerSecond, 4/5.0) {
		t.Errorf("%+v", f)
	}
}

// A lead that is ready says that the command runs. So the hostage time of a MiniCluster ends.
func TestHostageOfMiniClusters(t *testing.T) {
	r := NewRecord(2, 1000)
	r.Submitted(Gang{Name: "a", Size: 2, Min: 1, Run: 10 * time.Second}, at(0))
	pod := func(rank int, seconds float64, up, ready bool) {
		r.TakePod(Pod{UID: fmt.Sprint(rank), Gang: "a", Try: "1", Rank: rank, Node: fmt.Sprint(rank), Bound: true, Up: up, Ready: ready}, at(seconds))
	}
	pod(0, 1, false, false)
	pod(1, 2, false, false)
	pod(1, 3, true, true)
	pod(0, 4, true, false)
	pod(0, 6, true, true)
	r.Close(at(20))
	if f := r.Figures(0); !near(f.Hostage, 5+4) || !near(f.LongestHostage, 5) {
		t.Errorf("%+v", f)
	}
}

func TestShares(t *testing.T) {
	r := jobs(50, "0 a bb", "0 a uu", "30 a ss", "20 b bb", "20 b u-", "30 b -u", "40 b ss")
	// Both queues wait from 1 to 0: never. So there are no shares.
	if shares := r.Shares(0); shares != nil {
		t.Errorf("%v", shares)
	}
	r = NewJobRecord(4, 1000)
	for i, name := range []string{"a1", "b1", "a2", "b2"} {
		r.Submitted(Gang{Name: name, Size: 1, Min: 1, Run: 10 * time.Second, Queue: name[:1]}, at(0))
		p := Pod{UID: name, Gang: name, Try: name, Node: fmt.Sprint(i), Bound: true, Up: true}
		r.TakePod(p, at([]float64{0, 5, 20, 20}[i]))
		p.Ended, p.Succeeded = true, true
		r.TakePod(p, at([]float64{20, 15, 30, 30}[i]))
	}
	// Until 20, a1 runs for 20 s and b1 for 10 s; from 10 on for 10 s and 5 s.
	for settle, want := range map[time.Duration]float64{0: 20 / 30.0, 10 * time.Second: 10 / 15.0} {
		if shares := r.Shares(settle); len(shares) != 2 || !near(shares["a"], want) || !near(shares["b"], 1-want) {
			t.Errorf("after %s: %v", settle, shares)
		}
	}
}

func TestBound(t *testing.T) {
	gang := func(size, run, at int) Gang {
		return Gang{Size: size, Run: time.Duration(run) * time.Second, At: time.Duration(at) * time.Second}
	}
	for name, test := range map[string]struct {
		gangs []Gang
		want  time.Duration
	}{
		"nothing":            {nil, 0},
		"at once":            {[]Gang{gang(4, 10, 0), gang(2, 20, 0)}, 20 * time.Second},
		"the longest":        {[]Gang{gang(1, 60, 0), gang(2, 20, 0)}, 60 * time.Second},
		"a late one":         {[]Gang{gang(4, 10, 0), gang(1, 5, 100)}, 105 * time.Second},
		"a full end":         {[]Gang{gang(1, 10, 0), gang(4, 10, 50), gang(4, 10, 50)}, 70 * time.Second},
		"none at the begin":  {[]Gang{gang(4, 10, 5), gang(4, 10, 7)}, 20 * time.Second},
		"more than one late": {[]Gang{gang(4, 40, 0), gang(4, 10, 10)}, 50 * time.Second},
	} {
		if got := Bound(test.gangs, 4); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

func TestHopeless(t *testing.T) {
	for _, test := range []struct {
		size, least int
		never       string
		want        bool
	}{{4, 4, "", false}, {4, 4, "2", true}, {4, 2, "2", false}, {4, 2, "1,2", false}, {4, 2, "1,2,3", true}, {4, 2, "0", true}, {12, 6, "10", false}} {
		if got := (Gang{Size: test.size, Min: test.least, NeverStart: test.never}).Hopeless(); got != test.want {
			t.Errorf("%+v: %t", test, got)
		}
	}
	// A gang that can never run keeps its nodes: that counts. Nobody waits for its end.
	r := NewJobRecord(4, 1000)
	r.Submitted(Gang{Name: "a", Size: 2, Min: 2, Run: 10 * time.Second, NeverStart: "1"}, at(0))
	r.Submitted(Gang{Name: "b", Size: 1, Min: 1, Run: 10 * time.Second}, at(0))
	r.TakePod(Pod{UID: "a0", Gang: "a", Try: "a", Node: "1", Bound: true}, at(1))
	r.TakePod(Pod{UID: "b0", Gang: "b", Try: "b", Node: "2", Bound: true, Up: true}, at(2))
	r.TakePod(Pod{UID: "b0", Gang: "b", Try: "b", Node: "2", Bound: true, Ended: true, Succeeded: true}, at(12))
	r.Close(at(13))
	o := Result{}
	o.Tell(r)
	if !r.Over() || o.Hopeless != 1 || o.Finished != 1 || !near(o.Makespan, 12) || !near(o.Bound, 10) || !near(o.Figures.Hostage, 11) || o.Figures.Wait.Count != 1 {
		t.Errorf("%+v", o)
	}
}

// A try whose pods had nodes is an attempt, and lasts until its pods have ended, or the end of its command is seen.
func TestStories(t *testing.T) {
	describe := func(s story.Story) (text string) {
		for _, p := range s.Phases(at(50)) {
			text += fmt.Sprintf("%s %g-%g, ", p.Kind, p.From.Sub(at(0)).Seconds(), p.To.Sub(at(0)).Seconds())
		}
		return text
	}
	for name, test := range map[string]struct {
		lines []string
		want  string
	}{
		"it waits":      {nil, "waiting 0-50, "},
		"it runs":       {[]string{"1 a bb", "2 a u-", "4 a -u", "14 a s-", "15 a -s"}, "waiting 0-1, starting 1-4, running 4-15, "},
		"half of it":    {[]string{"1 a b-"}, "waiting 0-1, starting 1-50, "},
		"tried twice":   {[]string{"1 a b-", "3 a f-", "8 a bb 2", "9 a uu 2", "16 a ss 2"}, "waiting 0-1, starting 1-3, waiting 3-8, starting 8-9, running 9-16, "},
		"lost and over": {[]string{"1 a bb", "2 a uu", "4 a ff"}, "waiting 0-1, starting 1-2, running 2-4, waiting 4-50, "},
		"lost and back": {[]string{"1 a bb", "2 a uu", "4 a ff", "8 a bb 2"}, "waiting 0-1, starting 1-2, running 2-4, waiting 4-8, starting 8-50, "},
	} {
		stories := jobs(20, test.lines...).Stories()
		if got := describe(stories[0]); got != test.want || stories[1].Name != "b" {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
	// The pods of a MiniCluster are gone before its end is seen.
	r := NewRecord(2, 1000)
	for range 2 {
		r.Submitted(Gang{Name: "a", Size: 1, Min: 1, Run: 10 * time.Second}, at(0))
	}
	p := Pod{UID: "p", Gang: "a", Node: "n1"}
	r.TakePod(p, at(1))
	p.Ready = true
	r.TakePod(p, at(2))
	p.Ended = true
	r.TakePod(p, at(10))
	r.TakeStatus(Status{Gang: "a", Finished: true}, at(11))
	if stories := r.Stories(); len(stories) != 1 || describe(stories[0]) != "waiting 0-1, starting 1-2, running 2-11, " {
		t.Errorf("%+v", stories)
	}
}
