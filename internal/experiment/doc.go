// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package experiment describes many runs of a MiniCluster with different parameters. It reads the file of an
// experiment, lists the runs, decides which run is submitted, recorded or deleted next, and reads and writes the
// records of runs. It has no client, no clock and no goroutine.
package experiment
