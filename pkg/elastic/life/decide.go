// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"reflect"
	"slices"
	"time"
)

// Plan is the decision about one MiniCluster.
type Plan struct {
	Step  Step
	State State
	// Message says why, for users.
	Message string
	// LookAgain is when time alone may change the plan; zero if it never does.
	LookAgain time.Time
}

// Step is the next action, with the fields that it needs. One step is carried out at a time, and
// its effect is observed before the next decision.
type Step interface{ step() }

// Decision is a step that is recorded in the status and changes nothing else.
type Decision interface {
	Step
	// apply writes the decision into a record that nothing else shares.
	apply(r *Record, why string, now time.Time)
}

// Properties are what the rest of the program knows about a step.
type Properties struct {
	Step Step
	// Event is the reason of the event that reports a decision; "" for steps without an event, and for Appoint, which
	// changes nothing that users see.
	// Warning is true if the event is a warning.
	Event   string
	Warning bool
}

// Steps are all steps that Decide may return, decisions first.
var Steps = []Properties{
	{Admit{}, "Admitted", false},
	{Step: Appoint{}},
	{Start{}, "Started", false},
	{LowerQuorum{}, "QuorumLowered", true},
	{Lose{}, string(OutcomeBrokersLost), true},
	{GiveUp{}, "GaveUp", true},
	{Retry{}, "Retrying", true},
	{Withdraw{}, "Released", false},
	{Step: Finish{}}, // the outcome
	{Warn{}, "Warned", true},
	{Step: Evict{}, Warning: true}, // the reason of the order
	{Restart{}, "Restarting", false},
	{Restarted{}, "Restarted", false},
	{Checkpointed{}, "Checkpointed", false},
	{Drain{}, "Draining", false},
	{Vacate{}, "Vacated", false},
	{Keep{}, "Kept", false},
	{Prolong{}, "Prolonged", false},
	{Grow{}, "Grew", false},
	{Move{}, "Moved", false},
	{Step: Wait{}}, {Step: Make{}}, {Step: Place{}}, {Step: Publish{}}, {Step: ReleaseServices{}}, {Step: Stop{}}, {Step: EndLead{}},
	{Step: EvictPods{}}, {Step: Release{}}, {Step: Abandon{}}, {Step: Tidy{}}, {Step: Remove{}},
}

// PropertiesOf returns the properties of a step.
func PropertiesOf(step Step) Properties {
	i := slices.IndexFunc(Steps, func(p Properties) bool { return Name(p.Step) == Name(step) })
	p := Steps[i]
	switch s := step.(type) {
	case Finish:
		p.Event, p.Warning = string(s.Outcome), s.Outcome != OutcomeSucceeded
	case Evict:
		p.Event = s.Reason
	}
	return p
}

// Wait does nothing.
type Wait struct{}

func (Wait) step() {}

// Name is the name of a step in events, metrics and logs: the name of its type.
func Name(step Step) string { return reflect.TypeOf(step).Name() }

// Apply returns the record after the plan's decision. A plan whose step is no decision returns
// the record unchanged.
func (p Plan) Apply(r Record, now time.Time) Record {
	if decision, ok := p.Step.(Decision); ok {
		r = r.clone()
		decision.apply(&r, p.Message, now)
	}
	return r
}

// EndsUnseen reports whether the plan ends an attempt for another reason than the end of its lead.
func (p Plan) EndsUnseen() bool {
	switch step := p.Step.(type) {
	case GiveUp, Retry, Withdraw, Evict:
		return true
	case Finish:
		return step.ExitCode == nil
	}
	return false
}

// State is where in its life a MiniCluster is, as users see it.
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

// rule returns a plan, or nil if the rule does not apply.
type rule func(o *Observation, now time.Time) *Plan

// rules are asked in this order; the first that applies decides.
var rules = []rule{
	afterTheEnd,    // what has ended is only cleaned up
	commandBegan,   // the lead reports that the command runs, or has run
	warned,         // a command that has to make room ends first
	leadEnded,      // the lead's end is the end, whatever else happened
	suspended,      // the user wants the MiniCluster to hold nothing
	orphaned,       // a command ends with its JobSet
	releasing,      // pods of an earlier attempt go before a new attempt begins
	rejected,       // a spec that cannot be carried out waits for a change
	queued,         // without an admission the MiniCluster waits for nodes
	secondLead,     // an attempt has one lead, and ends with its Job
	workloadBroken, // the end of the JobSet is the end
	leadLost,       // so is the loss of the lead once the command ran
	overtime,       // so is the time limit
	evicted,        // another gang needs all the nodes
	unmade,         // the objects are made first, in time
	unadmitted,     // no pod is placed without quota
	brokersLost,    // a command that loses brokers ends, or is run again
	prolonged,      // what the lead was not told in time gets its time once more
	overdue,        // drained ranks leave in time, whatever else is to be done
	restartFailed,  // so does a command that does not run again
	left,           // and the pods of ranks that a running command goes on without
	checkpointSeen, // the lead reports that the command has written a checkpoint
	drained,        // another gang needs some of the nodes
	startTimedOut,  // too few brokers for too long: give up
	unpublished,    // the lead has to know its quorum and the drained ranks
	restartDone,    // the lead reports that the command runs again
	misplaced,      // pods leave nodes that their ranks gave back, once the lead knows its quorum
	vacating,       // drained ranks have left
	shrinking,      // the user wants fewer brokers
	moved,          // ranks whose pods cannot start get other nodes
	growing,        // there are nodes for more ranks
	joined,         // the command is run again with brokers that joined
	unrepaired,     // a gang does not stay half placed for long
	goingWithout,   // nobody waits for brokers that cannot start
	unplaced,       // all pods are placed together
	quorumTimedOut, // too few brokers are up: enough for a smaller start?
	serving,        // the services pod is placed after the brokers
	running,        // the command runs until it ends
}

// Decide returns the next step for a MiniCluster. The same observation and time always give the
// same plan.
func Decide(o *Observation, now time.Time) Plan {
	plan := *decide(o, now)
	if o.wouldEnd(plan) && o.inDoubt(now) {
		return *o.begin(now) // an attempt whose command may have begun ends as one whose command has begun
	}
	return plan
}

func decide(o *Observation, now time.Time) *Plan {
	for _, rule := range rules {
		if plan := rule(o, now); plan != nil {
			return plan
		}
	}
	return waitingForBrokers(o, now)
}
