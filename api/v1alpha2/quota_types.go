// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Quota is what Kueue granted to a MiniCluster.
type Quota struct {
	// clusterQueue is the ClusterQueue of Kueue whose quota it is.
	// +kubebuilder:validation:MinLength=1
	// +required
	ClusterQueue string `json:"clusterQueue"`

	// workload is the UID of the Workload that holds the quota.
	// +required
	Workload types.UID `json:"workload"`

	// size is the number of brokers for which there was quota. It may be smaller than the size of
	// the spec.
	// +kubebuilder:validation:Minimum=1
	// +required
	Size int32 `json:"size"`

	// time is when Kueue reserved the quota.
	// +required
	Time metav1.Time `json:"time"`

	// nodeSelector has the node labels of the flavors that Kueue chose.
	// +optional
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations are those of the flavors. The pods get them when they are placed.
	// +listType=atomic
	// +optional
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// topology says in which domains of the flavor's topology the brokers are, and how many in each.
	// +optional
	Topology *QuotaTopology `json:"topology,omitempty"`
}

// QuotaTopology is where Kueue counts the brokers of a MiniCluster (PodSetAssignment.topologyAssignment
// in kueue.x-k8s.io/v1beta2), for all its pod sets together.
type QuotaTopology struct {
	// levels are node labels, outermost first. Nodes with the same values of all these labels are a
	// domain.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +required
	Levels []string `json:"levels"`

	// domains are the domains with brokers.
	// +listType=atomic
	// +required
	Domains []QuotaDomains `json:"domains"`
}

// QuotaDomains are domains that differ in the innermost level alone, with equal numbers of brokers.
type QuotaDomains struct {
	// within are the values of the outer levels, outermost first.
	// +listType=atomic
	// +optional
	Within []string `json:"within,omitempty"`

	// values are the values of the innermost level, as a hostlist: "rack[1-3,7]".
	// +required
	Values string `json:"values"`

	// brokers is how many brokers are in each of these domains at most.
	// +kubebuilder:validation:Minimum=1
	// +required
	Brokers int32 `json:"brokers"`
}
