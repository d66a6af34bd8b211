// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ScaleUpProvider is the kind of object by which nodes are asked for.
// +kubebuilder:validation:Enum=ProvisioningRequest;CapacityBuffer
type ScaleUpProvider string

const (
	// ProvideByRequest asks with a ProvisioningRequest, which the Cluster Autoscaler and some clouds
	// understand.
	ProvideByRequest ScaleUpProvider = "ProvisioningRequest"
	// ProvideByBuffer asks with a CapacityBuffer, which Karpenter and the Cluster Autoscaler understand.
	ProvideByBuffer ScaleUpProvider = "CapacityBuffer"
)

// DefaultProvisioningClass is the default of scaleUp.class: all nodes of a MiniCluster or none.
const DefaultProvisioningClass = "best-effort-atomic-scale-up.autoscaling.x-k8s.io"

// ScaleUp says how a queue asks an autoscaler for nodes that do not exist. It asks for the MiniClusters that do
// not fit now, and would not soon: for all nodes of a MiniCluster, or for none.
//
// +kubebuilder:validation:XValidation:rule="self.provider == 'ProvisioningRequest' || (!has(self.class) && !has(self.parameters))",message="class and parameters are those of a ProvisioningRequest: leave them out with the provider CapacityBuffer"
// +kubebuilder:validation:XValidation:rule="!has(self.timeout) || duration(self.timeout) > duration('0s')",message="timeout must be longer than 0s"
type ScaleUp struct {
	// provider is the kind of object by which nodes are asked for: ProvisioningRequest (Cluster
	// Autoscaler) or CapacityBuffer (Karpenter, Cluster Autoscaler). The API server must have it.
	Provider ScaleUpProvider `json:"provider"`

	// class is the provisioningClassName of ProvisioningRequests, such as
	// check-capacity.autoscaling.x-k8s.io, which only checks for room. Default
	// best-effort-atomic-scale-up.autoscaling.x-k8s.io, which provides all nodes or none.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +optional
	Class string `json:"class,omitempty"`

	// parameters of ProvisioningRequests; the class says which. Default: none.
	// +kubebuilder:validation:MaxProperties=16
	// +kubebuilder:validation:XValidation:rule="self.all(k, size(k) <= 255 && size(self[k]) <= 255)",message="names and values of parameters have at most 255 characters"
	// +optional
	Parameters map[string]string `json:"parameters,omitempty"`

	// maxNodes is how many nodes of the shapes there may be for the queue: nodes that are idle, that its
	// MiniClusters have, or for which they wait, but not those that are about to go. A MiniCluster that
	// needs more never fits.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	MaxNodes int32 `json:"maxNodes"`

	// timeout is how long a MiniCluster waits for its nodes. After that an elastic one starts with
	// what came, or asks for half as many brokers. Default 10m.
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	// +optional
	Timeout *metav1.Duration `json:"timeout,omitempty"`

	// cooldown is how long a MiniCluster asks for no nodes after it did not get them at its smallest
	// size. It doubles each time, up to 1h. Default 2m.
	// +kubebuilder:default="2m"
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:Pattern=`^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,6}(\.[0-9]{1,3})?s)?([0-9]{1,6}ms)?$`
	// +optional
	Cooldown *metav1.Duration `json:"cooldown,omitempty"`

	// shapes are the kinds of nodes that could come, the preferred ones first. They say which
	// MiniClusters could ever fit, and for how many nodes one has to ask. Default: those of Karpenter's
	// NodePools if there are any, or else nodes of any kind, each for one broker.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=name
	// +optional
	Shapes []NodeShape `json:"shapes,omitempty"`
}

// NodeShape is a kind of nodes that could come.
type NodeShape struct {
	// name of the shape, such as that of a node group.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// labels that such nodes have. Labels that Kubernetes and clouds set, such as the zone, may be
	// left out: they may then have any value. Default: none.
	// +kubebuilder:validation:MaxProperties=32
	// +kubebuilder:validation:XValidation:rule="self.all(name, size(self[name]) <= 63)",message="a value of labels may have 63 characters"
	// +optional
	Labels map[string]string `json:"labels,omitempty"`

	// taints that such nodes have, without those of the start. Default: none.
	// +kubebuilder:validation:MaxItems=16
	// +listType=atomic
	// +optional
	Taints []NodeTaint `json:"taints,omitempty"`

	// capacity is what such a node has for brokers: without what DaemonSets and the system take.
	// Default: enough for one broker.
	// +kubebuilder:validation:Type=object
	// +kubebuilder:validation:MaxProperties=16
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`

	// maxNodes is how many such nodes there can be in the cluster. Default: no limit.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +optional
	MaxNodes int32 `json:"maxNodes,omitempty"`
}

// NodeTaint is a taint of nodes that could come.
type NodeTaint struct {
	// key of the taint, such as nvidia.com/gpu.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Key string `json:"key"`

	// value of the taint. Default: none.
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Value string `json:"value,omitempty"`

	// effect of the taint on pods that do not tolerate it.
	// +kubebuilder:validation:Enum=NoSchedule;PreferNoSchedule;NoExecute
	Effect corev1.TaintEffect `json:"effect"`
}

// QueueScaleUp is what an autoscaler is asked for a queue.
type QueueScaleUp struct {
	// miniClusters is the number of MiniClusters that wait for nodes.
	MiniClusters int32 `json:"miniClusters"`
	// nodes is how many nodes they wait for.
	Nodes int32 `json:"nodes"`
}
