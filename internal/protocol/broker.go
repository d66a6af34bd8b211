// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// readBroker reads what the pod shows of its broker.
func (p *Pod) readBroker() {
	b := &p.Broker
	b.Evicted, b.Placed, b.Bound = whyEvicted(p.Pod), placedAt(p.Pod), p.Spec.NodeName != ""
	b.Unbindable = p.Node != "" && (unschedulable(p.Pod) || turnedAway(p.Pod))
	b.Taken = b.Unbindable && isTaken(p.Pod)
	if p.DeletionTimestamp != nil {
		b.GoneBy = p.DeletionTimestamp.Time // includes the grace period
		b.DeletedAt = b.GoneBy.Add(-time.Duration(ptr.Deref(p.DeletionGracePeriodSeconds, 0)) * time.Second)
	}
	b.Started, b.EndUnknown = p.whatRan()
	b.Replaces, b.Unresolved = replaces(p.Pod), unresolved(p.Pod)
	b.OutOfMemory = outOfMemory(p.Pod)
	switch b.State = p.brokerState(); b.State {
	case life.Failed:
		b.ExitCode, b.FailedIn = exitCode(p.Pod, b.DeletedAt)
		b.EndedAt, b.NotStarted, b.Lingers = endedAt(p.Pod), notStarted(p.Pod), !p.Ended
	case life.Missing:
		b.EndedAt = endedAt(p.Pod)
	case life.Succeeded:
		b.EndedAt, b.Lingers = endedAt(p.Pod), !p.Ended
	case life.Leaving:
		b.Since = runsSince(p.Pod)
	case life.Coming, life.Up:
		p.readContainer()
	}
}

// runsSince is since when the broker's container runs; zero if it does not.
func runsSince(pod *corev1.Pod) time.Time {
	if status := brokerStatus(pod); status != nil && status.State.Running != nil {
		return status.State.Running.StartedAt.Time
	}
	return time.Time{}
}

// whatRan says whether the broker runs and has started up, and whether it has run and nobody knows how far it came.
func (p *Pod) whatRan() (started, unknown bool) {
	status := brokerStatus(p.Pod)
	if status == nil {
		return false, false
	}
	runs := status.State.Running != nil
	return runs && ptr.Deref(status.Started, false), p.Ended && !turnedAway(p.Pod) && (runs || endIsUnknown(status.State.Terminated) && !neverStarted(status))
}

// unresolved is the name that did not resolve for an init container of a pod; "" if none tells of one.
func unresolved(pod *corev1.Pod) string {
	for i := range pod.Status.InitContainerStatuses {
		if ended := pod.Status.InitContainerStatuses[i].State.Terminated; ended != nil {
			if name, ok := strings.CutSuffix(strings.TrimSpace(ended.Message), doesNotResolve); ok && len(strings.Fields(name)) == 1 {
				return name
			}
		}
	}
	return ""
}

// brokerState is the state of the broker, if its node exists. The broker has ended when its container has, whatever other
// containers of its pod do: somebody may have injected them.
func (p *Pod) brokerState() life.BrokerState {
	status, deleted := brokerStatus(p.Pod), p.DeletionTimestamp != nil
	switch {
	case deleted && p.Status.Phase == corev1.PodFailed && p.Rank > 0:
		return life.Missing // its Job keeps this pod until it makes the next one
	case deleted && !p.Ended && p.Rank > 0:
		return life.Leaving
	case p.hasEnded(status):
		return endState(p.Pod, status)
	case deleted:
		return life.Leaving
	case p.Gated:
		return life.Gated
	case p.isUp(status):
		return life.Up
	}
	return life.Coming
}

// isUp reports whether a broker that has not ended is online: a lead whose container runs, a follower whose container is
// ready.
func (p *Pod) isUp(status *corev1.ContainerStatus) bool {
	return status != nil && (status.Ready || (p.Rank == 0 && status.State.Running != nil))
}

// hasEnded reports whether the broker has ended for good.
func (p *Pod) hasEnded(status *corev1.ContainerStatus) bool {
	return p.Ended || (status != nil && status.State.Terminated != nil && p.Spec.RestartPolicy == corev1.RestartPolicyNever)
}

// endState is how the broker ended: as its container did, or as its pod if that has no end.
func endState(pod *corev1.Pod, status *corev1.ContainerStatus) life.BrokerState {
	well := pod.Status.Phase == corev1.PodSucceeded
	if status != nil && status.State.Terminated != nil {
		well = status.State.Terminated.ExitCode == 0
	}
	if well {
		return life.Succeeded
	}
	return life.Failed
}

// replaces reports whether the Job of a pod has made another pod of the same index before.
func replaces(pod *corev1.Pod) bool {
	failures, _ := strconv.Atoi(pod.Annotations[batchv1.JobIndexFailureCountAnnotation])
	ignored, _ := strconv.Atoi(pod.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation])
	return failures+ignored > 0
}

// readContainer reads what the broker's container shows.
func (p *Pod) readContainer() {
	b, readiness := &p.Broker, condition(p.Pod, corev1.PodReady)
	b.Ready, b.Since = ready(p.Pod), runsSince(p.Pod)
	if b.Since.IsZero() { // what keeps other containers from starting is not the broker's trouble
		b.Trouble = trouble(p.Pod)
	}
	switch {
	case b.Ready && readiness.Status == corev1.ConditionTrue:
		b.ReadySince = readiness.LastTransitionTime.Time
	case !b.Ready && readiness.Status == corev1.ConditionFalse:
		b.Idle = !b.Since.IsZero() && readiness.LastTransitionTime.After(b.Since)
	}
}

// placedAt is when a pod was placed. Without the annotation it is when the pod was bound; zero if
// that is not known.
func placedAt(pod *corev1.Pod) time.Time {
	if at, err := time.Parse(time.RFC3339, pod.Annotations[placedAnnotation]); err == nil {
		return at
	}
	if scheduled := condition(pod, corev1.PodScheduled); scheduled.Status == corev1.ConditionTrue {
		return scheduled.LastTransitionTime.Time
	}
	return time.Time{}
}

// unschedulable reports whether kube-scheduler finds no node for a pod without gates.
func unschedulable(pod *corev1.Pod) bool {
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || Ended(pod) || IsGated(pod) {
		return false
	}
	scheduled := condition(pod, corev1.PodScheduled)
	return scheduled.Status == corev1.ConditionFalse && scheduled.Reason == corev1.PodReasonUnschedulable
}

// isTaken reports whether a pod that cannot be bound lacks room on its node, in the words of
// kube-scheduler (plugin NodeResourcesFit) or the kubelet.
func isTaken(pod *corev1.Pod) bool {
	why := condition(pod, corev1.PodScheduled).Message
	return strings.HasPrefix(pod.Status.Reason, "OutOf") || strings.Contains(why, "Insufficient ") || strings.Contains(why, "Too many pods")
}

// outOfMemory reports whether the kernel killed a process of the broker's container, which has ended, because the container
// had reached its memory limit.
func outOfMemory(pod *corev1.Pod) bool {
	status := brokerStatus(pod)
	return status != nil && status.State.Terminated != nil && status.State.Terminated.Reason == "OOMKilled"
}

// turnedAway reports whether the kubelet rejected a pod, so that no container of it ever ran.
func turnedAway(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodFailed || Began(pod) {
		return false
	}
	return strings.HasPrefix(pod.Status.Reason, "OutOf") || slices.Contains(refusals, pod.Status.Reason)
}

// refusals are kubelets' reasons for rejecting a pod, beside "OutOfcpu" and the like.
var refusals = []string{"NodeAffinity", "NodeName", "NodePorts", "TaintToleration", "TopologyAffinityError", "UnexpectedAdmissionError"}

// endedAt is when the broker's container ended, or else the last container that did; zero if no status says.
func endedAt(pod *corev1.Pod) time.Time {
	if status := brokerStatus(pod); status != nil && status.State.Terminated != nil {
		return status.State.Terminated.FinishedAt.Time
	}
	var last time.Time
	for _, status := range pod.Status.ContainerStatuses {
		if ended := status.State.Terminated; ended != nil && ended.FinishedAt.After(last) {
			last = ended.FinishedAt.Time
		}
	}
	return last
}

// evicted is the reason of kubelets for evicting a pod under node pressure.
const evicted = "Evicted"

func whyEvicted(pod *corev1.Pod) string {
	if pod.Status.Reason != evicted {
		return ""
	}
	return strings.TrimRight(strings.TrimSpace(pod.Status.Message), ".")
}

// troubles are kubelets' reasons for a waiting container that may not resolve by themselves.
var troubles = []string{
	"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed",
	"CreateContainerConfigError", "CreateContainerError", "PreCreateHookError", "PreStartHookError", "PostStartHookError", "RunContainerError",
	"ResourceAllocationFailed", "CrashLoopBackOff",
}

// trouble is what keeps a container of a pod from starting; "" if nothing does.
func trouble(pod *corev1.Pod) string {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if waiting := statuses[i].State.Waiting; waiting != nil && slices.Contains(troubles, waiting.Reason) {
				return waiting.Reason
			}
		}
	}
	return ""
}

// brokerStatus is the status of the container that runs the broker; nil if there is none yet.
func brokerStatus(pod *corev1.Pod) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if status := &pod.Status.ContainerStatuses[i]; status.Name == pod.Labels[v1alpha2.MiniClusterLabel] {
			return status
		}
	}
	return nil
}

// ready reports whether the broker's container is ready.
func ready(pod *corev1.Pod) bool {
	status := brokerStatus(pod)
	return status != nil && status.Ready
}

// podReady reports whether a pod is ready: all of its containers are.
func podReady(pod *corev1.Pod) bool {
	return condition(pod, corev1.PodReady).Status == corev1.ConditionTrue
}

// sharesReadiness reports whether other containers of a pod have made it ready or not ready, or readiness gates have.
func (p *Pod) sharesReadiness() bool {
	if p.Broker.Ready && !podReady(p.Pod) {
		return true
	}
	again := func(c corev1.ContainerStatus) bool {
		return c.RestartCount > 0 && c.Name != p.Labels[v1alpha2.MiniClusterLabel]
	}
	return slices.ContainsFunc(p.Status.ContainerStatuses, again) || slices.ContainsFunc(p.Status.InitContainerStatuses, again)
}

// Began reports whether a container of a pod has begun, so that the pod has its volumes.
func Began(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.InitContainerStatuses, ran) || slices.ContainsFunc(pod.Status.ContainerStatuses, ran)
}

func ran(status corev1.ContainerStatus) bool {
	return status.State.Running != nil || status.State.Terminated != nil
}

// unknownEnds are reasons for containers whose end nobody saw, for example when a node was
// rebooted. The container runtime and the kubelet make up their exit codes.
var unknownEnds = []string{"Unknown", "ContainerStatusUnknown"}

func endIsUnknown(ended *corev1.ContainerStateTerminated) bool {
	return ended != nil && slices.Contains(unknownEnds, ended.Reason)
}

// neverStarted reports whether a container whose end nobody saw has never run. The kubelet makes up an end for each container
// without one once it ends the pod, also if it still pulls the image. A container that has run has an ID, or an end before that.
// Source: TerminatePod of pkg/kubelet/status, and convertToAPIContainerStatuses of pkg/kubelet.
func neverStarted(status *corev1.ContainerStatus) bool {
	return status.ContainerID == "" && status.LastTerminationState.Terminated == nil
}

// startErrors are reasons for containers that the container runtime could not start. Their exit codes are made up, too.
var startErrors = []string{"StartError", "ContainerCannotRun"}

// notStarted says why the runtime could not start the broker's container, or an init container before it; "" if it could.
// Other containers that it could not start say nothing about a broker that has run.
func notStarted(pod *corev1.Pod) string {
	statuses := pod.Status.InitContainerStatuses
	if status := brokerStatus(pod); status != nil && status.State.Terminated != nil {
		statuses = []corev1.ContainerStatus{*status}
	}
	for i := range statuses {
		if ended := statuses[i].State.Terminated; ended != nil && slices.Contains(startErrors, ended.Reason) {
			return strings.TrimRight(ended.Reason+": "+strings.TrimSpace(ended.Message), ": ")
		}
	}
	return ""
}

// exitCode is the exit code of the broker's container, or of an init container that failed before
// it, which failedIn names. It is nil if it is not known, if the container was not started, or if the cluster
// or the node ended the pod, or somebody who deleted it: then it says nothing about the command. The cluster reports that by the
// condition DisruptionTarget (eviction, preemption, a lost node). A kubelet that evicts for a full volume sets no condition.
func exitCode(pod *corev1.Pod, deletedAt time.Time) (code *int, failedIn string) {
	if condition(pod, corev1.DisruptionTarget).Status == corev1.ConditionTrue || pod.Status.Reason == evicted || notStarted(pod) != "" {
		return nil, ""
	}
	ended, failedIn := failure(pod)
	switch {
	case ended == nil, endIsUnknown(ended), strings.HasPrefix(ended.Message, outside):
		return nil, ""
	case !deletedAt.IsZero() && (ended.FinishedAt.IsZero() || !deletedAt.After(ended.FinishedAt.Time)):
		return nil, ""
	}
	return ptr.To(int(ended.ExitCode)), failedIn
}

// failure is the end of the broker's container, or of an init container that failed before it, which failedIn names; nil if
// there is none.
func failure(pod *corev1.Pod) (ended *corev1.ContainerStateTerminated, failedIn string) {
	if status := brokerStatus(pod); status != nil && status.State.Terminated != nil {
		return status.State.Terminated, ""
	}
	for _, status := range pod.Status.InitContainerStatuses {
		if ended := status.State.Terminated; ended != nil && ended.ExitCode != 0 {
			return ended, "the lead's init container " + status.Name
		}
	}
	return nil, ""
}

// readEnd reads the termination message of the lead: whether the command began, whether it ended since it was asked to
// or failed after a checkpoint that failed, and the ranks that it had lost.
func (p *Pod) readEnd() {
	status := brokerStatus(p.Pod)
	if status == nil || status.State.Terminated == nil {
		return
	}
	message := strings.TrimSpace(status.State.Terminated.Message)
	if lost, tells := strings.CutPrefix(message, lostRanks); tells {
		p.Began, p.Lost = true, strings.TrimSpace(lost)
	}
	message, p.Checkpointed = strings.CutSuffix(message, withCheckpoint)
	p.Asked, p.Retried = message == asked, message == retried
	p.Began = p.Began || p.Asked || p.Retried || message == began || message == outside+whileItRan
}
