// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MiniClusterQueueStatus says which MiniClusters of a queue wait, and what the others use.
type MiniClusterQueueStatus struct {
	// pending is the number of MiniClusters that wait.
	// +optional
	Pending int32 `json:"pending"`

	// admitted is the number of MiniClusters that have nodes.
	// +optional
	Admitted int32 `json:"admitted"`

	// used is what the pods of the admitted MiniClusters request together.
	// +optional
	Used corev1.ResourceList `json:"used,omitempty"`

	// share is the part of the cluster that the queue has, from "0" to "1". It is the part of
	// the resource of which the queue has most.
	// +optional
	Share string `json:"share,omitempty"`

	// deserved is the part of the cluster that the queue may have while other queues want
	// theirs, by weight. The scheduler reclaims nodes from a queue above this part for a queue
	// below its own part.
	// +optional
	Deserved string `json:"deserved,omitempty"`

	// waiting are the first 50 MiniClusters that wait, in the order in which they are served.
	// The condition Admitted of every waiting MiniCluster says why it waits.
	// +kubebuilder:validation:MaxItems=50
	// +listType=atomic
	// +optional
	Waiting []WaitingMiniCluster `json:"waiting,omitempty"`

	// users are the 200 users with the most usage, the most first. Only a queue with the ordering
	// FairShare, or with users in its spec, has them.
	// +kubebuilder:validation:MaxItems=200
	// +listType=atomic
	// +optional
	Users []QueueUser `json:"users,omitempty"`

	// usageTime is until when the usage of the users was reckoned. What they have had since then
	// is not part of it yet. It is at most about a minute old while a user has nodes.
	// +optional
	UsageTime *metav1.MicroTime `json:"usageTime,omitempty"`

	// accounting is what the attempts of the queue's MiniClusters used that have ended. Unset: nothing.
	// +optional
	Accounting *Accounting `json:"accounting,omitempty"`

	// scaleUp is what an autoscaler is asked for the queue. Unset: nothing.
	// +optional
	ScaleUp *QueueScaleUp `json:"scaleUp,omitempty"`

	// observedGeneration is the generation of the spec to which the status belongs.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// MostUsers is the largest number of users in status.users of a queue.
const MostUsers = 200

// QueueUser is a user of a queue.
type QueueUser struct {
	// name is the value of the label of spec.users, or a namespace.
	Name string `json:"name"`
	// usage is resourceSeconds as a part of what the cluster holds now, by the dominant resource. An
	// hour on the whole cluster is "3600.000".
	Usage string `json:"usage"`
	// resourceSeconds is what the user had until usageTime: amounts times seconds, by resource, such as
	// cores times seconds of cpu, and bytes times seconds of memory. It decays with
	// spec.users.halfLife. Unset: nothing.
	// +optional
	ResourceSeconds map[string]string `json:"resourceSeconds,omitempty"`
	// running is the number of the user's MiniClusters that have nodes.
	Running int32 `json:"running"`
	// nodes is the number of the user's brokers that have nodes.
	Nodes int32 `json:"nodes"`
	// pending is the number of the user's MiniClusters that wait.
	Pending int32 `json:"pending"`
}

// MostWaiting is the largest number of MiniClusters in status.waiting of a queue.
const MostWaiting = 50

// WaitingMiniCluster is a MiniCluster that waits, and the reason.
type WaitingMiniCluster struct {
	// namespace of the MiniCluster.
	Namespace string `json:"namespace"`
	// name of the MiniCluster.
	Name string `json:"name"`
	// position in the queue, from 1.
	Position int32 `json:"position"`
	// reason is the reason of the condition Admitted of the MiniCluster, such as NoRoom or QueueFull.
	Reason string `json:"reason"`
	// message explains the reason in a sentence.
	// +optional
	Message string `json:"message,omitempty"`
}
