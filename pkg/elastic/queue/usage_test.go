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
		{week, 0, 80}, {week, week, 40}, {week, 3 * week, 10}, {week, -time.Hour, 80}, {0, time.Hour, 80},
	} {
		if got := Decayed(80, tc.halfLife, tc.elapsed); !near(got, tc.want) {
			t.Errorf("after %s with half-life %s there are %g, want %g", tc.elapsed, tc.halfLife, got, tc.want)
		}
	}
}

func TestAccrued(t *testing.T) {
	ever := week.Seconds() / math.Ln2
	for _, tc := range []struct {
		halfLife, held time.Duration
		want           float64
	}{
		{week, 0, 0}, {week, -time.Hour, 0}, {0, time.Hour, 0.5 * 3600}, {week, 1000 * week, 0.5 * ever}, {week, week, 0.25 * ever},
	} {
		if got := Accrued(0.5, tc.halfLife, tc.held); !near(got, tc.want) {
			t.Errorf("%s with half-life %s are %g, want %g", tc.held, tc.halfLife, got, tc.want)
		}
	}
	// A short time does not decay much, and many short times add up to a long one.
	if got := Accrued(0.5, week, time.Minute); got > 30 || got < 29.99 {
		t.Errorf("a minute is %g", got)
	}
	a := Account{At: noon, Shares: map[string]float64{"a": 0.5}}
	now := noon
	for range 1000 {
		now = now.Add(week / 1000)
		a.Settle(now, week, []UserUse{{User: "a", Share: 0.5}}, 1)
	}
	if !near(a.Usage["a"], 0.25*ever) || !a.At.Equal(noon.Add(week)) {
		t.Errorf("in small steps it is %g at %s, want %g", a.Usage["a"], a.At, 0.25*ever)
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
			stays = append(stays, Stay{User: fmt.Sprint("u", i%3), Share: random.Float64(), From: at(from), To: at(from + random.IntN(1000))})
		}
		whole, record := Account{At: noon}, Account{}
		recordAt, end := random.IntN(1500), 1500+random.IntN(500)
		for second := range end + 1 {
			shares := map[string]float64{}
			for _, stay := range stays {
				if !at(second).Before(stay.From) && at(second).Before(stay.To) {
					shares[stay.User] += stay.Share
				}
			}
			var uses []UserUse
			for user, share := range shares {
				uses = append(uses, UserUse{User: user, Share: share})
			}
			if whole.Settle(at(second), time.Hour, uses, 3); second == recordAt {
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
			if got := recovered.Usage[user]; math.Abs(got-want) > 1e-6 {
				t.Fatalf("seed %d: the usage of %s is %g, and after a restart %g", seed, user, want, got)
			}
		}
	}
}

// A clock that goes back counts nothing twice.
func TestClockGoesBack(t *testing.T) {
	uses := []UserUse{{User: "a", Share: 1}}
	a := Account{At: noon}
	for _, second := range []int{0, 100, 50, 100, 200} {
		a.Settle(noon.Add(time.Duration(second)*time.Second), 1000*week, uses, 1)
	}
	if got := math.Round(a.Usage["a"]); got != 200 {
		t.Errorf("200 seconds count as %g", got)
	}
	record := Account{At: noon.Add(time.Minute), Usage: map[string]float64{"a": 60}}
	early := record.Recover([]Stay{{User: "a", Share: 1, From: noon, To: noon}}, noon, 1000*week)
	if early.Shares = map[string]float64{"a": 1}; math.Round(early.Until(noon.Add(2*time.Minute), 1000*week)["a"]) != 120 {
		t.Errorf("recovered %+v", early)
	}
}

// Users without gangs are forgotten once their usage does not count any more, or if too many have more.
func TestAccountForgets(t *testing.T) {
	a := Account{At: noon, Usage: map[string]float64{"tiny": 0.0004, "much": 7, "more": 8, "less": 6, "runs": 1, "waits": 0}}
	a.Settle(noon, week, []UserUse{{User: "runs", Share: 1}, {User: "waits"}}, 2)
	if got := strings.Join(slices.Sorted(maps.Keys(a.Usage)), " "); got != "more much runs waits" {
		t.Errorf("%s are left", got)
	}
}
