// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package fluxion answers where a gang of brokers could run: on which nodes of a
// resource graph, at which of its allowed sizes, all of it or nothing; and where
// it cannot, why not.
//
// A Graph is what there is and who holds it. It is made anew from what is
// observed, is changed by Occupy alone, and is not safe for use by several
// goroutines. The package knows no Kubernetes, reads no clock and imports the
// standard library alone; the same input gives the same output.
//
// When something runs, and who goes first, is decided elsewhere (package elastic).
package fluxion
