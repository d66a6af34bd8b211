// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// Drain asks ranks to leave.
type Drain struct {
	Ranks  []int
	Quorum int
	// Deadline is the latest time to leave; zero as in Draining.
	Deadline time.Time
}

func (Drain) step() {}

func (s Drain) apply(r *Record, why string, now time.Time) {
	r.Admission.drain(s.Ranks, s.Quorum, s.Deadline, why, now)
}

// Vacate records that ranks gave their nodes back.
type Vacate struct {
	Ranks  []int
	Quorum int
	// Avoid are nodes on which brokers did not start.
	Avoid []string
}

func (Vacate) step() {}

func (s Vacate) apply(r *Record, _ string, now time.Time) {
	r.Admission.vacate(s.Ranks)
	r.Admission.drained(s.Ranks)
	r.Admission.Quorum = s.Quorum
	r.avoid(s.Avoid, now)
}

// Keep lets drained ranks stay: the command began with them.
type Keep struct {
	Ranks  []int
	Quorum int
}

func (Keep) step() {}

func (s Keep) apply(r *Record, _ string, _ time.Time) {
	r.Admission.drained(s.Ranks)
	r.Admission.Quorum = s.Quorum
}

// Grow gives nodes to more ranks.
type Grow struct {
	Pods   []elastic.Pod // rising
	Quorum int
	// Joins is true if the command has to be run again with the ranks.
	Joins bool
}

func (Grow) step() {}

func (s Grow) apply(r *Record, _ string, _ time.Time) {
	r.Admission.seat(s.Pods)
	r.Admission.Quorum = s.Quorum
	if s.Joins {
		r.Admission.Joining = union(r.Admission.Joining, ranksOf(s.Pods))
	}
}

// EvictPods evicts pods from nodes that their ranks have given back.
type EvictPods struct {
	Ranks []int
	// Kept are those of the ranks whose eviction has been refused for too long. Their pods are deleted instead: a
	// disruption budget delays who gets the nodes, and does not decide it.
	Kept []int
}

func (EvictPods) step() {}

const (
	// drainGrace is how long drained ranks of a running command have to leave, without a checkpoint.
	drainGrace = 30 * time.Second
	// seenGrace is how long after the start the brokers of the command may take to be seen ready.
	// A drained rank without work may be ready for as long: the lead drains it within 10 s, and
	// two probes 5 s apart have to see that it is not ready (internal/jobset).
	seenGrace = 20 * time.Second
	// unreadyGrace is how long a lead may be not ready that has to let ranks leave.
	unreadyGrace = time.Minute
	// keptGrace is for how long the eviction of a pod may be refused before the pod is deleted.
	keptGrace = 30 * time.Second
)

// misplaced removes pods that hold nodes for nothing. A node counts as held while pods are on it.
func misplaced(o *Observation, now time.Time) *Plan {
	ranks := o.ranks(func(rank int, b Broker) bool { return isMisplaced(o, rank, b) })
	if len(ranks) == 0 {
		return nil
	}
	step := EvictPods{Ranks: ranks}
	for _, rank := range ranks {
		if since := o.Brokers[rank].KeptSince; !since.IsZero() && !now.Before(since.Add(keptGrace)) {
			step.Kept = append(step.Kept, rank)
		}
	}
	return &Plan{Step: step, State: o.state(), Message: "evicts pods whose nodes were given back, or whose brokers have ended"}
}

// isMisplaced reports whether a pod is on a node that its rank gave back, or is of a follower that is to come back, and only
// containers of others run: its Job makes no other pod before they end.
func isMisplaced(o *Observation, rank int, b Broker) bool {
	comesBack := rank > 0 && (!o.begun() || o.Policy.OnLoss == LossContinue)
	if comesBack && b.State == Failed && b.Lingers && b.NotStarted == "" {
		return true
	}
	return (!o.Admission.Has(rank) || b.Misplaced) && (b.State == Coming || b.State == Up || b.Lingers)
}

// left is misplaced for a command that runs: what the lead is to be told keeps no pod on its node. A pod of which the eviction
// was refused waits until the lead has been told, or the pod is deleted.
func left(o *Observation, now time.Time) *Plan {
	kept := func(b Broker) bool { return !b.KeptSince.IsZero() && now.Before(b.KeptSince.Add(keptGrace)) }
	if !o.begun() || slices.ContainsFunc(o.Brokers, kept) {
		return nil
	}
	return misplaced(o, now)
}

// overdue gives back the nodes of drained ranks whose time is up: what else is to be told to the lead, or goes wrong, gives
// the ranks no more time.
func overdue(o *Observation, now time.Time) *Plan {
	if deadline := o.drainDeadline(); deadline.IsZero() || now.Before(deadline) {
		return nil
	}
	return vacating(o, now)
}

// vacating gives back the nodes of drained ranks that have no work left or whose time is up.
func vacating(o *Observation, now time.Time) *Plan {
	d := o.Admission.Draining
	if d == nil {
		return nil
	}
	why := brokersText(len(d.Ranks)) + " gave nodes back"
	busy := func(rank int) bool { return o.Brokers[rank].holdsNode() && !o.Brokers[rank].Idle }
	switch {
	case d.Deadline.IsZero():
		return o.settleStart(d.Ranks, now)
	case now.Before(d.Deadline) && slices.ContainsFunc(d.Ranks, busy):
		return nil
	}
	return o.vacate(d.Ranks, why, nil)
}

// settleStart gives back the nodes of drained ranks that have no part in the command. The lead
// drains them in Flux, so they do not become ready, or stop being ready. Ranks with which the
// command had already begun become ready and stay ready: they keep their nodes. A lead that does
// not say in time that the command has begun is not waited for, unless nobody can ask that lead.
func (o *Observation) settleStart(ranks []int, now time.Time) *Plan {
	var apart, part []int
	for _, rank := range ranks {
		switch b := o.Brokers[rank]; {
		case !b.mayBeOnline(), b.Idle, o.Brokers[0].State != Up && !o.begun():
			apart = append(apart, rank)
		case b.State == Up:
			part = append(part, rank)
		}
	}
	deadline := o.drainDeadline()
	over := !deadline.IsZero() && !now.Before(deadline)
	switch {
	case len(apart) > 0:
		return o.vacate(apart, brokersText(len(apart))+" gave nodes back", nil)
	case over && o.begun() && len(part) > 0:
		quorum := o.Admission.Quorum + len(part)
		return &Plan{Step: Keep{Ranks: part, Quorum: quorum}, State: o.state(), Message: "the command had begun with " + brokersText(quorum)}
	case over && (o.begun() || !o.inDoubt(now)):
		return o.vacate(ranks, brokersText(len(ranks))+" gave nodes back", nil)
	}
	return nil
}

// vacate gives the nodes of ranks back. Before the start the quorum follows, and further ranks
// leave if the remaining number is no allowed size.
func (o *Observation) vacate(ranks []int, why string, avoid []string) *Plan {
	ranks, quorum, remain := o.without(ranks)
	return &Plan{
		Step: Vacate{Ranks: ranks, Quorum: quorum, Avoid: avoid}, State: o.state(),
		Message: fmt.Sprintf("%s, %d remain", why, remain),
	}
}

// without returns the quorum after ranks have left, all ranks that leave then, and how many
// remain.
func (o *Observation) without(ranks []int) (leaving []int, quorum, remain int) {
	remain = len(less(o.Admission.Members(), ranks))
	quorum = o.Admission.Quorum
	if o.begun() || quorum <= remain {
		return ranks, quorum, remain
	}
	quorum = remain
	if size := o.Policy.Sizing.LargestWithin(remain); size > 0 {
		quorum = size
	}
	return union(ranks, o.surplus(quorum, ranks...)), quorum, quorum
}

// surplus are the ranks above a size, rising, after some have left. Ranks that are not up leave
// first, then those with the highest numbers; the lead never leaves.
func (o *Observation) surplus(size int, left ...int) []int {
	var ranks []int // the first to leave first
	staying := 1
	for _, up := range []bool{false, true} {
		for rank := len(o.Brokers) - 1; rank > 0; rank-- {
			if !o.leaves(rank) && !slices.Contains(left, rank) && (o.Brokers[rank].State == Up) == up {
				ranks = append(ranks, rank)
				staying++
			}
		}
	}
	ranks = ranks[:max(0, min(staying-size, len(ranks)))]
	slices.Sort(ranks)
	return ranks
}

// drained drains the ranks that the queue ordered to leave. The lead stays, only one drain runs
// at a time, and the smallest size remains that is allowed: a command runs at no other. If the lead lets
// none leave for a minute, all leave.
func drained(o *Observation, now time.Time) *Plan {
	order, ordered := o.Order.(elastic.Drain)
	if !ordered || o.Admission.Draining != nil {
		return nil
	}
	var ranks []int
	for _, rank := range order.Ranks {
		if rank <= 0 || rank >= len(o.Brokers) {
			return nil
		}
		if o.Admission.Has(rank) {
			ranks = append(ranks, rank)
		}
	}
	ranks = union(ranks, nil)
	if len(ranks) == 0 {
		return nil
	}
	why := "for " + cmp.Or(order.For, "others")
	if o.members()-len(ranks) >= o.Policy.Sizing.Allowed().Least() {
		if plan := o.drain(ranks, why, now); plan != nil {
			return plan
		}
	}
	if at := o.unableAt(); at.IsZero() || now.Before(at) {
		return nil
	}
	return o.evict(elastic.Evict{Reason: order.Reason, Message: "all brokers leave " + why + ": the lead lets none leave alone", Grace: drainGrace}, now)
}

// unableAt is when all ranks leave in place of those that are ordered to leave; zero if none is, or the command is run again
// first. Ranks that are to join the command have their time. The scheduler repeats an order that was not carried out, and
// takes no nodes of others meanwhile.
func (o *Observation) unableAt() time.Time {
	if _, ordered := o.Order.(elastic.Drain); !ordered || o.restarting() || o.OrderedSince.IsZero() {
		return time.Time{}
	}
	if len(o.joining(func(b Broker) bool { return b.State != Up })) > 0 {
		return o.OrderedSince.Add(joinGrace)
	}
	return o.OrderedSince.Add(unreadyGrace)
}

// shrinking drains the ranks above the size that the user wants. Before the start the minimum
// size remains, because Flux does not start below it.
func shrinking(o *Observation, now time.Time) *Plan {
	below := o.Policy.Want < o.Policy.Sizing.Min
	if o.Policy.Want == 0 || (below && !o.begun()) || o.Admission.Draining != nil {
		return nil
	}
	why := fmt.Sprintf("since the size is %d now", o.Policy.Want)
	if below {
		why += fmt.Sprintf(", less than the minimum of %d", o.Policy.Sizing.Min)
	}
	return o.drain(o.surplus(o.Policy.Want), why, now)
}

// drain drains ranks; nil if there are none, or the command is rigid. Before the start the quorum
// follows at once: the lead must not wait for ranks that it drains. A command that is run again without
// the ranks is told both at once.
func (o *Observation) drain(ranks []int, why string, now time.Time) *Plan {
	runs := o.MayRun(now)
	if len(ranks) == 0 || (runs && !o.Policy.Malleable && !o.Policy.Restarts) {
		return nil
	}
	if runs && o.Policy.Restarts && len(less(ranks, o.Admission.Joining)) > 0 {
		if !o.mayRestart() {
			return nil
		}
		return o.restart(ranks, nil, leaveText(len(ranks))+" "+why, now)
	}
	step := Drain{Ranks: ranks, Quorum: o.Admission.Quorum}
	if runs {
		step.Deadline = now.Add(drainGrace)
	} else {
		step.Ranks, step.Quorum, _ = o.without(ranks)
	}
	message := fmt.Sprintf("%d of %d brokers leave %s", len(step.Ranks), o.members(), why)
	return &Plan{Step: step, State: o.state(), Message: message, LookAgain: step.Deadline}
}

// growing gives nodes to vacated ranks whose pods are gone, and to new ranks that follow the last
// rank.
func growing(o *Observation, _ time.Time) *Plan {
	order, ordered := o.Order.(elastic.Grow)
	if !ordered || (!o.begun() && o.Admission.Draining != nil) || o.restarting() {
		return nil
	}
	pods := o.seats(order.Pods)
	size := o.members() + len(pods)
	if len(pods) == 0 || size > o.Policy.Max {
		return nil
	}
	step := Grow{Pods: pods, Quorum: o.Admission.Quorum, Joins: o.begun() && o.Policy.Restarts}
	if !o.begun() {
		step.Quorum = size
	}
	return &Plan{Step: step, State: o.state(), Message: fmt.Sprintf("grows by %d to %d brokers", len(pods), size)}
}

// seats are those of some pods whose ranks can get their nodes, rising; nil if the pods are not those of vacated ranks
// whose pods are gone, and of new ranks that follow the last one.
func (o *Observation) seats(wanted []elastic.Pod) []elastic.Pod {
	var pods []elastic.Pod
	next := len(o.Brokers)
	for _, pod := range podsByRank(wanted) {
		switch {
		case pod.Rank < 0 || pod.Rank > next:
			return nil
		case pod.Rank == next:
			next++
		case o.Admission.Has(pod.Rank):
			continue // the rank has a node
		case o.Brokers[pod.Rank].holdsNode(), o.Brokers[pod.Rank].Lingers:
			return nil // the old pod has to go first
		}
		pods = append(pods, pod)
	}
	return pods
}

// podsByRank are the pods sorted by rank, one per rank.
func podsByRank(pods []elastic.Pod) []elastic.Pod {
	pods = slices.Clone(pods)
	slices.SortStableFunc(pods, func(a, b elastic.Pod) int { return a.Rank - b.Rank })
	return slices.CompactFunc(pods, func(a, b elastic.Pod) bool { return a.Rank == b.Rank })
}

// drainDeadline is when the drained ranks have to be gone, or when it is known that they stay;
// zero if there are none, or the time is not known.
func (o *Observation) drainDeadline() time.Time {
	d := o.Admission.Draining
	switch {
	case d == nil:
		return time.Time{}
	case !d.Deadline.IsZero():
		return d.Deadline
	case !o.begun():
		return d.At.Add(o.Policy.MaxGrace + drainGrace)
	}
	last := o.Started
	for _, rank := range d.Ranks {
		if since := o.Brokers[rank].ReadySince; since.After(last) {
			last = since
		}
	}
	return last.Add(seenGrace)
}
