// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package minicluster is the controller of one MiniCluster. It carries a MiniCluster from
// `kubectl apply` to its end in passes of these steps:
//
//   - announce: have the events of recorded decisions sent, beside the pass (announce.go),
//   - observe: read the objects; nothing is written (observe.go),
//   - check: ask the API server by dry runs whether the spec can be carried out (check.go),
//   - consult: ask the scheduler for its offer or order (consult.go),
//   - decide: ask package life for the next step; nothing is read,
//   - act: carry out the step (act.go, make.go, place.go, binder.go),
//   - report: write the status, once (report.go).
//
// All that the next pass must know is in API objects. What a reconciler remembers beside them
// (memory.go) may be lost at any time. A Scheduler decides which nodes a MiniCluster gets. A pass
// records that decision in the status before anything follows from it.
package minicluster
