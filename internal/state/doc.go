// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package state translates objects of the cluster (nodes, pods, JobSets, MiniClusters) into what
// others decide on: an observation for package life (Observe), gangs and queues for package queue
// (Gang, Running, Queue), and promises and requests for the ledger (PromiseOf, Request). It has
// no client.
package state
