// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// policy4 is that of a MiniCluster that wants 4 brokers and starts with 2.
var policy4 = Policy{
	Sizing:        Sizing{Min: 2, Size: 4, Operator: Add, Operand: 1, Tasks: Tasks{AtSize: 8}},
	QuorumTimeout: time.Minute, StartTimeout: 5 * time.Minute,
	Deadline:      time.Hour,
	RecreateLimit: 2, BackoffBase: 30 * time.Second, BackoffMax: 90 * time.Second,
}

// brokers are states, one letter each: - missing, g gated, c coming, u up,
// l leaving, s succeeded, f failed.
func brokers(states string) []Broker {
	letters := "-gculsf"
	var out []Broker
	for _, letter := range states {
		b := Broker{State: BrokerState(slices.Index([]byte(letters), byte(letter)))}
		if b.State == Failed {
			code := 3
			b.ExitCode = &code
		}
		out = append(out, b)
	}
	return out
}

// admitted is the observation of a MiniCluster that got 4 nodes at noon.
func admitted(states string, change func(*Observation)) *Observation {
	o := &Observation{
		Policy:    policy4,
		Admission: &Admission{Attempt: 1, Size: 4, Quorum: 4, At: noon},
		Workload:  Active,
		Brokers:   brokers(states),
		Published: 4,
	}
	for _, b := range o.Brokers {
		if holdsNode(b.State) {
			o.Occupied++
		}
	}
	if change != nil {
		change(o)
	}
	return o
}

func waiting(change func(*Observation)) *Observation {
	o := &Observation{Policy: policy4}
	change(o)
	return o
}

func TestDecide(t *testing.T) {
	started := func(o *Observation) { o.Started = noon.Add(time.Second) }
	cases := map[string]struct {
		o     *Observation
		after time.Duration // noon
		want  Plan          // the message is compared where it is given
	}{
		"without an offer it waits in the queue": {
			o:    waiting(func(o *Observation) { o.Verdict, o.Why = NoRoom, "3 free" }),
			want: Plan{Step: Wait, State: StateQueued, Message: "3 free"},
		},
		"an offer is taken": {
			o:    waiting(func(o *Observation) { o.Offer = []string{"a", "b", "c"} }),
			want: Plan{Step: Admit, State: StateStarting, Quorum: 3},
		},
		"one of the next makes its pods while it waits": {
			o:    waiting(func(o *Observation) { o.Soon, o.Why = true, "3 free" }),
			want: Plan{Step: Make, State: StateQueued, Message: "3 free"},
		},
		"once": {
			o:    waiting(func(o *Observation) { o.Soon, o.Workload, o.Why = true, Ahead, "3 free" }),
			want: Plan{Step: Wait, State: StateQueued, Message: "3 free"},
		},
		"and takes an offer with them": {
			o:    waiting(func(o *Observation) { o.Soon, o.Workload, o.Offer = true, Ahead, []string{"a", "b", "c"} }),
			want: Plan{Step: Admit, State: StateStarting, Quorum: 3},
		},
		"one that may not start now has none": {
			o:    waiting(func(o *Observation) { o.Workload, o.Verdict, o.Why = Ahead, NotAllowed, "its queue is suspended" }),
			want: Plan{Step: Release, State: StateQueued, Message: "its queue is suspended"},
		},
		"what was admitted for another spec is given back before it is made": {
			o:    admitted("----", func(o *Observation) { o.Workload, o.Outdated = Absent, true }),
			want: Plan{Step: Withdraw, State: StateReleasing},
		},
		"suspended it has none": {
			o:    waiting(func(o *Observation) { o.Policy.Suspend, o.Workload = true, Ahead }),
			want: Plan{Step: Release, State: StateSuspended},
		},
		"what cannot be carried out waits for a better spec": {
			o:    waiting(func(o *Observation) { o.Rejected, o.Offer = "no such thing", []string{"a"} }),
			want: Plan{Step: Wait, State: StateRejected, Message: "no such thing"},
		},
		"suspended it takes nothing": {
			o:    waiting(func(o *Observation) { o.Policy.Suspend, o.Offer = true, []string{"a", "b"} }),
			want: Plan{Step: Wait, State: StateSuspended},
		},
		"suspended it gives back what it has": {
			o:    admitted("uuuu", func(o *Observation) { o.Policy.Suspend = true }),
			want: Plan{Step: Withdraw, State: StateSuspended},
		},
		"suspended its attempts are forgotten": {
			o:    waiting(func(o *Observation) { o.Policy.Suspend, o.GivenUp = true, 2 }),
			want: Plan{Step: Withdraw, State: StateSuspended},
		},
		"suspended its pods go": {
			o:    waiting(func(o *Observation) { o.Policy.Suspend, o.Workload, o.Occupied = true, Stale, 4 }),
			want: Plan{Step: Release, State: StateSuspended},
		},
		"a workload of an earlier attempt goes before anything new": {
			o:    waiting(func(o *Observation) { o.Workload, o.Offer = Stale, []string{"a", "b"} }),
			want: Plan{Step: Release, State: StateReleasing},
		},
		"one that is going is waited for": {
			o:    waiting(func(o *Observation) { o.Workload, o.Offer = Deleting, []string{"a", "b"} }),
			want: Plan{Step: Wait, State: StateReleasing},
		},
		"so are pods that are left": {
			o:    waiting(func(o *Observation) { o.Leftover, o.Offer = 1, []string{"a", "b"} }),
			want: Plan{Step: Wait, State: StateReleasing},
		},
		"after giving up it pauses": {
			o:     waiting(func(o *Observation) { o.GivenUp, o.NotBefore = 1, noon.Add(time.Minute) }),
			after: 59 * time.Second,
			want:  Plan{Step: Wait, State: StateBackingOff, LookAgain: noon.Add(time.Minute), Message: "did not start in attempt 1 of 3"},
		},
		"and then waits in the queue again": {
			o:     waiting(func(o *Observation) { o.GivenUp, o.NotBefore = 1, noon.Add(time.Minute) }),
			after: time.Minute,
			want:  Plan{Step: Wait, State: StateQueued},
		},
		"admitted, its objects are made": {
			o:    admitted("----", func(o *Observation) { o.Workload = Absent }),
			want: Plan{Step: Make, State: StateStarting},
		},
		"not over the pods of another": {
			o:    admitted("----", func(o *Observation) { o.Workload, o.Leftover = Absent, 2 }),
			want: Plan{Step: Wait, State: StateReleasing},
		},
		"a name that is taken gives the nodes back": {
			o:    admitted("----", func(o *Observation) { o.Workload, o.Rejected = Absent, "taken" }),
			want: Plan{Step: Withdraw, State: StateRejected, Message: "taken"},
		},
		"no pod is placed before all are there": {
			o:    admitted("gg-g", nil),
			want: Plan{Step: Wait, State: StateStarting, LookAgain: noon.Add(5 * time.Minute), Message: "3 of 4 pods made"},
		},
		"then all are placed at once": {
			o:    admitted("gggg", func(o *Observation) { o.Published = 0 }),
			want: Plan{Step: Place, State: StateStarting, Ranks: []int{0, 1, 2, 3}, Quorum: 4},
		},
		"placing that was cut off goes on": {
			o:    admitted("ccgg", nil),
			want: Plan{Step: Place, State: StateStarting, Ranks: []int{2, 3}, Quorum: 4},
		},
		"placing that was cut off goes on though a pod is being replaced": {
			o:    admitted("c-gg", nil),
			want: Plan{Step: Place, State: StateStarting, Ranks: []int{2, 3}, Quorum: 4},
		},
		"a chosen node that is gone gives the others back": {
			o:    admitted("gggg", func(o *Observation) { o.Brokers[2].NodeGone = true }),
			want: Plan{Step: Withdraw, State: StateReleasing},
		},
		"a pod is not placed on a node that is gone": {
			o:    admitted("uugg", func(o *Observation) { o.Brokers[2].NodeGone = true }),
			want: Plan{Step: Place, State: StateStarting, Ranks: []int{3}, Quorum: 4},
		},
		"the lead is told its quorum": {
			o:    admitted("uuuu", func(o *Observation) { o.Published = 0 }),
			want: Plan{Step: Publish, State: StateStarting, Quorum: 4, LookAgain: noon.Add(time.Second)},
		},
		"brokers are waited for": {
			o:    admitted("uucc", nil),
			want: Plan{Step: Wait, State: StateStarting, LookAgain: noon.Add(time.Minute), Message: "2 of 4 brokers up"},
		},
		"with all of them it starts": {
			o:    admitted("uuuu", nil),
			want: Plan{Step: Start, State: StateRunning, Message: "4 of 4 brokers up"},
		},
		"after a while it starts with those that are up": {
			o: admitted("uucu", nil), after: time.Minute,
			want: Plan{Step: LowerQuorum, State: StateStarting, Quorum: 3, Message: "starts with 3 brokers: 3 of 4 came up within 1m0s"},
		},
		"the lowered quorum is published": {
			o: admitted("uucu", func(o *Observation) { o.Admission.Quorum = 3 }), after: time.Minute,
			want: Plan{Step: Publish, State: StateStarting, Quorum: 3, LookAgain: noon.Add(time.Minute + time.Second)},
		},
		"and reached": {
			o: admitted("uucu", func(o *Observation) { o.Admission.Quorum, o.Published = 3, 3 }), after: time.Minute,
			want: Plan{Step: Start, State: StateRunning},
		},
		"not without the lead": {
			o: admitted("cuuu", nil), after: time.Minute,
			want: Plan{Step: Wait, State: StateStarting, LookAgain: noon.Add(5 * time.Minute)},
		},
		"not below the minimum": {
			o: admitted("uccc", nil), after: time.Minute,
			want: Plan{Step: Wait, State: StateStarting, LookAgain: noon.Add(5 * time.Minute)},
		},
		"not at a size that is not allowed": {
			o: admitted("uuuc", func(o *Observation) { o.Policy.Sizing.Operand = 2 }), after: time.Minute,
			want: Plan{Step: LowerQuorum, State: StateStarting, Quorum: 2},
		},
		"too few for too long: it gives up": {
			o: admitted("uccc", nil), after: 5 * time.Minute,
			want: Plan{Step: GiveUp, State: StateReleasing, NotBefore: noon.Add(5*time.Minute + 30*time.Second),
				Message: "1 of 4 brokers came up within 5m0s, too few to start"},
		},
		"pods that are never made count too": {
			o: admitted("gg--", nil), after: 5 * time.Minute,
			want: Plan{Step: GiveUp, State: StateReleasing, NotBefore: noon.Add(5*time.Minute + 30*time.Second)},
		},
		"each pause is twice the last": {
			o: admitted("uccc", func(o *Observation) { o.GivenUp = 1 }), after: 5 * time.Minute,
			want: Plan{Step: GiveUp, State: StateReleasing, NotBefore: noon.Add(6 * time.Minute)},
		},
		"up to the longest, with jitter": {
			o: admitted("uccc", func(o *Observation) {
				o.GivenUp, o.Policy.RecreateLimit, o.Jitter = 7, 10, 1
			}), after: 5 * time.Minute,
			want: Plan{Step: GiveUp, State: StateReleasing, NotBefore: noon.Add(5*time.Minute + 99*time.Second)},
		},
		"after the last attempt it fails": {
			o: admitted("uccc", func(o *Observation) { o.GivenUp = 2 }), after: 5 * time.Minute,
			want: Plan{Step: Finish, State: StateFailed, Outcome: OutcomeStartLimit,
				Message: "1 of 4 brokers came up within 5m0s, too few to start, in attempt 3 of 3"},
		},
		"it runs until it ends": {
			o: admitted("uuuu", started), after: 30 * time.Minute,
			want: Plan{Step: Wait, State: StateRunning, LookAgain: noon.Add(time.Hour + time.Second), Message: "4 of 4 brokers up"},
		},
		"or its time is up": {
			o: admitted("uuuu", started), after: 61 * time.Minute,
			want: Plan{Step: Finish, State: StateFailed, Outcome: OutcomeDeadlineExceeded, Message: "the command ran longer than 1h0m0s"},
		},
		"without a deadline it has no end": {
			o:     admitted("uuuu", func(o *Observation) { started(o); o.Policy.Deadline = 0 }),
			after: 1000 * time.Hour, want: Plan{Step: Wait, State: StateRunning},
		},
		"a follower that is lost does not end it": {
			o:    admitted("uu-u", started),
			want: Plan{Step: Wait, State: StateRunning, LookAgain: noon.Add(time.Hour + time.Second), Message: "3 of 4 brokers up"},
		},
		"one that was replaced is placed again": {
			o:    admitted("uugu", started),
			want: Plan{Step: Place, State: StateRunning, Ranks: []int{2}, Quorum: 4},
		},
		"the lead's success is the end": {
			o:    admitted("suuu", started),
			want: Plan{Step: Finish, State: StateSucceeded, Outcome: OutcomeSucceeded, ExitCode: new(0)},
		},
		"even before the start was seen": {
			o:    admitted("sccc", nil),
			want: Plan{Step: Finish, State: StateSucceeded, Outcome: OutcomeSucceeded, ExitCode: new(0)},
		},
		"and though its pod is gone": {
			o:    admitted("-uuu", func(o *Observation) { started(o); o.Workload = Completed }),
			want: Plan{Step: Finish, State: StateSucceeded, Outcome: OutcomeSucceeded, ExitCode: new(0)},
		},
		"the lead's failure is the end": {
			o: admitted("fuuu", started),
			want: Plan{Step: Finish, State: StateFailed, Outcome: OutcomeCommandFailed, ExitCode: new(3),
				Message: "the command failed with exit code 3"},
		},
		"not while it may be tried again": {
			o:    admitted("fuuu", func(o *Observation) { started(o); o.Policy.Retries = 1 }),
			want: Plan{Step: Wait, State: StateRunning, LookAgain: noon.Add(time.Hour + time.Second)},
		},
		"a lead that is tried again is placed": {
			o:    admitted("guuu", func(o *Observation) { started(o); o.Policy.Retries = 1 }),
			want: Plan{Step: Place, State: StateRunning, Ranks: []int{0}, Quorum: 4},
		},
		"when it was tried often enough it is the end": {
			o: admitted("fuuu", func(o *Observation) { started(o); o.Policy.Retries, o.Workload = 1, Broken }),
			want: Plan{Step: Finish, State: StateFailed, Outcome: OutcomeCommandFailed, ExitCode: new(3),
				Message: "the command failed with exit code 3"},
		},
		"a lead that is lost under its command is the end": {
			o:    admitted("guuu", started),
			want: Plan{Step: Finish, State: StateFailed, Outcome: OutcomeLeadLost},
		},
		"so is one that the cluster ended": {
			o:    admitted("fuuu", func(o *Observation) { started(o); o.Brokers[0].ExitCode = nil }),
			want: Plan{Step: Finish, State: StateFailed, Outcome: OutcomeLeadLost},
		},
		"not before its command: it is made again": {
			o:    admitted("fuuu", func(o *Observation) { o.Brokers[0].ExitCode = nil }),
			want: Plan{Step: Wait, State: StateStarting, LookAgain: noon.Add(time.Minute)},
		},
		"one that leaves is waited for: it may tell its exit code": {
			o:    admitted("luuu", started),
			want: Plan{Step: Wait, State: StateRunning, LookAgain: noon.Add(time.Hour + time.Second)},
		},
		"not for ever: its node may have no power": {
			o:     admitted("luuu", func(o *Observation) { started(o); o.Brokers[0].GoneBy = noon.Add(30 * time.Second) }),
			after: time.Minute,
			want:  Plan{Step: Wait, State: StateRunning, LookAgain: noon.Add(90 * time.Second)},
		},
		"a minute longer than its grace period": {
			o:     admitted("luuu", func(o *Observation) { started(o); o.Brokers[0].GoneBy = noon.Add(30 * time.Second) }),
			after: 90 * time.Second,
			want:  Plan{Step: Finish, State: StateFailed, Outcome: OutcomeLeadLost},
		},
		"a lead whose node is gone is not tried again": {
			o:    admitted("guuu", func(o *Observation) { started(o); o.Policy.Retries, o.Brokers[0].NodeGone = 1, true }),
			want: Plan{Step: Finish, State: StateFailed, Outcome: OutcomeLeadLost},
		},
		"a lead that never came to its command says where it failed": {
			o: admitted("fccc", func(o *Observation) { o.Brokers[0].FailedIn = "the lead's init container view" }),
			want: Plan{Step: Finish, State: StateFailed, Outcome: OutcomeCommandFailed, ExitCode: new(3),
				Message: "the lead's init container view failed with exit code 3"},
		},
		"what has ended before it was suspended has ended": {
			o:    admitted("suuu", func(o *Observation) { started(o); o.Policy.Suspend = true }),
			want: Plan{Step: Finish, State: StateSucceeded, Outcome: OutcomeSucceeded, ExitCode: new(0)},
		},
		"the end of an earlier attempt is none": {
			o:    admitted("suuu", func(o *Observation) { o.Workload = Stale }),
			want: Plan{Step: Release, State: StateReleasing},
		},
		"what cannot be made is given up too": {
			o: admitted("----", func(o *Observation) { o.Workload = Absent }), after: 5 * time.Minute,
			want: Plan{Step: GiveUp, State: StateReleasing, NotBefore: noon.Add(5*time.Minute + 30*time.Second)},
		},
		"under a command that ran, it is made again": {
			o:     admitted("----", func(o *Observation) { started(o); o.Workload, o.Policy.Retries = Absent, 1 }),
			after: 30 * time.Minute, want: Plan{Step: Make, State: StateStarting},
		},
		"so is what cannot be placed": {
			o: admitted("gggg", nil), after: 5 * time.Minute,
			want: Plan{Step: GiveUp, State: StateReleasing, NotBefore: noon.Add(5*time.Minute + 30*time.Second)},
		},
		"but not while enough are up": {
			o: admitted("uugg", nil), after: 5 * time.Minute,
			want: Plan{Step: LowerQuorum, State: StateStarting, Quorum: 2},
		},
		"its time is up though a pod cannot be placed": {
			o: admitted("uugu", started), after: 61 * time.Minute,
			want: Plan{Step: Finish, State: StateFailed, Outcome: OutcomeDeadlineExceeded},
		},
		"a lead that failed and stays is waited for without hurry": {
			o: admitted("fuuu", func(o *Observation) { started(o); o.Policy.Retries, o.Brokers[0].GoneBy = 1, noon.Add(time.Second) }), after: 10 * time.Minute,
			want: Plan{Step: Wait, State: StateRunning, LookAgain: noon.Add(time.Hour + time.Second)},
		},
		"one that is lost before its command is placed again": {
			o:    admitted("gcuu", nil),
			want: Plan{Step: Place, State: StateStarting, Ranks: []int{0}, Quorum: 4},
		},
		"followers that fail too often are the end": {
			o:    admitted("uuff", func(o *Observation) { started(o); o.Workload = Broken }),
			want: Plan{Step: Finish, State: StateFailed, Outcome: OutcomeWorkersFailed},
		},
		"so is a workload that somebody removed under the command": {
			o:    admitted("----", func(o *Observation) { started(o); o.Workload = Absent }),
			want: Plan{Step: Finish, State: StateFailed, Outcome: OutcomeLeadLost},
		},
		"at the end its own policies end the rest": {
			o:    admitted("suuu", func(o *Observation) { o.Outcome, o.Workload = OutcomeSucceeded, Active }),
			want: Plan{Step: Wait, State: StateSucceeded},
		},
		"unless they do not know of the end": {
			o:    admitted("uuuu", func(o *Observation) { o.Outcome = OutcomeDeadlineExceeded }),
			want: Plan{Step: Release, State: StateFailed},
		},
		"or have begun anew with the lead": {
			o:    admitted("guuu", func(o *Observation) { o.Outcome = OutcomeCommandFailed }),
			want: Plan{Step: Release, State: StateFailed},
		},
		"pods of followers that have ended are removed": {
			o: admitted("sss-", func(o *Observation) {
				o.Outcome, o.Workload, o.Done, o.Ended = OutcomeSucceeded, Completed, 2, noon
			}), after: tidyDelay,
			want: Plan{Step: Tidy, State: StateSucceeded},
		},
		"after a while": {
			o: admitted("sss-", func(o *Observation) {
				o.Outcome, o.Workload, o.Done, o.Ended = OutcomeSucceeded, Completed, 2, noon.Add(time.Second)
			}), after: tidyDelay,
			want: Plan{Step: Wait, State: StateSucceeded, LookAgain: noon.Add(time.Second + tidyDelay)},
		},
		"not before the workload is done: it would make them again": {
			o:    admitted("sss-", func(o *Observation) { o.Outcome, o.Workload, o.Done = OutcomeSucceeded, Active, 2 }),
			want: Plan{Step: Wait, State: StateSucceeded},
		},
		"cleanup waits until no pod holds a node": {
			o: admitted("sul-", func(o *Observation) {
				o.Outcome, o.Workload, o.Policy.Cleanup = OutcomeSucceeded, Completed, true
			}),
			want: Plan{Step: Wait, State: StateSucceeded},
		},
		"and then removes it": {
			o: admitted("s---", func(o *Observation) {
				o.Outcome, o.Workload, o.Policy.Cleanup = OutcomeCommandFailed, Broken, true
			}),
			want: Plan{Step: Remove, State: StateFailed},
		},
		"what has ended is not suspended": {
			o: admitted("s---", func(o *Observation) {
				o.Outcome, o.Workload, o.Policy.Suspend = OutcomeSucceeded, Completed, true
			}),
			want: Plan{Step: Wait, State: StateSucceeded},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Decide(tc.o, noon.Add(tc.after))
			if tc.want.Message == "" {
				got.Message = ""
			}
			if a, b := show(got), show(tc.want); a != b {
				t.Errorf("\ngot  %s\nwant %s", a, b)
			}
		})
	}
}

func show(p Plan) string {
	code := "none"
	if p.ExitCode != nil {
		code = fmt.Sprint(*p.ExitCode)
	}
	clock := func(t time.Time) string {
		if t.IsZero() {
			return "-"
		}
		return t.Format(time.TimeOnly)
	}
	return fmt.Sprintf("%s, %s, %q, ranks %v, quorum %d, not before %s, outcome %q, exit code %s, look again %s",
		p.Step, p.State, p.Message, p.Ranks, p.Quorum, clock(p.NotBefore), p.Outcome, code, clock(p.LookAgain))
}
