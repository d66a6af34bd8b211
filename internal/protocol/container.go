// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// Container is the one that runs the broker.
type Container struct {
	// Ran: it runs, or has ended. Since is since when it runs; zero if it does not.
	Ran   bool
	Since time.Time
	// Ready: it is ready, whatever runs beside it. ReadySince is since when; zero if it is
	// not, or that is not known.
	Ready      bool
	ReadySince time.Time
	// Idle: it runs, and was ready and is so no more.
	Idle bool
	// ExitCode is that of the container, or of an init container that failed before it, which
	// FailedInit names then. It is nil where it is not known, and where the cluster ended the
	// pod: then it says nothing about the command.
	ExitCode   *int
	FailedInit string
}

// readBroker reads the container that has the name of the MiniCluster.
func readBroker(pod *corev1.Pod) Container {
	var c Container
	c.ExitCode, c.FailedInit = exitCode(pod)
	status := brokerStatus(pod)
	if status == nil {
		return c
	}
	c.Ran, c.Ready = ran(*status), status.Ready
	if running := status.State.Running; running != nil {
		c.Since = running.StartedAt.Time
	}
	ready := condition(pod, corev1.PodReady)
	switch {
	case c.Ready && ready.Status == corev1.ConditionTrue:
		c.ReadySince = ready.LastTransitionTime.Time
	case !c.Ready && ready.Status == corev1.ConditionFalse:
		c.Idle = !c.Since.IsZero() && ready.LastTransitionTime.After(c.Since)
	}
	return c
}

// brokerStatus is the status of the container that runs the broker; nil if there is none
// yet.
func brokerStatus(pod *corev1.Pod) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if status := &pod.Status.ContainerStatuses[i]; status.Name == pod.Labels[v1alpha2.MiniClusterLabel] {
			return status
		}
	}
	return nil
}

func ran(status corev1.ContainerStatus) bool {
	return status.State.Running != nil || status.State.Terminated != nil
}

// unknownEnds are the reasons of containers that ended unseen, as where a node was rebooted:
// the container runtime's, and the kubelet's. Their exit codes are made up.
var unknownEnds = []string{"Unknown", "ContainerStatusUnknown"}

// exitCode is as in Container. The cluster ended a pod with Kubernetes' condition
// DisruptionTarget (eviction, preemption, a lost node); a kubelet that evicts for a full
// volume leaves no condition.
func exitCode(pod *corev1.Pod) (code *int, failedInit string) {
	if condition(pod, corev1.DisruptionTarget).Status == corev1.ConditionTrue || pod.Status.Reason == evicted {
		return nil, ""
	}
	if status := brokerStatus(pod); status != nil && status.State.Terminated != nil {
		if slices.Contains(unknownEnds, status.State.Terminated.Reason) {
			return nil, ""
		}
		return ptr.To(int(status.State.Terminated.ExitCode)), ""
	}
	for _, status := range pod.Status.InitContainerStatuses {
		if ended := status.State.Terminated; ended != nil && ended.ExitCode != 0 {
			return ptr.To(int(ended.ExitCode)), status.Name
		}
	}
	return nil, ""
}

func lost(lead *corev1.Pod) string {
	status := brokerStatus(lead)
	if status == nil || status.State.Terminated == nil {
		return ""
	}
	ranks, tells := strings.CutPrefix(status.State.Terminated.Message, lostRanks)
	if !tells {
		return ""
	}
	return strings.TrimSpace(ranks)
}

// Strip takes out of a pod what nobody here reads, before it is cached: a cluster has many
// pods. It is a cache transform.
func Strip(object any) (any, error) {
	pod, ok := object.(*corev1.Pod)
	if !ok {
		return object, nil
	}
	pod.ManagedFields = nil
	pod.Annotations = keep(pod.Annotations, v1alpha2.QuorumAnnotation, v1alpha2.DrainAnnotation, v1alpha2.StopAnnotation, placedAnnotation)
	pod.Spec.Volumes = nil
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range containers {
			c := &containers[i]
			*c = corev1.Container{Name: c.Name, Resources: c.Resources, RestartPolicy: c.RestartPolicy}
		}
	}
	return pod, nil
}

// keep returns the map with some of its keys alone.
func keep(values map[string]string, keys ...string) map[string]string {
	var kept map[string]string
	for _, key := range keys {
		if value, ok := values[key]; ok {
			if kept == nil {
				kept = map[string]string{}
			}
			kept[key] = value
		}
	}
	return kept
}
