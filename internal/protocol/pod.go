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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// Pod is a pod of a MiniCluster with what it shows. The pod itself is only read.
type Pod struct {
	*corev1.Pod
	// Rank is that in the Flux instance; below zero for a pod that is no broker's.
	Rank int
	// Services: it is the services pod.
	Services bool
	// Gated: it waits to be placed. Node is where it was placed, bound or not; "" if it was
	// not. Placed is when; zero if that is not known.
	Gated  bool
	Node   string
	Placed time.Time
	// Unbindable: it was placed, and kube-scheduler cannot bind it, or the kubelet did not
	// take it.
	Unbindable bool
	// Ended: its containers are done for good. EndedAt is when the last of them ended; zero
	// if none tells.
	Ended   bool
	EndedAt time.Time
	// Evicted is what the kubelet says of a pod that it evicted; "" for others.
	Evicted string
	// DeletedAt is when somebody deleted it, and GoneBy when its grace period is over.
	DeletedAt, GoneBy time.Time
	// Trouble is what keeps a container from starting; "" if nothing does.
	Trouble string
	// Broker is the container that runs the broker.
	Broker Container
	// Quorum, Drain (an idset) and Stop are what the lead's pod was told; 0 and "" if nothing
	// that can be read.
	Quorum      int
	Drain, Stop string
	// Lost are the ranks that the lead's broker had lost when its command failed, as an
	// idset; "" where it tells of none.
	Lost string
}

// Read reads a pod.
func Read(pod *corev1.Pod) Pod {
	p := Pod{
		Pod: pod, Rank: -1, Services: isServices(pod),
		Gated: IsGated(pod), Node: PinnedNode(pod), Placed: placedAt(pod),
		Ended: Ended(pod), EndedAt: endedAt(pod), Evicted: whyEvicted(pod),
		Trouble: trouble(pod), Broker: readBroker(pod),
		Quorum: quorum(pod), Drain: pod.Annotations[v1alpha2.DrainAnnotation], Stop: pod.Annotations[v1alpha2.StopAnnotation], Lost: lost(pod),
	}
	if rank, ok := Rank(pod); ok {
		p.Rank = rank
	}
	p.Unbindable = p.Node != "" && (p.unschedulable() || turnedAway(pod))
	if pod.DeletionTimestamp != nil {
		p.GoneBy = pod.DeletionTimestamp.Time // its grace period included
		p.DeletedAt = p.GoneBy
		if grace := pod.DeletionGracePeriodSeconds; grace != nil {
			p.DeletedAt = p.GoneBy.Add(-time.Duration(*grace) * time.Second)
		}
	}
	return p
}

// Moved reports whether a pod is in another state of its life than before.
func Moved(before, after *corev1.Pod) bool {
	a, b := Read(before), Read(after)
	return a.Status.Phase != b.Status.Phase || a.Gated != b.Gated || a.GoneBy.IsZero() != b.GoneBy.IsZero() ||
		a.Broker.Ready != b.Broker.Ready || a.Trouble != b.Trouble || a.unschedulable() != b.unschedulable()
}

// Rank is the rank of a pod in the Flux instance: 0 for the lead's, and for a
// follower's one more than its index in its Job. ok is false for a pod that is
// none of a MiniCluster's brokers.
func Rank(pod *corev1.Pod) (rank int, ok bool) {
	switch pod.Labels[jobsetapi.ReplicatedJobNameKey] {
	case v1alpha2.LeadJob:
		return 0, true
	case v1alpha2.WorkersJob:
		index, err := strconv.Atoi(pod.Labels[batchv1.JobCompletionIndexAnnotation])
		return index + 1, err == nil
	}
	return 0, false
}

func isServices(pod *corev1.Pod) bool {
	return pod.Labels[jobsetapi.ReplicatedJobNameKey] == v1alpha2.ServicesJob
}

// HasGate reports whether a pod has the gate that is taken off as it is placed.
func HasGate(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.SchedulingGates, func(gate corev1.PodSchedulingGate) bool { return gate.Name == v1alpha2.PlacementGate })
}

// IsGated reports whether a pod waits to be placed: behind the gate, or for a Binding
// that nobody else makes.
func IsGated(pod *corev1.Pod) bool {
	return HasGate(pod) || (pod.Spec.SchedulerName == v1alpha2.SchedulerName && pod.Spec.NodeName == "")
}

// PinnedNode is the node that a pod has been placed on, whether it is bound yet or
// not; "" if none.
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
		if field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpIn && len(field.Values) == 1 {
			return field.Values[0]
		}
	}
	return ""
}

// placedAt is when a pod was placed: where it was not written down with it, when it was
// bound; zero if that is not known.
func placedAt(pod *corev1.Pod) time.Time {
	if at, err := time.Parse(time.RFC3339, pod.Annotations[placedAnnotation]); err == nil {
		return at
	}
	if scheduled := condition(pod, corev1.PodScheduled); scheduled.Status == corev1.ConditionTrue {
		return scheduled.LastTransitionTime.Time
	}
	return time.Time{}
}

// condition is a condition of a pod; empty if the pod has none of the kind.
func condition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == kind {
			return condition
		}
	}
	return corev1.PodCondition{}
}

// unschedulable reports whether kube-scheduler finds no node for a pod that waits for
// nothing else.
func (p *Pod) unschedulable() bool {
	if p.Spec.NodeName != "" || p.DeletionTimestamp != nil || p.Ended || p.Gated {
		return false
	}
	scheduled := condition(p.Pod, corev1.PodScheduled)
	return scheduled.Status == corev1.ConditionFalse && scheduled.Reason == corev1.PodReasonUnschedulable
}

// turnedAway reports whether the kubelet of its node did not take a pod, so that nothing
// of it ever ran.
func turnedAway(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodFailed || slices.ContainsFunc(pod.Status.InitContainerStatuses, ran) || slices.ContainsFunc(pod.Status.ContainerStatuses, ran) {
		return false
	}
	return strings.HasPrefix(pod.Status.Reason, "OutOf") || slices.Contains(refusals, pod.Status.Reason)
}

// refusals are kubelets' reasons not to take a pod, beside "OutOfcpu" and its like.
var refusals = []string{"NodeAffinity", "NodeName", "NodePorts", "TaintToleration", "TopologyAffinityError", "UnexpectedAdmissionError"}

// Ended reports whether the pod's containers are done for good.
func Ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// endedAt is when the last container of a pod ended; zero if none tells.
func endedAt(pod *corev1.Pod) time.Time {
	var last time.Time
	for _, status := range pod.Status.ContainerStatuses {
		if ended := status.State.Terminated; ended != nil && ended.FinishedAt.After(last) {
			last = ended.FinishedAt.Time
		}
	}
	return last
}

// evicted is a kubelet's reason for a pod that took more than it may.
const evicted = "Evicted"

func whyEvicted(pod *corev1.Pod) string {
	if pod.Status.Reason != evicted {
		return ""
	}
	return strings.TrimRight(strings.TrimSpace(pod.Status.Message), ".")
}

// troubles are kubelets' reasons why a container waits that may not pass by themselves.
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

// quorum is what the lead's pod was told; 0 if nothing that can be read.
func quorum(pod *corev1.Pod) int {
	quorum, err := strconv.Atoi(pod.Annotations[v1alpha2.QuorumAnnotation])
	if err != nil {
		return 0
	}
	return quorum
}
