// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/weight"
)

// errNotDirect says that a pod has the scheduler name of pods that this manager binds, and is none.
var errNotDirect = errors.New("it has the schedulerName " + v1alpha2.SchedulerName + ", but its JobSet was not made for that")

// bind places a gated pod of a JobSet, with orders for the lead. A pod that replaced it under the same name is not touched. A pod
// without our gate is of a JobSet that an older manager made with --binder=direct.
func (r *Reconciler) bind(ctx context.Context, set *jobsetapi.JobSet, pod *corev1.Pod, node string, rank int, orders protocol.Orders) error {
	switch {
	case protocol.HasGate(pod):
		return r.ungate(ctx, pod, node, rank, orders)
	case !jobset.BoundDirectly(set):
		return fmt.Errorf("binding pod %q: %w", pod.Name, errNotDirect)
	}
	return r.bindDirectly(ctx, pod, node, rank, orders)
}

// ungate pins a pod to its node and removes the gate, and kube-scheduler checks and binds the
// pod: two writes.
func (r *Reconciler) ungate(ctx context.Context, pod *corev1.Pod, node string, rank int, orders protocol.Orders) error {
	patch, err := protocol.PlacePatch(pod, node, rank, orders, r.Clock.Now())
	if err != nil {
		return err
	}
	if err := r.patch(ctx, pod, types.StrategicMergePatchType, patch); err != nil {
		return fmt.Errorf("placing pod %q: %w", pod.Name, err)
	}
	return nil
}

// bindDirectly binds a pod in one write. Only the kubelet checks it again. Its rights are in config/direct.
func (r *Reconciler) bindDirectly(ctx context.Context, pod *corev1.Pod, node string, rank int, orders protocol.Orders) error {
	err := r.Client.SubResource("binding").Create(ctx, pod.DeepCopy(), protocol.Binding(pod, node, rank, orders))
	if err == nil || (apierrors.IsConflict(err) && r.isBound(ctx, pod, node)) {
		return nil
	}
	return fmt.Errorf("binding pod %q: %w", pod.Name, err)
}

// isBound reports whether a pod is on its node already, which the cache may not show yet.
func (r *Reconciler) isBound(ctx context.Context, pod *corev1.Pod, node string) bool {
	var there corev1.Pod
	err := r.Live.Get(ctx, client.ObjectKeyFromObject(pod), &there)
	return err == nil && there.UID == pod.UID && there.Spec.NodeName == node
}

// chooseBinder decides how the pods of a new JobSet will be placed. The choice stays with the
// pods.
func (r *Reconciler) chooseBinder(ctx context.Context, seen *observed, set *jobsetapi.JobSet) error {
	if r.KeepGates || seen.observation.Trial || seen.view.MiniCluster.Spec.Pod.SchedulerName != "" {
		return nil
	}
	pod, err := checkedPod(seen)
	if err != nil {
		return err
	}
	if r.needsScheduler(pod) {
		ctrl.LoggerFrom(ctx).Info("The pods are left to a scheduler: only a scheduler can bind them")
		return nil
	}
	return r.bindSetAtAdmission(ctx, seen, set)
}

// needsScheduler reports whether only kube-scheduler can check all that keeps a pod from nodes.
func (r *Reconciler) needsScheduler(pod *corev1.Pod) bool {
	return jobset.NeedsScheduler(pod) || r.Scheduler.Overlooks(pod.Namespace)
}

// checkedPod is a pod of the gang as the API server would create it, with changes by webhooks. It
// is the pod before that if the check is not needed any more.
func checkedPod(seen *observed) (*corev1.Pod, error) {
	if seen.check != nil && seen.check.pod != nil {
		return seen.check.pod, nil
	}
	return jobset.Pod(seen.view.MiniCluster)
}

const (
	// boundFor is how long the API server's answer holds that it binds pods when it creates them. Pods
	// that it does not bind after all keep their gates, and are placed.
	boundFor = time.Minute
	// gatedFor is how long the answer holds that it does not.
	gatedFor = shapeInterval
)

// binding is an answer of the API server: whether it binds pods when it creates them.
type binding struct {
	binds bool
	until time.Time // the answer holds
}

// answers are what is known of that for all pods.
type answers struct {
	leavesGates atomic.Bool // the last answer was no
	hasBound    atomic.Bool // some answer was yes
}

func (a *answers) add(binds bool) {
	a.leavesGates.Store(!binds)
	if binds {
		a.hasBound.Store(true)
	}
}

// MayBind reports whether the API server may bind pods when they are created.
func (r *Reconciler) MayBind() bool {
	return !r.KeepGates && (r.answers.hasBound.Load() || !r.answers.leavesGates.Load())
}

// bindSetAtAdmission lets the API server bind the pods of a new JobSet when they are created, if it
// would. Quota of Kueue may be admitted after the pods are made.
func (r *Reconciler) bindSetAtAdmission(ctx context.Context, seen *observed, set *jobsetapi.JobSet) error {
	mc, admission := seen.view.MiniCluster, seen.observation.Admission
	if seen.quota.Needed() || mc.Status.Admission.Quota != nil {
		return nil
	}
	nodes := slices.Clone(admission.Nodes)
	for _, rank := range admission.Vacated {
		nodes[rank] = ""
	}
	bound := set.DeepCopy()
	jobset.BindAtAdmission(bound, nodes, admission.Quorum, admission.At)
	if !jobset.AnnotationsFit(bound) || weight.ExcessOfJobSet(mc, bound) != "" {
		ctrl.LoggerFrom(ctx).Info("The pods are left to a scheduler: the names of their nodes are too long for the JobSet", "nodes", len(nodes))
		return nil
	}
	binds, err := r.bindsAtAdmission(ctx, seen, jobset.FirstPod(mc, bound), nodes[0])
	if binds {
		bound.DeepCopyInto(set)
	}
	return err
}

// bindsAtAdmission asks the API server whether it would bind a pod to a node when it creates the pod.
func (r *Reconciler) bindsAtAdmission(ctx context.Context, seen *observed, pod *corev1.Pod, node string) (binds bool, err error) {
	shared := seen.check.answer()
	if last := shared.Load(); last != nil && seen.now.Before(last.until) {
		r.answers.add(last.binds)
		return last.binds, nil
	}
	err = r.Client.Create(ctx, pod, client.DryRunAll)
	answer := &binding{until: seen.now.Add(gatedFor)}
	switch {
	// For example by a policy against pods with nodes, or by a webhook that looks for the Job of the pod.
	case wouldRefuse(err):
		ctrl.LoggerFrom(ctx).Info("The pods are left to a scheduler: the API server would not create a bound pod", "reason", err.Error())
	case err != nil:
		return false, fmt.Errorf("asking whether the API server would bind a pod: %w", err)
	case jobset.NeedsScheduler(pod):
		ctrl.LoggerFrom(ctx).Info("The pods are left to a scheduler: only a scheduler can bind them")
	case pod.Spec.NodeName != node || len(pod.Spec.SchedulingGates) > 0:
		ctrl.LoggerFrom(ctx).V(1).Info("The pods are left to a scheduler: no policy binds them when they are created")
	default:
		answer = &binding{binds: true, until: seen.now.Add(boundFor)}
	}
	shared.Store(answer)
	r.answers.add(answer.binds)
	return answer.binds, nil
}
