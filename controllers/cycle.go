// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	quota "k8s.io/apiserver/pkg/quota/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// orderTimeout is how long an order waits to be taken up. One that never is was
// overtaken by what happened since.
const orderTimeout = time.Minute

// known is a MiniCluster that the cache shows, translated once for each version of it.
type known struct {
	version     string
	miniCluster *v1alpha2.MiniCluster // with defaults
	// promise is what its status says that it holds.
	promise *state.Promise
	// held is what the picture of the cluster was told.
	held *state.Promise
	// running is what it is for the queue once it has nodes, and ask what it asks for more.
	running elastic.Running
	ask     state.Ask
	// pod is one of its pods, as the cluster makes it if that is known since the start.
	pod *corev1.Pod
}

// givenOrder is an order whose nodes count before they are written down.
type givenOrder struct {
	*elastic.Order
	at time.Time
	// promise is what it holds with the order, of what it holds without; nil if that is
	// the same.
	promise, without *state.Promise
}

// with is what one holds by its order, beside what its status says now.
func (o *givenOrder) with(promise *state.Promise) *state.Promise {
	if o.without != promise && o.promise != nil {
		o.promise, o.without = promise.With(slices.Concat(o.Grow, o.Move)), promise
	}
	return cmp.Or(o.promise, promise)
}

// cycle decides, and returns what there is to tell.
func (s *Scheduler) cycle(ctx context.Context, seen *clusterState, now time.Time) (news, error) {
	s.changed = false
	done := false
	defer func() {
		s.changed = s.changed || !done // an error, or worse
	}()
	s.learn(ctx, seen, now)
	repaired, err := s.repair(now)
	if err != nil {
		return news{}, err
	}
	s.freed = s.cluster.Freed()
	reserved := s.reserved(seen)
	snapshot, byID := s.snapshot(seen, reserved, now)
	room, err := s.room(byID, now)
	if err != nil {
		return news{}, err
	}
	decided := s.choose(s.withinQuotas(elastic.Schedule(snapshot, room, now), seen, byID, reserved), room)
	result := s.store(decided, byID, seen, now)
	result.decided = append(result.decided, repaired...)
	result.decided = append(result.decided, s.order(decided, now)...)
	result.reported = s.reports.update(decided, snapshot, byID)
	for _, e := range byID {
		if until := e.ask.AvoidUntil; now.Before(until) {
			result.lookAgain = elastic.Earliest(result.lookAgain, until)
		}
	}
	for _, o := range s.orders {
		result.lookAgain = elastic.Earliest(result.lookAgain, o.at.Add(orderTimeout))
	}
	s.lookAgain = result.lookAgain
	done = true
	return result, nil
}

// choose lets the engine choose nodes, where there is one, for what was decided. One that
// it has none for, at that size, waits for the next cycle; and so do those that would grow,
// onto nodes that it may have chosen.
func (s *Scheduler) choose(decided elastic.Cycle, room elastic.Room) elastic.Cycle {
	if s.Engine == nil {
		return decided
	}
	for i := range decided.Decisions {
		decision := &decided.Decisions[i]
		if decision.Verdict != elastic.Admitted {
			continue
		}
		if decision.Nodes = room.Place(decision.Gang, []int{len(decision.Nodes)}); decision.Nodes == nil {
			decision.Verdict, decision.Message = elastic.NoRoom, "has room, but no nodes were chosen"
			s.wake()
		}
		if len(decided.Growths) > 0 {
			decided.Growths = nil
			s.wake()
		}
	}
	return decided
}

// learn brings what is known of MiniClusters up to what the cache shows.
func (s *Scheduler) learn(ctx context.Context, seen *clusterState, now time.Time) {
	there := make(map[types.UID]bool, len(seen.miniClusters))
	for _, mc := range seen.miniClusters {
		there[mc.UID] = true
		if k := s.known[mc.UID]; k == nil || k.version != mc.ResourceVersion {
			s.known[mc.UID] = s.translate(ctx, mc)
		}
	}
	for uid := range s.known {
		if there[uid] {
			continue
		}
		delete(s.orders, uid)
		delete(s.repairs, uid)
		s.known[uid].promise = nil
		s.hold(uid, nil)
		if len(s.cluster.Holds(uid)) == 0 { // its pods may be there still
			delete(s.known, uid)
		}
	}
	given := s.givenNodes()
	for uid, k := range s.known {
		s.hold(uid, cmp.Or(s.ordered(k, now), given[uid]))
	}
}

// givenNodes are the promises that are not written down yet. Entries whose promise is are
// done with.
func (s *Scheduler) givenNodes() map[types.UID]*state.Promise {
	given := map[types.UID]*state.Promise{}
	for name, e := range s.entries {
		switch k := s.known[e.miniCluster.UID]; {
		case k != nil && k.promise != nil:
			k.pod = e.pod
			delete(s.entries, name) // taken up
		case e.promise != nil:
			given[e.miniCluster.UID] = e.promise
		}
	}
	return given
}

// ordered is what one that has nodes holds, with what it was ordered to take besides. An
// order that was carried out, or was overtaken by what happened since, is forgotten.
func (s *Scheduler) ordered(k *known, now time.Time) *state.Promise {
	uid := k.miniCluster.UID
	switch o := s.orders[uid]; {
	case o == nil:
	case k.promise == nil, carriedOut(k, o), overtaken(k, o), now.Sub(o.at) > orderTimeout:
		delete(s.orders, uid)
	default:
		return o.with(k.promise)
	}
	return k.promise
}

// translate reads a MiniCluster. One whose admission cannot be read holds what its pods
// do; its own pass says what is wrong.
func (s *Scheduler) translate(ctx context.Context, mc *v1alpha2.MiniCluster) *known {
	k := &known{version: mc.ResourceVersion, miniCluster: mc.DeepCopy()}
	k.miniCluster.Default()
	pod, err := jobset.Pod(k.miniCluster)
	if err != nil { // it has none
		pod = &corev1.Pod{}
	}
	k.pod = pod
	if before := s.known[mc.UID]; before != nil {
		k.held, k.pod = before.held, before.pod
	}
	k.ask = state.Request(s.cluster, k.miniCluster, pod)
	if k.promise, err = state.PromiseOf(k.miniCluster); err == nil {
		k.running, err = state.Running(k.miniCluster, pod)
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Reading what a MiniCluster was promised", "MiniCluster", client.ObjectKeyFromObject(mc))
		k.promise, k.running.ID = nil, string(mc.UID)
	}
	if k.promise != nil {
		k.ask.Pods.Requests = k.promise.Requests
	}
	return k
}

// hold tells the picture of the cluster what a MiniCluster holds, if that is news.
func (s *Scheduler) hold(uid types.UID, promise *state.Promise) {
	k := s.known[uid]
	if k.held == promise {
		return
	}
	s.cluster.SetPromise(uid, promise)
	k.held = promise
}

// overtaken reports whether an order makes no sense any more: ranks that were to leave belong
// to a command that does not bear it, or one that was to move has given its node back.
func overtaken(k *known, o *givenOrder) bool {
	return (len(o.Drain) > 0 && !k.running.Malleable) || slices.ContainsFunc(o.Move, func(pod elastic.Pod) bool {
		return pod.Rank >= len(k.promise.Nodes) || k.promise.Nodes[pod.Rank] == ""
	})
}

// carriedOut reports whether the status shows what an order asked for.
func carriedOut(k *known, o *givenOrder) bool {
	admission := k.miniCluster.Status.Admission
	placed := func(pods []elastic.Pod) bool {
		return !slices.ContainsFunc(pods, func(pod elastic.Pod) bool {
			return pod.Rank >= len(k.promise.Nodes) || k.promise.Nodes[pod.Rank] != pod.Node
		})
	}
	switch {
	case o.Evict != "":
		return admission == nil // or another one: then there is another promise
	case len(o.Drain) > 0:
		return !slices.ContainsFunc(o.Drain, func(rank int) bool {
			holds := rank < len(k.promise.Nodes) && k.promise.Nodes[rank] != ""
			return holds && !slices.Contains(k.running.Draining, rank)
		})
	case len(o.Grow) > 0:
		return placed(o.Grow)
	}
	return placed(o.Move)
}

// room is what is free, and what those that are asked about ask for.
func (s *Scheduler) room(byID map[string]*entry, now time.Time) (elastic.Room, error) {
	asks := make(map[string]state.Ask, len(byID))
	for id, e := range byID {
		asks[id] = e.ask.At(now)
	}
	for uid, k := range s.known {
		if k.held == nil || byID[string(uid)] != nil {
			continue
		}
		asks[string(uid)] = k.ask.At(now)
	}
	return s.cluster.Room(asks, s.Engine)
}

// snapshot is what a cycle decides on, and the entries of those that wait.
func (s *Scheduler) snapshot(seen *clusterState, reserved map[string]corev1.ResourceList, now time.Time) (elastic.Snapshot, map[string]*entry) {
	out := elastic.Snapshot{Total: s.cluster.Total(), Settles: s.settles, Amount: state.AmountText}
	if !now.Before(s.settles) {
		s.freedSince = time.Time{}
	}
	queues := map[string]*v1alpha2.MiniClusterQueue{}
	byDefault := &v1alpha2.MiniClusterQueue{}
	byDefault.Name = v1alpha2.DefaultQueue
	for _, queue := range append([]*v1alpha2.MiniClusterQueue{byDefault}, seen.queues...) {
		queues[queue.Name] = queue
	}
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		out.Queues = append(out.Queues, state.Queue(queues[name]))
	}
	byID := map[string]*entry{}
	for _, e := range s.waiting(seen) {
		gang := e.gang
		gang.Created, gang.Blocked = state.Age(e.miniCluster, queues[e.queue]), e.decision.Blocked
		gang.NotAllowed = quotaRefusal(seen, e, reserved)
		out.Waiting = append(out.Waiting, gang)
		byID[gang.ID] = e
	}
	out.Running = s.running(now)
	return out, byID
}

// waiting are the entries to decide about. A MiniCluster that has not been checked yet, as
// after a restart or when many come at once, is not passed by others of its queue unless
// they are older, by seconds.
func (s *Scheduler) waiting(seen *clusterState) []*entry {
	unchecked := map[string]metav1.Time{} // the oldest, by queue
	for _, mc := range seen.miniClusters {
		if s.checked[client.ObjectKeyFromObject(mc)] == mc.UID || !mayCome(mc) {
			continue
		}
		queue := s.queueOf(mc)
		if oldest, ok := unchecked[queue]; !ok || mc.CreationTimestamp.Before(&oldest) {
			unchecked[queue] = mc.CreationTimestamp
		}
	}
	var waits []*entry
	for _, e := range s.entries {
		oldest, ok := unchecked[e.queue]
		k := s.known[e.miniCluster.UID]
		if k == nil || k.miniCluster.DeletionTimestamp != nil { // it will be forgotten
			continue
		}
		if e.promise == nil && (!ok || e.miniCluster.CreationTimestamp.Before(&oldest)) {
			waits = append(waits, e)
		}
	}
	slices.SortFunc(waits, func(a, b *entry) int { return cmp.Compare(a.miniCluster.UID, b.miniCluster.UID) })
	return waits
}

// mayCome reports whether a MiniCluster may enter the queue once it is checked.
func mayCome(mc *v1alpha2.MiniCluster) bool {
	return mc.DeletionTimestamp == nil && !mc.Spec.Suspend && mc.Status.Admission == nil &&
		!meta.IsStatusConditionTrue(mc.Status.Conditions, v1alpha2.ConditionFinished)
}

// running are those that have nodes, or whose pods still do.
func (s *Scheduler) running(now time.Time) []elastic.Running {
	assumed := map[types.UID]*entry{}
	for _, e := range s.entries {
		if e.promise != nil {
			assumed[e.miniCluster.UID] = e
		}
	}
	var out []elastic.Running
	for _, uid := range slices.Sorted(maps.Keys(s.known)) {
		k := s.known[uid]
		switch e := assumed[uid]; {
		case k.promise != nil:
			out = append(out, s.runs(k))
		case e != nil:
			out = append(out, elastic.Running{Gang: e.gang, Ranks: e.promise.Ranks(), Max: len(e.promise.Nodes), Admitted: now})
		default:
			if ranks := s.cluster.Holds(uid); len(ranks) > 0 {
				r := k.running
				r.Ranks, r.Ending = ranks, true
				out = append(out, r)
			}
		}
	}
	return out
}

// runs is one that has nodes, as it will be once its order is carried out.
func (s *Scheduler) runs(k *known) elastic.Running {
	r := k.running
	r.Ranks = k.held.Ranks()
	for _, rank := range s.cluster.Holds(k.miniCluster.UID) {
		if !slices.Contains(r.Ranks, rank) { // its pod is not gone yet
			r.Ranks, r.Draining = append(r.Ranks, rank), append(slices.Clone(r.Draining), rank)
		}
	}
	slices.Sort(r.Ranks)
	if o := s.orders[k.miniCluster.UID]; o != nil {
		r.Malleable = false // one thing at a time
		switch {
		case o.Evict != "":
			r.Ending = true
		case len(o.Drain) > 0:
			r.Draining, r.DrainBy = append(slices.Clone(r.Draining), o.Drain...), o.at
		}
	}
	return r
}

// reserved is what pods that admitted MiniClusters have still to make will use of the
// quotas of their namespaces.
func (s *Scheduler) reserved(seen *clusterState) map[string]corev1.ResourceList {
	out := map[string]corev1.ResourceList{}
	for uid, k := range s.known {
		namespace := k.miniCluster.Namespace
		if k.held == nil || len(seen.quotas[namespace]) == 0 {
			continue
		}
		if left := int(state.MaxSize(k.miniCluster)) - seen.made[uid]; left > 0 {
			out[namespace] = quota.Add(out[namespace], state.QuotaUse(k.pod, left))
		}
	}
	return out
}

// withinQuotas lets those wait that a quota has no more for once others, that were admitted
// with them, have their pods.
func (s *Scheduler) withinQuotas(decided elastic.Cycle, seen *clusterState, byID map[string]*entry, reserved map[string]corev1.ResourceList) elastic.Cycle {
	for i := range decided.Decisions {
		decision := &decided.Decisions[i]
		e := byID[decision.Gang]
		namespace := e.miniCluster.Namespace
		if decision.Verdict != elastic.Admitted || len(seen.quotas[namespace]) == 0 {
			continue
		}
		if why := quotaRefusal(seen, e, reserved); why != "" {
			decision.Verdict, decision.Message, decision.Nodes = elastic.NotAllowed, why, nil
			s.wake() // for those that it has something for
			continue
		}
		reserved[namespace] = quota.Add(reserved[namespace], state.QuotaUse(e.pod, unmade(seen, e)))
	}
	return decided
}

func quotaRefusal(seen *clusterState, e *entry, reserved map[string]corev1.ResourceList) string {
	namespace := e.miniCluster.Namespace
	if len(seen.quotas[namespace]) == 0 {
		return ""
	}
	why, _ := state.QuotaRefusal(seen.quotas[namespace], e.pod, unmade(seen, e), reserved[namespace])
	return why
}

// unmade is how many pods one that waits has still to make in a namespace with a quota.
func unmade(seen *clusterState, e *entry) int {
	return max(int(e.miniCluster.Spec.MaxSize)-seen.made[e.miniCluster.UID], 0)
}

// store keeps the decisions, and returns those that are new to somebody.
func (s *Scheduler) store(decided elastic.Cycle, byID map[string]*entry, seen *clusterState, now time.Time) news {
	var result news
	verdicts := map[elastic.Verdict]int{}
	for _, decision := range decided.Decisions {
		e := byID[decision.Gang]
		admitted := len(decision.Nodes) > 0
		// What changes all the time for those in the middle of a queue is in the queue's
		// status.
		inTheMiddle := decision.Blocked.IsZero() && decision.Verdict != elastic.NotAllowed && decision.Verdict != elastic.NeverFits
		otherWords := e.decision.Message != decision.Message && !inTheMiddle
		if e.decision.Verdict != decision.Verdict || otherWords || admitted {
			result.decided = append(result.decided, client.ObjectKeyFromObject(e.miniCluster))
		}
		e.decision = decision
		e.mayMakeAhead = startsInTime(decision.Verdict) && len(seen.quotas[e.miniCluster.Namespace]) == 0
		if admitted {
			s.starting[e.miniCluster.UID] = now
			e.promise = &state.Promise{Nodes: decision.Nodes, Requests: state.Requests(e.pod)}
			s.hold(e.miniCluster.UID, e.promise)
		}
		verdicts[decision.Verdict]++
		result.lookAgain = elastic.Earliest(result.lookAgain, decision.LookAgain)
	}
	for _, verdict := range []elastic.Verdict{elastic.NeverFits, elastic.NotAllowed, elastic.NoRoom, elastic.WaitingForSize, elastic.WaitingForTurn} {
		waiting.WithLabelValues(string(verdict)).Set(float64(verdicts[verdict]))
	}
	return result
}

// reasons are the API's words for what takes nodes away.
var reasons = map[string]string{"preempt": v1alpha2.ReasonPreempted, "reclaim": v1alpha2.ReasonReclaimed}

// order keeps what those that run are to do, and returns whom it is to be told.
func (s *Scheduler) order(decided elastic.Cycle, now time.Time) []types.NamespacedName {
	var told []types.NamespacedName
	s.owed = false
	put := func(id string, order elastic.Order) {
		k := s.known[types.UID(id)]
		if k == nil || k.promise == nil || s.orders[types.UID(id)] != nil {
			s.owed = true
			return
		}
		o := &givenOrder{Order: &order, at: now}
		if pods := append(slices.Clone(order.Grow), order.Move...); len(pods) > 0 {
			o.promise, o.without = k.promise.With(pods), k.promise
			s.hold(types.UID(id), o.promise)
		}
		s.orders[types.UID(id)] = o
		told = append(told, client.ObjectKeyFromObject(k.miniCluster))
	}
	for _, drain := range decided.Drains {
		put(drain.Gang, elastic.Order{Drain: drain.Ranks, DrainFor: drain.For})
	}
	for _, eviction := range decided.Evictions {
		put(eviction.Gang, elastic.Order{Evict: eviction.Message, EvictReason: reasons[eviction.Action]})
	}
	for _, growth := range decided.Growths {
		if k := s.known[types.UID(growth.Gang)]; k != nil && k.promise != nil && k.promise.Any(growth.Pods) {
			continue // ranks whose nodes are gone come first
		}
		put(growth.Gang, elastic.Order{Grow: growth.Pods})
	}
	return told
}

// repair looks for other nodes for ranks that cannot be bound on theirs.
func (s *Scheduler) repair(now time.Time) ([]types.NamespacedName, error) {
	var told []types.NamespacedName
	for _, uid := range slices.Sorted(maps.Keys(s.repairs)) {
		ranks := s.repairs[uid]
		k := s.known[uid]
		if k == nil || k.promise == nil || s.orders[uid] != nil {
			delete(s.repairs, uid)
			continue
		}
		room, err := s.room(nil, now)
		if err != nil {
			return nil, err
		}
		moved := room.Grow(string(uid), len(ranks))
		for i := range moved { // the nodes are for these
			moved[i].Rank = ranks[i]
		}
		moved = slices.DeleteFunc(moved, func(pod elastic.Pod) bool { return k.promise.Nodes[pod.Rank] == pod.Node })
		if len(moved) == 0 {
			continue // not yet; it gives up when that takes too long
		}
		delete(s.repairs, uid)
		o := &givenOrder{Order: &elastic.Order{Move: moved}, at: now, promise: k.promise.With(moved), without: k.promise}
		s.orders[uid] = o
		s.hold(uid, o.promise)
		told = append(told, client.ObjectKeyFromObject(k.miniCluster))
	}
	return told, nil
}
