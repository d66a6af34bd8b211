// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package crd has the definition of MiniClusters, for programs that check objects without a cluster.
package crd

import _ "embed" // for the definition

// MiniClusters is the CustomResourceDefinition of MiniClusters as YAML.
//
//go:embed flux-framework.org_miniclusters.yaml
var MiniClusters []byte
