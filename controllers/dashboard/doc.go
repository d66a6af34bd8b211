// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package dashboard serves a web page that shows the cluster: nodes, queues, MiniClusters. It only reads.
// The page comes from the manager's cache, also where the manager does not lead. internal/dashboard says
// what the page has, and this package who may see it.
package dashboard
