// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// evict removes pods by the Eviction API: their Job does not count them as failed, and makes new
// gated pods. A pod that disruption budgets have kept for too long is deleted: its Job counts it as failed.
func (r *Reconciler) evict(ctx context.Context, seen *observed, step life.EvictPods) error {
	pods, errs := seen.view.Brokers(), make([]error, len(step.Ranks))
	var group errgroup.Group
	group.SetLimit(patchesAtOnce)
	for i, rank := range step.Ranks {
		pod := pods[rank].DeepCopy()
		group.Go(func() error {
			if slices.Contains(step.Kept, rank) {
				errs[i] = r.delete(ctx, "pod", pod, metav1.DeletePropagationBackground)
			} else {
				errs[i] = r.evictPod(ctx, pod)
			}
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	var kept []types.UID
	for i, rank := range step.Ranks {
		if isKept(errs[i]) {
			kept = append(kept, pods[rank].UID)
		}
	}
	seen.memory.noteKept(kept, seen.now)
	return cmp.Or(errs...)
}

// evictPod evicts a pod by one request. A budget whose state is not known lets the API server name a time for
// another one: no pass waits for that.
func (r *Reconciler) evictPod(ctx context.Context, pod *corev1.Pod) error {
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(pod.UID)}},
	}
	err := r.core.Post().MaxRetries(0).Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("eviction").
		Body(eviction).Do(ctx).Error()
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("evicting pod %q: %w", pod.Name, err)
	}
	return nil
}

// isKept reports whether disruption budgets refuse an eviction for now. A budget whose state is not known yet has the
// same cause as one that allows none. For a pod of several budgets the API server answers an error without a cause.
// Source: pkg/registry/core/pod/storage/eviction.go of Kubernetes.
func isKept(err error) bool {
	if apierrors.IsInternalError(err) {
		return strings.Contains(err.Error(), "more than one PodDisruptionBudget")
	}
	return apierrors.IsTooManyRequests(err) && apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause)
}
