// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// A step of a profile counts the room of held gangs as if they had their nodes, and can give each its nodes, whatever comes and
// goes.
func TestStepsHoldAsClustersDo(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		cluster := newCluster(12, queue("default", func(q *Queue) { q.Capacity = Resources{"cpu": 20} }), queue("other", func(q *Queue) { q.Guarantee = Resources{"cpu": int64(seed % 4)} }))
		cluster.room = newToyRoom(12, 1+int(seed%3))
		for i := range 12 {
			id := fmt.Sprint("g", i)
			cluster.wait(with(gang(id, 1+random.IntN(6), i), func(g *Gang) { g.Confined = i%5 == 0 }))
			if first := random.IntN(3) * 4; first > 0 {
				cluster.on(first, 12, id)
			}
		}
		c := newCycle(cluster.snap, cluster.room, noon)
		all := c.queues[0].all
		step := profileStep{state: c.state.snapshot()}
		settled := func() profileStep {
			step.shared = true
			other := step
			other.settle()
			return other
		}
		sizes, sum := map[string]int{}, 0
		for range 40 {
			e := all[random.IntN(len(all))]
			size, has := e.least(), sizes[e.ID]
			switch other := settled(); {
			case random.IntN(5) == 0: // a copy goes on, and what happens to the original does not matter
				step.shared = true
				other = step
				if has > 0 {
					other.unplace(e, has)
				}
				other.place(e, 1)
				other.settle()
			case has > 0:
				delete(sizes, e.ID)
				sum -= has
				step.unplace(e, has)
			default:
				fits, want := step.fits(e, size), other.state.fits(e, size)
				if fits != want {
					t.Fatalf("seed %d: %d of %s fit, want %d", seed, fits, e.ID, want)
				}
				if fits == size {
					sizes[e.ID] = size
					sum += size
					if !step.place(e, size) {
						t.Fatalf("seed %d: %s does not fit", seed, e.ID)
					}
				}
			}
			got := settled()
			if used, tally := got.state.has(c.queues[0], "cpu"), got.state.users[0]; used != int64(sum) || tally.pods != sum || tally.gangs != len(sizes) {
				t.Fatalf("seed %d: %d used, %+v, want %v", seed, used, tally, sizes)
			}
			room, free := got.state.room.(*toyRoom), 12*(1+int(seed%3))-sum
			for _, slots := range room.free {
				free -= slots
			}
			for _, e := range all {
				for _, node := range room.held[e.ID] {
					if !room.canUse(e.ID, node) {
						t.Fatalf("seed %d: %s has node %d", seed, e.ID, node)
					}
				}
				if len(room.held[e.ID]) != sizes[e.ID] {
					t.Fatalf("seed %d: %s has %v, want %d", seed, e.ID, room.held[e.ID], sizes[e.ID])
				}
			}
			if free != 0 {
				t.Fatalf("seed %d: %d slots too few are free", seed, free)
			}
		}
	}
}
