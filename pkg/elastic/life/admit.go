// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"
	"time"
)

// Admit takes the nodes that the queue offers.
type Admit struct {
	Attempt int
	Nodes   []string
}

func (Admit) step() {}

func (s Admit) apply(r *Record, _ string, now time.Time) {
	r.end()
	r.forgetAvoided(now)
	r.Attempts = s.Attempt
	r.Admission = &Admission{Attempt: s.Attempt, Quorum: len(s.Nodes), At: now, Nodes: s.Nodes}
	r.Ended, r.ExitCode = time.Time{}, nil
}

// Withdraw ends the admission without counting a failed attempt.
type Withdraw struct {
	// Avoid are the nodes that did not take pods; none in other cases.
	Avoid []string
	// Checkpointed is true if the command has written a checkpoint at its end.
	Checkpointed bool
}

func (Withdraw) step() {}

func (s Withdraw) apply(r *Record, _ string, now time.Time) {
	r.end()
	if s.Checkpointed {
		r.Checkpointed = now
	}
	r.avoid(s.Avoid, now)
}

// Make makes the objects of the admission, or those of a trial.
type Make struct{}

func (Make) step() {}

// Release deletes the workload and with it all pods.
type Release struct{}

func (Release) step() {}

// Abandon deletes the Jobs of a JobSet that is being deleted, without waiting for their pods. The
// JobSet goes with its Jobs. The pods are on nodes that are down, and may never end. Abandon also deletes the Jobs of a
// JobSet that was deleted without them, or that a finalizer keeps.
type Abandon struct{}

func (Abandon) step() {}

// releaseAgain is when to look again at pods that end: no event tells that their node is down.
const releaseAgain = 5 * time.Second

func suspended(o *Observation, now time.Time) *Plan {
	if !o.Policy.Suspend {
		return nil
	}
	plan := &Plan{Step: Wait{}, State: StateSuspended, Message: "it is suspended"}
	if o.Policy.Deleted {
		plan.Message = "it is being deleted"
	}
	switch {
	case o.mayWarn() && o.Policy.CheckpointWait > 0 && !o.Policy.Deleted:
		return o.warn(Eviction{Reason: Suspension, Message: plan.Message}, 0, now)
	case o.Admission != nil || o.GivenUp+o.Retried+o.Requeued > 0:
		plan.Step = Withdraw{}
	case o.Workload == Ahead:
		plan.Step = Release{}
	default:
		if release := releasing(o, now); release != nil {
			plan = release
			plan.State = StateSuspended
		}
	}
	return plan
}

func releasing(o *Observation, now time.Time) *Plan {
	plan := &Plan{Step: Wait{}, State: StateReleasing, Message: "waits for the pods of the last attempt to end", LookAgain: now.Add(releaseAgain)}
	switch {
	case o.Workload == Stale:
		return &Plan{Step: Release{}, State: StateReleasing, Message: plan.Message}
	case o.Admission != nil && !o.begun() && o.lostJobSet():
		plan.Step, plan.Message = Withdraw{}, "its JobSet was deleted" // no pod of another JobSet may run with the same attempt
	case o.Orphans > 0:
		plan.Step, plan.Message = Abandon{}, fmt.Sprintf("deletes %d pods that were left when the JobSet was deleted", o.Orphans)
	case o.nobodyEnds(now):
		plan.Step, plan.Message = Abandon{}, "ends the last attempt without its JobSet: nodes of its pods are down, or a finalizer keeps the JobSet"
	case o.Workload == Deleting, o.Workload == Absent && o.leftBehind(now):
	default:
		return nil
	}
	return plan
}

// awaitsAbandon reports whether pods of a JobSet that was deleted, or is being deleted, may stay: time alone tells.
func (o *Observation) awaitsAbandon() bool {
	return o.Orphans+o.Kept > 0 || o.Workload == Deleting && o.Stranded > 0
}

// nobodyEnds reports whether nobody but the manager ends the pods of a JobSet that was deleted, or is being deleted.
func (o *Observation) nobodyEnds(now time.Time) bool {
	stranded := o.Stranded > 0 && o.Stranded == o.Existing && !now.Before(o.StrandedBy)
	kept := o.Kept > 0 && !now.Before(o.KeptBy)
	return o.Orphans > 0 || o.Workload == Deleting && (stranded || kept)
}

// lostJobSet reports whether the JobSet of the admission was deleted. One that has never been has no lead.
func (o *Observation) lostJobSet() bool {
	return o.Workload == Deleting || o.Bereft > 0 || o.Workload == Absent && o.Admission.Lead != ""
}

func rejected(o *Observation, now time.Time) *Plan {
	plan := &Plan{Step: Wait{}, State: StateRejected, Message: o.Rejected}
	switch {
	case o.Refused != "" && !o.MayRun(now):
		plan.Step, plan.Message = Withdraw{}, o.Refused
	case o.Rejected == "", o.Admission != nil && (o.Workload != Absent || o.begun()):
		return nil // a workload that runs is not touched
	case o.Admission != nil:
		plan.Step = Withdraw{}
	case o.Trial && o.Workload == Absent:
		plan.Step = Make{}
	case !o.Trial && o.Workload == Ahead:
		plan.Step = Release{}
	}
	return plan
}

func queued(o *Observation, now time.Time) *Plan {
	switch {
	case o.Admission != nil:
		return nil
	case now.Before(o.NotBefore):
		message := fmt.Sprintf("gave up attempt %d of %d", o.GivenUp, o.Policy.RecreateLimit+1)
		if o.GivenUp == 0 {
			message = fmt.Sprintf("the command failed, and runs again for the %d. of %d times", o.Retried, o.Policy.Retries)
		}
		return &Plan{Step: Wait{}, State: StateBackingOff, LookAgain: o.NotBefore, Message: message}
	case len(o.Offer.Nodes) > 0:
		return &Plan{Step: Admit{Attempt: o.Attempt(), Nodes: o.Offer.Nodes}, State: StateStarting, Message: "makes its pods"}
	case o.Workload == Ahead:
		return &Plan{Step: Release{}, State: StateQueued, Message: o.Offer.Message}
	}
	return &Plan{Step: Wait{}, State: StateQueued, Message: o.Offer.Message}
}

func unmade(o *Observation, now time.Time) *Plan {
	if o.Workload != Absent {
		return nil
	}
	if plan := startTimedOut(o, now); plan != nil && !o.begun() {
		return plan
	}
	if o.Outdated && !o.begun() {
		return &Plan{Step: Withdraw{}, State: StateReleasing, Message: "the spec was changed before its pods were made"}
	}
	return &Plan{Step: Make{}, State: StateStarting, Message: "makes its pods"}
}
