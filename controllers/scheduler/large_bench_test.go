// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

// BenchmarkLarge measures a cycle of a large cluster: 10,000 nodes of which 600 are free, 3,900 gangs that run, half of them
// malleable, and 5,000 that wait in 40 queues. The head of each queue wants more than what is free, and preempts others or
// does not. More than what is free may be guaranteed to some queues.
func BenchmarkLarge(b *testing.B) {
	for _, backfill := range []queue.Backfill{queue.EASY, queue.Conservative} {
		for name, of := range map[string]struct {
			priority   int32
			guaranteed int // queues
		}{"waits": {0, 0}, "preempts": {1, 0}, "guaranteed": {0, 10}} {
			b.Run(fmt.Sprintf("%s/%s", backfill, name), func(b *testing.B) {
				s := large(b, backfill, of.priority)
				for i := range of.guaranteed {
					s.Queues[i].Guarantee = queue.Resources{"cpu": 300 * sceneRequests["cpu"]}
				}
				room := s.room()
				for b.Loop() {
					got := queue.Schedule(s.Snapshot, room, fixture.Noon)
					if (len(got.Evictions) > 0) != (of.priority > 0) {
						b.Fatalf("%d are evicted", len(got.Evictions))
					}
				}
			})
		}
	}
}

// large is a cluster with 250 nodes, three users and a head of a priority for each of its queues.
func large(b *testing.B, backfill queue.Backfill, priority int32) *scene {
	b.Helper()
	const nodes, free, queues, waiting = 10000, 600, 40, 5000
	s := newScene(b, nodes)
	for i := range queues {
		s.Queues = append(s.Queues, queue.Queue{Name: fmt.Sprintf("queue-%02d", i), Weight: 1 + i%3, Ordering: queue.ByPriority, Backfill: backfill, Patience: time.Hour})
	}
	user := func(i int) string { return fmt.Sprintf("user-%d", i%3) }
	for i, first := 0, 0; first < nodes-free; i++ {
		size := []int{1, 1, 2, 3, 5}[i%5]
		least := size
		if i%2 == 1 {
			least = 1
		}
		r := s.run(first, s.Queues[i%queues].Name, least, size)
		r.User, r.Limit = user(i), 48*time.Hour
		r.Admitted, r.End = fixture.Noon.Add(-time.Hour), fixture.Noon.Add(time.Duration(1+i%2879)*time.Minute)
		first += size
	}
	for i := range waiting {
		size := []int{1, 2, 4, 8, 16}[i/queues%5]
		head := i < queues
		if head {
			size = free + 100
		}
		g := s.gang(fmt.Sprintf("waits-%05d", i), s.Queues[i%queues].Name, size, size)
		g.User, g.Created, g.Limit = user(i), fixture.Noon.Add(time.Duration(i-waiting)*time.Second), time.Duration(10+i%300)*time.Minute
		if head {
			g.Priority = priority
		}
		s.Waiting = append(s.Waiting, g)
	}
	return s
}
