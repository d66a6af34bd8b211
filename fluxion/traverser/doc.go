// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package traverser matches jobspecs on a resource graph, the way Fluxion does, and
// answers byte for byte as Fluxion does: the policies, operations and formats are those
// of flux-sched.
//
// A Graph is a tree of resource vertices. ReadJGF, ReadGRUG and ReadRv1Exec read one. A
// Matcher takes a Graph over, and matches jobspecs by depth-first traversal: it
// allocates, reserves, cancels, finds and updates. docs/fluxion.md explains how, and
// where it differs from Fluxion on purpose.
//
// A Matcher is not safe for use by several goroutines: each goroutine takes a Clone. The
// package reads no clock and starts no goroutine. The same input gives the same output.
//
// The package has no part in placing MiniClusters: for gangs of pods there is package
// fluxion, which knows neither trees nor jobspecs.
package traverser
