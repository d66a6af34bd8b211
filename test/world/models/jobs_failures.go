// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// jobBackoff counts the failures of a Job since a pod of it succeeded (pkg/controller/job/backoff_utils.go).
type jobBackoff struct {
	failures int
	last     time.Time
}

// after is the count after more pods have ended.
func (b jobBackoff) after(succeeded, failed []*corev1.Pod) jobBackoff {
	var lastSuccess time.Time
	for _, pod := range succeeded {
		if end := endOf(pod); end.After(lastSuccess) {
			lastSuccess = end
		}
	}
	if len(succeeded) > 0 {
		b = jobBackoff{}
	}
	for _, pod := range failed {
		end := endOf(pod)
		if len(succeeded) > 0 && !end.After(lastSuccess) {
			continue
		}
		b.failures++
		if end.After(b.last) {
			b.last = end
		}
	}
	return b
}

// remaining is how long no pod is made.
func (b jobBackoff) remaining() time.Duration { return pauseAfter(b.failures, b.last) }

// pauseAfter is what is left of the pause after a number of failures.
func pauseAfter(failures int, last time.Time) time.Duration {
	if failures == 0 {
		return 0
	}
	pause := podFailureMost
	if failures < 8 {
		pause = min(podFailureLeast<<(failures-1), podFailureMost)
	}
	return max(0, pause-time.Since(last))
}

// endOf is when a pod ended, as the Job controller sees it: by its containers, by its readiness, or by its deletion.
func endOf(pod *corev1.Pod) time.Time {
	if end := lastEnd(pod); !end.IsZero() {
		return end
	}
	if ready := podCondition(pod, corev1.PodReady); ready.Status == corev1.ConditionFalse && !ready.LastTransitionTime.IsZero() {
		return ready.LastTransitionTime.Time
	}
	if pod.DeletionTimestamp != nil {
		return pod.DeletionTimestamp.Add(-time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second)
	}
	return pod.CreationTimestamp.Time
}

// lastEnd is when the last container ended, sidecars included; zero if one has not.
func lastEnd(pod *corev1.Pod) time.Time {
	var last time.Time
	statuses := slices.Clone(pod.Status.ContainerStatuses)
	for i, container := range pod.Spec.InitContainers {
		if isSidecar(&container) && i < len(pod.Status.InitContainerStatuses) {
			statuses = append(statuses, pod.Status.InitContainerStatuses[i])
		}
	}
	for _, status := range statuses {
		ended := status.State.Terminated
		if ended == nil || ended.FinishedAt.IsZero() {
			return time.Time{}
		}
		if ended.FinishedAt.After(last) {
			last = ended.FinishedAt.Time
		}
	}
	return last
}

func isSidecar(container *corev1.Container) bool {
	return ptr.Deref(container.RestartPolicy, "") == corev1.ContainerRestartPolicyAlways
}

// failureMatch is what the failure policy of a Job says of a failed pod.
type failureMatch struct {
	action  batchv1.PodFailurePolicyAction
	counts  bool   // against the limits of the Job
	message string // why the Job fails; "" if it does not
}

// matchFailurePolicy finds the first rule that a failed pod matches (pkg/controller/job/pod_failure_policy.go).
func matchFailurePolicy(job *batchv1.Job, pod *corev1.Pod) failureMatch {
	if job.Spec.PodFailurePolicy == nil {
		return failureMatch{counts: true}
	}
	for i, rule := range job.Spec.PodFailurePolicy.Rules {
		why := ""
		switch {
		case rule.OnExitCodes != nil:
			if status := matchExitCode(pod, rule.OnExitCodes); status != nil {
				why = fmt.Sprintf("Container %s for pod %s/%s failed with exit code %d matching %s rule at index %d",
					status.Name, pod.Namespace, pod.Name, status.State.Terminated.ExitCode, rule.Action, i)
			}
		case rule.OnPodConditions != nil:
			for _, pattern := range rule.OnPodConditions {
				if podCondition(pod, pattern.Type).Status == pattern.Status && why == "" {
					why = fmt.Sprintf("Pod %s/%s has condition %s matching %s rule at index %d", pod.Namespace, pod.Name, pattern.Type, rule.Action, i)
				}
			}
		}
		if why == "" {
			continue
		}
		match := failureMatch{action: rule.Action, counts: rule.Action != batchv1.PodFailurePolicyActionIgnore}
		if rule.Action == batchv1.PodFailurePolicyActionFailJob {
			match.message = why
		}
		return match
	}
	return failureMatch{counts: true}
}

// matchExitCode is the first container that ended with an exit code of a rule; nil if none did.
func matchExitCode(pod *corev1.Pod, rule *batchv1.PodFailurePolicyOnExitCodesRequirement) *corev1.ContainerStatus {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range statuses {
			ended := statuses[i].State.Terminated
			if ended == nil || ended.ExitCode == 0 || (rule.ContainerName != nil && *rule.ContainerName != statuses[i].Name) {
				continue
			}
			if slices.Contains(rule.Values, ended.ExitCode) == (rule.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn) {
				return &statuses[i]
			}
		}
	}
	return nil
}
