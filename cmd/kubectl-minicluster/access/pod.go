// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
)

// PodOf returns the newest pod of a rank, or the lead that the manager has recorded; nil if there is none. Its Job counts as
// for the manager, since anybody who may create pods may write their labels.
func PodOf(ctx context.Context, c client.Reader, mc *v1alpha2.MiniCluster, rank int) (*corev1.Pod, error) {
	var pods corev1.PodList
	if err := c.List(ctx, &pods, client.InNamespace(mc.Namespace), client.MatchingLabels{
		v1alpha2.UIDLabel: string(mc.UID), v1alpha2.MiniClusterLabel: mc.Name,
	}); err != nil {
		return nil, err
	}
	var newest *corev1.Pod
	for i := range pods.Items {
		pod := &pods.Items[i]
		its, isBroker := protocol.Rank(pod)
		isOurs := isBroker && its == rank && protocol.MiniClusterOf(pod) == mc.Name && (rank > 0 || mc.Status.Admission.MayBeLead(pod.UID))
		if isOurs && (newest == nil || newest.CreationTimestamp.Before(&pod.CreationTimestamp)) {
			newest = pod
		}
	}
	return newest, nil
}

// ErrSimulated says why a container on a node without a kubelet has no output.
var ErrSimulated = errors.New("which is simulated: no command runs there, and there is no output")

// CheckSimulated returns ErrSimulated if a container of a pod has begun on a node without a kubelet: a kubelet gives an ID to
// each container that it has started.
func CheckSimulated(pod *corev1.Pod, name string) error {
	i := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == name })
	if i < 0 || pod.Status.ContainerStatuses[i].ContainerID != "" {
		return nil
	}
	state := &pod.Status.ContainerStatuses[i].State
	if ended := state.Terminated; state.Running == nil && (ended == nil || ended.Reason != "Completed" && ended.Reason != "Error") {
		return nil
	}
	return fmt.Errorf("pod %s is on node %s, %w", pod.Name, pod.Spec.NodeName, ErrSimulated)
}
