// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"
	"slices"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// Restart has the command end, after a checkpoint, and run again with other brokers.
type Restart struct {
	// Quorum is the number of brokers with which the command runs then.
	Quorum int
	// Leaving are ranks that leave with it, rising, at the latest at the deadline.
	Leaving  []int
	Deadline time.Time
	// Lost are ranks that were lost and give their nodes back, rising. Avoid are their nodes.
	Lost  []int
	Avoid []string
	// Reason says why.
	Reason string
	// ReadySince is since when the lead has been ready.
	ReadySince time.Time
}

func (Restart) step() {}

func (s Restart) apply(r *Record, _ string, now time.Time) {
	a := r.Admission
	a.Restart = &Restarting{From: a.Quorum, At: now, Reason: s.Reason}
	a.Restarts, r.Runs = a.Restarts+1, r.Runs+1
	a.Quorum, a.Joining, a.ReadySince = s.Quorum, nil, s.ReadySince
	if len(s.Leaving) > 0 {
		a.drain(s.Leaving, s.Quorum, s.Deadline, s.Reason, now)
	}
	if len(s.Lost) > 0 {
		a.vacate(s.Lost)
		a.drained(s.Lost)
		a.Loss, a.Losses = nil, a.Losses+1
		r.avoid(s.Avoid, now)
	}
}

// Restarted records that the command runs again.
type Restarted struct {
	// Checkpointed is when the command had ended, with its checkpoint; zero if nobody saw that, or it is not known
	// whether there is one.
	Checkpointed time.Time
	ReadySince   time.Time
}

func (Restarted) step() {}

func (s Restarted) apply(r *Record, _ string, _ time.Time) {
	r.Admission.Restart, r.Admission.ReadySince = nil, s.ReadySince
	r.checkpointed(s.Checkpointed)
}

// Checkpointed records that the command has written a checkpoint while it ran.
type Checkpointed struct{ At time.Time }

func (Checkpointed) step() {}

func (s Checkpointed) apply(r *Record, _ string, _ time.Time) {
	r.Admission.ReadySince = s.At
	r.checkpointed(s.At)
}

func (r *Record) checkpointed(at time.Time) {
	if at.After(r.Checkpointed) {
		r.Checkpointed = at
	}
}

// Prolong lets the time begin anew of a restart, or of ranks that leave, or of both: the lead was not told.
type Prolong struct {
	Restart bool
	// Deadline is the latest time to leave; zero if no ranks get more time.
	Deadline time.Time
}

func (Prolong) step() {}

func (s Prolong) apply(r *Record, _ string, now time.Time) {
	a := r.Admission
	if s.Restart {
		restart := *a.Restart
		restart.At, restart.Again, a.Restart = now, true, &restart
	}
	if !s.Deadline.IsZero() {
		d := *a.Draining
		d.At, d.Deadline, d.Again, a.Draining = now, s.Deadline, true, &d
	}
}

// Again is the last restart of the command in an admission.
type Again struct {
	// Number counts the restarts; 0 if there was none. Ranks are those of the command, rising.
	Number int
	Ranks  []int
}

func (o *Observation) again() Again {
	if o.Admission.Restarts == 0 {
		return Again{}
	}
	return Again{Number: o.Admission.Restarts, Ranks: o.ranks(func(rank int, _ Broker) bool { return !o.leaves(rank) && !o.joins(rank) })}
}

const (
	// restartGrace is how long a command may take to run again after its checkpoint. The lead kills a command that
	// ignores SIGTERM after 15 s.
	restartGrace = 2 * time.Minute
	// tellGrace is how long it may take until the lead is told what to do, without more time for it. What it has beyond the
	// time for a checkpoint and for SIGTERM (drainGrace, restartGrace) is longer.
	tellGrace = 15 * time.Second
	// firstReady is how long after the start of the command its lead may take to be ready. Two probes, 5 s apart, precede the
	// next time (internal/jobset).
	firstReady = 5 * time.Second
	// lossLook is how often the brokers are looked at while the lead is not ready: Flux may know of a loss first.
	lossLook = 10 * time.Second
	// joinGrace is how long a broker may take to join a command that runs, before it gives its node back.
	joinGrace = 5 * time.Minute
)

// readyAgain reports whether the lead has become ready since the last decision about its command. A start may be decided
// just before the pod of the lead is ready for the first time.
func (o *Observation) readyAgain() bool {
	lead := o.Brokers[0]
	since := lead.ReadySince
	switch {
	case !lead.Ready || since.IsZero():
		return false
	case o.Admission.ReadySince.IsZero():
		return since.After(o.Started.Add(firstReady))
	}
	return !since.Equal(o.Admission.ReadySince)
}

// restarting reports whether the command is being run again, and toldRestart whether the lead knows that.
func (o *Observation) restarting() bool { return o.Admission.Restart != nil }

func (o *Observation) toldRestart() bool { return o.PublishedRestarts == o.Admission.Restarts }

// mayRestart reports whether the command can be told to run again: it runs, and has lost no broker. The lead is ready, so
// that the restart shows in its readiness.
func (o *Observation) mayRestart() bool {
	return o.Policy.Restarts && o.begun() && !o.restarting() && o.Brokers[0].Ready && len(o.lostRanks()) == 0
}

// joins reports whether a rank has no part in the command yet.
func (o *Observation) joins(rank int) bool { return slices.Contains(o.Admission.Joining, rank) }

// restartDone records the end of a restart. The lead's pod is not ready from the end of the command until it runs
// again, so that it has become ready at another time then. So it has if its node was down for a moment: then nobody knows.
func restartDone(o *Observation, now time.Time) *Plan {
	if !o.begun() || !o.restarting() || !o.readyAgain() || o.Brokers[0].NodeReturned && now.Before(o.restartDeadline()) {
		return nil
	}
	lead, r := o.Brokers[0], o.Admission.Restart
	step := Restarted{ReadySince: lead.ReadySince}
	if !lead.NodeReturned && o.LeadDownSince.After(r.At) && o.LeadDownSince.Before(r.At.Add(o.Policy.CheckpointWait)) && o.Policy.AsksForCheckpoint {
		step.Checkpointed = o.LeadDownSince
	}
	message := fmt.Sprintf("the command runs again, with %s, %s after that was decided", brokersText(o.Admission.Quorum), now.Sub(r.At).Round(time.Second))
	return &Plan{Step: step, State: StateRunning, Message: message}
}

// prolonged gives a command once more the time for a restart, or for ranks that leave, of which its lead was not told soon: the
// manager was away. The lead takes its time from when it is told.
func prolonged(o *Observation, now time.Time) *Plan {
	if !o.begun() || o.Workload != Active || o.Brokers[0].State != Up {
		return nil
	}
	step, since := Prolong{}, now
	if r := o.Admission.Restart; r != nil && !r.Again && !o.toldRestart() {
		step.Restart, since = true, r.At
	}
	if d := o.Admission.Draining; d != nil && !d.Again && !d.Deadline.IsZero() && len(less(d.Ranks, o.PublishedDrain)) > 0 {
		took := min(d.Deadline.Sub(d.At), o.Policy.CheckpointWait+killGrace+drainGrace)
		step.Deadline, since = now.Add(took), elastic.Earliest(since, d.At)
	}
	if now.Sub(since) <= tellGrace {
		return nil
	}
	return &Plan{Step: step, State: StateRunning, Message: "the lead was not told in time what to do: the command gets the time once more"}
}

// restartFailed ends an attempt whose command does not run again in time, whatever else the lead has to be told.
func restartFailed(o *Observation, now time.Time) *Plan {
	if !o.begun() || !o.restarting() || o.readyAgain() || now.Before(o.restartDeadline()) {
		return nil
	}
	took := o.restartDeadline().Sub(o.Admission.Restart.At)
	return o.lose(fmt.Sprintf("the command did not run again within %s", took), OutcomeBrokersLost, now)
}

// restartDeadline is when the command has to run again; zero if it is not being restarted.
func (o *Observation) restartDeadline() time.Time {
	if !o.restarting() {
		return time.Time{}
	}
	return o.Admission.Restart.At.Add(o.Policy.CheckpointWait + restartGrace)
}

// checkpointSeen records a checkpoint that the command has written while it ran, or before its lead was told to run it again: the
// lead's pod is then not ready for a moment. A node that was down makes its pods look like that, too.
func checkpointSeen(o *Observation, _ time.Time) *Plan {
	lead := o.Brokers[0]
	if !o.begun() || !o.Policy.TellsCheckpoints || o.restarting() && o.toldRestart() || lead.NodeReturned || !o.readyAgain() {
		return nil
	}
	return &Plan{Step: Checkpointed{At: lead.ReadySince}, State: StateRunning, Message: "the command has written a checkpoint"}
}

// joined runs the command again with the brokers that have joined, once nobody is waited for.
func joined(o *Observation, now time.Time) *Plan {
	if !o.mayRestart() || o.Admission.Draining != nil {
		return nil
	}
	late := o.joining(func(b Broker) bool { return b.State != Up && !b.joinsBy().IsZero() && !now.Before(b.joinsBy()) })
	if len(late) > 0 {
		return o.vacate(late, fmt.Sprintf("%s did not come up within %s", brokersText(len(late)), joinGrace), o.nodesOf(late))
	}
	up := o.joining(func(b Broker) bool { return b.State == Up })
	if len(up) == 0 || len(up) < len(o.Admission.Joining) {
		return nil
	}
	if o.largestOf(o.members()) <= o.commandSize() {
		if o.Order != nil {
			return nil
		}
		return o.vacate(up, brokersText(len(up))+" joined, too few for a larger size", nil)
	}
	return o.restart(nil, nil, brokersText(len(up))+" joined", now)
}

// joining are the ranks that have no part in the command yet, and for which a predicate holds, rising.
func (o *Observation) joining(are func(Broker) bool) []int {
	return o.ranks(func(rank int, b Broker) bool { return o.joins(rank) && are(b) })
}

// joinsBy is when a broker has to be up that joins a command that runs; zero if it was not placed yet.
func (b Broker) joinsBy() time.Time {
	if b.Placed.IsZero() {
		return time.Time{}
	}
	return b.Placed.Add(joinGrace)
}

// joinDeadline is when the next broker has to have joined; zero if none is waited for.
func (o *Observation) joinDeadline() time.Time {
	var next time.Time
	for _, rank := range o.Admission.Joining {
		if b := o.Brokers[rank]; b.State != Up {
			next = elastic.Earliest(next, b.joinsBy())
		}
	}
	return next
}

// commandSize is the number of ranks that have a part in the command.
func (o *Observation) commandSize() int { return o.members() - len(o.Admission.Joining) }

// largestOf is the largest number of brokers, at most n, with which the command may run; 0 if there is none. Above the
// size that was wanted at the admission, any number is allowed, and so is the size that the user wants now.
func (o *Observation) largestOf(n int) int {
	sizing := &o.Policy.Sizing
	if n > sizing.Size || n == o.Policy.Want && (sizing.Tasks.AtSize == 0 || sizing.TasksAt(n) > 0) {
		return n
	}
	return sizing.LargestWithin(n)
}

// restart runs the command again without ranks that leave or were lost, and with those that have joined. Ranks that are
// still to join leave, too, and ranks above an allowed size. Below the minimum any number is allowed that the user wants;
// nil if fewer would be left.
func (o *Observation) restart(leaving, lost []int, why string, now time.Time) *Plan {
	leaving = union(leaving, o.joining(func(b Broker) bool { return b.State != Up }))
	if d := o.Admission.Draining; d != nil {
		leaving = union(leaving, d.Ranks)
	}
	gone := union(leaving, lost)
	remain := len(o.ranks(func(rank int, _ Broker) bool { return !o.leaves(rank) && !slices.Contains(gone, rank) }))
	size := o.largestOf(remain)
	if size == 0 {
		size = remain
	}
	if size < o.Policy.Sizing.Min && (o.Policy.Want == 0 || size < o.Policy.Want) {
		return nil
	}
	step := Restart{Quorum: size, Leaving: less(union(leaving, o.surplus(size, gone...)), lost), Lost: lost, Reason: why, ReadySince: o.Brokers[0].ReadySince}
	if len(step.Leaving) > 0 {
		wait := o.Policy.CheckpointWait
		if _, ordered := o.Order.(elastic.Drain); ordered {
			wait = o.shortWait()
		}
		step.Deadline = now.Add(wait + killGrace + drainGrace)
		if d := o.Admission.Draining; d != nil && len(less(d.Ranks, o.PublishedDrain)) == 0 { // a loss gives them no more time
			step.Deadline = elastic.Earliest(step.Deadline, d.Deadline)
		}
	}
	return &Plan{
		Step: step, State: StateRunning, LookAgain: elastic.Earliest(step.Deadline, now.Add(o.Policy.CheckpointWait+restartGrace)),
		Message: fmt.Sprintf("runs the command again with %d in place of %s: %s", size, brokersText(o.commandSize()), why),
	}
}

// restartAfterLoss runs the command again with the brokers that are left; nil if they are too few, or too many restarts
// did not help.
func (o *Observation) restartAfterLoss(lost []int, now time.Time) *Plan {
	if lead := o.Brokers[0]; !o.Policy.Restarts || lead.State != Up || lead.NodeDown || o.Admission.Losses >= o.Policy.RecreateLimit {
		return nil
	}
	plan := o.restart(nil, lost, o.lossOf(lost), now)
	if plan != nil && o.few(len(lost)) {
		step := plan.Step.(Restart)
		step.Avoid = o.nodesOf(lost)
		plan.Step = step
	}
	return plan
}
