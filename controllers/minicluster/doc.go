// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package minicluster is the controller of one MiniCluster. It carries a MiniCluster from
// `kubectl apply` to its end in passes of these steps:
//
//   - announce: have the events of recorded decisions sent, beside the pass (announce.go),
//   - observe: read the objects; nothing is written (observe.go),
//   - check: ask the API server by dry runs whether the spec can be carried out (check.go),
//   - consult: ask Kueue for quota, and the scheduler for its offer or order (grants.go),
//   - decide: ask package life for the next step; nothing is read,
//   - act: carry out the step (act.go, with make.go, binder.go and pods.go),
//   - report: write the status, once (report.go).
//
// Each step is of a part, which has only the clients and parts that it needs (parts).
//
// All that the next pass must know is in API objects. What a reconciler remembers beside them
// (memory.go) may be lost at any time. A Scheduler decides which nodes a MiniCluster gets. A pass
// records that decision in the status before anything follows from it.
package minicluster
