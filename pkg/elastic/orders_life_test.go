// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// free are the nodes of the toy cluster that are promised to nobody and held by no pod.
func (w *world) free() []string {
	taken := map[string]bool{}
	if w.admission != nil {
		for rank, node := range w.admission.Nodes {
			taken[node] = taken[node] || !w.vacated[rank]
		}
	}
	for rank, pod := range w.pods {
		if holdsNode(pod.State) {
			taken[w.at[rank]] = true
		}
	}
	var out []string
	for i := range 60 {
		if node := fmt.Sprint("n", i); !taken[node] {
			out = append(out, node)
		}
	}
	return out
}

// repair gives pods that cannot be bound other nodes.
func (w *world) repair(o *Observation) *Order {
	order, free := &Order{}, w.free()
	for i, rank := range o.Homeless(w.now) {
		order.Move = append(order.Move, Pod{Rank: rank, Node: free[i]})
	}
	return order
}

// anyOrder is one at random, right or wrong, for the first hour: nothing, the one before
// or a new one.
func (w *world) anyOrder(o *Observation) *Order {
	switch {
	case w.now.Sub(noon) > time.Hour:
		return nil
	case w.random.IntN(2) == 0:
		if order := w.repair(o); len(order.Move) > 0 {
			return order
		}
	case w.standing != nil && w.random.IntN(8) > 0:
		return w.standing
	}
	w.standing = nil
	switch w.random.IntN(40) {
	case 0:
		return &Order{Evict: "somebody needs its nodes", EvictReason: "Preempted"}
	case 1, 2, 3, 4:
		w.standing = &Order{DrainFor: "somebody"}
		for range 1 + w.random.IntN(3) {
			w.standing.Drain = append(w.standing.Drain, w.random.IntN(len(o.Brokers)+1))
		}
	case 5, 6, 7, 8:
		order := &Order{}
		for i, node := range w.free()[:1+w.random.IntN(2)] {
			order.Grow = append(order.Grow, Pod{Rank: 1 + (w.random.IntN(len(o.Brokers))+i)%(w.policy.Max+1), Node: node})
		}
		return order
	}
	return w.standing
}

// resize carries out what changes an admission.
func (w *world) resize(o *Observation, plan Plan) {
	switch plan.Step {
	case DrainRanks:
		w.admission.Draining, w.admission.Quorum = &Draining{Ranks: plan.Ranks, Deadline: plan.Deadline}, plan.Quorum
	case Vacate:
		for _, rank := range plan.Ranks {
			w.vacated[rank] = true
		}
		w.stay(plan)
		if len(plan.Avoid) > 0 { // brokers that were not there anyway
			w.least = min(w.least, o.members()-len(plan.Ranks))
		}
	case Keep:
		w.stay(plan)
	case GrowRanks, MoveRanks:
		w.admission.Nodes = slices.Clone(w.admission.Nodes)
		for _, pod := range plan.Pods {
			if pod.Rank == len(w.admission.Nodes) {
				w.admission.Nodes = append(w.admission.Nodes, "")
				w.admission.Size++
			}
			w.admission.Nodes[pod.Rank], w.vacated[pod.Rank], w.moved[pod.Rank] = pod.Node, false, plan.Step == MoveRanks
			if pod.Rank < len(w.pods) {
				w.pods[pod.Rank].NodeGone = false
			}
		}
		if plan.Step == GrowRanks {
			w.admission.Quorum = plan.Quorum
		}
	}
}

// stay takes ranks from those that are asked to leave: they have left, or stay.
func (w *world) stay(plan Plan) {
	w.admission.Quorum = plan.Quorum
	d := w.admission.Draining
	if d == nil {
		return
	}
	left := slices.DeleteFunc(slices.Clone(d.Ranks), func(rank int) bool { return slices.Contains(plan.Ranks, rank) })
	w.admission.Draining = nil
	if len(left) > 0 {
		w.admission.Draining = &Draining{Ranks: left, Deadline: d.Deadline}
	}
}

// checkNodes asserts what must hold of orders and nodes.
func (w *world) checkNodes(o *Observation, plan Plan, fail func(string, ...any)) {
	w.t.Helper()
	if o.Admission == nil {
		return
	}
	if o.Brokers[0].Vacated || (o.Admission.Draining != nil && slices.Contains(o.Admission.Draining.Ranks, 0)) {
		fail("the lead is to leave")
	}
	if members := o.members(); members < w.least || members > w.policy.Max {
		fail("it has %d nodes", members)
	}
	if o.Started.IsZero() && o.Admission.Quorum > o.members() {
		fail("it waits for %d of %d brokers", o.Admission.Quorum, o.members())
	}
	holders := map[string]int{}
	for rank, pod := range w.pods {
		if !holdsNode(pod.State) {
			continue
		}
		if other, taken := holders[w.at[rank]]; taken {
			fail("ranks %d and %d are on node %s", rank, other, w.at[rank])
		}
		holders[w.at[rank]] = rank
	}
	for rank, node := range o.Admission.Nodes {
		if other, taken := holders[node]; taken && other != rank && !o.Brokers[rank].Vacated {
			fail("rank %d has node %s, on which rank %d is", rank, node, other)
		}
	}
	for _, rank := range plan.Ranks {
		if plan.Step == Place && o.leaves(rank) {
			fail("placed rank %d, which leaves", rank)
		}
		if plan.Step == EvictRanks && !w.vacated[rank] && w.at[rank] == o.Admission.Nodes[rank] {
			fail("evicted rank %d from its node", rank)
		}
	}
}

// Lives with all kinds of orders beside the faults: each comes to an end, holds nothing
// after it, and no order takes more than it may.
func TestLivesWithOrders(t *testing.T) {
	steps := map[Step]int{}
	for seed := range uint64(1500) {
		w := newWorld(t, seed)
		w.policy.Sizing.Size = 2 + int(seed%5)
		w.policy.Max = w.policy.Sizing.Size + int(seed%3)
		w.faults = faults{
			neverStarts: w.random.IntN(20), nodeGoes: w.random.IntN(400), evicted: w.random.IntN(300),
			fails: w.random.IntN(4), unbindable: w.random.IntN(12), resizes: w.random.IntN(40), crashes: w.random.IntN(300),
		}
		w.bad = map[string]bool{"n2": seed%3 == 0, "n7": seed%2 == 0}
		w.orders = w.anyOrder
		w.run()
		for rank, pod := range w.pods {
			if holdsNode(pod.State) {
				t.Fatalf("seed %d: rank %d still holds a node after the end:\n%s", seed, rank, w.end())
			}
		}
		for step, n := range w.steps {
			steps[step] += n
		}
	}
	for _, step := range []Step{Evict, DrainRanks, Vacate, EvictRanks, GrowRanks, MoveRanks} {
		if steps[step] < 100 {
			t.Errorf("only %d times %s in 1500 lives (%v)", steps[step], step, steps)
		}
	}
}
