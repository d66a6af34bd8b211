// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// policy4 is that of a MiniCluster that wants 4 brokers and starts with 2.
var policy4 = Policy{
	Sizing:        elastic.Sizing{Min: 2, Size: 4, Operator: elastic.Add, Operand: 1, Tasks: elastic.Tasks{AtSize: 8}},
	QuorumTimeout: time.Minute, StartTimeout: 5 * time.Minute,
	Deadline:      time.Hour,
	MaxGrace:      90 * time.Second,
	OnLoss:        LossFail,
	RecreateLimit: 2, BackoffBase: 30 * time.Second, BackoffMax: 90 * time.Second,
}

// brokers are states, one letter each: - missing, g gated, c coming, u up,
// l leaving, s succeeded, f failed; r up and running the command, o maybe online, i idle,
// e ended with the instance before its pod, t in trouble.
func brokers(states string) []Broker {
	letters := "-gculsf"
	var out []Broker
	for _, letter := range states {
		b := Broker{State: BrokerState(slices.Index([]byte(letters), byte(letter))), Placed: noon}
		switch letter {
		case 'f':
			b.ExitCode, b.EndedAt = new(3), noon.Add(10*time.Second)
		case 'r':
			b.State, b.Ready = Up, true
		case 'o':
			b.State, b.Since = Coming, noon
		case 'i':
			b.State, b.Idle, b.Since = Coming, true, noon
		case 'e':
			b.State, b.Lingers = Succeeded, true
		case 't':
			b.State, b.Trouble, b.TroubleSince = Coming, "ImagePullBackOff", noon
		}
		out = append(out, b)
	}
	return out
}

// admitted is the observation of a MiniCluster that got 4 nodes at noon.
func admitted(states string, change func(*Observation)) *Observation {
	o := &Observation{
		Policy:    policy4,
		Record:    Record{Admission: &Admission{Attempt: 1, Quorum: 4, At: noon, Nodes: []string{"n0", "n1", "n2", "n3"}}},
		Workload:  Active,
		Brokers:   brokers(states),
		Published: 4,
	}
	if o.Brokers[0].State != Missing {
		o.Admission.Lead = "first"
	}
	for _, b := range o.Brokers {
		if b.holdsNode() {
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
	bears := func(o *Observation) {
		started(o)
		o.Policy.Malleable, o.Policy.OnLoss = true, LossContinue
	}
	recreates := func(o *Observation) {
		started(o)
		o.Policy.OnLoss = LossRecreate
	}
	lost := func(rank int) func(*Observation) {
		return func(o *Observation) {
			started(o)
			o.Admission.Loss = &Loss{Ranks: []int{rank}, At: noon}
		}
	}
	soon := noon.Add(releaseAgain)
	stranded := func(workload Workload, stranded, existing int, by time.Time) func(*Observation) {
		return func(o *Observation) {
			o.Workload, o.Stranded, o.Existing, o.StrandedBy = workload, stranded, existing, by
			o.Offer.Nodes = []string{"a", "b"}
		}
	}
	services := func(bound ...int) func(*Observation) {
		return func(o *Observation) {
			o.ServicesGated = true
			for _, rank := range bound {
				o.Brokers[rank].Bound = true
			}
		}
	}
	cases := map[string]struct {
		o     *Observation
		after time.Duration // noon
		want  Plan          // the message is compared where it is given
	}{
		"a command ends with its JobSet, before the pods that the JobSet has left are deleted": {
			o: admitted("luuu", func(o *Observation) {
				started(o)
				o.Workload, o.Leftover, o.Existing, o.Orphans, o.Bereft = Absent, 4, 4, 4, 4
			}),
			want: Plan{Step: Finish{Outcome: OutcomeLeadLost}, State: StateFailed, Message: "its JobSet was deleted while the command ran"},
		},
		"one that has not begun gets other pods": {
			o:    admitted("----", func(o *Observation) { o.Workload, o.Leftover, o.Existing, o.Orphans = Absent, 4, 4, 4 }),
			want: Plan{Step: Abandon{}, State: StateReleasing, LookAgain: soon, Message: "deletes 4 pods that were left when the JobSet was deleted"},
		},
		"or its next attempt comes after they are": {
			o:    waiting(func(o *Observation) { o.Workload, o.Leftover, o.Existing, o.Orphans = Absent, 4, 4, 4 }),
			want: Plan{Step: Abandon{}, State: StateReleasing, LookAgain: soon, Message: "deletes 4 pods that were left when the JobSet was deleted"},
		},
		"unless the lead has ended, whose end counts": {
			o: admitted("suuu", func(o *Observation) {
				started(o)
				o.Workload, o.Leftover, o.Existing, o.Orphans = Orphaned, 4, 4, 4
			}),
			want: Plan{Step: Finish{Outcome: OutcomeSucceeded, ExitCode: new(0)}, State: StateSucceeded},
		},
		"also one that nobody saw begin": {
			o:    admitted("suuu", func(o *Observation) { o.Workload, o.Leftover, o.Existing, o.Orphans = Orphaned, 4, 4, 4 }),
			want: Plan{Step: Start{Quorum: 4}, State: StateRunning},
		},
		"and one that failed": {
			o: admitted("fuuu", func(o *Observation) {
				started(o)
				o.Workload, o.Leftover, o.Existing, o.Orphans = Orphaned, 4, 4, 4
			}), after: time.Hour,
			want: Plan{Step: Finish{Outcome: OutcomeCommandFailed, ExitCode: new(3)}, State: StateFailed},
		},
		"they go after the end": {
			o:    waiting(func(o *Observation) { o.Outcome, o.Orphans = OutcomeSucceeded, 3 }),
			want: Plan{Step: Abandon{}, State: StateSucceeded, LookAgain: soon},
		},
		"a finalizer keeps a JobSet no longer than the end": {
			o: waiting(func(o *Observation) {
				o.Outcome, o.Workload, o.Kept, o.Existing, o.KeptBy = OutcomeLeadLost, Deleting, 2, 4, noon
			}),
			want: Plan{Step: Abandon{}, State: StateFailed, LookAgain: soon},
		},
		"nobody tells when the time of pods on nodes that are down is over": {
			o:    waiting(func(o *Observation) { stranded(Deleting, 2, 2, soon)(o); o.Outcome = OutcomeLeadLost }),
			want: Plan{Step: Wait{}, State: StateFailed, LookAgain: soon},
		},
		"though the garbage collector has its time": {
			o: waiting(func(o *Observation) {
				o.Outcome, o.Workload, o.Kept, o.Existing, o.KeptBy = OutcomeLeadLost, Deleting, 2, 2, soon
			}),
			want: Plan{Step: Wait{}, State: StateFailed, LookAgain: soon},
		},
		"and while it is suspended": {
			o:    waiting(func(o *Observation) { o.Policy.Suspend, o.Orphans = true, 3 }),
			want: Plan{Step: Abandon{}, State: StateSuspended, LookAgain: noon.Add(releaseAgain)},
		},
		"without an offer it waits in the queue": {
			o:    waiting(func(o *Observation) { o.Offer.Verdict, o.Offer.Message = elastic.NoRoom, "3 free" }),
			want: Plan{Step: Wait{}, State: StateQueued, Message: "3 free"},
		},
		"an offer is taken": {
			o:    waiting(func(o *Observation) { o.Offer.Nodes = []string{"a", "b", "c"} }),
			want: Plan{Step: Admit{Attempt: 1, Nodes: []string{"a", "b", "c"}}, State: StateStarting},
		},
		"and the pods of a trial are taken along": {
			o:    waiting(func(o *Observation) { o.Workload, o.Offer.Nodes = Ahead, []string{"a", "b", "c"} }),
			want: Plan{Step: Admit{Attempt: 1, Nodes: []string{"a", "b", "c"}}, State: StateStarting},
		},
		"they do not wait for nodes": {
			o:    waiting(func(o *Observation) { o.Workload, o.Offer.Message = Ahead, "3 free" }),
			want: Plan{Step: Release{}, State: StateQueued, Message: "3 free"},
		},
		"what was admitted for another spec is given back before it is made": {
			o:    admitted("----", func(o *Observation) { o.Workload, o.Outdated = Absent, true }),
			want: Plan{Step: Withdraw{}, State: StateReleasing},
		},
		"suspended it has none": {
			o:    waiting(func(o *Observation) { o.Policy.Suspend, o.Workload = true, Ahead }),
			want: Plan{Step: Release{}, State: StateSuspended},
		},
		"what cannot be carried out waits for a better spec": {
			o:    waiting(func(o *Observation) { o.Rejected, o.Offer.Nodes = "no such thing", []string{"a"} }),
			want: Plan{Step: Wait{}, State: StateRejected, Message: "no such thing"},
		},
		"what may be denied to the manager alone is tried": {
			o:    waiting(func(o *Observation) { o.Rejected, o.Trial = "denied", true }),
			want: Plan{Step: Make{}, State: StateRejected, Message: "denied"},
		},
		"and the pods wait behind their gates": {
			o: waiting(func(o *Observation) {
				o.Rejected, o.Trial, o.Workload, o.Offer.Nodes = "denied", true, Ahead, []string{"a"}
			}),
			want: Plan{Step: Wait{}, State: StateRejected, Message: "denied"},
		},
		"and go if that was in vain": {
			o:    waiting(func(o *Observation) { o.Rejected, o.Workload = "refused", Ahead }),
			want: Plan{Step: Release{}, State: StateRejected, Message: "refused"},
		},
		"pods that are refused give the nodes back": {
			o:    admitted("----", func(o *Observation) { o.Refused = "no more pods" }),
			want: Plan{Step: Withdraw{}, State: StateRejected, Message: "no more pods"},
		},
		"but not if the command may run": {
			o:    admitted("uu--", func(o *Observation) { o.Refused, o.Admission.Quorum = "no more pods", 2 }),
			want: Plan{Step: Publish{Quorum: 2}, State: StateStarting, LookAgain: noon.Add(time.Second)},
		},
		"suspended it takes nothing": {
			o:    waiting(func(o *Observation) { o.Policy.Suspend, o.Offer.Nodes = true, []string{"a", "b"} }),
			want: Plan{Step: Wait{}, State: StateSuspended},
		},
		"suspended it gives back what it has": {
			o:    admitted("uuuu", func(o *Observation) { o.Policy.Suspend = true }),
			want: Plan{Step: Withdraw{}, State: StateSuspended},
		},
		"suspended its attempts are forgotten": {
			o:    waiting(func(o *Observation) { o.Policy.Suspend, o.GivenUp = true, 2 }),
			want: Plan{Step: Withdraw{}, State: StateSuspended},
		},
		"deleted it gives back what it has, at once": {
			o: admitted("uuuu", func(o *Observation) {
				started(o)
				o.Policy.Suspend, o.Policy.Deleted, o.Policy.CheckpointWait = true, true, time.Hour
				o.Admission.Eviction = &Eviction{Reason: Suspension, Deadline: noon.Add(time.Hour)}
			}),
			want: Plan{Step: Withdraw{}, State: StateSuspended, Message: "it is being deleted"},
		},
		"deleted it waits for its pods": {
			o: waiting(func(o *Observation) {
				o.Policy.Suspend, o.Policy.Deleted, o.Workload, o.Occupied = true, true, Deleting, 4
			}),
			want: Plan{Step: Wait{}, State: StateSuspended, LookAgain: noon.Add(releaseAgain)},
		},
		"deleted it is not deleted again": {
			o: admitted("suuu", func(o *Observation) {
				o.Outcome, o.Workload, o.Policy.TTL, o.Policy.Suspend, o.Policy.Deleted = OutcomeSucceeded, Completed, new(time.Duration), true, true
			}),
			want: Plan{Step: Wait{}, State: StateSucceeded},
		},
		"suspended its pods go": {
			o:    waiting(func(o *Observation) { o.Policy.Suspend, o.Workload, o.Occupied = true, Stale, 4 }),
			want: Plan{Step: Release{}, State: StateSuspended},
		},
		"a workload of an earlier attempt goes before anything new": {
			o:    waiting(func(o *Observation) { o.Workload, o.Offer.Nodes = Stale, []string{"a", "b"} }),
			want: Plan{Step: Release{}, State: StateReleasing},
		},
		"one that is going is waited for": {
			o:    waiting(func(o *Observation) { o.Workload, o.Offer.Nodes = Deleting, []string{"a", "b"} }),
			want: Plan{Step: Wait{}, State: StateReleasing, LookAgain: soon},
		},
		"so are pods that are left": {
			o:    waiting(func(o *Observation) { o.Leftover, o.Offer.Nodes = 1, []string{"a", "b"} }),
			want: Plan{Step: Wait{}, State: StateReleasing, LookAgain: soon},
		},
		"pods on nodes that are down have time to end": {
			o:    waiting(stranded(Deleting, 2, 2, noon.Add(time.Second))),
			want: Plan{Step: Wait{}, State: StateReleasing, LookAgain: soon},
		},
		"nobody waits for them after that": {
			o: waiting(stranded(Deleting, 2, 2, noon)),
			want: Plan{
				Step: Abandon{}, State: StateReleasing, LookAgain: soon,
				Message: "ends the last attempt without its JobSet: nodes of its pods are down, or a finalizer keeps the JobSet",
			},
		},
		"pods on nodes that are ready end first": {
			o:    waiting(stranded(Deleting, 2, 3, noon)),
			want: Plan{Step: Wait{}, State: StateReleasing, LookAgain: soon},
		},
		"without their JobSet, too, they have time to end": {
			o:    waiting(stranded(Absent, 1, 1, noon.Add(time.Second))),
			want: Plan{Step: Wait{}, State: StateReleasing, LookAgain: soon},
		},
		"the next attempt begins without them": {
			o:    waiting(stranded(Absent, 1, 1, noon)),
			want: Plan{Step: Admit{Attempt: 1, Nodes: []string{"a", "b"}}, State: StateStarting},
		},
		"after giving up it pauses": {
			o:     waiting(func(o *Observation) { o.GivenUp, o.NotBefore = 1, noon.Add(time.Minute) }),
			after: 59 * time.Second,
			want:  Plan{Step: Wait{}, State: StateBackingOff, LookAgain: noon.Add(time.Minute), Message: "gave up attempt 1 of 3"},
		},
		"and then waits in the queue again": {
			o:     waiting(func(o *Observation) { o.GivenUp, o.NotBefore = 1, noon.Add(time.Minute) }),
			after: time.Minute,
			want:  Plan{Step: Wait{}, State: StateQueued},
		},
		"admitted, its objects are made": {
			o:    admitted("----", func(o *Observation) { o.Workload = Absent }),
			want: Plan{Step: Make{}, State: StateStarting},
		},
		"not over the pods of another": {
			o:    admitted("----", func(o *Observation) { o.Workload, o.Leftover = Absent, 2 }),
			want: Plan{Step: Wait{}, State: StateReleasing, LookAgain: soon},
		},
		"a name that is taken gives the nodes back": {
			o:    admitted("----", func(o *Observation) { o.Workload, o.Rejected = Absent, "taken" }),
			want: Plan{Step: Withdraw{}, State: StateRejected, Message: "taken"},
		},
		"no pod is placed before all are there": {
			o:    admitted("gg-g", nil),
			want: Plan{Step: Wait{}, State: StateStarting, LookAgain: noon.Add(5 * time.Minute), Message: "3 of 4 pods made"},
		},
		"then it is recorded which of them is the lead": {
			o:    admitted("gggg", func(o *Observation) { o.Admission.Lead, o.Lead, o.Published = "", "first", 0 }),
			want: Plan{Step: Appoint{Lead: "first"}, State: StateStarting, LookAgain: noon.Add(5 * time.Minute)},
		},
		"a lead that the API server has bound is recorded at the start": {
			o:    admitted("ruuu", func(o *Observation) { o.Admission.Lead, o.Lead = "", "first" }),
			want: Plan{Step: Start{Quorum: 4, Lead: "first"}, State: StateRunning, Message: "4 of 4 brokers up"},
		},
		"then all are placed at once": {
			o:    admitted("gggg", func(o *Observation) { o.Published = 0 }),
			want: Plan{Step: Place{Ranks: []int{0, 1, 2, 3}, Quorum: 4}, State: StateStarting},
		},
		"placing that was cut off goes on": {
			o:    admitted("ccgg", nil),
			want: Plan{Step: Place{Ranks: []int{2, 3}, Quorum: 4}, State: StateStarting},
		},
		"placing that was cut off goes on though a pod is being replaced": {
			o:    admitted("c-gg", nil),
			want: Plan{Step: Place{Ranks: []int{2, 3}, Quorum: 4}, State: StateStarting},
		},
		"a chosen node that is gone gives the others back": {
			o:    admitted("gggg", func(o *Observation) { o.Brokers[2].NodeGone = true }),
			want: Plan{Step: Withdraw{}, State: StateReleasing},
		},
		"a pod is not placed on a node that is gone": {
			o:    admitted("uugg", func(o *Observation) { o.Brokers[2].NodeGone = true }),
			want: Plan{Step: Place{Ranks: []int{3}, Quorum: 4}, State: StateStarting},
		},
		"without quota it holds its nodes": {
			o:    admitted("gggg", func(o *Observation) { o.Quota = QuotaReserved }),
			want: Plan{Step: Wait{}, State: StateStarting, LookAgain: noon.Add(5 * time.Minute), Message: "has nodes, and waits until its quota is admitted"},
		},
		"its objects are made meanwhile": {
			o:    admitted("----", func(o *Observation) { o.Quota, o.Workload = QuotaReserved, Absent }),
			want: Plan{Step: Make{}, State: StateStarting},
		},
		"but not for ever": {
			o: admitted("gggg", func(o *Observation) { o.Quota = QuotaReserved }), after: 5 * time.Minute,
			want: Plan{Step: Withdraw{}, State: StateReleasing, Message: "gives its nodes back: its quota was not admitted in time"},
		},
		"if some pods are placed, its quota was admitted": {
			o:    admitted("uugg", func(o *Observation) { o.Quota = QuotaReserved }),
			want: Plan{Step: Place{Ranks: []int{2, 3}, Quorum: 4}, State: StateStarting},
		},
		"with quota its pods are placed": {
			o:    admitted("gggg", func(o *Observation) { o.Quota, o.Published = QuotaAdmitted, 0 }),
			want: Plan{Step: Place{Ranks: []int{0, 1, 2, 3}, Quorum: 4}, State: StateStarting},
		},
		"what runs goes on, whatever its quota waits for": {
			o: admitted("ruuu", func(o *Observation) { started(o); o.Quota = QuotaReserved }), after: time.Minute,
			want: Plan{Step: Wait{}, State: StateRunning, LookAgain: noon.Add(time.Hour + time.Second), Message: "4 of 4 brokers up"},
		},
		"without its quota it gives its nodes back": {
			o: admitted("gggg", func(o *Observation) {
				o.Quota, o.Order = QuotaMissing, elastic.Evict{Reason: "QuotaWithdrawn", Message: "Kueue took the quota back"}
			}),
			want: Plan{Step: Evict{Reason: "QuotaWithdrawn"}, State: StateReleasing, Message: "Kueue took the quota back"},
		},
		"whatever it does": {
			o: admitted("ruuu", func(o *Observation) {
				started(o)
				o.Quota, o.Order = QuotaMissing, elastic.Evict{Reason: "QuotaWithdrawn", Message: "Kueue took the quota back"}
			}),
			want: Plan{Step: Evict{Reason: "QuotaWithdrawn"}, State: StateReleasing, Message: "Kueue took the quota back"},
		},
		"the lead is told its quorum": {
			o:    admitted("uuuu", func(o *Observation) { o.Published = 0 }),
			want: Plan{Step: Publish{Quorum: 4}, State: StateStarting, LookAgain: noon.Add(time.Second)},
		},
		"brokers are waited for": {
			o:    admitted("uucc", nil),
			want: Plan{Step: Wait{}, State: StateStarting, LookAgain: noon.Add(time.Minute), Message: "2 of 4 brokers up"},
		},
		"with all of them the lead starts": {
			o:    admitted("uuuu", nil),
			want: Plan{Step: Wait{}, State: StateStarting, LookAgain: noon.Add(time.Minute), Message: "4 of 4 brokers up"},
		},
		"it says so": {
			o:    admitted("ruuu", nil),
			want: Plan{Step: Start{Quorum: 4}, State: StateRunning, Message: "4 of 4 brokers up"},
		},
		"a bit before its followers do": {
			o:    admitted("rucc", nil),
			want: Plan{Step: Start{Quorum: 4}, State: StateRunning},
		},
		"it starts with fewer where nobody tells it its quorum": {
			o: admitted("ruuc", nil), after: 3 * time.Minute,
			want: Plan{Step: Start{Quorum: 3, Vacated: []int{3}}, State: StateRunning},
		},
		"one whose brokers are up may begin just when its time is up": {
			o: admitted("uuuu", nil), after: 5 * time.Minute,
			want: Plan{Step: Wait{}, State: StateStarting, LookAgain: noon.Add(5*time.Minute + seenGrace)},
		},
		"one that never starts is given up": {
			o: admitted("uuuu", nil), after: 5*time.Minute + seenGrace,
			want: Plan{Step: GiveUp{NotBefore: noon.Add(5*time.Minute + seenGrace + 30*time.Second)}, State: StateReleasing, Message: "4 of 4 brokers came up within 5m0s, and the command did not begin"},
		},
		"after a while it starts with those that are up": {
			o: admitted("uucu", nil), after: time.Minute,
			want: Plan{Step: LowerQuorum{Quorum: 3, Leaving: []int{2}}, State: StateStarting, Message: "starts with 3 brokers: 3 of 4 came up within 1m0s"},
		},
		"the lowered quorum is published": {
			o: admitted("uucu", func(o *Observation) {
				o.Admission.Quorum, o.Admission.Draining = 3, &Draining{Ranks: []int{2}, At: noon}
			}), after: time.Minute,
			want: Plan{Step: Publish{Quorum: 3, Leaving: []int{2}}, State: StateStarting, LookAgain: noon.Add(time.Minute + time.Second)},
		},
		"it is not lowered once more while some leave": {
			o: admitted("uluo", func(o *Observation) {
				o.Admission.Quorum, o.Admission.Draining, o.Published, o.PublishedDrain = 3, &Draining{Ranks: []int{3}, At: noon}, 3, []int{3}
			}), after: time.Minute,
			want: Plan{Step: Wait{}, State: StateStarting, LookAgain: noon.Add(2 * time.Minute)},
		},
		"not while some leave a command that may run": {
			o: admitted("uuoo", func(o *Observation) {
				o.Admission.Draining, o.PublishedDrain = &Draining{Ranks: []int{3}, Deadline: noon.Add(2 * time.Minute)}, []int{3}
			}), after: time.Minute,
			want: Plan{Step: Wait{}, State: StateStarting, LookAgain: noon.Add(2 * time.Minute)},
		},
		"the others lose their nodes": {
			o: admitted("uucu", func(o *Observation) {
				o.Admission.Quorum, o.Published, o.PublishedDrain, o.Admission.Vacated = 3, 3, []int{2}, []int{2}
			}), after: time.Minute,
			want: Plan{Step: EvictPods{Ranks: []int{2}}, State: StateStarting},
		},
		"and it starts": {
			o: admitted("rugu", func(o *Observation) {
				o.Admission.Quorum, o.Published, o.PublishedDrain, o.Admission.Vacated = 3, 3, []int{2}, []int{2}
			}), after: time.Minute,
			want: Plan{Step: Start{Quorum: 3}, State: StateRunning},
		},
		"not without the lead": {
			o: admitted("cuuu", nil), after: time.Minute,
			want: Plan{Step: Wait{}, State: StateStarting, LookAgain: noon.Add(5 * time.Minute)},
		},
		"not below the minimum": {
			o: admitted("uccc", nil), after: time.Minute,
			want: Plan{Step: Wait{}, State: StateStarting, LookAgain: noon.Add(5 * time.Minute)},
		},
		"not at a size that is not allowed": {
			o: admitted("uuuc", func(o *Observation) { o.Policy.Sizing.Operand = 2 }), after: time.Minute,
			want: Plan{Step: LowerQuorum{Quorum: 2, Leaving: []int{2, 3}}, State: StateStarting},
		},
		"too few for too long: it gives up": {
			o: admitted("uccc", nil), after: 5 * time.Minute,
			want: Plan{Step: GiveUp{NotBefore: noon.Add(5*time.Minute + 30*time.Second)}, State: StateReleasing, Message: "1 of 4 brokers came up within 5m0s, too few to start"},
		},
		"and names a domain that the DNS does not have, by a broker that runs and is not up": {
			o: admitted("uccc", func(o *Observation) {
				for rank := range o.Brokers {
					o.Brokers[rank].Unresolved = "kubernetes.default.svc.example.org"
				}
				o.Brokers[3].Since = noon
			}), after: 5*time.Minute + seenGrace,
			want: Plan{
				Step: GiveUp{NotBefore: noon.Add(5*time.Minute + seenGrace + 30*time.Second)}, State: StateReleasing,
				Message: "1 of 4 brokers came up within 5m0s, too few to start; kubernetes.default.svc.example.org did not resolve when the pod of rank 3 started",
			},
		},
		"pods that are never made count too": {
			o: admitted("gg--", nil), after: 5 * time.Minute,
			want: Plan{Step: GiveUp{NotBefore: noon.Add(5*time.Minute + 30*time.Second)}, State: StateReleasing},
		},
		"each pause is twice the last": {
			o: admitted("uccc", func(o *Observation) { o.GivenUp = 1 }), after: 5 * time.Minute,
			want: Plan{Step: GiveUp{NotBefore: noon.Add(6 * time.Minute)}, State: StateReleasing},
		},
		"up to the longest, with jitter": {
			o: admitted("uccc", func(o *Observation) {
				o.GivenUp, o.Policy.RecreateLimit, o.Jitter = 7, 10, 1
			}), after: 5 * time.Minute,
			want: Plan{Step: GiveUp{NotBefore: noon.Add(5*time.Minute + 99*time.Second)}, State: StateReleasing},
		},
		"after the last attempt it fails": {
			o: admitted("uccc", func(o *Observation) { o.GivenUp = 2 }), after: 5 * time.Minute,
			want: Plan{Step: Finish{Outcome: OutcomeStartLimit}, State: StateFailed, Message: "1 of 4 brokers came up within 5m0s, too few to start, in attempt 3 of 3"},
		},
		"it runs until it ends": {
			o: admitted("uuuu", started), after: 30 * time.Minute,
			want: Plan{Step: Wait{}, State: StateRunning, LookAgain: noon.Add(time.Hour + time.Second), Message: "4 of 4 brokers up"},
		},
		"or its time is up": {
			o: admitted("uuuu", started), after: 61 * time.Minute,
			want: Plan{Step: Finish{Outcome: OutcomeDeadlineExceeded}, State: StateFailed, Message: "the command ran longer than 1h0m0s"},
		},
		"without a deadline it has no end": {
			o:     admitted("uuuu", func(o *Observation) { started(o); o.Policy.Deadline = 0 }),
			after: 1000 * time.Hour, want: Plan{Step: Wait{}, State: StateRunning},
		},
		"a follower that is lost does not end a command that bears it": {
			o:    admitted("ru-u", bears),
			want: Plan{Step: Wait{}, State: StateRunning, LookAgain: noon.Add(time.Hour + time.Second), Message: "3 of 4 brokers up"},
		},
		"one that was replaced is placed again": {
			o:    admitted("rugu", bears),
			want: Plan{Step: Place{Ranks: []int{2}, Quorum: 4}, State: StateRunning},
		},
		"the lead's success is the end": {
			o:    admitted("suuu", started),
			want: Plan{Step: Finish{Outcome: OutcomeSucceeded, ExitCode: new(0)}, State: StateSucceeded},
		},
		"of which the start was not seen, it is written down first": {
			o:    admitted("sccc", nil),
			want: Plan{Step: Start{Quorum: 4}, State: StateRunning},
		},
		"and though its pod is gone": {
			o:    admitted("-uuu", func(o *Observation) { started(o); o.Workload = Completed }),
			want: Plan{Step: Finish{Outcome: OutcomeSucceeded, ExitCode: new(0)}, State: StateSucceeded},
		},
		"the lead's failure is the end": {
			o:    admitted("fuuu", started),
			want: Plan{Step: Finish{Outcome: OutcomeCommandFailed, ExitCode: new(3)}, State: StateFailed, Message: "the command failed with exit code 3"},
		},
		"not while it may be tried again": {
			o:    admitted("fuuu", func(o *Observation) { started(o); o.Policy.Retries = 1 }),
			want: Plan{Step: Retry{NotBefore: noon.Add(30 * time.Second)}, State: StateReleasing, Message: "the command failed with exit code 3"},
		},
		"the pause doubles with each retry": {
			o:    admitted("fuuu", func(o *Observation) { started(o); o.Policy.Retries, o.Retried = 3, 2 }),
			want: Plan{Step: Retry{NotBefore: noon.Add(90 * time.Second)}, State: StateReleasing},
		},
		"a lead that is lost is tried again, too": {
			o:    admitted("guuu", func(o *Observation) { started(o); o.Policy.Retries = 1 }),
			want: Plan{Step: Retry{NotBefore: noon.Add(30 * time.Second)}, State: StateReleasing},
		},
		"when it was tried often enough it is the end": {
			o:    admitted("fuuu", func(o *Observation) { started(o); o.Policy.Retries, o.Retried = 1, 1 }),
			want: Plan{Step: Finish{Outcome: OutcomeCommandFailed, ExitCode: new(3)}, State: StateFailed, Message: "the command failed with exit code 3"},
		},
		"a lead that is lost under its command is the end": {
			o:    admitted("guuu", started),
			want: Plan{Step: Finish{Outcome: OutcomeLeadLost}, State: StateFailed},
		},
		"so is one that the cluster ended": {
			o:    admitted("fuuu", func(o *Observation) { started(o); o.Brokers[0].ExitCode = nil }),
			want: Plan{Step: Finish{Outcome: OutcomeLeadLost}, State: StateFailed},
		},
		"before its command, that ends the attempt": {
			o:    admitted("fuuu", func(o *Observation) { o.Brokers[0].ExitCode = nil }),
			want: Plan{Step: GiveUp{NotBefore: noon.Add(30 * time.Second)}, State: StateReleasing},
		},
		"one that leaves is waited for: it may tell its exit code": {
			o:    admitted("luuu", started),
			want: Plan{Step: Wait{}, State: StateRunning, LookAgain: noon.Add(time.Hour + time.Second)},
		},
		"not for ever: its node may have no power": {
			o:     admitted("luuu", func(o *Observation) { started(o); o.Brokers[0].GoneBy = noon.Add(30 * time.Second) }),
			after: time.Minute,
			want:  Plan{Step: Wait{}, State: StateRunning, LookAgain: noon.Add(90 * time.Second)},
		},
		"a minute longer than its grace period": {
			o:     admitted("luuu", func(o *Observation) { started(o); o.Brokers[0].GoneBy = noon.Add(30 * time.Second) }),
			after: 90 * time.Second,
			want:  Plan{Step: Finish{Outcome: OutcomeLeadLost}, State: StateFailed},
		},
		"a lead that never came to its command says where it failed": {
			o:    admitted("fccc", func(o *Observation) { o.Brokers[0].FailedIn = "the lead's init container view" }),
			want: Plan{Step: Finish{Outcome: OutcomeCommandFailed}, State: StateFailed, Message: "the lead's init container view failed with exit code 3 before the command began"},
		},
		"the exit code of a lead that never came to its command is not the command's": {
			o:    admitted("fuuu", nil),
			want: Plan{Step: Finish{Outcome: OutcomeCommandFailed}, State: StateFailed, Message: "the lead's container failed with exit code 3 before the command began"},
		},
		"a command that failed before it was seen running is recorded as started": {
			o:    admitted("fuuu", func(o *Observation) { o.ToldBegan = true }),
			want: Plan{Step: Start{Quorum: 4}, State: StateRunning, Message: "3 of 4 brokers up"},
		},
		"what has ended before it was suspended has ended": {
			o:    admitted("suuu", func(o *Observation) { started(o); o.Policy.Suspend = true }),
			want: Plan{Step: Finish{Outcome: OutcomeSucceeded, ExitCode: new(0)}, State: StateSucceeded},
		},
		"a success counts though its attempt had been ended": {
			o:    waiting(func(o *Observation) { o.Workload = Completed }),
			want: Plan{Step: Finish{Outcome: OutcomeSucceeded, ExitCode: new(0)}, State: StateSucceeded},
		},
		"the end of an earlier attempt is none": {
			o:    admitted("suuu", func(o *Observation) { o.Workload = Stale }),
			want: Plan{Step: Release{}, State: StateReleasing},
		},
		"what cannot be made is given up too": {
			o: admitted("----", func(o *Observation) { o.Workload = Absent }), after: 5 * time.Minute,
			want: Plan{Step: GiveUp{NotBefore: noon.Add(5*time.Minute + 30*time.Second)}, State: StateReleasing},
		},
		"so is what cannot be placed": {
			o: admitted("gggg", nil), after: 5 * time.Minute,
			want: Plan{Step: GiveUp{NotBefore: noon.Add(5*time.Minute + 30*time.Second)}, State: StateReleasing},
		},
		"enough are up for fewer, whose lead may begin just then": {
			o: admitted("uugg", nil), after: 5 * time.Minute,
			want: Plan{Step: LowerQuorum{Quorum: 2, Leaving: []int{2, 3}}, State: StateStarting},
		},
		"and is given up a moment later": {
			o: admitted("uugg", nil), after: 5*time.Minute + seenGrace,
			want: Plan{Step: GiveUp{NotBefore: noon.Add(5*time.Minute + seenGrace + 30*time.Second)}, State: StateReleasing},
		},
		"also while the lead is to be told something": {
			o: admitted("uuuu", func(o *Observation) { o.Published = 0 }), after: 5*time.Minute + seenGrace,
			want: Plan{Step: GiveUp{NotBefore: noon.Add(5*time.Minute + seenGrace + 30*time.Second)}, State: StateReleasing},
		},
		"its time is up though a pod cannot be placed": {
			o: admitted("uugu", started), after: 61 * time.Minute,
			want: Plan{Step: Finish{Outcome: OutcomeDeadlineExceeded}, State: StateFailed},
		},
		"one that is lost under a command whose start is not written down is not": {
			o:    admitted("rugu", nil),
			want: Plan{Step: Start{Quorum: 4}, State: StateRunning, Message: "3 of 4 brokers up"},
		},
		"but counts as lost then": {
			o:    admitted("rugu", started),
			want: Plan{Step: Lose{Ranks: []int{2}}, State: StateRunning, LookAgain: noon.Add(30 * time.Second)},
		},
		"one that is lost before its command is placed again": {
			o:    admitted("gcuu", nil),
			want: Plan{Step: Place{Ranks: []int{0}, Quorum: 4}, State: StateStarting},
		},
		"followers that fail too often are the end": {
			o:    admitted("uuff", func(o *Observation) { started(o); o.Workload = Broken }),
			want: Plan{Step: Finish{Outcome: OutcomeWorkersFailed}, State: StateFailed},
		},
		"so is a workload that somebody removed under the command": {
			o:    admitted("----", func(o *Observation) { started(o); o.Workload = Absent }),
			want: Plan{Step: Finish{Outcome: OutcomeLeadLost}, State: StateFailed},
		},
		"at the end its own policies end the rest": {
			o:    admitted("suuu", func(o *Observation) { o.Outcome, o.Workload = OutcomeSucceeded, Active }),
			want: Plan{Step: Wait{}, State: StateSucceeded},
		},
		"a command that may go on is told to stop": {
			o:    admitted("ruuu", func(o *Observation) { o.Outcome, o.Ended = OutcomeDeadlineExceeded, noon }),
			want: Plan{Step: Stop{Reason: "DeadlineExceeded", Grace: killGrace}, State: StateFailed, LookAgain: noon.Add(time.Second)},
		},
		"it has a while for it": {
			o:    admitted("ruuu", func(o *Observation) { o.Outcome, o.Ended, o.Stopped = OutcomeDeadlineExceeded, noon, true }),
			want: Plan{Step: Wait{}, State: StateFailed, LookAgain: noon.Add(30 * time.Second)},
		},
		"and then goes without its log": {
			o:     admitted("ruuu", func(o *Observation) { o.Outcome, o.Ended, o.Stopped = OutcomeDeadlineExceeded, noon, true }),
			after: 30 * time.Second,
			want:  Plan{Step: Release{}, State: StateFailed},
		},
		"when it has stopped, the workload ends by itself": {
			o: admitted("fuuu", func(o *Observation) { o.Outcome, o.Ended, o.Stopped = OutcomeDeadlineExceeded, noon, true }), after: time.Minute,
			want: Plan{Step: Wait{}, State: StateFailed},
		},
		"a lead that was lost has nothing to stop": {
			o:    admitted("luuu", func(o *Observation) { o.Outcome, o.Ended = OutcomeLeadLost, noon }),
			want: Plan{Step: Release{}, State: StateFailed},
		},
		"or have begun anew with the lead": {
			o:    admitted("guuu", func(o *Observation) { o.Outcome = OutcomeCommandFailed }),
			want: Plan{Step: Release{}, State: StateFailed},
		},
		"pods of followers that have ended are removed": {
			o: admitted("sss-", func(o *Observation) {
				o.Outcome, o.Workload, o.Done, o.Ended = OutcomeSucceeded, Completed, 2, noon
			}), after: tidyDelay,
			want: Plan{Step: Tidy{}, State: StateSucceeded},
		},
		"after a while": {
			o: admitted("sss-", func(o *Observation) {
				o.Outcome, o.Workload, o.Done, o.Ended = OutcomeSucceeded, Completed, 2, noon.Add(time.Second)
			}), after: tidyDelay,
			want: Plan{Step: Wait{}, State: StateSucceeded, LookAgain: noon.Add(time.Second + tidyDelay)},
		},
		"not before the workload is done: it would make them again": {
			o:    admitted("sss-", func(o *Observation) { o.Outcome, o.Workload, o.Done = OutcomeSucceeded, Active, 2 }),
			want: Plan{Step: Wait{}, State: StateSucceeded},
		},
		"cleanup waits until no pod holds a node": {
			o: admitted("sul-", func(o *Observation) {
				o.Outcome, o.Workload, o.Policy.TTL = OutcomeSucceeded, Completed, new(time.Duration)
			}),
			want: Plan{Step: Wait{}, State: StateSucceeded},
		},
		"and then removes it": {
			o: admitted("s---", func(o *Observation) {
				o.Outcome, o.Workload, o.Policy.TTL = OutcomeCommandFailed, Broken, new(time.Duration)
			}),
			want: Plan{Step: Remove{}, State: StateFailed},
		},
		"or stays as long as it was said": {
			o: admitted("s---", func(o *Observation) {
				o.Outcome, o.Workload, o.Policy.TTL, o.Ended = OutcomeSucceeded, Completed, new(time.Hour), noon
			}), after: 59 * time.Minute,
			want: Plan{Step: Wait{}, State: StateSucceeded, LookAgain: noon.Add(time.Hour)},
		},
		"and no longer": {
			o: admitted("s---", func(o *Observation) {
				o.Outcome, o.Workload, o.Policy.TTL, o.Ended = OutcomeSucceeded, Completed, new(time.Hour), noon
			}), after: time.Hour,
			want: Plan{Step: Remove{}, State: StateSucceeded},
		},
		"brokers that are lost are written down, and the command may end by itself": {
			o:    admitted("ru-u", started),
			want: Plan{Step: Lose{Ranks: []int{2}}, State: StateRunning, LookAgain: noon.Add(30 * time.Second), Message: "1 of 4 brokers were lost while the command ran: rank 2 on n2"},
		},
		"the node of a follower goes that has ended well": {
			o: admitted("rsuu", func(o *Observation) {
				started(o)
				o.Brokers[1].NodeGone = true
			}), after: 31 * time.Second,
			want: Plan{Step: Wait{}, State: StateRunning, LookAgain: noon.Add(time.Hour + time.Second)},
		},
		"for half a minute, and the lost ones are not placed again": {
			o:     admitted("rugu", lost(2)),
			after: 29 * time.Second,
			want:  Plan{Step: Wait{}, State: StateRunning, LookAgain: noon.Add(30 * time.Second)},
		},
		"then it has failed": {
			o:     admitted("rugu", lost(2)),
			after: 30 * time.Second,
			want:  Plan{Step: Finish{Outcome: OutcomeBrokersLost}, State: StateFailed, Message: "1 of 4 brokers were lost while the command ran: rank 2 on n2"},
		},
		"ended by itself it tells its exit code": {
			o: admitted("fugu", lost(2)), after: time.Second,
			want: Plan{Step: Finish{Outcome: OutcomeCommandFailed, ExitCode: new(3)}, State: StateFailed, Message: "the command failed with exit code 3 after 1 of 4 brokers were lost while the command ran: rank 2 on n2"},
		},
		"and why the kubelet took a broker away": {
			o:    admitted("ruuf", func(o *Observation) { started(o); o.Brokers[3].Evicted = "the volume is full" }),
			want: Plan{Step: Lose{Ranks: []int{3}}, State: StateRunning, LookAgain: noon.Add(30 * time.Second), Message: "1 of 4 brokers were lost while the command ran: rank 3 on n3 (evicted: the volume is full)"},
		},
		"or the lead": {
			o: admitted("fuuu", func(o *Observation) {
				started(o)
				o.Brokers[0].ExitCode, o.Brokers[0].Evicted = nil, "the volume is full"
			}),
			want: Plan{Step: Finish{Outcome: OutcomeLeadLost}, State: StateFailed, Message: "the lead's pod was evicted (the volume is full) while the command ran"},
		},
		"or it is tried again": {
			o: admitted("ruuf", func(o *Observation) { recreates(o); lost(3)(o) }), after: 31 * time.Second,
			want: Plan{Step: GiveUp{NotBefore: noon.Add(61 * time.Second), Avoid: []string{"n3"}}, State: StateReleasing, Message: "1 of 4 brokers were lost while the command ran: rank 3 on n3"},
		},
		"with the lead too": {
			o: admitted("-uuu", recreates), after: time.Second,
			want: Plan{Step: GiveUp{NotBefore: noon.Add(31 * time.Second), Avoid: []string{"n0"}}, State: StateReleasing, Message: "the lead's pod was lost while the command ran"},
		},
		"as often as it may": {
			o: admitted("luuf", func(o *Observation) { recreates(o); lost(3)(o); o.GivenUp = 2 }), after: 31 * time.Second,
			want: Plan{Step: Finish{Outcome: OutcomeBrokersLost}, State: StateFailed, Message: "1 of 4 brokers were lost while the command ran: rank 3 on n3, in attempt 3 of 3"},
		},
		"a command that failed since it lost a broker is tried again": {
			o: admitted("fuuu", func(o *Observation) { recreates(o); o.Brokers[2].NodeGone = true }), after: time.Second,
			want: Plan{Step: GiveUp{NotBefore: noon.Add(31 * time.Second), Avoid: []string{"n2"}}, State: StateReleasing, Message: "the command failed with exit code 3 after 1 of 4 brokers were lost while the command ran: rank 2 on n2"},
		},
		"and one that failed again, after it had failed while it wrote a checkpoint": {
			o: admitted("fuuu", func(o *Observation) { recreates(o); o.ToldRetried = true }), after: time.Second,
			want: Plan{Step: GiveUp{NotBefore: noon.Add(31 * time.Second)}, State: StateReleasing, Message: "the command failed with exit code 3 after it had failed while it wrote a checkpoint"},
		},
		"in the same second, too": {
			o: admitted("fuuf", recreates), after: time.Second,
			want: Plan{Step: GiveUp{NotBefore: noon.Add(31 * time.Second), Avoid: []string{"n3"}}, State: StateReleasing, Message: "the command failed with exit code 3 after 1 of 4 brokers were lost while the command ran: rank 3 on n3"},
		},
		"a command whose memory was not enough says so": {
			o: admitted("fuuu", func(o *Observation) {
				started(o)
				o.Brokers[0].ExitCode, o.Brokers[0].OutOfMemory = new(137), true
			}), after: time.Second,
			want: Plan{Step: Finish{Outcome: OutcomeCommandFailed, ExitCode: new(137)}, State: StateFailed, Message: "the command failed with exit code 137 (OOMKilled: the lead's container reached its memory limit)"},
		},
		"before the command began the attempt did not start": {
			o: admitted("fg..", func(o *Observation) {
				o.Brokers[0].ExitCode, o.Brokers[0].OutOfMemory, o.Policy.RecreateLimit = new(137), true, 0
			}), after: time.Second,
			want: Plan{Step: Finish{Outcome: OutcomeStartLimit}, State: StateFailed},
		},
		"and so does a loss by it": {
			o:    admitted("ruuf", func(o *Observation) { started(o); o.Brokers[3].OutOfMemory = true }),
			want: Plan{Step: Lose{Ranks: []int{3}}, State: StateRunning, LookAgain: noon.Add(30 * time.Second), Message: "1 of 4 brokers were lost while the command ran: rank 3 on n3 (OOMKilled: it reached its memory limit)"},
		},
		"also one whose start nobody saw": {
			o: admitted("fuuf", func(o *Observation) { recreates(o); o.Started = time.Time{} }), after: time.Second,
			want: Plan{Step: GiveUp{NotBefore: noon.Add(31 * time.Second), Avoid: []string{"n3"}}, State: StateReleasing},
		},
		"whose pod is no more, as the lead says": {
			o: admitted("f---", func(o *Observation) { recreates(o); o.ToldLost = []int{2} }), after: time.Second,
			want: Plan{Step: GiveUp{NotBefore: noon.Add(31 * time.Second), Avoid: []string{"n2"}}, State: StateReleasing, Message: "the command failed with exit code 3 after 1 of 4 brokers were lost while the command ran: rank 2 on n2"},
		},
		"which may be known only later": {
			o: admitted("fuuu", recreates), after: time.Minute,
			want: Plan{Step: Wait{}, State: StateRunning, LookAgain: noon.Add(70 * time.Second), Message: "the command failed with exit code 3; waits for news of lost nodes"},
		},
		"of a node that is down": {
			o: admitted("fuuu", func(o *Observation) { recreates(o); o.Brokers[1].NodeDown = true }), after: time.Minute,
			want: Plan{Step: GiveUp{NotBefore: noon.Add(90 * time.Second), Avoid: []string{"n1"}}, State: StateReleasing},
		},
		"which alone is avoided, and not where brokers ended with the lead": {
			o: admitted("f-lf", func(o *Observation) {
				recreates(o)
				o.Brokers[2].NodeDown, o.Brokers[3].EndedAt = true, noon.Add(11*time.Second)
			}), after: time.Minute,
			want: Plan{Step: GiveUp{NotBefore: noon.Add(90 * time.Second), Avoid: []string{"n2"}}, State: StateReleasing},
		},
		"with the last attempt it tells its exit code": {
			o: admitted("fuuu", func(o *Observation) { recreates(o); o.Brokers[1].NodeDown, o.GivenUp = true, 2 }), after: time.Minute,
			want: Plan{Step: Finish{Outcome: OutcomeCommandFailed, ExitCode: new(3)}, State: StateFailed},
		},
		"not one whose brokers were ended after it": {
			o:     admitted("fuuf", func(o *Observation) { recreates(o); o.Brokers[3].DeletedAt = noon.Add(10 * time.Second) }),
			after: 70 * time.Second,
			want:  Plan{Step: Finish{Outcome: OutcomeCommandFailed, ExitCode: new(3)}, State: StateFailed},
		},
		"but one that was evicted was lost before": {
			o: admitted("fuuf", func(o *Observation) {
				recreates(o)
				o.Brokers[3].EndedAt, o.Brokers[3].Evicted = noon.Add(time.Minute), "no memory"
			}), after: time.Minute,
			want: Plan{
				Step: GiveUp{NotBefore: noon.Add(time.Minute + 30*time.Second), Avoid: []string{"n3"}}, State: StateReleasing,
				Message: "the command failed with exit code 3 after 1 of 4 brokers were lost while the command ran: rank 3 on n3 (evicted: no memory)",
			},
		},
		"nor one whose rank has another broker since": {
			after: 70 * time.Second,
			o:     admitted("fuuu", func(o *Observation) { recreates(o); o.Brokers[3].Evicted = "no memory" }),
			want:  Plan{Step: Finish{Outcome: OutcomeCommandFailed, ExitCode: new(3)}, State: StateFailed},
		},
		"or failed after it": {
			after: 70 * time.Second,
			o:     admitted("fuuf", func(o *Observation) { recreates(o); o.Brokers[3].EndedAt = noon.Add(time.Minute) }),
			want:  Plan{Step: Finish{Outcome: OutcomeCommandFailed, ExitCode: new(3)}, State: StateFailed},
		},
		"a pod that does not start may do so yet": {
			o: admitted("uutu", nil), after: 14 * time.Second,
			want: Plan{Step: Wait{}, State: StateStarting, LookAgain: noon.Add(15 * time.Second), Message: "3 of 4 brokers up; rank 2 on n2: ImagePullBackOff"},
		},
		"then it gets another node": {
			o: admitted("uutu", func(o *Observation) { o.Order = elastic.Move{Pods: []elastic.Pod{{Rank: 2, Node: "n9"}}} }), after: 15 * time.Second,
			want: Plan{Step: Move{Pods: []elastic.Pod{{Rank: 2, Node: "n9"}}, Avoid: []string{"n2"}}, State: StateStarting, Message: "other nodes for 1 broker: rank 2 on n2 (ImagePullBackOff) could not start"},
		},
		"if there is one": {
			o: admitted("uutu", nil), after: 25 * time.Second,
			want: Plan{Step: LowerQuorum{Quorum: 3, Leaving: []int{2}, Avoid: []string{"n2"}}, State: StateStarting, Message: "starts with 3 brokers: 1 of 4 brokers cannot start; rank 2 on n2: ImagePullBackOff"},
		},
		"one, and no more": {
			o: admitted("uutu", func(o *Observation) { o.Admission.Moved = []int{2} }), after: 15 * time.Second,
			want: Plan{Step: LowerQuorum{Quorum: 3, Leaving: []int{2}, Avoid: []string{"n2"}}, State: StateStarting},
		},
		"those that still come are waited for": {
			o: admitted("uuct", nil), after: 25 * time.Second,
			want: Plan{Step: Wait{}, State: StateStarting, LookAgain: noon.Add(time.Minute)},
		},
		"where too few can come it gives up at once": {
			o: admitted("uttt", nil), after: 25 * time.Second,
			want: Plan{Step: GiveUp{NotBefore: noon.Add(55 * time.Second)}, State: StateReleasing, Message: "3 of 4 brokers cannot start; rank 1 on n1: ImagePullBackOff"},
		},
		"where none can it avoids the nodes": {
			o: admitted("tttt", nil), after: 25 * time.Second,
			want: Plan{Step: GiveUp{NotBefore: noon.Add(55 * time.Second), Avoid: []string{"n0", "n1", "n2", "n3"}}, State: StateReleasing},
		},
		"and where the lead cannot": {
			o: admitted("tuuu", nil), after: 25 * time.Second,
			want: Plan{Step: GiveUp{NotBefore: noon.Add(55 * time.Second), Avoid: []string{"n0"}}, State: StateReleasing},
		},
		"a follower that ended with an earlier lead never comes again": {
			o: admitted("uusu", func(o *Observation) { o.Brokers[2].EndedAt = noon }), after: 30 * time.Second,
			want: Plan{Step: LowerQuorum{Quorum: 3, Leaving: []int{2}, Avoid: []string{"n2"}}, State: StateStarting},
		},
		"it may have ended with the command": {
			o: admitted("uusu", func(o *Observation) { o.Brokers[2].EndedAt = noon }), after: 29 * time.Second,
			want: Plan{Step: Wait{}, State: StateStarting, LookAgain: noon.Add(30 * time.Second)},
		},
		"the next attempt may have to be smaller": {
			o: admitted("uccc", func(o *Observation) { o.Policy.Shrink = true }), after: 5 * time.Minute,
			want: Plan{Step: GiveUp{NotBefore: noon.Add(5*time.Minute + 30*time.Second), Most: 3}, State: StateReleasing},
		},
		"its size is lowered": {
			o:    admitted("ruuu", func(o *Observation) { bears(o); o.Policy.Want = 2 }),
			want: Plan{Step: Drain{Ranks: []int{2, 3}, Quorum: 4, Deadline: noon.Add(30 * time.Second)}, State: StateRunning, LookAgain: noon.Add(30 * time.Second), Message: "2 of 4 brokers leave since the size is 2 now"},
		},
		"those that are not up leave first": {
			o:    admitted("rcuu", func(o *Observation) { bears(o); o.Policy.Want = 3 }),
			want: Plan{Step: Drain{Ranks: []int{1}, Quorum: 4, Deadline: noon.Add(30 * time.Second)}, State: StateRunning, LookAgain: noon.Add(30 * time.Second)},
		},
		"the user may go below the minimum, not below the lead": {
			o:    admitted("ruuu", func(o *Observation) { bears(o); o.Policy.Want = 1 }),
			want: Plan{Step: Drain{Ranks: []int{1, 2, 3}, Quorum: 4, Deadline: noon.Add(30 * time.Second)}, State: StateRunning, LookAgain: noon.Add(30 * time.Second), Message: "3 of 4 brokers leave since the size is 1 now, less than the minimum of 2"},
		},
		"a command that does not bear it goes on": {
			o:    admitted("ruuu", func(o *Observation) { started(o); o.Policy.Want = 2 }),
			want: Plan{Step: Wait{}, State: StateRunning, LookAgain: noon.Add(time.Hour + time.Second)},
		},
		"before it starts any has another size": {
			o:    admitted("uccc", func(o *Observation) { o.Policy.Want = 2 }),
			want: Plan{Step: Drain{Ranks: []int{2, 3}, Quorum: 2}, State: StateStarting},
		},
		"not below the minimum, which Flux waits for": {
			o:    admitted("uccc", func(o *Observation) { o.Policy.Want, o.Policy.Malleable = 1, true }),
			want: Plan{Step: Wait{}, State: StateStarting, LookAgain: noon.Add(time.Minute)},
		},
		"where most are in trouble, sooner or later, none gets another node": {
			o: admitted("uttt", func(o *Observation) {
				o.Brokers[2].TroubleSince, o.Brokers[3].TroubleSince = noon.Add(5*time.Second), noon.Add(5*time.Second)
				o.Order = elastic.Move{Pods: []elastic.Pod{{Rank: 1, Node: "n9"}}}
			}), after: 15 * time.Second,
			want: Plan{Step: Wait{}, State: StateStarting, LookAgain: noon.Add(20 * time.Second)},
		},
		"brokers that succeed end before the lead does": {
			o:    admitted("rses", started),
			want: Plan{Step: Wait{}, State: StateRunning, LookAgain: noon.Add(time.Hour + time.Second), Message: "4 of 4 brokers up"},
		},
		"a loss that was none is forgotten": {
			o:     admitted("ruuu", lost(2)),
			after: time.Minute,
			want:  Plan{Step: Wait{}, State: StateRunning, LookAgain: noon.Add(time.Hour + time.Second), Message: "4 of 4 brokers up"},
		},
		"another one counts anew": {
			o:     admitted("rugf", lost(2)),
			after: time.Minute,
			want:  Plan{Step: Lose{Ranks: []int{2, 3}}, State: StateRunning, LookAgain: noon.Add(90 * time.Second)},
		},
		"a rank that comes, and does not start there, is none": {
			o:    admitted("rulu", func(o *Observation) { started(o); o.Policy.Malleable, o.Brokers[2].Misplaced = true, true }),
			want: Plan{Step: Wait{}, State: StateRunning, LookAgain: noon.Add(time.Hour + time.Second)},
		},
		"followers have a moment to join a lead that came late": {
			o:     admitted("uccc", func(o *Observation) { o.Brokers[0].Since = noon.Add(2 * time.Minute) }),
			after: 2*time.Minute + 14*time.Second,
			want:  Plan{Step: Wait{}, State: StateStarting, LookAgain: noon.Add(2*time.Minute + 15*time.Second)},
		},
		"one that a lead may have seen keeps its node": {
			o:     admitted("ruuc", func(o *Observation) { o.Brokers[3].Since = noon }),
			after: 3 * time.Minute,
			want:  Plan{Step: Start{Quorum: 4}, State: StateRunning},
		},
		"a lead that never comes is to blame": {
			o: admitted("cccc", nil), after: 5 * time.Minute,
			want: Plan{Step: GiveUp{NotBefore: noon.Add(5*time.Minute + 30*time.Second), Avoid: []string{"n0"}}, State: StateReleasing, Message: "0 of 4 brokers came up within 5m0s, not the lead's on n0, which the others wait for"},
		},
		"those that leave have time for their work": {
			o: admitted("ruiu", func(o *Observation) {
				bears(o)
				o.Admission.Draining, o.PublishedDrain = &Draining{Ranks: []int{2, 3}, Deadline: noon.Add(time.Minute)}, []int{2, 3}
			}),
			want: Plan{Step: Wait{}, State: StateRunning, LookAgain: noon.Add(time.Minute)},
		},
		"and leave when they have none": {
			o: admitted("ruii", func(o *Observation) {
				bears(o)
				o.Admission.Draining, o.PublishedDrain = &Draining{Ranks: []int{2, 3}, Deadline: noon.Add(time.Minute)}, []int{2, 3}
			}),
			want: Plan{Step: Vacate{Ranks: []int{2, 3}, Quorum: 4}, State: StateRunning, Message: "2 brokers gave nodes back, 2 remain"},
		},
		"one that was to join and cannot gives its node back": {
			o: admitted("ruut", bears), after: 25 * time.Second,
			want: Plan{Step: Vacate{Ranks: []int{3}, Quorum: 4, Avoid: []string{"n3"}}, State: StateRunning},
		},
		"the services pod waits until all brokers are bound": {
			o:    admitted("cccc", services(0, 1, 2)),
			want: Plan{Step: Wait{}, State: StateStarting, LookAgain: noon.Add(time.Second)},
		},
		"and goes then": {
			o:    admitted("cccc", services(0, 1, 2, 3)),
			want: Plan{Step: ReleaseServices{}, State: StateStarting, LookAgain: noon.Add(time.Second)},
		},
		"one that cannot be bound is not waited for": {
			o:    admitted("cccc", func(o *Observation) { services(0, 1, 2)(o); o.Brokers[3].Unbindable = true }),
			want: Plan{Step: ReleaseServices{}, State: StateStarting, LookAgain: noon.Add(time.Second)},
		},
		"nor is one whose rank gave its node back": {
			o: admitted("cccg", func(o *Observation) {
				services(0, 1, 2)(o)
				o.Admission.Vacated, o.Admission.Quorum, o.Published, o.PublishedDrain = []int{3}, 3, 3, []int{3}
			}),
			want: Plan{Step: ReleaseServices{}, State: StateStarting, LookAgain: noon.Add(time.Second)},
		},
		"nobody is when the command runs": {
			o:    admitted("ru-u", func(o *Observation) { bears(o); services()(o) }),
			want: Plan{Step: ReleaseServices{}, State: StateRunning, LookAgain: noon.Add(time.Second)},
		},
		"and it starts with fewer meanwhile": {
			o: admitted("uucu", services(0, 1, 2, 3)), after: time.Minute,
			want: Plan{Step: LowerQuorum{Quorum: 3, Leaving: []int{2}}, State: StateStarting},
		},
		"or gives up": {
			o: admitted("uccc", services(0, 1, 2, 3)), after: 5 * time.Minute,
			want: Plan{Step: GiveUp{NotBefore: noon.Add(5*time.Minute + 30*time.Second)}, State: StateReleasing},
		},
		"that all pods are placed comes first": {
			o:    admitted("ccgc", services(0, 1, 2, 3)),
			want: Plan{Step: Place{Ranks: []int{2}, Quorum: 4}, State: StateStarting},
		},
		"what has ended is not suspended": {
			o: admitted("s---", func(o *Observation) {
				o.Outcome, o.Workload, o.Policy.Suspend = OutcomeSucceeded, Completed, true
			}),
			want: Plan{Step: Wait{}, State: StateSucceeded},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := Decide(tc.o, noon.Add(tc.after))
			if tc.want.Message == "" {
				got.Message = ""
			}
			if show := diff(tc.want, got); show != "" {
				t.Errorf("it decides otherwise (-want +got):\n%s", show)
			}
		})
	}
}

// A MiniCluster is queued while pods of its last attempt are stranded, once their time is up.
func TestWaitsBesideStrandedPods(t *testing.T) {
	o := &Observation{Policy: policy4, Existing: 1, Stranded: 1, StrandedBy: noon}
	if o.Waits(noon.Add(-time.Second)) || !o.Waits(noon) {
		t.Errorf("it waits before their time is up: %v, and then: %v", o.Waits(noon.Add(-time.Second)), o.Waits(noon))
	}
	o.Leftover = 1
	if o.Waits(noon) {
		t.Error("it waits although another pod is left")
	}
}

// diff is what differs; no ranks are the same as none.
func diff(want, got any) string { return cmp.Diff(want, got, cmpopts.EquateEmpty()) }

// show is a plan as text: the same for the same plan.
func show(p Plan) string {
	text, err := json.Marshal(p)
	if err != nil {
		return err.Error()
	}
	return Name(p.Step) + " " + string(text)
}
