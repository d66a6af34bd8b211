// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// lifecycleTaints is the prefix of taints for passing states of a node, such as not-ready.
const lifecycleTaints = "node.kubernetes.io/"

// Down is why no pod can be placed on the node for now; "" if the node is up.
func Down(node *corev1.Node) string {
	switch {
	case node.DeletionTimestamp != nil:
		return "being removed"
	case node.Spec.Unschedulable:
		return "cordoned"
	case !Ready(node):
		return "not ready"
	}
	for _, taint := range node.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && strings.HasPrefix(taint.Key, lifecycleTaints) {
			return strings.TrimPrefix(taint.Key, lifecycleTaints)
		}
	}
	return ""
}

// Lasting reports whether a taint keeps pods off for good. Other taints are passing states of the
// node.
func Lasting(taint *corev1.Taint) bool {
	return taint.Effect != corev1.TaintEffectPreferNoSchedule && !strings.HasPrefix(taint.Key, lifecycleTaints)
}
