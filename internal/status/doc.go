// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package status makes the status of a MiniCluster, and the event to tell people,
// from what was observed and what was decided. It is the only place that sets
// conditions.
package status
