// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package ledger knows who holds what in the cluster. It mirrors nodes and pods event by
// event (mirror.go), and keeps an account for each MiniCluster (account.go): what its status
// says that it was promised, and what is assumed of it until the status shows that. What is
// free is always what nodes have, less what is in the ledger; a Room (room.go) is that at one
// moment, for the queue to try things on.
//
// Who gets what is decided in package queue. The package has no client.
package ledger
