// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package state translates what the cluster has (nodes, pods, JobSets, MiniClusters) into
// what others decide about: an observation for package life (Observe), gangs and queues for
// package queue (Gang, Running, Queue), and promises and requests for the ledger (PromiseOf,
// Request). It reads objects that it is given, and talks to nobody.
package state
