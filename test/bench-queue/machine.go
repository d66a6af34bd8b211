// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"slices"
	"time"
)

// running is a job that has nodes.
type running struct {
	*job
	nodes int
	began time.Duration
	// end is when the job really ends, at its size; limit is when it ends at the latest. changed is when its size last
	// changed; 0 if it never did.
	end, limit, changed time.Duration
}

// scheduler decides which jobs of a machine run.
type scheduler interface {
	// decide gets the waiting jobs by priority and arrival, and the running ones in the order in
	// which they began.
	decide(now time.Duration, waiting []*job, running []*running, free int) decision
}

// decision is what a scheduler wants changed at once. The nodes that it gives away have to be
// free before.
type decision struct {
	starts  []resize
	resizes []resize
	evicted []*job
	// lookAgain is when time alone may change the decision; 0 if it never does.
	lookAgain time.Duration
}

type resize struct {
	*job
	nodes int
}

// outcome is what became of a job.
type outcome struct {
	*job
	began, ended time.Duration
	// lost are node-seconds of work that an eviction threw away, or in which the job stood still.
	lost float64
	// left is the part of the work that is not in a checkpoint.
	left float64
}

// restartTime is how long a job takes to run again after its checkpoint.
const restartTime = 5 * time.Second

// standstill is how long a job with checkpoints stands still when it changes its size, or is evicted; 0 for others.
func (j *job) standstill() time.Duration {
	if j.checkpoint == 0 {
		return 0
	}
	return j.checkpoint + restartTime
}

// machine runs the jobs of a workload in virtual time.
type machine struct {
	scheduler
	nodes, free int
	now         time.Duration
	coming      []*job // by arrival
	waiting     []*job // by priority and arrival
	running     []*running
	outcomes    map[*job]*outcome
	// busy are node-seconds, and costs are how long each decision took, in seconds.
	busy  float64
	costs []float64
}

// simulate runs a workload to its end.
func simulate(s scheduler, nodes int, jobs []*job) *machine {
	m := &machine{scheduler: s, nodes: nodes, free: nodes, coming: slices.Clone(jobs), outcomes: map[*job]*outcome{}}
	slices.SortStableFunc(m.coming, func(a, b *job) int { return cmp.Compare(a.arrival, b.arrival) })
	lookAgain := time.Duration(0)
	for len(m.coming)+len(m.waiting)+len(m.running) > 0 {
		m.advance(m.next(lookAgain))
		for {
			began := time.Now() //nolint:forbidigo // it measures the cost of a decision
			d := m.decide(m.now, m.waiting, m.running, m.free)
			m.costs = append(m.costs, time.Since(began).Seconds()) //nolint:forbidigo // see above
			lookAgain = d.lookAgain
			if m.apply(d); len(d.resizes)+len(d.evicted) == 0 {
				break
			}
		}
	}
	return m
}

// next is when something happens next: an arrival, an end, or lookAgain if that is not 0.
func (m *machine) next(lookAgain time.Duration) time.Duration {
	next := time.Duration(-1)
	earlier := func(at time.Duration) {
		if next < 0 || at < next {
			next = at
		}
	}
	if len(m.coming) > 0 {
		earlier(m.coming[0].arrival)
	}
	for _, r := range m.running {
		earlier(r.end)
	}
	if lookAgain > m.now {
		earlier(lookAgain)
	}
	if next < 0 {
		panic("jobs wait for ever")
	}
	return next
}

// advance lets the jobs arrive and end up to a time.
func (m *machine) advance(to time.Duration) {
	m.busy += float64(m.nodes-m.free) * (to - m.now).Seconds()
	m.now = to
	for len(m.coming) > 0 && m.coming[0].arrival <= to {
		m.wait(m.coming[0])
		m.coming = m.coming[1:]
	}
	m.running = slices.DeleteFunc(m.running, func(r *running) bool {
		if r.end > to {
			return false
		}
		m.free += r.nodes
		m.outcomes[r.job].ended = to
		return true
	})
}

func (m *machine) wait(j *job) {
	at, _ := slices.BinarySearchFunc(m.waiting, j, func(a, b *job) int {
		return cmp.Or(cmp.Compare(b.priority, a.priority), cmp.Compare(a.arrival, b.arrival), cmp.Compare(a.number, b.number))
	})
	m.waiting = slices.Insert(m.waiting, at, j)
}

// apply carries a decision out.
func (m *machine) apply(d decision) {
	for _, j := range d.evicted {
		i := slices.IndexFunc(m.running, func(r *running) bool { return r.job == j })
		r := m.running[i]
		m.running = slices.Delete(m.running, i, i+1)
		m.free += r.nodes
		if lost := m.now - r.began; j.checkpoint == 0 {
			m.outcomes[j].lost += float64(r.nodes) * lost.Seconds()
		} else {
			m.outcomes[j].left = min(float64(r.end-m.now)/float64(r.on(r.nodes)), m.outcomes[j].left)
			m.outcomes[j].lost += float64(r.nodes) * r.standstill().Seconds()
		}
		m.wait(j)
	}
	for _, change := range d.resizes {
		r := m.running[slices.IndexFunc(m.running, func(r *running) bool { return r.job == change.job })]
		left := float64(r.end-m.now) / float64(r.on(r.nodes))
		m.take(change.nodes - r.nodes)
		r.nodes = change.nodes
		r.end = m.now + time.Duration(left*float64(r.on(r.nodes))) + r.standstill()
		r.changed = m.now
		m.outcomes[r.job].lost += float64(r.nodes) * r.standstill().Seconds()
		r.limit = max(r.limit, r.end)
	}
	started := map[*job]bool{}
	for _, start := range d.starts {
		started[start.job] = true
		m.take(start.nodes)
		o := m.outcomes[start.job]
		if o == nil {
			o = &outcome{job: start.job, left: 1}
			m.outcomes[start.job] = o
		}
		end := m.now + time.Duration(o.left*float64(start.on(start.nodes)))
		if o.left < 1 {
			end += start.standstill()
		}
		m.running = append(m.running, &running{job: start.job, nodes: start.nodes, began: m.now, end: end, limit: max(m.now+start.limit(), end)})
		o.began = m.now
	}
	m.waiting = slices.DeleteFunc(m.waiting, func(j *job) bool { return started[j] })
}

func (m *machine) take(nodes int) {
	if m.free -= nodes; m.free < 0 {
		panic("a node is given twice")
	}
}
