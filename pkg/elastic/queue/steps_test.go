// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// counted counts the steps of a room: one for each question or copy, and one for each pod that gets or loses a node.
type counted struct {
	Room
	steps *int
}

func (r counted) count(n int) { *r.steps += n }

func (r counted) Place(id string, sizes []int) []string {
	nodes := r.Room.Place(id, sizes)
	r.count(1 + len(nodes))
	return nodes
}

func (r counted) Fits(id string, limit int) int {
	r.count(1)
	return r.Room.Fits(id, limit)
}

func (r counted) FitsApart(id string, limit int) int {
	r.count(1)
	return r.Room.FitsApart(id, limit)
}

func (r counted) CouldHold(id string, sizes []int) bool {
	r.count(1)
	return r.Room.CouldHold(id, sizes)
}

func (r counted) CouldHoldBeside(id string, sizes []int, others []string) bool {
	r.count(1 + len(others))
	return r.Room.CouldHoldBeside(id, sizes, others)
}

func (r counted) Why(id string, sizes []int) string {
	r.count(1)
	return r.Room.Why(id, sizes)
}

func (r counted) Amount(resource, id, other string) (free, all int64) {
	r.count(1)
	return r.Room.Amount(resource, id, other)
}

func (r counted) Elsewhere(id, other string) []int {
	ranks := r.Room.Elsewhere(id, other)
	r.count(1 + len(ranks))
	return ranks
}

func (r counted) Meet(id, other, without string) bool {
	r.count(1)
	return r.Room.Meet(id, other, without)
}

func (r counted) Grow(id string, n int) []elastic.Pod {
	pods := r.Room.Grow(id, n)
	r.count(1 + len(pods))
	return pods
}

func (r counted) Victims(id string, n int, taker string) []int {
	ranks := r.Room.Victims(id, n, taker)
	r.count(1 + len(ranks))
	return ranks
}

func (r counted) Shrink(id string, ranks []int) {
	r.count(1 + len(ranks))
	r.Room.Shrink(id, ranks)
}

func (r counted) Release(id string) {
	r.count(1 + len(r.Room.(*toyRoom).held[id]))
	r.Room.Release(id)
}

func (r counted) Snapshot() Room {
	r.count(1)
	return counted{r.Room.Snapshot(), r.steps}
}

func (r counted) With(queue string, nodes []int) Room {
	r.count(1)
	return counted{r.Room.With(queue, nodes), r.steps}
}

// clusterOf is a cluster with n gangs that run and n that wait. The same seed gives the same kind of cluster for each n.
func clusterOf(seed uint64, n int) *cluster {
	kind := rand.New(rand.NewPCG(seed, 1))
	var queues []Queue
	for i := range 1 + kind.IntN(8) {
		q := Queue{
			Name: fmt.Sprint("q", i), Weight: 1 + kind.IntN(3), Priority: int32(kind.IntN(2)), Reclaimable: kind.IntN(2) > 0, Patience: time.Minute,
			Ordering: []Ordering{ByPriority, ByAge, ByUser, BySlowdown}[kind.IntN(4)], Backfill: []Backfill{EASY, Conservative}[kind.IntN(2)],
		}
		if kind.IntN(4) == 0 {
			q.Users.HalfLife = time.Hour
		}
		queues = append(queues, q)
	}
	free, wide, malleables, limits, classes := kind.IntN(3)*n/10, 1+kind.IntN(3), kind.IntN(4), kind.IntN(3), 1+kind.IntN(3)
	c, random, left := newCluster(2*n+free, queues...), rand.New(rand.NewPCG(seed, 2)), 2*n
	if seed%2 == 0 { // a part of the nodes is guaranteed
		for i := range queues {
			queues[i].Guarantee = Resources{"cpu": int64(kind.IntN(n/2/len(queues) + 1))}
		}
		c.snap.Queues = queues
	}
	some := func(g *Gang) {
		g.Queue, g.User, g.Priority, g.Class = queues[random.IntN(len(queues))].Name, fmt.Sprint("u", random.IntN(3)), int32(random.IntN(3)), fmt.Sprint(random.IntN(classes))
		if random.IntN(3) < limits {
			g.Limit = time.Duration(1+random.IntN(48)) * time.Hour
		}
	}
	for i := 0; i < n && left > 0; i++ {
		size := 1 + random.IntN(min(3, left))
		c.run(with(elasticGang(fmt.Sprintf("r%04d", i), 1, size, 0, 0), some), size, random.IntN(3000), func(r *Running) {
			if r.Malleable = random.IntN(4) < malleables; r.Limit > 0 {
				r.End = r.Admitted.Add(r.Limit)
			}
		})
		left -= size
	}
	for i := range n {
		least := 1 + random.IntN(4)
		if i < wide*len(queues) {
			least = 1 + random.IntN(n)
		}
		c.wait(with(elasticGang(fmt.Sprintf("w%04d", i), least, least*(1+random.IntN(2)), i, 0), some))
	}
	return c
}

// stepsOf is how many steps a cycle takes.
func stepsOf(c *cluster) (steps int) {
	Schedule(c.snap, counted{c.room, &steps}, noon.Add(time.Hour))
	return steps
}

// A cycle for four times as many gangs takes at most six times as many steps, in all these clusters together, and at most 300
// for each gang in any of them. So does the last cluster alone, in which gangs of many sizes start in a queue with
// reservations.
func TestSteps(t *testing.T) {
	const most = 300
	total, last := map[int]int{}, map[int]int{}
	for _, n := range []int{100, 400} {
		for seed := range uint64(41) {
			if seed == 40 {
				seed = 65
			}
			steps := stepsOf(clusterOf(seed, n))
			if steps > most*2*n {
				t.Errorf("seed %d: %d steps for %d gangs", seed, steps, 2*n)
			}
			total[n] += steps
			last[n] = steps
		}
	}
	for _, steps := range []map[int]int{total, last} {
		if steps[400] > 6*steps[100] {
			t.Errorf("%d steps become %d", steps[100], steps[400])
		}
		t.Logf("%d steps become %d", steps[100], steps[400])
	}
}

// Gangs of a queue get larger sizes, one after the other, and each takes nodes for which heads of lower queues wait. For four
// times as many such gangs, a cycle takes at most six times as many steps.
func TestStepsOfLargerSizes(t *testing.T) {
	larger := func(n int) *cluster {
		high := easy("high")
		high.Priority = 1
		queues := []Queue{high}
		for i := range 4 {
			queues = append(queues, easy(fmt.Sprint("low", i)))
		}
		c := newCluster(3*n, queues...)
		for i := range n {
			c.run(with(gang(fmt.Sprintf("r%04d", i), 1, i), inQueue("low0"), limited(3*time.Hour)), 1, i)
			c.wait(with(elasticGang(fmt.Sprintf("h%04d", i), 1, 2, i, 0), inQueue("high"), limited(48*time.Hour)))
		}
		for _, q := range queues[1:] {
			c.wait(with(gang("head of "+q.Name, n+n/2, 0), inQueue(q.Name)))
		}
		return c
	}
	few, many := stepsOf(larger(50)), stepsOf(larger(200))
	if many > 6*few {
		t.Errorf("%d steps become %d", few, many)
	}
	t.Logf("%d steps become %d", few, many)
}
