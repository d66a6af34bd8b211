// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

// mostLearned is how many users the scheduler knows by how long their MiniClusters take.
const mostLearned = 1000

// learning is how long MiniClusters have taken, and those that have ended and are still to be learned from.
type learning struct {
	*queue.Runtimes
	ended []*v1alpha2.MiniCluster
}

// note keeps a MiniCluster that has ended for the next cycle, which knows the queues.
func (l *learning) note(mc *v1alpha2.MiniCluster) {
	if mc.Status.CompletionTime != nil {
		l.ended = append(l.ended, mc)
	}
}

// step learns from the MiniClusters that have ended, the last of them last.
func (l *learning) step(queues map[string]*v1alpha2.MiniClusterQueue) {
	slices.SortStableFunc(l.ended, func(a, b *v1alpha2.MiniCluster) int {
		return a.Status.CompletionTime.Compare(b.Status.CompletionTime.Time)
	})
	for _, mc := range l.ended {
		if q := queues[mc.Status.Queue]; q != nil {
			if r, ended, ok := state.Lasted(mc, q); ok {
				l.Learn(&r, ended)
			}
		}
	}
	l.ended = nil
}
