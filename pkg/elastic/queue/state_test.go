// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// Sums and products are exact as far as they are within bounds, and stop there otherwise.
func TestAmountsStayWithinBounds(t *testing.T) {
	amounts := []int64{0, 1, 1000, 1 << 31, 1 << 48, 1 << 53, MaxAmount - 1, MaxAmount}
	for seed := range uint64(5000) {
		random := rand.New(rand.NewPCG(seed, 0))
		has, each := amounts[random.IntN(len(amounts))], amounts[random.IntN(len(amounts))]
		n := []int{0, 1, 7, 26, 100_000, math.MaxInt32}[random.IntN(6)] * (1 - 2*random.IntN(2))
		product := new(big.Int).Mul(big.NewInt(each), big.NewInt(int64(n)))
		if got, want := times(each, n), within(product); got != want {
			t.Fatalf("%d times %d is %d, want %d", n, each, got, want)
		}
		r := Resources{"cpu": has}
		r.Add(Resources{"cpu": each}, n)
		if want := within(new(big.Int).Add(big.NewInt(has), big.NewInt(within(product)))); r["cpu"] != want {
			t.Fatalf("%d and %d times %d are %d, want %d", has, n, each, r["cpu"], want)
		}
	}
}

// Gangs wait that name queues and resources of their own, of which there are none. They cost a cycle little, however many steps
// ahead the cycle looks for another gang.
func TestMemoryOfOwnNames(t *testing.T) {
	const budget = 64 << 20
	c := newCluster(100, easy("a"))
	for i := range 100 {
		c.run(with(gang(fmt.Sprint("r", i), 1, i), inQueue("a")), 1, 0)
		c.wait(with(gang(fmt.Sprint("w", i), 1, i), inQueue(fmt.Sprint("q", i)), func(g *Gang) {
			g.Requests = Resources{"cpu": 1}
			for k := range 250 {
				g.Requests[fmt.Sprintf("%d/%d", i, k)] = 0
			}
		}))
	}
	c.wait(with(gang("head", 100, 0), inQueue("a")))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	result := Schedule(c.snap, c.room, noon)
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > budget {
		t.Errorf("a cycle takes %d MiB, more than %d", used>>20, budget>>20)
	}
	for _, d := range result.Decisions {
		if want := fmt.Sprint("there is no queue q", strings.TrimPrefix(d.Gang, "w")); d.Gang != "head" && d.Message != want {
			t.Errorf("%s is %s: %s, want %s", d.Gang, d.Verdict, d.Message, want)
		}
	}
}

func within(n *big.Int) int64 {
	most := big.NewInt(MaxAmount)
	switch {
	case n.CmpAbs(most) <= 0:
		return n.Int64()
	case n.Sign() < 0:
		return -MaxAmount
	}
	return MaxAmount
}

// A gang may expect the longest time at the largest size, and start with one broker.
func TestLongRunsStayWithinBounds(t *testing.T) {
	g := Gang{Estimate: Estimate{Expected: 999_999 * time.Hour}, Sizing: elastic.Sizing{Min: 1, Size: 100_000}}
	for size := 1; size <= g.Sizing.Size; size *= 10 {
		if got := g.runs(size); got <= 0 || got > longestRun {
			t.Errorf("with %d brokers it runs for %s", size, got)
		}
	}
	g.Expected = time.Hour
	if got := g.runs(50_000); got != 2*time.Hour {
		t.Errorf("with half of the brokers it runs for %s", got)
	}
}
