// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	visibility "sigs.k8s.io/kueue/apis/visibility/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/controllers/optional"
	"github.com/flux-elastic/flux-elastic/internal/kueue"
)

// +kubebuilder:rbac:groups=visibility.kueue.x-k8s.io,resources=localqueues/pendingworkloads,verbs=get

// positions are those of Workloads of MiniClusters that wait for quota, by LocalQueue.
type positions map[types.NamespacedName]map[types.NamespacedName]kueue.Position

// position is the last known place of a Workload in Kueue's queues.
func (k *Kueue) position(wl *kueueapi.Workload) kueue.Position {
	k.mutex.Lock()
	defer k.mutex.Unlock()
	return k.positions[queueOf(wl)][client.ObjectKeyFromObject(wl)]
}

func queueOf(wl *kueueapi.Workload) types.NamespacedName {
	return types.NamespacedName{Namespace: wl.Namespace, Name: string(wl.Spec.QueueName)}
}

// lookAtQueues learns the positions of all MiniClusters that wait for quota, by one request for each
// LocalQueue, and wakes those whose positions have changed. Kueue's visibility API may be missing or
// forbidden, and then no position is known. Positions stay as they are while Kueue does not answer.
func (k *Kueue) lookAtQueues(ctx context.Context) {
	waiting, err := k.waiting(ctx)
	next := positions{}
	if err == nil && len(waiting) > 0 {
		next, err = k.ask(ctx, waiting)
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).WithName("kueue").V(1).Info("Looking for positions in Kueue's queues", "reason", err.Error())
	}
	before := k.positions // no other goroutine writes
	k.mutex.Lock()
	k.positions = next
	k.mutex.Unlock()
	for queue, workloads := range waiting {
		for _, wl := range workloads {
			if key := client.ObjectKeyFromObject(wl); before[queue][key] != next[queue][key] {
				k.wake(ctx, wl.Namespace, wl.Labels[v1alpha2.MiniClusterLabel])
			}
		}
	}
}

// ask asks for the positions in some LocalQueues. After an error, the remaining positions are the last
// known ones.
func (k *Kueue) ask(ctx context.Context, waiting map[types.NamespacedName][]*kueueapi.Workload) (positions, error) {
	served, err := optional.Serves(k.discovery, visibility.SchemeGroupVersion.String(), "localqueues/pendingworkloads")
	if err == nil && !served {
		return nil, nil
	}
	answers := positions{}
	for queue := range waiting {
		if err == nil {
			answers[queue], err = k.positionsIn(ctx, queue)
		}
		if err != nil {
			answers[queue] = k.positions[queue]
		}
	}
	return answers, err
}

// waiting are the Workloads of MiniClusters that wait for quota, by LocalQueue.
func (k *Kueue) waiting(ctx context.Context) (map[types.NamespacedName][]*kueueapi.Workload, error) {
	var list kueueapi.WorkloadList
	if err := k.cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("listing Workloads: %w", err)
	}
	waiting := map[types.NamespacedName][]*kueueapi.Workload{}
	for i := range list.Items {
		if wl := &list.Items[i]; kueue.WaitsForQuota(wl) {
			waiting[queueOf(wl)] = append(waiting[queueOf(wl)], wl)
		}
	}
	return waiting, nil
}

// positionsIn asks Kueue for the positions in a LocalQueue: the first thousand.
func (k *Kueue) positionsIn(ctx context.Context, queue types.NamespacedName) (map[types.NamespacedName]kueue.Position, error) {
	path := fmt.Sprintf("/apis/%s/namespaces/%s/localqueues/%s/pendingworkloads", visibility.SchemeGroupVersion, queue.Namespace, queue.Name)
	data, err := k.discovery.RESTClient().Get().AbsPath(path).Do(ctx).Raw()
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("asking for positions in LocalQueue %s: %w", queue, err)
	}
	var summary visibility.PendingWorkloadsSummary
	if err := json.Unmarshal(data, &summary); err != nil {
		return nil, fmt.Errorf("asking for positions in LocalQueue %s: %w", queue, err)
	}
	return kueue.Positions(summary.Items), nil
}
