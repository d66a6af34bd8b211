// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha2 is the API of flux-elastic: the MiniCluster of the Flux
// Operator, field for field, with the elastic fields added to it.
//
// A MiniCluster of the Flux Operator is taken as it is. What differs on purpose is
// said at the field: some that did nothing still do nothing, and some that were
// broken work.
//
// The package holds types, their defaults and the names by which others observe
// a MiniCluster (labels, annotations, conditions). It decides nothing.
//
// +kubebuilder:object:generate=true
// +groupName=flux-framework.org
package v1alpha2
