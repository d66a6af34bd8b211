// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package queue decides which MiniClusters get which nodes: which waiting gangs start now and at
// which size, which running gangs give nodes back, and which get more.
//
// Schedule is one cycle over all queues, with the actions enqueue, allocate, preempt, reclaim,
// backfill and grow. Backfill is EASY (Lifka 1995): the head of a queue, the first gang that does
// not fit, gets a reservation at its shadow time, as far as estimates of all ends tell it. Other gangs may pass the head
// if they do not delay it. The parts of a cycle that remember something of their own are types: screening, preemptor,
// growing, asking and verdicts.
//
// A Room answers where a gang could run. The package knows neither Kubernetes nor the life of one
// MiniCluster (package life).
package queue
