// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// seat is a rank of a MiniCluster.
type seat struct {
	uid  types.UID
	rank int
}

// leavesWithin is how long pods may hold nodes that were not promised to them. Until then others wait for these nodes. Pods
// that stay for longer are like those of others: a controller is away, or somebody keeps the pods (--cascade=orphan, a long
// grace).
const leavesWithin = 2 * time.Minute

// awaited are those of some ranks without a promise for whose nodes others wait.
func (s *Scheduler) awaited(uid types.UID, ranks []int, now time.Time) []int {
	var out []int
	for _, rank := range ranks {
		since, leaves := s.leaving[seat{uid, rank}]
		if !leaves {
			since = now
			s.leaving[seat{uid, rank}] = now
		}
		if now.Before(since.Add(leavesWithin)) {
			out = append(out, rank)
		}
	}
	return out
}

// lookAtLeaving forgets the ranks that have left, and returns when the next one should have; zero if none leaves.
func (s *Scheduler) lookAtLeaving(now time.Time) (next time.Time) {
	for of, since := range s.leaving {
		by := since.Add(leavesWithin)
		if s.known[of.uid] == nil || !slices.Contains(s.unpromised(of.uid), of.rank) {
			delete(s.leaving, of)
		} else if now.Before(by) {
			next = elastic.Earliest(next, by)
		}
	}
	return next
}

// unpromised are the ranks of a MiniCluster that hold a node without a promise: their old pods still exist.
func (s *Scheduler) unpromised(uid types.UID) []int {
	promise := s.ledger.Promised(uid)
	return slices.DeleteFunc(s.ledger.Holds(uid), func(rank int) bool { return promise != nil && slices.Contains(promise.Ranks(), rank) })
}
