// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

// PlacementPolicy says which of the nodes that have room are taken.
// +kubebuilder:validation:Enum=Pack;Spread
type PlacementPolicy string

const (
	// PlacementPack takes the fewest zones, in these the fewest blocks and then racks, and
	// in these the fullest nodes that have room.
	PlacementPack PlacementPolicy = "Pack"
	// PlacementSpread takes as many racks and nodes as possible, evenly.
	PlacementSpread PlacementPolicy = "Spread"
)

// TopologyMode says whether all pods have to be in one domain of the topology.
// +kubebuilder:validation:Enum=Required;Preferred
type TopologyMode string

const (
	// TopologyRequired puts all pods in one domain.
	TopologyRequired TopologyMode = "Required"
	// TopologyPreferred puts the pods in as few domains as possible.
	TopologyPreferred TopologyMode = "Preferred"
)

// PlacementSpec says which nodes a MiniCluster gets, of those that have room.
//
// +kubebuilder:validation:XValidation:rule="!has(self.topology) || has(self.topologyKey)",message="topology needs topologyKey, the node label that groups nearby nodes"
type PlacementSpec struct {
	// policy is Pack (the fewest racks, and in these the fullest nodes that have room) or
	// Spread (as many racks and nodes as possible). Default Pack.
	// +optional
	Policy PlacementPolicy `json:"policy,omitempty"`

	// topologyKey is a label of nodes. Nodes with the same value are a domain: they are near
	// to each other. The label must be one of the manager's --topology-labels. These are by
	// default topology.kubernetes.io/zone, cloud.provider.com/topology-block and
	// cloud.provider.com/topology-rack. Default: none.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	// +optional
	TopologyKey string `json:"topologyKey,omitempty"`

	// topology is Required or Preferred. Required: all pods are in one domain of topologyKey.
	// Until a domain has room, the MiniCluster waits, or starts at a smaller size. Preferred:
	// the pods are in as few domains as possible. Default Preferred.
	// +optional
	Topology TopologyMode `json:"topology,omitempty"`

	// exclusive gives each broker a whole node: no other broker is placed on that node, whatever
	// the pods request. The broker only gets a node on which no pods run but those of DaemonSets
	// and static pods. The node counts as a whole for the queue. Pods that are no brokers may come
	// to the node later, unless a taint keeps them off. A change has an effect when the
	// MiniCluster is admitted again. Default false.
	// +optional
	Exclusive bool `json:"exclusive,omitempty"`
}
