// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package v1alpha2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Group is the API group of MiniClusters, and the prefix of every label,
// annotation and scheduling gate that this project puts on an object.
const Group = "flux-framework.org"

// MiniClusterKind is the kind of a MiniCluster.
const MiniClusterKind = "MiniCluster"

var (
	// GroupVersion is the group and version of every type of this package.
	GroupVersion = schema.GroupVersion{Group: Group, Version: "v1alpha2"}

	schemeBuilder = runtime.NewSchemeBuilder(addKnownTypes)

	// AddToScheme registers the types of this package with a scheme.
	AddToScheme = schemeBuilder.AddToScheme
)

func addKnownTypes(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &MiniCluster{}, &MiniClusterList{}, &MiniClusterQueue{}, &MiniClusterQueueList{},
		&MiniClusterReservation{}, &MiniClusterReservationList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
