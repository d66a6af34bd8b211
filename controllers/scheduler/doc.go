// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package scheduler decides over all queues which MiniCluster gets which nodes, which gives
// some back and which gets more. It follows nodes and pods event by event in a ledger, and
// runs a cycle (cycle.go) when something happened that may change a decision:
//
//   - observe: list MiniClusters, queues and quotas,
//   - learn: confirm in the ledger what they show (snapshot.go),
//   - snapshot: what waits, what runs, what is free,
//   - schedule: package queue decides,
//   - commit: assume in the ledger what was decided (commit.go).
//
// The package writes to no MiniCluster: the controller of a MiniCluster asks for its offer
// and its orders (offers.go), and writes them down. It writes the status of queues
// (queues.go).
package scheduler
