// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package elastic has what both halls of the scheduler talk about: the sizes and task
// counts of an elastic MiniCluster (Sizing), what the queue offers to one that waits
// (Offer), and what it orders of one that has nodes (Order).
//
// Two packages decide, and do not know each other: package queue which MiniClusters get
// which nodes, and package life the next step of one MiniCluster.
//
// Every decision is a value made from what is observed and from the time, which is a value
// too. These packages know no Kubernetes, read no clock, start no goroutine, import the
// standard library alone, and remember nothing: the same input gives the same output,
// after a restart as before it.
package elastic
