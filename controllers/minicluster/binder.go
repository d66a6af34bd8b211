// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
)

// bind places a gated pod. For the lead's pod it contains the quorum; for others quorum is 0. A
// pod that replaced it under the same name is not touched. The pod's own gate decides how it is
// placed, because a manager with other settings may have made it.
func (r *Reconciler) bind(ctx context.Context, pod *corev1.Pod, node string, rank, quorum int) error {
	if protocol.HasGate(pod) {
		return r.ungate(ctx, pod, node, rank, quorum)
	}
	return r.bindDirectly(ctx, pod, node, rank, quorum)
}

// ungate pins a pod to its node and removes the gate, and kube-scheduler checks and binds the
// pod: two writes.
func (r *Reconciler) ungate(ctx context.Context, pod *corev1.Pod, node string, rank, quorum int) error {
	patch, err := protocol.PlacePatch(pod, node, rank, quorum, r.Clock.Now())
	if err != nil {
		return err
	}
	if err := r.patch(ctx, pod, types.StrategicMergePatchType, patch); err != nil {
		return fmt.Errorf("placing pod %q: %w", pod.Name, err)
	}
	return nil
}

// bindDirectly binds a pod in one write. Only the kubelet checks it again. Its rights are in
// config/direct.
func (r *Reconciler) bindDirectly(ctx context.Context, pod *corev1.Pod, node string, rank, quorum int) error {
	err := r.Client.SubResource("binding").Create(ctx, pod.DeepCopy(), protocol.Binding(pod, node, rank, quorum))
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
func (r *Reconciler) chooseBinder(ctx context.Context, seen *observed, set client.Object) error {
	if !r.BindDirectly || seen.view.MiniCluster.Spec.Pod.SchedulerName != "" {
		return nil
	}
	var pod *corev1.Pod
	if seen.check != nil && seen.check.pod != nil {
		pod = seen.check.pod // includes changes by webhooks
	} else {
		var err error
		if pod, err = jobset.Pod(seen.view.MiniCluster); err != nil {
			return err
		}
	}
	if jobset.NeedsScheduler(pod) {
		ctrl.LoggerFrom(ctx).Info("The pods are left to a scheduler: they cannot be bound directly")
		return nil
	}
	unbound, err := r.unboundClaim(ctx, seen.view.MiniCluster.Namespace, jobset.VolumeClaims(pod))
	if err != nil {
		return err
	}
	if unbound != "" {
		ctrl.LoggerFrom(ctx).Info("The pods are left to a scheduler: a volume of theirs is not bound", "PersistentVolumeClaim", unbound)
		return nil
	}
	jobset.BindDirectly(set.(*jobsetapi.JobSet))
	return nil
}

// unboundClaim is the first claim without a volume, or whose volume will not last; "" if there is
// none.
func (r *Reconciler) unboundClaim(ctx context.Context, namespace string, names []string) (string, error) {
	for _, name := range names {
		var claim corev1.PersistentVolumeClaim
		err := r.Live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &claim)
		switch {
		case apierrors.IsNotFound(err):
			return name, nil
		case err != nil:
			return "", fmt.Errorf("reading PersistentVolumeClaim %q: %w", name, err)
		case claim.Status.Phase != corev1.ClaimBound || claim.DeletionTimestamp != nil:
			return name, nil
		}
	}
	return "", nil
}
