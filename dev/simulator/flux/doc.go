// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package flux is Flux in the pods of a MiniCluster, as a value: what the scripts of internal/broker
// do, without a cluster, a clock or a goroutine. Package simulator plays it on nodes of kwok, and
// test/world in a cluster in memory.
//
// A Lead is the container of a lead. Look shows it the time, what annotations tell it, and which
// brokers are online. It answers with a Move: which pods become ready or not, and whether the lead
// ends.
package flux
