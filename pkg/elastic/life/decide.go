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
	// Message says why, for people.
	Message string
	// LookAgain is when time alone may change the plan; zero if never.
	LookAgain time.Time
}

// Step is what to do next, with the fields that carrying it out takes. At most one thing
// is done at a time; what it leads to is observed before the next.
type Step interface{ step() }

// Decision is a step that is written down, and does nothing else.
type Decision interface {
	Step
	// apply writes the decision into a record that is not shared.
	apply(r *Record, why string, now time.Time)
}

// Properties are what is known of a step beside what it does.
type Properties struct {
	Step Step
	// Event is the reason of the event that tells of a decision, and Warning whether that
	// event is a warning. Other steps have none.
	Event   string
	Warning bool
}

// Steps are all that Decide may return, decisions first.
var Steps = []Properties{
	{Admit{}, "Admitted", false},
	{Start{}, "Started", false},
	{LowerQuorum{}, "QuorumLowered", true},
	{Lose{}, string(OutcomeBrokersLost), true},
	{GiveUp{}, "GaveUp", true},
	{Withdraw{}, "Released", false},
	{Step: Finish{}},               // the outcome
	{Step: Evict{}, Warning: true}, // the reason of the order
	{Drain{}, "Draining", false},
	{Vacate{}, "Vacated", false},
	{Keep{}, "Kept", false},
	{Grow{}, "Grew", false},
	{Move{}, "Moved", false},
	{Step: Wait{}}, {Step: Make{}}, {Step: Place{}}, {Step: Publish{}}, {Step: ReleaseServices{}}, {Step: Stop{}},
	{Step: EvictPods{}}, {Step: Release{}}, {Step: Tidy{}}, {Step: Remove{}},
}

// PropertiesOf are those of a step.
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

// Name is the word for a step in events, metrics and logs: the name of its type.
func Name(step Step) string { return reflect.TypeOf(step).Name() }

// Apply returns the record with the plan's decision written in it. A step that decides
// nothing changes nothing.
func (p Plan) Apply(r Record, now time.Time) Record {
	if decision, ok := p.Step.(Decision); ok {
		r = r.clone()
		decision.apply(&r, p.Message, now)
	}
	return r
}

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
	brokersLost,    // a rigid command ends when it loses brokers
	unpublished,    // the lead has to know its quorum, and who leaves
	commandBegan,   // the command runs: the lead says so
	misplaced,      // pods leave nodes that are not theirs any more
	vacating,       // whoever was asked to leave has left, or has to
	drained,        // others need a part of what it has
	shrinking,      // or fewer brokers are wanted of it
	moved,          // pods that cannot start where they are get other nodes
	growing,        // there is more for it
	unrepaired,     // or there are none: it does not stay half placed
	goingWithout,   // nobody waits for brokers that will not come
	unplaced,       // pods are placed together
	serving,        // the services pod comes after the brokers
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
