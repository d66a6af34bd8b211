// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package weight bounds what the objects of tenants weigh in the memory of the manager. The caches have all
// MiniClusters, and all JobSets, Jobs, Workloads and pods with our labels, whoever made them. The API server takes
// objects of 1.5 MiB.
//
// Of an object that weighs more than its bound, the caches keep whose it is and what it holds (cache.go). A MiniCluster
// that weighs more than its bound, or whose objects would, gets no nodes, and the status says why (excess.go). So no
// object that the manager makes is cut, with room for what the API server and webhooks add.
package weight
