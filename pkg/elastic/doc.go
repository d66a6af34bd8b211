// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package elastic decides what should happen next: which MiniClusters of the
// queues get nodes, at which size, and who gives some back (Schedule), and for one
// MiniCluster the one next step of its life (Decide).
//
// Every decision is a value made from what is observed and from the time, which
// comes in as a value too. The package knows no Kubernetes, reads no clock, starts
// no goroutine, imports the standard library alone, and remembers nothing: the
// same input gives the same output, after a restart as before it.
//
// Where a gang could run is asked of a Room; carrying decisions out, and
// writing them down first, is up to the caller.
package elastic
