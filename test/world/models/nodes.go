// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// nodeReady is the condition Ready of a node; without a status if the node does not have it.
func nodeReady(node *corev1.Node) corev1.NodeCondition {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition
		}
	}
	return corev1.NodeCondition{}
}

// writeNodeReady writes the condition Ready of a node.
func writeNodeReady(ctx context.Context, c *Cluster, node *corev1.Node, status corev1.ConditionStatus, reason, message string) {
	node = node.DeepCopy()
	now := metav1.NewTime(time.Now().Truncate(time.Second))
	ready := corev1.NodeCondition{
		Type: corev1.NodeReady, Status: status, Reason: reason, Message: message, LastHeartbeatTime: now, LastTransitionTime: now,
	}
	for i := range node.Status.Conditions {
		if has := &node.Status.Conditions[i]; has.Type == corev1.NodeReady {
			*has = ready
			_ = c.Client.Status().Update(ctx, node) // it is written again as long as the node has another condition
			return
		}
	}
	node.Status.Conditions = append(node.Status.Conditions, ready)
	_ = c.Client.Status().Update(ctx, node)
}
