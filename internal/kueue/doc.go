// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package kueue makes the Workload by which a MiniCluster asks Kueue for quota, reads what Kueue
// granted, and says what Kueue is to hear. Kueue decides about quota, and the scheduler about nodes.
package kueue
