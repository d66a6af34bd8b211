// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package ledger knows who holds what in the cluster. It mirrors nodes and pods event by event
// (mirror.go) and keeps an account for each MiniCluster (account.go): what its status shows, and
// what is assumed of it until then. What is free is always the nodes' capacity minus what the
// accounts and other pods hold. A Room (room.go) is the state of one moment, on which the queue
// tries its decisions.
//
// Package queue decides who gets what. The package has no client.
package ledger
