// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/controllers/optional"
	"github.com/flux-elastic/flux-elastic/internal/kueue"
)

// lookInterval is how often the API server is asked whether it has Kueue's objects, and told again what it has not taken.
const lookInterval = 10 * time.Second

// Kueue is Kueue in the cluster, if it is there. It implements minicluster.Kueue.
type Kueue struct {
	cluster    client.Client // of the manager
	live       client.Reader // reads from the API server
	config     *rest.Config
	scheme     *runtime.Scheme
	discovery  discovery.DiscoveryInterface
	namespaces labels.Selector
	changed    chan event.GenericEvent

	mutex    sync.Mutex
	cache    client.Reader // reads Kueue's objects; nil while Kueue is not followed
	presence kueue.Presence
	// positions are written by Start alone.
	positions positions

	// found are the Workloads for which Kueue has preempted MiniClusters, by UID, for whoever is in finding: a channel, since who
	// waits for it does not wait longer than a pass.
	found   map[types.UID]types.NamespacedName
	finding chan struct{}
}

// The rights for all that is Kueue's are a role of their own.
// +kubebuilder:rbac:groups=kueue.x-k8s.io,resources=workloads,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=kueue.x-k8s.io,resources=workloads/status,verbs=patch
// +kubebuilder:rbac:groups=kueue.x-k8s.io,resources=admissionchecks;clusterqueues;localqueues;resourceflavors;topologies;workloadpriorityclasses,verbs=get;list;watch
// +kubebuilder:rbac:groups=kueue.x-k8s.io,resources=admissionchecks/status,verbs=patch

// New returns a Kueue that grants quota in some namespaces, and adds it to the manager.
func New(mgr ctrl.Manager, namespaces labels.Selector) (*Kueue, error) {
	found, err := optional.Discovery(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	k := &Kueue{
		cluster: mgr.GetClient(), live: mgr.GetAPIReader(), config: mgr.GetConfig(), scheme: mgr.GetScheme(), discovery: found,
		namespaces: namespaces, changed: make(chan event.GenericEvent, 1024), finding: make(chan struct{}, 1),
	}
	return k, mgr.Add(k)
}

// objects reads Kueue's objects from a cache; nil while the API server does not have them. presence is what is known of the
// objects then.
func (k *Kueue) objects() (reader client.Reader, presence kueue.Presence) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.cache, k.presence
}

// manages reports whether MiniClusters of a namespace may get quota from Kueue.
func (k *Kueue) manages(ctx context.Context, namespace string) (bool, error) {
	var object corev1.Namespace
	if err := k.cluster.Get(ctx, types.NamespacedName{Name: namespace}, &object); err != nil {
		return false, fmt.Errorf("reading namespace %q: %w", namespace, err)
	}
	return k.namespaces.Matches(labels.Set(object.Labels)), nil
}

// Changed sends the MiniClusters whose Workloads have changed, or for which Kueue has come or gone.
func (k *Kueue) Changed() <-chan event.GenericEvent { return k.changed }

// Start follows Kueue until the context is done.
func (k *Kueue) Start(ctx context.Context) error {
	stop := func() {}
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		log := ctrl.LoggerFrom(ctx).WithName("kueue")
		there, err := optional.Serves(k.discovery, kueueapi.SchemeGroupVersion.String(), "workloads")
		if err != nil {
			log.V(1).Info("Looking for Kueue", "reason", err.Error())
			return
		}
		reader, _ := k.objects()
		switch followed := reader != nil; {
		case there && !followed:
			log.Info("Kueue is there")
			if stop, err = k.follow(ctx); err != nil {
				stop = func() {}
				log.Error(err, "Following Kueue")
				k.set(nil, kueue.Unread)
			}
			k.wakeAll(ctx)
		case !there:
			k.set(nil, kueue.Away)
			if followed {
				log.Info("Kueue is not there any more")
				stop()
				k.wakeAll(ctx)
			}
		}
		if reader, _ = k.objects(); reader != nil {
			k.answerAll(ctx)
			k.lookAtQueues(ctx)
		}
	}, lookInterval)
	stop()
	return nil
}

func (k *Kueue) set(c client.Reader, presence kueue.Presence) {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	k.cache, k.presence = c, presence
}

// follow fills a cache of Kueue's objects, and returns how to end it.
func (k *Kueue) follow(ctx context.Context) (stop func(), err error) {
	none, workload := toolscache.ResourceEventHandlerFuncs{}, &kueueapi.Workload{}
	c, stop, err := optional.Follow(ctx, k.config, k.scheme, map[client.Object]toolscache.ResourceEventHandler{
		workload:                          optional.Handler(func(object any) { k.wakeOwner(ctx, object) }),
		&kueueapi.AdmissionCheck{}:        optional.Handler(func(object any) { k.answer(ctx, object) }),
		&kueueapi.LocalQueue{}:            none,
		&kueueapi.ClusterQueue{}:          none,
		&kueueapi.ResourceFlavor{}:        none,
		&kueueapi.Topology{}:              none,
		&kueueapi.WorkloadPriorityClass{}: none,
	}, workload)
	if err != nil {
		return nil, err
	}
	k.set(c, kueue.Unread)
	return stop, nil
}

// wakeOwner wakes the MiniCluster of a Workload.
func (k *Kueue) wakeOwner(ctx context.Context, object any) {
	if wl, ok := object.(*kueueapi.Workload); ok {
		k.wake(ctx, wl.Namespace, wl.Labels[v1alpha2.MiniClusterLabel])
	}
}

// wakeAll wakes all MiniClusters that have the label of a queue, and those of all Workloads: a MiniCluster
// may be deleted while nobody follows its Workload, which then has to go.
func (k *Kueue) wakeAll(ctx context.Context) {
	var list v1alpha2.MiniClusterList
	if err := k.cluster.List(ctx, &list, client.HasLabels{v1alpha2.KueueQueueLabel}, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing MiniClusters")
	}
	for i := range list.Items {
		k.wake(ctx, list.Items[i].Namespace, list.Items[i].Name)
	}
	reader, _ := k.objects()
	if reader == nil {
		return
	}
	var workloads kueueapi.WorkloadList
	if err := reader.List(ctx, &workloads, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing Workloads")
	}
	for i := range workloads.Items {
		k.wakeOwner(ctx, &workloads.Items[i])
	}
}

func (k *Kueue) wake(ctx context.Context, namespace, name string) {
	optional.Wake(ctx, k.changed, namespace, name)
}

// answerAll answers for all admission checks of this project for which no answer was taken yet.
func (k *Kueue) answerAll(ctx context.Context) {
	var checks kueueapi.AdmissionCheckList
	if err := k.cache.List(ctx, &checks, client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Listing AdmissionChecks")
	}
	for i := range checks.Items {
		k.answer(ctx, &checks.Items[i])
	}
}

// answer says that an admission check of this project is answered. Kueue waits for that.
func (k *Kueue) answer(ctx context.Context, object any) {
	check, ok := object.(*kueueapi.AdmissionCheck)
	if !ok || check.Spec.ControllerName != v1alpha2.PlacementCheck || check.DeletionTimestamp != nil {
		return
	}
	next := check.DeepCopy()
	changed := meta.SetStatusCondition(&next.Status.Conditions, metav1.Condition{
		Type: kueueapi.AdmissionCheckActive, Status: metav1.ConditionTrue, Reason: "Active",
		Message: "flux-elastic looks for nodes", ObservedGeneration: check.Generation,
	})
	if !changed {
		return
	}
	go func() { // a handler must not wait
		limited, cancel := context.WithTimeout(ctx, lookInterval) // then the next answer comes
		defer cancel()
		err := k.cluster.Status().Patch(limited, next, client.MergeFrom(check))
		if client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
			ctrl.LoggerFrom(ctx).Error(err, "Answering for an AdmissionCheck", "AdmissionCheck", check.Name)
		}
	}()
}
