// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// toWrite is what has to be written for the pod; nil if nothing has.
func (w *worker) toWrite() func(context.Context) {
	switch {
	case w.gone || w.stage == arriving:
		return nil
	case !w.isWritten:
		return w.writeStatus
	case w.stage == ended && w.pod.DeletionTimestamp != nil && !w.isDeleted && ptr.Deref(w.pod.DeletionGracePeriodSeconds, 1) > 0:
		return w.confirm
	}
	return nil
}

// confirm deletes a pod that was to be deleted, and whose processes have ended.
func (w *worker) confirm(ctx context.Context) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.pod.Namespace, Name: w.pod.Name}}
	err := w.random().Client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &w.pod.UID})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		w.isDeleted = true
	}
}

// differs reports whether somebody else wrote what the kubelet says of the pod: its phase, or whether it is ready.
func (w *worker) differs() bool {
	has := &w.pod.Status
	if w.isOld || w.reason != "" || len(has.ContainerStatuses) != len(w.main) || has.Phase != w.phase(has.Phase) {
		return true
	}
	ready := !podEnded(w.pod)
	for _, c := range w.containers() {
		ready = ready && (c.isInit() || c.ready)
	}
	for i, c := range w.main {
		if has.ContainerStatuses[i].Ready != c.ready {
			return true
		}
	}
	return ready != podReady(w.pod)
}

// writeStatus writes the status (pkg/kubelet/status/status_manager.go). The pod is read anew, and conditions of others stay.
func (w *worker) writeStatus(ctx context.Context) {
	var pod corev1.Pod
	err := w.random().Client.Get(ctx, types.NamespacedName{Namespace: w.pod.Namespace, Name: w.pod.Name}, &pod)
	if apierrors.IsNotFound(err) || err == nil && pod.UID != w.pod.UID {
		w.isWritten = true // the pod is gone, which the kubelet will see
		return
	}
	if err != nil {
		return
	}
	status := w.status(&pod)
	w.isWritten = true
	if equality.Semantic.DeepEqual(status, pod.Status) {
		return
	}
	pod.Status = status
	if err := w.random().Client.Status().Update(ctx, &pod); err != nil && !apierrors.IsNotFound(err) {
		w.isWritten = false
	}
}

// status is the status of the pod. Of the status that the API server has, it keeps what is not the kubelet's.
func (w *worker) status(pod *corev1.Pod) corev1.PodStatus {
	before := &pod.Status
	status := *before.DeepCopy()
	if w.isOld {
		return status
	}
	now := metav1.NewTime(time.Now())
	if w.reason != "" && !w.isKilled() { // refused
		status.Phase, status.Reason, status.Message = corev1.PodFailed, w.reason, w.message
		w.setReadiness(&status, now)
		return status
	}
	status.InitContainerStatuses, status.ContainerStatuses = nil, nil
	for _, c := range w.init {
		status.InitContainerStatuses = append(status.InitContainerStatuses, c.status())
	}
	for _, c := range w.main {
		status.ContainerStatuses = append(status.ContainerStatuses, c.status())
	}
	if status.StartTime == nil {
		status.StartTime = ptr.To(metav1.NewTime(w.began.Truncate(time.Second)))
	}
	if w.ip != "" {
		status.PodIP, status.PodIPs = w.ip, []corev1.PodIP{{IP: w.ip}}
	}
	status.Phase = w.phase(before.Phase)
	if w.isKilled() && w.stage == ended {
		status.Reason, status.Message = w.reason, w.message
	}
	if w.evicted && w.stage == ended {
		set(&status, corev1.DisruptionTarget, corev1.ConditionTrue, corev1.PodReasonTerminationByKubelet, w.message, now)
	}
	w.setInitialized(&status, now)
	w.setReadiness(&status, now)
	return status
}

// setInitialized sets the condition Initialized.
func (w *worker) setInitialized(status *corev1.PodStatus, now metav1.Time) {
	initialized, why, message := corev1.ConditionTrue, "", ""
	var incomplete []string
	for _, c := range w.init {
		if !c.isInitialized() && w.stage != ended {
			incomplete = append(incomplete, c.spec.Name)
		}
	}
	if len(incomplete) > 0 {
		initialized, why, message = corev1.ConditionFalse, "ContainersNotInitialized", fmt.Sprintf("containers with incomplete status: %s", incomplete)
	}
	set(status, corev1.PodInitialized, initialized, why, message, now)
}

// isKilled reports whether the kubelet ended the pod by itself.
func (w *worker) isKilled() bool { return w.evicted || w.overdue }

// phase is the phase of the pod. It is final only once no process runs.
func (w *worker) phase(before corev1.PodPhase) corev1.PodPhase {
	if w.stage == ended {
		if w.isKilled() {
			return corev1.PodFailed
		}
		for _, c := range w.main {
			if c.state.Terminated == nil || c.state.Terminated.ExitCode != 0 {
				return corev1.PodFailed
			}
		}
		return corev1.PodSucceeded
	}
	if before == corev1.PodRunning || slices.ContainsFunc(w.main, func(c *container) bool { return c.state.Waiting == nil || c.last.Terminated != nil }) {
		return corev1.PodRunning
	}
	return corev1.PodPending
}

// setReadiness sets the conditions ContainersReady and Ready.
func (w *worker) setReadiness(status *corev1.PodStatus, now metav1.Time) {
	ready, why, message := corev1.ConditionTrue, "", ""
	var unready []string
	for _, c := range w.containers() {
		if !c.isInit() && !c.ready {
			unready = append(unready, c.spec.Name)
		}
	}
	switch {
	case status.Phase == corev1.PodSucceeded:
		ready, why = corev1.ConditionFalse, "PodCompleted"
	case status.Phase == corev1.PodFailed:
		ready, why = corev1.ConditionFalse, "PodFailed"
	case len(unready) > 0:
		ready, why, message = corev1.ConditionFalse, "ContainersNotReady", fmt.Sprintf("containers with unready status: %s", unready)
	}
	for _, kind := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady} {
		set(status, kind, ready, why, message, now)
	}
}

// set sets a condition of a pod. Its time changes with its status.
func set(status *corev1.PodStatus, kind corev1.PodConditionType, value corev1.ConditionStatus, reason, message string, now metav1.Time) {
	now = metav1.NewTime(now.Truncate(time.Second))
	for i := range status.Conditions {
		if c := &status.Conditions[i]; c.Type == kind {
			if c.Status != value {
				c.LastTransitionTime = now
			}
			c.Status, c.Reason, c.Message = value, reason, message
			return
		}
	}
	status.Conditions = append(status.Conditions, corev1.PodCondition{
		Type: kind, Status: value, Reason: reason, Message: message, LastTransitionTime: now,
	})
}

// status is the status of a container.
func (c *container) status() corev1.ContainerStatus {
	status := corev1.ContainerStatus{
		Name: c.spec.Name, Image: c.spec.Image, State: *c.state.DeepCopy(), LastTerminationState: *c.last.DeepCopy(),
		RestartCount: c.restarts, Started: ptr.To(c.started), Ready: c.ready,
	}
	if c.state.Waiting == nil || c.last.Terminated != nil {
		status.ContainerID = "containerd://" + c.spec.Name
	}
	if c.isInit() {
		status.Started = ptr.To(c.isRunning())
		status.Ready = c.isInitialized()
	}
	if w := c.worker; w.stage == ended && status.State.Waiting != nil && c.isMissed() {
		status.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			ExitCode: exitKilled, Reason: "ContainerStatusUnknown", Message: "The container could not be located when the pod was terminated",
		}}
	}
	seconds(&status.State)
	seconds(&status.LastTerminationState)
	return status
}

// seconds rounds the times of a state as the API server does.
func seconds(state *corev1.ContainerState) {
	round := func(t *metav1.Time) { t.Time = t.Truncate(time.Second) }
	if state.Running != nil {
		round(&state.Running.StartedAt)
	}
	if state.Terminated != nil {
		round(&state.Terminated.StartedAt)
		round(&state.Terminated.FinishedAt)
	}
}

// isMissed reports whether a container that has no end counts as one that failed: one of a pod whose init containers
// had completed, or an init container that had run before.
func (c *container) isMissed() bool {
	if c.isInit() {
		return c.last.Terminated != nil
	}
	for _, init := range c.worker.init {
		if !init.isSidecar() && !init.isInitialized() {
			return false
		}
	}
	return true
}
