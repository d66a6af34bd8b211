// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import (
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
	// Up: the broker is online. That is so once the pod of a follower is ready, and the
	// lead's runs.
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
	// EndedAt is when the containers of a pod that failed ended; zero if that is not known.
	EndedAt time.Time
	// Evicted is why the kubelet evicted the pod; "" if it did not.
	Evicted string
	// Ready is what the pod says: a follower's broker is online and may get work, the
	// lead runs the command.
	Ready bool
	// ReadySince is since when; zero if it is not, or that is not known.
	ReadySince time.Time
	// Idle: the pod runs and was ready, and is so no more. A rank that is asked to leave
	// has no work left then.
	Idle bool
	// Trouble is what keeps the pod's containers from starting, and TroubleSince since when
	// that is known; "" if nothing does.
	Trouble      string
	TroubleSince time.Time
	// Moved: the rank got another node than at first.
	Moved bool
	// GoneBy is when a pod that is leaving should be gone; zero if nobody said.
	GoneBy time.Time
	// DeletedAt is when that was asked for.
	DeletedAt time.Time
	// NodeGone is true where the node that was chosen for the rank is no more.
	NodeGone bool
	// NodeDown is true where the node is there, and not ready.
	NodeDown bool
	// Since is since when the broker's container runs; zero if it does not.
	Since time.Time
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
	// Loss are brokers that were lost while the command ran; nil if none were, or if
	// that does not matter.
	Loss *Loss
}

// Loss are brokers that were lost, and when that was seen.
type Loss struct {
	Ranks []int
	At    time.Time
}

// Draining are ranks that are asked to leave.
type Draining struct {
	// Ranks are rising, and never the lead.
	Ranks []int
	// Deadline is when they leave at the latest. Zero: they leave if the command begins
	// without them, and else stay.
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

// LossPolicy says what becomes of one that loses a broker while its command runs.
type LossPolicy string

// Policies for losses.
const (
	LossFail     LossPolicy = "Fail"
	LossContinue LossPolicy = "Continue"
	LossRecreate LossPolicy = "Recreate"
)

// Policy is what the user said about the life of a MiniCluster.
type Policy struct {
	Sizing                      Sizing
	QuorumTimeout, StartTimeout time.Duration
	// Max is the number of brokers up to which it may grow.
	Max int
	// Want is the size that is wanted of it now, where that was changed since its
	// admission; else 0.
	Want int
	// BearsChange: its command goes on when ranks join and leave.
	BearsChange bool
	// Deadline is how long the command may run; 0 without end.
	Deadline time.Duration
	// RecreateLimit is how often one that did not start is tried again.
	RecreateLimit           int
	BackoffBase, BackoffMax time.Duration
	// Shrink: the next attempt is smaller than the one that did not start.
	Shrink bool
	OnLoss LossPolicy
	// Retries is how often a lead that failed is started again.
	Retries int
	Suspend bool
	// TTL is how long the MiniCluster stays once it is done; nil: for ever.
	TTL *time.Duration
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
	// ToldLost are the ranks that the lead's broker says it had lost when the command failed.
	ToldLost []int
	// Stopped: the lead's pod was told to end the command.
	Stopped bool
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
	// LowerQuorum lets the command start with fewer brokers than were placed. The others are
	// asked to leave.
	LowerQuorum Step = "LowerQuorum"
	// Start records that the quorum is reached and the command runs.
	Start Step = "Start"
	// Lose records that brokers were lost while the command ran.
	Lose Step = "Lose"
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
	// Keep lets ranks stay that were asked to leave: the command began with them.
	Keep Step = "Keep"
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
	// Stop tells the lead to end the command.
	Stop Step = "Stop"
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
	OutcomeBrokersLost      Outcome = "BrokersLost"
	OutcomeDeadlineExceeded Outcome = "DeadlineExceeded"
	OutcomeStartLimit       Outcome = "StartLimitExceeded"
)

// Plan is the decision about one MiniCluster.
type Plan struct {
	Step  Step
	State State
	// Message says why, for people.
	Message string
	// Reason is the word for why all is given back (the order's), or the command is
	// stopped.
	Reason string
	// Ranks are those to place, to drain, to vacate, to evict, or to publish as leaving,
	// those that were lost, or those that stay.
	Ranks []int
	// Avoid are nodes on which brokers did not start, for Move, Vacate, LowerQuorum and
	// GiveUp; one that had several may be there as often.
	Avoid []string
	// Size is the largest that the next attempt may have, for GiveUp; 0: any.
	Size int
	// Pods are the ranks that get nodes, rising.
	Pods []Pod
	// Deadline is when ranks that are asked to leave have to be gone; zero as in Draining.
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
	brokersLost,    // a command may not bear to lose brokers
	unpublished,    // the lead has to know its quorum, and who leaves
	commandBegan,   // the command runs: the lead says so
	evicting,       // pods leave nodes that are not theirs any more
	vacating,       // whoever was asked to leave has left, or has to
	draining,       // others need a part of what it has
	shrinking,      // or fewer brokers are wanted of it
	moving,         // pods that cannot start where they are get other nodes
	growing,        // there is more for it
	unrepaired,     // or there are none: it does not stay half placed
	hopeless,       // nobody waits for brokers that will not come
	unplaced,       // pods are placed together
	running,        // the command runs until it ends
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
