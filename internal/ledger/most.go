// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"math"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// MostPods is how many pods with these requests the nodes could hold if they were empty and up, with the nodes that
// went away in the last hour. Whether the pods may run there does not matter.
func (l *Ledger) MostPods(requests fluxion.Resources) int {
	most := 0
	for name, n := range l.nodes {
		if l.away[name] == nil && !n.others {
			most += mostOn(l.capacity(n), requests)
		}
	}
	for _, a := range l.away {
		most += mostOn(a.before.capacity, requests)
	}
	return most
}

// mostOn is how many pods with these requests a node with this capacity could hold.
func mostOn(capacity, requests fluxion.Resources) int {
	most := int64(math.MaxInt32)
	for name, amount := range requests {
		switch {
		case name == fluxion.WholeNode && amount > 0:
			most = min(most, 1)
		case amount > 0:
			most = min(most, max(capacity[name], 0)/amount)
		}
	}
	return int(most)
}
