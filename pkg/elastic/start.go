// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import (
	"fmt"
	"slices"
	"time"
)

func suspended(o *Observation, _ time.Time) *Plan {
	if !o.Policy.Suspend {
		return nil
	}
	plan := &Plan{Step: Wait, State: StateSuspended, Message: "it is suspended"}
	switch {
	case o.Admission != nil || o.GivenUp > 0:
		plan.Step = Withdraw
	case o.Workload == Stale, o.Workload == Ahead:
		plan.Step = Release
	}
	return plan
}

func releasing(o *Observation, _ time.Time) *Plan {
	plan := &Plan{Step: Wait, State: StateReleasing, Message: "waits for the pods of the attempt before to end"}
	switch {
	case o.Workload == Stale:
		plan.Step = Release
	case o.Workload == Deleting, o.Workload == Absent && o.Leftover > 0:
	default:
		return nil
	}
	return plan
}

func rejected(o *Observation, _ time.Time) *Plan {
	switch {
	case o.Rejected == "":
		return nil
	case o.Admission == nil:
		return &Plan{Step: Wait, State: StateRejected, Message: o.Rejected}
	case o.Workload == Absent && o.Started.IsZero():
		return &Plan{Step: Withdraw, State: StateRejected, Message: o.Rejected}
	}
	return nil // what runs is not touched
}

func queued(o *Observation, now time.Time) *Plan {
	switch {
	case o.Admission != nil:
		return nil
	case now.Before(o.NotBefore):
		return &Plan{
			Step: Wait, State: StateBackingOff, LookAgain: o.NotBefore,
			Message: fmt.Sprintf("gave up attempt %d of %d", o.GivenUp, o.Policy.RecreateLimit+1),
		}
	case len(o.Offer) > 0:
		return &Plan{Step: Admit, State: StateStarting, Quorum: len(o.Offer), Message: "makes its pods"}
	case o.Soon && o.Workload == Absent:
		return &Plan{Step: Make, State: StateQueued, Message: o.Why}
	case !o.Soon && o.Workload == Ahead:
		return &Plan{Step: Release, State: StateQueued, Message: o.Why}
	}
	return &Plan{Step: Wait, State: StateQueued, Message: o.Why}
}

func unmade(o *Observation, now time.Time) *Plan {
	if o.Workload != Absent {
		return nil
	}
	if plan := startTimedOut(o, now); plan != nil && o.Started.IsZero() {
		return plan
	}
	if o.Outdated && o.Started.IsZero() {
		return &Plan{Step: Withdraw, State: StateReleasing, Message: "the spec was changed before its pods were made"}
	}
	return &Plan{Step: Make, State: StateStarting, Message: "makes its pods"}
}

// unplaced places all pods at once: none before every one of them is there, so
// that no part of a gang holds nodes. After that, a pod that was replaced goes
// back to its node.
func unplaced(o *Observation, now time.Time) *Plan {
	gated, missing, placed, stranded := o.placement()
	deadline := o.Admission.At.Add(o.Policy.StartTimeout)
	switch {
	case placed == 0 && stranded > 0:
		return &Plan{Step: Withdraw, State: StateReleasing, Message: "a node that was chosen is gone"}
	case o.Started.IsZero() && !now.Before(deadline):
		return nil // it could not be placed in time
	case placed == 0 && missing > 0:
		message := fmt.Sprintf("%d of %d pods made", o.members()-missing, o.members())
		plan := &Plan{Step: Wait, State: o.state(), Message: message}
		if o.Started.IsZero() {
			plan.LookAgain = deadline
		}
		return plan
	case len(gated) > 0 && (placed > 0 || missing == 0):
		return &Plan{Step: Place, State: o.state(), Ranks: gated, Quorum: o.Admission.Quorum, Message: "places its pods"}
	}
	return nil
}

// placement sorts the brokers: the ranks that are to be placed, and how many have no
// pod, are placed, or wait for a node that is gone. Those that leave are none of them,
// and those that were lost have no place any more.
func (o *Observation) placement() (gated []int, missing, placed, stranded int) {
	for rank, broker := range o.Brokers {
		switch {
		case o.leaves(rank), o.wasLost(rank) && o.Policy.OnLoss != LossContinue:
		case broker.State == Missing:
			missing++
		case broker.State != Gated:
			placed++
		case broker.NodeGone:
			stranded++
		default:
			gated = append(gated, rank)
		}
	}
	return gated, missing, placed, stranded
}

// publishAgain is after which time the lead's pod is looked at again: what is written to it
// wakes nobody.
const publishAgain = time.Second

// unpublished tells the lead its quorum and who leaves, in one write: before it starts the
// command it has to know both.
func unpublished(o *Observation, now time.Time) *Plan {
	leaving := o.leavingRanks()
	if !holdsNode(o.Brokers[0].State) {
		return nil
	}
	message := "tells the lead its quorum"
	if o.Published == o.Admission.Quorum {
		if slices.Equal(o.PublishedDrain, leaving) {
			return nil
		}
		message = "tells the lead which ranks leave"
	}
	return &Plan{Step: Publish, State: o.state(), Quorum: o.Admission.Quorum, Ranks: leaving, Message: message, LookAgain: now.Add(publishAgain)}
}

// commandBegan records the start.
func commandBegan(o *Observation, now time.Time) *Plan {
	if !o.Started.IsZero() || !o.Brokers[0].Ready {
		return nil
	}
	return o.begin(now)
}

// begin records the start. A lead that nobody told anything starts with those that are up
// once the quorum timeout is over; those that cannot be, since they do not run, give their
// nodes back.
func (o *Observation) begin(now time.Time) *Plan {
	plan := &Plan{Step: Start, State: StateRunning, Quorum: o.Admission.Quorum, Message: o.progress()}
	var not []int
	runs := 0
	for rank, b := range o.Brokers {
		switch {
		case o.leaves(rank):
		case b.mayBeOnline():
			runs++
		default:
			not = append(not, rank)
		}
	}
	size := o.Policy.Sizing.LargestWithin(runs)
	if o.Brokers[0].Ready && !now.Before(o.quorumDeadline()) && size > 0 && size < plan.Quorum {
		plan.Quorum, plan.Ranks = size, not
	}
	return plan
}

// joinTimeout is how long after the lead has come up followers may take to join it, which
// they cannot before.
const joinTimeout = 15 * time.Second

// quorumDeadline is until when all brokers are waited for.
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
	if now.Before(o.quorumDeadline()) || size == 0 || size >= o.Admission.Quorum || o.Brokers[0].State != Up {
		return nil
	}
	return o.lowerQuorum(size, fmt.Sprintf("%d of %d came up within %s", o.up(), o.members(), o.Policy.QuorumTimeout))
}

// lowerQuorum starts with some of the brokers; nil while others leave a command that may run.
// With those that leave the lead may begin at this very moment, before it hears of that.
func (o *Observation) lowerQuorum(size int, why string) *Plan {
	ranks := o.surplus(size)
	if d := o.Admission.Draining; d != nil {
		if !d.Deadline.IsZero() {
			return nil
		}
		ranks = slices.Sorted(slices.Values(slices.Concat(ranks, d.Ranks)))
	}
	return &Plan{
		Step: LowerQuorum, State: StateStarting, Quorum: size, Ranks: ranks,
		Message: fmt.Sprintf("starts with %s: %s", brokersText(size), why),
	}
}

// surplus are the ranks that are too many for a size when some have left, rising: first those
// that are not up, and of these and of the others the highest; never the lead.
func (o *Observation) surplus(size int, left ...int) []int {
	var ranks []int // those to leave first are first
	staying := 1
	for _, up := range []bool{false, true} {
		for rank := len(o.Brokers) - 1; rank > 0; rank-- {
			if !o.leaves(rank) && !slices.Contains(left, rank) && (o.Brokers[rank].State == Up) == up {
				ranks = append(ranks, rank)
				staying++
			}
		}
	}
	ranks = ranks[:max(0, min(staying-size, len(ranks)))]
	slices.Sort(ranks)
	return ranks
}

func startTimedOut(o *Observation, now time.Time) *Plan {
	if now.Before(o.Admission.At.Add(o.Policy.StartTimeout)) {
		return nil
	}
	why := "too few to start"
	switch {
	case o.upToStay() >= o.Admission.Quorum:
		why = "and the command did not begin"
	case o.Brokers[0].State != Up:
		why = fmt.Sprintf("not the lead's on %s, which the others wait for", o.Admission.Nodes[0])
	}
	return o.giveUp(fmt.Sprintf("%d of %d brokers came up within %s, %s%s", o.up(), o.members(), o.Policy.StartTimeout, why, o.trouble()), OutcomeStartLimit, now)
}

// giveUp ends an attempt, and with the last of them the MiniCluster.
func (o *Observation) giveUp(message string, outcome Outcome, now time.Time) *Plan {
	if o.GivenUp >= o.Policy.RecreateLimit {
		return &Plan{
			Step: Finish, State: StateFailed, Outcome: outcome,
			Message: fmt.Sprintf("%s, in attempt %d of %d", message, o.GivenUp+1, o.Policy.RecreateLimit+1),
		}
	}
	plan := &Plan{Step: GiveUp, State: StateReleasing, Message: message, NotBefore: now.Add(o.pause()), Avoid: o.badNodes()}
	if o.Policy.Shrink && o.Started.IsZero() {
		plan.Size = max(o.Policy.Sizing.LargestWithin(o.Admission.Size-1), o.Policy.Sizing.Min)
	}
	return plan
}

// badNodes are the nodes on which brokers did not come up, or from which they were lost.
// Where that is so of most it is not the nodes.
func (o *Observation) badNodes() []string {
	ranks := o.ranksNotUp()
	if !o.Started.IsZero() {
		ranks = o.ranksLost()
	}
	if !o.few(len(ranks)) {
		return nil
	}
	return o.nodesOf(ranks)
}

// nodesOf are the nodes of ranks, in their order.
func (o *Observation) nodesOf(ranks []int) []string {
	var nodes []string
	for _, rank := range ranks {
		nodes = append(nodes, o.Admission.Nodes[rank])
	}
	return nodes
}

// ranksNotUp are those that may not be up for their node's fault. Followers come up only
// once the lead is there.
func (o *Observation) ranksNotUp() []int {
	var ranks []int
	for rank, b := range o.Brokers {
		failed := b.stuck() || b.Trouble != "" || (b.State == Failed && rank > 0)
		late := b.State == Coming && (rank == 0 || o.Brokers[0].State == Up)
		if (failed || late) && !o.leaves(rank) {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// ranksLost are those, the lead too, that may be lost for their node's fault. When the
// command has failed, those that ended with it were not.
func (o *Observation) ranksLost() []int {
	lead := o.Brokers[0]
	if lead.State == Failed && lead.ExitCode != nil {
		return o.lostBefore(lead)
	}
	var ranks []int
	lost := o.lostRanks()
	for rank, b := range o.Brokers {
		if (slices.Contains(lost, rank) || b.NodeDown || (rank == 0 && b.lost())) && !o.leaves(rank) {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// few reports whether so many of the brokers are no more than half of them.
func (o *Observation) few(n int) bool { return n <= max(1, o.members()/2) }

func waitingForBrokers(o *Observation, now time.Time) *Plan {
	plan := &Plan{Step: Wait, State: StateStarting, Message: o.progress(), LookAgain: o.Admission.At.Add(o.Policy.StartTimeout)}
	if quorum := o.quorumDeadline(); now.Before(quorum) {
		plan.LookAgain = Earliest(plan.LookAgain, quorum)
	}
	plan.LookAgain = Earliest(plan.LookAgain, o.drainDeadline(), o.nextRepair(now))
	return plan
}

// pause is the time before the next attempt: it doubles with each one, and is
// lengthened by up to a tenth.
func (o *Observation) pause() time.Duration {
	pause := o.Policy.BackoffBase
	for range o.GivenUp {
		if pause >= o.Policy.BackoffMax/2 {
			pause = o.Policy.BackoffMax
			break
		}
		pause *= 2
	}
	return pause + time.Duration(o.Jitter*float64(pause)/10)
}

func running(o *Observation, now time.Time) *Plan {
	if o.Started.IsZero() {
		return nil
	}
	plan := &Plan{Step: Wait, State: StateRunning, Message: o.progress()}
	if o.Policy.Deadline > 0 {
		plan.LookAgain = o.Started.Add(o.Policy.Deadline)
	}
	plan.LookAgain = Earliest(plan.LookAgain, o.Brokers[0].overdueAt(), o.drainDeadline(), o.nextRepair(now))
	if loss := o.Admission.Loss; loss != nil && o.Policy.OnLoss != LossContinue && now.Before(loss.At.Add(lossGrace)) {
		plan.Message = o.lossOf(loss.Ranks) + "; it has a moment to end by itself"
		plan.LookAgain = Earliest(plan.LookAgain, loss.At.Add(lossGrace))
	}
	return plan
}

// Earliest is the first of some times; zero ones are none.
func Earliest(times ...time.Time) time.Time {
	var first time.Time
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// state is that of a MiniCluster that has nodes.
func (o *Observation) state() State {
	if o.Started.IsZero() {
		return StateStarting
	}
	return StateRunning
}

// brokersText counts them, for people.
func brokersText(n int) string {
	if n == 1 {
		return "1 broker"
	}
	return fmt.Sprintf("%d brokers", n)
}

func (o *Observation) progress() string {
	return fmt.Sprintf("%d of %d brokers up%s", o.up(), o.members(), o.trouble())
}

// trouble says what keeps brokers from starting: of the first of them.
func (o *Observation) trouble() string {
	for rank, b := range o.Brokers {
		if b.Trouble != "" && !o.leaves(rank) {
			return fmt.Sprintf("; rank %d on %s: %s", rank, o.Admission.Nodes[rank], b.Trouble)
		}
	}
	return ""
}

// upToStay is the number of brokers that are up, and not asked to leave.
func (o *Observation) upToStay() int {
	n := 0
	for rank, broker := range o.Brokers {
		if broker.State == Up && !o.leaves(rank) {
			n++
		}
	}
	return n
}

// up is the number of brokers that are up on nodes of theirs.
func (o *Observation) up() int {
	n := 0
	for _, broker := range o.Brokers {
		if broker.State == Up && !broker.Vacated {
			n++
		}
	}
	return n
}

func holdsNode(state BrokerState) bool { return state == Coming || state == Up || state == Leaving }
