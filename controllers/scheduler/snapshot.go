// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/ledger"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

// snapshot is what a cycle decides on.
type snapshot struct {
	queue.Snapshot
	*clusterState
	// waiting are the entries of Waiting, and decided those of the decisions, each in the same order.
	waiting, decided []*entry
	// freed are the MiniClusters that have to be checked again, because quotas may have got room.
	freed []types.NamespacedName
	// avoidUntil is when the first of them stops avoiding nodes; zero if none avoids any.
	avoidUntil time.Time
	// clearsAt is when the next running gang has to leave nodes because of a reservation; zero if none has to.
	clearsAt time.Time
	// leavesAt is when others stop to wait for the next gang that leaves; zero if none leaves.
	leavesAt time.Time
	// filling are the namespaces with a quota in which pods of admitted MiniClusters are being made.
	filling map[string]bool
	// quotasAt is when to look again at quotas of namespaces; zero if that is not needed.
	quotasAt time.Time
}

// snapshot returns what a cycle decides on, and what is free.
func (s *Scheduler) snapshot(seen *clusterState, now time.Time) (*snapshot, queue.Room, error) {
	if !now.Before(s.settles) {
		s.freedSince = time.Time{}
	}
	out := &snapshot{clusterState: seen, waiting: s.waiting(seen), leavesAt: s.lookAtLeaving(now)}
	out.decided = make([]*entry, 0, len(out.waiting))
	out.Total, out.Foreign = s.ledger.Total(), s.ledger.Foreign()
	out.Settles, out.Amount = s.settles, state.AmountText
	out.MostUnmade = s.StartingPods
	out.Unmade, _ = s.starts.unmade(s.ledger.Unmade)
	queues := queuesByName(seen.queues)
	for _, name := range slices.Sorted(maps.Keys(queues)) {
		out.Queues = append(out.Queues, state.Queue(queues[name]))
	}
	out.filling = s.reserveQuotas(seen, now)
	s.wanted = map[string]state.Ask{}
	barred := s.barred(queues)
	s.gangsNow(out, queues, barred, now)
	out.Running = s.running(now)
	out.clearsAt = s.noteGoing(out.Running, now)
	s.barGrowth(out.Running, barred)
	s.wantMore(out.Running)
	s.scaleUp(out, queues)
	s.learnRuntimes(queues)
	s.keepBooks(queues)
	s.reckon(out, queues, now)
	room, err := s.room(now)
	return out, room, err
}

// gangsNow makes the gangs that wait, in the memory of the last cycle, and keeps one request of each class.
func (s *Scheduler) gangsNow(out *snapshot, queues map[string]*v1alpha2.MiniClusterQueue, barred func(namespace, queue string) string, now time.Time) {
	counts := map[string]queue.Resources{} // by class
	out.Waiting = slices.Grow(s.gangs[:0], len(out.waiting))[:len(out.waiting)]
	s.gangs = out.Waiting
	for i, e := range out.waiting {
		gang := &out.Waiting[i]
		s.gangNow(gang, e, queues[e.queue], now)
		requests, counted := counts[gang.Class]
		if !counted {
			requests = s.ledger.Counts(e.ask)
			counts[gang.Class], s.wanted[gang.Class] = requests, e.ask
		}
		gang.Requests = requests
		var freed bool
		if gang.NotAllowed, freed = s.askQuotas(e, out.clusterState); freed {
			out.freed = append(out.freed, e.NamespacedName)
		}
		if gang.NotAllowed != "" && out.filling[e.Namespace] {
			out.quotasAt = elastic.Earliest(out.quotasAt, now.Add(quotaInterval))
		}
		gang.NotAllowed = cmp.Or(barred(e.Namespace, e.queue), state.TooLong(e.miniCluster, e.queue, e.deadlines), gang.NotAllowed, e.ask.Reach.Waits)
		if until := e.ask.AvoidUntil; now.Before(until) {
			out.avoidUntil = elastic.Earliest(out.avoidUntil, until)
		}
	}
}

// gangNow makes the gang of an entry by what its queue, which may be nil, says now, by the last decision, and with
// the reservations.
func (s *Scheduler) gangNow(gang *queue.Gang, e *entry, q *v1alpha2.MiniClusterQueue, now time.Time) {
	if deadlines := state.Deadlines(q); !e.limited || e.deadlines != deadlines {
		e.limited, e.deadlines = true, deadlines
		e.gang.Limit = state.Limit(e.miniCluster, deadlines)
		e.ask.Lasts = state.Lasts(e.miniCluster, e.gang.Limit, deadlines)
	}
	e.ask.Arch = state.Arch(q)
	*gang = e.gang
	gang.Memory = e.decision.Memory
	gang.Blocked = elastic.Earliest(e.gang.Blocked, e.decision.Blocked)
	if s.Autoscaler != nil && q != nil && q.Spec.ScaleUp != nil {
		gang.Asked, gang.AskProblem = s.Autoscaler.Asked(e.NamespacedName, e.miniCluster.UID)
	}
	e.asked = gang.Asked
	gang.Urgent = gang.Urgent || gang.Asked != nil && gang.Asked.Until.IsZero()
	if e.quota == nil {
		gang.Created = state.Age(gang, q)
	}
	ask := e.ask.At(now)
	gang.Class += ask.Reach.Key + s.ledger.Class(&ask)
	if !s.ledger.Reserved() {
		return
	}
	// It must not wait until it may not start. One whose run time is learned later has no limit: reservations bar it now.
	if barred := s.ledger.BarredNext(ask); !barred.IsZero() {
		gang.StartsAtOnce = gang.StartsAtOnce || gang.Expected > 0
		gang.Urgent = gang.Urgent || barred.Before(now.Add(2*startsWithin))
	}
}

// wantMore keeps one request of each class of gangs that may grow.
func (s *Scheduler) wantMore(running []queue.Running) {
	for i := range running {
		if r := &running[i]; r.Malleable && r.Max > len(r.Ranks) {
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

// quotaInterval is how often the quotas of a namespace are looked at in which pods are being made. The API server counts a
// pod before a cache shows the pod, so the pod counts twice for a moment.
const quotaInterval = time.Second

// reserveQuotas reserves what the unmade pods of admitted MiniClusters will use of quotas. It returns the namespaces in
// which such pods are being made.
func (s *Scheduler) reserveQuotas(seen *clusterState, now time.Time) map[string]bool {
	filling := map[string]bool{}
	for _, k := range s.promised() {
		if namespace := k.miniCluster.Namespace; seen.quotas.Limit(namespace) {
			demand := s.demand(seen, k.miniCluster, k.pod)
			seen.quotas.Reserve(namespace, demand)
			began := k.miniCluster.Status.StartTime
			if (demand.Pods > 0 || demand.Services != nil) && (began == nil || now.Sub(began.Time) < startsWithin) {
				filling[namespace] = true
			}
		}
	}
	return filling
}

// demand is what a MiniCluster has not made yet: pods like one, the services pod, and Jobs, if there is no pod.
func (s *Scheduler) demand(seen *clusterState, mc *v1alpha2.MiniCluster, pod *corev1.Pod) ledger.Demand {
	made := seen.made[mc.UID]
	d := ledger.Demand{Pod: pod, Pods: max(int(state.MaxSize(mc))-made, 0)}
	if made == 0 {
		d.Jobs = jobset.CountJobs(mc)
	}
	if !seen.served[mc.UID] {
		d.Services = s.services[mc.UID]
		if a := mc.Status.Admission; d.Services == nil && a != nil && a.Generation == mc.Generation { // after a restart
			d.Services, _ = jobset.ServicesPod(mc)
		}
	}
	return d
}

// waiting are the entries to decide on, each with what the cache shows. After a restart, or when many come at
// once, MiniClusters are not checked yet. Younger ones of the same queue wait for them.
func (s *Scheduler) waiting(seen *clusterState) []*entry {
	for _, e := range s.entries {
		if e.known == nil || e.known.outdated {
			e.known = s.known[e.miniCluster.UID]
		}
		if e.known != nil {
			e.known.entry = e
		}
	}
	unchecked := s.unchecked(seen)
	waits := make([]*entry, 0, len(s.entries))
	for _, e := range s.entries {
		if oldest, ok := unchecked[e.queue]; s.waits(e) && (!ok || e.miniCluster.CreationTimestamp.Before(&oldest)) {
			waits = append(waits, e)
		}
	}
	return inLine(waits)
}

// unchecked is the creation of the oldest MiniCluster that is not checked yet, by queue.
func (s *Scheduler) unchecked(seen *clusterState) map[string]metav1.Time {
	unchecked := map[string]metav1.Time{}
	for _, k := range seen.known {
		mc := k.miniCluster
		if !k.mayCome || k.entry != nil || s.checked[client.ObjectKeyFromObject(mc)].uid == mc.UID {
			continue
		}
		name := s.queueOf(mc)
		if oldest, ok := unchecked[name]; !ok || mc.CreationTimestamp.Before(&oldest) {
			unchecked[name] = mc.CreationTimestamp
		}
	}
	return unchecked
}

// waits reports whether an entry waits for nodes: it was not deleted, and has none. Only a decision gives it some.
func (s *Scheduler) waits(e *entry) bool {
	has := e.decision.Verdict == elastic.Admitted && s.ledger.Assumed(e.miniCluster.UID)
	return e.known != nil && !e.known.leaves && !has
}

// inLine puts entries in the order in which the last cycle decided on them, and new ones behind. Where
// time alone does not change the order, the queue sorts such a line in linear time.
func inLine(waits []*entry) []*entry {
	places := 1
	for _, e := range waits {
		places = max(places, e.place+1)
	}
	line, others := make([]*entry, places), make([]*entry, 0, len(waits))
	for _, e := range waits {
		if e.place > 0 && line[e.place] == nil {
			line[e.place] = e
		} else {
			others = append(others, e)
		}
	}
	slices.SortFunc(others, func(a, b *entry) int { return cmp.Compare(a.miniCluster.UID, b.miniCluster.UID) })
	return append(slices.DeleteFunc(line, func(e *entry) bool { return e == nil }), others...)
}

// running are the gangs with nodes, and those whose pods still hold some.
func (s *Scheduler) running(now time.Time) []queue.Running {
	holders := s.ledger.Holders()
	out := make([]queue.Running, 0, len(holders))
	for _, uid := range holders {
		k := s.known[uid]
		if k == nil {
			continue
		}
		switch e := s.entries[client.ObjectKeyFromObject(k.miniCluster)]; {
		case k.promise != nil:
			out = append(out, s.runs(k, now))
		case e != nil && s.ledger.Assumed(uid):
			promise := s.ledger.Promised(uid)
			r := queue.Running{Gang: e.gang, Ranks: promise.Ranks(), Max: len(promise.Nodes), Admitted: now}
			if r.Limit > 0 {
				r.End = now.Add(r.Limit)
			}
			out = append(out, r)
		case e != nil: // it waits; the pods that it has left behind hold no more than their nodes
		default:
			r := k.running
			if r.Ranks, r.Ending = s.leavers(uid), true; len(r.Ranks) > 0 {
				out = append(out, r)
			}
		}
	}
	for i := range out {
		r, uid := &out[i], types.UID(out[i].ID)
		r.Requests = s.ledger.CountsNow(uid, r.Requests)
		r.Outside = slices.DeleteFunc(s.ledger.Outside(uid), func(rank int) bool { return !slices.Contains(r.Ranks, rank) })
	}
	return out
}

// clearNotice is how long before a reservation for nobody gangs leave its nodes, besides the time for their checkpoints.
const clearNotice = time.Minute

// noteGoing notes which ranks of running gangs are on nodes that are about to go. next is when further ones will be,
// because of a reservation.
func (s *Scheduler) noteGoing(running []queue.Running, now time.Time) (next time.Time) {
	for i := range running {
		r, uid := &running[i], types.UID(running[i].ID)
		ask := s.askOf(s.known[uid], now)
		ranks, later := s.ledger.Going(uid, &ask, r.SaveCost+clearNotice, now)
		r.Going, next = ranks, elastic.Earliest(next, later)
	}
	return next
}

// runs is a gang with nodes, as it will be after its order.
func (s *Scheduler) runs(k *known, now time.Time) queue.Running {
	r := k.running
	r.Ranks = s.ledger.Promised(k.miniCluster.UID).Ranks()
	leave := s.leavers(k.miniCluster.UID)
	r.Ranks, r.Draining = slices.Concat(r.Ranks, leave), slices.Concat(r.Draining, leave)
	slices.Sort(r.Ranks)
	if s.ledger.HasDisowned(k.miniCluster.UID) { // no rank grows where a pod stays
		r.Max = min(r.Max, len(r.Ranks))
	}
	ask := s.askOf(k, now)
	r.Class += ask.Reach.Key + s.ledger.Class(&ask)
	order, at := s.ledger.OrderOf(k.miniCluster.UID)
	r.Changing = r.Changing || r.Malleable && order != nil
	r.Malleable = r.Malleable && order == nil // one order at a time
	switch o := order.(type) {
	case elastic.Evict:
		r.Ending = true
	case elastic.Drain:
		r.Draining, r.DrainBy = append(slices.Clone(r.Draining), o.Ranks...), at
	}
	return r
}

// room is what is free for the waiting gangs and for those that may grow.
func (s *Scheduler) room(now time.Time) (queue.Room, error) {
	return s.ledger.Room(func(id string) (state.Ask, bool) {
		k := s.known[types.UID(id)]
		if k == nil {
			return state.Ask{}, false
		}
		if e := s.entries[client.ObjectKeyFromObject(k.miniCluster)]; e != nil && e.known == k && s.waits(e) {
			return e.ask.At(now), true
		}
		return s.askOf(k, now), s.ledger.Promised(k.miniCluster.UID) != nil
	})
}
