// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package fluxion answers where something could run, on a graph of resources, and if
// nowhere, why not.
//
// There are two ways to ask. A Graph is asked for gangs of pods: MatchGang finds the
// largest allowed size that fits now, all of it or nothing, close together; Take,
// Grow, Shrink, Free and Release keep what gangs hold; Reserve finds the earliest
// start; Explain says why not. A Matcher is asked with jobspecs, the way of Fluxion,
// and answers byte for byte as it does: its policies, operations and formats are
// those of flux-sched. docs/fluxion.md explains how both find what they find.
//
// Neither is safe for use by several goroutines: each takes a Snapshot, or a Clone.
// The package knows no Kubernetes, reads no clock and imports the standard library
// alone; the same input gives the same output.
//
// When something runs, and who goes first, is decided elsewhere (package elastic).
package fluxion
