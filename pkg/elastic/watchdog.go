// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// BrokerState is how the pod of one rank is.
type BrokerState int

// States of a broker's pod.
const (
	// Missing: there is no pod.
	Missing BrokerState = iota
	// Gated: the pod waits to be placed, and holds nothing.
	Gated
	// Coming: the pod is placed, and not up yet.
	Coming
	// Up: the pod runs and is ready.
	Up
	// Leaving: the pod is being deleted.
	Leaving
	// Succeeded: the pod ended with exit code 0.
	Succeeded
	// Failed: the pod ended otherwise.
	Failed
)

// Broker is the pod of one rank.
type Broker struct {
	State BrokerState
	// ExitCode is that of a pod that ended; nil if it is not known.
	ExitCode *int
	// FailedIn is what ended with that code, where it was not the command.
	FailedIn string
	// GoneBy is when a pod that is leaving should be gone; zero if nobody said.
	GoneBy time.Time
	// NodeGone is true where the node that was chosen for the rank is no more.
	NodeGone bool
	// Vacated: the rank has given its node back. Its pod, if it still has one, goes.
	Vacated bool
	// Misplaced: the pod is bound for another node than the admission says.
	Misplaced bool
	// Unbindable: kube-scheduler cannot bind the pod to its node, or the kubelet there
	// did not take it.
	Unbindable bool
	// Placed is when the pod was let go to its node; zero if that is not known.
	Placed time.Time
}

// Workload is how the pods' owner (a JobSet) is.
type Workload int

// States of the owner.
const (
	// Absent: there is none.
	Absent Workload = iota
	// Ahead: it was made for the admission that comes, and its pods wait.
	Ahead
	// Active: it makes and keeps the pods of the admission.
	Active
	// Completed: the lead ended with exit code 0.
	Completed
	// Broken: the lead failed for good, or followers failed too often.
	Broken
	// Stale: it belongs to an admission that is no more.
	Stale
	// Deleting: it is being deleted.
	Deleting
)

// Admission is what a MiniCluster was given.
type Admission struct {
	// Size counts all ranks, those that were vacated too.
	Attempt, Size, Quorum int
	At                    time.Time
	// Nodes are by rank.
	Nodes []string
	// Draining are ranks that are asked to leave; nil if none are.
	Draining *Draining
}

// Draining are ranks that are asked to leave.
type Draining struct {
	// Ranks are rising, and never the lead.
	Ranks    []int
	Deadline time.Time
}

// Order is what the scheduler wants of a gang that has nodes; at most one of its
// fields is set, beside those that say why.
type Order struct {
	// Evict says why it has to give all back and is queued again; "" if it has not.
	// EvictReason is the word for it: Preempted or Reclaimed.
	Evict, EvictReason string
	// Drain are ranks to leave, and DrainFor is for whom.
	Drain    []int
	DrainFor string
	// Grow are ranks, new ones or vacated ones, and the nodes that they get.
	Grow []Pod
	// Move are ranks whose pods cannot be bound, and the nodes that they get instead.
	Move []Pod
}

// Policy is what the user said about the life of a MiniCluster.
type Policy struct {
	Sizing                      Sizing
	QuorumTimeout, StartTimeout time.Duration
	// Max is the number of brokers up to which it may grow.
	Max int
	// BearsChange: its command goes on when ranks join and leave.
	BearsChange bool
	// Deadline is how long the command may run; 0 without end.
	Deadline time.Duration
	// RecreateLimit is how often one that did not start is tried again.
	RecreateLimit           int
	BackoffBase, BackoffMax time.Duration
	// Retries is how often a lead that failed is started again.
	Retries int
	Suspend bool
	// Cleanup deletes the MiniCluster once it is done.
	Cleanup bool
}

// Observation is all that a decision about one MiniCluster is made from.
type Observation struct {
	Policy Policy
	// Rejected says why the MiniCluster cannot be carried out; "" if it can.
	Rejected string
	// Offer are the nodes that the scheduler has for it now, by rank; nil if none.
	Offer []string
	// Verdict and Why are the scheduler's, where it offers none.
	Verdict Verdict
	Why     string
	// Soon: it is one of the next to start, so that its pods are worth making now.
	Soon bool

	// Order is what the scheduler wants of it while it has nodes; nil if nothing.
	Order *Order

	// Admission is nil while it waits.
	Admission *Admission
	// Outdated: the spec was changed since the admission.
	Outdated bool
	// GivenUp counts the attempts that did not start; NotBefore is when the next
	// one may begin.
	GivenUp   int
	NotBefore time.Time
	// Started is when the quorum was reached; zero before.
	Started time.Time
	// Outcome is the end that was written down, and Ended when; "" before.
	Outcome Outcome
	Ended   time.Time

	Workload Workload
	// Brokers are the pods of the admission's ranks.
	Brokers []Broker
	// Published is the quorum that the lead's pod says; 0 if it says none.
	Published int
	// PublishedDrain are the ranks that the lead's pod says are to leave or have left.
	PublishedDrain []int
	// Occupied is the number of pods of the MiniCluster, of whatever admission,
	// that hold a node.
	Occupied int
	// Leftover is the number of pods of earlier owners that still exist.
	Leftover int
	// Done is the number of pods of followers that have ended and still exist.
	Done int
	// Jitter, from 0 to 1, lengthens a pause by up to a tenth.
	Jitter float64
}

// Unplaced reports whether it has no pods, or only those made ahead.
func (o *Observation) Unplaced() bool {
	return o.Outcome == "" && o.Started.IsZero() && (o.Workload == Absent || o.Workload == Ahead)
}

// Attempt is the number of the attempt that is made, or comes.
func (o *Observation) Attempt() int {
	if o.Admission != nil {
		return o.Admission.Attempt
	}
	return o.GivenUp + 1
}

// Step is what to do next. At most one thing is done at a time; what it leads to
// is observed before the next.
type Step string

// Steps that write a decision down, and nothing else.
const (
	// Admit takes the offer.
	Admit Step = "Admit"
	// LowerQuorum lets the command start with fewer brokers than were placed.
	LowerQuorum Step = "LowerQuorum"
	// Start records that the quorum is reached.
	Start Step = "Start"
	// GiveUp ends the attempt and queues the MiniCluster again after a pause.
	GiveUp Step = "GiveUp"
	// Withdraw takes the admission back without counting it as given up.
	Withdraw Step = "Withdraw"
	// Finish records the end.
	Finish Step = "Finish"
	// Evict takes the admission back, since others need the nodes.
	Evict Step = "Evict"
	// DrainRanks asks ranks to leave until a deadline.
	DrainRanks Step = "Drain"
	// Vacate gives the nodes of the ranks that were asked to leave back.
	Vacate Step = "Vacate"
	// GrowRanks gives more ranks nodes.
	GrowRanks Step = "Grow"
	// MoveRanks gives ranks other nodes.
	MoveRanks Step = "Move"
)

// Steps that make the cluster follow what was decided.
const (
	// Wait does nothing.
	Wait Step = "Wait"
	// Make makes the objects of the admission, or of the one that comes.
	Make Step = "Make"
	// Place pins the pods of Plan.Ranks to their nodes and lets them go.
	Place Step = "Place"
	// Publish tells the lead its quorum, and which ranks leave.
	Publish Step = "Publish"
	// EvictRanks evicts pods from nodes that their ranks have given back.
	EvictRanks Step = "EvictRanks"
	// Release deletes the workload, and with it the pods.
	Release Step = "Release"
	// Tidy removes the pods of followers that have ended. The lead's stays, for its
	// log.
	Tidy Step = "Tidy"
	// Remove deletes the MiniCluster.
	Remove Step = "Remove"
)

// State is where in its life a MiniCluster is, for people.
type State string

// States.
const (
	StateRejected   State = "Rejected"
	StateSuspended  State = "Suspended"
	StateQueued     State = "Queued"
	StateStarting   State = "Starting"
	StateRunning    State = "Running"
	StateReleasing  State = "Releasing"
	StateBackingOff State = "BackingOff"
	StateSucceeded  State = "Succeeded"
	StateFailed     State = "Failed"
)

// Outcome is how a MiniCluster ended.
type Outcome string

// Outcomes.
const (
	OutcomeSucceeded        Outcome = "Succeeded"
	OutcomeCommandFailed    Outcome = "CommandFailed"
	OutcomeLeadLost         Outcome = "LeadLost"
	OutcomeWorkersFailed    Outcome = "WorkersFailed"
	OutcomeDeadlineExceeded Outcome = "DeadlineExceeded"
	OutcomeStartLimit       Outcome = "StartLimitExceeded"
)

// Plan is the decision about one MiniCluster.
type Plan struct {
	Step  Step
	State State
	// Message says why, for people.
	Message string
	// Reason is the word for why all is given back: the order's.
	Reason string
	// Ranks are those to place, to drain, to vacate, to evict, or to publish as leaving.
	Ranks []int
	// Pods are the ranks that get nodes, rising.
	Pods []Pod
	// Deadline is when ranks that are asked to leave have to be gone.
	Deadline time.Time
	// Quorum is the one to record or to publish.
	Quorum int
	// NotBefore is when an attempt that was given up may be followed by the next.
	NotBefore time.Time
	// Outcome and ExitCode are the end to record.
	Outcome  Outcome
	ExitCode *int
	// LookAgain is when time alone may change the plan; zero if never.
	LookAgain time.Time
}

// rule is one reason to do something. It returns nil where it does not apply.
type rule func(o *Observation, now time.Time) *Plan

// rules in the order in which they are asked; the first that applies decides.
var rules = []rule{
	afterTheEnd,    // what has ended is only cleaned up
	leadEnded,      // the lead's end is the end, whatever came after
	suspended,      // the user wants it to hold nothing
	releasing,      // what is left of an earlier attempt goes before anything new
	rejected,       // what cannot be carried out waits for a better spec
	queued,         // without nodes it waits for them
	workloadBroken, // the end of the lead's owner is the end
	leadLost,       // and its loss, once the command ran
	overtime,       // and the end of its time
	evicted,        // others need all that it has
	unmade,         // nothing runs before it is made, in time
	evicting,       // pods leave nodes that are not theirs any more
	vacating,       // whoever was asked to leave has left, or has to
	draining,       // others need a part of what it has
	moving,         // pods that cannot be bound get other nodes
	growing,        // there is more for it
	unrepaired,     // or there are none: it does not stay half placed
	unplaced,       // pods are placed together
	unpublished,    // the lead has to know its quorum, and who leaves
	running,        // the command runs until it ends
	quorumReached,  // enough are up: the command starts
	quorumTimedOut, // too few after a while: enough for a smaller start?
	startTimedOut,  // too few for too long: give up; else wait
}

// Decide returns the one next step for a MiniCluster. The same observation gives
// the same plan: what must be remembered is in the observation.
func Decide(o *Observation, now time.Time) Plan {
	for _, rule := range rules {
		if plan := rule(o, now); plan != nil {
			return *plan
		}
	}
	return *waitingForBrokers(o, now)
}

// tidyDelay is how long pods that have ended stay: removing them at once competes with
// what starts on the nodes that they left.
const tidyDelay = 5 * time.Second

func afterTheEnd(o *Observation, now time.Time) *Plan {
	if o.Outcome == "" {
		return nil
	}
	plan := &Plan{Step: Wait, State: StateFailed}
	if o.Outcome == OutcomeSucceeded {
		plan.State = StateSucceeded
	}
	switch {
	case o.Workload == Active && (!o.Outcome.endsWorkload() || (len(o.Brokers) > 0 && o.Brokers[0].replaced())):
		plan.Step = Release
	case o.Occupied == 0 && o.Policy.Cleanup:
		plan.Step = Remove
	case (o.Workload == Completed || o.Workload == Broken) && o.Done > 0:
		if plan.LookAgain = o.Ended.Add(tidyDelay); !now.Before(plan.LookAgain) {
			plan.Step, plan.LookAgain = Tidy, time.Time{}
		}
	}
	return plan
}

// endsWorkload reports whether the workload comes to its end by itself: its own
// policies see how the pods ended.
func (o Outcome) endsWorkload() bool {
	return o == OutcomeSucceeded || o == OutcomeCommandFailed || o == OutcomeWorkersFailed
}

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
			Message: fmt.Sprintf("did not start in attempt %d of %d", o.GivenUp, o.Policy.RecreateLimit+1),
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

func leadEnded(o *Observation, _ time.Time) *Plan {
	if o.Admission == nil || (o.Workload != Active && o.Workload != Completed && o.Workload != Broken) {
		return nil
	}
	lead := o.Brokers[0]
	switch {
	case o.Workload == Completed || lead.State == Succeeded:
		zero := 0
		return &Plan{Step: Finish, State: StateSucceeded, Outcome: OutcomeSucceeded, ExitCode: &zero}
	case lead.State == Failed && lead.ExitCode != nil && (o.Policy.Retries == 0 || o.Workload == Broken):
		return &Plan{
			Step: Finish, State: StateFailed, Outcome: OutcomeCommandFailed, ExitCode: lead.ExitCode,
			Message: fmt.Sprintf("%s failed with exit code %d", cmp.Or(lead.FailedIn, "the command"), *lead.ExitCode),
		}
	}
	return nil
}

// replaced reports whether there is a new pod for the broker, or is to be one: the
// workload goes on as if nothing had ended.
func (b Broker) replaced() bool { return b.State == Missing || b.State == Gated }

// lost reports whether the broker's pod is no more, or was ended by the cluster, so
// that nobody knows how its command ended.
func (b Broker) lost() bool {
	return b.replaced() || (b.State == Failed && b.ExitCode == nil)
}

func workloadBroken(o *Observation, now time.Time) *Plan {
	if o.Workload != Broken {
		return nil
	}
	lead := o.Brokers[0]
	switch {
	case lead.Unbindable && o.Started.IsZero():
		return o.giveUp("the lead's node did not take its pod", now)
	case lead.lost():
		return &Plan{Step: Finish, State: StateFailed, Outcome: OutcomeLeadLost, Message: "the lead's pod was lost"}
	}
	return &Plan{Step: Finish, State: StateFailed, Outcome: OutcomeWorkersFailed, Message: "pods of followers failed too often"}
}

// goneGrace is how much longer than it should a pod may take to go. One whose node has
// no power never does.
const goneGrace = time.Minute

func leadLost(o *Observation, now time.Time) *Plan {
	lead := o.Brokers[0]
	switch {
	case o.Started.IsZero():
		return nil
	case lead.lost() && o.Policy.Retries == 0:
	case lead.State == Gated && lead.NodeGone: // the next try has no node
	case !lead.overdueAt().IsZero() && !now.Before(lead.overdueAt()):
	default:
		return nil
	}
	return &Plan{
		Step: Finish, State: StateFailed, Outcome: OutcomeLeadLost,
		Message: "the lead's pod was lost while the command ran",
	}
}

// overdueAt is when the broker's pod counts as lost though it is still there; zero if
// it is not leaving.
func (b Broker) overdueAt() time.Time {
	if b.State != Leaving || b.GoneBy.IsZero() {
		return time.Time{}
	}
	return b.GoneBy.Add(goneGrace)
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
		return &Plan{Step: Wait, State: StateStarting, LookAgain: deadline, Message: message}
	case len(gated) > 0 && (placed > 0 || missing == 0):
		return &Plan{Step: Place, State: o.state(), Ranks: gated, Quorum: o.Admission.Quorum, Message: "places its pods"}
	}
	return nil
}

// placement sorts the brokers: the ranks that are to be placed, and how many have no
// pod, are placed, or wait for a node that is gone. Those that leave are none of them.
func (o *Observation) placement() (gated []int, missing, placed, stranded int) {
	for rank, broker := range o.Brokers {
		switch {
		case o.leaves(rank):
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

func unpublished(o *Observation, now time.Time) *Plan {
	leaving := o.leavingRanks()
	if !holdsNode(o.Brokers[0].State) {
		return nil
	}
	switch {
	case o.Published != o.Admission.Quorum:
		return &Plan{Step: Publish, State: o.state(), Quorum: o.Admission.Quorum, Ranks: leaving, Message: "tells the lead its quorum", LookAgain: now.Add(publishAgain)}
	case !slices.Equal(o.PublishedDrain, leaving):
		return &Plan{Step: Publish, State: o.state(), Quorum: o.Admission.Quorum, Ranks: leaving, Message: "tells the lead which ranks leave", LookAgain: now.Add(publishAgain)}
	}
	return nil
}

func overtime(o *Observation, now time.Time) *Plan {
	if o.Started.IsZero() || o.Policy.Deadline == 0 || now.Before(o.Started.Add(o.Policy.Deadline)) {
		return nil
	}
	return &Plan{
		Step: Finish, State: StateFailed, Outcome: OutcomeDeadlineExceeded,
		Message: fmt.Sprintf("the command ran longer than %s", o.Policy.Deadline),
	}
}

func running(o *Observation, now time.Time) *Plan {
	if o.Started.IsZero() {
		return nil
	}
	plan := &Plan{Step: Wait, State: StateRunning, Message: o.progress()}
	if o.Policy.Deadline > 0 {
		plan.LookAgain = o.Started.Add(o.Policy.Deadline)
	}
	plan.LookAgain = Earliest(plan.LookAgain, o.Brokers[0].overdueAt(), o.drainDeadline(), o.nextUnbindable(now))
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

func quorumReached(o *Observation, _ time.Time) *Plan {
	if o.up() < o.Admission.Quorum || o.Brokers[0].State != Up {
		return nil
	}
	return &Plan{Step: Start, State: StateRunning, Message: o.progress()}
}

func quorumTimedOut(o *Observation, now time.Time) *Plan {
	size := o.Policy.Sizing.LargestWithin(o.up())
	if now.Before(o.Admission.At.Add(o.Policy.QuorumTimeout)) || size == 0 || o.Brokers[0].State != Up {
		return nil
	}
	return &Plan{
		Step: LowerQuorum, State: StateStarting, Quorum: size,
		Message: fmt.Sprintf("starts with %d brokers: %d of %d came up within %s", size, o.up(), o.members(), o.Policy.QuorumTimeout),
	}
}

func startTimedOut(o *Observation, now time.Time) *Plan {
	if now.Before(o.Admission.At.Add(o.Policy.StartTimeout)) {
		return nil
	}
	return o.giveUp(fmt.Sprintf("%d of %d brokers came up within %s, too few to start", o.up(), o.members(), o.Policy.StartTimeout), now)
}

// giveUp ends an attempt that did not start, or all of them if it was the last.
func (o *Observation) giveUp(message string, now time.Time) *Plan {
	if o.GivenUp >= o.Policy.RecreateLimit {
		return &Plan{
			Step: Finish, State: StateFailed, Outcome: OutcomeStartLimit,
			Message: fmt.Sprintf("%s, in attempt %d of %d", message, o.GivenUp+1, o.Policy.RecreateLimit+1),
		}
	}
	return &Plan{Step: GiveUp, State: StateReleasing, Message: message, NotBefore: now.Add(o.pause())}
}

func waitingForBrokers(o *Observation, now time.Time) *Plan {
	plan := &Plan{Step: Wait, State: StateStarting, Message: o.progress(), LookAgain: o.Admission.At.Add(o.Policy.StartTimeout)}
	if quorum := o.Admission.At.Add(o.Policy.QuorumTimeout); now.Before(quorum) {
		plan.LookAgain = quorum
	}
	plan.LookAgain = Earliest(plan.LookAgain, o.drainDeadline(), o.nextUnbindable(now))
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

// state is that of a MiniCluster that has nodes.
func (o *Observation) state() State {
	if o.Started.IsZero() {
		return StateStarting
	}
	return StateRunning
}

func (o *Observation) progress() string {
	return fmt.Sprintf("%d of %d brokers up", o.up(), o.members())
}

// up is the number of brokers that are up, and may stay.
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
