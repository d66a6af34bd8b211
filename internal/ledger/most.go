// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"crypto/sha256"
	"maps"
	"math"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// maxMost bounds the answers that are remembered: more than the kinds of pods that wait in a cluster.
const maxMost = 4096

// MostPods is how many pods with these requests the nodes could hold if they were empty and up, with the nodes that
// went away in the last hour. Whether the pods may run there does not matter. Waiting gangs ask often, so the answer is
// remembered until nodes or their daemons change.
func (l *layout) MostPods(requests fluxion.Resources) int {
	var text [256]byte
	key := sha256.Sum256(textOf(text[:0], requests)) // users choose how long the text is
	if known, ok := l.most[key]; ok {
		return known
	}
	if len(l.most) >= maxMost || l.most == nil {
		l.most = map[[sha256.Size]byte]int{}
	}
	l.most[key] = l.countMost(requests)
	return l.most[key]
}

func (l *layout) countMost(requests fluxion.Resources) int {
	most, capacity := 0, fluxion.Resources{}
	for name, n := range l.nodes {
		if l.away[name] == nil && !n.others {
			clear(capacity)
			maps.Copy(capacity, n.capacity)
			l.withoutDaemons(n, capacity)
			most += mostOn(capacity, requests)
		}
	}
	for _, a := range l.away {
		if !a.before.others {
			most += mostOn(a.before.capacity, requests)
		}
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
