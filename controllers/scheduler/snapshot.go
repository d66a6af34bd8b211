// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
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

// snapshot completes what the queue decides on. It only reads.
func (c *cycle) snapshot() {
	c.Total, c.Foreign = c.ledger.Total(), c.ledger.Foreign()
	c.Settles, c.Amount = c.due.settles, state.AmountText
	c.MostUnmade = c.StartingPods
	c.Unmade, _ = c.starts.unmade(c.ledger.Unmade)
	for _, name := range slices.Sorted(maps.Keys(c.seen.byName)) {
		c.Queues = append(c.Queues, state.Queue(c.seen.byName[name]))
	}
	barred := c.barred()
	c.gangsNow(barred)
	c.running()
	c.noteGoing()
	c.barGrowth(barred)
	c.wantMore()
}

// gangsNow makes the gangs that wait, in the memory of the last cycle, and keeps one request of each class.
func (c *cycle) gangsNow(barred func(namespace, queue string) string) {
	counts := map[string]queue.Resources{} // by class
	c.Waiting = slices.Grow(c.due.gangs[:0], len(c.waiting))[:len(c.waiting)]
	for i, e := range c.waiting {
		gang := &c.Waiting[i]
		c.gangNow(gang, e)
		requests, counted := counts[gang.Class]
		if !counted {
			requests = c.ledger.Counts(e.ask)
			counts[gang.Class], c.wanted[gang.Class] = requests, e.ask
		}
		gang.Requests = requests
		gang.Refused = cmp.Or(
			elastic.Refuse(elastic.NotAllowed, cmp.Or(barred(e.Namespace, e.queue), e.withoutQuota())),
			elastic.Refuse(elastic.DeadlineTooLong, state.TooLong(e.miniCluster, e.queue, e.deadlines)),
			elastic.Refuse(elastic.QuotaExceeded, e.overQuota),
			elastic.Refuse(elastic.WaitingForVolume, e.ask.Reach.Waits),
		)
		if until := e.ask.AvoidUntil; c.now.Before(until) {
			c.lookAgain = elastic.Earliest(c.lookAgain, until)
		}
		c.learning.Expect(gang)
	}
}

// gangNow makes the gang of an entry by what its queue, which may not exist, says now, by the last decision, and with
// the reservations.
func (c *cycle) gangNow(gang *queue.Gang, e *entry) {
	q := c.seen.byName[e.queue]
	*gang = e.gang
	gang.Memory = e.decision.Memory
	gang.Blocked = elastic.Earliest(e.gang.Blocked, e.decision.Blocked)
	gang.Asked, gang.AskProblem = e.asked, e.askProblem
	gang.Urgent = gang.Urgent || gang.Asked != nil && gang.Asked.Until.IsZero()
	if e.quota == nil {
		gang.Created = state.Age(gang, q)
	}
	gang.User = state.User(e.known.miniCluster, q)
	ask := e.ask.At(c.now)
	gang.Class += ask.Reach.Key + c.ledger.Class(&ask)
	if !c.ledger.Reserved() {
		return
	}
	// It must not wait until it may not start. One whose run time is learned later has no limit: reservations bar it now.
	if barred := c.ledger.BarredNext(ask); !barred.IsZero() {
		gang.StartsAtOnce = gang.StartsAtOnce || gang.Expected > 0
		gang.Urgent = gang.Urgent || barred.Before(c.now.Add(2*startsWithin))
	}
}

// wantMore keeps one request of each class of gangs that may grow.
func (c *cycle) wantMore() {
	for i := range c.Running {
		if r := &c.Running[i]; r.Malleable && r.Max > len(r.Ranks) {
			c.wanted[r.Class] = c.catalog.known[types.UID(r.ID)].ask
		}
	}
}

// barred returns why a queue does not serve a namespace; "" if it does. Of many gangs of a namespace only
// the first costs time.
func (c *cycle) barred() func(namespace, queue string) string {
	known := map[types.NamespacedName]string{} // by namespace and queue
	return func(namespace, queue string) string {
		q, name := c.seen.byName[queue], types.NamespacedName{Namespace: namespace, Name: queue}
		if q == nil || q.Spec.NamespaceSelector == nil {
			return ""
		}
		why, asked := known[name]
		if !asked {
			why = state.Barred(q, namespace, c.ledger.NamespaceLabels(namespace))
			known[name] = why
		}
		return why
	}
}

// barGrowth lets no gang grow whose queue does not serve its namespace. The gang keeps what it has.
func (c *cycle) barGrowth(barred func(namespace, queue string) string) {
	for i := range c.Running {
		r := &c.Running[i]
		mc := c.catalog.known[types.UID(r.ID)].miniCluster
		a := mc.Status.Admission
		unquoted := r.Queue == v1alpha2.KueueQueue && a != nil && a.Quota == nil // admitted by a manager that allowed that
		if unquoted || barred(mc.Namespace, r.Queue) != "" {
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

// running are the gangs with nodes, and those whose pods still hold some.
func (c *cycle) running() {
	holders := c.ledger.Holders()
	c.Running = make([]queue.Running, 0, len(holders))
	for _, uid := range holders {
		k := c.catalog.known[uid]
		if k == nil {
			continue
		}
		switch e := c.line.entries[client.ObjectKeyFromObject(k.miniCluster)]; {
		case k.promise != nil:
			c.Running = append(c.Running, c.runs(k))
		case e != nil && c.ledger.Assumed(uid):
			promise := c.ledger.Promised(uid)
			r := queue.Running{Gang: e.gang, Ranks: promise.Ranks(), Max: len(promise.Nodes), Admitted: c.now}
			if r.Limit > 0 {
				r.End = c.now.Add(r.Limit)
			}
			c.Running = append(c.Running, r)
		case e != nil: // it waits; the pods that it has left behind hold no more than their nodes
		default:
			r := k.running
			if r.Ranks, r.Ending = c.leaving.of(uid), true; len(r.Ranks) > 0 {
				c.Running = append(c.Running, r)
			}
		}
	}
	for i := range c.Running {
		r, uid := &c.Running[i], types.UID(c.Running[i].ID)
		r.Requests = c.ledger.CountsNow(uid, r.Requests)
		r.Outside = slices.DeleteFunc(c.ledger.Outside(uid), func(rank int) bool { return !slices.Contains(r.Ranks, rank) })
		r.User = state.User(c.catalog.known[uid].miniCluster, c.seen.byName[r.Queue])
		c.learning.Expect(&r.Gang)
	}
}

// clearNotice is how long before a reservation for nobody gangs leave its nodes, besides the time for their checkpoints.
const clearNotice = time.Minute

// noteGoing notes which ranks of running gangs are on nodes that are about to go, and when further ones will be, because
// of a reservation.
func (c *cycle) noteGoing() {
	for i := range c.Running {
		r, uid := &c.Running[i], types.UID(c.Running[i].ID)
		ask := c.askOf(c.catalog.known[uid])
		ranks, later := c.ledger.Going(uid, &ask, r.SaveCost+clearNotice, c.now)
		r.Going, c.lookAgain = ranks, elastic.Earliest(c.lookAgain, later)
	}
}

// runs is a gang with nodes, as it will be after its order.
func (c *cycle) runs(k *known) queue.Running {
	r, uid := k.running, k.miniCluster.UID
	leave := c.leaving.of(uid)
	r.Ranks, r.Draining = slices.Concat(c.ledger.Promised(uid).Ranks(), leave), slices.Concat(r.Draining, leave)
	slices.Sort(r.Ranks)
	if c.ledger.HasDisowned(uid) { // no rank grows where a pod stays
		r.Max = min(r.Max, len(r.Ranks))
	}
	ask := c.askOf(k)
	r.Class += ask.Reach.Key + c.ledger.Class(&ask)
	order, at := c.ledger.OrderOf(uid)
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
func (c *cycle) room() (queue.Room, error) {
	return c.ledger.Room(func(id string) (state.Ask, bool) {
		k := c.catalog.known[types.UID(id)]
		if k == nil {
			return state.Ask{}, false
		}
		if e := c.line.entries[client.ObjectKeyFromObject(k.miniCluster)]; e != nil && e.known == k && c.line.waits(e) {
			return e.ask.At(c.now), true
		}
		return c.askOf(k), c.ledger.Promised(k.miniCluster.UID) != nil
	})
}

// askOf is the request of a MiniCluster with nodes. Before its status shows them, its queue and time limit are those
// of its entry.
func (c *cycle) askOf(k *known) state.Ask {
	ask := k.ask
	if e := c.line.of(k.miniCluster); e != nil {
		ask.Queue, ask.Lasts = e.queue, e.ask.Lasts
	}
	return ask.At(c.now)
}
