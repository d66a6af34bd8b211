// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"cmp"
	"slices"
	"time"
)

// maxPruned is the largest number of jobs of which blocking looks at each one.
const maxPruned = 100

// blocking are the jobs that would have to end before the gang fits, and the time at
// which they will have ended. If enough ends are known, those that end first are taken,
// and else the largest jobs.
func (g *Graph) blocking(gang *Gang) ([]string, time.Time) {
	jobs := g.jobs.ending()
	after, count := g.whenEnded(gang, jobs)
	var until time.Time
	if after != nil {
		until = jobs[count-1].gang.End
	} else {
		jobs = g.jobs.largest()
		if after, count = g.whenEnded(gang, jobs); after == nil {
			return nil, until
		}
	}
	jobs = jobs[:count]
	if count <= maxPruned {
		jobs = after.needed(gang, jobs)
	}
	ids := make([]string, len(jobs))
	for i, job := range jobs {
		ids[i] = job.gang.Job
	}
	return ids, until
}

// whenEnded finds how many of the jobs, in their order, have to end before the gang fits.
// It returns the graph without them, and their number; nil if all of them are too few.
// The gang does not fit now.
//
// The number is found by doubling steps and then by halving, so that there are few
// matches, no matter how many jobs there are.
func (g *Graph) whenEnded(gang *Gang, jobs []*gangJob) (*Graph, int) {
	before, ended := g, 0 // does not fit
	var after *Graph
	count := 0 // fits, once after is set
	for step := 1; after == nil; step *= 2 {
		next := min(ended+step, len(jobs))
		if next == ended {
			return nil, 0
		}
		if probe := before.without(jobs[ended:next]); probe.fitsNow(gang) {
			after, count = probe, next
		} else {
			before, ended = probe, next
		}
	}
	for count-ended > 1 {
		middle := (ended + count) / 2
		if probe := before.without(jobs[ended:middle]); probe.fitsNow(gang) {
			after, count = probe, middle
		} else {
			before, ended = probe, middle
		}
	}
	return after, count
}

// without is a copy of the graph in which some jobs hold nothing. The copy has no jobs.
// It shares its pages with the graph, and is out of date once the graph changes.
func (g *Graph) without(jobs []*gangJob) *Graph {
	trial := &Graph{
		nodes:   nodes{layout: g.nodes.layout, owner: &owner{}, pages: slices.Clone(g.nodes.pages)},
		scratch: g.scratch,
	}
	for _, job := range jobs {
		trial.hold(job, trial.nodes.give)
	}
	return trial
}

// needed are those of the ended jobs, in their order, without whose end the gang would
// not fit. It leaves out one job after the other, those with the fewest pods first.
func (g *Graph) needed(gang *Gang, ended []*gangJob) []*gangJob {
	bySize := slices.Clone(ended)
	slices.SortStableFunc(bySize, func(a, b *gangJob) int { return cmp.Compare(a.pods, b.pods) })
	keep := map[*gangJob]bool{}
	for _, job := range bySize {
		g.hold(job, g.nodes.take)
		if keep[job] = !g.fitsNow(gang); keep[job] {
			g.hold(job, g.nodes.give)
		}
	}
	return slices.DeleteFunc(slices.Clone(ended), func(job *gangJob) bool { return !keep[job] })
}
