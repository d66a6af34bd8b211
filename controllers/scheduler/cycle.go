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
	"github.com/flux-elastic/flux-elastic/internal/ledger"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
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
	}{{s.decided, news.decided}, {s.reported, news.reported}, {s.reserved, news.reserved}, {s.scaling.asked, news.asked}} {
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
	timeIsUp := !s.lookAgain.IsZero() && !now.Before(s.lookAgain)
	result := news{lookAgain: s.lookAgain}
	if s.changed || s.ledger.Freed() != s.freed || timeIsUp { // something has changed that may matter
		seen, err := s.observe(ctx)
		if err != nil {
			return news{}, err
		}
		if result, err = s.cycle(ctx, seen, now); err != nil {
			return news{}, err
		}
	}
	return result, nil
}

// cycle runs one cycle and returns the news.
func (s *Scheduler) cycle(ctx context.Context, seen *clusterState, now time.Time) (news, error) {
	began, done := s.Clock.Now(), false
	s.changed = false
	defer func() {
		s.changed = s.changed || !done // also after an error or a panic
		metrics.CountCycle(s.Clock.Since(began))
	}()
	s.learn(ctx, seen, now)
	if err := s.reachVolumes(ctx); err != nil {
		return news{}, err
	}
	reservations, begins := s.reserve(seen, now)
	repaired, err := s.repair(now)
	if err != nil {
		return news{}, err
	}
	s.freed = s.ledger.Freed()
	snapshot, room, err := s.snapshot(seen, now)
	if err != nil {
		return news{}, err
	}
	scheduled := queue.Schedule(snapshot.Snapshot, room, now)
	s.logTakers(ctx, &scheduled)
	result := s.commit(scheduled, snapshot, now)
	result.decided = append(result.decided, slices.Concat(repaired, snapshot.freed)...)
	result.reserved = s.updateReservations(reservations, seen)
	result.lookAgain = elastic.Earliest(result.lookAgain, snapshot.avoidUntil, snapshot.clearsAt, snapshot.leavesAt, snapshot.quotasAt, s.ledger.Lapse(now), begins)
	s.lookAgain, done = result.lookAgain, true
	return result, nil
}

// logTakers tells administrators which MiniClusters get the nodes of others. These are not told the names of other
// namespaces.
func (s *Scheduler) logTakers(ctx context.Context, result *queue.Result) {
	log := func(gang, taker, action string) {
		if k := s.known[types.UID(gang)]; k != nil && taker != "" {
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
	reservations []*v1alpha2.MiniClusterReservation
	quotas       *ledger.Quotas
	// finished are MiniClusters that have finished, if the usage of the users of a queue is to be recovered.
	finished []*v1alpha2.MiniCluster
	// made counts the existing brokers' pods of live MiniClusters in namespaces with a quota, and served are those with a services pod.
	made   map[types.UID]int
	served map[types.UID]bool
}

func (s *Scheduler) observe(ctx context.Context) (*clusterState, error) {
	var miniClusters v1alpha2.MiniClusterList
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
		quotas: ledger.NewQuotas(pointers(quotas.Items)), made: map[types.UID]int{}, served: map[types.UID]bool{},
	}
	if err := s.findFinished(ctx, seen); err != nil {
		return nil, err
	}
	return seen, s.countPods(ctx, seen)
}

// countPods counts the pods of MiniClusters in namespaces with a quota.
func (s *Scheduler) countPods(ctx context.Context, seen *clusterState) error {
	for _, mc := range seen.miniClusters {
		if !seen.quotas.Limit(mc.Namespace) {
			continue
		}
		var pods corev1.PodList
		if err := s.Cache.List(ctx, &pods, client.InNamespace(mc.Namespace), index.PodsOf(mc.Name), client.UnsafeDisableDeepCopy); err != nil {
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
