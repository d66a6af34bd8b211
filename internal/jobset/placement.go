// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package jobset

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

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

// PlacedAnnotation is on a pod that was placed: when (RFC 3339). Kubernetes' condition
// PodScheduled does not tell, since it is the same before.
const PlacedAnnotation = v1alpha2.Group + "/placed"

// PlacedAt is when a pod was placed; zero if that cannot be read.
func PlacedAt(pod *corev1.Pod) time.Time {
	at, err := time.Parse(time.RFC3339, pod.Annotations[PlacedAnnotation])
	if err != nil {
		return time.Time{}
	}
	return at
}

// PlacePatch is the strategic merge patch that pins a gated pod to a node and lets
// it go, in one write. The lead's pod is told its quorum with it; for others quorum
// is 0. A pod that was replaced by another of its name is not touched.
func PlacePatch(pod *corev1.Pod, node string, rank, quorum int, now time.Time) ([]byte, error) {
	annotations := map[string]string{PlacedAnnotation: now.UTC().Format(time.RFC3339)}
	if quorum > 0 {
		annotations[v1alpha2.QuorumAnnotation] = strconv.Itoa(quorum)
	}
	metadata := map[string]any{
		"uid":         pod.UID,
		"labels":      map[string]string{v1alpha2.RankLabel: strconv.Itoa(rank)},
		"annotations": annotations,
		// Nobody applies pods of Jobs. Without a record of who set which field, what the
		// API server has to do for each of their changes is a tenth less.
		"managedFields": []any{map[string]any{}},
	}
	return json.Marshal(map[string]any{
		"metadata": metadata,
		"spec": map[string]any{
			"schedulingGates": noGate,
			"affinity": map[string]any{"nodeAffinity": map[string]any{
				"requiredDuringSchedulingIgnoredDuringExecution": map[string]any{"nodeSelectorTerms": pinned(pod, node)},
			}},
		},
	})
}

// noGate takes the gate off, in a strategic merge patch.
var noGate = []map[string]string{{"name": v1alpha2.PlacementGate, "$patch": "delete"}}

// pinned are the terms of a pod's required node affinity, each narrowed to the
// node. The API server lets a gated pod's terms only be narrowed.
func pinned(pod *corev1.Pod, node string) []corev1.NodeSelectorTerm {
	terms := []corev1.NodeSelectorTerm{{}}
	if a := pod.Spec.Affinity; a != nil && a.NodeAffinity != nil && a.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil {
		terms = a.DeepCopy().NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	}
	for i := range terms {
		terms[i].MatchFields = append(terms[i].MatchFields, corev1.NodeSelectorRequirement{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
		})
	}
	return terms
}

// PublishPatch is the merge patch that tells the lead's pod its quorum, and the ranks
// that leave as an idset; "" takes what was said about them away.
func PublishPatch(pod *corev1.Pod, quorum int, drain string) ([]byte, error) {
	annotations := map[string]any{v1alpha2.QuorumAnnotation: strconv.Itoa(quorum), v1alpha2.DrainAnnotation: nil}
	if drain != "" {
		annotations[v1alpha2.DrainAnnotation] = drain
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "annotations": annotations}})
}

// StopPatch is the merge patch that tells the lead's pod to end the command, and why.
func StopPatch(pod *corev1.Pod, reason string) ([]byte, error) {
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "annotations": map[string]string{v1alpha2.StopAnnotation: reason},
	}})
}

// Drain are the ranks that the lead's pod was told leave, as an idset.
func Drain(pod *corev1.Pod) string { return pod.Annotations[v1alpha2.DrainAnnotation] }

// Stop says why the lead's pod was told to end the command; "" if it was not.
func Stop(pod *corev1.Pod) string { return pod.Annotations[v1alpha2.StopAnnotation] }

// lostRanks is what the termination message of the broker's container begins with where the
// lead's command failed and brokers had been lost (internal/broker/scripts/lead.sh).
const lostRanks = "lost ranks "

// LostMessage is the termination message of a lead that has lost ranks, an idset; "" where
// it has lost none.
func LostMessage(ranks string) string {
	if ranks == "" {
		return ""
	}
	return lostRanks + ranks
}

// Lost are the ranks that the lead's broker had lost when its command failed, as an idset; ""
// where it tells of none.
func Lost(lead *corev1.Pod) string {
	status := FluxStatus(lead)
	if status == nil || status.State.Terminated == nil {
		return ""
	}
	ranks, tells := strings.CutPrefix(status.State.Terminated.Message, lostRanks)
	if !tells {
		return ""
	}
	return strings.TrimSpace(ranks)
}

// FluxStatus is the status of the container that runs the broker, which has the name of the
// MiniCluster; nil if there is none yet.
func FluxStatus(pod *corev1.Pod) *corev1.ContainerStatus {
	for i := range pod.Status.ContainerStatuses {
		if status := &pod.Status.ContainerStatuses[i]; status.Name == pod.Labels[v1alpha2.MiniClusterLabel] {
			return status
		}
	}
	return nil
}

// Quorum is what the lead's pod was told; 0 if nothing that can be read.
func Quorum(pod *corev1.Pod) int {
	quorum, err := strconv.Atoi(pod.Annotations[v1alpha2.QuorumAnnotation])
	if err != nil {
		return 0
	}
	return quorum
}

// Attempt is the attempt that an object was made for; 0 if it says none.
func Attempt(object metav1.Object) int32 {
	attempt, err := strconv.ParseInt(object.GetAnnotations()[v1alpha2.AttemptAnnotation], 10, 32)
	if err != nil {
		return 0
	}
	return int32(attempt)
}

// Generation is that of the spec that a JobSet was made for; 0 if it says none.
func Generation(set metav1.Object) int64 {
	generation, err := strconv.ParseInt(set.GetAnnotations()[v1alpha2.GenerationAnnotation], 10, 64)
	if err != nil {
		return 0
	}
	return generation
}
