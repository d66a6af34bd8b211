// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// A step of a profile has the same room, and in the end the same nodes, as a cluster that gives each gang its
// nodes at once.
func TestStepsHoldAsClustersDo(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 1))
		cluster := newCluster(12, queue("default", func(q *Queue) { q.Capacity = Resources{"cpu": 20} }))
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
		step := profileStep{state: c.state.snapshot(), sizes: map[string]int{}}
		want, sizes := c.state.snapshot(), map[string]int{}
		for range 40 {
			e := all[random.IntN(len(all))]
			size, has := e.least(), sizes[e.ID]
			switch {
			case random.IntN(5) == 0: // a copy goes on, and what happens to the original does not matter
				other := step
				other.own()
				step, other = other, step
				other.unplace(e)
				other.place(e, 1)
				other.settle()
			case has == 0 && want.fits(e, size) < size:
				if fits := step.fits(e, size); fits != want.fits(e, size) {
					t.Fatalf("seed %d: %d of %s fit, want %d", seed, fits, e.ID, want.fits(e, size))
				}
			case has == 0:
				sizes[e.ID] = size
				if want.place(e, size) == nil || step.fits(e, size) < size || !step.place(e, size) {
					t.Fatalf("seed %d: %s does not fit", seed, e.ID)
				}
			default:
				delete(sizes, e.ID)
				want.unplace(e, has)
				step.unplace(e)
			}
		}
		got := step
		got.own()
		got.settle()
		if got, want := fmt.Sprint(got.state.room, got.state.used, got.state.users), fmt.Sprint(want.room, want.used, want.users); got != want {
			t.Fatalf("seed %d: the step is\n%s\nwant\n%s", seed, got, want)
		}
		if !maps.Equal(got.sizes, sizes) || !slices.Equal(got.state.users, want.users) {
			t.Fatalf("seed %d: it has %v, want %v", seed, got.sizes, sizes)
		}
	}
}
