// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package fluxion answers where a gang of pods could run on the nodes of a cluster, and
// if nowhere, why not.
//
// A Graph knows the nodes, their topology, what each node has, and which jobs hold what.
// MatchGang finds nodes for the largest allowed size that fits now: for the whole gang
// or for nothing, and close together. Take and Adopt record what a job holds, Grow adds
// pods to the job, and Free and Release give the resources back. Explain says why a gang
// does not fit. docs/fluxion.md explains how a match finds its nodes.
//
// A Graph is not safe for use by several goroutines: each goroutine takes a Snapshot.
// The package knows no Kubernetes and no jobspecs, reads no clock, and starts no
// goroutine. The same input gives the same output.
//
// The package does not decide when a gang runs, and which gang comes first: package
// queue does. Jobspecs are matched by package traverser, on a graph of its own.
package fluxion
