// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"cmp"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// startsWithin is how long after its admission one counts as starting at most.
const startsWithin = 10 * time.Second

// ahead is how far the objects of one that waits are made.
type ahead int

const (
	aheadNot ahead = iota
	// aheadMaking: it was told to make them.
	aheadMaking
	// aheadMade: its pods are there, and wait.
	aheadMade
)

// Soon reports whether a MiniCluster that waits is to make its objects before it has nodes,
// so that it starts the sooner once it has. made says that its pods are there.
func (s *Scheduler) Soon(mc *v1alpha2.MiniCluster, made bool) bool {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	e := s.entries[client.ObjectKeyFromObject(mc)]
	if e == nil {
		return false
	}
	if made && e.ahead != aheadMade {
		e.ahead = aheadMade
		s.ask() // for the next
	}
	return e.ahead != aheadNot
}

// lookAhead chooses the next MiniCluster to make its objects ahead, if there is one, and says
// when to look again. They make them one after the other, in the order of their queues, while
// nobody else starts, and have AheadPods pods at most. A quota would count the pods, so where
// there is one none are made.
func (s *Scheduler) lookAhead(now time.Time) (told []types.NamespacedName, lookAgain time.Time) {
	for uid, admitted := range s.starting {
		if again := admitted.Add(startsWithin); now.Before(again) {
			return nil, again
		}
		delete(s.starting, uid)
	}
	var candidates []*entry
	pods := 0
	for _, e := range s.entries {
		switch {
		case e.promise != nil:
		case e.ahead == aheadMaking:
			return nil, time.Time{}
		case e.ahead == aheadMade:
			pods += int(e.miniCluster.Spec.MaxSize)
		case e.mayMakeAhead:
			candidates = append(candidates, e)
		}
	}
	if len(candidates) == 0 {
		return nil, time.Time{}
	}
	next := slices.MinFunc(candidates, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(a.decision.Position, b.decision.Position), cmp.Compare(a.queue, b.queue))
	})
	if pods+int(next.miniCluster.Spec.MaxSize) > s.AheadPods {
		return nil, time.Time{}
	}
	next.ahead = aheadMaking
	return []types.NamespacedName{client.ObjectKeyFromObject(next.miniCluster)}, time.Time{}
}

// started says that one runs that was given nodes.
func (s *Scheduler) started(uid types.UID) {
	if _, ok := s.starting[uid]; ok {
		delete(s.starting, uid)
		s.ask()
	}
}

// startsInTime reports whether a gang that waits will start if it waits long enough.
func startsInTime(verdict elastic.Verdict) bool {
	return verdict == elastic.NoRoom || verdict == elastic.WaitingForTurn || verdict == elastic.WaitingForSize
}
