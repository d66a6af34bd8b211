// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"fmt"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

// BenchmarkLarge measures a cycle of a large cluster: 10,000 nodes of which 600 are free, 4,000 gangs that run, half of them
// malleable, and 5,000 that wait in 40 queues. The head of each queue wants more than what is free, and preempts others or
// does not.
func BenchmarkLarge(b *testing.B) {
	for _, backfill := range []queue.Backfill{queue.EASY, queue.Conservative} {
		for _, preempts := range []bool{false, true} {
			b.Run(fmt.Sprintf("%s/preempts=%t", backfill, preempts), func(b *testing.B) {
				room, snapshot := large(b, backfill, preempts)
				for b.Loop() {
					got := queue.Schedule(snapshot, room, fixture.Noon)
					if len(got.Evictions) > 0 != preempts {
						b.Fatalf("%d are evicted", len(got.Evictions))
					}
				}
			})
		}
	}
}

// large is a cluster with 250 nodes and three users for each of its queues.
func large(b *testing.B, backfill queue.Backfill, preempts bool) (queue.Room, queue.Snapshot) {
	b.Helper()
	const nodes, queues = 10000, 40
	s := newScene(b, nodes)
	for i := range queues {
		s.Queues = append(s.Queues, queue.Queue{Name: fmt.Sprintf("queue-%02d", i), Weight: 1 + i%3, Ordering: queue.ByPriority, Backfill: backfill, Patience: time.Hour})
	}
	first := 0
	for i := range 4000 {
		size := []int{1, 1, 2, 3, 5}[i%5]
		r := s.run(first, s.Queues[i%queues].Name, cmp.Or(i%2, size), size)
		r.User, r.Limit = fmt.Sprintf("user-%d", i%3), 48*time.Hour
		r.Admitted, r.End = fixture.Noon.Add(-time.Hour), fixture.Noon.Add(time.Duration(1+i%2879)*time.Minute)
		if first += size; first >= nodes-600 {
			break
		}
	}
	for i := range 5000 {
		size := []int{1, 2, 4, 8, 16}[i/queues%5]
		g := s.gang(fmt.Sprintf("waits-%05d", i), s.Queues[i%queues].Name, size, size)
		g.User, g.Created, g.Limit = fmt.Sprintf("user-%d", i%3), fixture.Noon.Add(time.Duration(i-5000)*time.Second), time.Duration(10+i%300)*time.Minute
		if i < queues {
			g.Sizing.Min, g.Sizing.Size, g.Sizing.Operand = 700, 700, 1
			if preempts {
				g.Priority = 10
			}
		}
		s.Waiting = append(s.Waiting, g)
	}
	return s.room(), s.Snapshot
}
