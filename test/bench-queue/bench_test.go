// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

// The published model gives these shares and means.
func TestLublin(t *testing.T) {
	const n, nodes = 20000, 128
	jobs := lublin(rand.New(rand.NewPCG(1, 1)), n, nodes)
	serial, powers, short := 0, 0, 0
	for i, j := range jobs {
		if j.size < 1 || j.size > nodes || j.run < time.Second || i > 0 && j.arrival < jobs[i-1].arrival {
			t.Fatalf("job %d wants %d nodes for %s at %s", i, j.size, j.run, j.arrival)
		}
		switch {
		case j.size == 1:
			serial++
		case j.size&(j.size-1) == 0:
			powers++
		}
		if j.run < 10*time.Minute {
			short++
		}
	}
	for _, tc := range []struct {
		name      string
		is        int
		low, high float64
	}{
		{"serial jobs", serial, 0.24, 0.30}, // parallel ones with 2^0.8 nodes at least are rounded
		{"powers of two", powers, 0.56, 0.65},
		{"jobs of less than ten minutes", short, 0.6, 0.8},
	} {
		if part := float64(tc.is) / n; part < tc.low || part > tc.high {
			t.Errorf("%s are %.2f of all, and not %.2f to %.2f", tc.name, part, tc.low, tc.high)
		}
	}
	byDay := 0
	for _, j := range jobs {
		if hour := j.arrival % (24 * time.Hour) / time.Hour; hour >= 8 && hour < 20 {
			byDay++
		}
	}
	if part := float64(byDay) / n; part < 0.55 {
		t.Errorf("only %.2f of the jobs arrive from 8 to 20 o'clock", part)
	}
}

func TestEstimates(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 2))
	jobs := estimated(random, lublin(random, 5000, 64))
	exact := 0
	for _, j := range jobs {
		if j.estimate < j.run {
			t.Fatalf("a job of %s has an estimate of %s", j.run, j.estimate)
		}
		if j.estimate == j.run {
			exact++
		}
	}
	if part := float64(exact) / 5000; part < 0.15 || part > 0.35 {
		t.Errorf("%.2f of the estimates are exact", part)
	}
}

func TestLoaded(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	jobs := loaded(lublin(random, 3000, 64), 64, 0.9)
	area := 0.0
	for _, j := range jobs {
		area += float64(j.size) * j.run.Seconds()
	}
	if load := area / (64 * jobs[len(jobs)-1].arrival.Seconds()); load < 0.899 || load > 0.901 {
		t.Errorf("the load is %.3f", load)
	}
}

// More nodes make no job slower, and n nodes make none more than n times faster.
func TestSpeedup(t *testing.T) {
	for _, variance := range []float64{0, 0.3, 1, 1.7, 2} {
		for _, parallelism := range []float64{1, 4, 100} {
			last := 0.0
			for n := 1.0; n < 300; n++ {
				s := speedup(n, parallelism, variance)
				if s < last-1e-9 || s > n+1e-9 || s > parallelism+1e-9 {
					t.Fatalf("speedup(%g, %g, %g) = %g after %g", n, parallelism, variance, s, last)
				}
				last = s
			}
		}
	}
}

// A machine runs every job once, never on more nodes than there are, and as long as it takes.
func TestMachine(t *testing.T) {
	for _, c := range contestants {
		t.Run(c.name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(4, 4))
			jobs := queued(random, prioritized(random, estimated(random, loaded(lublin(random, 300, 32), 32, 1))))
			m := simulate(c.make(32), 32, jobs)
			area := 0.0
			for _, j := range jobs {
				o := m.outcomes[j]
				if o == nil || o.ended-o.began != j.run || o.began < j.arrival {
					t.Fatalf("job %d ran as %+v", j.number, o)
				}
				area += float64(j.size)*j.run.Seconds() + o.lost
			}
			if m.free != 32 || m.busy < area*0.999 || m.busy > area*1.001 {
				t.Errorf("%d of 32 nodes are free in the end, and %g of %g node-seconds were used", m.free, m.busy, area)
			}
		})
	}
}

// Jobs that resize do as much work as they would without.
func TestResizes(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 5))
	jobs := flexible(random, loaded(lublin(random, 300, 32), 32, 1.1), 1, true)
	resized := &resizes{scheduler: newOurs(32, queue.ByPriority, queue.EASY, "default")}
	m := simulate(resized, 32, jobs)
	for _, j := range jobs {
		o := m.outcomes[j]
		if took := o.ended - o.began; took < j.run-time.Second || took > j.on(j.least)+time.Second {
			t.Errorf("job %d ran for %s, %s on all its nodes and %s on the fewest", j.number, took, j.run, j.on(j.least))
		}
	}
	if resized.seen == 0 {
		t.Error("no job was resized")
	}
}

type resizes struct {
	scheduler
	seen int
}

func (r *resizes) decide(now time.Duration, waiting []*job, runs []*running, free int) decision {
	d := r.scheduler.decide(now, waiting, runs, free)
	r.seen += len(d.resizes)
	return d
}

// promises checks what a job that waits was promised: with exact estimates, EASY never puts the
// start of the first job off, and Conservative that of no job.
type promises struct {
	*conservative
	t    *testing.T
	last map[*job]time.Duration
}

func (p *promises) decide(now time.Duration, waiting []*job, runs []*running, free int) decision {
	d := p.conservative.decide(now, waiting, runs, free)
	for j, at := range p.reserved {
		if before, ok := p.last[j]; ok && at > before {
			p.t.Errorf("job %d was to start at %s, and now at %s", j.number, before, at)
		}
		p.last[j] = at
	}
	return d
}

func TestConservativeKeepsItsPromises(t *testing.T) {
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 6))
		jobs := estimated(random, loaded(lublin(random, 200, 32), 32, 1))
		simulate(&promises{&conservative{}, t, map[*job]time.Duration{}}, 32, jobs)
	}
}

// Of three jobs that wait, only the short one may pass the first.
func TestEASYByHand(t *testing.T) {
	jobs := []*job{
		{number: 0, size: 6, least: 6, run: 100, estimate: 100},
		{number: 1, arrival: 1, size: 10, least: 10, run: 100, estimate: 100},
		{number: 2, arrival: 2, size: 4, least: 4, run: 200, estimate: 200},
		{number: 3, arrival: 3, size: 4, least: 4, run: 50, estimate: 50},
	}
	for name, want := range map[string][]time.Duration{"FCFS": {0, 100, 200, 200}, "EASY": {0, 100, 200, 3}, "first fit": {0, 202, 2, 100}} {
		for _, c := range contestants {
			if c.name != name {
				continue
			}
			m := simulate(c.make(10), 10, jobs)
			for i, j := range jobs {
				if m.outcomes[j].began != want[i] {
					t.Errorf("%s starts job %d at %d, and not at %d", name, i, m.outcomes[j].began, want[i])
				}
			}
		}
	}
}

func TestReadSWF(t *testing.T) {
	const header = "; MaxNodes: 100\n; MaxProcs: 128\n\n"
	w, err := readSWF(strings.NewReader(header+"1 0 5 60 8 -1 -1 16 600 -1 1 3 1 -1 1 -1 -1 -1\n"+
		"2 30 -1 -1 -1 -1 -1 4 600 -1 0 3 1 -1 1 -1 -1 -1\n3 90 0 20 2 -1 -1 -1 -1 -1 1 3 1 -1 1 -1 -1 -1\n"), "a.swf")
	if err != nil {
		t.Fatal(err)
	}
	jobs := w.make(1)
	if w.nodes != 128 || len(jobs) != 2 {
		t.Fatalf("%d jobs on %d nodes", len(jobs), w.nodes)
	}
	if j := jobs[0]; j.size != 16 || j.run != time.Minute || j.estimate != 10*time.Minute {
		t.Errorf("the first job is %+v", j)
	}
	if j := jobs[1]; j.size != 2 || j.estimate != 20*time.Second || j.arrival != 90*time.Second {
		t.Errorf("the second job is %+v", j)
	}
	for name, text := range map[string]string{
		"no job": header, "no size of the machine": "1 0 5 60 8 -1 -1 16 600 -1 1 3 1 -1 1 -1 -1 -1\n",
		"too few fields": header + "1 0 5 60\n", "no number": header + "1 0 5 x 8 -1 -1 16 600 -1 1 3 1 -1 1 -1 -1 -1\n",
		"a job that is too large": header + "1 0 5 60 8 -1 -1 129 600 -1 1 3 1 -1 1 -1 -1 -1\n", "a bad header": "; MaxProcs: many\n",
	} {
		if _, err := readSWF(strings.NewReader(text), "a.swf"); err == nil || !strings.Contains(err.Error(), "a.swf") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTable(t *testing.T) {
	var out strings.Builder
	s := setting{nodes: 16, jobs: 40, seeds: 2, only: "rigid 0.7"}
	if err := bench(&out, s); err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(out.String(), "\n"); lines != 1+len(contestants) {
		t.Errorf("the table has %d lines:\n%s", lines, out.String())
	}
	s.nodes = 0
	if err := bench(&out, s); err == nil {
		t.Error("a machine without nodes is accepted")
	}
}

// The figures are compared with those of a page, of which only the row changes.
func TestRecord(t *testing.T) {
	const before, after = "# Page\n\n| workload | load |\n| rigid | 0.9 | 1 |\n", "\ntext\n"
	page := filepath.Join(t.TempDir(), "page.md")
	run := func(row string, write bool) (string, error) {
		if row != "" {
			if err := os.WriteFile(page, []byte(before+row+after), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := bench(io.Discard, setting{nodes: 16, jobs: 40, seeds: 2, only: "rigid 0.7", page: page, write: write})
		text, _ := os.ReadFile(page)
		return strings.TrimSuffix(strings.TrimPrefix(string(text), before), after), err
	}
	row, err := run("| rigid | 0.7 | 1 | 1 | 1 | 0.01 | 0.01 | 9.99 | 1, 1 | 1, 1, 1 | 1 | 0.01, 9.99, 9.99 |", true)
	if err != nil || strings.Count(row, "|") != 13 || !strings.HasPrefix(row, "| rigid | 0.7 | ") {
		t.Fatalf("%s: %v", row, err)
	}
	if same, err := run("", false); err != nil || same != row {
		t.Errorf("the same figures: %s: %v", same, err)
	}
	if _, err := run("| rigid | 0.7 | 1 | 1 | 1 | 0.01 | 9.99 | 9.99 | 1, 1 | 1, 1, 1 | 1 | 9.99, 0.01, 9.99 |", false); err == nil ||
		!strings.Contains(err.Error(), "rigid, load 0.7: slowdown with EASY is") || !strings.Contains(err.Error(), "longest wide wait is") || strings.Count(err.Error(), "\n") != 2 {
		t.Errorf("two of six figures are worse: %v", err)
	}
	for wrong, want := range map[string]string{
		"| rigid | 0.8 | 1 |": "has no row | rigid | 0.7", "| rigid | 0.7 | 1 |": "has no column", "| rigid | 0.7 | 1 | 1 | 1 | x | x | x | 1 | 1 | 1 | x |": "invalid syntax",
	} {
		if text, err := run(wrong, true); err == nil || !strings.Contains(err.Error(), want) || text != wrong {
			t.Errorf("%s became %s: %v", wrong, text, err)
		}
	}
}
