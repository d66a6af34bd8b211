// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

// placedAnnotation says when a pod was placed (RFC 3339). The transition time of Kubernetes'
// condition PodScheduled does not, because a gated pod has the same status.
const placedAnnotation = v1alpha2.Group + "/placed"

// The termination message of a lead (internal/broker/scripts/lead.sh) says that it began the
// command, which ranks a command that failed had lost, or that a command failed that was run again
// since it had failed while it wrote a checkpoint. A lead that gets a signal (internal/broker/scripts/wait-0.sh) says that
// its container was ended.
const (
	began     = "the command began"
	lostRanks = "lost ranks "
	asked     = "the command ended as it was asked to"
	retried   = "the command failed after its checkpoint"

	outside = "the container was ended"

	withCheckpoint = ", after a checkpoint"
	whileItRan     = " while the command ran"
)

// doesNotResolve follows a name in the termination message of an init container (internal/broker/scripts/flux-init.sh).
const doesNotResolve = " does not resolve"

// EndMessage is the termination message of a lead whose command lost ranks, an idset; "" if it
// lost none.
func EndMessage(ranks string) string {
	if ranks == "" {
		return began
	}
	return lostRanks + ranks
}

// AskedMessage is the termination message of a lead whose command ended since it was asked to, with a checkpoint or
// without one.
func AskedMessage(checkpointed bool) string {
	if checkpointed {
		return asked + withCheckpoint
	}
	return asked
}

// Orders are what the lead has to know of its brokers. Pods of followers get none.
type Orders struct {
	// Quorum is the number of brokers that the command waits for; 0 if the lead is told nothing.
	Quorum int
	// Drain are the ranks that leave.
	Drain []int
	// Again is the last restart of the command.
	Again life.Again
}

// annotations are those of the lead's pod, without the drained ranks.
func (o Orders) annotations() map[string]string {
	if o.Quorum == 0 {
		return nil
	}
	out := map[string]string{v1alpha2.QuorumAnnotation: strconv.Itoa(o.Quorum)}
	if o.Again.Number > 0 {
		out[v1alpha2.RestartAnnotation] = fmt.Sprintf("%d %s", o.Again.Number, idset.Encode(o.Again.Ranks))
	}
	return out
}

// PlacePatch is the strategic merge patch that pins a gated pod to a node and removes its gate,
// in one write, with orders for the lead. The UID protects a pod that replaced it under the same name.
func PlacePatch(pod *corev1.Pod, node string, rank int, orders Orders, now time.Time) ([]byte, error) {
	annotations := map[string]string{placedAnnotation: now.UTC().Format(time.RFC3339)}
	maps.Copy(annotations, orders.annotations())
	metadata := map[string]any{
		"uid":         pod.UID,
		"labels":      brokerLabels(pod, rank),
		"annotations": annotations,
		// Nobody uses server-side apply on pods of Jobs. Without managed fields the API server
		// does a tenth less work for each change.
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

// QuotaPatch is the strategic merge patch that gives a pod what it needs on the nodes of a quota: the
// tolerations, and the annotation of a pod that a topology assignment counts. It is nil if the pod has
// all. The UID protects a pod that replaced it under the same name.
func QuotaPatch(pod *corev1.Pod, quota *v1alpha2.Quota) ([]byte, error) {
	all := slices.Clone(pod.Spec.Tolerations)
	for _, t := range quota.Tolerations {
		if !slices.ContainsFunc(all, func(has corev1.Toleration) bool { return equality.Semantic.DeepEqual(has, t) }) {
			all = append(all, t)
		}
	}
	metadata, patch := map[string]any{"uid": pod.UID}, map[string]any{}
	if len(all) > len(pod.Spec.Tolerations) {
		patch["spec"] = map[string]any{"tolerations": all}
	}
	if _, has := pod.Annotations[v1alpha2.KueueTopologyAnnotation]; quota.Topology != nil && !has {
		metadata["annotations"] = map[string]string{v1alpha2.KueueTopologyAnnotation: "true"}
	}
	if len(metadata) == 1 && len(patch) == 0 {
		return nil, nil
	}
	patch["metadata"] = metadata
	return json.Marshal(patch)
}

// noGate removes the gate, in a strategic merge patch.
var noGate = []map[string]string{{"name": v1alpha2.PlacementGate, "$patch": "delete"}}

// pinned are the terms of a pod's required node affinity, each narrowed to the node. The API
// server only allows to narrow the terms of a gated pod.
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

// Unpinned is the pod as it was before it was pinned to its node.
func Unpinned(pod *corev1.Pod) *corev1.Pod {
	out := *pod
	if node := PinnedNode(pod); node == "" || pod.Spec.Affinity == nil || pod.Spec.Affinity.NodeAffinity == nil {
		return &out
	}
	out.Spec.Affinity = pod.Spec.Affinity.DeepCopy()
	affinity := out.Spec.Affinity.NodeAffinity
	required := affinity.RequiredDuringSchedulingIgnoredDuringExecution
	if required == nil {
		return &out
	}
	for i := range required.NodeSelectorTerms {
		term := &required.NodeSelectorTerms[i]
		if n := len(term.MatchFields); n > 0 && isPin(term.MatchFields[n-1]) {
			term.MatchFields = term.MatchFields[:n-1]
		}
		if len(term.MatchFields) == 0 && len(term.MatchExpressions) == 0 { // it was made for the pin
			affinity.RequiredDuringSchedulingIgnoredDuringExecution = nil
			return &out
		}
	}
	return &out
}

// isPin reports whether a requirement names one node.
func isPin(field corev1.NodeSelectorRequirement) bool {
	return field.Key == metav1.ObjectNameField && field.Operator == corev1.NodeSelectorOpIn && len(field.Values) == 1
}

// Binding binds a pod without gate to a node. It contains the rank, and orders for the lead: the API
// server copies annotations, and from Kubernetes 1.35 labels too. It refuses a Binding whose UID
// is not the pod's.
func Binding(pod *corev1.Pod, node string, rank int, orders Orders) *corev1.Binding {
	return &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID,
			Labels: brokerLabels(pod, rank), Annotations: orders.annotations(),
		},
		Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}
}

// brokerLabels are the labels of a placed pod. A pod that is not placed has none of them: an HPA
// would count the pods that it selects, and a pod that uses nothing as idle.
func brokerLabels(pod *corev1.Pod, rank int) map[string]string {
	return map[string]string{v1alpha2.RankLabel: strconv.Itoa(rank), v1alpha2.SelectorLabel: pod.Labels[v1alpha2.MiniClusterLabel]}
}

// UngatePatch is the strategic merge patch that removes the gate of a pod and leaves its node, one of
// those of a quota, to kube-scheduler. A nil quota allows all nodes. The UID protects a pod that
// replaced it under the same name.
func UngatePatch(pod *corev1.Pod, quota *v1alpha2.Quota) ([]byte, error) {
	spec := map[string]any{"schedulingGates": noGate}
	if quota != nil && len(quota.NodeSelector) > 0 {
		spec["nodeSelector"] = quota.NodeSelector
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "spec": spec})
}

// PublishPatch is the merge patch that gives the lead's pod its orders. Ranks that are not drained any more are removed.
func PublishPatch(pod *corev1.Pod, orders Orders) ([]byte, error) {
	annotations := map[string]any{v1alpha2.DrainAnnotation: nil}
	for name, value := range orders.annotations() {
		annotations[name] = value
	}
	if len(orders.Drain) > 0 {
		annotations[v1alpha2.DrainAnnotation] = idset.Encode(orders.Drain)
	}
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "annotations": annotations}})
}

// EndPatch is the merge patch that ends a pod that runs. Its object stays, and so do the logs of its containers.
func EndPatch(pod *corev1.Pod) ([]byte, error) {
	return json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID}, "spec": map[string]any{"activeDeadlineSeconds": 1}})
}

// StopPatch is the merge patch that tells the lead's pod to end the command, why, and how long the command has for that.
func StopPatch(pod *corev1.Pod, reason string, grace time.Duration) ([]byte, error) {
	value := fmt.Sprintf("%s %d", reason, int(max(grace, 0).Seconds()))
	return json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "annotations": map[string]string{v1alpha2.StopAnnotation: value},
	}})
}
