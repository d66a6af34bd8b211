// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package crd holds the CustomResourceDefinition of JobSet, for clusters that have
// no JobSet of their own. It is generated from JobSet's Go types at the version in
// go.mod.
package crd

import _ "embed" // for the definition

// JobSet is the definition as YAML.
//
//go:embed jobset.x-k8s.io_jobsets.yaml
var JobSet []byte
