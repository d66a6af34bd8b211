// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package kueue finds Kueue in a cluster, where Kueue may come and go, keeps its objects in a cache,
// keeps the Workloads by which MiniClusters get quota, and says that the admission checks of this project are answered.
package kueue
