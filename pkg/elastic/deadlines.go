// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import (
	"cmp"
	"time"
)

// Deadlines are what a queue says about how long commands may run, as DefaultTime and MaxTime of a
// partition of Slurm, and how long they may take to end.
type Deadlines struct {
	// Default is the deadline of a MiniCluster that sets none; 0: Max.
	Default time.Duration
	// Max is the longest deadline; 0: no limit.
	Max time.Duration
	// Extend is true if the deadline of a gang that has nodes may become longer.
	Extend bool
	// Grace bounds how long a gang may say that its checkpoints take.
	Grace time.Duration
}

// Of is the deadline of a MiniCluster that sets one; 0 for none. A MiniCluster with nodes may set a
// longer one than Max: then Max counts.
func (d Deadlines) Of(set time.Duration) time.Duration {
	switch {
	case set == 0:
		return cmp.Or(d.Default, d.Max)
	case d.Max > 0:
		return min(set, d.Max)
	}
	return set
}
