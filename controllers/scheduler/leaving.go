// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/internal/ledger"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// leavesWithin is how long pods may hold nodes that were not promised to them. Until then others wait for these nodes. Pods
// that stay for longer are like those of others: a controller is away, or somebody keeps the pods (--cascade=orphan, a long
// grace).
const leavesWithin = 2 * time.Minute

// leaving says since when ranks, by MiniCluster, hold nodes that were not promised to them.
type leaving map[types.UID]map[int]time.Time

// step notes since when ranks hold nodes that were not promised to them, and disowns those that stay. It returns
// when others stop to wait for the next one; zero if they wait for none.
func (l *leaving) step(in *ledger.Ledger, now time.Time) (next time.Time) {
	left := leaving{}
	for _, uid := range in.Holders() {
		var stay []int
		for _, rank := range unpromised(in, uid) {
			since, noted := (*l)[uid][rank]
			if !noted {
				since = now
			}
			by := since.Add(leavesWithin)
			if !now.Before(by) {
				stay = append(stay, rank)
				continue
			}
			if left[uid] == nil {
				left[uid] = map[int]time.Time{}
			}
			left[uid][rank], next = since, elastic.Earliest(next, by)
		}
		in.Disown(uid, stay)
	}
	*l = left
	return next
}

// of are the ranks of a MiniCluster for whose nodes others wait, rising.
func (l leaving) of(uid types.UID) []int { return slices.Sorted(maps.Keys(l[uid])) }

// unpromised are the ranks of a MiniCluster that hold a node without a promise: their old pods still exist.
func unpromised(in *ledger.Ledger, uid types.UID) []int {
	promise := in.Promised(uid)
	return slices.DeleteFunc(in.Holds(uid), func(rank int) bool { return promise != nil && promise.Holds(rank) })
}
