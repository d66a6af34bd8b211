// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package clog

import (
	"slices"
	"strconv"
	"time"
)

// Pod is an observed state of a pod. Revisions are the cluster's: the object with the smaller
// revision was written first.
type Pod struct {
	UID, Gang string
	// Try is the UID of the pod's JobSet: each try to start a gang has a JobSet of its own.
	Try  string
	Rank int
	// Node is the node to which the pod is pinned or bound; "" while the pod is gated.
	Node string
	// Up means that the containers run. The lead's pod is ready only when the command runs.
	Bound, Up, Ended bool
	// Ready means that the pod is ready, and Succeeded that the pod ended without an error.
	Ready, Succeeded bool
	// CPU is what the pod requests, in thousandths.
	CPU      int64
	Revision uint64
}

// Status is an observed state of a MiniCluster.
type Status struct {
	Gang     string
	Created  time.Time // the creation timestamp
	Revision uint64
	// Nodes are the nodes of the admission; nil if there is no admission.
	Nodes []string
	// Attempt distinguishes an admission from the one before.
	Attempt                      int
	Started, Finished, Succeeded bool
}

// Record has all observed changes. Callers add changes in the order of the watches. It is not safe
// for use by several goroutines.
type Record struct {
	jobs   bool // the gangs are Jobs: only their pods tell of them
	gangs  []Gang
	nodes  int
	cpu    int64 // of a node
	lives  map[string]*life
	used   map[string]int64 // CPU of pinned pods that have not ended, by node
	booked int              // pods that were pinned to a node without room
	closed time.Time        // when the observation ended
}

// NewRecord returns the empty record of a cluster. Each node has some CPU, in thousandths.
func NewRecord(nodes int, cpu int64) *Record {
	return &Record{nodes: nodes, cpu: cpu, lives: map[string]*life{}, used: map[string]int64{}}
}

// NewJobRecord is NewRecord for gangs that are Jobs. A gang runs once all of its pods are up, and has
// succeeded once all of them have.
func NewJobRecord(nodes int, cpu int64) *Record {
	r := NewRecord(nodes, cpu)
	r.jobs = true
	return r
}

// life has the changes of one gang.
type life struct {
	Gang
	submitted, created time.Time
	admissions         []admission
	holdsNodes         bool // it is admitted
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
	live int // pods that are pinned and have not ended
	// bound is when the first pod was bound. placed is when the minimum of pods was pinned at
	// the same time, and up when the minimum was up at the same time.
	bound, placed, up time.Time
	// ran is when the gang's command was first seen to run.
	ran       time.Time
	succeeded int // pods
}

type podLife struct {
	rank                           int
	node                           string
	made, pinned, bound, up, ended time.Time
	boundRevision                  uint64
}

// Submitted records that a gang is being submitted, if that is not known.
func (r *Record) Submitted(gang Gang, now time.Time) {
	if r.lives[gang.Name] != nil {
		return
	}
	r.gangs = append(r.gangs, gang)
	r.lives[gang.Name] = &life{Gang: gang, submitted: now}
}

// TakeStatus records the state of a MiniCluster.
func (r *Record) TakeStatus(s Status, now time.Time) {
	l := r.lives[s.Gang]
	if l == nil {
		return
	}
	l.created = s.Created
	// A gang that was preempted may be admitted to the same nodes again, with the same attempt.
	if s.Nodes != nil && (!l.holdsNodes || l.admissions[len(l.admissions)-1].attempt != s.Attempt ||
		!slices.Equal(l.admissions[len(l.admissions)-1].nodes, s.Nodes)) {
		l.admissions = append(l.admissions, admission{at: now, revision: s.Revision, attempt: s.Attempt, nodes: s.Nodes})
	}
	l.holdsNodes = s.Nodes != nil
	if s.Started && l.started.IsZero() {
		l.started = now
	}
	if s.Finished && l.finished.IsZero() {
		l.finished, l.succeeded = now, s.Succeeded
	}
}

// TakePod records the state of a pod. A pod that is gone has ended.
func (r *Record) TakePod(p Pod, now time.Time) {
	l := r.lives[p.Gang]
	if l == nil {
		return
	}
	t := r.tryOf(l, p)
	pod := t.pod(p, now)
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
		up := t.countUp()
		first(&t.up, up >= l.Min)
		first(&t.ran, r.jobs && up >= l.Size)
	}
	first(&t.ran, !r.jobs && p.Rank == 0 && p.Ready)
	if first(&pod.ended, p.Ended) {
		r.end(l, t, pod, p, now)
	}
}

// pod returns the life of a pod, which begins now if the pod is new.
func (t *try) pod(p Pod, now time.Time) *podLife {
	if t.pods[p.UID] == nil {
		t.pods[p.UID] = &podLife{rank: p.Rank, made: now}
	}
	return t.pods[p.UID]
}

// end records that a pod has ended.
func (r *Record) end(l *life, t *try, pod *podLife, p Pod, now time.Time) {
	if !pod.pinned.IsZero() {
		t.live--
		r.used[pod.node] -= p.CPU
	}
	if p.Succeeded {
		t.succeeded++
	}
	if r.jobs && t.succeeded == l.Size && l.finished.IsZero() {
		l.finished, l.succeeded = now, true
	}
}

// Close records that the observation has ended.
func (r *Record) Close(now time.Time) { r.closed = now }

// tryOf returns the try that a pod belongs to. A Job has a new try when it makes pods again after all
// of its pods that held nodes have ended.
func (r *Record) tryOf(l *life, p Pod) *try {
	if !r.jobs {
		return l.try(p.Try)
	}
	for _, t := range l.tries {
		if t.pods[p.UID] != nil {
			return t
		}
	}
	if n := len(l.tries); n > 0 && (l.tries[n-1].bound.IsZero() || l.tries[n-1].live > 0) {
		return l.tries[n-1]
	}
	return l.try(p.Try + "/" + strconv.Itoa(len(l.tries)))
}

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

// Finished returns the number of gangs whose command succeeded.
func (r *Record) Finished() int {
	n := 0
	for _, l := range r.lives {
		if l.succeeded {
			n++
		}
	}
	return n
}

// Over reports whether all gangs that can run have finished, and none of their pods holds a node.
func (r *Record) Over() bool {
	for _, l := range r.lives {
		if l.Hopeless() {
			continue
		}
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

// Violations count what must never happen: each of the counts should be 0.
type Violations struct {
	// HalfPlaced are tries of which a pod was bound, although the minimum of pods was never
	// pinned at the same time.
	HalfPlaced int `json:"halfPlaced"`
	// GaveUp are tries of which a pod was bound, and that ended before the minimum of pods was
	// up at the same time: all pods ended, or another try followed. Gangs with pods that never
	// start do not count.
	GaveUp int `json:"gaveUp"`
	// NotAdmitted are pods that were bound to a node that the admission of their gang did not
	// have at that time. There was no admission, or one with other nodes.
	NotAdmitted int `json:"notAdmitted"`
	// DoubleBooked are pods that were pinned or bound to a node without room: other pods that
	// had not ended requested too much of the node's CPU.
	DoubleBooked int `json:"doubleBooked"`
}

// Count returns the number of all violations.
func (v Violations) Count() int { return v.HalfPlaced + v.GaveUp + v.NotAdmitted + v.DoubleBooked }

// Violations counts the violations in the record.
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
			if t.up.IsZero() && l.NeverStart == "" && (t.live == 0 || i < len(l.tries)-1) {
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

// LongestPartial returns the longest time during which a pod of a gang was bound and the minimum
// was not pinned yet.
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
