// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlconfig "sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

const (
	// workers is how many instances are played in parallel. patchesAtOnce is how many pods of
	// one instance are patched in parallel.
	workers       = 8
	patchesAtOnce = 8
)

// Run plays Flux in the pods of the cluster until the context is done.
func Run(ctx context.Context, config *rest.Config) error {
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:  clientgoscheme.Scheme,
		Metrics: metricsserver.Options{BindAddress: "0"},
		// Several simulators may run in one process, each for a cluster of its own.
		Controller: ctrlconfig.Controller{SkipNameValidation: new(true)},
	})
	if err != nil {
		return fmt.Errorf("making the simulator: %w", err)
	}
	if err := mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, instanceIndex, instanceOf); err != nil {
		return err
	}
	s := &simulator{client: mgr.GetClient(), live: mgr.GetAPIReader(), clock: clock.RealClock{}, runs: map[types.UID]*run{}, written: map[types.UID]uint64{}, saved: map[string]float64{}}
	err = ctrl.NewControllerManagedBy(mgr).
		Named("flux").
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(requestOf)).
		Watches(&corev1.Node{}, handler.EnqueueRequestsFromMapFunc(s.instancesOn)).
		WithOptions(controller.Options{MaxConcurrentReconciles: workers}).
		Complete(s)
	if err != nil {
		return err
	}
	return mgr.Start(ctx)
}

// instanceIndex is the index of pods by Flux instance. The pods of a JobSet are one instance. The
// pods of a gang are one instance, too.
const instanceIndex = "instance"

func instanceOf(pod client.Object) []string {
	if job, _ := GangOf(pod.(*corev1.Pod)); job != "" {
		return []string{string(job)}
	}
	if _, ok := protocol.Rank(pod.(*corev1.Pod)); !ok {
		return nil // no broker, for example the services pod
	}
	if uid := pod.GetLabels()[jobsetapi.JobSetUIDKey]; uid != "" && pod.GetLabels()[v1alpha2.MiniClusterLabel] != "" {
		return []string{uid}
	}
	return nil
}

func requestOf(_ context.Context, pod client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, uid := range instanceOf(pod) {
		requests = append(requests, reconcile.Request{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(), Name: uid}})
	}
	return requests
}

// instancesOn returns requests for the instances that have a pod on a node.
func (s *simulator) instancesOn(ctx context.Context, node client.Object) []reconcile.Request {
	var pods corev1.PodList
	if err := s.client.List(ctx, &pods, client.UnsafeDisableDeepCopy); err != nil {
		return nil
	}
	var requests []reconcile.Request
	for i := range pods.Items {
		if pods.Items[i].Spec.NodeName == node.GetName() {
			requests = append(requests, requestOf(ctx, &pods.Items[i])...)
		}
	}
	return requests
}

// simulator plays Flux instances.
type simulator struct {
	client client.Client
	live   client.Reader
	clock  clock.PassiveClock

	mutex sync.Mutex
	runs  map[types.UID]*run // by the UID of the lead's pod
	// saved is the part of the work of a MiniCluster, by its UID, that is in its last checkpoint.
	saved map[string]float64
	// written are the versions of pods after our last write, until the cache has them.
	written map[types.UID]uint64
}

// Reconcile plays one instance.
func (s *simulator) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	var list corev1.PodList
	err := s.client.List(ctx, &list, client.InNamespace(req.Namespace), client.MatchingFields{instanceIndex: req.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return ctrl.Result{}, err
	}
	if len(list.Items) > 0 {
		if job, size := GangOf(&list.Items[0]); job != "" {
			return s.playGang(ctx, job, size, list.Items)
		}
	}
	lead, online := s.brokers(ctx, list.Items)
	switch {
	case lead == nil || s.lags(lead): // an event will follow
		return ctrl.Result{}, nil
	case lead.Status.Phase == corev1.PodSucceeded || lead.Status.Phase == corev1.PodFailed:
		return ctrl.Result{}, s.shutDown(ctx, lead, online)
	case !s.isOnline(ctx, lead):
		return ctrl.Result{}, nil
	}
	return s.playLead(ctx, lead, online)
}

// brokers returns the latest pod of the lead, if there is one, and the pods whose brokers are online.
func (s *simulator) brokers(ctx context.Context, pods []corev1.Pod) (lead *corev1.Pod, online []*corev1.Pod) {
	for i := range pods {
		pod := &pods[i]
		s.forgetWrite(pod)
		if rank, ok := protocol.Rank(pod); ok && rank == 0 && (lead == nil || lead.CreationTimestamp.Before(&pod.CreationTimestamp)) {
			lead = pod
		}
		if s.isOnline(ctx, pod) {
			online = append(online, pod)
		}
	}
	return lead, online
}

// shutDown ends the followers of a lead that has ended. They go on if it failed before it was up.
func (s *simulator) shutDown(ctx context.Context, lead *corev1.Pod, online []*corev1.Pod) error {
	if len(online) == 0 {
		s.forget(lead.UID)
		return nil
	}
	if lead.Status.Phase == corev1.PodFailed && !s.knows(lead.UID) {
		return nil
	}
	return s.endAll(ctx, online, 0)
}

// isOnline reports whether a pod's broker is online: the pod runs on a node that is ready.
func (s *simulator) isOnline(ctx context.Context, pod *corev1.Pod) bool {
	var node corev1.Node
	return pod.Status.Phase == corev1.PodRunning && pod.DeletionTimestamp == nil &&
		s.client.Get(ctx, types.NamespacedName{Name: pod.Spec.NodeName}, &node) == nil && state.Ready(&node)
}
