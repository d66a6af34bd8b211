// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package dashboard says what the web page shows. A View has the nodes, MiniClusters and queues of
// the cluster, and a Life has one MiniCluster. Both are made from objects. For leaves out what a viewer
// may not see, and Since compares with what the viewer has seen, so that only changes are sent.
package dashboard
