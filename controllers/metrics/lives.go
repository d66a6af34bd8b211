// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// Reasons of attempts that ended, beside those of an eviction, and uses of nodes.
const (
	notStarted = "NotStarted"
	lost       = "BrokersLost"
	released   = "Released"

	useful = "useful"
	wasted = "lost"
)

// Written is a status that was written with a decision, or without one.
type Written struct {
	Step life.Step
	// Before and After are the statuses, and Record and Next what they record.
	Before, After *v1alpha2.MiniClusterStatus
	Record, Next  life.Record
	// Lost are the ranks that are known to be lost.
	Lost []int
	// Queued is since when the MiniCluster waited for nodes, if it did.
	Queued, Now time.Time
}

// Count counts what a write says.
func Count(w Written) {
	countRejection(w.Before, w.After)
	if _, decides := w.Step.(life.Decision); !decides {
		return
	}
	existing.Lock()
	defer existing.Unlock()
	queue := labelOf(w.After.Queue)
	decisions.WithLabelValues(life.Name(w.Step)).Inc()
	switch step := w.Step.(type) {
	case life.Admit:
		admissions.WithLabelValues(queue).Inc()
		observeWait(queue, WaitAdmitted, w.Now.Sub(w.Queued))
	case life.Start:
		starts.WithLabelValues(queue).Observe(w.Now.Sub(w.Record.Admission.At).Seconds())
		quorumShortfall.WithLabelValues(queue).Add(float64(max(len(w.Record.Admission.Nodes)-step.Quorum, 0)))
	case life.Finish:
		finished.WithLabelValues(queue, string(step.Outcome)).Inc()
		if step.Outcome != life.OutcomeSucceeded {
			countLost(queue, w)
		}
	case life.Evict:
		attemptsEnded.WithLabelValues(queue, step.Reason).Inc()
	case life.GiveUp:
		attemptsEnded.WithLabelValues(queue, reasonOf(w.Record)).Inc()
		countLost(queue, w)
	case life.Withdraw:
		if w.Record.Admission != nil {
			attemptsEnded.WithLabelValues(queue, released).Inc()
		}
	case life.Lose:
		countLost(queue, w)
	case life.Restart:
		if len(step.Lost) > 0 {
			countLost(queue, w)
		}
	}
	countResize(queue, w.Record, w.Next)
	countUsage(queue, w.Before.Usage, w.After.Usage)
}

// reasonOf is why an attempt was given up.
func reasonOf(r life.Record) string {
	if r.Started.IsZero() {
		return notStarted
	}
	return lost
}

// countLost counts the lost ranks that no decision before has recorded.
func countLost(queue string, w Written) {
	for _, rank := range w.Lost {
		if a := w.Record.Admission; a == nil || a.Loss == nil || !slices.Contains(a.Loss.Ranks, rank) {
			brokersLost.WithLabelValues(queue).Inc()
		}
	}
}

// countResize counts a change of the number of brokers that have nodes.
func countResize(queue string, before, after life.Record) {
	if before.Admission == nil || after.Admission == nil {
		return
	}
	switch now, had := len(after.Admission.Members()), len(before.Admission.Members()); {
	case now > had:
		resizes.WithLabelValues(queue, "grow").Inc()
	case now < had:
		resizes.WithLabelValues(queue, "shrink").Inc()
	}
}

func countUsage(queue string, before, after *v1alpha2.Usage) {
	if after == nil {
		return
	}
	if before == nil {
		before = &v1alpha2.Usage{}
	}
	nodeSeconds.WithLabelValues(queue, useful).Add(float64(after.UsefulNodeSeconds - before.UsefulNodeSeconds))
	nodeSeconds.WithLabelValues(queue, wasted).Add(float64(after.LostNodeSeconds - before.LostNodeSeconds))
}

// CountDeleted counts what an attempt used that ended because its MiniCluster was deleted.
func CountDeleted(queue string, lost v1alpha2.Usage) {
	existing.Lock()
	defer existing.Unlock()
	countUsage(labelOf(queue), nil, &lost)
}

// countRejection counts a MiniCluster that is not accepted, for another reason than before.
func countRejection(before, after *v1alpha2.MiniClusterStatus) {
	now, was := meta.FindStatusCondition(after.Conditions, v1alpha2.ConditionAccepted), meta.FindStatusCondition(before.Conditions, v1alpha2.ConditionAccepted)
	if now == nil || now.Status != metav1.ConditionFalse || was != nil && was.Status == now.Status && was.Reason == now.Reason {
		return
	}
	rejections.WithLabelValues(now.Reason).Inc()
}

// CountWait counts a wait that ended without nodes.
func CountWait(queue, outcome string, waited time.Duration) {
	existing.Lock()
	defer existing.Unlock()
	observeWait(labelOf(queue), outcome, waited)
}

func observeWait(queue, outcome string, waited time.Duration) {
	waits.WithLabelValues(queue, outcome).Observe(max(waited, 0).Seconds())
}

// CountCycle counts a cycle of the scheduler.
func CountCycle(took time.Duration) { cycles.WithLabelValues().Observe(took.Seconds()) }
