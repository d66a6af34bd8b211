// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// startsWithin is how long after its admission a MiniCluster counts as starting at most, and how long the next waits for
// one that makes its pods.
const startsWithin = 10 * time.Second

// started records that a MiniCluster runs its command.
func (s *Scheduler) started(uid types.UID) {
	if _, ok := s.starting[uid]; ok {
		delete(s.starting, uid)
		s.ask()
	}
}

// forgetStarts drops those that have taken too long to start.
func (s *Scheduler) forgetStarts(now time.Time) {
	maps.DeleteFunc(s.starting, func(_ types.UID, at time.Time) bool { return now.Sub(at) >= startsWithin })
}

// unmade is how many pods of those that start do not exist yet, and when time alone makes that less; zero if it does not.
// Where no pod comes at all, nobody waits for long.
func (s *Scheduler) unmade(now time.Time) (unmade int, next time.Time) {
	s.forgetStarts(now)
	for uid, admitted := range s.starting {
		lacks, none := s.ledger.Unmade(uid)
		until := admitted.Add(startsWithin)
		if none {
			until = admitted.Add(aheadPatience)
		}
		if lacks > 0 && now.Before(until) {
			unmade, next = unmade+lacks, elastic.Earliest(next, until)
		}
	}
	return unmade, next
}

// resume says when those that were put off may get nodes: once some of the unmade pods have come, or at the time that it
// returns. Cycles take time, so some pods have to come for each.
func (s *Scheduler) resume(putOff bool, now time.Time) (at time.Time) {
	s.resumeAt = 0
	if !putOff {
		return time.Time{}
	}
	unmade, at := s.unmade(now)
	s.resumeAt = s.ledger.Came() + max(unmade-s.StartingPods+1, s.StartingPods/4, 1)
	return at
}
