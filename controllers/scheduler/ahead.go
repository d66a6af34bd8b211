// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

const (
	// aheadPatience is how long the next waits for those that start.
	aheadPatience = 3 * time.Second
	// quotaPatience is how long pods that were made ahead wait for quota. They may wait for ever.
	quotaPatience = 5 * time.Minute
)

// lookAhead chooses the next MiniCluster to make its objects ahead, and returns when to look
// again. They make their objects one after the other, in the order of their queues. MiniClusters
// that start go first for a while.
func (s *Scheduler) lookAhead(now time.Time) (told []types.NamespacedName, lookAgain time.Time) {
	next, busyUntil := s.nextAhead(now)
	if next == nil {
		s.aheadSince = time.Time{}
		return nil, busyUntil
	}
	if s.aheadSince.IsZero() {
		s.aheadSince = now
	}
	if patient := s.aheadSince.Add(aheadPatience); len(s.starts.all) > 0 && now.Before(patient) {
		return nil, patient
	}
	next.ahead, next.aheadAt, s.aheadSince = elastic.AheadMaking, now, time.Time{}
	return []types.NamespacedName{next.NamespacedName}, time.Time{}
}

// nextAhead is the next MiniCluster that may make its pods within the limit; nil if there is
// none, or until another one has made its own. In namespaces with a quota no pods are made ahead,
// because the quota would count them.
func (s *Scheduler) nextAhead(now time.Time) (next *entry, busyUntil time.Time) {
	var candidates []*entry
	left := s.AheadPods
	for _, e := range s.entries {
		until := e.aheadAt.Add(startsWithin)
		switch {
		case !e.mayMakeAhead || e.ahead == elastic.AheadUnwanted || s.ledger.Assumed(e.miniCluster.UID):
		case e.ahead == elastic.AheadNothing:
			candidates = append(candidates, e)
		case e.ahead == elastic.AheadMaking && now.Before(until):
			return nil, until
		default:
			left -= int(state.MaxSize(e.miniCluster))
		}
	}
	for _, e := range candidates {
		if int(state.MaxSize(e.miniCluster)) <= left && (next == nil || e.goesBefore(next)) {
			next = e
		}
	}
	return next, time.Time{}
}

// goesBefore reports whether a MiniCluster makes its pods before another. Those that wait for quota
// come last, in the order in which they were made: Kueue does not tell its own.
func (e *entry) goesBefore(other *entry) bool {
	if e.awaitsQuota != other.awaitsQuota {
		return other.awaitsQuota
	}
	if e.awaitsQuota {
		mc, than := e.miniCluster, other.miniCluster
		return cmp.Or(mc.CreationTimestamp.Compare(than.CreationTimestamp.Time), cmp.Compare(mc.UID, than.UID)) < 0
	}
	return cmp.Or(cmp.Compare(e.decision.Position, other.decision.Position), cmp.Compare(e.queue, other.queue)) < 0
}

// startsInTime reports whether a waiting gang will start without any change but time.
func startsInTime(verdict elastic.Verdict) bool {
	return verdict == elastic.NoRoom || verdict == elastic.WaitingForTurn || verdict == elastic.WaitingForSize || verdict.AwaitsNodes()
}
