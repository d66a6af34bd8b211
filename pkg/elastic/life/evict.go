// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"cmp"
	"fmt"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// Warn records that all nodes have to be given back, and gives the command time to end.
type Warn struct{ Eviction }

func (Warn) step() {}

func (s Warn) apply(r *Record, _ string, _ time.Time) { r.Admission.Eviction = &s.Eviction }

// Evict ends the admission because another gang needs the nodes, they are about to go, or the deadline of the attempt is over.
// The MiniCluster is queued again and keeps its age.
type Evict struct {
	// Reason is Preempted, Reclaimed, NodesGo, QuotaWithdrawn or Requeued.
	Reason string
	// Checkpointed is true if the command has written a checkpoint at its end.
	Checkpointed bool
}

func (Evict) step() {}

func (s Evict) apply(r *Record, _ string, now time.Time) {
	r.end()
	r.NotBefore = now
	if s.Reason == Requeued {
		r.Requeued++
	}
	if s.Checkpointed {
		r.Checkpointed = now
	}
}

const (
	// Suspension is the reason of an eviction by the user.
	Suspension = "Suspended"
	// Requeued is the reason of an eviction at the deadline. The command goes on in another attempt.
	Requeued = "Requeued"
)

// evicted evicts a gang by order. A command that runs is warned first.
func evicted(o *Observation, now time.Time) *Plan {
	order, ordered := o.Order.(elastic.Evict)
	if !ordered || now.Before(o.busyUntil()) {
		return nil
	}
	return o.evict(order, now)
}

// busyUntil is until when an eviction waits for a restart, since the last checkpoint would be lost; zero if it does not wait.
// Further restarts, after losses, give no more time.
func (o *Observation) busyUntil() time.Time {
	if !o.restarting() || len(o.lostRanks()) > 0 {
		return time.Time{}
	}
	since := elastic.Earliest(o.Admission.Restart.At, o.OrderedSince)
	return since.Add(o.shortWait() + restartGrace)
}

// orderLook is how often to look at an order that has to wait: without a look nobody knows whether it could be carried out.
const orderLook = 10 * time.Second

// nextOrder is when to look again at an order that has to wait; zero if none waits.
func (o *Observation) nextOrder(now time.Time) time.Time {
	next := o.unableAt()
	if _, ordered := o.Order.(elastic.Evict); ordered {
		next = o.busyUntil()
	}
	if !now.Before(next) {
		return time.Time{}
	}
	return elastic.Earliest(next, now.Add(orderLook))
}

func (o *Observation) evict(order elastic.Evict, now time.Time) *Plan {
	if o.mayWarn() && o.Policy.CheckpointWait+order.Grace > 0 {
		return o.warn(Eviction{Reason: order.Reason, Message: order.Message}, order.Grace, now)
	}
	return &Plan{Step: Evict{Reason: order.Reason}, State: StateReleasing, Message: order.Message}
}

// mayWarn reports whether a command runs that can be told to end.
func (o *Observation) mayWarn() bool {
	return o.Admission != nil && o.begun() && o.Workload == Active && o.Brokers[0].State == Up
}

// warn gives the command its time to write a checkpoint, or else a grace, to end.
func (o *Observation) warn(e Eviction, grace time.Duration, now time.Time) *Plan {
	grace = cmp.Or(o.checkpointGrace(e.Reason), grace)
	e.Deadline = now.Add(grace)
	step := Warn{e}
	return &Plan{Step: step, State: StateRunning, Message: fmt.Sprintf("has %s to end: %s", grace, e.Message), LookAgain: step.Deadline}
}

// warned evicts a gang whose command was warned, once the command has ended or its time is up. A command that has ended
// by itself before the lead heard of it is over.
func warned(o *Observation, now time.Time) *Plan {
	if o.Admission == nil || o.Admission.Eviction == nil || o.Policy.Deleted || o.overItself() {
		return nil
	}
	e, lead := o.Admission.Eviction, o.Brokers[0]
	if late := overtime(o, now); late != nil && lead.State == Up {
		return late
	}
	if again := o.warnAgain(now); again != nil {
		return again
	}
	switch {
	case lead.State != Up, o.Workload != Active, !now.Before(e.Deadline):
		if e.Reason == Suspension {
			return &Plan{Step: Withdraw{Checkpointed: o.ToldCheckpointed}, State: StateSuspended, Message: e.Message}
		}
		return &Plan{Step: Evict{Reason: e.Reason, Checkpointed: o.ToldCheckpointed}, State: StateReleasing, Message: e.Message}
	case !o.Stopped:
		return &Plan{Step: Stop{Reason: e.Reason, Grace: e.Deadline.Sub(now)}, State: StateRunning, Message: "tells the lead to end the command: " + e.Message, LookAgain: now.Add(publishAgain)}
	}
	return &Plan{Step: Wait{}, State: StateRunning, Message: "waits for the command to end: " + e.Message, LookAgain: e.Deadline}
}

// warnAgain gives a command its time for a checkpoint once more, if the lead was not told in the first half, or less if the
// wait fell; nil otherwise.
func (o *Observation) warnAgain(now time.Time) *Plan {
	e := *o.Admission.Eviction
	wait, left := o.checkpointGrace(e.Reason)-killGrace, e.Deadline.Sub(now)
	untold := !o.Stopped && !e.Again && 2*left < wait
	if !o.mayWarn() || wait <= 0 || !untold && left <= wait+killGrace {
		return nil
	}
	e.Again = e.Again || untold
	return o.warn(e, 0, now)
}

// checkpointGrace is how long a command may take to write a checkpoint and to end; 0 if it writes none.
func (o *Observation) checkpointGrace(reason string) time.Duration {
	switch wait := o.shortWait(); {
	case reason == Requeued: // nobody waits for the nodes
		return o.requeueGrace()
	case wait > 0:
		return wait + killGrace
	}
	return 0
}

// shortWait is how long the command has to write a checkpoint where others want the nodes.
func (o *Observation) shortWait() time.Duration {
	if o.Policy.MaxGrace == 0 {
		return o.Policy.CheckpointWait
	}
	return min(o.Policy.CheckpointWait, o.Policy.MaxGrace)
}

// overItself reports whether the command has ended by itself: it succeeded, or failed before the lead was asked to end it.
func (o *Observation) overItself() bool {
	lead := o.Brokers[0]
	failed := lead.State == Failed && lead.ExitCode != nil && o.ToldBegan && !o.ToldAsked
	return o.Workload == Completed || lead.State == Succeeded || failed
}
