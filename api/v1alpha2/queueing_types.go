// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// QueueingSpec says where a MiniCluster waits for nodes, and from when on.
type QueueingSpec struct {
	// queue is the MiniClusterQueue in which the MiniCluster waits for nodes. Default: the
	// queue that the namespace's label flux-framework.org/queue names, or else "default". If
	// the queue does not exist, the MiniCluster waits until somebody creates it
	// (Admitted=False, reason NoSuchQueue).
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`
	// +optional
	Queue string `json:"queue,omitempty"`

	// after are MiniClusters of the namespace for which the MiniCluster waits before it is queued. It waits while one of
	// them does not exist (Admitted=False, reason Dependency). What was met stays so, also if that MiniCluster is deleted
	// later. Default: none.
	// +kubebuilder:validation:MaxItems=64
	// +listType=map
	// +listMapKey=name
	// +optional
	After []Dependency `json:"after,omitempty"`

	// notBefore is the time before which the MiniCluster is not queued (Admitted=False, reason Later). Default: it is
	// queued at once.
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:validation:Pattern=`^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}([.][0-9]{1,9})?(Z|[-+]([01][0-9]|2[0-3]):[0-5][0-9])$`
	// +kubebuilder:validation:XValidation:rule="self > timestamp('1970-01-01T00:00:00Z')",message="notBefore must be a time after 1970"
	// +optional
	NotBefore *metav1.Time `json:"notBefore,omitempty"`

	// singleton is a key. Of the MiniClusters of a namespace with the same key, one at a time has nodes. The others wait
	// (Admitted=False, reason Singleton), and go in the order of the queue. Default: no key.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +optional
	Singleton string `json:"singleton,omitempty"`
}

// QueueingStatus is what is known of the wait of a MiniCluster.
type QueueingStatus struct {
	// queue is the queue in which the MiniCluster waits or waited.
	// +optional
	Queue string `json:"queue,omitempty"`

	// metDependencies are the entries of spec.after that were met.
	// +kubebuilder:validation:MaxItems=64
	// +listType=atomic
	// +optional
	MetDependencies []Dependency `json:"metDependencies,omitempty"`

	// blockedSince is when the MiniCluster was the first of its queue and found no room, for the
	// first time since it was queued. What puts it off counts from then.
	// +optional
	BlockedSince *metav1.Time `json:"blockedSince,omitempty"`
}

// Dependency is a MiniCluster of the same namespace for which another waits.
type Dependency struct {
	// name names a MiniCluster of the namespace. The MiniCluster may not exist yet.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=52
	// +kubebuilder:validation:Pattern=`^[a-z]([-a-z0-9]*[a-z0-9])?$`
	// +required
	Name string `json:"name"`

	// condition says what has to be so of that MiniCluster: Started (its command has begun), Succeeded, Failed (it has
	// finished without success) or Finished. Default Succeeded.
	// +kubebuilder:default=Succeeded
	// +optional
	Condition DependencyCondition `json:"condition,omitempty"`
}

// DependencyCondition is what a MiniCluster waits for of another.
//
// +kubebuilder:validation:Enum=Started;Succeeded;Failed;Finished
type DependencyCondition string

// What a MiniCluster may wait for.
const (
	DependencyStarted   DependencyCondition = "Started"
	DependencySucceeded DependencyCondition = "Succeeded"
	DependencyFailed    DependencyCondition = "Failed"
	DependencyFinished  DependencyCondition = "Finished"
)
