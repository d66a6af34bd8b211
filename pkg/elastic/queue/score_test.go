// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"strings"
	"testing"
	"time"
)

// bySlowdown is a queue that goes by scores. If users are given, their average part of the cluster in the past counts.
func bySlowdown(past map[string]float64) Queue {
	return queue("default", func(q *Queue) {
		if q.Ordering = BySlowdown; past == nil {
			return
		}
		q.Users = fair(past).Users
	})
}

func learned(seconds int) func(*Gang) {
	return func(g *Gang) { g.Expected, g.Learned = time.Duration(seconds)*time.Second, true }
}

// In a queue that goes by slowdown, short gangs go first, and long ones once they have waited for long.
func TestSlowdown(t *testing.T) {
	hour := limited(time.Hour)
	testSchedule(t, map[string]scheduleCase{
		"a short one goes before a long one that is older": {
			cluster: newCluster(4, bySlowdown(nil)).wait(with(gang("long", 4, 0), hour), with(gang("short", 4, 5), limited(time.Minute))), second: 100,
			want: "short Admitted 4, long NoRoom",
		},
		"not before one that has waited for long": {
			cluster: newCluster(4, bySlowdown(nil)).wait(with(gang("long", 4, 0), hour), with(gang("short", 4, 710), limited(time.Minute*20))), second: 7200,
			want: "long Admitted 4, short NoRoom",
		},
		"of two that are as long, the older one goes first": {
			cluster: newCluster(4, bySlowdown(nil)).wait(with(gang("a", 4, 5), hour), with(gang("b", 4, 0), hour)), second: 100,
			want: "b Admitted 4, a NoRoom",
		},
		"priority goes before slowdown": {
			cluster: newCluster(4, bySlowdown(nil)).wait(with(gang("long", 4, 9), hour, ofPriority(1)), with(gang("short", 4, 0), limited(time.Minute))), second: 100,
			want: "long Admitted 4, short NoRoom",
		},
		"what was learned counts as a limit": {
			cluster: newCluster(4, bySlowdown(nil)).wait(with(gang("long", 4, 0), hour), with(gang("short", 4, 5), learned(60))), second: 100,
			want: "short Admitted 4, long NoRoom",
		},
		"a shorter estimate of the user does not": {
			cluster: newCluster(4, bySlowdown(nil)).wait(with(gang("long", 4, 0), hour), with(gang("short", 4, 5), expected(60))), second: 100,
			want: "long Admitted 4, short NoRoom",
		},
		"a longer one does": {
			cluster: newCluster(4, bySlowdown(nil)).wait(with(gang("long", 4, 0), expected(7200)), with(gang("short", 4, 2))), second: 100,
			want: "short Admitted 4, long NoRoom",
		},
		"nothing is shorter than ten seconds": {
			cluster: newCluster(4, bySlowdown(nil)).wait(with(gang("a", 4, 5), limited(10*time.Second)), with(gang("b", 4, 6), limited(time.Second))), second: 100,
			want: "a Admitted 4, b NoRoom",
		},
		"usage lowers the score": {
			cluster: newCluster(4, bySlowdown(map[string]float64{"alice": 0.5})).
				wait(with(gang("a", 4, 0), limited(100*time.Second), of("alice")), with(gang("b", 4, 5), limited(100*time.Second), of("bob"))), second: 100,
			want: "b Admitted 4, a NoRoom",
		},
		"by its part of what all have": {
			cluster: newCluster(4, bySlowdown(map[string]float64{"alice": 0.5, "bob": 0.4})).
				wait(with(gang("a", 4, 0), limited(50*time.Second), of("alice")), with(gang("b", 4, 5), limited(50*time.Second), of("bob"))), second: 100,
			want: "a Admitted 4, b NoRoom",
		},
		"and does not count without users": {
			cluster: newCluster(4, bySlowdown(nil)).
				wait(with(gang("a", 4, 0), limited(100*time.Second), of("alice")), with(gang("b", 4, 5), limited(100*time.Second), of("bob"))), second: 100,
			want: "a Admitted 4, b NoRoom",
		},
		"one that was promised a start stays first": {
			cluster: newCluster(4, bySlowdown(nil)).run(gang("r", 2, 0), 2, 0, endsAt(200)).
				wait(with(gang("long", 4, 0), hour, func(g *Gang) { g.Promised, g.Blocked = noon.Add(200*time.Second), noon }), with(gang("short", 4, 5), limited(time.Minute))), second: 100,
			want: "long NoRoom, short WaitingForTurn",
		},
	})
}

// A head is looked at again although nothing changes but the scores.
func TestScoresChangeWithTime(t *testing.T) {
	c := newCluster(4, bySlowdown(nil)).run(gang("r", 2, 0), 2, 0).wait(with(gang("a", 4, 0), limited(time.Hour)), with(gang("b", 4, 1), limited(time.Hour)))
	now := noon.Add(100 * time.Second)
	if got := Schedule(c.snap, c.room, now).Decisions[0].LookAgain; !got.Equal(now.Add(scoreLook)) {
		t.Errorf("it is looked at again at %s", got)
	}
}

// Numbers rarely change, and are short.
func TestAbout(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 1e-9: "0", 0.3: "0.35", 0.7: "0.71", 1: "1", 1.5: "1.4", 1.7: "2", 100: "91", 5000: "5793"} {
		if got := about(x); got != want {
			t.Errorf("%g is about %s, want %s", x, got, want)
		}
	}
}

// The message of a gang that waits says what its score is made of.
func TestScoreIsTold(t *testing.T) {
	for name, tc := range map[string]struct {
		past map[string]float64
		want string
	}{
		"without users": {nil, "waits for its turn: 1 is before it in queue default (slowdown about 1.4)"},
		"with users":    {map[string]float64{"alice": 0.25, "bob": 0}, "waits for its turn: 1 is before it in queue default (score about 1: slowdown 1.4 × fair share 0.71)"},
	} {
		c := newCluster(4, bySlowdown(tc.past)).run(with(gang("r", 4, 0), of("carol")), 4, 0, endsAt(1000)).
			wait(with(gang("a", 4, 0), limited(100*time.Second), of("bob")), with(gang("b", 4, 5), limited(100*time.Second), of("alice")))
		if got := Schedule(c.snap, c.room, noon.Add(100*time.Second)).Decisions[1]; got.Gang != "b" || !strings.HasPrefix(got.Message, tc.want) {
			t.Errorf("%s: %s: %s", name, got.Gang, got.Message)
		}
	}
}
