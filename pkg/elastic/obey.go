// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

const (
	// drainGrace is how long ranks that are asked to leave a running command have.
	drainGrace = 30 * time.Second
	// bindGrace is how long kube-scheduler is left alone with a pod: it may only not
	// have seen yet that the pod before has gone.
	bindGrace = 5 * time.Second
	// repairTimeout is how long a gang that has not started waits for other nodes for
	// pods that cannot be bound.
	repairTimeout = 30 * time.Second
)

func evicted(o *Observation, _ time.Time) *Plan {
	if o.Order == nil || o.Order.Evict == "" {
		return nil
	}
	return &Plan{Step: Evict, State: StateReleasing, Reason: o.Order.EvictReason, Message: o.Order.Evict}
}

// evicting removes pods from nodes that are not their ranks' any more. Nodes count as
// held as long as pods hold them.
func evicting(o *Observation, _ time.Time) *Plan {
	var ranks []int
	for rank, broker := range o.Brokers {
		if (broker.Vacated || broker.Misplaced) && (broker.State == Coming || broker.State == Up) {
			ranks = append(ranks, rank)
		}
	}
	if len(ranks) == 0 {
		return nil
	}
	return &Plan{Step: EvictRanks, State: o.state(), Ranks: ranks, Message: "evicts pods from nodes that were given back"}
}

// vacating gives back the nodes of ranks that were asked to leave, when their time is
// up or nothing of them is left. Before the start they are not awaited any more.
func vacating(o *Observation, now time.Time) *Plan {
	d := o.Admission.Draining
	if d == nil {
		return nil
	}
	if now.Before(d.Deadline) && slices.ContainsFunc(d.Ranks, func(rank int) bool { return holdsNode(o.Brokers[rank].State) }) {
		return nil
	}
	plan := &Plan{Step: Vacate, State: o.state(), Ranks: d.Ranks, Quorum: o.Admission.Quorum}
	remain := o.members() - len(d.Ranks)
	plan.Message = fmt.Sprintf("%d brokers gave their nodes back, %d remain", len(d.Ranks), remain)
	if o.Started.IsZero() && plan.Quorum > remain {
		plan.Quorum = remain
		if size := o.Policy.Sizing.LargestWithin(remain); size > 0 {
			plan.Quorum = size
		}
	}
	return plan
}

// draining asks ranks to leave: never the lead, nobody while others are leaving, and no
// more than there are above the minimum.
func draining(o *Observation, now time.Time) *Plan {
	if o.Order == nil || o.Admission.Draining != nil {
		return nil
	}
	var ranks []int
	for _, rank := range o.Order.Drain {
		if rank <= 0 || rank >= len(o.Brokers) {
			return nil
		}
		if !o.Brokers[rank].Vacated {
			ranks = append(ranks, rank)
		}
	}
	slices.Sort(ranks)
	ranks = slices.Compact(ranks)
	remain := o.members() - len(ranks)
	runs := o.mayRun(now)
	if len(ranks) == 0 || remain < o.Policy.Sizing.Min || (runs && !o.Policy.BearsChange) {
		return nil
	}
	plan := &Plan{Step: DrainRanks, State: o.state(), Ranks: ranks, Deadline: now}
	if runs {
		plan.Deadline = now.Add(drainGrace)
	}
	plan.LookAgain = plan.Deadline
	plan.Message = fmt.Sprintf("%d of %d brokers leave for %s", len(ranks), o.members(), cmp.Or(o.Order.DrainFor, "others"))
	return plan
}

// mayRun reports whether the lead may have begun with its command, whether or not that
// was written down.
func (o *Observation) mayRun(now time.Time) bool {
	if !o.Started.IsZero() {
		return true
	}
	return o.Brokers[0].State == Up && (o.up() >= o.Admission.Quorum || !now.Before(o.Admission.At.Add(o.Policy.QuorumTimeout)))
}

// moving gives ranks other nodes. Their pods are evicted after that, and those that
// replace them are placed on the new nodes.
func moving(o *Observation, now time.Time) *Plan {
	if o.Order == nil {
		return nil
	}
	unbindable := o.Unbindable(now)
	var pods []Pod
	for _, pod := range podsByRank(o.Order.Move) {
		if slices.Contains(unbindable, pod.Rank) && o.Admission.Nodes[pod.Rank] != pod.Node {
			pods = append(pods, pod)
		}
	}
	if len(pods) == 0 {
		return nil
	}
	return &Plan{Step: MoveRanks, State: o.state(), Pods: pods, Message: fmt.Sprintf("%d brokers could not get their nodes, and get others", len(pods))}
}

// growing gives nodes to vacated ranks that hold none any more, and to new ranks that
// follow on those there are.
func growing(o *Observation, _ time.Time) *Plan {
	if o.Order == nil {
		return nil
	}
	var pods []Pod
	next := len(o.Brokers)
	for _, pod := range podsByRank(o.Order.Grow) {
		switch {
		case pod.Rank < 0 || pod.Rank > next:
			return nil
		case pod.Rank == next:
			next++
		case !o.Brokers[pod.Rank].Vacated:
			continue // it has a node
		case holdsNode(o.Brokers[pod.Rank].State):
			return nil // until that pod is gone
		}
		pods = append(pods, pod)
	}
	size := o.members() + len(pods)
	if len(pods) == 0 || size > o.Policy.Max {
		return nil
	}
	plan := &Plan{Step: GrowRanks, State: o.state(), Pods: pods, Quorum: o.Admission.Quorum}
	plan.Message = fmt.Sprintf("grows by %d to %d brokers", len(pods), size)
	if o.Started.IsZero() {
		plan.Quorum = size
	}
	return plan
}

// podsByRank are pods by rank, each rank once.
func podsByRank(pods []Pod) []Pod {
	pods = slices.Clone(pods)
	slices.SortStableFunc(pods, func(a, b Pod) int { return a.Rank - b.Rank })
	return slices.CompactFunc(pods, func(a, b Pod) bool { return a.Rank == b.Rank })
}

// unrepaired gives everything back where pods cannot be bound and there are no other
// nodes for them.
func unrepaired(o *Observation, now time.Time) *Plan {
	if !o.Started.IsZero() {
		return nil
	}
	for rank, broker := range o.Brokers {
		if broker.stuck() && !o.leaves(rank) && !broker.Placed.IsZero() && !now.Before(broker.Placed.Add(repairTimeout)) {
			return &Plan{
				Step: Withdraw, State: StateReleasing,
				Message: fmt.Sprintf("the pod of rank %d could not get its node within %s, and there was no other", rank, repairTimeout),
			}
		}
	}
	return nil
}

// Unbindable are the ranks that need another node: kube-scheduler could not bind their
// pods for a while, the kubelet did not take them, or their node is gone.
func (o *Observation) Unbindable(now time.Time) []int {
	var ranks []int
	for rank, broker := range o.Brokers {
		stuck := broker.stuck() && (broker.State == Failed || !now.Before(broker.Placed.Add(bindGrace)))
		if stranded := broker.NodeGone && broker.State == Gated; (stuck || stranded) && !o.leaves(rank) {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// stuck reports whether the broker's pod cannot get the node that it should have.
func (b Broker) stuck() bool { return b.Unbindable && !b.Misplaced }

// nextUnbindable is when a pod that cannot be bound next needs another look; zero if
// there is none.
func (o *Observation) nextUnbindable(now time.Time) time.Time {
	var next time.Time
	for _, broker := range o.Brokers {
		if !broker.stuck() || broker.Placed.IsZero() {
			continue
		}
		for _, grace := range []time.Duration{bindGrace, repairTimeout} {
			if at := broker.Placed.Add(grace); now.Before(at) {
				next = Earliest(next, at)
			}
		}
	}
	return next
}

// leaves reports whether a rank has given its node back, or is asked to.
func (o *Observation) leaves(rank int) bool {
	d := o.Admission.Draining
	return o.Brokers[rank].Vacated || (d != nil && slices.Contains(d.Ranks, rank))
}

// leavingRanks are those that leave or have left, rising.
func (o *Observation) leavingRanks() []int {
	var ranks []int
	for rank := range o.Brokers {
		if o.leaves(rank) {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// members are the ranks that have a node.
func (o *Observation) members() int {
	n := 0
	for _, broker := range o.Brokers {
		if !broker.Vacated {
			n++
		}
	}
	return n
}

// drainDeadline is when ranks that are asked to leave have to be gone; zero if none are.
func (o *Observation) drainDeadline() time.Time {
	if d := o.Admission.Draining; d != nil {
		return d.Deadline
	}
	return time.Time{}
}
