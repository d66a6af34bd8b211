// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// leavesWithin is how long pods may hold nodes that were not promised to them. Until then others wait for these nodes. Pods
// that stay for longer are like those of others: a controller is away, or somebody keeps the pods (--cascade=orphan, a long
// grace).
const leavesWithin = 2 * time.Minute

// lookAtLeaving notes since when ranks hold nodes that were not promised to them, and disowns those that stay. It returns
// when others stop to wait for the next one; zero if they wait for none.
func (s *Scheduler) lookAtLeaving(now time.Time) (next time.Time) {
	leaving := map[types.UID]map[int]time.Time{}
	for _, uid := range s.ledger.Holders() {
		var stay []int
		for _, rank := range s.unpromised(uid) {
			since, noted := s.leaving[uid][rank]
			if !noted {
				since = now
			}
			by := since.Add(leavesWithin)
			if !now.Before(by) {
				stay = append(stay, rank)
				continue
			}
			if leaving[uid] == nil {
				leaving[uid] = map[int]time.Time{}
			}
			leaving[uid][rank], next = since, elastic.Earliest(next, by)
		}
		s.ledger.Disown(uid, stay)
	}
	s.leaving = leaving
	return next
}

// leavers are the ranks of a MiniCluster for whose nodes others wait, rising.
func (s *Scheduler) leavers(uid types.UID) []int { return slices.Sorted(maps.Keys(s.leaving[uid])) }

// unpromised are the ranks of a MiniCluster that hold a node without a promise: their old pods still exist.
func (s *Scheduler) unpromised(uid types.UID) []int {
	promise := s.ledger.Promised(uid)
	return slices.DeleteFunc(s.ledger.Holds(uid), func(rank int) bool { return promise != nil && promise.Holds(rank) })
}
