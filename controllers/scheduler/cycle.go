// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/controllers/index"
	"github.com/flux-elastic/flux-elastic/controllers/metrics"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/quota"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

// news is the result of a cycle for others: MiniClusters with a new decision or order, queues and
// reservations whose report changed, MiniClusters for which something else is to be asked, and when time alone may change a decision.
type news struct {
	decided, reported, reserved, asked []types.NamespacedName
	lookAgain                          time.Time
}

// Reconcile runs a cycle, if one is due, and sends the news.
func (s *Scheduler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	now := s.Clock.Now()
	news, err := s.decide(ctx, now)
	if err != nil {
		return ctrl.Result{}, err
	}
	for _, part := range []struct {
		channel chan<- event.GenericEvent
		names   []types.NamespacedName
	}{{s.mail.decided, news.decided}, {s.mail.reported, news.reported}, {s.mail.reserved, news.reserved}, {s.mail.asked, news.asked}} {
		for _, name := range part.names {
			mc := &v1alpha2.MiniCluster{}
			mc.Namespace, mc.Name = name.Namespace, name.Name
			select {
			case part.channel <- event.GenericEvent{Object: mc}:
			case <-ctx.Done():
				return ctrl.Result{}, ctx.Err()
			}
		}
	}
	if news.lookAgain.IsZero() {
		return ctrl.Result{}, nil
	}
	return ctrl.Result{RequeueAfter: max(news.lookAgain.Sub(now), time.Millisecond)}, nil
}

// decide runs under one lock, so that nobody takes up a decision, and thereby ends its
// assumption, after the cache was read.
func (s *Scheduler) decide(ctx context.Context, now time.Time) (news, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.starts.pass(s.ledger.Unmade, now)
	if !s.due.isDue(s.ledger.Freed(), now) {
		return news{lookAgain: s.due.lookAgain}, nil
	}
	seen, err := s.observe(ctx)
	if err != nil {
		return news{}, err
	}
	return s.cycle(ctx, seen, now)
}

// cycle runs one cycle and returns the news.
func (s *Scheduler) cycle(ctx context.Context, seen *clusterState, now time.Time) (news, error) {
	began, done := s.Clock.Now(), false
	s.due.changed = false
	defer func() {
		s.due.changed = s.due.changed || !done // also after an error or a panic
		metrics.CountCycle(s.Clock.Since(began))
	}()
	c := newCycle(s.parts, seen, now)
	if err := c.run(ctx); err != nil {
		return news{}, err
	}
	s.due.lookAgain, done = c.lookAgain, true
	return c.news, nil
}

// cycle is one look at all MiniClusters: what was seen, what the queue decides on, and the news.
type cycle struct {
	*parts
	queue.Snapshot
	news
	seen *clusterState
	now  time.Time
	// waiting are the entries of Waiting, and decidedOn those of the decisions, each in the same order.
	waiting, decidedOn []*entry
	// freed are the MiniClusters that have to be checked again, because quotas may have got room.
	freed []types.NamespacedName
	// wanted are what the gangs ask for that wait or may grow, one for each class.
	wanted map[string]state.Ask
}

func newCycle(p *parts, seen *clusterState, now time.Time) *cycle {
	seen.byName = queuesByName(seen.queues)
	return &cycle{parts: p, seen: seen, now: now, wanted: map[string]state.Ask{}}
}

// run observes, decides, and assumes the decisions.
func (c *cycle) run(ctx context.Context) error {
	reserves, err := c.observe(ctx)
	if err != nil {
		return err
	}
	repaired, err := c.repair()
	if err != nil {
		return err
	}
	c.due.freed = c.ledger.Freed()
	room, err := c.look()
	if err != nil {
		return err
	}
	result := queue.Schedule(c.Snapshot, room, c.now)
	c.logTakers(ctx, &result)
	c.commit(&result)
	c.decided = append(c.decided, slices.Concat(repaired, c.freed)...)
	c.reserved, c.reservations = c.reservations.news(reserves, c.seen), reserves
	c.lookAgain = elastic.Earliest(c.lookAgain, c.ledger.Lapse(c.now))
	return nil
}

// observe brings the ledger and the requests up to date with what was seen. It returns the reports on reservations.
func (c *cycle) observe(ctx context.Context) (reservations, error) {
	c.ledger.Expect(c.MayBind != nil && c.MayBind())
	c.catalog.step(ctx, c.seen)
	c.ledger.Lapse(c.now)
	c.line.took(c.catalog.promised())
	if err := c.storage.step(ctx, c.Cache, c.line.entries, c.catalog.promised()); err != nil {
		return nil, err
	}
	reports, begins := c.reservations.step(c)
	c.lookAgain = begins
	return reports, nil
}

// look lets each part make a step, takes the snapshot, and returns what is free.
func (c *cycle) look() (queue.Room, error) {
	c.due.step(c.now)
	c.line.step(c)
	c.lookAgain = elastic.Earliest(c.lookAgain, c.leaving.step(c.ledger, c.now))
	c.learning.step(c.seen.byName)
	c.accounting.step(c.seen.byName)
	c.snapshot()
	c.due.wanted, c.due.gangs = c.wanted, c.Waiting
	c.scaling.step(c)
	c.usage.step(c, c.now)
	return c.room()
}

// logTakers tells administrators which MiniClusters get the nodes of others. These are not told the names of other
// namespaces.
func (c *cycle) logTakers(ctx context.Context, result *queue.Result) {
	log := func(gang, taker, action string) {
		if k := c.catalog.known[types.UID(gang)]; k != nil && taker != "" {
			ctrl.LoggerFrom(ctx).Info("Taking nodes of a MiniCluster for another", "MiniCluster", client.ObjectKeyFromObject(k.miniCluster), "for", taker, "action", action)
		}
	}
	for _, eviction := range result.Evictions {
		log(eviction.Gang, eviction.Taker, eviction.Action)
	}
	for _, drain := range result.Drains {
		log(drain.Gang, drain.Taker, drain.Action)
	}
}

// clusterState is what a cycle reads beside the ledger.
type clusterState struct {
	// miniClusters are the live ones: they have not finished, or still hold nodes.
	miniClusters []*v1alpha2.MiniCluster
	// known are the same, as far as they were learnt.
	known        []*known
	queues       []*v1alpha2.MiniClusterQueue
	byName       map[string]*v1alpha2.MiniClusterQueue // with those that need not exist
	reservations []*v1alpha2.MiniClusterReservation
	quotas       *quota.Quotas
	// finished are MiniClusters that have finished, if the usage of the users of a queue is to be recovered.
	finished []*v1alpha2.MiniCluster
	// made counts the existing brokers' pods of live MiniClusters in namespaces with a quota, and served are those with a services pod.
	made   map[types.UID]int
	served map[types.UID]bool
}

// observe reads what a cycle decides on.
func (s *Scheduler) observe(ctx context.Context) (*clusterState, error) {
	var miniClusters, all v1alpha2.MiniClusterList
	var queues v1alpha2.MiniClusterQueueList
	var reservations v1alpha2.MiniClusterReservationList
	var quotas corev1.ResourceQuotaList
	if err := s.Cache.List(ctx, &miniClusters, index.Live, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing MiniClusters: %w", err)
	}
	for _, list := range []client.ObjectList{&queues, &reservations, &quotas} {
		if err := s.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing what a cycle decides on: %w", err)
		}
	}
	seen := &clusterState{
		miniClusters: pointers(miniClusters.Items), queues: pointers(queues.Items), reservations: pointers(reservations.Items),
		quotas: quota.New(pointers(quotas.Items)), made: map[types.UID]int{}, served: map[types.UID]bool{},
	}
	if slices.ContainsFunc(seen.queues, func(q *v1alpha2.MiniClusterQueue) bool { return s.usage[q.Name] == nil && q.Status.UsageTime != nil }) {
		if err := s.Cache.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing finished MiniClusters: %w", err)
		}
		seen.finished = slices.DeleteFunc(pointers(all.Items), func(mc *v1alpha2.MiniCluster) bool { return mc.Status.CompletionTime == nil })
	}
	if err := seen.countPods(ctx, s.Cache); err != nil {
		return nil, err
	}
	return seen, nil
}

// countPods counts the pods of MiniClusters in namespaces with a quota.
func (seen *clusterState) countPods(ctx context.Context, cache client.Reader) error {
	for _, mc := range seen.miniClusters {
		if !seen.quotas.Limit(mc.Namespace) {
			continue
		}
		var pods corev1.PodList
		if err := cache.List(ctx, &pods, client.InNamespace(mc.Namespace), index.PodsOf(mc.Name), client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("listing pods of MiniCluster %q: %w", mc.Name, err)
		}
		for i := range pods.Items {
			pod := &pods.Items[i]
			if pod.Labels[v1alpha2.UIDLabel] != string(mc.UID) {
				continue
			}
			if _, ok := protocol.Rank(pod); ok {
				seen.made[mc.UID]++
			} else if pod.Labels[v1alpha2.RankLabel] == v1alpha2.ServicesJob {
				seen.served[mc.UID] = true
			}
		}
	}
	return nil
}

// pointers are pointers to the elements of a list that is only read.
func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}

const (
	// settlesIn is how long after nodes became free others may follow, and settlesAtLast the
	// limit for that.
	settlesIn     = 200 * time.Millisecond
	settlesAtLast = 2 * time.Second
)

// due is why a cycle is due, or when.
type due struct {
	// changed is true if anything but freed nodes may change a decision. freed is the ledger's
	// count at the last cycle. lookAgain is when time alone may change a decision.
	changed   bool
	freed     uint64
	lookAgain time.Time
	// owed is true if an order waits until an earlier one is recorded.
	owed bool
	// freedSince is when nodes became free first since all had settled, and settles is when they
	// will have.
	freedSince, settles time.Time
	// wanted are what the gangs of the last cycle ask for that wait or may grow, one for each class.
	wanted map[string]state.Ask
	// gangs is the memory of the snapshot of a cycle.
	gangs []queue.Gang
	// kick asks for a cycle.
	kick chan event.GenericEvent
}

// wake asks for a cycle, unless one was asked for.
func (d *due) wake() {
	d.changed = true
	d.ask()
}

// ask asks for a look at whether a cycle is due.
func (d *due) ask() {
	select {
	case d.kick <- event.GenericEvent{Object: &v1alpha2.MiniCluster{}}:
	default:
	}
}

// isDue reports whether something has changed that may matter.
func (d *due) isDue(freed uint64, now time.Time) bool {
	return d.changed || d.freed != freed || !d.lookAgain.IsZero() && !now.Before(d.lookAgain)
}

// settle records that something was freed.
func (d *due) settle(now time.Time) {
	if d.freedSince.IsZero() || now.Sub(d.settles) >= settlesAtLast {
		d.freedSince = now
	}
	d.settles = elastic.Earliest(now.Add(settlesIn), d.freedSince.Add(settlesAtLast))
}

// step notes whether all has settled.
func (d *due) step(now time.Time) {
	if !now.Before(d.settles) {
		d.freedSince = time.Time{}
	}
}
