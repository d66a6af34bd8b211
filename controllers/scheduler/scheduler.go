// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"maps"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/labels"
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
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/controllers/metrics"
	"github.com/flux-elastic/flux-elastic/internal/ledger"
	"github.com/flux-elastic/flux-elastic/internal/scaleup"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/internal/status"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

const (
	// freedBatch is how long the scheduler gathers freed nodes: the pods of a gang end one by
	// one.
	freedBatch = 20 * time.Millisecond
	// idleBatch is the same for what pods of others free that no gang can use: only shares change.
	idleBatch = 10 * time.Second
)

// parts are what the scheduler is made of. Each part has its own data, and a cycle lets each make one step.
type parts struct {
	// Cache is only read.
	Cache client.Reader
	Clock clock.PassiveClock
	// StartingPods is from how many pods on, of MiniClusters with nodes, that are still to be made no further MiniCluster
	// gets nodes; 0 if there is no limit.
	StartingPods int
	// Autoscaler is asked for nodes that do not exist; nil if there is none.
	Autoscaler Autoscaler
	// MayBind reports whether the API server may bind pods when they are created; nil: it may not.
	MayBind func() bool

	ledger       *ledger.Ledger
	due          *due
	line         *line
	catalog      *catalog
	starts       starts
	leaving      leaving
	usage        usage
	learning     learning
	accounting   accounting
	storage      storage
	scaling      scaling
	reservations reservations
	reports      reports
}

// mail sends MiniClusters with news, those for which something else is to be asked, and queues and reservations with news.
type mail struct {
	decided, asked, reported, reserved chan event.GenericEvent
}

// Scheduler decides which MiniCluster gets which nodes.
//
// A decision is assumed until the cache shows it: its nodes count as taken at once, and become
// free again if the MiniCluster does not take them (Skip). So no two decisions use the same
// nodes.
type Scheduler struct {
	mutex sync.Mutex
	*parts
	mail mail
}

// New returns a scheduler that reads from a cache. The matcher has the last word on the nodes of
// a gang; nil keeps the choice of the queue.
func New(cache client.Reader, clock clock.PassiveClock, topology []state.TopologyLevel, matcher ledger.Matcher) *Scheduler {
	l, d, channel := ledger.New(topology, matcher), &due{kick: make(chan event.GenericEvent, 1)}, func() chan event.GenericEvent { return make(chan event.GenericEvent, 1024) }
	p := &parts{
		Cache: cache, Clock: clock, ledger: l, due: d,
		line: &line{ledger: l, due: d, topology: topology, entries: map[types.NamespacedName]*entry{}, checked: map[types.NamespacedName]check{}},
		catalog: &catalog{
			ledger: l, topology: topology, known: map[types.UID]*known{}, pods: map[types.UID]*corev1.Pod{}, services: map[types.UID]*corev1.Pod{},
			limits: map[types.UID]int{}, repairs: map[types.UID][]int{},
		},
		starts: starts{all: map[types.UID]*start{}}, usage: usage{}, learning: learning{Runtimes: queue.NewRuntimes(mostLearned)},
		accounting: accounting{books: map[string]*books{}}, storage: storage{changes: 1, read: map[types.NamespacedName]bool{}},
		scaling: scaling{asks: map[types.UID]*scaleup.Wish{}, told: map[types.UID]queue.Ask{}, arrivals: map[string]time.Duration{}},
		reports: reports{byQueue: map[string]status.QueueReport{}},
	}
	l.NamespaceLabels = p.labelsOf
	return &Scheduler{parts: p, mail: mail{decided: channel(), asked: channel(), reported: channel(), reserved: channel()}}
}

// atOnce is a context that is over: a read of a cache that is not filled yet does not wait, as the scheduler is locked.
var atOnce = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// labelsOf are the labels of a namespace; none if it is not known.
func (p *parts) labelsOf(name string) labels.Set {
	var namespace corev1.Namespace
	if p.Cache == nil {
		return nil
	}
	if err := p.Cache.Get(atOnce, types.NamespacedName{Name: name}, &namespace, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	return namespace.Labels
}

// +kubebuilder:rbac:groups=flux-framework.org,resources=miniclusterqueues,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=namespaces;resourcequotas,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=list;watch

// SetupWithManager registers the scheduler and its watches.
func (s *Scheduler) SetupWithManager(mgr ctrl.Manager) error {
	metrics.Observe(s.measure)
	nodes := follow(s, s.setNode, s.deleteNode)
	pods := follow(s, s.ledger.SetPod, s.ledger.Gone)
	jobs := follow(s, func(job *batchv1.Job) { s.ledger.SetMaker(state.MakerOfJob(job)) }, func(job *batchv1.Job) { s.ledger.DeleteMaker(job.UID) })
	sets := follow(s, func(set *jobsetapi.JobSet) { s.ledger.SetMaker(state.MakerOfJobSet(set)) }, func(set *jobsetapi.JobSet) { s.ledger.DeleteMaker(set.UID) })
	foreign, err := newForeignPods(s, mgr)
	if err != nil {
		return err
	}
	return ctrl.NewControllerManagedBy(mgr).
		Named("scheduler").
		Watches(&corev1.Node{}, nodes).
		Watches(&corev1.Pod{}, pods). // of MiniClusters: the cache has no others
		Watches(&batchv1.Job{}, jobs).
		Watches(&jobsetapi.JobSet{}, sets).
		WatchesRawSource(foreign).
		Watches(&v1alpha2.MiniCluster{}, s.miniClusters()).
		Watches(&v1alpha2.MiniClusterQueue{}, s.run(always), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha2.MiniClusterReservation{}, s.run(always), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.ResourceQuota{}, s.run(always)).
		Watches(&corev1.PersistentVolumeClaim{}, s.run(s.storage.follow)).
		Watches(&corev1.PersistentVolume{}, s.run(s.storage.follow)).
		Watches(&storagev1.StorageClass{}, s.run(s.storage.follow)).
		Watches(&corev1.Namespace{}, s.namespaces()).
		WatchesRawSource(source.Channel(s.due.kick, handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
			return []reconcile.Request{{}}
		}))).
		Complete(s)
}

type requests = workqueue.TypedRateLimitingInterface[reconcile.Request]

// follow passes every event to the ledger, and asks for a cycle if the event freed something.
func follow[T client.Object](s *Scheduler, set, remove func(T)) handler.EventHandler {
	tell := func(change func(T), object client.Object, q requests) {
		s.tell(q, freedBatch, func() { change(object.(T)) })
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q requests) { tell(set, e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q requests) {
			if e.ObjectOld.GetUID() != e.ObjectNew.GetUID() { // as after a gap in the watch
				tell(remove, e.ObjectOld, q)
			}
			tell(set, e.ObjectNew, q)
		},
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q requests) { tell(remove, e.Object, q) },
	}
}

// setNode records the state of a node. Gangs may have to leave it.
func (s *Scheduler) setNode(node *corev1.Node) {
	s.ledger.SetNode(node)
	if s.ledger.Goes(node) {
		s.due.wake()
	}
}

// deleteNode takes a node from the ledger. A reservation may need another one.
func (s *Scheduler) deleteNode(node *corev1.Node) {
	s.ledger.DeleteNode(node.Name)
	if len(s.reservations) > 0 {
		s.due.wake()
	}
}

// UseNodes lets brokers use only the nodes that a selector matches. With leaveCordoned, cordoned nodes count as about to
// go. It comes before all else.
func (s *Scheduler) UseNodes(selector labels.Selector, leaveCordoned bool) {
	s.ledger.Nodes, s.ledger.LeaveCordoned = selector, leaveCordoned
}

// tell changes the ledger, and asks for a cycle if that freed something: soon if a gang can use a node that was
// freed, or else after some time. It also asks for one when enough pods were made for those that were put off.
func (s *Scheduler) tell(q requests, otherwise time.Duration, change func()) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	before := s.ledger.Freed()
	cameBefore, _ := s.ledger.Came()
	s.ledger.TakeFreed()
	change()
	came, of := s.ledger.Came()
	if came > cameBefore {
		s.starts.came(of, s.Clock.Now())
	}
	if s.starts.resumeAt > 0 && came >= s.starts.resumeAt {
		s.due.changed, s.starts.resumeAt = true, 0
		q.AddAfter(reconcile.Request{}, freedBatch)
	}
	if s.ledger.Freed() == before {
		return
	}
	if s.serves(s.ledger.TakeFreed()) {
		s.due.settle(s.Clock.Now())
		otherwise = freedBatch
	}
	q.AddAfter(reconcile.Request{}, otherwise)
}

// serves reports whether one of the nodes has room for a pod of a gang that waits, may grow, or needs another
// node for a rank.
func (s *Scheduler) serves(nodes []string) bool {
	return len(s.catalog.repairs) > 0 || s.ledger.Serves(nodes, s.due.wanted)
}

// run asks for a cycle after every event that matters.
func (s *Scheduler) run(matters func(client.Object) bool) handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, object client.Object) []reconcile.Request {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		if !matters(object) {
			return nil
		}
		s.due.changed = true
		return []reconcile.Request{{}}
	})
}

func always(client.Object) bool { return true }

// namespaces follows the labels of namespaces. The cache may show a MiniCluster before its new namespace.
func (s *Scheduler) namespaces() handler.EventHandler {
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q requests) { s.followLabels(e.Object.GetName(), q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q requests) {
			if !maps.Equal(e.ObjectOld.GetLabels(), e.ObjectNew.GetLabels()) {
				s.followLabels(e.ObjectNew.GetName(), q)
			}
		},
	}
}

// followLabels moves the waiting MiniClusters of a namespace whose queue has changed, and asks for a cycle
// if queues may now be for the namespace that were not, or no longer.
func (s *Scheduler) followLabels(namespace string, q requests) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.due.changed = true
	q.Add(reconcile.Request{})
	for _, waiting := range s.line.entries {
		name := s.line.queueOf(waiting.miniCluster)
		if waiting.quota == nil && waiting.Namespace == namespace && waiting.queue != name && !s.ledger.Assumed(waiting.miniCluster.UID) {
			waiting.moveTo(name)
		}
	}
}

// miniClusters asks for a cycle if a MiniCluster goes, or if its change may matter to others. It keeps those that end.
func (s *Scheduler) miniClusters() handler.EventHandler {
	return handler.Funcs{CreateFunc: s.foundMiniCluster, UpdateFunc: s.followMiniCluster, DeleteFunc: s.loseMiniCluster}
}

// loseMiniCluster counts what a MiniCluster used that is deleted while it has nodes, and asks for a cycle.
func (s *Scheduler) loseMiniCluster(_ context.Context, e event.DeleteEvent, q requests) {
	mc := e.Object.(*v1alpha2.MiniCluster)
	spent := state.SpentAtDeletion(mc, s.Clock.Now())
	metrics.CountDeleted(mc.Status.Queue, spent.Usage)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.accounting.add(mc, spent)
	s.due.changed = true
	q.Add(reconcile.Request{})
}

// foundMiniCluster looks at a MiniCluster that the cache has not shown before. Many have finished before a restart of
// the manager.
func (s *Scheduler) foundMiniCluster(_ context.Context, e event.CreateEvent, _ requests) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	mc := e.Object.(*v1alpha2.MiniCluster)
	s.learning.note(mc)
	s.accounting.note(nil, mc)
}

// followMiniCluster asks for a cycle if a change of a MiniCluster matters to others, or if an
// order waited for it.
func (s *Scheduler) followMiniCluster(_ context.Context, e event.UpdateEvent, q requests) {
	old, mc := e.ObjectOld.(*v1alpha2.MiniCluster), e.ObjectNew.(*v1alpha2.MiniCluster)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if mc.Status.StartTime != nil && s.starts.all[mc.UID] != nil { // its command runs
		delete(s.starts.all, mc.UID)
		s.due.ask()
	}
	if old.Status.CompletionTime == nil {
		s.learning.note(mc)
	}
	s.accounting.note(old, mc)
	if s.due.owed || matters(old, mc) {
		s.due.changed = true
		q.Add(reconcile.Request{})
	}
}

// matters reports whether a MiniCluster is deleted, holds other nodes or for another time, may have
// another size, can change its size again, or has another key or other labels, which may name another user. The record of a new admission does not matter:
// it was assumed.
func matters(old, mc *v1alpha2.MiniCluster) bool {
	leaves := old.DeletionTimestamp == nil && mc.DeletionTimestamp != nil
	sizes := old.Spec.Size != mc.Spec.Size || old.Spec.Elastic.Grow != mc.Spec.Elastic.Grow
	key := old.Spec.Singleton != mc.Spec.Singleton
	ends := !equality.Semantic.DeepEqual(old.Spec.DeadlineSeconds, mc.Spec.DeadlineSeconds) ||
		!equality.Semantic.DeepEqual(old.Spec.Elastic.StartTimeout, mc.Spec.Elastic.StartTimeout)
	if leaves || mayResize(old, mc) || !maps.Equal(old.Labels, mc.Labels) || (mc.Status.Admission != nil && (sizes || ends || key)) {
		return true
	}
	before, _ := state.PromiseOf(old)
	after, _ := state.PromiseOf(mc)
	return before != nil && !before.Same(after)
}

// mayResize reports whether a MiniCluster may change its size from now on: its command began, or runs again.
func mayResize(old, mc *v1alpha2.MiniCluster) bool {
	began := old.Status.StartTime == nil && mc.Status.StartTime != nil && state.MayGrow(mc)
	return began || restarts(old) && !restarts(mc)
}

// restarts reports whether the command is to run again with other brokers.
func restarts(mc *v1alpha2.MiniCluster) bool {
	return mc.Status.Admission != nil && mc.Status.Admission.Restart != nil
}
