// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package status

import "regexp"

// RoomNote has the number of brokers for which there is room, in the message of a MiniCluster that waits: now, or in the
// whole cluster if that is too small.
var RoomNote = regexp.MustCompile(`\bha(?:s|ve) room (?:now )?for (?:more than )?(\d+)\b`)
