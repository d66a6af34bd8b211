// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"maps"
	"math"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/internal/ledger"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

const (
	// startsWithin is how long after its admission, or its last pod, a MiniCluster counts as starting at most.
	startsWithin = 10 * time.Second
	// firstPatience is how long the next wait for a pod of one that starts, before the control plane has made any.
	firstPatience = 3 * time.Second
	// quickly is the shortest time for which the next wait for a pod of one that starts.
	quickly = time.Second
	// lastStarts is how many starts show how soon the control plane makes pods.
	lastStarts = 8
)

// starts are the MiniClusters with nodes that do not run yet, and how soon the control plane makes their pods.
type starts struct {
	all map[types.UID]*start
	// firstAfter are the times from the last admissions to the first pods that came.
	firstAfter []time.Duration
	// silent counts those that were given up since the last pod came, of any.
	silent int
	// resumeAt is the count of brokers that have come at which MiniClusters get nodes that were put off; 0 if none was.
	resumeAt int
}

// start is a MiniCluster that starts. Once no pod of it has come for too long, it is late and nobody waits for it.
type start struct {
	priority int32
	// last is when its last pod came; before the first has come, it is the time of the admission.
	last        time.Time
	began, late bool
}

// add begins a start.
func (s *starts) add(uid types.UID, priority int32, now time.Time) {
	s.all[uid] = &start{priority: priority, last: now}
}

// came records that a pod was made.
func (s *starts) came(uid types.UID, now time.Time) {
	s.silent = 0
	one := s.all[uid]
	if one == nil {
		return
	}
	if !one.began {
		s.firstAfter = append(s.firstAfter, now.Sub(one.last))
		s.firstAfter = s.firstAfter[max(len(s.firstAfter)-lastStarts, 0):]
	}
	one.last, one.began = now, true
}

// patience is for how long the next wait for a pod of one that starts: the control plane has made the first pod of another in
// a quarter of that. It is halved for each one that makes no pods while nobody does: then the control plane does nothing
// from which they would keep it.
func (s *starts) patience() time.Duration {
	patience := firstPatience
	if len(s.firstAfter) > 0 {
		patience = min(max(4*slices.Min(s.firstAfter), quickly), startsWithin)
	}
	return patience >> min(s.silent, 3)
}

// pass drops those that have taken too long, and lets nobody wait for those that make no pods. unmade is how many pods one lacks.
func (s *starts) pass(unmade func(types.UID) int, now time.Time) {
	patience, silent := s.patience(), 0
	maps.DeleteFunc(s.all, func(uid types.UID, one *start) bool {
		if !one.late && now.Sub(one.last) >= patience && unmade(uid) > 0 {
			one.late, silent = true, silent+1
		}
		return now.Sub(one.last) >= startsWithin
	})
	s.silent += silent
}

// unmade is how many pods are to be made of those that start, by priority, and when time alone makes that less; zero if it does not.
func (s *starts) unmade(unmade func(types.UID) int) (byPriority queue.Unmade, next time.Time) {
	byPriority = queue.Unmade{}
	patience := s.patience()
	for uid, one := range s.all {
		if lacks := unmade(uid); lacks > 0 && !one.late {
			byPriority[one.priority] += lacks
			next = elastic.Earliest(next, one.last.Add(patience))
		}
	}
	return byPriority, next
}

// resume says when those that were put off because of the most unmade pods may get nodes: once some of the unmade pods have come, or at the time that it
// returns. Cycles take time, so some pods have to come for each.
func (s *starts) resume(decided []*entry, in *ledger.Ledger, most int) (at time.Time) {
	s.resumeAt = 0
	priority, putOff := int32(math.MinInt32), false // the highest
	for _, e := range decided {
		if e.decision.PutOff {
			priority, putOff = max(priority, e.gang.Priority), true
		}
	}
	if !putOff {
		return time.Time{}
	}
	unmade, at := s.unmade(in.Unmade)
	came, _ := in.Came()
	s.resumeAt = came + max(unmade.From(priority)-most+1, most/4, 1)
	return at
}
