// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"cmp"
	"fmt"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// Appoint records which pod is the lead of the attempt, before that pod is placed: if somebody deletes its Job or its JobSet
// while no manager looks, another pod of rank 0 is not taken for the lead.
type Appoint struct{ Lead string }

func (Appoint) step() {}

func (s Appoint) apply(r *Record, _ string, _ time.Time) { r.Admission.Lead = s.Lead }

// Place pins the pods of ranks to their nodes and removes their scheduling gates.
type Place struct {
	Ranks []int
	// Quorum and Again are written on the lead's pod in the same patch.
	Quorum int
	Again  Again
}

func (Place) step() {}

// ReleaseServices removes the scheduling gate of the services pod.
type ReleaseServices struct{}

func (ReleaseServices) step() {}

// unplaced places all pods at once, and none before all exist, so that no part of a gang holds
// nodes. Later, a pod that was replaced returns to its rank's node.
func unplaced(o *Observation, now time.Time) *Plan {
	gated, missing, placed, stranded := o.placement()
	deadline := o.Admission.At.Add(o.Policy.StartTimeout)
	switch {
	case placed == 0 && stranded > 0:
		return &Plan{Step: Withdraw{}, State: StateReleasing, Message: "a node that was chosen is gone"}
	case !o.begun() && !now.Before(deadline):
		return nil // it could not be placed in time
	case placed == 0 && missing > 0:
		message := fmt.Sprintf("%d of %d pods made", o.members()-missing, o.members())
		plan := &Plan{Step: Wait{}, State: o.state(), Message: message}
		if !o.begun() {
			plan.LookAgain = deadline
		}
		return plan
	case len(gated) > 0 && (placed > 0 || missing == 0):
		return o.place(gated, deadline)
	}
	return nil
}

// place places the pods of some ranks. It is recorded first which pod is the lead.
func (o *Observation) place(ranks []int, deadline time.Time) *Plan {
	plan := &Plan{Step: Place{Ranks: ranks, Quorum: o.Admission.Quorum, Again: o.again()}, State: o.state(), Message: "places its pods"}
	if ranks[0] == 0 && o.Admission.Lead == "" {
		plan.Step, plan.LookAgain = Appoint{Lead: o.Lead}, deadline
	}
	return plan
}

// placement sorts the brokers into ranks to place and counts those without a pod, those placed,
// and those that wait for a node that is gone. Ranks that leave or were lost count as none of
// these.
func (o *Observation) placement() (gated []int, missing, placed, stranded int) {
	for rank, broker := range o.Brokers {
		switch {
		case o.leaves(rank), o.wasLost(rank) && o.Policy.OnLoss != LossContinue:
		case broker.State == Missing:
			missing++
		case broker.State != Gated:
			placed++
		case broker.NotStarted != "": // the rank needs another node
		case broker.NodeGone:
			stranded++
		default:
			gated = append(gated, rank)
		}
	}
	return gated, missing, placed, stranded
}

// servicesInterval is the interval of checks whether the brokers are bound. The binding of a pod
// triggers no reconcile.
const servicesInterval = time.Second

// serving places the services pod once the brokers run, or are bound as far as nodes exist for
// them. Earlier it could take the room that was meant for a broker.
func serving(o *Observation, now time.Time) *Plan {
	if !o.ServicesGated || (!o.begun() && !o.bound()) {
		return nil
	}
	return &Plan{Step: ReleaseServices{}, State: o.state(), Message: o.progress(), LookAgain: o.lookForServices(now)}
}

// bound reports whether all pods that can be bound are bound. A rank that leaves is not placed, so its pod is not
// waited for.
func (o *Observation) bound() bool {
	return len(o.ranks(func(rank int, b Broker) bool { return !b.Bound && !b.Unbindable && !o.leaves(rank) })) == 0
}

// lookForServices is when to check whether the services pod can be placed; zero if none waits.
func (o *Observation) lookForServices(now time.Time) time.Time {
	if !o.ServicesGated {
		return time.Time{}
	}
	return now.Add(servicesInterval)
}

func waitingForBrokers(o *Observation, now time.Time) *Plan {
	plan := &Plan{Step: Wait{}, State: StateStarting, Message: o.progress(), LookAgain: startDeadline(o, now)}
	if quorum := o.quorumDeadline(); now.Before(quorum) {
		plan.LookAgain = elastic.Earliest(plan.LookAgain, quorum)
	}
	plan.LookAgain = elastic.Earliest(plan.LookAgain, o.drainDeadline(), o.nextRepair(now), o.nextOrder(now), o.lookForServices(now))
	return plan
}

func (o *Observation) progress() string {
	return fmt.Sprintf("%d of %d brokers up%s", o.Up(), o.members(), o.trouble())
}

// trouble says what keeps the first broker with trouble from starting.
func (o *Observation) trouble() string {
	for rank, b := range o.Brokers {
		if why := cmp.Or(b.Trouble, b.NotStarted); why != "" && !o.leaves(rank) {
			return fmt.Sprintf("; rank %d on %s: %s", rank, o.Admission.Nodes[rank], why)
		}
	}
	return ""
}

// leaveText says how many brokers leave, for users.
func leaveText(n int) string {
	if n == 1 {
		return "1 broker leaves"
	}
	return brokersText(n) + " leave"
}

// brokersText counts brokers, for users.
func brokersText(n int) string { return elastic.Several(n, "broker") }
