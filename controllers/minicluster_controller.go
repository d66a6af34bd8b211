// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// FieldOwner is the name under which every object is applied.
const FieldOwner = "flux-elastic"

const (
	// podBatch is how long events of a MiniCluster's pods are gathered before it is
	// looked at: many pods change at once.
	podBatch = 50 * time.Millisecond
	// countsInterval is how often the counts in a status are written at most.
	countsInterval = 3 * time.Second
	// queuedInterval is the same for the sentence that says why one waits: while it waits,
	// those before it come and go.
	queuedInterval = 30 * time.Second
	// turnDelay is after which time those that wait are told why, if they wait still: those
	// that start go first.
	turnDelay = time.Second
	// decidedPriority is that of what has something to do; others have 0.
	decidedPriority = 1
	// recheckInterval is after which time a spec that was refused for what is in
	// the cluster (a quota, a foreign object) is checked again.
	recheckInterval = 5 * time.Second
	// refusedInterval is the same where the check was passed, and its objects were
	// refused nevertheless when it had nodes.
	refusedInterval = 30 * time.Second
)

// MiniClusterReconciler carries MiniClusters through their lives.
type MiniClusterReconciler struct {
	// Client reads from the cache and writes.
	Client client.Client
	// Live reads from the API server.
	Live      client.Reader
	Events    events.EventRecorder
	Scheduler *Scheduler
	Clock     clock.PassiveClock
	// Workers is how many MiniClusters are worked on at once.
	Workers int
	// BindDirectly makes JobSets whose pods this manager binds, where they can be bound
	// without a scheduler.
	BindDirectly bool

	checks checks
	// paces are those of the statuses, tidied those of the Jobs whose pods were deleted.
	paces, tidied paces
	placed        placedPods
	announced     announced
	troubles      troubles
}

// +kubebuilder:rbac:groups=flux-framework.org,resources=miniclusters,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=flux-framework.org,resources=miniclusters/status,verbs=patch
// +kubebuilder:rbac:groups=flux-framework.org,resources=miniclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups=jobset.x-k8s.io,resources=jobsets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=configmaps;secrets;services,verbs=get;create;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;deletecollection
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Reconcile is one pass for one MiniCluster.
func (r *MiniClusterReconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var mc v1alpha2.MiniCluster
	if err := r.Client.Get(ctx, req.NamespacedName, &mc); err != nil || mc.DeletionTimestamp != nil {
		r.forget(req.NamespacedName)
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	// What was decided is told before anything else is.
	if err := r.announce(ctx, &mc); err != nil {
		return r.retry(ctx, err)
	}
	now := r.Clock.Now()
	seen, err := r.observe(ctx, &mc)
	if err != nil || seen.undecided {
		return ctrl.Result{}, err
	}
	if seen.observation.Outcome != "" {
		r.placed.forget(req.NamespacedName)
	}
	plan := elastic.Decide(seen.observation, now)
	if err := r.act(ctx, seen, plan); refused(err) || held(err, plan) {
		// Shown, and tried again until it is too late.
		plan = elastic.Plan{Step: elastic.Wait, State: plan.State, Message: err.Error(), LookAgain: now.Add(recheckInterval)}
	} else if err != nil {
		return r.retry(ctx, err)
	}
	result, err := r.report(ctx, seen, plan, now)
	if err == nil {
		err = r.releaseServices(ctx, seen, &result)
	}
	if err != nil {
		return r.retry(ctx, err)
	}
	return result, nil
}

// retry sorts out errors that are no faults: a stale cache, somebody else's write,
// an object that is on its way out. The pass is repeated when there is news, or
// soon.
func (r *MiniClusterReconciler) retry(ctx context.Context, err error) (ctrl.Result, error) {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || errors.Is(err, errStillThere) {
		ctrl.LoggerFrom(ctx).V(1).Info("Waiting to try again", "reason", err.Error())
		return ctrl.Result{RequeueAfter: podBatch}, nil
	}
	return ctrl.Result{}, err
}

// refused reports whether the API server will not have what it was asked for.
func refused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || apierrors.IsRequestEntityTooLargeError(err)
}

// held reports whether a disruption budget keeps pods from being evicted for now.
func held(err error, plan elastic.Plan) bool {
	return plan.Step == elastic.EvictRanks && apierrors.IsTooManyRequests(err)
}

func (r *MiniClusterReconciler) forget(name types.NamespacedName) {
	r.Scheduler.Forget(name)
	r.checks.forget(name)
	r.placed.forget(name)
	r.announced.forget(name)
	r.troubles.forget(name)
}

// SetupWithManager registers the reconciler and what wakes it.
func (r *MiniClusterReconciler) SetupWithManager(mgr ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(mgr).
		Named("minicluster").
		For(&v1alpha2.MiniCluster{}).
		Owns(&jobsetapi.JobSet{}).
		Watches(&corev1.Pod{}, Batched(podBatch, miniClusterOfPod), builder.WithPredicates(predicate.Funcs{UpdateFunc: podMoved})).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(r.placedOn), builder.WithPredicates(predicate.Funcs{
			CreateFunc: func(e event.CreateEvent) bool { return !e.IsInInitialList },
			UpdateFunc: func(event.UpdateEvent) bool { return false },
		})).
		WatchesRawSource(source.Channel(r.Scheduler.decided, handler.Funcs{GenericFunc: r.decided})).
		WithOptions(controller.Options{MaxConcurrentReconciles: r.Workers}).
		Complete(r)
}

// decided has those go first that have something to do.
func (r *MiniClusterReconciler) decided(_ context.Context, e event.GenericEvent, q workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(e.Object)}
	if r.Scheduler.waits(request.NamespacedName) {
		q.AddAfter(request, turnDelay)
		return
	}
	if q, ok := q.(priorityqueue.PriorityQueue[reconcile.Request]); ok {
		q.AddWithOpts(priorityqueue.AddOpts{Priority: ptr.To(decidedPriority)}, request)
		return
	}
	q.Add(request)
}

// Batched maps events to requests that are handled after a while, so that many
// events make one pass.
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

// podMoved reports whether a pod is in another state of its life than before.
func podMoved(e event.UpdateEvent) bool {
	before, after := e.ObjectOld.(*corev1.Pod), e.ObjectNew.(*corev1.Pod)
	return before.Status.Phase != after.Status.Phase ||
		jobset.IsGated(before) != jobset.IsGated(after) ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) ||
		state.BrokerReady(before) != state.BrokerReady(after) ||
		state.Trouble(before) != state.Trouble(after) ||
		state.Unschedulable(before) != state.Unschedulable(after)
}

// placedOn are the MiniClusters that may have brokers on a node: those with an
// admission. Nodes come and go seldom.
func (r *MiniClusterReconciler) placedOn(ctx context.Context, _ client.Object) []reconcile.Request {
	var list v1alpha2.MiniClusterList
	if err := r.Client.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing MiniClusters")
		return nil
	}
	var requests []reconcile.Request
	for i := range list.Items {
		if list.Items[i].Status.Admission != nil {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&list.Items[i])})
		}
	}
	return requests
}
