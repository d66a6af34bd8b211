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

// commit assumes the decisions in the ledger and returns the news.
func (s *Scheduler) commit(result queue.Result, seen *snapshot, now time.Time) news {
	var out news
	for i := range result.Decisions {
		d := &result.Decisions[i]
		e := seen.waiting[i]
		if e.gang.ID != d.Gang { // it has another place than in the last cycle
			e = s.known[types.UID(d.Gang)].entry
		}
		seen.decided = append(seen.decided, e)
		if d.Verdict == elastic.Admitted {
			s.noteArrival(e, now)
			s.admit(d, e, seen, now)
		}
		if !d.PutOff {
			e.putOffAt = time.Time{}
		} else if e.putOffAt.IsZero() {
			e.putOffAt = now
		}
		if isNews(e, d, now) {
			out.decided, e.told, e.toldAt = append(out.decided, e.NamespacedName), d.Message, now
		} else if e.told != d.Message && !d.PutOff {
			out.lookAgain = elastic.Earliest(out.lookAgain, e.toldAt.Add(newsInterval))
		}
		e.decision, e.place = *d, i+1
		out.lookAgain = elastic.Earliest(out.lookAgain, d.LookAgain)
		if d.Head { // others may use the nodes that it loses to a reservation
			out.lookAgain = elastic.Earliest(out.lookAgain, s.ledger.BarredNext(e.ask.At(now)))
		}
	}
	out.lookAgain = elastic.Earliest(out.lookAgain, s.resume(seen.decided))
	out.asked = s.wish(&result, seen)
	out.decided = append(out.decided, s.order(result, now)...)
	out.lookAgain = elastic.Earliest(out.lookAgain, result.LookAgain, s.settleUsers(result, seen, now))
	out.reported = s.updateReports(result, seen)
	s.measureQueues(&result, seen)
	return out
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
	inTheMiddle := !d.Head && d.Verdict != elastic.NotAllowed && d.Verdict != elastic.NeverFits
	return e.told != d.Message && (!inTheMiddle || now.Sub(e.toldAt) >= newsInterval)
}

// admit gives a MiniCluster its nodes. If the quota does not suffice for all that are admitted in
// this cycle, or the matcher finds no nodes, the MiniCluster waits for the next cycle.
func (s *Scheduler) admit(d *queue.Decision, e *entry, seen *snapshot, now time.Time) {
	namespace, demand := e.Namespace, s.demand(seen.clusterState, e.miniCluster, e.pod)
	if why := seen.quotas.Refusal(namespace, demand); why != "" {
		d.Verdict, d.Message, d.Nodes = elastic.NotAllowed, why, nil
	} else if d.Nodes = s.ledger.Choose(e.ask.At(now), d.Nodes); d.Nodes == nil {
		d.Verdict, d.Message = elastic.NoRoom, "there is room, but the matcher chose no nodes"
	}
	if d.Nodes == nil {
		d.Memory = e.decision.Memory
		s.wake() // the next cycle may use the nodes for others
		return
	}
	seen.quotas.Reserve(namespace, demand)
	s.starts.add(e.miniCluster.UID, e.gang.Priority, now)
	s.ledger.Assume(e.miniCluster.UID, &state.Promise{Nodes: d.Nodes, Requests: state.Requests(e.pod)})
}

// reasons are the API's reasons for actions that take nodes away.
var reasons = map[string]string{"preempt": v1alpha2.ReasonPreempted, "reclaim": v1alpha2.ReasonReclaimed, "clear": v1alpha2.ReasonNodesGo}

// order records orders in the ledger and returns the MiniClusters that have to carry them out.
func (s *Scheduler) order(result queue.Result, now time.Time) []types.NamespacedName {
	var told []types.NamespacedName
	s.owed = false
	put := func(id string, order elastic.Order) {
		k := s.known[types.UID(id)]
		if k == nil || !s.ledger.Order(types.UID(id), order, now) {
			s.owed = true
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
		k := s.known[types.UID(growth.Gang)]
		if k != nil && k.promise != nil && slices.ContainsFunc(growth.Pods, func(pod elastic.Pod) bool { return k.promise.Holds(pod.Rank) }) {
			continue // ranks whose nodes are gone come first
		}
		put(growth.Gang, elastic.Grow{Pods: growth.Pods})
	}
	return told
}

// repair looks for other nodes for displaced ranks.
func (s *Scheduler) repair(now time.Time) ([]types.NamespacedName, error) {
	var told []types.NamespacedName
	for _, uid := range slices.Sorted(maps.Keys(s.repairs)) {
		ranks := s.repairs[uid]
		k := s.known[uid]
		if order, _ := s.ledger.OrderOf(uid); k == nil || k.promise == nil || order != nil {
			delete(s.repairs, uid)
			continue
		}
		room, err := s.room(now)
		if err != nil {
			return nil, err
		}
		moved := room.Grow(string(uid), len(ranks))
		for i := range moved { // the new nodes are for these ranks
			moved[i].Rank = ranks[i]
		}
		moved = slices.DeleteFunc(moved, k.promise.Has)
		if len(moved) == 0 || !s.ledger.Order(uid, elastic.Move{Pods: moved}, now) {
			continue // tried again in the next cycle, until the attempt is given up
		}
		delete(s.repairs, uid)
		told = append(told, client.ObjectKeyFromObject(k.miniCluster))
	}
	return told, nil
}
