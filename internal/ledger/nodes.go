// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"iter"

	corev1 "k8s.io/api/core/v1"
	schedulinghelper "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/flux-elastic/flux-elastic/internal/state"
)

// excluded are the nodes that a pod can never use, each with the reason: a taint that it does not
// tolerate, labels that it does not select, or a node for other pods.
func excluded(pod *corev1.Pod, nodes iter.Seq[*node]) iter.Seq2[string, string] {
	required := nodeaffinity.GetRequiredNodeAffinity(pod)
	picky := len(pod.Spec.NodeSelector) > 0 || pod.Spec.Affinity != nil
	return func(yield func(node, reason string) bool) {
		for node := range nodes {
			if reason := excludes(node, pod, required, picky); reason != "" && !yield(node.Name, reason) {
				return
			}
		}
	}
}

// excludes is why a pod can never use a node; "" if it can.
func excludes(node *node, pod *corev1.Pod, required nodeaffinity.RequiredNodeAffinity, picky bool) string {
	if node.others {
		return "not for MiniClusters"
	}
	if len(node.Spec.Taints) > 0 {
		taint, untolerated := schedulinghelper.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, pod.Spec.Tolerations, state.Lasting, false)
		if untolerated {
			return fmt.Sprintf("tainted %s", taint.Key)
		}
	}
	if picky && !selects(pod, required, node) {
		return "not selected by the pod's node labels"
	}
	if isForeignOS(node) {
		return "without Linux"
	}
	return ""
}

// selects reports whether the labels that a pod selects are on a node, or can be on a node that could come.
func selects(pod *corev1.Pod, required nodeaffinity.RequiredNodeAffinity, node *node) bool {
	if node.shape != nil {
		return node.shape.Admits(pod)
	}
	match, err := required.Match(node.Node)
	return err == nil && match
}

// unreached are the nodes that cannot reach all of some volumes, each with the reason for the first volume.
func unreached(volumes []state.Volume, nodes iter.Seq[*node]) iter.Seq2[string, string] {
	selectors := make([]*nodeaffinity.LazyErrorNodeSelector, len(volumes))
	for i := range volumes {
		selectors[i] = nodeaffinity.NewLazyErrorNodeSelector(volumes[i].Nodes)
	}
	return func(yield func(node, reason string) bool) {
		for node := range nodes {
			for i, selector := range selectors {
				if node.shape != nil && node.shape.Reaches(volumes[i].Nodes) {
					continue
				}
				if match, err := selector.Match(node.Node); err == nil && match {
					continue
				}
				if !yield(node.Name, volumes[i].Reason) {
					return
				}
				break
			}
		}
	}
}
