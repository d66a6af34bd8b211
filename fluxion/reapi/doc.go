// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package reapi lets Fluxion itself choose vertices of a resource graph. It calls
// libreapi_cli.so of flux-sched 0.52 or later, which it loads at run time and without cgo.
//
//	library, err := reapi.Open("/usr/lib/flux/libreapi_cli.so")
//	graph := reapi.NewGraph()
//	for rank := range 4 {
//		node := graph.Add(reapi.Root, "node", rank)
//		graph.Add(node, "core", rank)
//	}
//	ranks, err := library.Match(graph, "lonode", "node", 2) // 0 and 1
//
// # What the library does not survive
//
// The library runs in this process. Some inputs make it end the process, hang or lose
// resources: certain graphs, options and jobspecs, and certain orders of calls. So callers do
// not write these texts. Every Graph is one that the library can read, and each match loads
// its graph anew. The tests know these inputs, and show what becomes of each (crash_test.go).
//
// # Threads and memory
//
// The library locks nothing and keeps state for the whole process. So this package calls the
// library from one goroutine at a time. The library is never unloaded. It knows only the types
// of vertices that the first graph of the process has had (fixed after flux-sched 0.54).
//
// A binary with this package needs a dynamic loader and libc, also with CGO_ENABLED=0. So
// programs that must stay static do not import this package.
//
// # The tests
//
// In the tests, an Oracle makes the other calls of the library: reserve, cancel, find and so on.
// The tests compare the answers of the Oracle with package traverser (compare_test.go).
package reapi
