// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// cordon leaves some nodes out of the total. Gangs that run there go on, and nobody else gets the nodes.
func (c *cluster) cordon(first, end int) *cluster {
	if c.room.owner == nil {
		c.room.owner = map[int]string{}
	}
	for node := first; node < end; node++ {
		c.room.owner[node] = "nobody"
		c.snap.Total.Add(Resources{"cpu": 1, "pods": 10}, -1)
	}
	for i := range c.snap.Running {
		r := &c.snap.Running[i]
		for rank, node := range c.room.held[r.ID] {
			if node >= first && node < end {
				r.Outside = append(r.Outside, rank)
			}
		}
		slices.Sort(r.Outside)
	}
	return c
}

// What gangs have on nodes that are left out of the total takes nothing of the rest from anybody.
func TestOutside(t *testing.T) {
	guaranteed := func(name string, cpu int64) Queue {
		return queue(name, func(q *Queue) { q.Guarantee = Resources{"cpu": cpu} })
	}
	lent := queue("b", func(q *Queue) { q.Reclaimable = true })
	a, b := inQueue("a"), inQueue("b")
	for name, tc := range map[string]struct {
		cluster *cluster
		want    string
	}{
		"beside a guarantee": {
			cluster: newCluster(10, easy("a"), guaranteed("b", 2)).run(with(gang("r", 5, 0), a), 5, 0).cordon(0, 5).wait(with(gang("a1", 3, 1), a)),
			want:    "a1 Admitted 3",
		},
		"a guarantee is kept of the rest": {
			cluster: newCluster(10, easy("a"), guaranteed("b", 2)).run(with(gang("r", 5, 0), a), 5, 0).cordon(0, 5).wait(with(gang("a1", 4, 1), a), with(gang("a2", 3, 1), a)),
			want:    "a1 TooLargeForQueue, a2 Admitted 3",
		},
		"a guarantee that is had there": {
			cluster: newCluster(10, easy("a"), guaranteed("b", 3)).run(with(gang("r", 5, 0), b), 5, 0).cordon(0, 5).wait(with(gang("a1", 3, 1), a), with(gang("a2", 2, 1), a)),
			want:    "a1 TooLargeForQueue, a2 Admitted 2",
		},
		"a capacity": {
			cluster: newCluster(10, queue("a", func(q *Queue) { q.Capacity = Resources{"cpu": 8} })).run(with(gang("r", 5, 0), a), 5, 0).cordon(0, 5).wait(with(gang("a1", 4, 1), a), with(gang("a2", 3, 1), a)),
			want:    "a1 QueueFull, a2 Admitted 3 by backfill",
		},
		"nothing is free when it ends": { // so the head does not wait for that
			cluster: newCluster(10, easy("a"), guaranteed("b", 3)).run(with(gang("r", 5, 0), a), 5, 0, endsAt(1000)).run(with(gang("s", 3, 0), a), 3, 0, endsAt(5000)).cordon(0, 5).
				wait(with(gang("a1", 2, 1), a), with(gang("a2", 1, 2), b)),
			want: "a1 NoRoom, a2 Admitted 1",
		},
		"a share is of the rest": {
			cluster: newCluster(9, easy("a"), lent).run(with(gang("r", 5, 0), b), 5, 0).run(with(elasticGang("s", 1, 4, 0, 0), b), 4, 1, malleable).cordon(0, 5).wait(with(gang("a1", 2, 1), a)),
			want:    "a1 NoRoom, s drains [2 3] (reclaim)",
		},
		"and no more than the share": {
			cluster: newCluster(9, easy("a"), lent).run(with(gang("r", 5, 0), b), 5, 0).run(with(elasticGang("s", 1, 4, 0, 0), b), 4, 1, malleable).cordon(0, 5).wait(with(gang("a1", 3, 1), a)),
			want:    "a1 NoRoom",
		},
		"from gangs that are in part outside": {
			cluster: newCluster(16, easy("a"), lent).run(with(gang("r", 8, 0), b), 8, 1).run(with(gang("s", 8, 0), b), 8, 0).cordon(0, 3).cordon(13, 16).wait(with(gang("a1", 5, 1), a)),
			want:    "a1 NoRoom, r is evicted (reclaim)",
		},
		"while it leaves": {
			cluster: newCluster(9, easy("a"), lent).run(with(gang("r", 5, 0), b), 5, 0, ending).run(with(elasticGang("s", 1, 4, 0, 0), b), 4, 1, malleable).cordon(0, 5).wait(with(gang("a1", 2, 1), a)),
			want:    "a1 NoRoom, s drains [2 3] (reclaim)",
		},
		"ranks that leave": {
			cluster: newCluster(10, easy("a"), guaranteed("b", 2)).run(with(gang("r", 5, 0), a), 5, 0, func(r *Running) { r.Draining = []int{3, 4} }).
				run(with(gang("s", 2, 0), a), 2, 0, endsAt(500)).cordon(0, 5).wait(with(gang("a1", 3, 1), a), with(with(gang("a2", 1, 2), a), limited(300*time.Second))),
			want: "a1 NoRoom, a2 Admitted 1 by backfill",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Schedule(tc.cluster.snap, tc.cluster.room, noon.Add(100*time.Second))
			if got := say(got); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// Whatever ends, leaves or starts: what nobody uses of the total is what is free on the nodes that count.
func TestFreeIsOnNodesThatCount(t *testing.T) {
	for seed := range uint64(500) {
		random := rand.New(rand.NewPCG(seed, 1))
		cluster := newCluster(20, easy("a"), easy("b"))
		for i := range 5 {
			cluster.run(with(gang(fmt.Sprint("r", i), 1+random.IntN(4), i), inQueue([]string{"a", "b"}[i%2])), 1+random.IntN(4), 0, malleable)
		}
		first := random.IntN(20)
		cluster.cordon(first, first+random.IntN(21-first))
		for i := range 5 {
			cluster.wait(with(gang(fmt.Sprint("w", i), 1+random.IntN(4), i), inQueue("a")))
		}
		c := newCycle(cluster.snap, cluster.room, noon)
		state, left := c.state, slices.Clone(c.runs)
		for range 10 {
			state = state.snapshot()
			i := random.IntN(len(left))
			r := left[i]
			has := state.room.(*toyRoom).ranks(r.ID)
			switch random.IntN(4) {
			case 0:
				state.end(r, len(has))
				left = slices.Delete(left, i, i+1)
			case 1:
				state.lose(r, random.IntN(len(has)), "w0")
			case 2:
				some := has[1+random.IntN(len(has)):]
				state = state.after([]expectedEnd{{id: r.ID, user: r.user, needs: r.needs, ranks: append([]int{}, some...), pods: len(some)}})
			default:
				if e := c.queues[0].all[random.IntN(5)]; len(state.room.(*toyRoom).held[e.ID]) == 0 {
					state.place(e, 1+random.IntN(4))
				}
			}
			free := int64(0)
			room := state.room.(*toyRoom)
			for node, slots := range room.free {
				if room.owner[node] == "" {
					free += int64(slots)
				}
			}
			sum := int64(0)
			for _, q := range c.queues {
				sum += state.has(q, "cpu")
			}
			if sum != state.total["cpu"]-free {
				t.Fatalf("seed %d: the queues have %d of %v, of which %d are free", seed, sum, state.total, free)
			}
			if len(left) == 0 {
				break
			}
		}
		sums := func(s *clusterState) string { return fmt.Sprint(s.used, s.beside, s.outside, s.users) }
		if got, want := sums(c.state), sums(newCycle(cluster.snap, cluster.room, noon).state); got != want {
			t.Fatalf("seed %d: the state before has changed: %s, was %s", seed, got, want)
		}
	}
}
