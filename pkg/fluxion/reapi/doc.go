// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package reapi calls Fluxion itself, through libreapi_cli.so of flux-sched 0.52
// or later, loaded at run time and without cgo. It decides nothing: jobspecs,
// graphs and resource sets go in and come out as the text the library reads and
// writes.
//
//	library, err := reapi.Open("/usr/lib/flux/libreapi_cli.so")
//	client, err := library.NewClient()
//	defer client.Destroy()
//	err = client.InitContext(graph, `{"load_format": "jgf", "matcher_policy": "lonode"}`)
//	allocation, err := client.Match(reapi.MatchAllocate, jobspec)
//	if errors.Is(err, reapi.ErrBusy) { ... }
//
// # Beside fluxion-go
//
// The methods are named like those of github.com/flux-framework/fluxion-go, and
// these differ:
//
//   - Errors say why: see ErrBusy and the others, and Error. The library keeps one
//     error text for the whole process.
//   - Job ids are uint64, and results are a struct each.
//   - Match numbers jobs itself and leaves out ids in use. The library's own counter
//     hands out the ids of jobs that UpdateAllocate put back, which then can never be
//     freed completely. An id in use is refused by MatchWithJobid, for the same reason.
//   - Satisfiability is an operation of Match, and does not leak (reapi_cli_match_satisfy
//     does).
//   - New are Clone, MatchWithJobid, AddSubgraph, RemoveSubgraph, Find and SetStatus.
//   - What nobody here calls is missing: Info, Stat, the status of ranks, and so on.
//
// # What is refused
//
// The library runs in this process, and much of what it does not expect ends the
// process or never returns: C++ exceptions that nobody catches, null strings, loops.
// Whatever is known to do so is refused with ErrInvalid before it is called, which
// is why this package reads less than the library would:
//
//   - Graphs are JGF (load_format "jgf") of the containment subsystem alone, one tree
//     under a root of type cluster in which every path is its parent's path and a
//     name. Edges back to the parent, as Fluence 1 writes them, make it search for
//     ever or overflow the stack.
//   - Options are known keys with values of the right type; a misspelt key is an
//     error. The format "rlite" is refused, with which "busy" looks like "invalid".
//   - Jobspecs are JSON, not any YAML: a count that multiplies its way past 32 bits
//     never ends, and a package that cannot read it cannot see it.
//   - RemoveSubgraph does not take the last child of a vertex (it would never
//     return): remove the parent.
//   - AddSubgraph and Clone are ErrState once a match has looked for a later time: the
//     library might crash or hang, then or later.
//   - PartialCancel by JGF names only what the job holds exclusively: the resource
//     set as a match returned it, with the shared vertices above, leaves half a job
//     that cannot be cancelled.
//
// # Threads and memory
//
// The library locks nothing and keeps state for the whole process, so one lock is
// held around every call, of all clients. It is never unloaded. It keeps a small
// record of every job there ever was, also of cancelled ones (about 230 bytes), and
// never frees a vertex before the client is destroyed.
//
// Importing this package makes a binary that needs a dynamic loader and libc, also
// with CGO_ENABLED=0: import it from files of a build tag where others must stay
// static.
package reapi
