// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package state translates what the cluster has (nodes, pods, JobSets,
// MiniClusters) into what the cores decide about: the resource graph of package
// fluxion, the gangs and observations of package elastic. It reads objects that it
// is given, and talks to nobody.
package state
