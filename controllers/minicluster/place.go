// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// patchesAtOnce is how many pods of a MiniCluster are patched at once.
const patchesAtOnce = 16

// place pins pods to their nodes and removes their gates, the lead's first.
func (r *Reconciler) place(ctx context.Context, seen *observed, step life.Place) error {
	if err := r.makeFiles(ctx, seen, seen.view.JobSet); err != nil {
		return needed(err)
	}
	nodes, pods := seen.observation.Admission.Nodes, seen.view.Brokers()
	ranks := slices.DeleteFunc(slices.Clone(step.Ranks), func(rank int) bool { return seen.memory.hasPlaced(pods[rank]) })
	var mutex sync.Mutex
	placeRank := func(ctx context.Context, rank int, orders protocol.Orders) error {
		err := r.applyQuota(ctx, pods[rank].Pod, seen.view.MiniCluster.Status.Admission.Quota)
		if err == nil {
			err = r.bind(ctx, seen.view.JobSet, pods[rank].Pod, nodes[rank], rank, orders)
		}
		switch {
		case isDenied(err): // and not because of an old view of the pod
			return needed(err)
		case err != nil:
			return err
		}
		mutex.Lock()
		defer mutex.Unlock()
		seen.memory.notePlaced(pods[rank], seen.view.Pods)
		return nil
	}
	if len(ranks) > 0 && ranks[0] == 0 {
		if err := placeRank(ctx, 0, protocol.Orders{Quorum: step.Quorum, Again: step.Again}); err != nil {
			return err
		}
		ranks = ranks[1:]
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(patchesAtOnce)
	for _, rank := range ranks {
		group.Go(func() error { return placeRank(groupCtx, rank, protocol.Orders{}) })
	}
	return group.Wait()
}

// applyQuota gives a pod what it needs on the nodes of a quota.
func (r *Reconciler) applyQuota(ctx context.Context, pod *corev1.Pod, quota *v1alpha2.Quota) error {
	if quota == nil {
		return nil
	}
	patch, err := protocol.QuotaPatch(pod, quota)
	if err != nil || patch == nil {
		return err
	}
	if err := r.patch(ctx, pod, types.StrategicMergePatchType, patch); err != nil {
		return fmt.Errorf("applying the quota to pod %q: %w", pod.Name, err)
	}
	return nil
}

// releaseServices removes the gate of the services pod, and confines it to the nodes of its quota. Its
// Job may replace the pod with a new gated one.
func (r *Reconciler) releaseServices(ctx context.Context, seen *observed) error {
	pod := seen.view.Services()
	if seen.memory.hasPlaced(pod) {
		return nil
	}
	if err := r.makeFiles(ctx, seen, seen.view.JobSet); err != nil {
		return err
	}
	if err := r.applyQuota(ctx, pod.Pod, seen.quota.OfServices); err != nil {
		return err
	}
	patch, err := protocol.UngatePatch(pod.Pod, seen.quota.OfServices)
	if err != nil {
		return err
	}
	if err := r.patch(ctx, pod.Pod, types.StrategicMergePatchType, patch); err != nil {
		return fmt.Errorf("letting pod %q go: %w", pod.Name, err)
	}
	seen.memory.notePlaced(pod, seen.view.Pods)
	return nil
}
