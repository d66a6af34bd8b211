// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// BenchmarkSchedule is one cycle with 1,000 gangs of 1 to 64 that wait for 1,000
// nodes: all free, all in use, and a few free.
func BenchmarkSchedule(b *testing.B) {
	for name, free := range map[string]int{"free": 1000, "full": 0, "some": 40} {
		for _, backfill := range []Backfill{EASY, Conservative} {
			b.Run(name+"/"+string(backfill), func(b *testing.B) {
				random := rand.New(rand.NewPCG(1, 1))
				c := newCluster(1000, queue("default", func(q *Queue) { q.Backfill = backfill }))
				left := 1000 - free
				for i := 0; left > 0; i++ {
					size := min(left, 1+random.IntN(64))
					c.run(gang(fmt.Sprint("r", i), size, i), size, i)
					left -= size
				}
				for i := range 1000 {
					size := 1 + random.IntN(64)
					c.wait(with(elasticGang(fmt.Sprintf("g%03d", i), 1+size/2, size, i, 0), func(g *Gang) { g.Class = fmt.Sprint(i % 4) }))
				}
				for b.Loop() {
					Schedule(c.snap, c.room, noon.Add(time.Hour))
				}
			})
		}
	}
}
