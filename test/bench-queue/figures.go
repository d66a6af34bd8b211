// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/flux-elastic/flux-elastic/dev/clog"

// figures are the results of one run.
type figures struct {
	Utilisation float64 // of the nodes' time until the last job has ended
	WaitMean    float64 // seconds
	WaitP95     float64
	WaitMax     float64
	// Slowdown is the mean bounded slowdown: the time from the submission to the end, relative to
	// the time on all the nodes that the job wants, which counts as 10 s at least.
	Slowdown float64
	// WideMax is the longest wait of a job that wants more than a quarter of the machine.
	WideMax float64
	// Lost are the hours of nodes that evictions threw away.
	Lost float64
	// Cycle and CycleP99 are the cost of a decision, in milliseconds.
	Cycle    float64
	CycleP99 float64
}

const leastRun = 10 // seconds, of the bounded slowdown

func (m *machine) figures() figures {
	var f figures
	var waits []float64
	for _, o := range m.outcomes {
		wait := (o.began - o.arrival).Seconds()
		waits = append(waits, wait)
		f.Slowdown += max((o.ended-o.arrival).Seconds()/max(o.run.Seconds(), leastRun), 1) / float64(len(m.outcomes))
		f.Lost += o.lost / 3600
		if 4*o.size > m.nodes {
			f.WideMax = max(f.WideMax, wait)
		}
	}
	wait, cost := clog.NewSpread(waits), clog.NewSpread(m.costs)
	f.WaitMean, f.WaitP95, f.WaitMax = wait.Mean, wait.P95, wait.Max
	f.Cycle, f.CycleP99 = 1000*cost.Mean, 1000*cost.P99
	f.Utilisation = m.busy / (float64(m.nodes) * m.now.Seconds())
	return f
}

// medianOf is the median of one figure over the seeds.
func medianOf(seeds []figures, figure func(figures) float64) float64 {
	values := make([]float64, len(seeds))
	for i, f := range seeds {
		values[i] = figure(f)
	}
	return clog.NewSpread(values).P50
}

// medianRatio is the median, over the seeds, of a figure relative to the same figure of another
// scheduler; 0 if that is 0 in a seed.
func medianRatio(seeds, others []figures, figure func(figures) float64) float64 {
	ratios := make([]float64, len(seeds))
	for i := range seeds {
		other := figure(others[i])
		if other == 0 {
			return 0
		}
		ratios[i] = figure(seeds[i]) / other
	}
	return clog.NewSpread(ratios).P50
}
