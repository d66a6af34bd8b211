// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

// mostLearned is how many users the scheduler knows by how long their MiniClusters take.
const mostLearned = 1000

// foundMiniCluster looks at a MiniCluster that the cache has not shown before. Many have finished before a restart of
// the manager.
func (s *Scheduler) foundMiniCluster(_ context.Context, e event.CreateEvent, _ requests) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	mc := e.Object.(*v1alpha2.MiniCluster)
	s.noteEnd(mc)
	s.noteFound(mc)
}

// noteEnd keeps a MiniCluster that has ended for the next cycle, which knows the queues.
func (s *Scheduler) noteEnd(mc *v1alpha2.MiniCluster) {
	if mc.Status.CompletionTime != nil {
		s.ended = append(s.ended, mc)
	}
}

// learnRuntimes learns from the MiniClusters that have ended, the last of them last.
func (s *Scheduler) learnRuntimes(queues map[string]*v1alpha2.MiniClusterQueue) {
	slices.SortStableFunc(s.ended, func(a, b *v1alpha2.MiniCluster) int {
		return a.Status.CompletionTime.Compare(b.Status.CompletionTime.Time)
	})
	for _, mc := range s.ended {
		if q := queues[mc.Status.Queue]; q != nil {
			if r, ended, ok := state.Lasted(mc, q); ok {
				s.runtimes.Learn(&r, ended)
			}
		}
	}
	s.ended = nil
}
