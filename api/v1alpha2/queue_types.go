// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MiniClusterQueue is a queue in which MiniClusters wait for nodes, and the share of
// the cluster that those in it have together. The queue "default" exists without
// being made; making it changes its settings. A MiniCluster in any other that does
// not exist waits until it is made.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=mcq,path=miniclusterqueues
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Pending",type=integer,JSONPath=`.status.pending`,description="MiniClusters that wait"
// +kubebuilder:printcolumn:name="Admitted",type=integer,JSONPath=`.status.admitted`,description="MiniClusters that have nodes"
// +kubebuilder:printcolumn:name="Share",type=string,JSONPath=`.status.share`,description="Part of the cluster that it has, by the resource of which it has most"
// +kubebuilder:printcolumn:name="Deserved",type=string,JSONPath=`.status.deserved`,description="Part of the cluster that it may have while others want theirs"
// +kubebuilder:printcolumn:name="Weight",type=integer,JSONPath=`.spec.weight`
// +kubebuilder:printcolumn:name="Suspended",type=boolean,JSONPath=`.spec.suspended`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MiniClusterQueue struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says how the queue is served.
	// +optional
	Spec MiniClusterQueueSpec `json:"spec,omitzero"`

	// status is what waits and what runs.
	// +optional
	Status MiniClusterQueueStatus `json:"status,omitzero"`
}

// MiniClusterQueueList is a list of MiniClusterQueues.
//
// +kubebuilder:object:root=true
type MiniClusterQueueList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MiniClusterQueue `json:"items"`
}

// QueueOrdering is the order in which a queue is served.
// +kubebuilder:validation:Enum=Priority;FIFO
type QueueOrdering string

const (
	// OrderPriority serves the higher priority first, and then the older.
	OrderPriority QueueOrdering = "Priority"
	// OrderFIFO serves the older first.
	OrderFIFO QueueOrdering = "FIFO"
)

// Backfill says who may pass a MiniCluster that does not fit now.
// +kubebuilder:validation:Enum=None;EASY;Conservative
type Backfill string

const (
	// BackfillNone lets nobody of the queue pass (strict order).
	BackfillNone Backfill = "None"
	// BackfillEASY lets one pass that does not delay the first.
	BackfillEASY Backfill = "EASY"
	// BackfillConservative lets one pass that does not delay any before it.
	BackfillConservative Backfill = "Conservative"
)

// RequeuePlace is the place of a MiniCluster that is queued again.
// +kubebuilder:validation:Enum=Original;Last
type RequeuePlace string

const (
	// RequeueOriginal is the one by its creation.
	RequeueOriginal RequeuePlace = "Original"
	// RequeueLast is the one by the time at which it is queued again.
	RequeueLast RequeuePlace = "Last"
)

// MiniClusterQueueSpec says how a queue is served.
//
// +kubebuilder:validation:XValidation:rule="!has(self.capacity) || !has(self.guarantee) || self.guarantee.all(r, !(r in self.capacity) || quantity(string(self.guarantee[r])).compareTo(quantity(string(self.capacity[r]))) <= 0)",message="guarantee must not be more than capacity: the queue could never have what is kept free for it"
type MiniClusterQueueSpec struct {
	// weight is the queue's share of the cluster, beside those of the other queues in
	// which something waits or runs: with weight 2 it deserves twice what one with
	// weight 1 does. Default 1.
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	Weight int32 `json:"weight,omitempty"`

	// priority: queues of a higher priority are served first. It does not compare
	// MiniClusters of different queues: they preempt within their queue alone.
	// Default 0.
	// +kubebuilder:validation:Minimum=-1000000000
	// +kubebuilder:validation:Maximum=1000000000
	// +optional
	Priority int32 `json:"priority,omitempty"`

	// capacity is a hard limit, by resource, for what the pods of the queue's
	// MiniClusters request together; "pods" is a resource too, and counts them. A
	// MiniCluster whose minSize is above it is not allowed; one that is above what is
	// left of it waits, or starts smaller. Default: no limit.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(r, !string(self[r]).startsWith('-'))",message="capacity must not be negative; leave out a resource that has no limit"
	// +kubebuilder:validation:XValidation:rule="self.all(r, r in ['cpu', 'memory', 'ephemeral-storage', 'pods'] || r.startsWith('hugepages-') || r.contains('/'))",message="capacity is by resource of nodes: cpu, memory, ephemeral-storage, pods, hugepages-*, or one with a domain, such as nvidia.com/gpu"
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// guarantee is what is kept free for the queue, by resource, while it has less:
	// MiniClusters of other queues do not get it. Default: nothing.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MaxProperties=6
	// +kubebuilder:validation:XValidation:rule="self.all(r, !string(self[r]).startsWith('-'))",message="guarantee must not be negative"
	// +kubebuilder:validation:XValidation:rule="self.all(r, r in ['cpu', 'memory', 'ephemeral-storage', 'pods'] || r.startsWith('hugepages-') || r.contains('/'))",message="guarantee is by resource of nodes: cpu, memory, ephemeral-storage, pods, hugepages-*, or one with a domain, such as nvidia.com/gpu"
	// +optional
	Guarantee corev1.ResourceList `json:"guarantee,omitempty"`

	// reclaimable: false keeps what the queue's MiniClusters have, though it is above
	// its share and others, below theirs, want it back. Default true.
	// +kubebuilder:default=true
	// +optional
	Reclaimable *bool `json:"reclaimable,omitempty"`

	// ordering is Priority (by the PriorityClass of the pods, then age) or FIFO (by age
	// alone). Age counts from the MiniCluster's creation. Default Priority.
	// +kubebuilder:default=Priority
	// +optional
	Ordering QueueOrdering `json:"ordering,omitempty"`

	// backfill says who may pass one that does not fit now: None (nobody: strict
	// order), EASY (who does not delay the first of the queue) or Conservative (who
	// does not delay any before it). One that passes needs deadlineSeconds, or nodes
	// that those it passes do not wait for. Default EASY.
	// +kubebuilder:default=EASY
	// +optional
	Backfill Backfill `json:"backfill,omitempty"`

	// patience is for the first of the queue when it does not fit and nobody knows when
	// those in its way will end: so long others take what is free meanwhile; after
	// that, what is free is kept for it. 0s: at once. Default 5m.
	// +kubebuilder:default="5m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	// +optional
	Patience *metav1.Duration `json:"patience,omitempty"`

	// requeue is the place of one that is queued again, since it did not start or had
	// to give its nodes to others: Original (by its creation) or Last (by the time at
	// which it is queued again). Default Original.
	// +kubebuilder:default=Original
	// +optional
	Requeue RequeuePlace `json:"requeue,omitempty"`

	// suspended: true admits nothing from the queue; what runs goes on. Default false.
	// +optional
	Suspended bool `json:"suspended,omitempty"`
}

// MiniClusterQueueStatus is what waits in a queue and what runs.
type MiniClusterQueueStatus struct {
	// pending is the number of MiniClusters that wait.
	// +optional
	Pending int32 `json:"pending"`

	// admitted is the number of those that have nodes.
	// +optional
	Admitted int32 `json:"admitted"`

	// used is what their pods request together.
	// +optional
	Used corev1.ResourceList `json:"used,omitempty"`

	// share is the part of the cluster that the queue has, by the resource of which it
	// has the largest part, from "0" to "1".
	// +optional
	Share string `json:"share,omitempty"`

	// deserved is the part that the queue may have while other queues want theirs, by
	// weight. Above it, it can be asked to give back; below it, it can ask.
	// +optional
	Deserved string `json:"deserved,omitempty"`

	// waiting are those that wait, in the order in which they are served; the first
	// 1000 of them.
	// +listType=atomic
	// +optional
	Waiting []WaitingMiniCluster `json:"waiting,omitempty"`

	// observedGeneration is the generation of the spec that the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// WaitingMiniCluster is one that waits, and why.
type WaitingMiniCluster struct {
	// namespace of the MiniCluster.
	Namespace string `json:"namespace"`
	// name of the MiniCluster.
	Name string `json:"name"`
	// position in the queue, from 1.
	Position int32 `json:"position"`
	// reason is that of its condition Admitted: NeverFits, NotAllowed, NoRoom,
	// WaitingForSize or WaitingForTurn.
	Reason string `json:"reason"`
	// message says it in a sentence.
	// +optional
	Message string `json:"message,omitempty"`
}
