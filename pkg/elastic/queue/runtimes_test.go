// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"testing"
	"time"
)

// ended is a gang of a user, of 16 nodes or another size, that ran for so many seconds on some of them.
func ended(user string, size, nodes, seconds int) (*Running, time.Time) {
	r := &Running{Gang: with(gang("r", size, 0), of(user)), Ranks: make([]int, nodes), Admitted: noon}
	return r, noon.Add(time.Duration(seconds) * time.Second)
}

func TestRuntimes(t *testing.T) {
	for name, tc := range map[string]struct {
		ran  [][3]int // size, nodes and seconds of alice's gangs
		gang Gang
		want int // seconds
	}{
		"nothing is known":                     {nil, gang("a", 16, 0), 0},
		"one run time does not tell":           {[][3]int{{16, 16, 100}}, gang("a", 16, 0), 0},
		"two alike":                            {[][3]int{{16, 16, 100}, {16, 16, 110}}, gang("a", 16, 0), 105},
		"the last one counts half":             {[][3]int{{16, 16, 100}, {16, 16, 100}, {16, 16, 100}, {16, 16, 110}}, gang("a", 16, 0), 105},
		"they differ too much":                 {[][3]int{{16, 16, 100}, {16, 16, 200}}, gang("a", 16, 0), 0},
		"they take longer from now on":         {[][3]int{{16, 16, 100}, {16, 16, 100}, {16, 16, 800}, {16, 16, 800}, {16, 16, 800}, {16, 16, 800}}, gang("a", 16, 0), 756},
		"on half of the nodes":                 {[][3]int{{16, 8, 200}, {16, 16, 100}}, gang("a", 16, 0), 100},
		"of the same power of two":             {[][3]int{{16, 16, 100}, {31, 31, 100}}, gang("a", 20, 0), 100},
		"of the nearest size":                  {[][3]int{{64, 64, 100}, {64, 64, 100}, {2, 2, 7}, {2, 2, 7}}, gang("a", 16, 0), 100},
		"of the nearest size that is steady":   {[][3]int{{8, 8, 1}, {8, 8, 50}, {2, 2, 7}, {2, 2, 7}}, gang("a", 16, 0), 7},
		"a clock that goes back tells nothing": {[][3]int{{16, 16, -5}, {16, 16, -5}}, gang("a", 16, 0), 0},
		"the user says how long":               {[][3]int{{16, 16, 100}, {16, 16, 100}}, with(gang("a", 16, 0), func(g *Gang) { g.Expected = time.Second }), 1},
		"there is a limit":                     {[][3]int{{16, 16, 100}, {16, 16, 100}}, with(gang("a", 16, 0), limited(time.Hour)), 0},
	} {
		r := NewRuntimes(10)
		for _, ran := range tc.ran {
			r.Learn(ended("alice", ran[0], ran[1], ran[2]))
		}
		for user, want := range map[string]time.Duration{"alice": time.Duration(tc.want) * time.Second, "bob": tc.gang.Expected} {
			g := with(tc.gang, of(user))
			if r.Expect(&g); g.Expected.Truncate(time.Second) != want {
				t.Errorf("%s: %s's gang is expected to run %s, want %s", name, user, g.Expected, want)
			}
		}
	}
}

// Those users are remembered whose gangs ended last.
func TestRuntimesStaySmall(t *testing.T) {
	r := NewRuntimes(3)
	for _, user := range []string{"a", "b", "c", "a", "d", "a", "d"} {
		r.Learn(ended(user, 4, 4, 10))
		r.Learn(ended(user, 4, 4, 10))
	}
	known := ""
	for _, user := range []string{"a", "b", "c", "d"} {
		g := with(gang("g", 4, 0), of(user))
		if r.Expect(&g); g.Expected > 0 {
			known += user
		}
	}
	if known != "acd" || len(r.users) != 3 {
		t.Error(fmt.Sprint("known are ", known, ", remembered ", len(r.users)))
	}
}

// A gang on half of its nodes runs for twice as long, but for no longer than its limit, which is the same at every size.
func TestEstimatesBySize(t *testing.T) {
	for name, tc := range map[string]struct {
		change      func(*Gang)
		whole, half time.Duration
	}{
		"a limit":            {limited(time.Hour), time.Hour, time.Hour},
		"an estimate":        {expected(600), 10 * time.Minute, 20 * time.Minute},
		"what others took":   {usual(600), 10 * time.Minute, 20 * time.Minute},
		"nothing is known":   {func(*Gang) {}, unknownRun, unknownRun},
		"a limit goes first": {func(g *Gang) { g.Limit, g.Expected = time.Hour, time.Minute }, time.Hour, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			g := with(elasticGang("g", 4, 8, 0, 0), tc.change)
			whole, _ := g.estimate(8)
			if half, _ := g.estimate(4); whole != tc.whole || half != tc.half {
				t.Errorf("it runs for %s at 8 and for %s at 4, want %s and %s", whole, half, tc.whole, tc.half)
			}
		})
	}
}
