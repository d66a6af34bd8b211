// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package status

import "regexp"

// What the notes of events say of nodes, for those who read the life of a MiniCluster from its events. noteOf writes them.
var (
	// PlacedNote has the hostlist of an admission, by rank.
	PlacedNote = regexp.MustCompile(`^Placed \d+ of \d+ brokers on ([^ ;]+)`)
	// GrewNote has the ranks that came, an idset, and their nodes, a hostlist.
	GrewNote = regexp.MustCompile(`, ranks (\S+) on (\S+)$`)
	// LeftNote has the ranks that left, an idset.
	LeftNote = regexp.MustCompile(`, ranks (\S+) left$`)
)
