// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"errors"
	"regexp"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/kueue"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// Reconciler carries MiniClusters through their lives.
type Reconciler struct {
	// Client reads from the cache, and writes.
	Client client.Client
	// Live reads from the API server.
	Live      client.Reader
	Events    events.EventRecorder
	Scheduler Scheduler
	Kueue     Kueue
	Clock     clock.PassiveClock
	// Topology are the levels that a spec may name.
	Topology []state.TopologyLevel
	// Workers is how many MiniClusters are reconciled at once.
	Workers int
	// KeepGates leaves the pods of new JobSets to kube-scheduler. Without it the API server binds those that need no scheduler,
	// if it has the policies of config/admission.
	KeepGates bool
	// DefaultTTL is how long finished MiniClusters stay whose specs say nothing; 0: for ever.
	DefaultTTL time.Duration

	// MaxBrokers is the largest number of brokers of a MiniCluster; 0: any.
	MaxBrokers int
	// DNS is the cluster's; nil if nothing is known of it.
	DNS *DNS

	parts
}

// parts do the steps of a pass, and know nothing of each other but what their fields name.
type parts struct {
	memories *memories
	observer *observer
	checker  *checker
	lookout  *lookout
	grants   *grants
	binder   *binder
	namer    *namer
	actor    *actor
	reporter *reporter
}

// assemble makes the parts. core evicts pods.
func (r *Reconciler) assemble(core rest.Interface) {
	live, memories := live{r.Live}, &memories{}
	binder := &binder{client: r.Client, scheduler: r.Scheduler, keepGates: r.KeepGates}
	maker := &maker{client: r.Client, live: live, binder: binder}
	r.parts = parts{
		memories: memories,
		observer: &observer{cache: r.Client, live: live, clock: r.Clock, defaultTTL: r.DefaultTTL, began: sync.OnceValue(r.Clock.Now)},
		checker: &checker{
			client: r.Client, live: live, clock: r.Clock, scheduler: r.Scheduler, topology: r.Topology, maxBrokers: r.MaxBrokers, dns: r.DNS,
			memories: memories, workers: r.Workers, relaxed: make(relaxed, mostRelaxed),
		},
		lookout: &lookout{live: live, memories: memories},
		grants:  &grants{scheduler: r.Scheduler, kueue: r.Kueue},
		binder:  binder,
		namer:   &namer{client: r.Client},
		actor: &actor{
			client: r.Client, live: live, maker: maker,
			pods: &podWriter{client: r.Client, live: live, clock: r.Clock, maker: maker, core: core},
		},
		reporter: &reporter{client: r.Client, events: r.Events, scheduler: r.Scheduler, announcer: newAnnouncer(r.Client, r.Clock)},
	}
}

// MayBind reports whether the API server may bind pods when they are created.
func (r *Reconciler) MayBind() bool { return r.binder.mayBind() }

// Scheduler decides which MiniCluster gets which nodes. MiniClusters are passed with their
// defaults.
type Scheduler interface {
	// Report enters a MiniCluster in its queue, unless it is there, or removes it, and returns the queue's last decision.
	// The offer is zero before the first decision.
	Report(mc *v1alpha2.MiniCluster, wants state.Wants) elastic.Offer
	// Order is the order for a MiniCluster with nodes; nil if there is none. pod is one of its pods after admission by the
	// API server; nil if there is none. The scheduler looks for other nodes for the displaced ranks, and orders them to move
	// once it has found some. most is the largest size to which it may grow with quota from Kueue; nil if it needs none, or
	// that is not known. An order to grow is dropped if that is less than before.
	Order(mc *v1alpha2.MiniCluster, pod *corev1.Pod, displaced []int, most *int) elastic.Order
	// Place is the queue of a MiniCluster, which it names or which is that of its namespace, whether it waits and has no
	// offer of nodes, and when the quotas that refused it were last seen to have room; zero if never.
	Place(mc *v1alpha2.MiniCluster) (queue string, waits bool, freed time.Time)
	// MostPods is how many such pods all nodes could hold if they were empty.
	MostPods(pod *corev1.Pod) int
	// Overlooks reports whether pods of others may keep nodes free from the pods of a namespace, and the scheduler does not
	// know which.
	Overlooks(namespace string) bool
	// Decided sends the MiniClusters with new decisions or orders.
	Decided() <-chan event.GenericEvent
}

// Kueue grants quota to MiniClusters that have the label of a queue.
type Kueue interface {
	// Read reads what Kueue grants to a MiniCluster, and collects what there is to say to Kueue.
	Read(ctx context.Context, facts kueue.Facts, memory *kueue.Memory) (*kueue.Quota, error)
	// Tell makes the Workloads of a MiniCluster follow it, by one write in a pass.
	Tell(ctx context.Context, quota *kueue.Quota, memory *kueue.Memory) error
	// Release lets Workloads of deleted MiniClusters go once their pods are gone.
	Release(ctx context.Context, left []*kueueapi.Workload) error
	// Forget releases the Workloads of MiniClusters that had a name.
	Forget(ctx context.Context, name types.NamespacedName) error
	// Changed sends the MiniClusters whose Workloads or positions have changed.
	Changed() <-chan event.GenericEvent
}

// +kubebuilder:rbac:groups=flux-framework.org,resources=miniclusters,verbs=get;list;watch;delete
// +kubebuilder:rbac:groups=flux-framework.org,resources=miniclusterqueues,verbs=get;list;watch
// +kubebuilder:rbac:groups=flux-framework.org,resources=miniclusters/status,verbs=patch
// +kubebuilder:rbac:groups=flux-framework.org,resources=miniclusters/finalizers,verbs=update
// +kubebuilder:rbac:groups=jobset.x-k8s.io,resources=jobsets,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;create;deletecollection
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;create
// +kubebuilder:rbac:groups="",resources=services,verbs=get;create;patch
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch;create;patch;delete;deletecollection
// +kubebuilder:rbac:groups="",resources=pods/eviction,verbs=create
// +kubebuilder:rbac:groups="",resources=nodes,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// +kubebuilder:rbac:groups="",resources=events,verbs=list

// Reconcile is one pass for one MiniCluster.
func (r *Reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var mc v1alpha2.MiniCluster
	if err := r.Client.Get(ctx, req.NamespacedName, &mc); err != nil || !mc.Spec.IsOurs() {
		mc.Namespace, mc.Name = req.Namespace, req.Name
		r.Scheduler.Report(&mc, state.Wants{Want: state.Gone})
		r.memories.forget(req.NamespacedName)
		return ctrl.Result{}, errors.Join(client.IgnoreNotFound(err), r.Kueue.Forget(ctx, req.NamespacedName))
	}
	memory, now := r.memories.of(&mc), r.Clock.Now()
	if again := memory.status.gone.Add(behindFor); !memory.status.gone.IsZero() && now.Before(again) {
		return requeueAt(again, now), nil // the cache does not show the deletion yet: what is made goes at once, and is made again
	}
	result, err := r.pass(ctx, &mc, memory)
	if isPassing(err) {
		ctrl.LoggerFrom(ctx).V(1).Info("Waiting to try again", "reason", err.Error())
		if errors.Is(err, kueue.ErrNotSought) {
			return ctrl.Result{RequeueAfter: time.Second}, nil // many wait for that
		}
		return ctrl.Result{RequeueAfter: podBatch}, nil
	}
	return result, err
}

func (r *Reconciler) pass(ctx context.Context, mc *v1alpha2.MiniCluster, memory *memory) (ctrl.Result, error) {
	r.reporter.announcer.announce(mc, memory) // after a restart
	seen, err := r.observer.observe(ctx, mc, memory)
	if err != nil {
		return ctrl.Result{}, err
	}
	if seen.meets { // before a check, which may take long: those that met it may go
		return ctrl.Result{}, r.reporter.recordMet(ctx, seen)
	}
	if err := r.checker.check(ctx, seen); err != nil {
		r.Scheduler.Report(seen.view.MiniCluster, state.Wants{Want: state.NodesLater}) // others must not wait for the check
		return ctrl.Result{}, err
	}
	r.binder.learn(ctx, seen)
	r.lookout.lookForRefusal(ctx, seen)
	r.grants.boundPods(seen)
	if err := r.grants.readQuota(ctx, seen); err != nil {
		return ctrl.Result{}, err
	}
	unreleased := r.Kueue.Release(ctx, seen.quota.Left) // the rest does not wait for that
	if decided := r.grants.consult(seen); !decided {
		return ctrl.Result{}, unreleased
	}
	plan := life.Decide(seen.observation, seen.now)
	seen.memory.noteAble(plan)
	if err := r.observer.lookAtLead(ctx, seen, plan); err != nil {
		return ctrl.Result{}, err
	}
	plan, unnamed := r.namer.name(ctx, seen, plan)
	plan, untold := r.grants.tellKueue(ctx, seen, plan)
	undone := errors.Join(unnamed, untold, unreleased)
	if isPassing(untold) || untold != nil && takesQuota(plan.Step) {
		return ctrl.Result{}, undone
	}
	if plan, err = r.actor.act(ctx, seen, plan); err != nil {
		return ctrl.Result{}, errors.Join(err, undone)
	}
	result, err := r.reporter.report(ctx, seen, plan)
	if err = errors.Join(err, undone); err == nil && isOver(seen, plan) {
		r.memories.forget(client.ObjectKeyFromObject(mc))
	}
	return result, err
}

// isOver reports whether a MiniCluster has finished and only waits for its deletion. It may wait
// for ever, so nothing is remembered of it.
func isOver(seen *observed, plan life.Plan) bool {
	_, waits := plan.Step.(life.Wait)
	o := seen.observation
	return waits && o.Outcome != "" && o.Done == 0 && o.Occupied == 0 && len(seen.stored.Status.PendingEvents) == 0
}

// isPassing reports whether an error resolves by itself: a stale cache, a conflicting write, or
// an object that is being deleted. The pass is repeated soon, or when there is news.
func isPassing(err error) bool {
	return apierrors.IsConflict(err) || apierrors.IsNotFound(err) || errors.Is(err, errStillThere) || errors.Is(err, kueue.ErrNotSought) || errors.Is(err, errBehind)
}

// refused reports whether the API server refuses a request for good, or a policy or a webhook does, with whatever reason.
func refused(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) || isTooLarge(err) || isDenied(err)
}

// isTooLarge reports whether an object is too large for the API server, or for etcd, of which the answers have no reason.
func isTooLarge(err error) bool {
	return apierrors.IsRequestEntityTooLargeError(err) || err != nil && tooLarge.MatchString(err.Error())
}

// tooLarge are the words of etcd, and of its client.
var tooLarge = regexp.MustCompile("etcdserver: request is too large|trying to send message larger than max")

// wouldRefuse reports whether a dry run says that the API server would not make an object as things are:
// for example a policy, a webhook, or a terminating namespace would not let it.
func wouldRefuse(err error) bool {
	return refused(err) || apierrors.IsNotFound(err) || apierrors.IsInternalError(err)
}

// requeueAt requeues at a time; zero means never.
func requeueAt(at, now time.Time) ctrl.Result {
	switch {
	case at.IsZero():
		return ctrl.Result{}
	case !at.After(now): // otherwise the time would have had an effect
		return ctrl.Result{RequeueAfter: time.Second}
	}
	return ctrl.Result{RequeueAfter: at.Sub(now)}
}
