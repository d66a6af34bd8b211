// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

// PlacementPolicy says which of the nodes that would do are taken.
// +kubebuilder:validation:Enum=Pack;Spread
type PlacementPolicy string

const (
	// PlacementPack takes the fewest racks, and in them the fullest nodes that do.
	PlacementPack PlacementPolicy = "Pack"
	// PlacementSpread takes as many racks and nodes as it can, evenly.
	PlacementSpread PlacementPolicy = "Spread"
)

// TopologyMode says whether pods have to be in one domain of the topology.
// +kubebuilder:validation:Enum=Required;Preferred
type TopologyMode string

const (
	// TopologyRequired has all of them in one.
	TopologyRequired TopologyMode = "Required"
	// TopologyPreferred has them in as few as it can be done with.
	TopologyPreferred TopologyMode = "Preferred"
)

// PlacementSpec says which nodes a MiniCluster would like, of those that would do.
//
// +kubebuilder:validation:XValidation:rule="!has(self.topology) || has(self.topologyKey)",message="topology needs topologyKey, the label of nodes that tells which are near to each other"
type PlacementSpec struct {
	// policy is Pack (the fewest racks, and in them the nodes that get full first) or
	// Spread (as many of both as can be). Default Pack.
	// +optional
	Policy PlacementPolicy `json:"policy,omitempty"`

	// topologyKey is a label of nodes: those with the same value, a domain, are near to
	// each other. It is one of the manager's --topology-labels, which are by default
	// topology.kubernetes.io/zone, cloud.provider.com/topology-block and
	// cloud.provider.com/topology-rack. Default: none.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$`
	// +optional
	TopologyKey string `json:"topologyKey,omitempty"`

	// topology is Required (all pods in one domain of topologyKey: it waits, or starts
	// smaller, until one has room) or Preferred (in as few domains as can be). Default
	// Preferred.
	// +optional
	Topology TopologyMode `json:"topology,omitempty"`
}
