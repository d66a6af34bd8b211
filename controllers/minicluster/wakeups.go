// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/controllers/index"
	"github.com/flux-elastic/flux-elastic/internal/kueue"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

const (
	// podBatch is how long pod events of a MiniCluster are gathered for one pass: many pods
	// change at once.
	podBatch = 50 * time.Millisecond
	// turnDelay is when MiniClusters that still wait are reconciled after a cycle: those that
	// start go first.
	turnDelay = time.Second
)

// SetupWithManager registers the reconciler and its watches.
func (r *Reconciler) SetupWithManager(ctx context.Context, mgr ctrl.Manager) error {
	core, err := typedcorev1.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return fmt.Errorf("making a client for evictions: %w", err)
	}
	r.assemble(core.RESTClient())
	announcer, relaxed := r.reporter.announcer, r.checker.relaxed
	context.AfterFunc(ctx, announcer.queue.ShutDown) // a manager that never leads does not start the announcer
	if err := mgr.Add(announcer); err != nil {
		return err
	}
	w := &wakeups{cache: r.Client, clock: r.Clock, scheduler: r.Scheduler, memories: r.memories, turns: newTurns()}
	return ctrl.NewControllerManagedBy(mgr).
		Named("minicluster").
		For(&v1alpha2.MiniCluster{}).
		Owns(&jobsetapi.JobSet{}).
		Owns(&discoveryv1.EndpointSlice{}, builder.WithPredicates(predicate.Funcs{ // others are this controller's writes
			CreateFunc: func(event.CreateEvent) bool { return false },
			UpdateFunc: func(event.UpdateEvent) bool { return false },
		})).
		Watches(&corev1.Pod{}, Batched(podBatch, miniClusterOfPod), builder.WithPredicates(podMoved)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(w.placedOn), builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList },
			UpdateFunc: func(event.UpdateEvent) bool { return false },
		})).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(w.labelled), builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(event.CreateEvent) bool { return false },
			UpdateFunc: predicate.LabelChangedPredicate{}.Update,
			DeleteFunc: func(event.DeleteEvent) bool { return false },
		})).
		Watches(&v1alpha2.MiniCluster{}, w.waiting()).
		Watches(&v1alpha2.MiniClusterQueue{}, handler.EnqueueRequestsFromMapFunc(w.boundBy), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesRawSource(source.Channel(r.Scheduler.Decided(), handler.Funcs{GenericFunc: w.decided})).
		WatchesRawSource(source.Channel(relaxed, handler.EnqueueRequestsFromMapFunc(w.labelled))).
		WatchesRawSource(source.Channel(announcer.told, &handler.EnqueueRequestForObject{})).
		WatchesRawSource(source.Channel(r.Kueue.Changed(), &handler.EnqueueRequestForObject{})).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.Workers, NewQueue: w.turns.newQueue}).
		Complete(r)
}

// wakeups says of which MiniClusters a change wakes the passes.
type wakeups struct {
	cache     client.Reader
	clock     clock.PassiveClock
	scheduler Scheduler
	memories  *memories
	turns     *turns
}

// decided lets MiniClusters with an offer or order go first.
func (w *wakeups) decided(_ context.Context, e event.GenericEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)}
	if _, waits, _ := w.scheduler.Place(e.Object.(*v1alpha2.MiniCluster)); waits {
		q.AddAfter(request, turnDelay)
		return
	}
	w.turns.urge(request)
	q.Add(request)
}

// Batched maps events to requests after a delay, so that many events cause one pass.
func Batched(delay time.Duration, toRequest func(client.Object) *reconcile.Request) handler.EventHandler {
	type queue = workqueue.TypedRateLimitingInterface[reconcile.Request]
	add := func(object client.Object, q queue) {
		if request := toRequest(object); request != nil {
			q.AddAfter(*request, delay)
		}
	}
	return handler.Funcs{
		CreateFunc: func(_ context.Context, e event.CreateEvent, q queue) { add(e.Object, q) },
		UpdateFunc: func(_ context.Context, e event.UpdateEvent, q queue) { add(e.ObjectNew, q) },
		DeleteFunc: func(_ context.Context, e event.DeleteEvent, q queue) { add(e.Object, q) },
	}
}

func miniClusterOfPod(pod client.Object) *reconcile.Request {
	name := pod.GetLabels()[v1alpha2.MiniClusterLabel]
	if name == "" {
		return nil
	}
	return &reconcile.Request{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(), Name: name}}
}

// podMoved passes updates after which a pod is in another state of its life.
var podMoved = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	return protocol.Moved(e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod))
}}

// placedOn are the MiniClusters that may have brokers on a node: all live ones with an admission.
// Nodes seldom come and go.
func (w *wakeups) placedOn(ctx context.Context, _ client.Object) []reconcile.Request {
	return w.live(ctx, func(mc *v1alpha2.MiniCluster) bool { return mc.Status.Admission != nil })
}

// boundBy are the MiniClusters that a change of a queue concerns at once: those that have nodes, for its maxGrace, and
// those that wait for quota of Kueue, or with quota for nodes: what Kueue is asked for depends on its deadlines.
func (w *wakeups) boundBy(ctx context.Context, queue client.Object) []reconcile.Request {
	return w.live(ctx, func(mc *v1alpha2.MiniCluster) bool {
		if mc.Status.Admission != nil {
			return state.QueueOf(mc) == queue.GetName()
		}
		return queue.GetName() == v1alpha2.KueueQueue && kueue.Uses(mc)
	})
}

// live are some of the MiniClusters that have not finished, or still hold nodes.
func (w *wakeups) live(ctx context.Context, wanted func(*v1alpha2.MiniCluster) bool) []reconcile.Request {
	return w.those(ctx, wanted, index.Live)
}

// those are some of the MiniClusters that the options select.
func (w *wakeups) those(ctx context.Context, wanted func(*v1alpha2.MiniCluster) bool, which ...client.ListOption) []reconcile.Request {
	var list v1alpha2.MiniClusterList
	if err := w.cache.List(ctx, &list, append(which, client.UnsafeDisableDeepCopy)...); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing MiniClusters")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if wanted(&list.Items[i]) {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}

// relaxed sends the namespaces in which the API server accepts a MiniCluster that it refused before.
type relaxed chan event.GenericEvent

// mostRelaxed is how many of these may be untold. MiniClusters of further namespaces are checked later, in their time.
const mostRelaxed = 64

func (r relaxed) note(namespace string) {
	select {
	case r <- event.GenericEvent{Object: &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}}:
	default:
	}
}

// labelled are the MiniClusters of a namespace whose labels, or policies, have changed. For example, other
// security standards may allow their pods.
func (w *wakeups) labelled(_ context.Context, namespace client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, name := range w.memories.change(namespace.GetName(), w.clock.Now()) {
		requests = append(requests, reconcile.Request{NamespacedName: name})
	}
	return requests
}
