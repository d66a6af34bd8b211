// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// tellReady writes whether a running pod is ready, as the kubelet would. It writes nothing if the
// status already says so, or if the cache lags: then an event follows.
func (s *simulator) tellReady(ctx context.Context, pod *corev1.Pod, ready bool) error {
	if isReady(pod) == ready || s.lags(pod) {
		return nil
	}
	containers := slices.Clone(pod.Status.ContainerStatuses)
	var names []string
	for i := range containers {
		containers[i].Ready, containers[i].Started = ready, new(true)
		names = append(names, containers[i].Name)
	}
	status, reason, message := corev1.ConditionTrue, any(nil), any(nil)
	if !ready {
		status, reason = corev1.ConditionFalse, "ContainersNotReady"
		message = fmt.Sprintf("containers with unready status: [%s]", strings.Join(names, " "))
	}
	now := metav1.NewTime(s.clock.Now())
	var conditions []map[string]any
	for _, kind := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady} {
		conditions = append(conditions, map[string]any{"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": now})
	}
	// The write must fail if the pod has changed since: it may have ended.
	metadata := map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion}
	return s.patch(ctx, pod, metadata, map[string]any{"containerStatuses": containers, "conditions": conditions})
}

func isReady(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.Conditions, func(condition corev1.PodCondition) bool {
		return condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue
	})
}

// endAll ends pods, except those for which the cache lags.
func (s *simulator) endAll(ctx context.Context, pods []*corev1.Pod, code int32) error {
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(patchesAtOnce)
	for _, pod := range pods {
		if !s.lags(pod) {
			group.Go(func() error { return s.end(groupCtx, pod, code, "") })
		}
	}
	return group.Wait()
}

// end writes that the containers of a pod have ended, as the kubelet would. message is the termination
// message; "" for none.
func (s *simulator) end(ctx context.Context, pod *corev1.Pod, code int32, message string) error {
	phase, reason := corev1.PodSucceeded, "Completed"
	if code != 0 {
		phase, reason = corev1.PodFailed, "Error"
	}
	now := metav1.NewTime(s.clock.Now())
	state := corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, Message: message, FinishedAt: now}}
	var containers []map[string]any
	for _, container := range pod.Spec.Containers {
		containers = append(containers, map[string]any{"name": container.Name, "ready": false, "started": false, "state": map[string]any{
			"running": nil, "terminated": state.Terminated,
		}})
	}
	return s.patch(ctx, pod, map[string]any{"uid": pod.UID}, map[string]any{
		"phase":             phase,
		"containerStatuses": containers,
		"conditions": []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "PodCompleted", LastTransitionTime: now},
			{Type: corev1.ContainersReady, Status: corev1.ConditionFalse, Reason: "PodCompleted", LastTransitionTime: now},
		},
	})
}

// patch writes the status of a pod. It is no error if the pod is gone, or if it no longer matches the
// metadata.
func (s *simulator) patch(ctx context.Context, pod *corev1.Pod, metadata, status map[string]any) error {
	data, err := json.Marshal(map[string]any{"metadata": metadata, "status": status})
	if err != nil {
		return err
	}
	pod = pod.DeepCopy()
	err = s.client.Status().Patch(ctx, pod, client.RawPatch(types.StrategicMergePatchType, data))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	if err == nil {
		s.mutex.Lock()
		s.written[pod.UID] = version(pod)
		s.mutex.Unlock()
	}
	return err
}

// lags reports whether the cache has a version of the pod that is older than our last write.
func (s *simulator) lags(pod *corev1.Pod) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return version(pod) < s.written[pod.UID]
}

// forgetWrite forgets our last write of a pod if the cache has it.
func (s *simulator) forgetWrite(pod *corev1.Pod) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if version(pod) >= s.written[pod.UID] {
		delete(s.written, pod.UID)
	}
}

// version returns the version of a pod. Versions grow with each write.
func version(pod *corev1.Pod) uint64 {
	version, _ := strconv.ParseUint(pod.ResourceVersion, 10, 64)
	return version
}
