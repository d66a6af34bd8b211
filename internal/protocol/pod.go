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
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// Pod is a pod of a MiniCluster with what it shows. The embedded pod must not be changed.
type Pod struct {
	*corev1.Pod
	// Broker is what the pod shows of its broker, without what its node and its admission add.
	Broker life.Broker
	// Rank is the rank in the Flux instance; negative if the pod is no broker.
	Rank int
	// Services is true for the services pod.
	Services bool
	// Gated is true if the pod waits to be placed. Node is where it was placed, bound or not; ""
	// if it was not placed.
	Gated bool
	Node  string
	// Ended is true if its containers have ended for good.
	Ended bool
	// Quorum, Drain (an idset) and Stop are what the lead's pod was told; 0 and "" if nothing
	// readable. Restarts is the number of restarts of the command that it was told, and Ranks (an
	// idset) with which brokers the last one runs.
	Quorum      int
	Drain, Stop string
	Restarts    int
	Ranks       string
	// DownSince is since when the pod has not been ready; zero if it is ready, or this is not known.
	DownSince time.Time
	// Shared is true if the readiness of the pod shows that of other containers, too: they are not ready, or were started
	// again. The pod's times then say little about its broker.
	Shared bool
	// Began is true if the lead's termination message says that the command began, and Asked if the
	// command ended since it was asked to. Checkpointed is true if it had written a checkpoint then.
	Began, Asked, Checkpointed bool
	// Retried is true if the command failed, and its run before had failed while it wrote a checkpoint.
	Retried bool
	// Lost are the ranks that the lead's broker had lost when its command failed, an idset; "" if
	// the termination message names none.
	Lost string
}

// Read reads a pod.
func Read(pod *corev1.Pod) Pod {
	p := Pod{
		Pod: pod, Rank: -1, Services: pod.Labels[jobsetapi.ReplicatedJobNameKey] == v1alpha2.ServicesJob,
		Gated: IsGated(pod), Node: PinnedNode(pod), Ended: Ended(pod),
		Drain: pod.Annotations[v1alpha2.DrainAnnotation], Stop: pod.Annotations[v1alpha2.StopAnnotation],
	}
	p.Quorum, _ = strconv.Atoi(pod.Annotations[v1alpha2.QuorumAnnotation])
	number, ranks, _ := strings.Cut(pod.Annotations[v1alpha2.RestartAnnotation], " ")
	if n, err := strconv.Atoi(number); err == nil {
		p.Restarts, p.Ranks = n, ranks
	}
	if rank, ok := Rank(pod); ok {
		p.Rank = rank
	}
	if ready := condition(pod, corev1.PodReady); ready.Status == corev1.ConditionFalse {
		p.DownSince = ready.LastTransitionTime.Time
	}
	p.readEnd()
	p.readBroker()
	p.Shared = p.sharesReadiness()
	return p
}

// Moved reports whether a pod is in another state of its life than before.
func Moved(before, after *corev1.Pod) bool {
	return before.Status.Phase != after.Status.Phase || IsGated(before) != IsGated(after) ||
		(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil) || ready(before) != ready(after) || brokerRan(before) != brokerRan(after) ||
		podReady(before) != podReady(after) || trouble(before) != trouble(after) || unschedulable(before) != unschedulable(after) ||
		!slices.Equal(before.Status.PodIPs, after.Status.PodIPs)
}

// brokerRan is how far the container of a pod's broker is: whether it has started up, and whether it has ended.
func brokerRan(pod *corev1.Pod) (ran struct{ started, ended bool }) {
	if status := brokerStatus(pod); status != nil {
		ran.started, ran.ended = ptr.Deref(status.Started, false), status.State.Terminated != nil
	}
	return ran
}

// Rank is the rank of a pod in the Flux instance: 0 for the lead's pod, and the index in its Job
// plus one for a follower's. ok is false for a pod that is no broker.
func Rank(pod *corev1.Pod) (rank int, ok bool) {
	switch pod.Labels[jobsetapi.ReplicatedJobNameKey] {
	case v1alpha2.LeadJob:
		return 0, true
	case v1alpha2.WorkersJob:
		index, err := strconv.ParseInt(pod.Labels[batchv1.JobCompletionIndexAnnotation], 10, 32)
		return int(index) + 1, err == nil && index >= 0
	}
	return 0, false
}

// HasGate reports whether a pod has the gate that placing removes.
func HasGate(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.SchedulingGates, func(gate corev1.PodSchedulingGate) bool { return gate.Name == v1alpha2.PlacementGate })
}

// IsGated reports whether a pod waits to be placed: behind the gate, or for a Binding that only
// this controller makes.
func IsGated(pod *corev1.Pod) bool {
	return HasGate(pod) || (pod.Spec.SchedulerName == v1alpha2.SchedulerName && pod.Spec.NodeName == "")
}

// PinnedNode is the node on which a pod was placed, bound or not; "" if it was not placed.
func PinnedNode(pod *corev1.Pod) string {
	if pod.Spec.NodeName != "" {
		return pod.Spec.NodeName
	}
	if IsGated(pod) || pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return ""
	}
	required := pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil || len(required.NodeSelectorTerms) == 0 {
		return ""
	}
	for _, field := range required.NodeSelectorTerms[0].MatchFields {
		if isPin(field) {
			return field.Values[0]
		}
	}
	return ""
}

// condition is a condition of a pod; empty if the pod has none of that type.
func condition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == kind {
			return condition
		}
	}
	return corev1.PodCondition{}
}

// Ended reports whether the pod's containers have ended for good.
func Ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
