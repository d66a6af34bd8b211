// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package elastic holds the types that both packages of the scheduler share: the sizes and task
// counts of an elastic MiniCluster (Sizing), what the queue offers to a waiting MiniCluster
// (Offer), and what the queue orders of a running one (Order).
//
// Two packages decide, and neither imports the other. Package queue decides which MiniClusters
// get which nodes. Package life decides the next step of one MiniCluster.
//
// Every decision is a function of what was observed and of a time that the caller passes. These
// packages import the standard library alone, read no clock, start no goroutine and keep no
// memory, so a restart changes no decision.
package elastic
