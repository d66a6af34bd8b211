// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package minicluster is the only code that reads and writes for a MiniCluster. It carries
// a MiniCluster from `kubectl apply` to its end in passes of these steps, one file each:
//
//   - observe: read what there is (observe.go); nothing is written,
//   - check: ask the API server, by dry runs, whether the spec can be carried out (check.go),
//   - consult: hear what the scheduler has for it (consult.go),
//   - decide: ask package life for the one next step; nothing is read,
//   - act: carry the step out (act.go, make.go, place.go),
//   - report: write the status, once, and then tell people (report.go, announce.go).
//
// What the next pass must know is in the API objects; what a reconciler keeps in memory
// (memory.go) can be lost at any time.
//
// Which nodes a MiniCluster gets is decided by a Scheduler, which writes nothing: a pass takes
// the decision up, and writes it down before anything is made.
package minicluster
