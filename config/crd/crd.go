// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package crd holds the definitions of the API, for programs that check objects by them
// without a cluster.
package crd

import _ "embed" // for the definitions

// MiniClusters is the definition of MiniClusters as YAML.
//
//go:embed flux-framework.org_miniclusters.yaml
var MiniClusters []byte
