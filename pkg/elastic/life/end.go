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

// Finish records how the MiniCluster ended.
type Finish struct {
	Outcome Outcome
	// ExitCode is the exit code of the command; nil if it is not known.
	ExitCode *int
}

func (Finish) step() {}

func (s Finish) apply(r *Record, _ string, now time.Time) {
	r.Outcome, r.Ended, r.ExitCode = s.Outcome, now, s.ExitCode
}

// Stop tells the lead to end the command.
type Stop struct {
	// Reason is one word for users who look at the pod.
	Reason string
	// Grace is how long the command may take, with its checkpoint, before it is killed.
	Grace time.Duration
}

func (Stop) step() {}

// EndLead ends what still runs in the pod of a lead that has ended. The pod stays with its log.
type EndLead struct{}

func (EndLead) step() {}

// Tidy removes the pods of followers that have ended. The lead's pod stays for its log.
type Tidy struct{}

func (Tidy) step() {}

// Remove deletes the MiniCluster.
type Remove struct{}

func (Remove) step() {}

const (
	// tidyDelay is how long pods stay after their end: deleting them at once competes with the
	// start of the next gang on their nodes.
	tidyDelay = 5 * time.Second
	// lingerGrace is how long other containers of the lead's pod may run after the end.
	lingerGrace = 10 * time.Second
	// killGrace is how long a command may take to end after SIGTERM.
	killGrace = 15 * time.Second
	// killedCode is the exit code of a container that was killed. The lead notes for its termination message that the command
	// begins, before it does.
	killedCode = 137
	// stopGrace is how long a lead may take to end the command after it is told to stop.
	stopGrace = 2 * killGrace
)

func afterTheEnd(o *Observation, now time.Time) *Plan {
	if o.Outcome == "" {
		return nil
	}
	plan := &Plan{Step: Wait{}, State: StateFailed}
	if o.Outcome == OutcomeSucceeded {
		plan.State = StateSucceeded
	}
	switch {
	case o.Workload == Active:
		o.end(plan, now)
		return plan
	case o.awaitsAbandon():
		plan.LookAgain = now.Add(releaseAgain)
		if o.nobodyEnds(now) {
			plan.Step = Abandon{}
		}
		return plan
	}
	if ttl := o.Policy.TTL; ttl != nil && o.Occupied == 0 && !o.Policy.Deleted {
		if plan.LookAgain = o.Ended.Add(*ttl); !now.Before(plan.LookAgain) {
			return &Plan{Step: Remove{}, State: plan.State, Message: "it is done"}
		}
	}
	if (o.Workload == Completed || o.Workload == Broken) && o.Done > 0 {
		return o.tidy(plan, now)
	}
	return plan
}

// tidy deletes the pods of followers that have ended some time ago.
func (o *Observation) tidy(plan *Plan, now time.Time) *Plan {
	at := o.Ended.Add(tidyDelay)
	if !now.Before(at) {
		return &Plan{Step: Tidy{}, State: plan.State}
	}
	plan.LookAgain = elastic.Earliest(plan.LookAgain, at)
	return plan
}

// end brings the workload to its end. A lead that is up and did nothing wrong is told to stop, so
// that its pod stays with its log.
func (o *Observation) end(plan *Plan, now time.Time) {
	lead, overdue := o.Brokers[0], o.Ended.Add(stopGrace)
	ended, lingers := lead.State == Succeeded || lead.State == Failed, o.Ended.Add(lingerGrace)
	switch {
	case lead.Lingers && now.Before(lingers):
		plan.LookAgain = lingers
	case lead.Lingers:
		plan.Step, plan.LookAgain = EndLead{}, now.Add(releaseAgain)
	case lead.replaced():
		plan.Step = Release{}
	case o.Outcome.endsWorkload(), o.Outcome.stops() && ended: // by the policies of the JobSet
	case !o.Outcome.stops(), lead.State != Up, !now.Before(overdue):
		plan.Step = Release{}
	case !o.Stopped:
		plan.Step, plan.LookAgain = Stop{Reason: string(o.Outcome), Grace: killGrace}, now.Add(publishAgain)
	default:
		plan.LookAgain = overdue
	}
}

// endsWorkload reports whether the JobSet's own policies end the workload.
func (o Outcome) endsWorkload() bool {
	return o == OutcomeSucceeded || o == OutcomeCommandFailed || o == OutcomeWorkersFailed
}

// stops reports whether the command may still run after this outcome.
func (o Outcome) stops() bool { return o == OutcomeDeadlineExceeded || o == OutcomeBrokersLost }

func leadEnded(o *Observation, now time.Time) *Plan {
	if !slices.Contains([]Workload{Active, Completed, Broken, Orphaned, Deleting}, o.Workload) || o.Admission == nil && o.Workload != Completed {
		return nil
	}
	if o.Workload == Completed || o.Brokers[0].State == Succeeded {
		return &Plan{Step: Finish{Outcome: OutcomeSucceeded, ExitCode: new(0)}, State: StateSucceeded}
	}
	switch lead := o.Brokers[0]; {
	case o.Workload == Deleting: // the lead was killed with its JobSet
	case lead.State == Failed && lead.ExitCode != nil:
		if why := lead.killedBy(); why != "" && !o.begun() {
			return o.giveUp(why+" before the command began", OutcomeStartLimit, now)
		}
		return o.leadFailed(now)
	case endedFromOutside(o):
		return o.giveUp(lead.howLost(), OutcomeStartLimit, now)
	}
	return nil
}

// endedFromOutside reports whether the cluster, or a signal, ended the lead on its node before its command began. Its pod may be
// gone before its Job and its JobSet have failed, and then nobody knows how far it came.
func endedFromOutside(o *Observation) bool {
	lead := o.Brokers[0]
	return o.Workload == Active && !o.begun() && !o.Policy.Suspend && lead.State == Failed && lead.ExitCode == nil && lead.NotStarted == "" && !lead.Unbindable
}

// killedBy says what killed a lead that has failed; "" if it ended by itself.
func (b Broker) killedBy() string {
	switch {
	case *b.ExitCode != killedCode || b.FailedIn != "":
		return ""
	case b.OutOfMemory:
		return "the lead's container reached its memory limit (OOMKilled)"
	}
	return "the lead's container was killed"
}

// leadFailed ends the MiniCluster with the lead's exit code, or tries again if brokers were lost. If the lead ended before the
// command began, the exit code is not the command's.
func (o *Observation) leadFailed(now time.Time) *Plan {
	lead := o.Brokers[0]
	message, code := fmt.Sprintf("the command failed with exit code %d", *lead.ExitCode), lead.ExitCode
	if !o.begun() {
		message, code = fmt.Sprintf("%s failed with exit code %d before the command began", cmp.Or(lead.FailedIn, "the lead's container"), *code), nil
	}
	if lead.OutOfMemory && lead.FailedIn == "" {
		message += " (OOMKilled: the lead's container reached its memory limit)"
	}
	var lost []int
	if lead.FailedIn == "" && o.Policy.OnLoss != LossContinue {
		lost = o.lostBefore(lead)
	}
	if len(lost) > 0 {
		message += " after " + o.lossOf(lost)
	} else if o.ToldRetried {
		message += " after it had failed while it wrote a checkpoint"
	}
	if o.Policy.OnLoss == LossRecreate && lead.FailedIn == "" {
		if plan := o.failedByLoss(lost, code, message, now); plan != nil {
			return plan
		}
	}
	if plan := o.retry(message, now); plan != nil {
		return plan
	}
	return &Plan{Step: Finish{Outcome: OutcomeCommandFailed, ExitCode: code}, State: StateFailed, Message: message}
}

// failedByLoss gives up the attempt of a command that failed because it lost brokers, or twice around a
// checkpoint; nil if it did neither. A node's failure may be reported a while after the command's.
func (o *Observation) failedByLoss(lost []int, code *int, message string, now time.Time) *Plan {
	if len(lost) > 0 || o.ToldRetried {
		plan := o.giveUp(message, OutcomeCommandFailed, now)
		if end, over := plan.Step.(Finish); over {
			end.ExitCode = code
			plan.Step = end
		}
		return plan
	}
	known := o.Brokers[0].EndedAt.Add(downGrace)
	if !now.Before(known) {
		return nil
	}
	return &Plan{Step: Wait{}, State: StateRunning, Message: message + "; waits for news of lost nodes", LookAgain: known}
}

func workloadBroken(o *Observation, now time.Time) *Plan {
	if o.Workload != Broken {
		return nil
	}
	lead := o.Brokers[0]
	switch {
	// Another pod was there first, which nobody knew of.
	case lead.Unbindable && !o.begun() && (lead.Misplaced || !o.wasAvoided(0)):
		step := Withdraw{}
		if !lead.Misplaced { // otherwise the move of the lead has noted the node
			step.Avoid = o.nodesOf([]int{0})
		}
		return &Plan{Step: step, State: StateReleasing, Message: "the lead's node did not take its pod"}
	case lead.lost() && !o.begun():
		return o.giveUp(lead.howLost(), OutcomeStartLimit, now)
	case lead.lost():
		return o.lose(lead.howLost(), OutcomeLeadLost, now)
	}
	return o.lose("pods of followers failed too often", OutcomeWorkersFailed, now)
}

// orphaned ends the attempt of a command whose JobSet was deleted, before the pods are: their end would look like another. A
// finalizer of somebody that keeps the JobSet gives the command no more time.
func orphaned(o *Observation, now time.Time) *Plan {
	if o.Admission == nil || !o.begun() || o.Orphans == 0 && o.Workload != Deleting {
		return nil
	}
	return o.lose("its JobSet was deleted while the command ran", OutcomeLeadLost, now)
}

// secondLead ends an attempt whose lead's Job was made again: the command must not run twice.
func secondLead(o *Observation, now time.Time) *Plan {
	const why = "the lead's Job was deleted and made again"
	switch {
	case !o.SecondLead:
		return nil
	case o.begun():
		return o.lose(why+" while the command ran", OutcomeLeadLost, now)
	}
	return o.giveUp(why, OutcomeStartLimit, now)
}

func leadLost(o *Observation, now time.Time) *Plan {
	lead := o.Brokers[0]
	switch {
	case !o.begun():
		return nil
	case lead.lost():
	case !lead.overdueAt().IsZero() && !now.Before(lead.overdueAt()):
	default:
		return nil
	}
	return o.lose(lead.howLost()+" while the command ran", OutcomeLeadLost, now)
}

// overtime ends a command at its deadline. One that goes on in another attempt ends before, after its checkpoint.
func overtime(o *Observation, now time.Time) *Plan {
	if !o.begun() || o.Policy.Deadline == 0 || now.Before(o.timeUp()) {
		return nil
	}
	switch {
	case !o.mayRequeue():
		message := fmt.Sprintf("the command ran longer than %s", o.Policy.Deadline)
		if o.Requeued > 0 {
			message += fmt.Sprintf(", for the %d. time", o.Requeued+1)
		}
		return &Plan{Step: Finish{Outcome: OutcomeDeadlineExceeded}, State: StateFailed, Message: message}
	case o.Admission.Eviction != nil: // it is ending already, to go on later
		return nil
	}
	e := Eviction{Reason: Requeued, Message: fmt.Sprintf("its time of %s ends, and it goes on in a further attempt", o.Policy.Deadline)}
	if o.mayWarn() {
		return o.warn(e, 0, now)
	}
	return &Plan{Step: Evict{Reason: Requeued}, State: StateReleasing, Message: e.Message}
}

// mayRequeue reports whether the command goes on in another attempt after its deadline: there is time to ask for a checkpoint.
func (o *Observation) mayRequeue() bool {
	return o.Requeued < o.Policy.Requeues && o.Policy.CheckpointWait > 0 && o.requeueGrace() > killGrace
}

// timeUp is when a command with a deadline is told to end. One that goes on later, and is being run again, runs first.
func (o *Observation) timeUp() time.Time {
	end := o.Started.Add(o.Policy.Deadline)
	if !o.mayRequeue() {
		return end
	}
	at := end.Add(-o.requeueGrace())
	if busy := o.busyUntil(); busy.After(at) {
		at = elastic.Earliest(busy, end)
	}
	return at
}

// requeueGrace is how long before its deadline a command is told to end that goes on later: its checkpoint takes time.
func (o *Observation) requeueGrace() time.Duration {
	return min(o.Policy.CheckpointWait+killGrace, o.Policy.Deadline/2)
}
