// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// Reservation is where a gang could start, and when.
type Reservation struct {
	Start time.Time
	Placement
}

// Reserve finds the earliest start of a gang: now, or when enough of the jobs have
// ended whose end is known. One that is past its end counts as ending now. The size
// is the largest that fits then. It changes nothing, and keeps nothing free: that is
// for the caller to do. It is refused where jobs of unknown end, others' pods or
// nodes that are down are in the way.
func (g *Graph) Reserve(gang Gang, now time.Time) (Reservation, *Refusal) {
	placement, refusal := g.MatchGang(gang)
	if refusal == nil {
		return Reservation{now, placement}, nil
	}
	if refusal.Never {
		return Reservation{}, refusal
	}
	jobs := g.endingJobs()
	after, count := g.whenEnded(&gang, jobs)
	if after == nil {
		return Reservation{}, refusal
	}
	start := jobs[count-1].end
	if start.Before(now) {
		start = now
	}
	for count < len(jobs) && !jobs[count].end.After(start) {
		after.hold(jobs[count], after.nodes.give)
		count++
	}
	placement, refusal = after.MatchGang(gang)
	return Reservation{start, placement}, refusal
}

// endingJobs are those whose end is known, the earliest first.
func (g *Graph) endingJobs() []*gangJob {
	var jobs []*gangJob
	for _, job := range g.jobs.byID {
		if !job.end.IsZero() {
			jobs = append(jobs, job)
		}
	}
	slices.SortFunc(jobs, func(a, b *gangJob) int {
		return cmp.Or(a.end.Compare(b.end), strings.Compare(a.gang.Job, b.gang.Job))
	})
	return jobs
}

// whenEnded is the graph when as many of the jobs, in their order, have ended as
// have to for the gang to fit, and their number; nil if all together would not do.
// The gang does not fit now.
//
// The number is found by doubling steps and then by halving, so that there are few
// matches however many jobs there are.
func (g *Graph) whenEnded(gang *Gang, jobs []*gangJob) (*Graph, int) {
	before, ended := g, 0 // does not fit
	var after *Graph
	count := 0 // fits, once there is an after
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

// without is the graph without some jobs.
func (g *Graph) without(jobs []*gangJob) *Graph {
	trial := g.trial()
	for _, job := range jobs {
		trial.hold(job, trial.nodes.give)
	}
	return trial
}
