// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/kueue"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

// known is a MiniCluster that the cache shows, translated once per version.
type known struct {
	version     string
	miniCluster *v1alpha2.MiniCluster // with defaults
	// promise is what its status shows that it holds; nil if nothing.
	promise *state.Promise
	// running is the MiniCluster for the queue once it has nodes, and ask its request for more.
	running queue.Running
	ask     state.Ask
	reached uint64 // changes of volumes that ask.Reach contains
	// pod is one of its pods after admission by the API server, or else from its template.
	pod *corev1.Pod
	// limit is the largest size for which it may have quota from Kueue.
	limit int
}

// snapshot is what a cycle decides on.
type snapshot struct {
	queue.Snapshot
	*clusterState
	// waiting are the waiting entries by ID.
	waiting map[string]*entry
	// freed are the MiniClusters that have to be checked again, because quotas may have got room.
	freed []types.NamespacedName
	// avoidUntil is when the first of them stops avoiding nodes; zero if none avoids any.
	avoidUntil time.Time
}

// learn updates the known MiniClusters and the ledger to what the cache shows.
func (s *Scheduler) learn(ctx context.Context, seen *clusterState, now time.Time) {
	there := make(map[types.UID]bool, len(seen.miniClusters))
	for _, mc := range seen.miniClusters {
		there[mc.UID] = true
		pod := s.pods[mc.UID]
		if k := s.known[mc.UID]; k == nil || k.version != mc.ResourceVersion || k.limit != s.limits[mc.UID] || (pod != nil && k.pod != pod) {
			k = s.translate(ctx, mc)
			s.known[mc.UID] = k
			s.confirm(k, now)
		}
	}
	for uid := range s.known {
		if there[uid] {
			continue
		}
		delete(s.repairs, uid)
		s.known[uid].promise = nil
		s.confirm(s.known[uid], now)
		s.ledger.Forget(uid)
		if len(s.ledger.Holds(uid)) == 0 { // its pods may still exist
			delete(s.known, uid)
		}
	}
	maps.DeleteFunc(s.pods, func(uid types.UID, _ *corev1.Pod) bool { return !there[uid] })
	maps.DeleteFunc(s.limits, func(uid types.UID, _ int) bool { return !there[uid] })
	s.ledger.Lapse(now)
	for name, e := range s.entries {
		if k := s.known[e.miniCluster.UID]; k != nil && k.promise != nil {
			delete(s.entries, name) // it took its nodes
		}
	}
}

// confirm tells the ledger what a MiniCluster holds now. If its admission ended before all pods were made,
// these may still be made and bound.
func (s *Scheduler) confirm(k *known, now time.Time) {
	if k.promise == nil && s.Linger != nil {
		s.ledger.Linger(k.miniCluster.UID, now.Add(s.Linger()))
		return
	}
	s.ledger.Confirm(k.miniCluster.UID, k.promise)
}

// translate reads a MiniCluster. If its admission cannot be read, it holds what its pods hold,
// and its own pass reports the error.
func (s *Scheduler) translate(ctx context.Context, mc *v1alpha2.MiniCluster) *known {
	k := &known{version: mc.ResourceVersion, miniCluster: mc.DeepCopy(), limit: s.limits[mc.UID]}
	k.miniCluster.Default()
	var err error
	admitted := s.pods[mc.UID]
	if k.pod = admitted; admitted == nil {
		if k.pod, err = jobset.Pod(k.miniCluster); err != nil { // it has no pods either
			k.pod = &corev1.Pod{}
		}
	}
	var quota *v1alpha2.Quota
	if a := mc.Status.Admission; a != nil {
		quota = a.Quota
		k.pod = kueue.Confine(k.pod, quota)
	}
	k.ask = state.Request(k.miniCluster, k.pod, quota, s.topology)
	if k.promise, err = state.PromiseOf(k.miniCluster); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Reading what a MiniCluster was promised", "MiniCluster", client.ObjectKeyFromObject(mc))
		k.promise = nil
	}
	k.running = state.Running(k.miniCluster, k.pod, k.promise)
	if admitted == nil { // which nodes more of its pods can use is not known yet
		k.running.Max = len(k.running.Ranks)
	}
	if quota != nil { // more brokers need more quota
		k.running.Max = max(min(k.running.Max, k.limit), len(k.running.Ranks))
	}
	if k.promise != nil {
		k.ask.Pods.Requests = k.promise.Requests
	}
	return k
}

// snapshot returns what a cycle decides on, and what is free.
func (s *Scheduler) snapshot(seen *clusterState, now time.Time) (*snapshot, queue.Room, error) {
	if !now.Before(s.settles) {
		s.freedSince = time.Time{}
	}
	out := &snapshot{clusterState: seen, waiting: map[string]*entry{}}
	out.Total, out.Foreign = s.ledger.Total(), s.ledger.Foreign()
	out.Settles, out.Amount = s.settles, state.AmountText
	queues := queuesByName(seen.queues)
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		out.Queues = append(out.Queues, state.Queue(queues[name]))
	}
	s.reserveQuotas(seen)
	for _, e := range s.entries {
		if e.awaitsQuota {
			patient := e.ahead <= elastic.AheadNothing || now.Sub(e.aheadAt) < quotaPatience
			e.mayMakeAhead = patient && !seen.quotas.Limit(e.miniCluster.Namespace)
		}
	}
	barred, counts := s.barred(queues), map[string]queue.Resources{}
	for _, e := range s.waiting(seen) {
		gang := s.gangNow(e, queues[e.queue], now)
		if gang.Exclusive {
			if counts[gang.Class] == nil {
				counts[gang.Class] = s.ledger.Counts(e.ask)
			}
			gang.Requests = counts[gang.Class]
		}
		var freed bool
		if gang.NotAllowed, freed = s.askQuotas(e, seen); freed {
			out.freed = append(out.freed, e.name())
		}
		gang.NotAllowed = cmp.Or(barred(e.miniCluster.Namespace, e.queue), state.TooLong(e.miniCluster, e.queue, e.deadlines), gang.NotAllowed, e.ask.Reach.Waits)
		out.Waiting = append(out.Waiting, gang)
		out.waiting[gang.ID] = e
		if until := e.ask.AvoidUntil; now.Before(until) {
			out.avoidUntil = elastic.Earliest(out.avoidUntil, until)
		}
	}
	out.Running = s.running(now)
	s.barGrowth(out.Running, barred)
	s.want(out)
	s.reckon(out, queues, now)
	room, err := s.room(out.waiting, now)
	return out, room, err
}

// gangNow is the gang of an entry by what its queue, which may be nil, says now, by the last decision, and with the
// reservations.
func (s *Scheduler) gangNow(e *entry, q *v1alpha2.MiniClusterQueue, now time.Time) queue.Gang {
	e.deadlines = state.Deadlines(q)
	e.gang.Limit = state.Limit(e.miniCluster, e.deadlines)
	e.ask.Lasts = state.Lasts(e.miniCluster, e.gang.Limit)
	gang := e.gang
	gang.Blocked = elastic.Earliest(gang.Blocked, e.decision.Blocked)
	gang.HoldFor, gang.HoldUntil = e.decision.HoldFor, e.decision.HoldUntil
	if e.quota == nil {
		gang.Created = state.Age(e.miniCluster, q)
	}
	ask := e.ask.At(now)
	gang.Class = s.classOf(gang.Class, ask)
	if gang.Expected > 0 && !s.ledger.BarredNext(ask).IsZero() { // it must not wait until it may not start
		gang.StartsAtOnce = true
	}
	return gang
}

// want keeps one request of each class of gangs that wait or may grow.
func (s *Scheduler) want(seen *snapshot) {
	s.wanted = map[string]state.Ask{}
	for _, gang := range seen.Waiting {
		s.wanted[gang.Class] = seen.waiting[gang.ID].ask
	}
	for i := range seen.Running {
		if r := &seen.Running[i]; r.Malleable && r.Max > len(r.Ranks) {
			s.wanted[r.Class] = s.known[types.UID(r.ID)].ask
		}
	}
}

// barred returns why a queue does not serve a namespace; "" if it does. Of many gangs of a namespace only
// the first costs time.
func (s *Scheduler) barred(queues map[string]*v1alpha2.MiniClusterQueue) func(namespace, queue string) string {
	known := map[types.NamespacedName]string{} // by namespace and queue
	return func(namespace, queue string) string {
		q, name := queues[queue], types.NamespacedName{Namespace: namespace, Name: queue}
		if q == nil || q.Spec.NamespaceSelector == nil {
			return ""
		}
		why, asked := known[name]
		if !asked {
			why = state.Barred(q, namespace, s.labelsOf(namespace))
			known[name] = why
		}
		return why
	}
}

// barGrowth lets no gang grow whose queue does not serve its namespace. The gang keeps what it has.
func (s *Scheduler) barGrowth(running []queue.Running, barred func(namespace, queue string) string) {
	for i := range running {
		if r := &running[i]; barred(s.known[types.UID(r.ID)].miniCluster.Namespace, r.Queue) != "" {
			r.Max = len(r.Ranks)
		}
	}
}

// queuesByName are the existing queues, and the default queue and that of Kueue, which need not
// exist. Kueue has put the MiniClusters of its queue in order, and decides which of them lose their
// quota.
func queuesByName(made []*v1alpha2.MiniClusterQueue) map[string]*v1alpha2.MiniClusterQueue {
	byDefault, kueue := &v1alpha2.MiniClusterQueue{}, &v1alpha2.MiniClusterQueue{}
	byDefault.Name, kueue.Name = v1alpha2.DefaultQueue, v1alpha2.KueueQueue
	kueue.Spec.Ordering, kueue.Spec.Reclaimable = v1alpha2.OrderFIFO, new(bool)
	queues := map[string]*v1alpha2.MiniClusterQueue{byDefault.Name: byDefault, kueue.Name: kueue}
	for _, q := range made {
		queues[q.Name] = q
	}
	return queues
}

// reserveQuotas reserves what the unmade pods of admitted MiniClusters will use of quotas.
func (s *Scheduler) reserveQuotas(seen *clusterState) {
	for uid, k := range s.known {
		if s.ledger.Promised(uid) != nil {
			seen.quotas.Reserve(k.miniCluster.Namespace, k.pod, int(state.MaxSize(k.miniCluster))-seen.made[uid])
		}
	}
}

// unmade is the number of pods that a waiting MiniCluster has not made yet.
func (c *clusterState) unmade(e *entry) int {
	return max(int(e.miniCluster.Spec.MostSize())-c.made[e.miniCluster.UID], 0)
}

// waiting are the entries to decide on. After a restart, or when many come at once, MiniClusters
// are not checked yet. Younger ones of the same queue wait for them.
func (s *Scheduler) waiting(seen *clusterState) []*entry {
	unchecked := map[string]metav1.Time{} // creation of the oldest, by queue
	for _, mc := range seen.miniClusters {
		if s.checked[client.ObjectKeyFromObject(mc)] == mc.UID || !mayCome(mc) {
			continue
		}
		name := s.queueOf(mc)
		if oldest, ok := unchecked[name]; !ok || mc.CreationTimestamp.Before(&oldest) {
			unchecked[name] = mc.CreationTimestamp
		}
	}
	var waits []*entry
	for _, e := range s.entries {
		oldest, ok := unchecked[e.queue]
		k := s.known[e.miniCluster.UID]
		if k == nil || e.awaitsQuota || k.miniCluster.DeletionTimestamp != nil || s.ledger.Assumed(e.miniCluster.UID) { // deleted, or has nodes
			continue
		}
		if !ok || e.miniCluster.CreationTimestamp.Before(&oldest) {
			waits = append(waits, e)
		}
	}
	slices.SortFunc(waits, func(a, b *entry) int { return cmp.Compare(a.miniCluster.UID, b.miniCluster.UID) })
	return waits
}

// mayCome reports whether a MiniCluster may be queued after its check.
func mayCome(mc *v1alpha2.MiniCluster) bool {
	return mc.DeletionTimestamp == nil && mc.Spec.IsOurs() && !mc.Spec.Suspend && mc.Status.Admission == nil &&
		!meta.IsStatusConditionTrue(mc.Status.Conditions, v1alpha2.ConditionFinished)
}

// running are the gangs with nodes, and those whose pods still hold some.
func (s *Scheduler) running(now time.Time) []queue.Running {
	var out []queue.Running
	for _, uid := range slices.Sorted(maps.Keys(s.known)) {
		k := s.known[uid]
		e, holds := s.entries[client.ObjectKeyFromObject(k.miniCluster)], s.ledger.Holds(uid)
		switch {
		case k.promise != nil:
			out = append(out, s.runs(k, holds, now))
		case e != nil && s.ledger.Assumed(uid):
			promise := s.ledger.Promised(uid)
			r := queue.Running{Gang: e.gang, Ranks: promise.Ranks(), Max: len(promise.Nodes), Admitted: now}
			if r.Limit > 0 {
				r.End = now.Add(r.Limit)
			}
			out = append(out, r)
		case e != nil: // it waits; the pods that it has left behind hold no more than their nodes
		case len(holds) > 0:
			r := k.running
			r.Ranks, r.Ending = holds, true
			out = append(out, r)
		}
	}
	for i := range out {
		out[i].Requests = s.ledger.CountsNow(types.UID(out[i].ID), out[i].Requests)
	}
	return out
}

// runs is a gang with nodes, as it will be after its order.
func (s *Scheduler) runs(k *known, holds []int, now time.Time) queue.Running {
	r := k.running
	r.Ranks = s.ledger.Promised(k.miniCluster.UID).Ranks()
	for _, rank := range holds {
		if !slices.Contains(r.Ranks, rank) { // its old pod still exists
			r.Ranks, r.Draining = append(r.Ranks, rank), append(slices.Clone(r.Draining), rank)
		}
	}
	slices.Sort(r.Ranks)
	r.Class = s.classOf(r.Class, s.askOf(k, now))
	order, at := s.ledger.OrderOf(k.miniCluster.UID)
	r.Malleable = r.Malleable && order == nil // one order at a time
	switch o := order.(type) {
	case elastic.Evict:
		r.Ending = true
	case elastic.Drain:
		r.Draining, r.DrainBy = append(slices.Clone(r.Draining), o.Ranks...), at
	}
	return r
}

// classOf is the class of a gang, with what its volumes reach and the reservations that keep nodes from it.
func (s *Scheduler) classOf(class string, ask state.Ask) string {
	class += ask.Reach.Key
	if barred := s.ledger.Barred(ask); barred != "" {
		return class + " without " + barred
	}
	return class
}

// room is what is free for the waiting gangs and for those that may grow.
func (s *Scheduler) room(waiting map[string]*entry, now time.Time) (queue.Room, error) {
	asks := make(map[string]state.Ask, len(waiting))
	for id, e := range waiting {
		asks[id] = e.ask.At(now)
	}
	for uid, k := range s.known {
		if s.ledger.Promised(uid) != nil && waiting[string(uid)] == nil {
			asks[string(uid)] = s.askOf(k, now)
		}
	}
	return s.ledger.Room(asks)
}
