// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

func TestUsage(t *testing.T) {
	four := []string{"a", "b", "c", "d"}
	type decision struct {
		after time.Duration // the decision before
		step  Step
	}
	cases := map[string]struct {
		decisions []decision
		want      Usage
	}{
		"an attempt that succeeds is useful from its start on": {
			[]decision{{0, Admit{Nodes: four}}, {10 * time.Second, Start{Quorum: 4}}, {time.Minute, Finish{Outcome: OutcomeSucceeded}}},
			Usage{Useful: 240, Lost: 40, Held: 280, Starting: 40},
		},
		"a command that fails is lost": {
			[]decision{{0, Admit{Nodes: four}}, {10 * time.Second, Start{Quorum: 4}}, {time.Minute, Finish{Outcome: OutcomeCommandFailed}}},
			Usage{Lost: 280, Held: 280, Starting: 40},
		},
		"ranks that gave their nodes back, or come later, count while they have nodes": {
			[]decision{
				{0, Admit{Nodes: four}}, {time.Second, Start{Quorum: 2, Vacated: []int{2, 3}}}, {10 * time.Second, Grow{Pods: []elastic.Pod{{Rank: 2, Node: "c"}}, Quorum: 3}},
				{10 * time.Second, Finish{Outcome: OutcomeSucceeded}},
			},
			Usage{Useful: 20 + 30, Lost: 4, Held: 54, Starting: 4},
		},
		"attempts that were given up or evicted are lost, and the time between attempts does not count": {
			[]decision{
				{0, Admit{Nodes: four}}, {10 * time.Second, GiveUp{}},
				{time.Hour, Admit{Nodes: four[:2]}}, {5 * time.Second, Start{Quorum: 2}}, {5 * time.Second, Evict{}},
				{time.Hour, Admit{Nodes: four[:1]}}, {5 * time.Second, Start{Quorum: 1}},
			},
			Usage{Lost: 40 + 20, Held: 5, Starting: 5},
		},
		"nothing counts after the end": {
			[]decision{{0, Admit{Nodes: four}}, {time.Second, Start{Quorum: 4}}, {time.Second, Finish{Outcome: OutcomeSucceeded}}, {time.Hour, Wait{}}},
			Usage{Useful: 4, Lost: 4},
		},
		"fractions of a second add up": {
			[]decision{
				{0, Admit{Nodes: four[:1]}}, {400 * time.Millisecond, Start{Quorum: 1}}, {400 * time.Millisecond, Lose{}}, {400 * time.Millisecond, Lose{}},
				{900 * time.Millisecond, Finish{Outcome: OutcomeSucceeded}},
			},
			Usage{Useful: 2, Held: 2},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			var usage Usage
			var record Record
			now := noon
			for _, d := range tc.decisions {
				now = now.Add(d.after)
				after := Plan{Step: d.step}.Apply(record, now)
				usage, record = usage.After(record, after, now), after
			}
			if usage.At = (time.Time{}); usage != tc.want {
				t.Errorf("the usage is %+v, want %+v", usage, tc.want)
			}
		})
	}
}

// Whatever happens between two decisions, and however often a manager is restarted, each second of each node counts once:
// as a count of the nodes at each full second says.
func TestUsageCountsEachSecondOnce(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 0))
		var usage Usage
		var record Record
		var seconds, useful int64
		now := noon
		decide := func(step Step) {
			after := Plan{Step: step}.Apply(record, now)
			before := usage.Useful + usage.Lost
			usage = usage.After(record, after, now)
			if now := usage.Useful + usage.Lost; now < before {
				t.Fatalf("seed %d: the usage fell from %d to %d", seed, before, now)
			}
			record = after
		}
		until := func(next time.Time) { // one node at one full second is one node-second
			for at := now.Truncate(time.Second).Add(time.Second); !at.After(next); at = at.Add(time.Second) {
				seconds += int64(len(record.Admission.Members()))
				if !record.Started.IsZero() {
					useful += int64(len(record.Admission.Members()))
				}
			}
			now = next
		}
		for range 1 + random.IntN(4) { // attempts
			useful = 0
			decide(Admit{Nodes: make([]string, 2+random.IntN(5))})
			until(now.Add(time.Duration(random.IntN(20_000)) * time.Millisecond))
			decide(Start{Quorum: 1})
			for range random.IntN(10) {
				until(now.Add(time.Duration(random.IntN(5_000)) * time.Millisecond))
				rank := 1 + random.IntN(len(record.Admission.Nodes)-1)
				if record.Admission.Has(rank) {
					decide(Vacate{Ranks: []int{rank}, Quorum: 1})
				} else {
					decide(Grow{Pods: []elastic.Pod{{Rank: rank, Node: "n"}}, Quorum: 1})
				}
			}
			until(now.Add(time.Duration(random.IntN(20_000)) * time.Millisecond))
			if random.IntN(4) > 0 {
				decide(GiveUp{})
				now = now.Add(time.Duration(random.IntN(100_000)) * time.Millisecond)
				continue
			}
			decide(Finish{Outcome: OutcomeSucceeded})
			if usage.Useful != useful {
				t.Fatalf("seed %d: %d node-seconds were useful, want %d", seed, usage.Useful, useful)
			}
			break
		}
		if sum := usage.Useful + usage.Lost; sum != seconds {
			t.Fatalf("seed %d: the usage is %d node-seconds, want %d", seed, sum, seconds)
		}
	}
}
