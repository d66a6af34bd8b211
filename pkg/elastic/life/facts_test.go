// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"slices"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// What the lead leaves behind decides whether the command began, and not what the manager happened to see: it was away
// in all of these cases.
func TestWhatTheLeadLeaves(t *testing.T) {
	at := noon.Add(30 * time.Second)
	lead := func(change func(*Broker)) func(*Observation) {
		return func(o *Observation) { change(&o.Brokers[0]) }
	}
	nextAttempt := GiveUp{NotBefore: at.Add(30 * time.Second)}
	for name, tc := range map[string]struct {
		o    *Observation
		want Step
	}{
		"it runs, on a node that is dead": {admitted("uuuu", lead(func(b *Broker) { b.Started, b.NodeDown = true, true })), Start{Quorum: 4}},
		"it runs, and is being deleted":   {admitted("luuu", lead(func(b *Broker) { b.Started = true })), Start{Quorum: 4}},
		"it has failed, and says that it had begun": {
			admitted("fuuu", func(o *Observation) { o.ToldBegan = true }), Start{Quorum: 4},
		},
		"it ran on a node that is dead, and is being deleted": {
			admitted("luuu", func(o *Observation) {
				o.Brokers[0].Since, o.Brokers[0].NodeDown, o.Policy.StartTimeout = noon, true, time.Second
			}), Start{Quorum: 4},
		},
		"nobody saw its end": {
			admitted("fuuu", func(o *Observation) {
				o.Workload, o.Brokers[0].ExitCode, o.Brokers[0].EndUnknown = Broken, nil, true
			}), Start{Quorum: 4},
		},
		"it is gone, and the others were there": {
			admitted("-uuu", func(o *Observation) { o.Workload = Broken }), Start{Quorum: 4},
		},
		"so are the others": {admitted("----", func(o *Observation) { o.Workload = Broken }), Start{Quorum: 4}},
		"it is gone, and could not have begun": {
			admitted("-ggg", func(o *Observation) { o.Workload = Broken }), GiveUp{NotBefore: nextAttempt.NotBefore},
		},
		"its end says that it had not begun": {
			admitted("fuuu", func(o *Observation) { o.Workload, o.Brokers[0].ExitCode = Broken, nil }), nextAttempt,
		},
		"it was deleted before": {
			admitted("fuuu", func(o *Observation) {
				o.Workload, o.Brokers[0].ExitCode, o.Brokers[0].DeletedAt = Broken, nil, noon
			}), nextAttempt,
		},
		"and may not try again: there is no exit code": {
			admitted("fuuu", func(o *Observation) {
				o.Workload, o.Brokers[0].ExitCode, o.Brokers[0].DeletedAt, o.GivenUp = Broken, nil, noon, 2
			}), Finish{Outcome: OutcomeStartLimit},
		},
		"it was deleted while the command ran": {
			admitted("fuuu", func(o *Observation) { o.Started, o.Brokers[0].ExitCode, o.Brokers[0].DeletedAt = noon, nil, noon }),
			Finish{Outcome: OutcomeLeadLost},
		},
		"it was deleted after its JobSet": {
			admitted("fuuu", func(o *Observation) {
				o.Workload, o.Bereft, o.Brokers[0].ExitCode, o.Brokers[0].DeletedAt = Orphaned, 4, nil, noon
			}), Withdraw{},
		},
		"it was deleted after its JobSet, while the command ran": {
			admitted("fuuu", func(o *Observation) {
				o.Workload, o.Bereft, o.Started, o.Brokers[0].ExitCode, o.Brokers[0].DeletedAt = Orphaned, 4, noon, nil, noon
			}), Finish{Outcome: OutcomeLeadLost},
		},
		"it runs, and its JobSet is being deleted": {
			admitted("luuu", func(o *Observation) { o.Workload, o.Brokers[0].Started = Deleting, true }), Start{Quorum: 4},
		},
		"it has succeeded, and its JobSet is being deleted": {
			admitted("suuu", func(o *Observation) { o.Workload = Deleting }), Start{Quorum: 4},
		},
		"it has succeeded, as was recorded, and its JobSet is being deleted": {
			admitted("suuu", func(o *Observation) { o.Workload, o.Started = Deleting, noon }), Finish{Outcome: OutcomeSucceeded, ExitCode: new(0)},
		},
		"it was killed with its JobSet": {
			admitted("fuuu", func(o *Observation) { o.Workload, o.Started, o.Brokers[0].ExitCode = Deleting, noon, new(143) }), Finish{Outcome: OutcomeLeadLost},
		},
		"it runs, as was recorded, and its JobSet is being deleted": {
			admitted("luuu", func(o *Observation) { o.Workload, o.Started = Deleting, noon }), Finish{Outcome: OutcomeLeadLost},
		},
		"its JobSet is being deleted, and it had not begun": {
			admitted("guuu", func(o *Observation) { o.Workload = Deleting }), Withdraw{},
		},
		"its Job was made again": {
			admitted("luuu", func(o *Observation) { o.SecondLead = true }), nextAttempt,
		},
		"its Job was made again while the command ran": {
			admitted("luuu", func(o *Observation) { o.SecondLead, o.Started = true, noon }), Finish{Outcome: OutcomeLeadLost},
		},
		"it is gone, as JobSet does not know yet": {admitted("guuu", func(o *Observation) { o.Brokers[0], o.LeadGone, o.Policy.StartTimeout = Broker{}, true, time.Second }), Start{Quorum: 4}},
		"its Job was made again, and it is gone": {
			admitted("guuu", func(o *Observation) { o.SecondLead, o.LeadGone, o.Brokers[0] = true, true, Broker{} }), Start{Quorum: 4},
		},
		"its Job was made again, it is gone, and could not have begun": {
			admitted("gggg", func(o *Observation) { o.SecondLead, o.LeadGone, o.Brokers[0] = true, true, Broker{} }), GiveUp{NotBefore: nextAttempt.NotBefore},
		},
		"it runs, and its JobSet is gone": {
			admitted("luuu", func(o *Observation) { o.Workload, o.Bereft, o.Brokers[0].Started = Absent, 4, true }), Start{Quorum: 4},
		},
		"all is gone": {
			admitted("----", func(o *Observation) { o.Workload, o.Admission.Lead, o.LeadGone = Absent, "first", true }), Start{Quorum: 4},
		},
		"all is gone, as was recorded": {
			admitted("----", func(o *Observation) { o.Workload, o.Started = Absent, noon }), Finish{Outcome: OutcomeLeadLost},
		},
		"all is gone, and no lead was to be placed": {
			admitted("----", func(o *Observation) { o.Workload = Absent }), Make{},
		},
		"it was ended from outside before, and a container beside it runs": {
			admitted("fuuu", func(o *Observation) { o.Brokers[0].ExitCode, o.Brokers[0].Lingers = nil, true }), nextAttempt,
		},
		"its node could not start it": {
			admitted("fuuu", func(o *Observation) {
				o.Workload, o.Brokers[0].ExitCode, o.Brokers[0].NotStarted = Broken, nil, "StartError: no bash"
			}), GiveUp{NotBefore: nextAttempt.NotBefore, Avoid: []string{"n0"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, Plan{Step: tc.want}, Decide(tc.o, at))
		})
	}
}

// A manager that comes back after the lead has started alone gives back the nodes of ranks that had no part, and keeps
// those of ranks that had.
func TestBeginAfterAbsence(t *testing.T) {
	at := noon.Add(3 * time.Minute)
	for name, tc := range map[string]struct {
		states string
		change func(*Observation)
		want   Start
	}{
		"one never ran":                               {"ruuc", nil, Start{Quorum: 3, Vacated: []int{3}}},
		"one had part, and failed":                    {"ruuf", func(o *Observation) { o.Brokers[3].EndedAt = at }, Start{Quorum: 4}},
		"one had part, and its pod is being replaced": {"ruu-", func(o *Observation) { o.Brokers[3].EndedAt = at }, Start{Quorum: 4}},
		"one failed before":                           {"ruuf", nil, Start{Quorum: 3, Vacated: []int{3}}},
		"one came up later":                           {"ruuu", func(o *Observation) { o.Brokers[3].Since = noon.Add(150 * time.Second) }, Start{Quorum: 3, Leaving: []int{3}}},
		"one came up later, and is used": {"ruuu", func(o *Observation) {
			o.Policy.Malleable, o.Brokers[3].Since = true, noon.Add(150*time.Second)
		}, Start{Quorum: 4}},
		"one came up just then":                                         {"ruuu", func(o *Observation) { o.Brokers[3].Since = noon.Add(121 * time.Second) }, Start{Quorum: 4}},
		"the pod of one was replaced":                                   {"ruug", func(o *Observation) { o.Brokers[3].Replaces = true }, Start{Quorum: 4}},
		"the lead has drained one, and began":                           {"ruui", nil, Start{Quorum: 3, Vacated: []int{3}}},
		"the command has ended, without one":                            {"fuuc", func(o *Observation) { o.ToldBegan = true }, Start{Quorum: 3, Vacated: []int{3}}},
		"the command and one have ended":                                {"fuu-", func(o *Observation) { o.ToldBegan = true }, Start{Quorum: 4}},
		"one was drained, or lost with its node; the command has ended": {"fuui", func(o *Observation) { o.ToldBegan = true }, Start{Quorum: 4}},
		"three are no allowed size": {"ruuc", func(o *Observation) {
			o.Policy.Sizing.Operator, o.Policy.Sizing.Operand = elastic.Multiply, 2
		}, Start{Quorum: 2, Vacated: []int{3}, Leaving: []int{2}}},
	} {
		t.Run(name, func(t *testing.T) {
			o := admitted(tc.states, func(o *Observation) {
				o.Brokers[0].ReadySince = noon.Add(2 * time.Minute)
				tc.want.ReadySince = o.Brokers[0].ReadySince
				if tc.change != nil {
					tc.change(o)
				}
			})
			plan := Decide(o, at)
			check(t, Plan{Step: tc.want}, plan)
			o.Record = plan.Apply(o.Record, at)
			if next := Decide(o, at); Name(next.Step) == "Keep" {
				t.Errorf("before the lead is told which ranks leave, it decides: %s", next.Message)
			}
		})
	}
}

// A follower that ended with exit code 0 ended after the command, whatever becomes of its pod and node then.
func TestFollowerThatEndedWell(t *testing.T) {
	for name, tc := range map[string]struct {
		states string
		change func(*Observation)
		want   Step
	}{
		"the lead runs a hook": {"usuu", func(*Observation) {}, Wait{}},
		"its loss is recorded": {"usuu", func(o *Observation) { o.Admission.Loss = &Loss{Ranks: []int{1}, At: noon} }, Wait{}},
		"its node is gone, and the command failed": {"fsuu", func(o *Observation) {
			o.ToldBegan, o.Policy.OnLoss, o.Brokers[1].NodeGone = true, LossRecreate, true
		}, Finish{Outcome: OutcomeCommandFailed, ExitCode: new(3)}},
	} {
		t.Run(name, func(t *testing.T) {
			o := admitted(tc.states, func(o *Observation) {
				o.Started = noon.Add(time.Second)
				tc.change(o)
			})
			if plan := Decide(o, noon.Add(5*time.Minute)); Name(plan.Step) != Name(tc.want) {
				t.Errorf("it decides %s: %s", Name(plan.Step), plan.Message)
			}
		})
	}
}

// A rank of which the command says that it was lost had part in it, whatever the record says.
func TestToldLost(t *testing.T) {
	o := admitted("fuug", func(o *Observation) {
		o.Started, o.Policy.OnLoss, o.ToldBegan, o.ToldLost = noon, LossRecreate, true, []int{3}
		o.Admission.Vacated, o.Admission.Quorum, o.Published, o.PublishedDrain = []int{3}, 3, 3, []int{3}
	})
	if plan := Decide(o, noon.Add(time.Minute)); Name(plan.Step) != "GiveUp" {
		t.Errorf("it decides %s: %s", Name(plan.Step), plan.Message)
	}
}

// If no broker has run, and some cannot, the next attempt avoids all of their nodes, also those that are late.
func TestAvoidsAllNodes(t *testing.T) {
	all := []string{"n0", "n1", "n2", "n3"}
	for name, tc := range map[string]struct {
		states string
		cannot []int // ranks
		avoid  []string
	}{
		"none can start":      {"cccc", []int{0, 1, 2, 3}, all},
		"others are late":     {"cccc", []int{0, 1, 2}, all},
		"one has run":         {"uccc", []int{1, 2, 3}, nil},
		"a single one cannot": {"uucu", []int{2}, []string{"n2"}},
		"nobody knows why":    {"cccc", nil, []string{"n0"}},
	} {
		o := admitted(tc.states, func(o *Observation) {
			for _, rank := range tc.cannot {
				o.Brokers[rank].NotStarted = "StartError: exec format error"
			}
		})
		if got := o.badNodes(); !slices.Equal(got, tc.avoid) {
			t.Errorf("%s: avoids %v", name, got)
		}
	}
}

// Brokers that are to join the command have their time before all leave in place of some.
func TestUnableAt(t *testing.T) {
	o := admitted("uuuc", func(o *Observation) {
		o.Started, o.Policy.Restarts, o.Admission.Joining = noon, true, []int{3}
		o.Order, o.OrderedSince, o.Brokers[3].Placed = elastic.Drain{Ranks: []int{1}}, noon, noon.Add(time.Hour) // as its user writes
	})
	if at := o.unableAt(); !at.Equal(noon.Add(joinGrace)) {
		t.Errorf("beside a broker that joins: %s", at)
	}
	o.Admission.Joining = nil
	if at := o.unableAt(); !at.Equal(noon.Add(unreadyGrace)) {
		t.Errorf("without one: %s", at)
	}
}

// Ranks that were ordered to leave keep their deadline when a lead that starts alone drains further ranks.
func TestStartBesideDraining(t *testing.T) {
	by := noon.Add(10 * time.Minute)
	o := admitted("uuuuuuuc", func(o *Observation) {
		o.Policy.Sizing.Min, o.Policy.Sizing.Size, o.Policy.Sizing.Operator, o.Policy.Sizing.Operand = 1, 8, elastic.Multiply, 2
		o.Admission.Nodes, o.Admission.Quorum, o.Admission.At = []string{"0", "1", "2", "3", "4", "5", "6", "7"}, 8, noon.Add(-time.Hour)
		o.Admission.Draining, o.Brokers[0].Ready = &Draining{Ranks: []int{1}, Deadline: by}, true
	})
	plan := Decide(o, noon)
	if d := plan.Apply(o.Record, noon).Admission.Draining; d == nil || !slices.Equal(d.Ranks, []int{1, 5, 6}) || !d.Deadline.Equal(by) {
		t.Errorf("%+v, then %+v leave", plan, d)
	}
}

// A lead without enough brokers for any size cannot have begun the command, however late it is.
func TestMayRun(t *testing.T) {
	told := admitted("uuc", func(o *Observation) { o.Admission.Quorum, o.Published = 3, 2 }) // it grows, and the lead does not know
	if !told.MayRun(noon) {
		t.Error("the lead has as many brokers as it was told")
	}
	for states, want := range map[string]bool{"uccc": false, "uuuc": true} {
		o := admitted(states, func(o *Observation) { o.Policy.Sizing.Min = 3 })
		if got := o.MayRun(noon.Add(time.Hour)); got != want {
			t.Errorf("%s: %t", states, got)
		}
	}
}

// A rank whose node cannot start its container gets another node, or its MiniCluster goes without it. Nobody puts the next
// pod on that node.
func TestNotStarted(t *testing.T) {
	o := admitted("uuug", func(o *Observation) {
		o.Brokers[3].NotStarted, o.Brokers[3].TroubleSince = "StartError: no bash", noon
	})
	if plan := Decide(o, noon.Add(time.Second)); Name(plan.Step) != "Wait" {
		t.Errorf("at first it decides %s", Name(plan.Step))
	}
	if ranks := o.Displaced(noon.Add(time.Second)); len(ranks) != 1 || ranks[0] != 3 {
		t.Errorf("displaced are %v", ranks)
	}
	plan := Decide(o, noon.Add(time.Minute))
	check(t, Plan{Step: LowerQuorum{Quorum: 3, Leaving: []int{3}, Avoid: []string{"n3"}}, Message: "starts with 3 brokers: 1 of 4 brokers cannot start; rank 3 on n3: StartError: no bash"}, plan)
}

// What still runs in the pod of a lead that has ended is ended.
func TestLingers(t *testing.T) {
	o := admitted("suuu", func(o *Observation) {
		o.Started, o.Outcome, o.Ended, o.Brokers[0].Lingers = noon, OutcomeSucceeded, noon, true
	})
	for after, want := range map[time.Duration]Step{0: Wait{}, lingerGrace: EndLead{}} {
		check(t, Plan{Step: want}, Decide(o, noon.Add(after)))
	}
}

// A follower that has failed beside a container of others, which never ends, comes back in a new pod where the command goes on
// without the follower.
func TestFollowerLingers(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Observation)
		want   string
	}{
		"before the command":                    {func(*Observation) {}, "EvictPods"},
		"while the command goes on":             {func(o *Observation) { o.Started, o.Policy.OnLoss = noon, LossContinue }, "EvictPods"},
		"while the command is to end by itself": {func(o *Observation) { o.Started = noon }, "Lose"},
	} {
		o := admitted("uuuf", func(o *Observation) { o.Brokers[3].Lingers = true })
		if tc.change(o); Name(Decide(o, noon.Add(time.Second)).Step) != tc.want {
			t.Errorf("%s: %s", name, Name(Decide(o, noon.Add(time.Second)).Step))
		}
	}
}

// check compares a plan with the step, and the message if there is one.
func check(t *testing.T, want, got Plan) {
	t.Helper()
	if want.Message == "" {
		got.Message = ""
	}
	got.State, got.LookAgain = "", time.Time{}
	if d := diff(want, got); d != "" {
		t.Errorf("it decides otherwise (-want +got):\n%s", d)
	}
}
