// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package jobset makes the objects of a MiniCluster: a JobSet with a gated pod for
// every broker it can ever have, the Service by which they find each other, and
// the ConfigMap and Secret with what they need.
//
// Every function returns complete objects with deterministic names and talks to
// nobody. MiniClusters must have their defaults (v1alpha2.MiniCluster.Default).
package jobset
