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
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/internal/status"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

const (
	// freedBatch is how long the scheduler gathers freed nodes: the pods of a gang end one by
	// one.
	freedBatch = 20 * time.Millisecond
	// idleBatch is the same for what pods of others free that no gang can use: only shares change.
	idleBatch = 10 * time.Second
	// settlesIn is how long after nodes became free others may follow, and settlesAtLast the
	// limit for that.
	settlesIn     = 200 * time.Millisecond
	settlesAtLast = 2 * time.Second
)

// Scheduler decides which MiniCluster gets which nodes.
//
// A decision is assumed until the cache shows it: its nodes count as taken at once, and become
// free again if the MiniCluster does not take them (Skip). So no two decisions use the same
// nodes.
type Scheduler struct {
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

	topology []state.TopologyLevel
	mutex    sync.Mutex
	ledger   *ledger.Ledger
	// entries are the waiting MiniClusters, and the admitted ones whose status does not show it
	// yet.
	entries map[types.NamespacedName]*entry
	// checked are the MiniClusters that were offered, skipped or postponed since the start and have not
	// finished. Whether the others wait is not known yet.
	checked map[types.NamespacedName]check
	// known are the live MiniClusters that the cache shows, and others whose pods hold nodes.
	known map[types.UID]*known
	// strangers is true if pods or limits are kept of a MiniCluster that was not known.
	strangers bool
	// pods are pods of MiniClusters after admission by the API server, one of each MiniCluster, and services the services pods
	// of those that have been offered nodes.
	pods, services map[types.UID]*corev1.Pod
	// limits are the largest sizes of MiniClusters with quota from Kueue.
	limits map[types.UID]int
	// leaving says since when ranks, by MiniCluster, hold nodes that were not promised to them.
	leaving map[types.UID]map[int]time.Time
	// repairs are the displaced ranks for which other nodes are looked for.
	repairs map[types.UID][]int
	// owed is true if an order waits until an earlier one is recorded.
	owed bool
	// accounts are the usage of users, by queue.
	accounts map[string]*account
	// runtimes are how long MiniClusters have taken, and ended are those that are still to be learned from.
	runtimes *queue.Runtimes
	ended    []*v1alpha2.MiniCluster
	// books are the accounting of the queues, by name, and spendings what is still to be added to them.
	books     map[string]*books
	spendings []spending
	// storage is what is known about volumes, and scaling about nodes on demand.
	storage storage
	scaling scaling
	// reports are the last cycle's reports, by queue.
	reports map[string]status.QueueReport
	// measured is what the metrics say about the queues after the last cycle; nil before. Nobody changes it later.
	measured map[string]metrics.Queue
	// reservations are the last cycle's reports on reservations.
	reservations map[types.UID]status.ReservationReport
	// changed is true if anything but freed nodes may change a decision. freed is the ledger's
	// count at the last cycle. lookAgain is when time alone may change a decision.
	changed   bool
	freed     uint64
	lookAgain time.Time
	// freedSince is when nodes became free first since all had settled, and settles is when they
	// will have.
	freedSince, settles time.Time
	// gangs is the memory of the snapshot of a cycle.
	gangs []queue.Gang
	// wanted are what the gangs of the last cycle ask for that wait or may grow, one for each class.
	wanted map[string]state.Ask
	starts starts
	// resumeAt is the count of brokers that have come at which MiniClusters get nodes that were put off; 0 if none was.
	resumeAt int

	// kick asks for a cycle, decided sends MiniClusters with news, reported queues and reserved
	// reservations with news.
	kick, decided, reported, reserved chan event.GenericEvent
}

// New returns a scheduler that reads from a cache. The matcher has the last word on the nodes of
// a gang; nil keeps the choice of the queue.
func New(cache client.Reader, clock clock.PassiveClock, topology []state.TopologyLevel, matcher ledger.Matcher) *Scheduler {
	s := &Scheduler{
		Cache: cache, Clock: clock, topology: topology, ledger: ledger.New(topology, matcher),
		entries: map[types.NamespacedName]*entry{}, checked: map[types.NamespacedName]check{},
		known: map[types.UID]*known{}, pods: map[types.UID]*corev1.Pod{}, services: map[types.UID]*corev1.Pod{}, limits: map[types.UID]int{}, repairs: map[types.UID][]int{},
		storage: storage{changes: 1, read: map[types.NamespacedName]bool{}}, scaling: newScaling(),
		accounts: map[string]*account{}, books: map[string]*books{}, runtimes: queue.NewRuntimes(mostLearned), reports: map[string]status.QueueReport{}, starts: starts{all: map[types.UID]*start{}},
		kick:    make(chan event.GenericEvent, 1),
		decided: make(chan event.GenericEvent, 1024), reported: make(chan event.GenericEvent, 1024), reserved: make(chan event.GenericEvent, 1024),
	}
	s.ledger.NamespaceLabels = func(name string) labels.Set { return s.labelsOf(name) }
	return s
}

// wake asks for a cycle, unless one was asked for.
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
		Watches(&v1alpha2.MiniClusterQueue{}, s.run(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&v1alpha2.MiniClusterReservation{}, s.run(), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.ResourceQuota{}, s.run()).
		Watches(&corev1.PersistentVolumeClaim{}, s.followStorage()).
		Watches(&corev1.PersistentVolume{}, s.followStorage()).
		Watches(&storagev1.StorageClass{}, s.followStorage()).
		Watches(&corev1.Namespace{}, s.namespaces()).
		WatchesRawSource(source.Channel(s.kick, handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
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
		s.wake()
	}
}

// deleteNode takes a node from the ledger. A reservation may need another one.
func (s *Scheduler) deleteNode(node *corev1.Node) {
	s.ledger.DeleteNode(node.Name)
	if len(s.reservations) > 0 {
		s.wake()
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
	if s.resumeAt > 0 && came >= s.resumeAt {
		s.changed, s.resumeAt = true, 0
		q.AddAfter(reconcile.Request{}, freedBatch)
	}
	if s.ledger.Freed() == before {
		return
	}
	if s.serves(s.ledger.TakeFreed()) {
		s.settle()
		otherwise = freedBatch
	}
	q.AddAfter(reconcile.Request{}, otherwise)
}

// serves reports whether one of the nodes has room for a pod of a gang that waits, may grow, or needs another
// node for a rank.
func (s *Scheduler) serves(nodes []string) bool {
	return len(s.repairs) > 0 || s.ledger.Serves(nodes, s.wanted)
}

// settle records that something was freed.
func (s *Scheduler) settle() {
	now := s.Clock.Now()
	if s.freedSince.IsZero() || now.Sub(s.settles) >= settlesAtLast {
		s.freedSince = now
	}
	s.settles = elastic.Earliest(now.Add(settlesIn), s.freedSince.Add(settlesAtLast))
}

// run asks for a cycle after every event.
func (s *Scheduler) run() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		s.mutex.Lock()
		defer s.mutex.Unlock()
		s.changed = true
		return []reconcile.Request{{}}
	})
}

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
	s.changed = true
	q.Add(reconcile.Request{})
	for _, waiting := range s.entries {
		name := s.queueOf(waiting.miniCluster)
		if waiting.quota == nil && waiting.Namespace == namespace && waiting.queue != name && !s.ledger.Assumed(waiting.miniCluster.UID) {
			waiting.moveTo(name)
		}
	}
}

// miniClusters asks for a cycle if a MiniCluster goes, or if its change may matter to others. It keeps those that end.
func (s *Scheduler) miniClusters() handler.EventHandler {
	return handler.Funcs{CreateFunc: s.foundMiniCluster, UpdateFunc: s.followMiniCluster, DeleteFunc: s.run().Delete}
}

// followMiniCluster asks for a cycle if a change of a MiniCluster matters to others, or if an
// order waited for it.
func (s *Scheduler) followMiniCluster(_ context.Context, e event.UpdateEvent, q requests) {
	old, mc := e.ObjectOld.(*v1alpha2.MiniCluster), e.ObjectNew.(*v1alpha2.MiniCluster)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if mc.Status.StartTime != nil {
		s.started(mc.UID)
	}
	if old.Status.CompletionTime == nil {
		s.noteEnd(mc)
	}
	s.noteSpent(old, mc)
	if s.owed || matters(old, mc) {
		s.changed = true
		q.Add(reconcile.Request{})
	}
}

// matters reports whether a MiniCluster is deleted, holds other nodes or for another time, may have
// another size, can change its size again, or has other labels, which may name another user. The record of a new admission does not matter:
// it was assumed.
func matters(old, mc *v1alpha2.MiniCluster) bool {
	leaves := old.DeletionTimestamp == nil && mc.DeletionTimestamp != nil
	sizes := old.Spec.Size != mc.Spec.Size || old.Spec.Elastic.Grow != mc.Spec.Elastic.Grow
	ends := !equality.Semantic.DeepEqual(old.Spec.DeadlineSeconds, mc.Spec.DeadlineSeconds) ||
		!equality.Semantic.DeepEqual(old.Spec.Elastic.StartTimeout, mc.Spec.Elastic.StartTimeout)
	if leaves || mayResize(old, mc) || !maps.Equal(old.Labels, mc.Labels) || (mc.Status.Admission != nil && (sizes || ends)) {
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
