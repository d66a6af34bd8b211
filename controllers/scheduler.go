// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// freedBatch is how long the scheduler gathers what was freed: the pods of a gang end
// one by one.
const freedBatch = 20 * time.Millisecond

const (
	// settlesIn is how long after something was freed more may be freed with it, and
	// settlesAtLast how long that goes on at most.
	settlesIn     = 200 * time.Millisecond
	settlesAtLast = 2 * time.Second
)

// Scheduler decides, over all queues, which MiniCluster gets which nodes, which gives
// some back and which gets more. It follows nodes and pods event by event, and runs a
// cycle when something happened that may change a decision.
//
// A decision is assumed until the cache shows it: its nodes count as taken from
// the moment it is made, and are free again if the MiniCluster does not take it
// up (Skip). So no two decisions use the same resource.
type Scheduler struct {
	// Cache is read only.
	Cache client.Reader
	Clock clock.PassiveClock
	// Topology are the levels that a MiniCluster can name.
	Topology []state.TopologyLevel
	// Engine chooses nodes; nil: the graph itself does.
	Engine state.Engine
	// AheadPods is how many pods those that wait may have, made ahead.
	AheadPods int

	mutex   sync.Mutex
	cluster *state.Cluster
	// entries are the MiniClusters that wait, and those that were given nodes and
	// have not written it down yet.
	entries map[types.NamespacedName]*entry
	// checked are the MiniClusters, by UID, that were offered or skipped since the
	// start: of the others it is not known whether they wait.
	checked map[types.NamespacedName]types.UID
	// known are the MiniClusters that the cache shows.
	known map[types.UID]*known
	// orders are what those that have nodes are to do, until it is written down.
	orders map[types.UID]*givenOrder
	// repairs are the ranks for which other nodes are looked for.
	repairs map[types.UID][]int
	// owed: there is an order for one that has not written down what came before it.
	owed    bool
	reports queueReports
	// changed: something other than what was freed may change a decision. freed is
	// what the cluster counted at the last cycle; lookAgain when time alone may change one.
	changed   bool
	freed     uint64
	lookAgain time.Time
	// freedSince is when something was freed first since the last cycle in which all that was
	// freed had settled, or in a while; settles is when it will have.
	freedSince, settles time.Time
	// starting are those that were given nodes and do not run yet, and when they were.
	starting map[types.UID]time.Time
	// aheadSince is since when one waits to make its objects ahead.
	aheadSince time.Time

	// kick asks for a cycle, decided tells of a new decision, and reported of a queue
	// of which there is news.
	kick, decided, reported chan event.GenericEvent
}

// entry is one MiniCluster in the queue.
type entry struct {
	miniCluster *v1alpha2.MiniCluster // with defaults
	pod         *corev1.Pod           // as the cluster makes it
	queue       string
	ask         state.Ask
	gang        elastic.Gang
	decision    elastic.Decision
	// promise is what it was given, once it was; nil before.
	promise *state.Promise
	// ahead is how far its objects are made, if they may be.
	ahead        ahead
	aheadAt      time.Time // when it was told to make them
	mayMakeAhead bool
}

// NewScheduler makes a scheduler that reads from the cache, for nodes with a topology.
func NewScheduler(cache client.Reader, clock clock.PassiveClock, topology []state.TopologyLevel) *Scheduler {
	return &Scheduler{
		Cache: cache, Clock: clock, Topology: topology, cluster: state.NewCluster(topology),
		entries: map[types.NamespacedName]*entry{}, checked: map[types.NamespacedName]types.UID{},
		known: map[types.UID]*known{}, orders: map[types.UID]*givenOrder{}, repairs: map[types.UID][]int{},
		reports: queueReports{}, starting: map[types.UID]time.Time{},
		kick:    make(chan event.GenericEvent, 1),
		decided: make(chan event.GenericEvent, 1024), reported: make(chan event.GenericEvent, 1024),
	}
}

// Offer enters a MiniCluster, with its defaults, in its queue, if it is not there,
// and returns the last decision about it: the zero Decision before there is one.
func (s *Scheduler) Offer(mc *v1alpha2.MiniCluster, pod *corev1.Pod) elastic.Decision {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	name := client.ObjectKeyFromObject(mc)
	s.checked[name] = mc.UID
	e := s.entries[name]
	if e == nil || e.miniCluster.UID != mc.UID || e.miniCluster.Generation != mc.Generation || (e.promise == nil && e.queue != s.queueOf(mc)) {
		e = &entry{miniCluster: mc, pod: pod, queue: s.queueOf(mc), ask: state.Request(s.cluster, mc, pod), gang: state.Gang(mc, pod)}
		e.gang.Queue = e.queue
		s.entries[name] = e
		s.wake()
	}
	return e.decision
}

// QueueOf is the queue of a MiniCluster: the one that it names, or else its namespace.
func (s *Scheduler) QueueOf(mc *v1alpha2.MiniCluster) string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if e := s.entries[client.ObjectKeyFromObject(mc)]; e != nil && e.miniCluster.UID == mc.UID {
		return e.queue
	}
	return s.queueOf(mc)
}

func (s *Scheduler) queueOf(mc *v1alpha2.MiniCluster) string {
	if mc.Spec.Queue != "" || s.Cache == nil {
		return cmp.Or(mc.Spec.Queue, v1alpha2.DefaultQueue)
	}
	var namespace corev1.Namespace
	if err := s.Cache.Get(context.Background(), types.NamespacedName{Name: mc.Namespace}, &namespace); err != nil {
		return v1alpha2.DefaultQueue
	}
	return cmp.Or(namespace.Labels[v1alpha2.QueueLabel], v1alpha2.DefaultQueue)
}

// waits reports whether a MiniCluster may be given nodes in one of the next cycles.
func (s *Scheduler) waits(name types.NamespacedName) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	e := s.entries[name]
	return e != nil && e.ahead != aheadMaking && (e.decision.Verdict == elastic.NoRoom || e.decision.Verdict == elastic.WaitingForTurn)
}

// OrderFor is what a MiniCluster that has nodes is to do; nil: to go on.
func (s *Scheduler) OrderFor(mc *v1alpha2.MiniCluster) *elastic.Order {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if order := s.orders[mc.UID]; order != nil {
		return order.Order
	}
	return nil
}

// Repair asks for other nodes for ranks that cannot be bound where they are. OrderFor
// tells them, once there are any.
func (s *Scheduler) Repair(mc *v1alpha2.MiniCluster, ranks []int) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	switch {
	case len(ranks) == 0:
		delete(s.repairs, mc.UID)
	case s.orders[mc.UID] == nil && !slices.Equal(s.repairs[mc.UID], ranks):
		s.repairs[mc.UID] = ranks
		s.wake()
	}
}

// Skip says that a MiniCluster does not wait for nodes now. Nodes that it was offered
// and did not take are free again.
func (s *Scheduler) Skip(mc *v1alpha2.MiniCluster) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	name := client.ObjectKeyFromObject(mc)
	if s.checked[name] != mc.UID || s.entries[name] != nil {
		s.wake() // others may have waited for it
	}
	s.checked[name] = mc.UID
	delete(s.entries, name)
}

// Forget is Skip for a MiniCluster that is no more.
func (s *Scheduler) Forget(name types.NamespacedName) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.entries[name] != nil {
		s.wake()
	}
	delete(s.checked, name)
	delete(s.entries, name)
}

// wake asks for a cycle, unless one is asked for already.
func (s *Scheduler) wake() {
	s.changed = true
	s.ask()
}

// ask asks for a look at whether a cycle is due.
func (s *Scheduler) ask() {
	select {
	case s.kick <- event.GenericEvent{Object: &v1alpha2.MiniCluster{}}:
	default:
	}
}

// +kubebuilder:rbac:groups=flux-framework.org,resources=miniclusterqueues,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces;resourcequotas,verbs=get;list;watch

// SetupWithManager registers the scheduler, what it follows and what wakes it.
func (s *Scheduler) SetupWithManager(mgr ctrl.Manager) error {
	run := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.changed = true
		return []reconcile.Request{{}}
	})
	nodes := follow(s, func(node *corev1.Node) { s.cluster.SetNode(node) }, func(node *corev1.Node) { s.cluster.DeleteNode(node.Name) })
	pods := follow(s, func(pod *corev1.Pod) { s.cluster.SetPod(pod) }, func(pod *corev1.Pod) { s.cluster.DeletePod(pod.UID) })
	return ctrl.NewControllerManagedBy(mgr).
		Named("scheduler").
		Watches(&corev1.Node{}, nodes).
		Watches(&corev1.Pod{}, pods).
		Watches(&v1alpha2.MiniCluster{}, run, builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(event.CreateEvent) bool { return false },
			UpdateFunc: s.matters,
		})).
		Watches(&v1alpha2.MiniClusterQueue{}, run, builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.ResourceQuota{}, run).
		WatchesRawSource(source.Channel(s.kick, handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
			return []reconcile.Request{{}}
		}))).
		Complete(s)
}

// follow tells the scheduler's picture of the cluster of every event, and asks for a
// cycle where something was freed by it.
func follow[T client.Object](s *Scheduler, set, remove func(T)) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	tell := func(change func(T), object client.Object, q queue) {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		before := s.cluster.Freed()
		change(object.(T))
		if s.cluster.Freed() != before {
			s.settle()
			q.AddAfter(reconcile.Request{}, freedBatch)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { tell(set, e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) {
			if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() { // as after a gap in the watch
				tell(remove, e.ObjectOld, q)
			}
			tell(set, e.ObjectNew, q)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { tell(remove, e.Object, q) },
	}
}

// settle says that something was freed.
func (s *Scheduler) settle() {
	now := s.Clock.Now()
	if s.freedSince.IsZero() || now.Sub(s.settles) >= settlesAtLast {
		s.freedSince = now
	}
	s.settles = elastic.Earliest(now.Add(settlesIn), s.freedSince.Add(settlesAtLast))
}

// matters reports whether a MiniCluster leaves, holds other nodes than before or for
// another time, wants another size, or may take an order that could not be given. That it
// wrote down what it was given is no news.
func (s *Scheduler) matters(e event.UpdateEvent) bool {
	old, mc := e.ObjectOld.(*v1alpha2.MiniCluster), e.ObjectNew.(*v1alpha2.MiniCluster)
	if mc.Status.StartTime != nil {
		s.started(mc.UID)
	}
	leaves := old.DeletionTimestamp == nil && mc.DeletionTimestamp != nil
	grows := old.Status.StartTime == nil && mc.Status.StartTime != nil && state.MayGrow(mc)
	if leaves || grows || (mc.Status.Admission != nil && old.Spec.Size != mc.Spec.Size) {
		return true
	}
	before, _ := state.PromiseOf(old)
	after, _ := state.PromiseOf(mc)
	if before != nil && !before.Same(after) {
		return true
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.owed
}

// Reconcile is one cycle.
func (s *Scheduler) Reconcile(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
	now := s.Clock.Now()
	news, err := s.decide(ctx, now)
	if err != nil {
		return ctrl.Result{}, err
	}
	for channel, names := range map[chan event.GenericEvent][]types.NamespacedName{s.decided: news.decided, s.reported: news.reported} {
		for _, name := range names {
			mc := &v1alpha2.MiniCluster{}
			mc.Namespace, mc.Name = name.Namespace, name.Name
			select {
			case channel <- event.GenericEvent{Object: mc}:
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

// news is what a cycle has to tell: the MiniClusters whose decision or order is new,
// the queues that changed, and when time alone may change a decision.
type news struct {
	decided, reported []types.NamespacedName
	lookAgain         time.Time
}

// decide observes and decides at one moment: nobody takes a decision up, and so ends
// its being assumed, after the cache was read.
func (s *Scheduler) decide(ctx context.Context, now time.Time) (news, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	timeIsUp := !s.lookAgain.IsZero() && !now.Before(s.lookAgain)
	result := news{lookAgain: s.lookAgain}
	if s.changed || s.cluster.Freed() != s.freed || timeIsUp { // something that matters has happened
		seen, err := s.observe(ctx)
		if err != nil {
			return news{}, err
		}
		began := s.Clock.Now()
		result, err = s.cycle(ctx, seen, now)
		cycleSeconds.Observe(s.Clock.Since(began).Seconds())
		if err != nil {
			return news{}, err
		}
	}
	told, lookAgain := s.lookAhead(now)
	result.decided, result.lookAgain = append(result.decided, told...), elastic.Earliest(result.lookAgain, lookAgain)
	return result, nil
}

// clusterState is what a cycle reads, besides what the scheduler follows.
type clusterState struct {
	miniClusters []*v1alpha2.MiniCluster
	queues       []*v1alpha2.MiniClusterQueue
	quotas       map[string][]*corev1.ResourceQuota // by namespace
	// made are the pods there are of MiniClusters in namespaces with a quota.
	made map[types.UID]int
}

func (s *Scheduler) observe(ctx context.Context) (*clusterState, error) {
	var miniClusters v1alpha2.MiniClusterList
	var queues v1alpha2.MiniClusterQueueList
	var quotas corev1.ResourceQuotaList
	for _, list := range []client.ObjectList{&miniClusters, &queues, &quotas} {
		if err := s.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, fmt.Errorf("listing what a cycle decides on: %w", err)
		}
	}
	seen := &clusterState{
		miniClusters: pointers(miniClusters.Items), queues: pointers(queues.Items), quotas: map[string][]*corev1.ResourceQuota{},
	}
	for _, quota := range pointers(quotas.Items) {
		seen.quotas[quota.Namespace] = append(seen.quotas[quota.Namespace], quota)
	}
	return seen, s.countPods(ctx, seen)
}

// countPods counts the brokers' pods that there are of MiniClusters in namespaces with a quota.
func (s *Scheduler) countPods(ctx context.Context, seen *clusterState) error {
	seen.made = map[types.UID]int{}
	for namespace := range seen.quotas {
		var pods corev1.PodList
		if err := s.Cache.List(ctx, &pods, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
			return fmt.Errorf("listing pods of namespace %q: %w", namespace, err)
		}
		for i := range pods.Items {
			if _, ok := jobset.Rank(&pods.Items[i]); ok {
				seen.made[types.UID(pods.Items[i].Labels[v1alpha2.UIDLabel])]++
			}
		}
	}
	return nil
}
