// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package timeline records when which MiniCluster held which node, and draws the record: one row per
// node, one colour per MiniCluster, time to the right. It watches nothing itself: callers report
// changes with their times, or the record is made from the objects of a cluster.
package timeline

import (
	"cmp"
	"slices"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// Span is the time that one pod held a node.
type Span struct {
	MiniCluster string
	Rank        int
	// Node is "" if nobody knows the node. Such a span has no row.
	Node string
	// Held is when the pod was placed. Freed is when it had ended or was gone, and zero while
	// the pod holds the node.
	Held, Freed time.Time
	// Started is when the command of the pod's attempt started. If it is zero, the time of the Run counts.
	Started time.Time `json:",omitzero"`
}

// Run is the life of one MiniCluster.
type Run struct {
	Name string
	// Size is the number of brokers with which it ran. Wanted is the number that the spec asked
	// for.
	Size, Wanted, Tasks int
	// Submitted, Started and Ended are when the MiniCluster was submitted, and when its command
	// started and ended. They are zero until then.
	Submitted, Started, Ended time.Time
	// State is the last observed state.
	State string
}

// Recorder collects spans and runs. It is not safe for use by several goroutines.
type Recorder struct {
	nodes []string
	spans map[string]*Span // by the name that callers give to the pod
	runs  map[string]*Run
	begun time.Time
	last  time.Time
}

// NewRecorder begins a record of some nodes.
func NewRecorder(nodes []string, now time.Time) *Recorder {
	nodes = slices.Clone(nodes)
	slices.SortFunc(nodes, hostlist.Compare)
	return &Recorder{nodes: nodes, spans: map[string]*Span{}, runs: map[string]*Run{}, begun: now, last: now}
}

// Held records that a pod holds a node.
func (r *Recorder) Held(pod string, span Span, now time.Time) {
	r.last = now
	if r.spans[pod] == nil {
		span.Held = now
		r.spans[pod] = &span
	}
}

// Freed records that a pod has ended or is gone.
func (r *Recorder) Freed(pod string, now time.Time) {
	r.last = now
	if span := r.spans[pod]; span != nil && span.Freed.IsZero() {
		span.Freed = now
	}
}

// Seen records the state of a MiniCluster. It ignores the times of run: it takes the time now for
// changes that it sees for the first time.
func (r *Recorder) Seen(run Run, started, ended bool, now time.Time) {
	r.last = now
	known := r.runs[run.Name]
	if known == nil {
		known = &Run{Name: run.Name, Submitted: now}
		r.runs[run.Name] = known
	}
	run.Submitted, run.Started, run.Ended = known.Submitted, known.Started, known.Ended
	if started && run.Started.IsZero() {
		run.Started = now
	}
	if ended && run.Ended.IsZero() {
		run.Ended = now
	}
	*known = run
}

// Close records that pods that hold nodes hold them still.
func (r *Recorder) Close(now time.Time) { r.last = now }

// Runs returns the MiniClusters in the order in which they were first seen.
func (r *Recorder) Runs() []Run {
	out := make([]Run, 0, len(r.runs))
	for _, run := range r.runs {
		out = append(out, *run)
	}
	slices.SortFunc(out, func(a, b Run) int {
		if c := a.Submitted.Compare(b.Submitted); c != 0 {
			return c
		}
		return hostlist.Compare(a.Name, b.Name)
	})
	return out
}

// Usage says how the time of all nodes was spent during the makespan, as shares of 1.
type Usage struct {
	// Running is the time in which commands ran. Waiting is the time in which pods held nodes
	// whose command did not run, since they started or ended. Idle is the rest.
	Running, Waiting, Idle float64
	// Makespan is the time from the submission of the first MiniCluster to the end of the last
	// pod.
	Makespan time.Duration
}

// Usage computes the usage from the record.
func (r *Recorder) Usage() Usage {
	var u Usage
	first, last := r.bounds()
	u.Makespan = last.Sub(first)
	total := u.Makespan.Seconds() * float64(len(r.nodes))
	if total <= 0 {
		return u
	}
	// A node with several pods counts once, and as running if the command of one of them runs.
	running, held := intervals{}, intervals{}
	for _, span := range r.spans {
		if span.Node == "" {
			continue
		}
		from, to := span.Held, span.end(r.last)
		held.add(span.Node, from, to)
		if start, end := r.commandTime(span); end.After(start) {
			running.add(span.Node, start, end)
		}
	}
	u.Running = running.seconds() / total
	u.Waiting = held.seconds()/total - u.Running
	u.Idle = 1 - u.Running - u.Waiting
	return u
}

// bounds returns the first and the last moment of the record.
func (r *Recorder) bounds() (first, last time.Time) {
	first, last = r.begun, r.begun
	for i, run := range r.Runs() {
		if i == 0 {
			first, last = run.Submitted, run.Submitted
		}
	}
	for _, span := range r.spans {
		if end := span.end(r.last); end.After(last) {
			last = end
		}
	}
	return first, last
}

// commandTime returns the part of a span in which the command ran.
func (r *Recorder) commandTime(span *Span) (start, end time.Time) {
	run := r.runs[span.MiniCluster]
	if run == nil {
		return time.Time{}, time.Time{}
	}
	started := cmp.Or(span.Started, run.Started)
	if started.IsZero() {
		return time.Time{}, time.Time{}
	}
	start, end = later(span.Held, started), span.end(r.last)
	if !run.Ended.IsZero() && run.Ended.Before(end) {
		end = run.Ended
	}
	return start, end
}

// Wait is a time in which a MiniCluster had no nodes.
type Wait struct {
	MiniCluster string
	From, To    time.Time
}

// Waits returns the waits, by their begin. A MiniCluster waits while it has no span. After its last span it waits only if
// it has not ended: its pods may be gone a little before the end is seen.
func (r *Recorder) Waits() []Wait {
	held := map[string][]*Span{}
	for _, span := range r.spans {
		held[span.MiniCluster] = append(held[span.MiniCluster], span)
	}
	var out []Wait
	for _, run := range r.Runs() {
		spans := held[run.Name]
		slices.SortFunc(spans, func(a, b *Span) int { return a.Held.Compare(b.Held) })
		from, end := run.Submitted, cmp.Or(run.Ended, r.last)
		ended := !run.Ended.IsZero() && len(spans) > 0
		for _, span := range spans {
			if span.Held.After(from) {
				out = append(out, Wait{run.Name, from, span.Held})
			}
			from = later(from, span.end(r.last))
		}
		if end.After(from) && !ended {
			out = append(out, Wait{run.Name, from, end})
		}
	}
	slices.SortStableFunc(out, func(a, b Wait) int { return a.From.Compare(b.From) })
	return out
}

func (s *Span) end(last time.Time) time.Time {
	if s.Freed.IsZero() {
		return last
	}
	return s.Freed
}

// intervals are time intervals by node.
type intervals map[string][][2]time.Time

func (v intervals) add(node string, from, to time.Time) {
	v[node] = append(v[node], [2]time.Time{from, to})
}

// seconds returns the sum, over all nodes, of the length of the union of the node's intervals.
func (v intervals) seconds() float64 {
	total := 0.0
	for _, list := range v {
		slices.SortFunc(list, func(a, b [2]time.Time) int { return a[0].Compare(b[0]) })
		var until time.Time
		for _, interval := range list {
			from := interval[0]
			if from.Before(until) {
				from = until
			}
			if interval[1].After(from) {
				total += interval[1].Sub(from).Seconds()
				until = interval[1]
			}
		}
	}
	return total
}
