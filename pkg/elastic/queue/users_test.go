// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

func of(user string) func(*Gang) { return func(g *Gang) { g.User = user } }

// fair is a queue whose users had so much of each node of the cluster on average (newCluster).
func fair(past map[string]float64, changes ...func(*Queue)) Queue {
	return queue("default", func(q *Queue) {
		q.Ordering, q.Users.HalfLife, q.Users.Usage = ByUser, time.Hour, map[string]Spent{}
		for user, share := range past {
			q.Users.Usage[user] = Spent{"cpu": share * lifetime(time.Hour)}
		}
		for _, change := range changes {
			change(q)
		}
	})
}

func atMost(running, nodes int) func(*Queue) {
	return func(q *Queue) { q.Users.MaxRunning, q.Users.MaxNodes = running, nodes }
}

func limits(running, nodes int) Queue { return queue("default", atMost(running, nodes)) }

// The gangs that wait for their user do not count among those that have reservations, and growth takes nothing that
// the user of a head may have.
func TestUsersInTheWay(t *testing.T) {
	conservative := queue("default", func(q *Queue) { q.Backfill, q.Users.MaxRunning = Conservative, 1 })
	backlog := newCluster(10, conservative).run(with(gang("r", 6, 0), of("carol")), 6, 0, endsAt(1000)).run(with(gang("s", 1, 0), of("alice")), 1, 0, endsAt(2000)).
		wait(with(gang("h", 9, 1), of("bob")))
	for i := range 150 {
		backlog.wait(with(gang(fmt.Sprintf("x%03d", i), 1, 2+i), of("alice")))
	}
	backlog.wait(with(gang("z", 1, 500), of("dave"), limited(time.Minute)))
	decisions := Schedule(backlog.snap, backlog.room, noon.Add(10*time.Second)).Decisions
	if last := decisions[len(decisions)-1]; last.Gang != "z" || last.Verdict != elastic.Admitted {
		t.Errorf("%s: %s (%s)", last.Gang, last.Verdict, last.Message)
	}
	testSchedule(t, map[string]scheduleCase{
		"a user's gang does not grow while the user's first waits": {
			cluster: newCluster(12, limits(0, 8)).run(with(gang("s", 5, 0), of("bob")), 5, 0, endsAt(200)).
				run(with(elasticGang("r", 2, 4, 0, 0), of("alice")), 3, 0, malleable, func(r *Running) { r.Max = 12 }).
				wait(with(gang("a", 5, 1), of("alice"))).on(0, 5, "s", "a").on(5, 12, "r"), second: 100,
			want: "a NoRoom",
		},
	})
}

func TestFairShare(t *testing.T) {
	none := func(q *Queue) { q.Backfill = NoBackfill }
	backlog := func(c *cluster, user string, first string, seconds ...int) *cluster {
		for i, second := range seconds {
			c.wait(with(gang(string(first[0])+string(rune('1'+i)), 2, second), of(user)))
		}
		return c
	}
	testSchedule(t, map[string]scheduleCase{
		"new users take turns": {
			cluster: backlog(backlog(newCluster(8, fair(nil)), "alice", "a", 1, 2, 3, 4), "bob", "b", 5, 6, 7, 8), second: 100,
			want: "a1 Admitted 2, b1 Admitted 2, a2 Admitted 2, b2 Admitted 2, a3 NoRoom, b3 WaitingForTurn, a4 WaitingForTurn, b4 WaitingForTurn",
		},
		"who has used less goes first": {
			cluster: backlog(backlog(newCluster(4, fair(map[string]float64{"alice": 0.5, "bob": 0.25})), "alice", "a", 1), "bob", "b", 5), second: 100,
			want: "b1 Admitted 2, a1 Admitted 2",
		},
		"until the difference is made up": {
			cluster: backlog(backlog(newCluster(8, fair(map[string]float64{"alice": 0.5})), "alice", "a", 1, 2), "bob", "b", 5, 6, 7, 8), second: 100,
			want: "b1 Admitted 2, b2 Admitted 2, a1 Admitted 2, b3 Admitted 2, a2 NoRoom, b4 WaitingForTurn",
		},
		"what a user has now counts": {
			cluster: backlog(backlog(newCluster(6, fair(nil)).run(with(gang("r", 2, 0), of("alice")), 2, 0), "alice", "a", 1), "bob", "b", 5, 6), second: 100,
			want: "b1 Admitted 2, a1 Admitted 2, b2 NoRoom",
		},
		"priority goes before users": {
			cluster: newCluster(2, fair(map[string]float64{"alice": 0.5})).
				wait(with(gang("a", 2, 2), of("alice"), ofPriority(9)), with(gang("b", 2, 1), of("bob"))), second: 100,
			want: "a Admitted 2, b NoRoom",
		},
		"what a user gets by priority counts after it": {
			cluster: newCluster(6, fair(nil)).wait(with(gang("a", 2, 1), of("alice"), ofPriority(9)),
				with(gang("b", 2, 2), of("alice")), with(gang("c", 2, 3), of("bob"))), second: 100,
			want: "a Admitted 2, c Admitted 2, b Admitted 2",
		},
		"a gang that never fits does not count": {
			cluster: newCluster(4, fair(nil)).wait(with(gang("a", 40, 1), of("alice")), with(gang("b", 2, 2), of("alice")), with(gang("c", 2, 3), of("bob"))), second: 100,
			want: "a NeverFits, b Admitted 2, c Admitted 2",
		},
		"of a user's gangs that were made at once the largest is first": {
			cluster: newCluster(6, fair(nil)).wait(made(with(gang("a", 2, 1), of("alice")), 0), made(with(gang("b", 3, 1), of("alice")), 4)), second: 100,
			want: "b Admitted 3, a Admitted 2",
		},
		"the dominant resource counts": {
			cluster: dominant(newCluster(8, fair(nil, none)).run(with(gang("r", 1, 0), of("alice"), gpus), 1, 0).run(with(gang("s", 3, 0), of("bob")), 3, 0)).
				wait(with(gang("a", 4, 1), of("alice")), with(gang("b", 4, 2), of("bob"))), second: 100,
			want: "b Admitted 4, a NoRoom",
		},
		"the first that does not fit has a reservation": {
			cluster: newCluster(10, fair(nil)).run(with(gang("r", 6, 0), of("alice")), 6, 0, endsAt(100)).
				wait(with(gang("a", 4, 1), of("alice")), with(gang("b", 10, 2), of("bob")), with(gang("c", 4, 3), of("alice"), limited(time.Minute))), second: 40,
			want: "b NoRoom, a WaitingForTurn, c Admitted 4 by backfill",
		},
		"nothing is evicted among users": {
			cluster: newCluster(4, fair(map[string]float64{"alice": 0.9})).run(with(gang("r", 4, 0), of("alice")), 4, 0).wait(with(gang("b", 2, 1), of("bob"))), second: 100,
			want: "b NoRoom",
		},
	})
}

// dominant has two GPUs.
func dominant(c *cluster) *cluster {
	c.snap.Total["gpu"] = 2
	return c
}

func TestUserLimits(t *testing.T) {
	alice := of("alice")
	lent := func(q *Queue) { q.Reclaimable = true }
	testSchedule(t, map[string]scheduleCase{
		"no more run at once, and nobody is blocked": {
			cluster: newCluster(10, limits(1, 0)).wait(with(gang("a", 2, 1), alice), with(gang("b", 2, 2), alice), with(gang("c", 2, 3), of("bob"))), second: 100,
			want: "a Admitted 2, b UserLimit, c Admitted 2",
		},
		"what runs counts, also while it ends": {
			cluster: newCluster(10, limits(2, 0)).run(with(gang("r", 2, 0), alice), 2, 0).run(with(gang("s", 2, 0), alice), 2, 0, ending).wait(with(gang("a", 2, 1), alice)), second: 100,
			want: "a UserLimit",
		},
		"each user has its own": {
			cluster: newCluster(10, limits(1, 0)).run(with(gang("r", 2, 0), alice), 2, 0).wait(with(gang("a", 2, 1), of("bob"))), second: 100,
			want: "a Admitted 2",
		},
		"two that exceed the nodes together": {
			cluster: newCluster(10, limits(0, 6)).wait(with(gang("a", 4, 1), alice), with(gang("b", 4, 2), alice), with(gang("c", 2, 3), alice)), second: 100,
			want: "a Admitted 4, b UserLimit, c Admitted 2",
		},
		"one that exceeds them alone": {
			cluster: newCluster(10, limits(0, 6)).wait(with(elasticGang("a", 7, 8, 1, 0), alice), with(gang("b", 6, 2), alice)), second: 100,
			want: "a TooLargeForQueue, b Admitted 6",
		},
		"an elastic gang gets what is left": {
			cluster: newCluster(20, limits(0, 6)).run(with(gang("r", 2, 0), alice), 2, 0).wait(with(elasticGang("a", 2, 8, 1, 0), alice)), second: 100,
			want: "a Admitted 4",
		},
		"it does not hold out for more than it may have": {
			cluster: newCluster(20, limits(0, 6)).wait(with(elasticGang("a", 2, 8, 1, time.Hour), alice)), second: 100,
			want: "a Admitted 6",
		},
		"gangs without requests count": {
			cluster: newCluster(2, limits(1, 0)).wait(with(gang("a", 1, 1), alice), with(gang("b", 4, 2), alice, func(g *Gang) { g.BestEffort, g.Requests, g.Class = true, nil, "none" })), second: 10,
			want: "a Admitted 1, b UserLimit",
		},
		"a running gang grows up to them, though another waits for them": {
			cluster: newCluster(20, limits(0, 6)).run(with(elasticGang("r", 2, 4, 0, 0), alice), 4, 0, malleable, func(r *Running) { r.Max = 12 }).wait(with(gang("a", 4, 1), alice)), second: 100,
			want: "a UserLimit, r grows 2",
		},
		"it grows also where more run than may start": {
			cluster: newCluster(4, limits(1, 0)).run(with(elasticGang("r", 1, 2, 0, 0), alice), 1, 0, malleable).run(with(gang("s", 1, 0), alice), 1, 0),
			want:    "r grows 1",
		},
		"nothing is evicted for one that its user may not have": {
			cluster: newCluster(10, limits(1, 0)).run(with(gang("r", 2, 0), alice, ofPriority(5)), 2, 0).run(with(gang("s", 8, 0), of("bob")), 8, 0).
				wait(with(gang("a", 4, 1), alice, ofPriority(9))), second: 100,
			want: "a UserLimit",
		},
		"nor reclaimed": {
			cluster: newCluster(10, limits(0, 4), queue("b", lent)).run(with(gang("r", 2, 0), alice), 2, 0).run(with(gang("s", 8, 0), inQueue("b")), 8, 0).
				wait(with(gang("a", 3, 1), alice)), second: 100,
			want: "a UserLimit",
		},
		"nor for what would go to another user": {
			cluster: newCluster(4, queue("default", func(q *Queue) { *q = fair(map[string]float64{"bob": 0.5}); q.Weight = 1 }), queue("b", lent)).
				run(with(gang("s", 4, 0), inQueue("b")), 4, 0).wait(with(gang("a", 2, 2), alice), with(gang("c", 2, 1), of("bob"))), second: 100,
			want: "a NoRoom, c WaitingForTurn",
		},
		"a queue does not deserve what its users may not have": {
			cluster: newCluster(10, limits(0, 2), queue("b", lent), queue("c", lent)).run(with(gang("s", 4, 0), inQueue("b")), 4, 0).run(with(gang("u", 2, 0), alice), 2, 0).run(with(gang("v", 4, 0), inQueue("b")), 4, 1).
				wait(with(gang("a", 2, 1), alice), with(gang("a2", 2, 2), alice), with(gang("c1", 4, 3), inQueue("c"))), second: 100,
			want: "c1 NoRoom, a UserLimit, a2 UserLimit, v is evicted (reclaim)",
		},
		"a conservative queue keeps nothing for one that its user may not have": {
			cluster: newCluster(10, queue("default", func(q *Queue) { q.Backfill = Conservative; atMost(1, 0)(q) })).run(with(gang("r", 4, 0), of("carol")), 4, 0, endsAt(100)).run(with(gang("s", 2, 0), alice), 2, 0, endsAt(200)).
				wait(with(gang("h", 7, 1), of("bob")), with(gang("a", 10, 2), alice), with(gang("d", 1, 3), of("dave"))), second: 10,
			want: "h NoRoom, a UserLimit, d Admitted 1 by backfill",
		},
		"a gang of the head's user that would keep it waiting does not pass": {
			cluster: newCluster(10, limits(2, 0)).run(with(gang("r", 6, 0), of("bob")), 6, 0, endsAt(100)).run(with(gang("q", 1, 0), alice), 1, 0, endsAt(300)).
				wait(with(gang("a", 5, 1), alice), with(gang("b", 1, 2), alice), with(gang("c", 1, 3), of("carol"))), second: 10,
			want: "a NoRoom, b UserLimit, c Admitted 1 by backfill",
		},
		"one passes if the user may have both by then": {
			cluster: newCluster(10, limits(2, 0)).run(with(gang("r", 6, 0), of("bob")), 6, 0, endsAt(100)).run(with(gang("q", 1, 0), alice), 1, 0, endsAt(50)).
				wait(with(gang("a", 5, 1), alice), with(gang("b", 1, 2), alice)), second: 10,
			want: "a NoRoom, b Admitted 1 by backfill",
		},
	})
}

// The messages name the limit. They do not change with each gang that starts or ends.
func TestUserMessages(t *testing.T) {
	c := newCluster(20, limits(2, 8)).run(with(gang("r", 2, 0), of("alice")), 2, 0).wait(with(gang("a", 9, 1), of("alice")),
		with(gang("b", 7, 2), of("alice")), with(gang("c", 1, 3), of("alice")), with(gang("d", 1, 4), of("alice")), with(gang("e", 18, 5), of("bob")), with(gang("f", 6, 6), of("bob")), with(gang("g", 6, 7), of("bob")))
	got := Schedule(c.snap, c.room, noon.Add(10*time.Second))
	want := []string{
		"a needs 9 brokers, queue default allows user alice 8 at once",
		"b needs 7 brokers, queue default allows user alice 8 at once, with what runs or goes first of this user",
		"c ", "d queue default runs at most 2 of user alice's MiniClusters at once, and as many run or go first",
		"e needs 18 brokers, queue default allows user bob 8 at once",
		"f ", "g needs 6 brokers, queue default allows user bob 8 at once, with what runs or goes first of this user",
	}
	var said []string
	for i := range got.Decisions {
		said = append(said, got.Decisions[i].Gang+" "+got.Decisions[i].Message)
	}
	if a, b := strings.Join(said, "\n"), strings.Join(want, "\n"); a != b {
		t.Errorf("got\n%s\nwant\n%s", a, b)
	}
}

// Those that wait because of their user are before nobody.
func TestUserLimitsDoNotCountAsTurns(t *testing.T) {
	c := newCluster(4, limits(1, 0)).run(with(gang("r", 2, 0), of("alice")), 2, 0).
		wait(with(gang("a", 1, 1), of("alice")), with(gang("b", 4, 2), of("bob")), with(gang("c", 3, 3), of("carol")))
	d := Schedule(c.snap, c.room, noon.Add(10*time.Second)).Decisions[2]
	if d.Verdict != elastic.WaitingForTurn || d.Message != "waits for its turn: 1 is before it in queue default" {
		t.Errorf("%s: %s", d.Verdict, d.Message)
	}
}

func TestUserUses(t *testing.T) {
	c := newCluster(10, fair(nil), easy("b")).run(with(elasticGang("r", 1, 2, 0, 0), of("alice")), 2, 0, malleable, func(r *Running) { r.Max = 4 }).
		run(with(gang("s", 1, 0), of("bob")), 1, 0, ending).wait(with(gang("a", 3, 1), of("alice")), with(gang("b", 11, 2), of("carol")))
	got := Schedule(c.snap, c.room, noon.Add(10*time.Second)).Uses
	want := []UserUse{
		{User: "alice", Gangs: 2, Pods: 7, Holds: Resources{"cpu": 7, "pods": 7}},
		{User: "bob", Gangs: 1, Pods: 1, Holds: Resources{"cpu": 1, "pods": 1}}, {User: "carol", Pending: 1, Holds: Resources{}},
	}
	if len(got[1].Users) != len(want) || got[0].Users != nil {
		t.Fatalf("got %+v", got)
	}
	if diff := cmp.Diff(want, got[1].Users); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Of the gangs with a singleton key, one at a time has nodes: the first in the order of its queue. The others block nobody, and
// do not count for their users.
func TestSingleton(t *testing.T) {
	keyed := func(key string) func(*Gang) { return func(g *Gang) { g.Singleton = key } }
	testSchedule(t, map[string]scheduleCase{
		"the first goes": {
			cluster: newCluster(8, limits(2, 0)).wait(with(gang("a", 2, 1), keyed("k")), with(gang("b", 2, 2), keyed("k")), gang("c", 2, 3)), second: 100,
			want: "a Admitted 2, b Singleton, c Admitted 2",
		},
		"one of each key": {
			cluster: newCluster(8).wait(with(gang("a", 2, 1), keyed("k")), with(gang("b", 2, 2), keyed("l"))), second: 100,
			want: "a Admitted 2, b Admitted 2",
		},
		"none while one has nodes": {
			cluster: newCluster(8).run(with(gang("r", 2, 0), keyed("k")), 2, 0, func(r *Running) { r.Ending = true }).on(0, 2, "r").
				wait(with(gang("a", 2, 1), keyed("k")), gang("b", 2, 2)), second: 100,
			want: "a Singleton, b Admitted 2",
		},
		"the head keeps its key from those behind it": {
			cluster: newCluster(4).run(gang("r", 2, 0), 2, 0, endsAt(200)).on(0, 2, "r").
				wait(with(gang("a", 4, 1), keyed("k")), with(gang("b", 1, 2), keyed("k"), limited(time.Second))), second: 100,
			want: "a NoRoom, b Singleton",
		},
		"one that never fits keeps nobody": {
			cluster: newCluster(4).wait(with(gang("a", 5, 1), keyed("k")), with(gang("b", 1, 2), keyed("k"))), second: 100,
			want: "a NeverFits, b Admitted 1",
		},
		"one that its user may not have keeps nobody": {
			cluster: newCluster(8, limits(1, 0)).run(with(gang("r", 1, 0), of("alice")), 1, 0, endsAt(200)).on(0, 1, "r").
				wait(with(gang("a", 2, 1), of("alice"), keyed("k")), with(gang("b", 2, 2), of("bob"), keyed("k"))), second: 100,
			want: "a UserLimit, b Admitted 2",
		},
		"in the turns of users": {
			cluster: newCluster(8, fair(map[string]float64{"alice": .5})).
				wait(with(gang("a", 2, 1), of("alice"), keyed("k")), with(gang("b", 2, 2), of("bob"), keyed("k"))), second: 100,
			want: "b Admitted 2, a Singleton",
		},
		"across queues": {
			cluster: newCluster(4, queue("a", func(*Queue) {}), queue("b", func(*Queue) {})).
				wait(with(gang("x", 1, 1), keyed("k"), func(g *Gang) { g.Queue = "b" }), with(gang("y", 1, 2), keyed("k"), func(g *Gang) { g.Queue = "a" })), second: 100,
			want: "y Admitted 1, x Singleton",
		},
	})
}
