// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package scheduler decides over all queues which MiniClusters get which nodes, which give some
// back and which get more. A ledger follows nodes and pods event by event. A cycle (cycle.go)
// runs when something has happened that may change a decision:
//
//   - observe: list MiniClusters, queues and quotas,
//   - learn: confirm in the ledger what they show (snapshot.go),
//   - repair: look for other nodes for ranks whose pods cannot run on theirs (commit.go),
//   - snapshot: what waits, what runs, what is free,
//   - schedule: package queue decides,
//   - commit: assume the decisions in the ledger (commit.go).
//
// The package never writes to a MiniCluster: the controller of a MiniCluster asks for its offer
// and orders (offers.go) and records them. It writes the status of queues (queues.go).
package scheduler
