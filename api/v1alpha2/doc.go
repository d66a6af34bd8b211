// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package v1alpha2 is the API of flux-elastic. It has all fields of the Flux Operator's
// MiniCluster, and the elastic fields.
//
// A MiniCluster that was written for the Flux Operator is valid here without changes. The
// comment of a field says where its effect differs on purpose. Some fields that had no
// effect in the Flux Operator have none here, and some fields that were broken work here.
//
// The package has types, their defaults, and the names by which programs and users observe
// a MiniCluster (labels, annotations, conditions). It makes no decisions.
//
// +kubebuilder:object:generate=true
// +groupName=flux-framework.org
package v1alpha2
