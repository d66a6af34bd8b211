// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// runsAgain is the observation of a command that can be run again, with a minute for its checkpoint. It began with four
// brokers at noon, and the lead has been ready since.
func runsAgain(states string, change func(*Observation)) *Observation {
	return admitted(states, func(o *Observation) {
		o.Policy.Restarts, o.Policy.OnLoss, o.Policy.CheckpointWait, o.Policy.AsksForCheckpoint = true, LossRecreate, time.Minute, true
		o.Policy.Max = 6
		o.Started, o.Admission.ReadySince, o.Runs = noon, noon, 1
		for rank := range o.Brokers {
			if o.Brokers[rank].State == Up {
				o.Brokers[rank].ReadySince, o.Brokers[rank].Since = noon, noon
			}
		}
		if change != nil {
			change(o)
		}
	})
}

// restarting is one whose command is being run again since noon.
func restarting(change func(*Observation)) func(*Observation) {
	return func(o *Observation) {
		o.Admission.Restart, o.Admission.Restarts, o.PublishedRestarts = &Restarting{From: 3, At: noon, Reason: "why"}, 1, 1
		change(o)
	}
}

func TestDecideRestarts(t *testing.T) {
	wants := func(size int) func(*Observation) { return func(o *Observation) { o.Policy.Want = size } }
	grown := func(change func(*Observation)) func(*Observation) {
		return func(o *Observation) {
			o.Admission.Nodes, o.Admission.Joining = append(o.Admission.Nodes, "n4", "n5"), []int{4, 5}
			if change != nil {
				change(o)
			}
		}
	}
	ordered := func(lasts time.Duration, order elastic.Order) func(*Observation) {
		return func(o *Observation) {
			o.Order, o.Policy.Deadline, o.OrderedSince = order, 0, noon.Add(time.Second-lasts)
		}
	}
	twice := func(o *Observation) { o.Policy.Sizing.Operator, o.Policy.Sizing.Operand = elastic.Multiply, 2 }
	restart := func(s Restart, deadline, again time.Duration) Plan {
		if s.ReadySince.IsZero() {
			s.ReadySince = noon
		}
		if deadline > 0 {
			s.Deadline = noon.Add(deadline)
		}
		return Plan{Step: s, State: StateRunning, LookAgain: noon.Add(again)}
	}
	const leaves, runs = 106 * time.Second, 181 * time.Second // a second after noon
	waits := Plan{Step: Wait{}, State: StateRunning}
	cases := map[string]struct {
		o    *Observation
		want Plan // the message is compared where it is given, and LookAgain unless it waits
	}{
		"the user wants fewer brokers": {
			runsAgain("ruuu", wants(3)),
			restart(Restart{Quorum: 3, Leaving: []int{3}, Reason: "1 broker leaves since the size is 3 now"}, leaves, leaves),
		},
		"fewer than the minimum": {
			runsAgain("ruuu", wants(1)),
			restart(Restart{Quorum: 1, Leaving: []int{1, 2, 3}, Reason: "3 brokers leave since the size is 1 now, less than the minimum of 2"}, leaves, leaves),
		},
		"the user wants a size between those that are allowed": {
			runsAgain("ruuu", func(o *Observation) { twice(o); wants(3)(o) }),
			restart(Restart{Quorum: 3, Leaving: []int{3}, Reason: "1 broker leaves since the size is 3 now"}, leaves, leaves),
		},
		"the queue wants one back, and no three are allowed": {
			runsAgain("ruuu", func(o *Observation) {
				twice(o)
				o.Order = elastic.Drain{Ranks: []int{1}, For: "default/urgent"}
			}),
			restart(Restart{Quorum: 2, Leaving: []int{1, 3}, Reason: "1 broker leaves for default/urgent"}, leaves, leaves),
		},
		"the queue allows less time for a checkpoint than before": {
			runsAgain("ruuu", func(o *Observation) {
				o.Order, o.Policy.MaxGrace = elastic.Drain{Ranks: []int{3}}, 10*time.Second
			}),
			restart(Restart{Quorum: 3, Leaving: []int{3}, Reason: "1 broker leaves for others"}, 56*time.Second, 56*time.Second),
		},
		"the lead is not ready for a moment": {
			runsAgain("uuuu", ordered(59*time.Second, elastic.Drain{Ranks: []int{3}})), waits,
		},
		"the lead is not ready any more": {
			runsAgain("uuuu", ordered(time.Minute, elastic.Drain{Ranks: []int{3}, Reason: "Preempted", For: "a"})),
			Plan{
				Step:  Warn{Eviction{Reason: "Preempted", Message: "all brokers leave for a: the lead lets none leave alone", Deadline: noon.Add(76 * time.Second)}},
				State: StateRunning, LookAgain: noon.Add(76 * time.Second),
			},
		},
		"the queue wants more than the minimum allows": {
			runsAgain("ruuu", func(o *Observation) { o.Order = elastic.Drain{Ranks: []int{1, 2, 3}} }), waits,
		},
		"new ranks get nodes, and have no part in the command": {
			runsAgain("ruuu", func(o *Observation) { o.Order = elastic.Grow{Pods: []elastic.Pod{{Rank: 4, Node: "x"}}} }),
			Plan{Step: Grow{Pods: []elastic.Pod{{Rank: 4, Node: "x"}}, Quorum: 4, Joins: true}, State: StateRunning, Message: "grows by 1 to 5 brokers"},
		},
		"not while the command is restarted": {
			runsAgain("uuuu", restarting(func(o *Observation) { o.Order = elastic.Grow{Pods: []elastic.Pod{{Rank: 4, Node: "x"}}} })), waits,
		},
		"one of the new brokers is up": {runsAgain("ruuuuc", grown(nil)), waits},
		"both are up": {
			runsAgain("ruuuuu", grown(nil)),
			restart(Restart{Quorum: 6, Reason: "2 brokers joined"}, 0, runs),
		},
		"one is up, and the other does not come": {
			runsAgain("ruuuuc", grown(func(o *Observation) { o.Brokers[5].Placed = noon.Add(-time.Hour) })),
			Plan{Step: Vacate{Ranks: []int{5}, Quorum: 4, Avoid: []string{"n5"}}, State: StateRunning},
		},
		"one is up, too few for the next size": {
			runsAgain("ruuuug", grown(func(o *Observation) {
				twice(o)
				o.Policy.Sizing.Min, o.Policy.Sizing.Size, o.Admission.Vacated = 4, 8, []int{5}
				o.Admission.Joining, o.PublishedDrain = []int{4}, []int{5}
			})),
			Plan{Step: Vacate{Ranks: []int{4}, Quorum: 4}, State: StateRunning, Message: "1 broker joined, too few for a larger size, 4 remain"},
		},
		"both are up, but the lead writes a checkpoint": {
			runsAgain("uuuuuu", grown(nil)), waits,
		},
		"a new broker is lost, which matters to nobody": {runsAgain("ruuuul", grown(nil)), waits},
		"new brokers leave, and the command does not notice": {
			runsAgain("ruuuuu", grown(wants(4))),
			Plan{Step: Drain{Ranks: []int{4, 5}, Quorum: 4, Deadline: noon.Add(31 * time.Second)}, State: StateRunning, LookAgain: noon.Add(31 * time.Second)},
		},
		"brokers of the command leave, and so do those that are still to join": {
			runsAgain("ruuucc", grown(func(o *Observation) { o.Order = elastic.Drain{Ranks: []int{3}} })),
			restart(Restart{Quorum: 3, Leaving: []int{3, 4, 5}, Reason: "1 broker leaves for others"}, leaves, leaves),
		},
		"the lead is told": {
			runsAgain("uuuu", restarting(func(o *Observation) {
				o.PublishedRestarts, o.Admission.Quorum, o.Admission.Draining = 0, 3, &Draining{Ranks: []int{3}, Deadline: noon.Add(time.Minute)}
			})),
			Plan{Step: Publish{Quorum: 3, Leaving: []int{3}, Again: Again{Number: 1, Ranks: []int{0, 1, 2}}}, State: StateRunning, LookAgain: noon.Add(2 * time.Second)},
		},
		"the command is not seen to run again": {
			runsAgain("uuuu", restarting(func(o *Observation) { o.Brokers[0].Ready = true })),
			Plan{Step: Wait{}, State: StateRunning, Message: "runs the command again with 4 brokers: why"},
		},
		"it is, and nobody saw when it had ended": {
			runsAgain("ruuu", restarting(func(o *Observation) { o.Brokers[0].ReadySince = noon.Add(time.Second) })),
			Plan{Step: Restarted{ReadySince: noon.Add(time.Second)}, State: StateRunning, Message: "the command runs again, with 4 brokers, 1s after that was decided"},
		},
		"it is, after its checkpoint": {
			runsAgain("ruuu", restarting(func(o *Observation) {
				o.Brokers[0].ReadySince, o.LeadDownSince, o.Admission.Restart.At = noon.Add(time.Second), noon, noon.Add(-20*time.Second)
			})),
			Plan{Step: Restarted{ReadySince: noon.Add(time.Second), Checkpointed: noon}, State: StateRunning},
		},
		"it is, and took too long for a checkpoint that is known": {
			runsAgain("ruuu", restarting(func(o *Observation) {
				o.Brokers[0].ReadySince, o.LeadDownSince, o.Admission.Restart.At = noon.Add(time.Second), noon, noon.Add(-time.Minute)
			})),
			Plan{Step: Restarted{ReadySince: noon.Add(time.Second)}, State: StateRunning},
		},
		"its node came back, and nobody knows whether it runs again": {
			runsAgain("ruuu", restarting(func(o *Observation) { o.Brokers[0].ReadySince, o.Brokers[0].NodeReturned = noon.Add(time.Second), true })), waits,
		},
		"it had all of its time": {
			runsAgain("ruuu", restarting(func(o *Observation) {
				o.Brokers[0].ReadySince, o.Brokers[0].NodeReturned, o.LeadDownSince = noon.Add(time.Second), true, noon
				o.Admission.Restart.At = noon.Add(-3 * time.Minute)
			})),
			Plan{Step: Restarted{ReadySince: noon.Add(time.Second)}, State: StateRunning},
		},
		"it never runs again": {
			runsAgain("uuuu", restarting(func(o *Observation) { o.Admission.Restart.At = noon.Add(-3 * time.Minute) })),
			Plan{Step: GiveUp{NotBefore: noon.Add(31 * time.Second)}, State: StateReleasing, Message: "the command did not run again within 3m0s"},
		},
		"it never runs again, and somebody changes what the lead was told": {
			runsAgain("uuuu", restarting(func(o *Observation) {
				o.Admission.Restart.At, o.Admission.Restart.Again, o.PublishedRestarts = noon.Add(-3*time.Minute), true, 0
			})),
			Plan{Step: GiveUp{NotBefore: noon.Add(31 * time.Second)}, State: StateReleasing},
		},
		"the manager was away, and the lead was not told": {
			runsAgain("ruuu", restarting(func(o *Observation) { o.Admission.Restart.At, o.PublishedRestarts = noon.Add(-time.Hour), 0 })),
			Plan{Step: Prolong{Restart: true}, State: StateRunning},
		},
		"the manager was away, and the lead was told of neither the restart nor who leaves": {
			runsAgain("ruuu", restarting(func(o *Observation) {
				o.Admission.Restart.At, o.PublishedRestarts = noon.Add(-time.Minute), 0
				o.Admission.Draining = &Draining{Ranks: []int{3}, At: noon.Add(-time.Minute), Deadline: noon.Add(45 * time.Second)}
			})),
			Plan{Step: Prolong{Restart: true, Deadline: noon.Add(106 * time.Second)}, State: StateRunning},
		},
		"the manager was away, and comes back in time": {
			runsAgain("ruuu", restarting(func(o *Observation) { o.Admission.Restart.At, o.PublishedRestarts = noon.Add(-10*time.Second), 0 })),
			Plan{Step: Publish{Quorum: 4, Again: Again{Number: 1, Ranks: []int{0, 1, 2, 3}}}, State: StateRunning, LookAgain: noon.Add(2 * time.Second)},
		},
		"the manager was away, and the lead of a batch was not told who leaves": {
			admitted("ruuu", func(o *Observation) {
				o.Policy.Malleable, o.Started, o.Published = true, noon.Add(-2*time.Minute), 4
				o.Admission.Draining = &Draining{Ranks: []int{3}, At: noon.Add(-time.Minute), Deadline: noon.Add(-30 * time.Second)}
			}),
			Plan{Step: Prolong{Deadline: noon.Add(31 * time.Second)}, State: StateRunning},
		},
		"the manager was away, and nobody knows since when a rank is to leave": {
			admitted("ruuu", func(o *Observation) {
				o.Policy.Malleable, o.Started, o.Published = true, noon.Add(-50*time.Minute), 4
				o.Admission.Draining = &Draining{Ranks: []int{3}, At: noon.Add(-50 * time.Minute), Deadline: noon.Add(20 * time.Second)}
			}),
			Plan{Step: Prolong{Deadline: noon.Add(time.Second + 45*time.Second)}, State: StateRunning},
		},
		"it was away for the second time, too": {
			admitted("ruuu", func(o *Observation) {
				o.Policy.Malleable, o.Started, o.Published = true, noon.Add(-2*time.Minute), 4
				o.Admission.Draining = &Draining{Ranks: []int{3}, At: noon.Add(-time.Minute), Deadline: noon.Add(-30 * time.Second), Again: true}
			}),
			Plan{Step: Vacate{Ranks: []int{3}, Quorum: 4}, State: StateRunning},
		},
		"a broker has to leave its node, and somebody changes what the lead was told": {
			runsAgain("ruuu", func(o *Observation) { o.Admission.Vacated, o.Published = []int{3}, 7 }),
			Plan{Step: EvictPods{Ranks: []int{3}}, State: StateRunning},
		},
		"the queue wants a broker back while another one is lost that may come back": {
			runsAgain("ruuf", func(o *Observation) {
				ordered(time.Minute, elastic.Drain{Ranks: []int{2}, Reason: "Preempted", For: "a"})(o)
				o.Policy.OnLoss = LossContinue
			}),
			Plan{
				Step:  Warn{Eviction{Reason: "Preempted", Message: "all brokers leave for a: the lead lets none leave alone", Deadline: noon.Add(76 * time.Second)}},
				State: StateRunning, LookAgain: noon.Add(76 * time.Second),
			},
		},
		"a broker is lost while another one leaves, which has no more time for that": {
			runsAgain("uufu", restarting(func(o *Observation) {
				o.Admission.Quorum, o.Admission.Draining, o.PublishedDrain = 3, &Draining{Ranks: []int{3}, Deadline: noon.Add(10 * time.Second)}, []int{3}
			})),
			restart(Restart{Quorum: 2, Leaving: []int{3}, Lost: []int{2}, Avoid: []string{"n2"}, Reason: "1 of 4 brokers were lost while the command ran: rank 2 on n2"}, 10*time.Second, 10*time.Second),
		},
		"a broker is lost with the node of the lead": {
			runsAgain("ruuf", func(o *Observation) { o.Brokers[0].NodeDown = true }),
			Plan{Step: Lose{Ranks: []int{3}}, State: StateRunning, LookAgain: noon.Add(31 * time.Second)},
		},
		"it has written a checkpoint": {
			runsAgain("ruuu", func(o *Observation) { o.Policy.TellsCheckpoints, o.Brokers[0].ReadySince = true, noon.Add(time.Second) }),
			Plan{Step: Checkpointed{At: noon.Add(time.Second)}, State: StateRunning},
		},
		"it began before its lead was ready": {
			runsAgain("ruuu", func(o *Observation) {
				o.Policy.TellsCheckpoints, o.Admission.ReadySince, o.Brokers[0].ReadySince = true, time.Time{}, noon.Add(firstReady)
			}), waits,
		},
		"it began before its lead was ready, and has written a checkpoint since": {
			runsAgain("ruuu", func(o *Observation) {
				o.Policy.TellsCheckpoints, o.Admission.ReadySince, o.Brokers[0].ReadySince = true, time.Time{}, noon.Add(firstReady+time.Second)
			}),
			Plan{Step: Checkpointed{At: noon.Add(firstReady + time.Second)}, State: StateRunning},
		},
		"its node came back, and nobody knows about a checkpoint": {
			runsAgain("ruuu", func(o *Observation) {
				o.Policy.TellsCheckpoints, o.Brokers[0].ReadySince, o.Brokers[0].NodeReturned = true, noon.Add(time.Second), true
			}), waits,
		},
		"a broker is lost": {
			runsAgain("ruuf", nil),
			restart(Restart{Quorum: 3, Lost: []int{3}, Avoid: []string{"n3"}, Reason: "1 of 4 brokers were lost while the command ran: rank 3 on n3"}, 0, runs),
		},
		"so many that it cannot go on": {
			runsAgain("rfff", nil),
			Plan{Step: Lose{Ranks: []int{1, 2, 3}}, State: StateRunning, LookAgain: noon.Add(31 * time.Second)},
		},
		"brokers, again and again": {
			runsAgain("ruuf", func(o *Observation) { o.Admission.Losses = 2 }),
			Plan{Step: Lose{Ranks: []int{3}}, State: StateRunning, LookAgain: noon.Add(31 * time.Second)},
		},
		"a broker is lost while the command is restarted": {
			runsAgain("uuuf", restarting(func(*Observation) {})),
			restart(Restart{Quorum: 3, Lost: []int{3}, Avoid: []string{"n3"}, Reason: "1 of 4 brokers were lost while the command ran: rank 3 on n3"}, 0, runs),
		},
		"a node is down, and the command goes on": {runsAgain("ruuu", func(o *Observation) { o.Brokers[2].NodeDown = true }), waits},
		"a node is down, and nobody knows since when the lead is ready": {
			runsAgain("ruuu", func(o *Observation) { o.Brokers[2].NodeDown, o.Brokers[0].ReadySince = true, time.Time{} }), waits,
		},
		"a node is down, and the command was run again": {
			runsAgain("ruuu", func(o *Observation) { o.Brokers[2].NodeDown, o.Brokers[0].ReadySince = true, noon.Add(time.Second) }),
			restart(Restart{
				Quorum: 3, Lost: []int{2}, Avoid: []string{"n2"}, Reason: "1 of 4 brokers were lost while the command ran: rank 2 on n2",
				ReadySince: noon.Add(time.Second),
			}, 0, runs),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if len(tc.o.Brokers) < len(tc.o.Admission.Nodes) {
				t.Fatal("a broker is missing")
			}
			got := Decide(tc.o, noon.Add(time.Second))
			if tc.want.Message == "" {
				tc.want.Message = got.Message
			}
			if _, waits := tc.want.Step.(Wait); waits {
				tc.want.LookAgain = got.LookAgain
			}
			if show := diff(tc.want, got); show != "" {
				t.Errorf("it decides otherwise (-want +got):\n%s", show)
			}
		})
	}
}

func TestDecideEvictions(t *testing.T) {
	order := func(grace time.Duration) func(*Observation) {
		return func(o *Observation) {
			o.Order = elastic.Evict{Reason: "Preempted", Message: "a needs them", Grace: grace}
		}
	}
	running := func(change func(*Observation)) func(*Observation) {
		return func(o *Observation) {
			o.Started = noon
			change(o)
		}
	}
	deadline := noon.Add(31 * time.Second)
	warned := func(change func(*Observation)) func(*Observation) {
		return running(func(o *Observation) {
			o.Admission.Eviction = &Eviction{Reason: "Preempted", Message: "a needs them", Deadline: deadline}
			change(o)
		})
	}
	same := func(*Observation) {}
	endsIn := func(time time.Duration, requeued int) func(*Observation) {
		return func(o *Observation) {
			o.Started, o.Policy.Deadline, o.Policy.Requeues, o.Requeued = noon, time, 1, requeued
		}
	}
	asked := func(o *Observation) { o.ToldBegan, o.ToldAsked, o.ToldCheckpointed = true, true, true }
	warn := func(reason, message string, after time.Duration) Plan {
		by := noon.Add(time.Second + after)
		return Plan{Step: Warn{Eviction{Reason: reason, Message: message, Deadline: by}}, State: StateRunning, LookAgain: by}
	}
	cases := map[string]struct {
		o     *Observation
		after time.Duration
		want  Plan // the message is compared where it is given
	}{
		"a command that runs is warned":                         {admitted("ruuu", running(order(30*time.Second))), time.Second, warn("Preempted", "a needs them", 30*time.Second)},
		"without grace it is not":                               {admitted("ruuu", running(order(0))), time.Second, Plan{Step: Evict{Reason: "Preempted"}, State: StateReleasing}},
		"one that has not begun is not":                         {admitted("uuuu", order(30*time.Second)), time.Second, Plan{Step: Evict{Reason: "Preempted"}, State: StateReleasing}},
		"one without its lead is not":                           {admitted("cuuu", running(order(30*time.Second))), time.Second, Plan{Step: Evict{Reason: "Preempted"}, State: StateReleasing}},
		"one with checkpoints has longer":                       {runsAgain("ruuu", order(30*time.Second)), time.Second, warn("Preempted", "a needs them", 75*time.Second)},
		"one with checkpoints is warned before it is suspended": {runsAgain("ruuu", func(o *Observation) { o.Policy.Suspend = true }), time.Second, warn(Suspension, "it is suspended", 75*time.Second)},
		"another one is suspended at once":                      {admitted("ruuu", running(func(o *Observation) { o.Policy.Suspend = true })), time.Second, Plan{Step: Withdraw{}, State: StateSuspended}},
		"the lead is told": {
			admitted("ruuu", warned(same)), time.Second,
			Plan{Step: Stop{Reason: "Preempted", Grace: 30 * time.Second}, State: StateRunning, LookAgain: noon.Add(2 * time.Second)},
		},
		"the manager was away, and the lead was not told": {
			runsAgain("ruuu", warned(same)), 2 * time.Second,
			Plan{Step: Warn{Eviction{Reason: "Preempted", Message: "a needs them", Deadline: noon.Add(77 * time.Second), Again: true}}, State: StateRunning, LookAgain: noon.Add(77 * time.Second)},
		},
		"it was away for the second time, too": {
			runsAgain("ruuu", warned(func(o *Observation) { o.Admission.Eviction.Again = true })), 32 * time.Second, Plan{Step: Evict{Reason: "Preempted"}, State: StateReleasing},
		},
		"a command without checkpoints was not told in its time": {
			admitted("ruuu", warned(same)), 32 * time.Second, Plan{Step: Evict{Reason: "Preempted"}, State: StateReleasing},
		},
		"its queue allows it less time than before": {
			runsAgain("ruuu", warned(func(o *Observation) {
				o.Stopped, o.Policy.MaxGrace, o.Admission.Eviction.Again = true, 5*time.Second, true
			})), time.Second,
			Plan{Step: Warn{Eviction{Reason: "Preempted", Message: "a needs them", Deadline: noon.Add(21 * time.Second), Again: true}}, State: StateRunning, LookAgain: noon.Add(21 * time.Second)},
		},
		"not less than is left": {
			runsAgain("ruuu", warned(func(o *Observation) { o.Stopped, o.Policy.MaxGrace = true, 15*time.Second })), time.Second,
			Plan{Step: Wait{}, State: StateRunning, LookAgain: deadline},
		},
		"once": {
			admitted("ruuu", warned(func(o *Observation) { o.Stopped = true })), 2 * time.Second,
			Plan{Step: Wait{}, State: StateRunning, LookAgain: deadline, Message: "waits for the command to end: a needs them"},
		},
		"the command ends as it was asked to": {
			admitted("fuuu", warned(asked)), 2 * time.Second, Plan{Step: Evict{Reason: "Preempted", Checkpointed: true}, State: StateReleasing, Message: "a needs them"},
		},
		"it failed before it was asked": {
			admitted("fuuu", warned(func(o *Observation) { o.ToldBegan = true })), 2 * time.Second,
			Plan{Step: Finish{Outcome: OutcomeCommandFailed, ExitCode: new(3)}, State: StateFailed},
		},
		"it was done before it was asked": {
			admitted("suuu", warned(same)), 2 * time.Second, Plan{Step: Finish{Outcome: OutcomeSucceeded, ExitCode: new(0)}, State: StateSucceeded},
		},
		"its deadline comes first": {
			admitted("ruuu", warned(func(o *Observation) { o.Stopped, o.Policy.Deadline = true, 10*time.Second })), 11 * time.Second,
			Plan{Step: Finish{Outcome: OutcomeDeadlineExceeded}, State: StateFailed},
		},
		"one that is being restarted has no more time than its queue allows": {
			runsAgain("uuuu", restarting(func(o *Observation) { order(30 * time.Second)(o); o.Policy.MaxGrace = 10 * time.Second })), 130 * time.Second,
			warn("Preempted", "a needs them", 154*time.Second),
		},
		"one that is being restarted runs again first": {
			runsAgain("uuuu", restarting(order(30*time.Second))), time.Second, Plan{Step: Wait{}, State: StateRunning, LookAgain: noon.Add(time.Second + lossLook)},
		},
		"but not one that has lost a broker": {
			runsAgain("uuug", restarting(order(30*time.Second))), time.Second, warn("Preempted", "a needs them", 75*time.Second),
		},
		"but not for longer than that may take": {
			runsAgain("uuuu", restarting(order(30*time.Second))), 2*time.Minute + restartGrace, warn("Preempted", "a needs them", 75*time.Second+time.Minute+59*time.Second+restartGrace),
		},
		"the lead is lost": {admitted("guuu", warned(same)), 2 * time.Second, Plan{Step: Evict{Reason: "Preempted"}, State: StateReleasing}},
		"its time is up":   {admitted("ruuu", warned(func(o *Observation) { o.Stopped = true })), 31 * time.Second, Plan{Step: Evict{Reason: "Preempted"}, State: StateReleasing}},
		"before its deadline, one that goes on later is warned": {
			runsAgain("ruuu", endsIn(5*time.Minute, 0)), 5*time.Minute - 75*time.Second,
			Plan{Step: Warn{Eviction{Reason: Requeued, Message: "its time of 5m0s ends, and it goes on in a further attempt", Deadline: noon.Add(5 * time.Minute)}}, State: StateRunning, LookAgain: noon.Add(5 * time.Minute)},
		},
		"not sooner": {
			runsAgain("ruuu", endsIn(5*time.Minute, 0)), 5*time.Minute - 76*time.Second,
			Plan{Step: Wait{}, State: StateRunning, LookAgain: noon.Add(5*time.Minute - 75*time.Second)},
		},
		"within the whole time for its checkpoint, whatever its queue allows": {
			runsAgain("ruuu", func(o *Observation) { endsIn(5*time.Minute, 0)(o); o.Policy.MaxGrace = time.Second }), 5*time.Minute - 75*time.Second,
			Plan{Step: Warn{Eviction{Reason: Requeued, Message: "its time of 5m0s ends, and it goes on in a further attempt", Deadline: noon.Add(5 * time.Minute)}}, State: StateRunning, LookAgain: noon.Add(5 * time.Minute)},
		},
		"and not before it has had half of its time": {
			runsAgain("ruuu", endsIn(80*time.Second, 0)), 40 * time.Second,
			Plan{Step: Warn{Eviction{Reason: Requeued, Message: "its time of 1m20s ends, and it goes on in a further attempt", Deadline: noon.Add(80 * time.Second)}}, State: StateRunning, LookAgain: noon.Add(80 * time.Second)},
		},
		"one that makes room goes on with that at its deadline": {
			runsAgain("ruuu", warned(func(o *Observation) { endsIn(32*time.Second, 0)(o); o.Stopped = true })), 17 * time.Second,
			Plan{Step: Wait{}, State: StateRunning, LookAgain: deadline},
		},
		"it goes on later, from its checkpoint": {
			runsAgain("fuuu", warned(func(o *Observation) { endsIn(32*time.Second, 0)(o); asked(o); o.Admission.Eviction.Reason = Requeued })), 20 * time.Second,
			Plan{Step: Evict{Reason: Requeued, Checkpointed: true}, State: StateReleasing},
		},
		"one whose lead is not up goes on later, too": {
			runsAgain("cuuu", endsIn(5*time.Minute, 0)), 5 * time.Minute, Plan{Step: Evict{Reason: Requeued}, State: StateReleasing},
		},
		"one that is being run again runs first": {
			runsAgain("uuuu", restarting(func(o *Observation) { endsIn(5*time.Minute, 0)(o); o.Admission.Restart.At = noon.Add(3 * time.Minute) })), 4 * time.Minute,
			Plan{Step: Wait{}, State: StateRunning, LookAgain: noon.Add(4*time.Minute + lossLook)},
		},
		"one without time for a checkpoint fails": {
			runsAgain("ruuu", endsIn(30*time.Second, 0)), 30 * time.Second,
			Plan{Step: Finish{Outcome: OutcomeDeadlineExceeded}, State: StateFailed, Message: "the command ran longer than 30s"},
		},
		"and so does one that was admitted without checkpoints": {
			admitted("ruuu", endsIn(5*time.Minute, 0)), 5 * time.Minute,
			Plan{Step: Finish{Outcome: OutcomeDeadlineExceeded}, State: StateFailed},
		},
		"one that has had all of its attempts fails": {
			runsAgain("ruuu", endsIn(5*time.Minute, 1)), 5 * time.Minute,
			Plan{Step: Finish{Outcome: OutcomeDeadlineExceeded}, State: StateFailed, Message: "the command ran longer than 5m0s, for the 2. time"},
		},
		"and of one that is suspended": {
			admitted("fuuu", warned(func(o *Observation) { asked(o); o.Admission.Eviction.Reason = Suspension })), 2 * time.Second,
			Plan{Step: Withdraw{Checkpointed: true}, State: StateSuspended},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Decide(tc.o, noon.Add(tc.after))
			if tc.want.Message == "" {
				tc.want.Message = got.Message
			}
			if show := diff(tc.want, got); show != "" {
				t.Errorf("it decides otherwise (-want +got):\n%s", show)
			}
		})
	}
}
