// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MiniClusterReservation keeps nodes for the MiniClusters of one queue, or for nobody
// (maintenance), from a time until another. No other MiniCluster starts on these nodes if its
// command could still run at the beginning. MiniClusters that run there already go on.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,shortName=mcr,path=miniclusterreservations
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="From",type=string,JSONPath=`.spec.from`
// +kubebuilder:printcolumn:name="Until",type=string,JSONPath=`.spec.until`
// +kubebuilder:printcolumn:name="Queue",type=string,JSONPath=`.spec.queue`,description="Queue whose MiniClusters may use the nodes; empty for maintenance"
// +kubebuilder:printcolumn:name="Size",type=integer,JSONPath=`.status.size`,description="Number of nodes"
// +kubebuilder:printcolumn:name="Staying",type=integer,JSONPath=`.status.staying`,description="MiniClusters of others that may still be on the nodes at the beginning"
// +kubebuilder:printcolumn:name="Nodes",type=string,JSONPath=`.status.nodes`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type MiniClusterReservation struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which nodes are reserved, when and for whom.
	// +required
	Spec MiniClusterReservationSpec `json:"spec"`

	// status says which nodes these are, and which MiniClusters are in the way.
	// +optional
	Status MiniClusterReservationStatus `json:"status,omitzero"`
}

// MiniClusterReservationList is a list of MiniClusterReservations.
//
// +kubebuilder:object:root=true
type MiniClusterReservationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []MiniClusterReservation `json:"items"`
}

// MiniClusterReservationSpec says which nodes are reserved, when and for whom. The nodes are
// those of nodeNames, or those that nodeSelector selects, or count of these.
//
// +kubebuilder:validation:XValidation:rule="has(self.nodeNames) || has(self.nodeSelector) || has(self.count)",message="one of nodeNames, nodeSelector and count is needed; nodeSelector: {} selects all nodes"
// +kubebuilder:validation:XValidation:rule="!has(self.nodeNames) || (!has(self.nodeSelector) && !has(self.count))",message="nodeNames excludes nodeSelector and count"
// +kubebuilder:validation:XValidation:rule="self.until > self.from",message="until must be after from"
type MiniClusterReservationSpec struct {
	// from is when the reservation begins. It may be in the past: then the reservation begins at
	// once.
	// +required
	From metav1.Time `json:"from"`

	// until is when the reservation ends. After that all MiniClusters may use the nodes again.
	// +required
	Until metav1.Time `json:"until"`

	// queue is the MiniClusterQueue whose MiniClusters may use the nodes at any time, also beyond
	// until. The queue need not exist. Default: no MiniCluster may use the nodes (maintenance).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +optional
	Queue string `json:"queue,omitempty"`

	// nodeNames are the names of the nodes.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5000
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	// +optional
	NodeNames []string `json:"nodeNames,omitempty"`

	// nodeSelector selects the nodes by their labels, also nodes that come later. {} selects all
	// nodes. Default, with count: all nodes.
	// +optional
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`

	// count is how many nodes are reserved of those that nodeSelector selects. The scheduler
	// chooses nodes that are free at the beginning, or else soonest after it, and records them in
	// status.nodes. Default: all nodes that nodeSelector selects.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=5000
	// +optional
	Count *int32 `json:"count,omitempty"`
}

// ReservationPhase says whether a reservation has begun.
// +kubebuilder:validation:Enum=Pending;Active;Over
type ReservationPhase string

const (
	// ReservationPending is the phase before the beginning. MiniClusters of others that end by then may
	// use the nodes.
	ReservationPending ReservationPhase = "Pending"
	// ReservationActive is the phase in which nothing of others starts on the nodes.
	ReservationActive ReservationPhase = "Active"
	// ReservationOver is the phase after the end. The reservation has no effect any more.
	ReservationOver ReservationPhase = "Over"
)

// MiniClusterReservationStatus says which nodes are reserved, and which MiniClusters are in the
// way.
type MiniClusterReservationStatus struct {
	// phase is Pending before the beginning, Active until the end, and then Over.
	// +optional
	Phase ReservationPhase `json:"phase,omitempty"`

	// nodes are the names of the reserved nodes that exist, as a hostlist (Flux RFC 29). With
	// count they are the nodes that the scheduler chose.
	// +optional
	Nodes string `json:"nodes,omitempty"`

	// size is the number of these nodes.
	// +optional
	Size int32 `json:"size"`

	// staying is the number of MiniClusters of others that hold some of the nodes and may still
	// run when the reservation begins. They go on: nobody evicts them.
	// +optional
	Staying int32 `json:"staying"`

	// stayingMiniClusters are the first 50 of these MiniClusters, by namespace and name.
	// +kubebuilder:validation:MaxItems=50
	// +listType=atomic
	// +optional
	StayingMiniClusters []StayingMiniCluster `json:"stayingMiniClusters,omitempty"`

	// conditions are NodesFound (are there as many nodes as the spec asks for?) and Clear (are the
	// nodes free of MiniClusters of others when the reservation begins?).
	// +listType=map
	// +listMapKey=type
	// +optional
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// observedGeneration is the generation of the spec to which the status belongs.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
}

// MostStaying is the largest number of MiniClusters in status.stayingMiniClusters.
const MostStaying = 50

// StayingMiniCluster is a MiniCluster that may still run on reserved nodes when the reservation
// begins.
type StayingMiniCluster struct {
	// namespace of the MiniCluster.
	Namespace string `json:"namespace"`
	// name of the MiniCluster.
	Name string `json:"name"`
	// until is the latest time at which it gives its nodes back. Absent if it has no time limit, or
	// has exceeded that limit.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
}

// Conditions of a MiniClusterReservation.
const (
	// ConditionNodesFound: there are as many nodes as the spec asks for.
	ConditionNodesFound = "NodesFound"
	// ConditionClear: no MiniCluster of others can be on the nodes when the reservation begins.
	ConditionClear = "Clear"
)

// Reasons of the conditions NodesFound and Clear.
const (
	// ReasonNodesFound: the nodes exist.
	ReasonNodesFound = "NodesFound"
	// ReasonTooFewNodes: fewer nodes exist than the spec asks for.
	ReasonTooFewNodes = "TooFewNodes"
	// ReasonBadSelector: nodeSelector is wrong. No nodes are reserved.
	ReasonBadSelector = "BadSelector"
	// ReasonClear: nothing of others can be on the nodes.
	ReasonClear = "Clear"
	// ReasonStaying: MiniClusters of others may still be on the nodes.
	ReasonStaying = "MiniClustersStay"
)
