// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// Publish tells the lead its quorum and which ranks leave or have left.
type Publish struct {
	Quorum  int
	Leaving []int
	// Again is the last restart of the command in this admission.
	Again Again
}

func (Publish) step() {}

// Start records that the quorum was reached and the command runs.
type Start struct {
	Quorum int
	// Vacated are ranks that have no part in the command and give their nodes back. Leaving are ranks that are online,
	// and that a lead which starts alone drains, since the number of all is no allowed size.
	Vacated, Leaving []int
	// Deadline is the latest time to leave; zero as in Draining.
	Deadline time.Time
	// Lead is the UID of the lead's pod.
	Lead string
	// ReadySince is since when the lead has been ready.
	ReadySince time.Time
}

func (Start) step() {}

func (s Start) apply(r *Record, why string, now time.Time) {
	r.Admission.Quorum, r.Admission.ReadySince, r.Started = s.Quorum, s.ReadySince, now
	r.Admission.Lead = cmp.Or(r.Admission.Lead, s.Lead)
	r.Admission.vacate(s.Vacated)
	if len(s.Leaving) > 0 {
		r.Admission.drain(s.Leaving, s.Quorum, s.Deadline, why, now)
	}
	if r.Admission.Draining == nil && s.ReadySince.After(r.Admission.At) && now.Sub(s.ReadySince) > seenGrace {
		r.Started = s.ReadySince // the manager was away; ranks that leave have their time from now on
	}
	r.Runs++
}

// LowerQuorum lets the command start with fewer brokers than were placed. The other ranks are
// drained.
type LowerQuorum struct {
	Quorum  int
	Leaving []int
	// Avoid are nodes on which brokers did not start.
	Avoid []string
}

func (LowerQuorum) step() {}

func (s LowerQuorum) apply(r *Record, why string, now time.Time) {
	r.Admission.drain(s.Leaving, s.Quorum, time.Time{}, why, now)
	r.avoid(s.Avoid, now)
}

const (
	// publishAgain is when the lead's pod is read again after a write: the write itself triggers
	// no reconcile.
	publishAgain = time.Second
	// joinTimeout is how long followers may take to join after the lead's broker has come up.
	joinTimeout = 15 * time.Second
)

// unpublished tells the lead its quorum and the drained ranks in one write: the lead needs both
// before it starts the command.
func unpublished(o *Observation, now time.Time) *Plan {
	leaving := o.leaving()
	if !o.Brokers[0].holdsNode() {
		return nil
	}
	message := "tells the lead its quorum"
	switch {
	case !o.toldRestart():
		message = "tells the lead to run the command again"
	case o.Published == o.Admission.Quorum && slices.Equal(o.PublishedDrain, leaving):
		return nil
	case o.Published == o.Admission.Quorum:
		message = "tells the lead which ranks leave"
	}
	step := Publish{Quorum: o.Admission.Quorum, Leaving: leaving, Again: o.again()}
	return &Plan{Step: step, State: o.state(), Message: message, LookAgain: now.Add(publishAgain)}
}

// commandBegan records the start of the command: by what the lead's pod shows while it runs, on a node that is dead, too,
// or by what the lead has left behind at its end.
func commandBegan(o *Observation, now time.Time) *Plan {
	if o.Admission == nil || o.begun() || o.Workload == Stale || o.Workload == Ahead || o.Workload == Absent && o.Bereft == 0 {
		return nil
	}
	lead := o.Brokers[0]
	if !lead.Ready && !lead.Started && !o.ToldBegan && lead.State != Succeeded && o.Workload != Completed {
		return nil
	}
	return o.begin(now)
}

// wouldEnd reports whether a plan ends an attempt whose command is not known to have begun.
func (o *Observation) wouldEnd(plan Plan) bool {
	return o.Admission != nil && !o.begun() && o.Outcome == "" && plan.EndsUnseen()
}

// inDoubt reports whether the command may have begun without a trace: nobody can ask the lead any more, and the lead may
// have seen enough brokers. A lead that is there, or has left a termination message, leaves no doubt.
func (o *Observation) inDoubt(now time.Time) bool {
	lead := o.Brokers[0]
	gone := lead.State == Missing && (o.LeadGone || o.Workload == Broken || o.Workload == Deleting || o.Bereft > 0)
	unreachable := !lead.Since.IsZero() && lead.NodeDown
	if !gone && !lead.EndUnknown && !unreachable {
		return false
	}
	online := o.ranks(func(rank int, b Broker) bool { return rank == 0 || (o.Admission.Has(rank) && !b.neverRan()) })
	return len(online) >= o.leastQuorum() || !now.Before(o.quorumDeadline())
}

// begin records the start. If nobody wrote a lower quorum, the lead starts with the brokers that
// are online when the quorum timeout is over. Brokers that have not run then, or that the lead has drained, have no part
// in the command and give their nodes back. Those that came up later leave: they may have got work.
func (o *Observation) begin(now time.Time) *Plan {
	lead := o.Brokers[0]
	step := Start{Quorum: o.Admission.Quorum, Lead: o.Lead, ReadySince: lead.ReadySince}
	apart := o.ranks(func(rank int, b Broker) bool { return rank > 0 && !o.leaves(rank) && b.hadNoPart(lead) })
	late := o.ranks(func(rank int, b Broker) bool {
		return rank > 0 && !o.leaves(rank) && !o.Policy.Malleable && b.cameAfter(lead)
	})
	gone := union(apart, late)
	part := o.ranks(func(rank int, _ Broker) bool { return !o.leaves(rank) && !slices.Contains(gone, rank) })
	size := o.Policy.Sizing.LargestWithin(len(part))
	if !now.Before(o.quorumDeadline()) && size > 0 && size < step.Quorum {
		step.Quorum, step.Vacated, step.Leaving = size, apart, union(late, o.surplus(size, gone...))
		if d := o.Admission.Draining; d != nil && len(step.Leaving) > 0 {
			step.Leaving, step.Deadline = union(d.Ranks, step.Leaving), d.Deadline
		}
	}
	return &Plan{Step: step, State: StateRunning, Message: o.progress()}
}

// quorumDeadline is how long all brokers are waited for.
func (o *Observation) quorumDeadline() time.Time {
	deadline := o.Admission.At.Add(o.Policy.QuorumTimeout)
	if since := o.Brokers[0].Since; !since.IsZero() {
		if joined := since.Add(min(joinTimeout, o.Policy.QuorumTimeout)); joined.After(deadline) {
			return joined
		}
	}
	return deadline
}

func quorumTimedOut(o *Observation, now time.Time) *Plan {
	size := o.Policy.Sizing.LargestWithin(o.upToStay())
	if o.begun() || now.Before(o.quorumDeadline()) || size == 0 || size >= o.Admission.Quorum || o.Brokers[0].State != Up {
		return nil
	}
	return o.lowerQuorum(size, fmt.Sprintf("%d of %d came up within %s", o.Up(), o.members(), o.Policy.QuorumTimeout), nil)
}

// lowerQuorum starts with some of the brokers; nil while ranks leave: further ranks would give them more time. The lead may
// begin with drained ranks before it reads that they leave.
func (o *Observation) lowerQuorum(size int, why string, avoid []string) *Plan {
	if o.Admission.Draining != nil {
		return nil
	}
	return &Plan{
		Step: LowerQuorum{Quorum: size, Leaving: o.surplus(size), Avoid: avoid}, State: StateStarting,
		Message: fmt.Sprintf("starts with %s: %s", brokersText(size), why),
	}
}

// goingWithout goes on without brokers that cannot start. Before the start, the others start once
// they are up, or the attempt is given up if they are too few. Ranks that were to join a running
// command give their nodes back.
func goingWithout(o *Observation, now time.Time) *Plan {
	ranks, left := o.futile(now)
	if len(ranks) == 0 {
		return nil
	}
	why := fmt.Sprintf("%d of %d brokers cannot start%s", len(ranks), o.members(), o.trouble())
	if o.begun() {
		if ranks[0] == 0 || o.Admission.Draining != nil {
			return nil // the lead's Job tries again; other ranks leave first
		}
		if o.Policy.Restarts && len(less(ranks, o.Admission.Joining)) > 0 {
			return o.restartAfterLoss(ranks, now)
		}
		return o.vacate(ranks, why, o.nodesOf(ranks))
	}
	size := o.Policy.Sizing.LargestWithin(left)
	switch {
	case size == 0 || ranks[0] == 0:
		return o.giveUp(why, OutcomeStartLimit, now)
	case o.upToStay() < left || o.Brokers[0].State != Up || o.Brokers[0].Ready:
		return nil // the other brokers are still coming up
	}
	return o.lowerQuorum(min(size, o.Admission.Quorum), why, o.nodesOf(ranks))
}

func running(o *Observation, now time.Time) *Plan {
	if !o.begun() {
		return nil
	}
	plan := &Plan{Step: Wait{}, State: StateRunning, Message: o.progress()}
	if o.restarting() {
		plan.Message = fmt.Sprintf("runs the command again with %s: %s", brokersText(o.Admission.Quorum), o.Admission.Restart.Reason)
	}
	if o.Policy.Deadline > 0 {
		plan.LookAgain = o.timeUp()
	}
	if o.Policy.Restarts && !o.Brokers[0].Ready { // brokers may be lost on a node that is not known to be down yet
		plan.LookAgain = elastic.Earliest(plan.LookAgain, now.Add(lossLook))
	}
	plan.LookAgain = elastic.Earliest(plan.LookAgain, o.Brokers[0].overdueAt(), o.drainDeadline(), o.restartDeadline(), o.joinDeadline(), o.nextRepair(now), o.nextOrder(now))
	if loss := o.Admission.Loss; loss != nil && o.Policy.OnLoss != LossContinue && now.Before(loss.At.Add(lossGrace)) {
		plan.Message = o.lossOf(loss.Ranks) + "; waits for the command to end by itself"
		plan.LookAgain = elastic.Earliest(plan.LookAgain, loss.At.Add(lossGrace))
	}
	return plan
}

// MayRun reports whether the lead may have begun the command, recorded or not.
func (o *Observation) MayRun(now time.Time) bool {
	lead := o.Brokers[0]
	if o.begun() || lead.Ready {
		return true
	}
	online := o.ranks(func(rank int, b Broker) bool { return o.Admission.Has(rank) && b.mayBeOnline() })
	late := !now.Before(o.quorumDeadline()) && o.Policy.Sizing.LargestWithin(len(online)) > 0
	return lead.State == Up && (len(online) >= o.leastQuorum() || late)
}

// leastQuorum is the smaller one of the quorum and of that which the lead was told last: the lead may begin with either.
func (o *Observation) leastQuorum() int {
	if o.Published > 0 {
		return min(o.Admission.Quorum, o.Published)
	}
	return o.Admission.Quorum
}
