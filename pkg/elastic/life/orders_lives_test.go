// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// free are the nodes of the toy cluster that are promised to nobody and held by no pod.
func (w *world) free() []string {
	taken := map[string]bool{}
	if w.Admission != nil {
		for rank, node := range w.Admission.Nodes {
			taken[node] = taken[node] || w.Admission.Has(rank)
		}
	}
	for rank, pod := range w.pods {
		if pod.holdsNode() {
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
func (w *world) repair(o *Observation) elastic.Order {
	var pods []elastic.Pod
	free := w.free()
	for i, rank := range o.Displaced(w.now) {
		pods = append(pods, elastic.Pod{Rank: rank, Node: free[i]})
	}
	return elastic.Move{Pods: pods}
}

// anyOrder is one at random, right or wrong, for the first hour: nothing, the one before
// or a new one.
func (w *world) anyOrder(o *Observation) elastic.Order {
	switch {
	case w.now.Sub(noon) > time.Hour:
		return nil
	case w.random.IntN(2) == 0:
		if order := w.repair(o); len(order.(elastic.Move).Pods) > 0 {
			return order
		}
	case w.standing != nil && w.random.IntN(8) > 0:
		return w.standing
	}
	w.standing = nil
	switch w.random.IntN(40) {
	case 0:
		return elastic.Evict{Reason: "Preempted", Message: "somebody needs its nodes"}
	case 1, 2, 3, 4:
		order := elastic.Drain{For: "somebody"}
		for range 1 + w.random.IntN(3) {
			order.Ranks = append(order.Ranks, w.random.IntN(len(o.Brokers)+1))
		}
		w.standing = order
	case 5, 6, 7, 8:
		order := elastic.Grow{}
		for i, node := range w.free()[:1+w.random.IntN(2)] {
			order.Pods = append(order.Pods, elastic.Pod{Rank: 1 + (w.random.IntN(len(o.Brokers))+i)%(w.policy.Max+1), Node: node})
		}
		return order
	}
	return w.standing
}

// moveTo lets ranks have other nodes, which are there.
func (w *world) moveTo(pods []elastic.Pod) {
	for _, pod := range pods {
		if pod.Rank < len(w.pods) {
			w.pods[pod.Rank].NodeGone = false
		}
	}
}

// checkPlace asserts what must hold when pods are placed.
func (w *world) checkPlace(o *Observation, s Place, fail func(string, ...any)) {
	w.t.Helper()
	if o.Quota == QuotaReserved {
		fail("placed pods before there was quota")
	}
	for rank, b := range o.Brokers {
		if len(w.at) == 0 && b.State == Missing && !o.leaves(rank) {
			fail("placed pods before that of rank %d was made", rank)
		}
		if slices.Contains(s.Ranks, rank) && o.leaves(rank) {
			fail("placed rank %d, which leaves", rank)
		}
	}
}

// checkNodes asserts what must hold of orders and nodes.
func (w *world) checkNodes(o *Observation, fail func(string, ...any)) {
	w.t.Helper()
	if o.Admission == nil {
		return
	}
	if !o.Admission.Has(0) || (o.Admission.Draining != nil && slices.Contains(o.Admission.Draining.Ranks, 0)) {
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
		if !pod.holdsNode() {
			continue
		}
		if other, taken := holders[w.at[rank]]; taken {
			fail("ranks %d and %d are on node %s", rank, other, w.at[rank])
		}
		holders[w.at[rank]] = rank
	}
	for rank, node := range o.Admission.Nodes {
		if other, taken := holders[node]; taken && other != rank && o.Admission.Has(rank) {
			fail("rank %d has node %s, on which rank %d is", rank, node, other)
		}
	}
}

// Lives with all kinds of orders beside the faults: each comes to an end, holds nothing
// after it, and no order takes more than it may.
func TestLivesWithOrders(t *testing.T) {
	steps := map[string]int{}
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
			if pod.holdsNode() {
				t.Fatalf("seed %d: rank %d still holds a node after the end:\n%s", seed, rank, w.end())
			}
		}
		for step, n := range w.steps {
			steps[step] += n
		}
	}
	for _, step := range []string{"Evict", "Drain", "Vacate", "EvictPods", "Grow", "Move"} {
		if steps[step] < 100 {
			t.Errorf("only %d times %s in 1500 lives (%v)", steps[step], step, steps)
		}
	}
}
