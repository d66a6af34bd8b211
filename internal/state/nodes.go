// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// lifecycleTaints is the prefix of taints for passing states of a node, such as not-ready.
const lifecycleTaints = "node.kubernetes.io/"

// goingTaints are the taints of a node that is about to go. A key that ends with "/" is a prefix.
var goingTaints = []string{
	"karpenter.sh/disrupted",                        // Karpenter, pkg/apis/v1/taints.go
	"karpenter.sh/disruption",                       // the same before Karpenter 1.0
	"ToBeDeletedByClusterAutoscaler",                // Cluster Autoscaler, utils/taints (its DeletionCandidate is only a candidate)
	"aws-node-termination-handler/",                 // AWS Node Termination Handler, docs: spot-itn, scheduled-maintenance, ...
	"cloud.google.com/impending-node-termination",   // GKE, documentation of Spot VMs and of graceful node shutdown
	"remediator.kubernetes.azure.com/unschedulable", // AKS, documentation of node auto-drain
	"node.cloudprovider.kubernetes.io/shutdown",     // Kubernetes' cloud controller manager, well-known taints
}

// comingTaints are the taints of a node that starts, as goingTaints.
var comingTaints = []string{
	"karpenter.sh/unregistered",                      // Karpenter, pkg/apis/v1/taints.go
	"karpenter.sh/rebooting",                         // the same
	"node.cloudprovider.kubernetes.io/uninitialized", // Kubernetes' cloud controller manager, well-known taints
	"node.cluster.x-k8s.io/uninitialized",            // Cluster API, documentation of bootstrap providers
}

// Down is why no pod can be placed on the node for now; "" if the node is up.
func Down(node *corev1.Node) string {
	switch going := Going(node); {
	case going != "":
		return going
	case node.Spec.Unschedulable:
		return "cordoned"
	case !Ready(node):
		return "not ready"
	}
	for _, taint := range node.Spec.Taints {
		switch {
		case taint.Effect == corev1.TaintEffectPreferNoSchedule:
		case isOneOf(taint.Key, comingTaints):
			return "starting"
		case strings.HasPrefix(taint.Key, lifecycleTaints):
			return strings.TrimPrefix(taint.Key, lifecycleTaints)
		}
	}
	return ""
}

// Going is why a node is about to go: it is being removed, or a taint says that it will be, or that its machine will be
// interrupted; "" if it stays.
func Going(node *corev1.Node) string {
	if node.DeletionTimestamp != nil {
		return "being removed"
	}
	for _, taint := range node.Spec.Taints {
		if taint.Effect != corev1.TaintEffectPreferNoSchedule && isOneOf(taint.Key, goingTaints) {
			return "to be removed"
		}
	}
	return ""
}

// Lasting reports whether a taint keeps pods off for good. Other taints are passing states of the
// node.
func Lasting(taint *corev1.Taint) bool {
	passing := strings.HasPrefix(taint.Key, lifecycleTaints) || isOneOf(taint.Key, goingTaints) || isOneOf(taint.Key, comingTaints)
	return taint.Effect != corev1.TaintEffectPreferNoSchedule && !passing
}

func isOneOf(key string, keys []string) bool {
	return slices.ContainsFunc(keys, func(known string) bool {
		return key == known || strings.HasSuffix(known, "/") && strings.HasPrefix(key, known)
	})
}
