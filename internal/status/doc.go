// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package status computes the status of a MiniCluster and its events from the observation and the
// plan. It is the only place that sets conditions.
package status
