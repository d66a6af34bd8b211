// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package queue decides which MiniClusters get which nodes: which of those that wait start
// now and at which size, who has to give nodes back, and who gets more.
//
// Schedule is one cycle over all queues, with the actions enqueue, allocate, preempt,
// reclaim, backfill and grow. Backfill is EASY (Lifka 1995): the first gang of a queue that
// does not fit gets a reservation at its shadow time, and others may pass it if they delay it
// nowhere.
//
// Where a gang could run is asked of a Room. The package knows no Kubernetes, and nothing of
// the life of one MiniCluster (package life).
package queue
