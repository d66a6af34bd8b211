// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package jobset makes the objects of a MiniCluster. The JobSet has a gated pod for every broker
// that the MiniCluster can ever have. Brokers find each other by a Service. The ConfigMap has
// their scripts and configuration, and the Secret their certificate.
//
// Every function returns complete objects with deterministic names, and makes no requests.
// MiniClusters must have their defaults (v1alpha2.MiniCluster.Default).
package jobset
