// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Bench-queue measures the queue against textbook schedulers, in virtual time and without a
// cluster.
package main

import (
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

// workload makes the jobs of one seed.
type workload struct {
	name  string
	nodes int
	make  func(seed uint64) []*job
}

// contestant is a scheduler that is measured.
type contestant struct {
	name string
	make func(nodes int) scheduler
}

// Contestants by index. Others are compared to the textbook's EASY and Conservative.
const (
	theFirstFit = 1 + iota
	theEASY
	theConservative
	oursEASY
	oursConservative
	oursSlowdown
)

var contestants = []contestant{
	{"FCFS", func(int) scheduler { return firstCome{} }},
	{"first fit", func(int) scheduler { return firstFit{} }},
	{"EASY", func(int) scheduler { return easy{} }},
	{"Conservative", func(int) scheduler { return &conservative{} }},
	{"ours, EASY", func(nodes int) scheduler { return newOurs(nodes, queue.ByPriority, queue.EASY, "default", "second") }},
	{"ours, Conservative", func(nodes int) scheduler {
		return newOurs(nodes, queue.ByPriority, queue.Conservative, "default", "second")
	}},
	{"ours, Slowdown", func(nodes int) scheduler { return newOurs(nodes, queue.BySlowdown, queue.EASY, "default", "second") }},
}

func main() {
	nodes := flag.Int("nodes", 128, "nodes of the machine")
	jobs := flag.Int("jobs", 2000, "jobs of a workload")
	seeds := flag.Uint64("seeds", 10, "how many seeds")
	only := flag.String("workloads", "", "only workloads whose name contains this")
	trace := flag.String("trace", "", "a trace in the Standard Workload Format, instead of the workloads")
	page := flag.String("record", "", "a page with a table of the workloads: fail if a figure of ours is worse than there")
	write := flag.Bool("write", false, "write the figures to the page, also worse ones")
	flag.Parse()
	err := bench(os.Stdout, setting{nodes: *nodes, jobs: *jobs, seeds: *seeds, only: *only, trace: *trace, page: *page, write: *write})
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-queue:", err)
		os.Exit(1)
	}
}

// setting is what is measured, and with which page it is compared ("" for none).
type setting struct {
	nodes, jobs       int
	seeds             uint64
	only, trace, page string
	write             bool
}

func bench(out io.Writer, s setting) error {
	if s.nodes < 1 || s.nodes > mostNodes || s.jobs < 1 || s.seeds < 1 {
		return fmt.Errorf("there have to be 1 to %d nodes, and at least one job and one seed", mostNodes)
	}
	workloads := models(s.nodes, s.jobs)
	if s.trace != "" {
		file, err := os.Open(s.trace)
		if err != nil {
			return err
		}
		defer file.Close()
		w, err := readSWF(file, s.trace)
		if err != nil {
			return err
		}
		workloads, s.seeds, s.page = []workload{w}, 1, ""
	}
	workloads = slices.DeleteFunc(workloads, func(w workload) bool { return !strings.Contains(w.name, s.only) })
	writeHeader(out)
	results := map[string][][]figures{}
	for _, w := range workloads {
		results[w.name] = measure(w, s.seeds)
		writeResults(out, w.name, results[w.name])
	}
	if s.page == "" {
		return nil
	}
	return compare(s, workloads, results)
}

// compare compares the figures with those of a page, or writes them there.
func compare(s setting, workloads []workload, results map[string][][]figures) error {
	r, err := readRecord(s.page)
	if err != nil {
		return err
	}
	var worse []string
	for _, w := range workloads {
		more, err := r.put(row(w.name, results[w.name]))
		if err != nil {
			return err
		}
		worse = append(worse, more...)
	}
	if s.write {
		return r.write()
	}
	if len(worse) > 0 {
		return fmt.Errorf("worse than in %s (-write records it):\n%s", s.page, strings.Join(worse, "\n"))
	}
	return nil
}

// models are the workloads of the model of Lublin and Feitelson.
func models(nodes, jobs int) []workload {
	var all []workload
	add := func(name string, load float64, change func(*rand.Rand, []*job) []*job) {
		all = append(all, workload{name: fmt.Sprintf("%s %.1f", name, load), nodes: nodes, make: func(seed uint64) []*job {
			random := rand.New(rand.NewPCG(seed, 19))
			return change(random, estimated(random, loaded(lublin(random, jobs, nodes), nodes, load)))
		}})
	}
	for _, load := range []float64{0.7, 0.9, 1.1} {
		add("rigid", load, func(_ *rand.Rand, jobs []*job) []*job { return jobs })
		add("priorities", load, prioritized)
		add("queues", load, queued)
		add("unlimited", load, func(random *rand.Rand, jobs []*job) []*job { return withoutLimits(random, jobs, 1, false) })
		add("unlimited, half", load, func(random *rand.Rand, jobs []*job) []*job { return withoutLimits(random, jobs, 0.5, false) })
		add("unlimited, learned", load, func(random *rand.Rand, jobs []*job) []*job { return withoutLimits(random, jobs, 1, true) })
		for _, part := range []float64{0.25, 0.5} {
			add(fmt.Sprintf("moldable %.0f %%", 100*part), load, func(random *rand.Rand, jobs []*job) []*job { return flexible(random, jobs, part, false) })
			add(fmt.Sprintf("malleable %.0f %%", 100*part), load, func(random *rand.Rand, jobs []*job) []*job { return flexible(random, jobs, part, true) })
			add(fmt.Sprintf("restarted %.0f %%", 100*part), load, func(random *rand.Rand, jobs []*job) []*job { return restarted(random, jobs, part) })
			add(fmt.Sprintf("priorities, restarted %.0f %%", 100*part), load, func(random *rand.Rand, jobs []*job) []*job {
				return restarted(random, prioritized(random, jobs), part)
			})
		}
	}
	slices.SortStableFunc(all, func(a, b workload) int { return strings.Compare(a.name, b.name) })
	return all
}

// measure runs a workload with every contestant and seed.
func measure(w workload, seeds uint64) [][]figures {
	all := make([][]figures, len(contestants))
	var group sync.WaitGroup
	for i, c := range contestants {
		all[i] = make([]figures, seeds)
		group.Go(func() {
			for seed := range seeds {
				all[i][seed] = simulate(c.make(w.nodes), w.nodes, w.make(seed+1)).figures()
			}
		})
	}
	group.Wait()
	return all
}
