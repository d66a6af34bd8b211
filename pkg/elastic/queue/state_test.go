// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"math"
	"math/big"
	"math/rand/v2"
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
	g := Gang{Expected: 999_999 * time.Hour, Sizing: elastic.Sizing{Min: 1, Size: 100_000}}
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
