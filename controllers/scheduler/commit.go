// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

// commit assumes the decisions in the ledger, and collects the news.
func (c *cycle) commit(result *queue.Result) {
	for i := range result.Decisions {
		d := &result.Decisions[i]
		e := c.waiting[i]
		if e.gang.ID != d.Gang { // it has another place than in the last cycle
			e = c.catalog.known[types.UID(d.Gang)].entry
		}
		c.decidedOn = append(c.decidedOn, e)
		if d.Verdict == elastic.Admitted {
			c.scaling.noteArrival(e, c.now)
			c.admit(d, e)
		}
		if !d.PutOff {
			e.putOffAt = time.Time{}
		} else if e.putOffAt.IsZero() {
			e.putOffAt = c.now
		}
		if isNews(e, d, c.now) {
			c.decided, e.told, e.toldAt = append(c.decided, e.NamespacedName), d.Message, c.now
		} else if e.told != d.Message && !d.PutOff {
			c.lookAgain = elastic.Earliest(c.lookAgain, e.toldAt.Add(newsInterval))
		}
		e.decision, e.place = *d, i+1
		c.lookAgain = elastic.Earliest(c.lookAgain, d.LookAgain)
		if d.Head { // others may use the nodes that it loses to a reservation
			c.lookAgain = elastic.Earliest(c.lookAgain, c.ledger.BarredNext(e.ask.At(c.now)))
		}
	}
	resumes := c.starts.resume(c.decidedOn, c.ledger, c.StartingPods)
	c.asked = c.scaling.wish(c, result)
	c.decided = append(c.decided, c.order(result)...)
	c.lookAgain = elastic.Earliest(c.lookAgain, resumes, result.LookAgain, c.usage.settle(result, &c.Snapshot, c.now))
	c.reported = c.reports.step(c, result)
}

// newsInterval is how often a MiniCluster in the middle of a queue hears of mere messages, such as
// how many are before it.
const newsInterval = 2 * time.Minute

// isNews reports whether a MiniCluster has to hear of a decision. The messages in the middle of a
// queue change all the time.
func isNews(e *entry, d *queue.Decision, now time.Time) bool {
	if d.PutOff && e.decision.Verdict != "" { // the next news come soon, in most cases
		return e.told != d.Message && now.Sub(e.putOffAt) >= startsWithin
	}
	if e.decision.Verdict != d.Verdict || len(d.Nodes) > 0 {
		return true
	}
	inTheMiddle := !d.Head && !d.Verdict.Refused()
	return e.told != d.Message && (!inTheMiddle || now.Sub(e.toldAt) >= newsInterval)
}

// admit gives a MiniCluster its nodes. If the quota does not suffice for all that are admitted in
// this cycle, or the matcher finds no nodes, the MiniCluster waits for the next cycle.
func (c *cycle) admit(d *queue.Decision, e *entry) {
	namespace, demand := e.Namespace, c.demand(e.miniCluster, e.pod)
	if why := c.seen.quotas.Refusal(namespace, demand); why != "" {
		d.Verdict, d.Message, d.Nodes = elastic.QuotaExceeded, why, nil
	} else if d.Nodes = c.ledger.Choose(e.ask.At(c.now), d.Nodes); d.Nodes == nil {
		d.Verdict, d.Message = elastic.NoRoom, "there is room, but the matcher chose no nodes"
	}
	if d.Nodes == nil {
		d.Memory = e.decision.Memory
		c.due.wake() // the next cycle may use the nodes for others
		return
	}
	c.seen.quotas.Reserve(namespace, demand)
	c.starts.add(e.miniCluster.UID, e.gang.Priority, c.now)
	c.ledger.Assume(e.miniCluster.UID, &state.Promise{Nodes: d.Nodes, Requests: state.Requests(e.pod)})
}

// reasons are the API's reasons for actions that take nodes away.
var reasons = map[string]string{"preempt": v1alpha2.ReasonPreempted, "reclaim": v1alpha2.ReasonReclaimed, "clear": v1alpha2.ReasonNodesGo}

// order records orders in the ledger and returns the MiniClusters that have to carry them out.
func (c *cycle) order(result *queue.Result) []types.NamespacedName {
	var told []types.NamespacedName
	c.due.owed = false
	put := func(id string, order elastic.Order) {
		k := c.catalog.known[types.UID(id)]
		if k == nil || !c.ledger.Order(types.UID(id), order, c.now) {
			c.due.owed = true
			return
		}
		told = append(told, client.ObjectKeyFromObject(k.miniCluster))
	}
	for _, drain := range result.Drains {
		put(drain.Gang, elastic.Drain{Ranks: drain.Ranks, Reason: reasons[drain.Action], For: drain.For})
	}
	for _, eviction := range result.Evictions {
		put(eviction.Gang, elastic.Evict{Reason: reasons[eviction.Action], Message: eviction.Message, Grace: eviction.Grace})
	}
	for _, growth := range result.Growths {
		k := c.catalog.known[types.UID(growth.Gang)]
		if k != nil && k.promise != nil && slices.ContainsFunc(growth.Pods, func(pod elastic.Pod) bool { return k.promise.Holds(pod.Rank) }) {
			continue // ranks whose nodes are gone come first
		}
		put(growth.Gang, elastic.Grow{Pods: growth.Pods})
	}
	return told
}

// repair looks for other nodes for displaced ranks.
func (c *cycle) repair() (told []types.NamespacedName, err error) {
	for _, uid := range slices.Sorted(maps.Keys(c.catalog.repairs)) {
		ranks := c.catalog.repairs[uid]
		k := c.catalog.known[uid]
		if order, _ := c.ledger.OrderOf(uid); k == nil || k.promise == nil || order != nil {
			delete(c.catalog.repairs, uid)
			continue
		}
		room, err := c.room()
		if err != nil {
			return nil, err
		}
		moved := room.Grow(string(uid), len(ranks))
		for i := range moved { // the new nodes are for these ranks
			moved[i].Rank = ranks[i]
		}
		moved = slices.DeleteFunc(moved, k.promise.Has)
		if len(moved) == 0 || !c.ledger.Order(uid, elastic.Move{Pods: moved}, c.now) {
			continue // tried again in the next cycle, until the attempt is given up
		}
		delete(c.catalog.repairs, uid)
		told = append(told, client.ObjectKeyFromObject(k.miniCluster))
	}
	return told, nil
}
