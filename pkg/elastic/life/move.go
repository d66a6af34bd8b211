// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"
	"slices"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// Move gives ranks other nodes.
type Move struct {
	Pods []elastic.Pod // rising
	// Avoid are the nodes on which the ranks could not start.
	Avoid []string
}

func (Move) step() {}

func (s Move) apply(r *Record, _ string, now time.Time) {
	r.Admission.seat(s.Pods)
	r.Admission.Moved = union(r.Admission.Moved, ranksOf(s.Pods))
	r.avoid(s.Avoid, now)
}

// replaceTimeout is how long the scheduler looks for another node for a pod that does not start.
const replaceTimeout = 10 * time.Second

// moved gives ranks other nodes. Afterwards their pods are evicted, and the new pods are placed
// on the new nodes.
func moved(o *Observation, now time.Time) *Plan {
	order, ordered := o.Order.(elastic.Move)
	if !ordered {
		return nil
	}
	displaced := o.Displaced(now)
	var pods []elastic.Pod
	for _, pod := range podsByRank(order.Pods) {
		if slices.Contains(displaced, pod.Rank) && o.Admission.Nodes[pod.Rank] != pod.Node {
			pods = append(pods, pod)
		}
	}
	if len(pods) == 0 {
		return nil
	}
	ranks := ranksOf(pods)
	if ranks[0] == 0 {
		return o.leadDisplaced(ranks, now)
	}
	message := fmt.Sprintf("other nodes for %s: %s could not start", brokersText(len(pods)), o.where(ranks))
	return &Plan{Step: Move{Pods: pods, Avoid: o.nodesOf(ranks)}, State: o.state(), Message: message}
}

// leadDisplaced ends an attempt whose lead cannot start on its node: an attempt has one lead. It is a failed attempt if
// that happened before.
func (o *Observation) leadDisplaced(ranks []int, now time.Time) *Plan {
	message := "the lead could not start on " + o.Admission.Nodes[0] + o.trouble()
	if len(o.Avoid) > 0 && !o.Brokers[0].hasNoNode(now) {
		return o.giveUp(message, OutcomeStartLimit, now)
	}
	return &Plan{Step: Withdraw{Avoid: o.nodesOf(ranks)}, State: StateReleasing, Message: message}
}

// Displaced are the ranks that need another node: kube-scheduler could not bind their pods for a
// while, the kubelet rejected the pods, their node is gone, or their pods do not start. The last
// may not be the node's fault: such a rank is moved once, and only if most of the gang starts.
func (o *Observation) Displaced(now time.Time) []int {
	inTrouble := o.ranks(func(rank int, b Broker) bool { return !o.leaves(rank) && !b.troubledAt().IsZero() })
	return o.ranks(func(rank int, b Broker) bool {
		at := b.troubledAt()
		replaceable := !at.IsZero() && !now.Before(at) && !o.wasMoved(rank) && o.few(len(inTrouble))
		hasEnded := rank == 0 && b.NotStarted != "" // so has the attempt
		return !o.leaves(rank) && !o.wasLost(rank) && !hasEnded && (b.hasNoNode(now) || replaceable)
	})
}

func (o *Observation) wasMoved(rank int) bool { return slices.Contains(o.Admission.Moved, rank) }

// futile are the ranks whose brokers will not come up, and the number of the others.
func (o *Observation) futile(now time.Time) (ranks []int, others int) {
	for rank := range o.Brokers {
		if o.leaves(rank) {
			continue
		}
		if at := o.futileAt(rank); !at.IsZero() && !now.Before(at) {
			ranks = append(ranks, rank)
		} else {
			others++
		}
	}
	return ranks, others
}

// futileAt is when waiting for a broker becomes futile; zero if the broker may come up. Either
// its pod does not start, and the rank was moved already or no other node is free. Or its pod
// ended with a lead that was lost before the start, and its Job makes no other pod.
func (o *Observation) futileAt(rank int) time.Time {
	b := o.Brokers[rank]
	if b.State == Succeeded && !o.begun() && !b.EndedAt.IsZero() {
		return b.EndedAt.Add(lossGrace) // the end of the command would have been seen by then
	}
	at := b.troubledAt()
	if at.IsZero() || o.wasMoved(rank) {
		return at
	}
	return at.Add(replaceTimeout)
}

// nextRepair is when a pod that does not start has to be looked at again; zero if there is none.
func (o *Observation) nextRepair(now time.Time) time.Time {
	var next time.Time
	later := func(at time.Time) {
		if !at.IsZero() && now.Before(at) {
			next = elastic.Earliest(next, at)
		}
	}
	for rank, broker := range o.Brokers {
		if broker.stuck() && !broker.Placed.IsZero() {
			later(broker.Placed.Add(bindGrace))
			later(broker.Placed.Add(takenTimeout))
			later(broker.Placed.Add(repairTimeout))
		}
		later(broker.troubledAt())
		later(o.futileAt(rank))
	}
	return next
}
