// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package status computes the status of a MiniCluster and its events from the observation and the
// plan, and the status of a queue from the last cycle. It is the only place that sets conditions.
package status
