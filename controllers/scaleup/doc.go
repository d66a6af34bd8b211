// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package scaleup asks autoscalers for nodes. It finds their APIs in a cluster, where these may come and go, keeps the
// objects by which they are asked in a cache, and carries out what the scheduler wants to ask, one write at a time
// (reconcile.go).
package scaleup
