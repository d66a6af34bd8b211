// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package controllers is the only code that reads and writes for a MiniCluster. It
// carries it from `kubectl apply` to its end in passes of four steps:
//
//   - observe: read what there is (observe.go, check.go),
//   - decide: ask package elastic for the one next step,
//   - act: carry it out (act.go),
//   - report: write the status, once, and then tell people (report.go).
//
// Nothing is written while observing, and nothing read while deciding. What the
// next pass must know is in the API objects; what a reconciler keeps in memory
// can be lost at any time.
//
// The Scheduler (scheduler.go) decides over the whole queue which MiniCluster gets
// which nodes. It writes nothing: the reconciler of the MiniCluster takes the
// decision up and writes it down before anything is made.
package controllers
