// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package clog

import (
	"slices"
	"time"
)

// Pod is what was seen of a pod. Revisions are the cluster's: of two objects, the one
// with the smaller was written first.
type Pod struct {
	UID, Gang string
	// Try is the JobSet that it is of: each try to start a gang has one of its own.
	Try  string
	Rank int
	// Node is the one it is pinned or bound to; "" while it is gated.
	Node string
	// Up: its containers run. A lead is ready only once the command does.
	Bound, Up, Ended bool
	// CPU is what it requests, in thousandths.
	CPU      int64
	Revision uint64
}

// Status is what was seen of a MiniCluster.
type Status struct {
	Gang     string
	Created  time.Time // as the cluster says it
	Revision uint64
	// Nodes are those of its admission; nil if it has none.
	Nodes []string
	// Attempt tells an admission from the one before.
	Attempt                      int
	Started, Finished, Succeeded bool
}

// Record is what was seen. It is told in the order of the watches, and not by
// several goroutines at once.
type Record struct {
	nodes  int
	cpu    int64 // of a node
	lives  map[string]*life
	used   map[string]int64 // CPU of pinned pods that have not ended, by node
	booked int              // pods that found no room where they were pinned
	closed time.Time        // nobody looked after that
}

// NewRecord begins the record of a cluster of nodes with some CPU each, in thousandths.
func NewRecord(nodes int, cpu int64) *Record {
	return &Record{nodes: nodes, cpu: cpu, lives: map[string]*life{}, used: map[string]int64{}}
}

// life is that of one gang.
type life struct {
	Gang
	submitted, created time.Time
	admissions         []admission
	tries              []*try
	started, finished  time.Time
	succeeded          bool
}

// admission is one decision that a gang runs on some nodes.
type admission struct {
	at       time.Time
	revision uint64
	attempt  int
	nodes    []string
}

// try is one set of pods of a gang.
type try struct {
	id   string
	pods map[string]*podLife
	live int // pinned, not ended
	// bound is when its first pod was, placed when the minimum was pinned at one
	// time, up when it was up at one time.
	bound, placed, up time.Time
}

type podLife struct {
	rank                           int
	node                           string
	made, pinned, bound, up, ended time.Time
	boundRevision                  uint64
}

// Submitted tells that a gang is being submitted.
func (r *Record) Submitted(gang Gang, now time.Time) {
	r.lives[gang.Name] = &life{Gang: gang, submitted: now}
}

// TakeStatus tells how a MiniCluster is.
func (r *Record) TakeStatus(s Status, now time.Time) {
	l := r.lives[s.Gang]
	if l == nil {
		return
	}
	l.created = s.Created
	if s.Nodes != nil && (len(l.admissions) == 0 || l.admissions[len(l.admissions)-1].attempt != s.Attempt ||
		!slices.Equal(l.admissions[len(l.admissions)-1].nodes, s.Nodes)) {
		l.admissions = append(l.admissions, admission{at: now, revision: s.Revision, attempt: s.Attempt, nodes: s.Nodes})
	}
	if s.Started && l.started.IsZero() {
		l.started = now
	}
	if s.Finished && l.finished.IsZero() {
		l.finished, l.succeeded = now, s.Succeeded
	}
}

// TakePod tells how a pod is; one that is gone has ended.
func (r *Record) TakePod(p Pod, now time.Time) {
	l := r.lives[p.Gang]
	if l == nil {
		return
	}
	t := l.try(p.Try)
	pod := t.pods[p.UID]
	if pod == nil {
		pod = &podLife{rank: p.Rank, made: now}
		t.pods[p.UID] = pod
	}
	first := func(at *time.Time, is bool) bool {
		if !is || !at.IsZero() {
			return false
		}
		*at = now
		return true
	}
	if first(&pod.pinned, p.Node != "" && pod.ended.IsZero()) {
		pod.node = p.Node
		t.live++
		if r.used[p.Node] += p.CPU; r.used[p.Node] > r.cpu {
			r.booked++
		}
	}
	if first(&pod.bound, p.Bound) {
		pod.boundRevision = p.Revision
		first(&t.bound, true)
	}
	first(&t.placed, t.live >= l.Min)
	if first(&pod.up, p.Up) {
		first(&t.up, t.countUp() >= l.Min)
	}
	if first(&pod.ended, p.Ended) && !pod.pinned.IsZero() {
		t.live--
		r.used[pod.node] -= p.CPU
	}
}

// Close tells that nobody looks any more.
func (r *Record) Close(now time.Time) { r.closed = now }

func (l *life) try(id string) *try {
	if i := slices.IndexFunc(l.tries, func(t *try) bool { return t.id == id }); i >= 0 {
		return l.tries[i]
	}
	t := &try{id: id, pods: map[string]*podLife{}}
	l.tries = append(l.tries, t)
	return t
}

func (t *try) countUp() int {
	n := 0
	for _, pod := range t.pods {
		if !pod.up.IsZero() && pod.ended.IsZero() {
			n++
		}
	}
	return n
}

// Finished are the gangs whose command succeeded.
func (r *Record) Finished() int {
	n := 0
	for _, l := range r.lives {
		if l.succeeded {
			n++
		}
	}
	return n
}

// Over reports whether all gangs have finished and none of their pods holds a node.
func (r *Record) Over() bool {
	for _, l := range r.lives {
		if l.finished.IsZero() {
			return false
		}
		for _, t := range l.tries {
			if t.live > 0 {
				return false
			}
		}
	}
	return true
}

// Violations are what must not be: each of the counts is to be 0.
type Violations struct {
	// HalfPlaced are the tries of a gang of which a pod was bound, and whose minimum
	// was never pinned at one time.
	HalfPlaced int `json:"halfPlaced"`
	// GaveUp are the tries of which a pod was bound, and whose minimum was never up
	// at one time before all of the pods ended or another try followed.
	GaveUp int `json:"gaveUp"`
	// NotAdmitted are the pods that were bound to a node which the admission of
	// their gang, at that time, did not have: none was written, or another.
	NotAdmitted int `json:"notAdmitted"`
	// DoubleBooked are the pods that were pinned or bound to a node without room:
	// where pods that had not ended requested more than the rest of its CPU.
	DoubleBooked int `json:"doubleBooked"`
}

// Count is how many there are.
func (v Violations) Count() int { return v.HalfPlaced + v.GaveUp + v.NotAdmitted + v.DoubleBooked }

// Violations counts what was seen of them.
func (r *Record) Violations() Violations {
	v := Violations{DoubleBooked: r.booked}
	for _, l := range r.lives {
		for i, t := range l.tries {
			if t.bound.IsZero() {
				continue
			}
			if t.placed.IsZero() {
				v.HalfPlaced++
			}
			if t.up.IsZero() && (t.live == 0 || i < len(l.tries)-1) {
				v.GaveUp++
			}
			for _, pod := range t.pods {
				if !pod.bound.IsZero() && !l.admitted(pod) {
					v.NotAdmitted++
				}
			}
		}
	}
	return v
}

// admitted reports whether the last admission before a pod was bound has its node.
func (l *life) admitted(pod *podLife) bool {
	for _, a := range slices.Backward(l.admissions) {
		if a.revision < pod.boundRevision {
			return slices.Contains(a.nodes, pod.node)
		}
	}
	return false
}

// LongestPartial is the longest time that pods of a gang were bound and its minimum
// was not pinned yet: a part of the start-up of its own pods.
func (r *Record) LongestPartial() time.Duration {
	longest := time.Duration(0)
	for _, l := range r.lives {
		for _, t := range l.tries {
			if !t.bound.IsZero() && !t.placed.IsZero() {
				longest = max(longest, t.placed.Sub(t.bound))
			}
		}
	}
	return longest
}
