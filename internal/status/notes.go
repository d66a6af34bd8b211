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

// RoomNote has the number of brokers for which there is room, in the message of a MiniCluster that waits: now, or in the
// whole cluster if that is too small.
var RoomNote = regexp.MustCompile(`\bha(?:s|ve) room (?:now )?for (?:more than )?(\d+)\b`)
