// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package elastic decides what should happen next: which MiniCluster of the queue
// gets nodes, at which size (Allocate), and for one MiniCluster the one next step
// of its life (Decide).
//
// Every decision is a value made from what is observed and from the time, which
// comes in as a value too. The package knows no Kubernetes, reads no clock, starts
// no goroutine, imports the standard library alone, and remembers nothing: the
// same input gives the same output, after a restart as before it.
//
// Where a gang could run is asked of a Matcher; carrying decisions out, and
// writing them down first, is up to the caller.
package elastic
