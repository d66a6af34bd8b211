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
	// troubleGrace is how long a pod's trouble may take to pass by itself: an image may come
	// with the second try.
	troubleGrace = 15 * time.Second
	// replaceTimeout is how long after that another node is looked for.
	replaceTimeout = 10 * time.Second
	// seenGrace is how long after the start a broker with which the command began may take to
	// be seen ready, and how long one may be ready that is to leave and has no work.
	seenGrace = 15 * time.Second
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

// vacating gives back the nodes of ranks that were asked to leave, when they have no work
// left, or their time is up. Before the start they are not awaited any more.
func vacating(o *Observation, now time.Time) *Plan {
	d := o.Admission.Draining
	if d == nil {
		return nil
	}
	if d.Deadline.IsZero() {
		return o.sparing(d.Ranks, now)
	}
	busy := func(rank int) bool { return holdsNode(o.Brokers[rank].State) && !o.Brokers[rank].Idle }
	if now.Before(d.Deadline) && slices.ContainsFunc(d.Ranks, busy) {
		return nil
	}
	return o.vacate(d.Ranks, brokersText(len(d.Ranks))+" gave nodes back")
}

// sparing gives back the nodes of ranks that the command has no part in. The lead was told
// that they leave: it drains them, so that they do not get ready, or are so no more. Those that
// it had begun with by then get ready, and stay so: they keep their nodes.
func (o *Observation) sparing(ranks []int, now time.Time) *Plan {
	var apart, at []int
	for _, rank := range ranks {
		switch b := o.Brokers[rank]; {
		case !b.mayBeOnline(), b.Idle, o.Brokers[0].State != Up && o.Started.IsZero():
			apart = append(apart, rank)
		case b.State == Up:
			at = append(at, rank)
		}
	}
	known := !o.Started.IsZero() && !now.Before(o.drainDeadline())
	switch {
	case len(apart) > 0:
		return o.vacate(apart, brokersText(len(apart))+" gave nodes back")
	case known && len(at) > 0:
		quorum := o.Admission.Quorum + len(at)
		return &Plan{Step: Keep, State: o.state(), Ranks: at, Quorum: quorum, Message: "the command had begun with " + brokersText(quorum)}
	case known:
		return o.vacate(ranks, brokersText(len(ranks))+" gave nodes back")
	}
	return nil
}

// vacate gives the nodes of ranks back. Before the start the quorum follows, and so many
// more leave that no node is held for nothing.
func (o *Observation) vacate(ranks []int, why string) *Plan {
	ranks, quorum, remain := o.without(ranks)
	return &Plan{Step: Vacate, State: o.state(), Ranks: ranks, Quorum: quorum, Message: fmt.Sprintf("%s, %d remain", why, remain)}
}

// without is the quorum once some ranks have left, all that leave then, and how many remain.
func (o *Observation) without(ranks []int) (leaving []int, quorum, remain int) {
	for rank := range o.Brokers {
		if !o.Brokers[rank].Vacated && !slices.Contains(ranks, rank) {
			remain++
		}
	}
	quorum = o.Admission.Quorum
	if !o.Started.IsZero() || quorum <= remain {
		return ranks, quorum, remain
	}
	quorum = remain
	if size := o.Policy.Sizing.LargestWithin(remain); size > 0 {
		quorum = size
	}
	return slices.Sorted(slices.Values(slices.Concat(ranks, o.surplus(quorum, ranks...)))), quorum, quorum
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
	if len(ranks) == 0 || o.members()-len(ranks) < o.Policy.Sizing.Min {
		return nil
	}
	return o.drain(ranks, "for "+cmp.Or(o.Order.DrainFor, "others"), now)
}

// shrinking asks those to leave that are more than is wanted. Once the command runs the user
// may go below the minimum, without which Flux does not start.
func shrinking(o *Observation, now time.Time) *Plan {
	below := o.Policy.Want < o.Policy.Sizing.Min
	if o.Policy.Want == 0 || (below && o.Started.IsZero()) || o.Admission.Draining != nil {
		return nil
	}
	why := fmt.Sprintf("since the size is %d now", o.Policy.Want)
	if below {
		why += fmt.Sprintf(", less than the minimum of %d", o.Policy.Sizing.Min)
	}
	return o.drain(o.surplus(o.Policy.Want), why, now)
}

// drain asks ranks to leave; nil if there are none, or the command does not bear it. Before
// the start the quorum follows at once: the lead must not wait for those that it drains.
func (o *Observation) drain(ranks []int, why string, now time.Time) *Plan {
	runs := o.mayRun(now)
	if len(ranks) == 0 || (runs && !o.Policy.BearsChange) {
		return nil
	}
	plan := &Plan{Step: DrainRanks, State: o.state(), Ranks: ranks, Quorum: o.Admission.Quorum}
	if runs {
		plan.Deadline = now.Add(drainGrace)
		plan.LookAgain = plan.Deadline
	} else {
		plan.Ranks, plan.Quorum, _ = o.without(ranks)
	}
	plan.Message = fmt.Sprintf("%d of %d brokers leave %s", len(plan.Ranks), o.members(), why)
	return plan
}

// mayRun reports whether the lead may have begun with its command, whether or not that
// was written down.
func (o *Observation) mayRun(now time.Time) bool {
	lead := o.Brokers[0]
	if !o.Started.IsZero() || lead.Ready {
		return true
	}
	running := 0
	for _, b := range o.Brokers {
		if !b.Vacated && b.mayBeOnline() {
			running++
		}
	}
	return lead.State == Up && (running >= o.Admission.Quorum || !now.Before(o.quorumDeadline()))
}

// mayBeOnline reports whether the lead may see the broker: it may before the pod is ready.
func (b Broker) mayBeOnline() bool { return b.State == Up || !b.Since.IsZero() }

// moving gives ranks other nodes. Their pods are evicted after that, and those that
// replace them are placed on the new nodes.
func moving(o *Observation, now time.Time) *Plan {
	if o.Order == nil {
		return nil
	}
	homeless := o.Homeless(now)
	var pods []Pod
	var ranks []int
	for _, pod := range podsByRank(o.Order.Move) {
		if slices.Contains(homeless, pod.Rank) && o.Admission.Nodes[pod.Rank] != pod.Node {
			pods, ranks = append(pods, pod), append(ranks, pod.Rank)
		}
	}
	if len(pods) == 0 {
		return nil
	}
	message := fmt.Sprintf("other nodes for %s: %s could not start", brokersText(len(pods)), o.where(ranks))
	return &Plan{Step: MoveRanks, State: o.state(), Pods: pods, Avoid: o.nodesOf(ranks), Message: message}
}

// growing gives nodes to vacated ranks that hold none any more, and to new ranks that
// follow on those there are.
func growing(o *Observation, _ time.Time) *Plan {
	if o.Order == nil || (o.Started.IsZero() && o.Admission.Draining != nil) {
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
			return o.giveUp(fmt.Sprintf("the pod of rank %d could not get its node within %s, and there was no other", rank, repairTimeout), OutcomeStartLimit, now)
		}
	}
	return nil
}

// hopeless goes on without brokers that will not come: it starts with the others once they
// are up, gives up where they are too few, and takes the nodes of those back that were to
// join a command that runs.
func hopeless(o *Observation, now time.Time) *Plan {
	ranks, left := o.futile(now)
	if len(ranks) == 0 {
		return nil
	}
	why := fmt.Sprintf("%d of %d brokers cannot start%s", len(ranks), o.members(), o.trouble())
	if !o.Started.IsZero() {
		if ranks[0] == 0 || o.Admission.Draining != nil {
			return nil // the lead's Job goes on trying; others leave first
		}
		plan := o.vacate(ranks, why)
		plan.Avoid = o.nodesOf(ranks)
		return plan
	}
	size := o.Policy.Sizing.LargestWithin(left)
	switch {
	case size == 0 || ranks[0] == 0:
		return o.giveUp(why, OutcomeStartLimit, now)
	case o.upToStay() < left || o.Brokers[0].State != Up || o.Brokers[0].Ready:
		return nil // for those that come
	}
	plan := o.lowerQuorum(min(size, o.Admission.Quorum), why)
	if plan != nil {
		plan.Avoid = o.nodesOf(ranks)
	}
	return plan
}

// futile are the ranks that will not come, and how many others there are.
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

// Homeless are the ranks that need another node: kube-scheduler could not bind their
// pods for a while, the kubelet did not take them, their node is gone, or their pods do
// not start there. For the last, which may not be the node's fault, one more is tried,
// unless most of the gang does not start.
func (o *Observation) Homeless(now time.Time) []int {
	var ranks []int
	inTrouble := 0
	for rank, broker := range o.Brokers {
		if !o.leaves(rank) && !broker.troubledAt().IsZero() {
			inTrouble++
		}
	}
	for rank, broker := range o.Brokers {
		if o.leaves(rank) || o.wasLost(rank) {
			continue
		}
		at := broker.troubledAt()
		replaceable := !at.IsZero() && !now.Before(at) && !broker.Moved && o.few(inTrouble)
		if broker.hasNoNode(now) || replaceable {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// hasNoNode reports whether the broker's pod cannot get its node, and did not for a while,
// or there is no such node.
func (b Broker) hasNoNode(now time.Time) bool {
	stuck := b.stuck() && (b.State == Failed || !now.Before(b.Placed.Add(bindGrace)))
	return stuck || (b.NodeGone && b.State == Gated)
}

// stuck reports whether the broker's pod cannot get the node that it should have.
func (b Broker) stuck() bool { return b.Unbindable && !b.Misplaced }

// troubledAt is when a pod counts as one that does not start where it is; zero if it may
// start.
func (b Broker) troubledAt() time.Time {
	if b.Trouble == "" || b.Misplaced || b.State != Coming {
		return time.Time{}
	}
	return b.TroubleSince.Add(troubleGrace)
}

// futileAt is when it is futile to wait for a broker any longer: it does not start, and got
// another node already, or there is none for it; or it has ended with a lead that was lost
// before the start, after which its Job makes it never again. Zero if it may come.
func (o *Observation) futileAt(rank int) time.Time {
	b := o.Brokers[rank]
	if b.State == Succeeded && o.Started.IsZero() && !b.EndedAt.IsZero() {
		return b.EndedAt.Add(lossGrace) // a command that is over has been seen by then
	}
	at := b.troubledAt()
	if at.IsZero() || b.Moved {
		return at
	}
	return at.Add(replaceTimeout)
}

// nextRepair is when a pod that does not come needs another look; zero if there is none.
func (o *Observation) nextRepair(now time.Time) time.Time {
	var next time.Time
	later := func(at time.Time) {
		if !at.IsZero() && now.Before(at) {
			next = Earliest(next, at)
		}
	}
	for rank, broker := range o.Brokers {
		if broker.stuck() && !broker.Placed.IsZero() {
			later(broker.Placed.Add(bindGrace))
			later(broker.Placed.Add(repairTimeout))
		}
		later(broker.troubledAt())
		later(o.futileAt(rank))
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

// drainDeadline is when ranks that are asked to leave have to be gone, or it is known that
// they stay; zero if none are, or that is not known.
func (o *Observation) drainDeadline() time.Time {
	d := o.Admission.Draining
	switch {
	case d == nil:
		return time.Time{}
	case !d.Deadline.IsZero() || o.Started.IsZero():
		return d.Deadline
	}
	last := o.Started
	for _, rank := range d.Ranks {
		if since := o.Brokers[rank].ReadySince; since.After(last) {
			last = since
		}
	}
	return last.Add(seenGrace)
}
