// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

const week = 7 * 24 * time.Hour

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b), 1) }

func TestDecayed(t *testing.T) {
	for _, tc := range []struct {
		halfLife, elapsed time.Duration
		want              float64
	}{
		{week, 0, 1}, {week, week, 0.5}, {week, 3 * week, 0.125}, {week, -time.Hour, 1}, {0, time.Hour, 1},
	} {
		if got := Decayed(tc.halfLife, tc.elapsed); !near(got, tc.want) {
			t.Errorf("after %s with half-life %s there is %g, want %g", tc.elapsed, tc.halfLife, got, tc.want)
		}
	}
}

func TestAccrued(t *testing.T) {
	ever := week.Seconds() / math.Ln2
	for _, tc := range []struct {
		halfLife, held time.Duration
		want           float64
	}{
		{week, 0, 0}, {week, -time.Hour, 0}, {0, time.Hour, 3600}, {week, 1000 * week, ever}, {week, week, ever / 2},
	} {
		if got := Accrued(tc.halfLife, tc.held); !near(got, tc.want) {
			t.Errorf("%s with half-life %s are %g, want %g", tc.held, tc.halfLife, got, tc.want)
		}
	}
	// A short time does not decay much, and many short times add up to a long one.
	if got := Accrued(week, time.Minute); got > 60 || got < 59.98 {
		t.Errorf("a minute is %g", got)
	}
	a := Account{At: noon, Holds: map[string]Resources{"a": {"cpu": 8}}}
	now := noon
	for range 1000 {
		now = now.Add(week / 1000)
		a.Settle(now, week, []UserUse{{User: "a", Holds: Resources{"cpu": 8}}}, Resources{"cpu": 16}, 1)
	}
	if got := a.Usage["a"]["cpu"]; !near(got, 4*ever) || !a.At.Equal(noon.Add(week)) {
		t.Errorf("in small steps it is %g at %s, want %g", got, a.At, 4*ever)
	}
}

// Usage does not depend on how large the cluster was, and counts by the resource of which the cluster has the least now.
func TestShareOfUsage(t *testing.T) {
	spent := Spent{}
	spent.add(Resources{"cpu": 8, "gpu": 1, "none": 0}, 100)
	for _, tc := range []struct {
		total Resources
		want  float64
	}{
		{Resources{"cpu": 80, "gpu": 100}, 10}, {Resources{"cpu": 8, "gpu": 100}, 100}, {Resources{"cpu": 8, "gpu": 1}, 100},
		{Resources{"cpu": 80, "gpu": 2}, 50}, {Resources{"cpu": 0}, 0}, {nil, 0},
	} {
		if got := spent.Share(tc.total); !near(got, tc.want) {
			t.Errorf("of %v it is %g s, want %g", tc.total, got, tc.want)
		}
	}
}

// A restart at any time changes no usage: what ran since the record is found again, whenever that was made.
func TestRecover(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 3))
		at := func(second int) time.Time { return noon.Add(time.Duration(second) * time.Second) }
		var stays []Stay
		for i := range 20 {
			from := random.IntN(1000)
			stays = append(stays, Stay{User: fmt.Sprint("u", i%3), Holds: Resources{"cpu": 1 + random.Int64N(9)}, From: at(from), To: at(from + random.IntN(1000))})
		}
		whole, record := Account{At: noon}, Account{}
		recordAt, end := random.IntN(1500), 1500+random.IntN(500)
		for second := range end + 1 {
			holds := map[string]Resources{}
			for _, stay := range stays {
				if !at(second).Before(stay.From) && at(second).Before(stay.To) {
					if holds[stay.User] == nil {
						holds[stay.User] = Resources{}
					}
					holds[stay.User].Add(stay.Holds, 1)
				}
			}
			var uses []UserUse
			for user, has := range holds {
				uses = append(uses, UserUse{User: user, Holds: has})
			}
			if whole.Settle(at(second), time.Hour, uses, Resources{"cpu": 100}, 3); second == recordAt {
				record = Account{At: whole.At, Usage: maps.Clone(whole.Usage)}
			}
		}
		seen := slices.DeleteFunc(slices.Clone(stays), func(s Stay) bool { return s.To.Before(record.At) && random.IntN(2) == 0 })
		for i := range seen { // those that run still
			if seen[i].To.After(at(end)) {
				seen[i].To = at(end)
			}
		}
		recovered := record.Recover(seen, at(end), time.Hour)
		for user, want := range whole.Usage {
			if got := recovered.Usage[user]["cpu"]; math.Abs(got-want["cpu"]) > 1e-6 {
				t.Fatalf("seed %d: the usage of %s is %g, and after a restart %g", seed, user, want["cpu"], got)
			}
		}
	}
}

// A clock that goes back counts nothing twice.
func TestClockGoesBack(t *testing.T) {
	one := Resources{"cpu": 1}
	uses := []UserUse{{User: "a", Holds: one}}
	a := Account{At: noon}
	for _, second := range []int{0, 100, 50, 100, 200} {
		a.Settle(noon.Add(time.Duration(second)*time.Second), 1000*week, uses, one, 1)
	}
	if got := math.Round(a.Usage["a"]["cpu"]); got != 200 {
		t.Errorf("200 seconds count as %g", got)
	}
	record := Account{At: noon.Add(time.Minute), Usage: map[string]Spent{"a": {"cpu": 60}}}
	early := record.Recover([]Stay{{User: "a", Holds: one, From: noon, To: noon}}, noon, 1000*week)
	if early.Holds = map[string]Resources{"a": one}; math.Round(early.Until(noon.Add(2*time.Minute), 1000*week)["a"]["cpu"]) != 120 {
		t.Errorf("recovered %+v", early)
	}
}

// Users without gangs are forgotten once their usage does not count any more, or if too many have more.
func TestAccountForgets(t *testing.T) {
	a := Account{At: noon, Usage: map[string]Spent{
		"tiny": {"cpu": 0.004}, "much": {"cpu": 70}, "more": {"cpu": 80}, "less": {"cpu": 60}, "runs": {"cpu": 10}, "waits": {},
	}}
	a.Settle(noon, week, []UserUse{{User: "runs", Holds: Resources{"cpu": 10}}, {User: "waits"}}, Resources{"cpu": 10}, 2)
	if got := strings.Join(slices.Sorted(maps.Keys(a.Usage)), " "); got != "more much runs waits" {
		t.Errorf("%s are left", got)
	}
	for _, total := range []Resources{nil, {"cpu": 0}} { // no node is up
		if a.Settle(noon, week, nil, total, 1); len(a.Usage) != 4 {
			t.Errorf("with %v in all, %v are left", total, a.Usage)
		}
	}
}
