// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

type scheduleCase struct {
	cluster *cluster
	second  int // after noon
	want    string
}

func testSchedule(t *testing.T, cases map[string]scheduleCase) {
	t.Helper()
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.cluster.room.String()
			got := Schedule(tc.cluster.snap, tc.cluster.room, noon.Add(time.Duration(tc.second)*time.Second))
			if text := say(got); text != tc.want {
				t.Errorf("got  %s\nwant %s", text, tc.want)
				for i := range got.Decisions {
					t.Log(got.Decisions[i].Gang, got.Decisions[i].Message)
				}
			}
			if after := tc.cluster.room.String(); after != before {
				t.Errorf("the caller's room was changed:\n%s\n%s", before, after)
			}
		})
	}
}

func queue(name string, change func(*Queue)) Queue {
	q := easy(name)
	change(&q)
	return q
}

// Gangs that have room are put off, in the order in which they start, while many pods are to be made. Nobody else gets
// their nodes.
func TestPutOff(t *testing.T) {
	starting := func(c *cluster, unmade, most int) *cluster {
		c.snap.Unmade, c.snap.MostUnmade = Unmade{0: unmade}, most
		return c
	}
	urgent := func(g *Gang) { g.Urgent = true }
	testSchedule(t, map[string]scheduleCase{
		"up to the limit": {
			cluster: starting(newCluster(12).wait(gang("a", 4, 1), gang("b", 4, 2), gang("c", 4, 3)), 2, 10), second: 100,
			want: "a Admitted 4, b Admitted 4, c WaitingForTurn",
		},
		"without a limit": {
			cluster: starting(newCluster(12).wait(gang("a", 4, 1), gang("b", 4, 2), gang("c", 4, 3)), 1000, 0), second: 100,
			want: "a Admitted 4, b Admitted 4, c Admitted 4",
		},
		"one larger than the limit starts alone": {
			cluster: starting(newCluster(12).wait(gang("a", 11, 1), gang("b", 1, 2)), 0, 5), second: 100,
			want: "a Admitted 11, b WaitingForTurn",
		},
		"a smaller one does not take the nodes": {
			cluster: starting(newCluster(10).wait(gang("a", 6, 1), gang("b", 4, 2), gang("c", 1, 3)), 0, 5), second: 100,
			want: "a Admitted 6, b WaitingForTurn, c NoRoom",
		},
		"a running one does not grow into them": {
			cluster: starting(newCluster(10).run(elasticGang("r", 2, 10, 0, 0), 2, 0).wait(gang("a", 8, 1)), 5, 5), second: 100,
			want: "a WaitingForTurn",
		},
		"one of a higher priority does not wait for the others, but they for it": {
			cluster: starting(newCluster(15).wait(with(gang("a", 5, 1), ofPriority(1)), with(gang("b", 4, 2), ofPriority(1)), with(gang("c", 4, 3), ofPriority(2)), gang("d", 1, 4)), 9, 5), second: 100,
			want: "c Admitted 4, a Admitted 5, b WaitingForTurn, d WaitingForTurn",
		},
		"an urgent one starts": {
			cluster: starting(newCluster(10).wait(gang("a", 4, 1), with(gang("b", 4, 2), urgent)), 5, 5), second: 100,
			want: "a WaitingForTurn, b Admitted 4",
		},
	})
}

func TestAllocate(t *testing.T) {
	none := func(q *Queue) { q.Backfill = NoBackfill }
	capacity := func(n int64) func(*Queue) { return func(q *Queue) { q.Capacity = Resources{"cpu": n} } }
	testSchedule(t, map[string]scheduleCase{
		"all that fit are admitted": {
			cluster: newCluster(10).wait(gang("b", 4, 2), gang("a", 5, 1)), second: 100,
			want: "a Admitted 5, b Admitted 4",
		},
		"without backfill the first that does not fit holds up the others": {
			cluster: newCluster(10, queue("default", none)).wait(gang("a", 4, 1), gang("b", 8, 2), gang("c", 1, 3)), second: 100,
			want: "a Admitted 4, b NoRoom, c WaitingForTurn",
		},
		"one that never fits holds up nobody": {
			cluster: newCluster(10).wait(gang("a", 11, 1), gang("b", 8, 2)), second: 100,
			want: "a NeverFits, b Admitted 8",
		},
		"one that its queue may not have holds up nobody": {
			cluster: newCluster(10, queue("default", capacity(8))).wait(gang("a", 9, 1), gang("b", 8, 2)), second: 100,
			want: "a TooLargeForQueue, b Admitted 8",
		},
		"a queue that is not there, or is suspended": {
			cluster: newCluster(10, queue("default", func(q *Queue) { q.Suspended = true })).wait(gang("a", 1, 1), with(gang("b", 1, 2), inQueue("other"))), second: 100,
			want: "a QueueSuspended, b NoSuchQueue",
		},
		"priority goes before age": {
			cluster: newCluster(10).wait(gang("a", 6, 1), with(gang("b", 6, 2), ofPriority(10))), second: 100,
			want: "b Admitted 6, a NoRoom",
		},
		"but not where age alone counts": {
			cluster: newCluster(10, queue("default", func(q *Queue) { q.Ordering = ByAge })).wait(gang("a", 6, 1), with(gang("b", 6, 2), ofPriority(10))), second: 100,
			want: "a Admitted 6, b NoRoom",
		},
		"queues share by weight": {
			cluster: newCluster(9, queue("a", func(q *Queue) { q.Weight = 2 }), easy("b")).wait(
				with(gang("a1", 3, 9), inQueue("a")), with(gang("a2", 3, 9), inQueue("a")), with(gang("a3", 3, 9), inQueue("a")),
				with(gang("b1", 3, 1), inQueue("b")), with(gang("b2", 3, 1), inQueue("b"))), second: 100,
			want: "a1 Admitted 3, a2 Admitted 3, a3 NoRoom, b1 Admitted 3, b2 NoRoom",
		},
		"the guarantee of another queue is kept free": {
			cluster: newCluster(10, easy("a"), queue("b", func(q *Queue) { q.Guarantee = Resources{"cpu": 4} })).wait(with(gang("a1", 7, 1), inQueue("a"))), second: 100,
			want: "a1 TooLargeForQueue",
		},
		"and waits for what others use meanwhile": {
			cluster: newCluster(10, easy("a"), queue("b", func(q *Queue) { q.Guarantee = Resources{"cpu": 4} })).
				run(with(gang("r", 3, 0), inQueue("a")), 3, 0).wait(with(gang("a1", 6, 1), inQueue("a"))), second: 100,
			want: "a1 NoRoom",
		},
		"its own guarantee a queue may always use": {
			cluster: newCluster(10, queue("a", func(q *Queue) { q.Guarantee = Resources{"cpu": 8} }), queue("b", func(q *Queue) { q.Guarantee = Resources{"cpu": 8} })).
				wait(with(gang("a1", 5, 1), inQueue("a")), with(gang("b1", 5, 1), inQueue("b"))), second: 100,
			want: "a1 Admitted 5, b1 Admitted 5",
		},
		"a gang that waits for capacity lets smaller ones pass, and holds back no nodes": {
			cluster: newCluster(20, queue("a", capacity(8)), easy("b")).run(with(gang("r", 4, 0), inQueue("a")), 4, 0).
				wait(with(gang("a1", 5, 1), inQueue("a")), with(gang("a2", 3, 2), inQueue("a")), with(gang("b1", 13, 3), inQueue("b"))), second: 10,
			want: "a1 QueueFull, a2 Admitted 3 by backfill, b1 Admitted 13",
		},
		"but only so long": {
			cluster: newCluster(20, queue("a", capacity(8))).run(with(gang("r", 4, 0), inQueue("a"), expected(10)), 4, 30).
				wait(with(gang("a1", 5, 1), inQueue("a"), putOff(20, true)), with(gang("a2", 3, 2), inQueue("a"))), second: 100,
			want: "a1 QueueFull, a2 WaitingForTurn",
		},
		"also best effort": {
			cluster: newCluster(20, queue("a", func(q *Queue) { q.Capacity = Resources{"pods": 8} })).run(with(gang("r", 4, 0), inQueue("a"), expected(10)), 4, 30).
				wait(with(gang("a1", 5, 1), inQueue("a"), putOff(20, true)),
					with(gang("a2", 3, 2), inQueue("a"), func(g *Gang) { g.BestEffort, g.Requests, g.Class = true, nil, "none" })), second: 100,
			want: "a1 QueueFull, a2 NoRoom",
		},
		"an elastic gang takes what there is": {
			cluster: newCluster(5).wait(elasticGang("a", 2, 8, 1, 0)), second: 100,
			want: "a Admitted 5",
		},
		"it holds out for its size for a while": {
			cluster: newCluster(8, queue("default", none)).run(gang("r", 3, 0), 3, 0).wait(elasticGang("a", 2, 8, 0, time.Minute), gang("b", 1, 1)), second: 59,
			want: "a WaitingForSize, b WaitingForTurn",
		},
		"also for capacity of its queue": {
			cluster: newCluster(20, queue("default", capacity(16))).run(gang("r", 8, 0), 8, 0).wait(elasticGang("a", 4, 11, 0, time.Minute)), second: 59,
			want: "a WaitingForSize",
		},
		"unless the queue is full at any size": {
			cluster: newCluster(20, queue("default", capacity(10))).run(gang("r", 8, 0), 8, 0).wait(elasticGang("a", 4, 9, 0, time.Minute)), second: 59,
			want: "a QueueFull",
		},
		"and then takes what there is": {
			cluster: newCluster(8).run(gang("r", 3, 0), 3, 0).wait(elasticGang("a", 2, 8, 0, time.Minute)), second: 60,
			want: "a Admitted 5",
		},
		"a gang is smaller if that lets another start": {
			cluster: newCluster(10).wait(elasticGang("a", 2, 10, 0, 0), gang("b", 4, 1)), second: 60,
			want: "a Admitted 6, b Admitted 4",
		},
		"but not where that uses no more": {
			cluster: newCluster(40).run(gang("r", 24, 0), 24, 0).wait(elasticGang("a", 4, 8, 1, 0), elasticGang("b", 4, 8, 2, 0), elasticGang("c", 4, 8, 3, 0)), second: 60,
			want: "a Admitted 8, b Admitted 8, c NoRoom",
		},
		"unless more waits than the cluster holds": {
			cluster: newCluster(40).run(gang("r", 24, 0), 24, 0).wait(elasticGang("a", 4, 8, 1, 0), elasticGang("b", 4, 8, 2, 0), elasticGang("c", 4, 8, 3, 0), gang("d", 30, 4)), second: 60,
			want: "a Admitted 8, b Admitted 4, c Admitted 4, d NoRoom",
		},
		"it is smaller where some would be left": {
			cluster: newCluster(40).run(gang("r", 30, 0), 30, 0).wait(elasticGang("a", 4, 8, 1, 0), elasticGang("b", 4, 8, 2, 0)), second: 60,
			want: "a Admitted 6, b Admitted 4",
		},
		"of those made at once the largest are first": {
			cluster: newCluster(10).wait(made(gang("a", 2, 1), 0), made(gang("b", 6, 1), 4), made(gang("c", 7, 1), 5)), second: 60,
			want: "b Admitted 6, a Admitted 2, c NoRoom",
		},
		"though that is no reason to take from others": {
			cluster: newCluster(12).run(gang("r", 4, 0), 4, 0).wait(with(twice(4, "a", 1), ofPriority(5)), with(gang("b", 4, 2), ofPriority(5))), second: 60,
			want: "a Admitted 8, b NoRoom",
		},
		"nor from another queue": {
			cluster: newCluster(40, easy("a"), easy("b")).run(with(gang("r", 24, 0), inQueue("c")), 24, 0).wait(
				with(elasticGang("a1", 2, 3, 1, 0), inQueue("a")), with(gang("a2", 4, 2), inQueue("a")), with(elasticGang("b1", 4, 13, 1, 0), inQueue("b"))), second: 60,
			want: "a1 Admitted 3, a2 Admitted 4, b1 Admitted 9",
		},
		"other resources do not count": {
			cluster: withGPUs(newCluster(40).run(with(gang("r", 30, 0), gpus), 30, 0)).wait(elasticGang("a", 4, 8, 1, 0), elasticGang("b", 4, 8, 2, 0)), second: 60,
			want: "a Admitted 6, b Admitted 4",
		},
		"nobody waits": {cluster: newCluster(1)},
	})
}

// twice is a gang that may have half its size, or all.
func twice(least int, id string, second int) Gang {
	g := elasticGang(id, least, 2*least, second, 0)
	g.Sizing.Operator, g.Sizing.Operand = elastic.Multiply, 2
	return g
}

func gpus(g *Gang) { g.Requests = Resources{"cpu": 1, "gpu": 1} }

// withGPUs has one on each node that is in use.
func withGPUs(c *cluster) *cluster {
	c.snap.Total["gpu"] = int64(len(c.snap.Running[0].Ranks))
	return c
}

// The order does not depend on who else waits, so that what was taken for one is not another's.
func TestOrderStays(t *testing.T) {
	c := newCluster(13).run(with(gang("x", 4, 0), ofPriority(9)), 4, 0).run(gang("r", 8, 0), 8, 0).wait(
		made(with(gang("o", 1, 1), ofPriority(5), limited(10*time.Second)), 9), made(with(gang("h", 8, 1), ofPriority(5)), 10), made(with(gang("l", 9, 1), ofPriority(5)), 15))
	s := simulate(c, func(g Gang, _ int) time.Duration { return cmp.Or(g.Limit, time.Hour) })
	s.limits = true
	var starts []string
	s.say = func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); strings.Contains(text, "starts") || strings.Contains(text, "gave") {
			starts = append(starts, text)
		}
	}
	for range 4 {
		s.now = s.now.Add(20 * time.Second)
		s.step()
	}
	if text := strings.Join(starts, "; "); !strings.Contains(text, "default/h starts at 8") || strings.Count(text, "gave") != 1 {
		t.Errorf("this happened: %s", text)
	}
}

// While it settles, what was taken for a gang is not given to another queue.
func TestSettlesForTheHead(t *testing.T) {
	waiting := []Gang{with(elasticGang("h", 4, 8, 1, 0), inQueue("a"), ofPriority(9))}
	for i := range 6 {
		waiting = append(waiting, with(gang(fmt.Sprintf("b%d", i), 4, 2), inQueue("b")))
	}
	c := newCluster(24, queue("a", func(q *Queue) { q.Priority = 1 }), easy("b"), easy("c")).run(with(gang("x", 8, 0), inQueue("c")), 8, 0)
	for i := range 4 {
		c.run(with(gang(fmt.Sprintf("r%d", i), 4, 0), inQueue("a")), 4, 0)
	}
	s := simulate(c.wait(waiting...), func(Gang, int) time.Duration { return time.Hour })
	evicted := 0
	s.check = func(c Result) { evicted += len(c.Evictions) }
	for range 30 {
		s.snap.Settles = s.now.Add(time.Second)
		if evicted == 0 || s.now.Second()%5 == 0 {
			s.snap.Settles = time.Time{}
		}
		s.step()
		s.now = s.now.Add(time.Second)
	}
	if s.began["h"].IsZero() || evicted != 1 {
		t.Errorf("it began at %s, and %d were evicted for it", s.began["h"], evicted)
	}
}

// made is a gang that was made some seconds after noon.
func made(g Gang, second int) Gang {
	g.Created = noon.Add(time.Duration(second) * time.Second)
	return g
}

func TestSettles(t *testing.T) {
	settles := func(c *cluster, second int) *cluster {
		copied := *c
		copied.snap.Settles = noon.Add(time.Duration(second) * time.Second)
		return &copied
	}
	small := newCluster(10).run(gang("r", 4, 0), 4, 0, endsAt(600)).wait(gang("a", 7, 1), with(gang("b", 2, 2), limited(time.Minute)))
	malleable := newCluster(10).run(gang("r", 4, 0), 4, 0).wait(elasticGang("a", 3, 8, 1, 0))
	urgent := newCluster(10).run(gang("r", 8, 0), 8, 0).wait(with(elasticGang("a", 4, 8, 1, 0), ofPriority(9)))
	testSchedule(t, map[string]scheduleCase{
		"while nodes are being freed nobody passes": {cluster: settles(small, 61), second: 60, want: "a NoRoom, b WaitingForTurn"},
		"nor starts at less than its size":          {cluster: settles(malleable, 61), second: 60, want: "a NoRoom"},
		"nor is anything taken":                     {cluster: settles(urgent, 61), second: 60, want: "a NoRoom"},
		"what fits at its size starts":              {cluster: settles(newCluster(10).wait(gang("a", 7, 1)), 61), second: 60, want: "a Admitted 7"},
		"then one passes that delays nobody":        {cluster: settles(small, 60), second: 60, want: "a NoRoom, b Admitted 2 by backfill"},
		"then it starts at what there is":           {cluster: settles(malleable, 60), second: 60, want: "a Admitted 6"},
		"then it is taken":                          {cluster: settles(urgent, 60), second: 60, want: "a NoRoom, r is evicted (preempt)"},
	})
	c := settles(malleable, 61)
	if got := Schedule(c.snap, c.room, noon.Add(time.Minute)).Decisions[0].LookAgain; !got.Equal(c.snap.Settles) {
		t.Errorf("it is looked at again at %s, want %s", got, c.snap.Settles)
	}
}

func TestBackfill(t *testing.T) {
	conservative := queue("default", func(q *Queue) { q.Backfill = Conservative })
	none := func(q *Queue) { q.Backfill = NoBackfill }
	testSchedule(t, map[string]scheduleCase{
		"one that ends in time may pass": {
			cluster: newCluster(10).run(gang("r", 6, 0), 6, 0, endsAt(100)).
				wait(gang("a", 10, 1), with(gang("b", 4, 2), limited(time.Minute))), second: 40,
			want: "a NoRoom, b Admitted 4 by backfill",
		},
		"one that ends too late may not": {
			cluster: newCluster(10).run(gang("r", 6, 0), 6, 0, endsAt(100)).
				wait(gang("a", 10, 1), with(gang("b", 4, 2), limited(time.Minute))), second: 41,
			want: "a NoRoom, b WaitingForTurn",
		},
		"one that leaves enough may pass": {
			cluster: newCluster(10).run(gang("r", 6, 0), 6, 0).wait(gang("a", 8, 1), gang("b", 3, 2), gang("c", 2, 2)), second: 10,
			want: "a NoRoom, b WaitingForTurn, c Admitted 2 by backfill",
		},
		"all nodes that come at the shadow time count as spare": {
			cluster: newCluster(10).run(gang("r", 4, 0), 4, 0, endsAt(100)).run(gang("s", 4, 0), 4, 0, endsAt(100)).
				wait(gang("a", 6, 1), gang("b", 2, 2)), second: 10,
			want: "a NoRoom, b Admitted 2 by backfill",
		},
		"a gang that began earlier and ends later does not count": {
			cluster: newCluster(12).run(gang("l", 6, 0), 6, 0).run(with(gang("s", 4, 0), expected(60)), 4, 100).
				wait(gang("a", 6, 101), gang("b", 2, 102)), second: 110,
			want: "a NoRoom, b WaitingForTurn",
		},
		"one that is expected to end later does not either": {
			cluster: newCluster(12).run(with(gang("l", 7, 0), expected(130)), 7, 0).run(with(gang("s", 3, 0), expected(90)), 3, 100).
				wait(gang("a", 8, 101), gang("b", 2, 102)), second: 110,
			want: "a NoRoom, b WaitingForTurn",
		},
		"those that may pass go by priority, and not by size": {
			cluster: newCluster(10).run(with(gang("r", 6, 0), ofPriority(9)), 6, 0, endsAt(100)).
				wait(with(gang("a", 10, 1), ofPriority(9)), with(gang("b", 2, 3), ofPriority(5), limited(time.Minute)), with(gang("c", 4, 2), limited(time.Minute))), second: 40,
			want: "a NoRoom, b Admitted 2 by backfill, c WaitingForTurn",
		},
		"of the same priority the shortest passes first": {
			cluster: newCluster(10).run(gang("r", 6, 0), 6, 0, endsAt(100)).
				wait(gang("a", 10, 1), with(gang("b", 4, 2), limited(time.Minute)), with(gang("c", 4, 3), limited(30*time.Second))), second: 40,
			want: "a NoRoom, b WaitingForTurn, c Admitted 4 by backfill",
		},
		"by what was learned, too, and not by an estimate": {
			cluster: newCluster(10).run(gang("r", 6, 0), 6, 0, endsAt(100)).
				wait(gang("a", 8, 1), with(gang("b", 2, 2), expected(10)), with(gang("c", 2, 3), expected(200), func(g *Gang) { g.Learned = true })), second: 40,
			want: "a NoRoom, b WaitingForTurn, c Admitted 2 by backfill",
		},
		"by age in a FIFO queue": {
			cluster: newCluster(10, queue("default", func(q *Queue) { q.Ordering = ByAge })).run(gang("r", 6, 0), 6, 0, endsAt(100)).
				wait(gang("a", 10, 1), with(gang("b", 4, 2), limited(time.Minute)), with(gang("c", 4, 3), limited(30*time.Second))), second: 40,
			want: "a NoRoom, b Admitted 4 by backfill, c WaitingForTurn",
		},
		"users that take turns keep them": {
			cluster: newCluster(10, fair(nil)).run(gang("r", 6, 0), 6, 0, endsAt(100)).
				wait(gang("a", 10, 1), with(gang("b", 4, 2), limited(time.Minute)), with(gang("c", 4, 3), limited(30*time.Second))), second: 40,
			want: "a NoRoom, b Admitted 4 by backfill, c WaitingForTurn",
		},
		"the queue of a higher priority passes first": {
			cluster: newCluster(10, queue("a", func(q *Queue) { q.Priority = 1 }), easy("b")).run(with(gang("r", 6, 0), inQueue("a")), 6, 0, endsAt(100)).
				wait(with(gang("a1", 10, 1), inQueue("a")), with(gang("a2", 2, 2), inQueue("a"), limited(time.Minute)),
					with(gang("b1", 10, 1), inQueue("b")), with(gang("b2", 4, 2), inQueue("b"), limited(time.Minute))), second: 40,
			want: "a1 NoRoom, a2 Admitted 2 by backfill, b1 NoRoom, b2 WaitingForTurn",
		},
		"one that is expected to end in time may pass": {
			cluster: newCluster(10).run(gang("r", 6, 0), 6, 0).wait(gang("a", 10, 1), with(gang("b", 4, 2), expected(60)), with(gang("c", 4, 2), usual(60))), second: 40,
			want: "a NoRoom, b Admitted 4 by backfill, c WaitingForTurn",
		},
		"also by the queue's median": {
			cluster: newCluster(10).run(gang("r", 6, 0), 6, 0).wait(gang("a", 10, 1), with(gang("b", 4, 2), usual(60))), second: 40,
			want: "a NoRoom, b Admitted 4 by backfill",
		},
		"one of which nothing is known may not": {
			cluster: newCluster(10).run(with(gang("r", 6, 0), expected(7200)), 6, 0).wait(gang("a", 10, 1), gang("b", 4, 2)), second: 40,
			want: "a NoRoom, b WaitingForTurn",
		},
		"a running one that is late is expected to go on for as long again": {
			cluster: newCluster(10).run(with(gang("r", 6, 0), expected(10)), 6, 0).
				wait(gang("a", 10, 1), with(gang("b", 2, 2), expected(100)), with(gang("c", 2, 3), expected(101))), second: 100,
			want: "a NoRoom, b Admitted 2 by backfill, c WaitingForTurn",
		},
		"a promised start is not put off by estimates": {
			cluster: newCluster(10).run(gang("r", 6, 0), 6, 0, endsAt(100)).wait(gang("a", 10, 1), with(gang("b", 4, 2), expected(60)), with(gang("c", 4, 3), limited(time.Minute))), second: 40,
			want: "a NoRoom, b WaitingForTurn, c Admitted 4 by backfill",
		},
		"nor if others are expected to end before it": {
			cluster: newCluster(10).run(gang("r", 4, 0), 4, 0, endsAt(1000)).run(with(gang("s", 4, 0), expected(100)), 4, 0).
				wait(gang("a", 6, 1), with(gang("b", 2, 2), expected(60)), with(gang("c", 2, 3), limited(time.Minute))), second: 40,
			want: "a NoRoom, b WaitingForTurn, c Admitted 2 by backfill",
		},
		"once gangs that passed it were late twice, those without a limit may not": {
			cluster: newCluster(10).run(with(gang("r", 6, 0), expected(10)), 6, 30).
				wait(with(gang("a", 8, 1), putOff(20, true)), gang("b", 2, 2), with(gang("c", 2, 3), expected(1)), with(gang("d", 2, 4), limited(time.Minute))), second: 100,
			want: "a NoRoom, b WaitingForTurn, c WaitingForTurn, d Admitted 2 by backfill",
		},
		"but not before its patience is over": {
			cluster: newCluster(10).run(with(gang("r", 6, 0), expected(10)), 6, 30).wait(with(gang("a", 8, 1), putOff(50, true)), gang("b", 2, 2)), second: 100,
			want: "a NoRoom, b Admitted 2 by backfill",
		},
		"nor after the first time": {
			cluster: newCluster(10).run(with(gang("r", 6, 0), expected(10)), 6, 30).wait(with(gang("a", 8, 1), putOff(20, false)), gang("b", 2, 2)), second: 100,
			want: "a NoRoom, b Admitted 2 by backfill",
		},
		"nor for one that did not pass it": {
			cluster: newCluster(10).run(with(gang("r", 6, 0), expected(10)), 6, 0).wait(with(gang("a", 8, 1), putOff(20, true)), gang("b", 2, 2)), second: 100,
			want: "a NoRoom, b Admitted 2 by backfill",
		},
		"one that nothing lets start keeps nobody waiting, and the next has a reservation": {
			cluster: newCluster(10).others(1).run(gang("r", 6, 0), 6, 0, endsAt(100)).
				wait(gang("a", 10, 1), gang("b", 8, 2), with(gang("c", 3, 3), limited(time.Hour)), with(gang("d", 3, 4), limited(time.Minute))), second: 40,
			want: "a NoRoom, b NoRoom, c WaitingForTurn, d Admitted 3 by backfill",
		},
		"the next starts if it fits": {
			cluster: newCluster(10).others(1).run(gang("r", 6, 0), 6, 0).wait(gang("a", 10, 1), gang("b", 3, 2)), second: 40,
			want: "a NoRoom, b Admitted 3",
		},
		"without backfill it waits until the patience is over": {
			cluster: newCluster(10, queue("default", none)).others(1).run(gang("r", 6, 0), 6, 0).wait(with(gang("a", 10, 1), blocked(10)), gang("b", 3, 2)), second: 69,
			want: "a NoRoom, b WaitingForTurn",
		},
		"and starts then": {
			cluster: newCluster(10, queue("default", none)).others(1).run(gang("r", 6, 0), 6, 0).wait(with(gang("a", 10, 1), blocked(10)), gang("b", 3, 2)), second: 70,
			want: "a NoRoom, b Admitted 3",
		},
		"one that could use other nodes than the first is next on these": {
			cluster: newCluster(10).run(gang("r", 2, 0), 2, 0, endsAt(1000)).run(gang("s", 6, 0), 6, 0, endsAt(100)).
				wait(gang("a", 2, 1), gang("b", 8, 2), with(gang("c", 2, 3), limited(time.Hour)), with(gang("d", 2, 4), limited(time.Minute))).
				on(0, 2, "a"), second: 40,
			want: "a NoRoom, b NoRoom, c WaitingForTurn, d Admitted 2 by backfill",
		},
		"and starts there in its turn": {
			cluster: newCluster(10).run(gang("r", 2, 0), 2, 0, endsAt(1000)).wait(gang("a", 2, 1), with(gang("b", 8, 2), limited(time.Minute))).on(0, 2, "a"), second: 40,
			want: "a NoRoom, b Admitted 8",
		},
		"conservative also passes one that nothing lets start": {
			cluster: newCluster(10, conservative).others(1).run(gang("r", 6, 0), 6, 0, endsAt(100)).
				wait(gang("a", 10, 1), gang("b", 8, 2), with(gang("c", 3, 3), limited(time.Hour)), with(gang("d", 3, 4), limited(time.Minute))), second: 40,
			want: "a NoRoom, b NoRoom, c WaitingForTurn, d Admitted 3 by backfill",
		},
		"a capacity that a late drain holds is waited for": {
			cluster: newCluster(20, queue("a", func(q *Queue) { q.Capacity = Resources{"cpu": 10} })).run(with(elasticGang("r", 2, 9, 0, 0), inQueue("a")), 9, 0, endsAt(1000), func(r *Running) {
				r.Draining, r.DrainBy = []int{6, 7, 8}, noon.Add(60*time.Second)
			}).wait(with(gang("a1", 10, 1), inQueue("a")), with(gang("b1", 1, 2), inQueue("a"))), second: 300,
			want: "a1 QueueFull, b1 WaitingForTurn",
		},
		"ranks leave no later than their gang ends": {
			cluster: newCluster(12).others(1).run(elasticGang("r", 2, 6, 0, 0), 6, 0, endsAt(45), func(r *Running) {
				r.Draining, r.DrainBy = []int{4, 5}, noon.Add(60*time.Second)
			}).wait(gang("a", 12, 1), gang("b", 5, 2)), second: 30,
			want: "a NoRoom, b Admitted 5",
		},
		"conservative: two that are late together do not delay a promised start": {
			cluster: newCluster(10, conservative).run(gang("r", 6, 0), 6, 0, endsAt(100)).
				wait(with(gang("a", 5, 1), limited(50*time.Second)), with(gang("b", 8, 2), limited(50*time.Second)), with(gang("c", 2, 3), expected(10)), with(gang("d", 2, 4), expected(10))), second: 5,
			want: "a NoRoom, b WaitingForTurn, c Admitted 2 by backfill, d WaitingForTurn",
		},
		"one that should be gone does not hinder others": {
			cluster: newCluster(10).run(gang("r", 4, 0), 4, 0, ending, func(r *Running) { r.EndBy = noon.Add(30 * time.Second) }).run(gang("s", 4, 0), 4, 0, endsAt(300)).
				wait(gang("a", 6, 1), with(gang("b", 2, 2), limited(time.Minute)), with(gang("c", 2, 2), expected(60))), second: 200,
			want: "a NoRoom, b Admitted 2 by backfill, c WaitingForTurn",
		},
		"the first of another queue is not delayed either": {
			cluster: newCluster(10, easy("a"), easy("b")).run(with(gang("r", 6, 0), inQueue("b")), 6, 0).
				wait(with(gang("a1", 10, 1), inQueue("a")), with(gang("b1", 2, 2), inQueue("b"))), second: 10,
			want: "a1 NoRoom, b1 NoRoom",
		},
		"but by a queue of a higher priority": {
			cluster: newCluster(10, easy("a"), queue("b", func(q *Queue) { q.Priority = 1 })).run(with(gang("r", 6, 0), inQueue("b")), 6, 0).
				wait(with(gang("a1", 10, 1), inQueue("a")), with(gang("b1", 2, 2), inQueue("b"))), second: 10,
			want: "a1 NoRoom, b1 Admitted 2",
		},
		"easy protects the first alone": {
			cluster: newCluster(10).run(gang("r", 5, 0), 5, 0, endsAt(50)).run(gang("s", 3, 0), 3, 0, endsAt(100)).
				wait(gang("a", 7, 1), gang("b", 9, 2), gang("c", 2, 3)), second: 10,
			want: "a NoRoom, b WaitingForTurn, c WaitingForTurn",
		},
		"easy lets the third delay the second": {
			cluster: newCluster(10).run(gang("r", 5, 0), 5, 0, endsAt(50)).run(gang("s", 3, 0), 3, 0, endsAt(100)).
				wait(gang("a", 6, 1), gang("b", 10, 2), gang("c", 1, 3)), second: 10,
			want: "a NoRoom, b WaitingForTurn, c Admitted 1 by backfill",
		},
		"conservative protects the second too": {
			cluster: newCluster(10, conservative).run(gang("r", 5, 0), 5, 0, endsAt(50)).run(gang("s", 3, 0), 3, 0, endsAt(100)).
				wait(gang("a", 6, 1), gang("b", 10, 2), gang("c", 1, 3)), second: 10,
			want: "a NoRoom, b WaitingForTurn, c WaitingForTurn",
		},
		"conservative counts the first for the second": {
			cluster: newCluster(10, conservative).run(gang("r", 7, 0), 7, 0, endsAt(100)).
				wait(with(gang("a", 6, 1), limited(time.Minute)), with(gang("b", 4, 2), limited(time.Minute)), gang("c", 3, 3)), second: 10,
			want: "a NoRoom, b WaitingForTurn, c WaitingForTurn",
		},
		"conservative lets one pass that ends in time": {
			cluster: newCluster(10, conservative).run(gang("r", 7, 0), 7, 0, endsAt(100)).
				wait(with(gang("a", 6, 1), limited(time.Minute)), with(gang("b", 4, 2), limited(time.Minute)), with(gang("c", 3, 3), limited(90*time.Second))), second: 10,
			want: "a NoRoom, b WaitingForTurn, c Admitted 3 by backfill",
		},
		"conservative uses the room behind a reservation": {
			cluster: newCluster(10, conservative).run(gang("r", 7, 0), 7, 0, endsAt(100)).
				wait(with(gang("a", 10, 1), limited(time.Minute)), with(gang("b", 5, 2), limited(time.Minute)), with(gang("c", 5, 3), limited(time.Minute))), second: 10,
			want: "a NoRoom, b WaitingForTurn, c WaitingForTurn",
		},
		"conservative knows no start behind an unknown end": {
			cluster: newCluster(8, conservative).run(gang("r", 8, 0), 8, 0, ending).wait(gang("a", 5, 1), gang("b", 3, 2)), second: 100,
			want: "a NoRoom, b WaitingForTurn",
		},
		"conservative starts one if a reservation of another queue is not in the way": {
			cluster: newCluster(10, queue("a", func(q *Queue) { q.Backfill = Conservative }), easy("b")).run(with(gang("r", 6, 0), inQueue("b")), 6, 0, endsAt(100)).
				wait(with(gang("a1", 7, 1), inQueue("a"), limited(time.Minute)), with(gang("b1", 9, 2), inQueue("b"), limited(time.Minute)),
					with(gang("a2", 2, 3), inQueue("a")), with(gang("a3", 1, 4), inQueue("a"))), second: 10,
			want: "a1 NoRoom, a2 WaitingForTurn, a3 Admitted 1 by backfill, b1 NoRoom",
		},
		"best effort goes last, and takes no slot": {
			cluster: newCluster(2).run(gang("r", 2, 0), 2, 0).
				wait(gang("a", 2, 1), with(gang("b", 4, 2), func(g *Gang) { g.BestEffort, g.Requests, g.Class = true, nil, "none" })), second: 10,
			want: "a NoRoom, b Admitted 4",
		},
	})
}

func TestPreempt(t *testing.T) {
	high := ofPriority(100)
	politely := func(g *Gang) { g.NeverPreempts = true }
	minRuntime := queue("default", func(q *Queue) { q.MinRuntime = time.Minute })
	testSchedule(t, map[string]scheduleCase{
		"also for one that waits for other nodes than those before it": {
			cluster: newCluster(10).run(with(gang("r", 2, 0), high), 2, 0, endsAt(1000)).run(gang("s", 8, 0), 8, 0).
				wait(with(gang("a", 2, 1), high), with(gang("b", 8, 2), high)).on(0, 2, "a").on(2, 10, "b"), second: 10,
			want: "a NoRoom, b NoRoom, s is evicted (preempt)",
		},
		"surplus goes first": {
			cluster: newCluster(10).run(elasticGang("r", 2, 6, 0, 0), 6, 0, malleable).run(gang("s", 4, 0), 4, 0).wait(with(gang("a", 3, 1), high)), second: 10,
			want: "a NoRoom, r drains [3 4 5] (preempt)",
		},
		"nothing of a gang that changes just now, and may have a surplus then": {
			cluster: newCluster(6).run(elasticGang("r", 2, 6, 0, 0), 6, 0, changing).wait(with(gang("a", 3, 1), high)), second: 10,
			want: "a NoRoom",
		},
		"all of one that changes since its user wants that: the user could always want it": {
			cluster: newCluster(6).run(elasticGang("r", 2, 6, 0, 0), 6, 0, changing, func(r *Running) { r.Sought = true }).wait(with(gang("a", 3, 1), high)), second: 10,
			want: "a NoRoom, r is evicted (preempt)",
		},
		"all of one whose user wants fewer than its pods may go on with": {
			cluster: newCluster(6).run(elasticGang("r", 1, 1, 0, 0), 6, 0, malleable, func(r *Running) { r.Least = 6 }).wait(with(gang("a", 3, 1), high)), second: 10,
			want: "a NoRoom, r is evicted (preempt)",
		},
		"no less than the smallest size that its tasks allow": {
			cluster: newCluster(4).run(with(elasticGang("r", 1, 4, 0, 0), func(g *Gang) {
				g.Sizing.Tasks, g.Sizing.SlotsPerNode = elastic.Tasks{AtSize: 17, Fixed: true}, 8 // three or four brokers
			}), 4, 0, malleable).wait(with(gang("a", 2, 1), high)), second: 10,
			want: "a NoRoom, r is evicted (preempt)",
		},
		"nothing for one that never preempts": {
			cluster: newCluster(10).run(elasticGang("r", 2, 6, 0, 0), 6, 0, malleable).run(gang("s", 4, 0), 4, 0).wait(with(gang("a", 3, 1), high, politely)), second: 10,
			want: "a NoRoom",
		},
		"but it goes first": {
			cluster: newCluster(10).run(gang("r", 8, 0), 8, 0).wait(gang("b", 2, 1), with(gang("a", 2, 2), high, politely)), second: 10,
			want: "a Admitted 2, b NoRoom",
		},
		"a gang that cannot change is not shrunk": {
			cluster: newCluster(10).run(elasticGang("r", 2, 6, 0, 0), 6, 0).run(gang("s", 4, 0), 4, 1).wait(with(gang("a", 3, 1), high)), second: 10,
			want: "a NoRoom, s is evicted (preempt)",
		},
		"one whole gang rather than two": {
			cluster: newCluster(10).run(gang("r", 3, 0), 3, 0).run(gang("s", 4, 0), 4, 1).run(gang("u", 3, 0), 3, 2).wait(with(gang("a", 4, 1), high)), second: 10,
			want: "a NoRoom, s is evicted (preempt)",
		},
		"the youngest of equal ones": {
			cluster: newCluster(9).run(gang("r", 3, 0), 3, 0).run(gang("s", 3, 0), 3, 2).run(gang("u", 3, 0), 3, 1).wait(with(gang("a", 3, 1), high)), second: 10,
			want: "a NoRoom, s is evicted (preempt)",
		},
		"a small one rather than a large one that is a little younger": {
			cluster: newCluster(100).run(gang("r", 98, 0), 98, 2).run(gang("s", 2, 0), 2, 0).wait(with(gang("a", 2, 1), high)), second: 10,
			want: "a NoRoom, s is evicted (preempt)",
		},
		"several small ones rather than a large one that lose less": {
			cluster: newCluster(100).run(gang("r", 96, 0), 96, 2).run(gang("s", 2, 0), 2, 0).run(gang("u", 2, 0), 2, 1).wait(with(gang("a", 4, 1), high)), second: 10,
			want: "a NoRoom, s is evicted (preempt), u is evicted (preempt)",
		},
		"not one that has not run for long enough": {
			cluster: newCluster(9, minRuntime).run(gang("r", 3, 0), 3, 0).run(gang("s", 3, 0), 3, 2).run(gang("u", 3, 0), 3, 1).wait(with(gang("a", 3, 1), high)), second: 61,
			want: "a NoRoom, u is evicted (preempt)",
		},
		"nor two of which one has not": {
			cluster: newCluster(6, minRuntime).run(gang("r", 3, 0), 3, 0).run(gang("s", 3, 0), 3, 2).wait(with(gang("a", 6, 1), high)), second: 61,
			want: "a NoRoom",
		},
		"but its surplus": {
			cluster: newCluster(6, minRuntime).run(elasticGang("r", 2, 6, 0, 0), 6, 0, malleable).wait(with(gang("a", 3, 1), high)), second: 10,
			want: "a NoRoom, r drains [3 4 5] (preempt)",
		},
		"nothing if that would not be enough": {
			cluster: newCluster(10).run(gang("r", 5, 0), 5, 0).run(with(gang("s", 5, 0), high), 5, 0).wait(with(gang("a", 6, 1), high)), second: 10,
			want: "a NoRoom",
		},
		"nothing if enough is on its way out": {
			cluster: newCluster(10).run(gang("r", 5, 0), 5, 0).run(gang("s", 5, 0), 5, 0, ending).wait(with(gang("a", 5, 1), high)), second: 10,
			want: "a NoRoom",
		},
		"not from another queue": {
			cluster: newCluster(10, easy("default"), easy("b")).run(with(gang("r", 10, 0), inQueue("b")), 10, 0).wait(with(gang("a", 5, 1), high)), second: 10,
			want: "a NoRoom",
		},
		"surplus that does not matter stays when a whole gang goes": {
			cluster: newCluster(10).run(elasticGang("r", 4, 5, 0, 0), 5, 0, malleable).run(gang("s", 5, 0), 5, 1).wait(with(gang("a", 5, 1), high)), second: 10,
			want: "a NoRoom, s is evicted (preempt)",
		},
		"not in a queue that goes by age: it would start again": {
			cluster: newCluster(5, queue("default", func(q *Queue) { q.Ordering = ByAge })).run(gang("r", 5, 0), 5, 0).wait(with(gang("a", 5, 1), high)), second: 10,
			want: "a NoRoom",
		},
		"nothing for capacity where nodes are missing": {
			cluster: newCluster(10, queue("default", func(q *Queue) { q.Capacity = Resources{"cpu": 6} }), easy("b")).
				run(gang("v", 2, 0), 2, 1).run(with(gang("r", 8, 0), inQueue("b")), 8, 0).wait(with(gang("a", 5, 1), high)), second: 10,
			want: "a QueueFull",
		},
		"nobody passes in the time that one who goes would have had": {
			cluster: newCluster(10).run(gang("r", 6, 0), 6, 0, endsAt(3600)).wait(with(gang("a", 10, 1), high), with(gang("s", 4, 2), func(g *Gang) { g.Limit = 30 * time.Minute })), second: 10,
			want: "a NoRoom, s WaitingForTurn, r is evicted (preempt)",
		},
		"one that writes a checkpoint first": {
			cluster: newCluster(6).run(gang("r", 3, 0), 3, 0, saves(time.Second)).run(gang("s", 3, 0), 3, 2).wait(with(gang("a", 3, 1), high)), second: 60,
			want: "a NoRoom, r is evicted (preempt)",
		},
		"one that has just written one by itself": {
			cluster: newCluster(6).run(gang("r", 3, 0), 3, 0, func(r *Running) { r.Saved = noon.Add(50 * time.Second) }).run(gang("s", 3, 0), 3, 2).
				wait(with(gang("a", 3, 1), high)), second: 60,
			want: "a NoRoom, r is evicted (preempt)",
		},
		"surplus of one whose command goes on": {
			cluster: newCluster(8).run(elasticGang("r", 2, 4, 0, 0), 4, 0, malleable).run(elasticGang("s", 2, 4, 0, 0), 4, 1, malleable, restarts).
				wait(with(gang("a", 2, 1), high)), second: 10,
			want: "a NoRoom, r drains [2 3] (preempt)",
		},
		"capacity is preempted as nodes are": {
			cluster: newCluster(10, queue("default", func(q *Queue) { q.Capacity = Resources{"cpu": 4} })).run(gang("s", 4, 0), 4, 1).wait(with(gang("a", 2, 1), high)), second: 10,
			want: "a QueueFull, s is evicted (preempt)",
		},
	})
}

// What a gang has above its size goes to a head before anything else does.
func TestTakeLent(t *testing.T) {
	in := func(name string, q Queue, head ...func(*Gang)) *cluster {
		q.Name = name
		return newCluster(6, q).run(with(elasticGang("r", 1, 2, 0, 0), inQueue(name)), 6, 0, malleable).wait(with(gang("a", 3, 1), head...))
	}
	other := func(q Queue) *cluster {
		c := in("b", q)
		c.snap.Queues = append(c.snap.Queues, easy("default"))
		return c
	}
	taken := "a NoRoom, r drains [3 4 5] (reclaim)"
	testSchedule(t, map[string]scheduleCase{
		"of the same priority":                 {cluster: in("default", easy("")), second: 10, want: taken},
		"in a queue that goes by age":          {cluster: in("default", Queue{Ordering: ByAge}), second: 10, want: taken},
		"before it has run for long":           {cluster: in("default", Queue{MinRuntime: time.Minute}), second: 10, want: taken},
		"for a head that preempts none":        {cluster: in("default", easy(""), func(g *Gang) { g.NeverPreempts = true }), second: 10, want: taken},
		"of a queue from which others reclaim": {cluster: other(Queue{Reclaimable: true, Weight: 100}), second: 10, want: taken},
		"not of a queue from which none may":   {cluster: other(easy("")), second: 10, want: "a NoRoom"},
		"no more than that": {
			cluster: newCluster(6).run(elasticGang("r", 1, 4, 0, 0), 6, 0, malleable).wait(gang("a", 3, 1)), second: 10,
			want: "a NoRoom",
		},
		"before the size of a gang of lower priority": {
			cluster: newCluster(10).run(elasticGang("r", 1, 4, 0, 0), 4, 1, malleable).run(with(elasticGang("s", 1, 2, 0, 0), ofPriority(9)), 6, 0, malleable).
				wait(with(gang("a", 3, 1), ofPriority(9))), second: 10,
			want: "a NoRoom, s drains [3 4 5] (reclaim)",
		},
		"with what gangs of lower priority have": {
			cluster: newCluster(10).run(gang("r", 4, 0), 4, 0).run(with(elasticGang("s", 1, 2, 0, 0), ofPriority(9)), 6, 0, malleable).
				wait(with(gang("a", 6, 1), ofPriority(9))), second: 10,
			want: "a NoRoom, s drains [4 5] (reclaim), r is evicted (preempt)",
		},
	})
}

// A head gets what it has preempted before a gang of another queue that has less.
func TestPreemptedNodesGoToTheHead(t *testing.T) {
	c := newCluster(10, easy("default"), easy("b")).run(gang("r", 5, 0), 5, 0).run(gang("s", 5, 0), 5, 1).
		wait(with(gang("x", 5, 1), inQueue("b")), with(gang("a", 5, 2), ofPriority(9)))
	got := Schedule(c.snap, c.room, noon.Add(10*time.Second))
	if text := say(got); text != "x NoRoom, a NoRoom, s is evicted (preempt)" {
		t.Fatal(text)
	}
	c.keep(got)
	c.snap.Running[1].Ending = true
	got = Schedule(c.snap, c.room, noon.Add(11*time.Second))
	if text := say(got); text != "x NoRoom, a NoRoom" {
		t.Fatal(text)
	}
	c.keep(got)
	c.leave("s")
	if text := say(Schedule(c.snap, c.room, noon.Add(12*time.Second))); text != "x NoRoom, a Admitted 5" {
		t.Error(text)
	}
}

// What is preempted for a head goes to that head, also if the head of another queue has waited for longer than its patience.
func TestPreemptedBesideOthers(t *testing.T) {
	c := newCluster(10, easy("default"), easy("b")).run(gang("r", 5, 0), 5, 0).run(gang("s", 5, 0), 5, 1).
		wait(with(gang("x", 5, 1), inQueue("b"), blocked(2)), with(gang("a", 5, 2), ofPriority(9)))
	for second, want := range []string{"x NoRoom, a NoRoom, s is evicted (preempt)", "x NoRoom, a Admitted 5"} {
		got := Schedule(c.snap, c.room, noon.Add(time.Duration(100+second)*time.Second))
		if text := say(got); text != want {
			t.Error(text)
		}
		c.keep(got)
		c.leave("s")
	}
}

// Nodes are lost to others only if they became free, and were enough.
func TestTakenButNotLost(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(c *cluster)
		lost   int
	}{
		"the order could not be recorded": {func(*cluster) {}, 0},
		"others got them":                 {func(c *cluster) { c.leave("s"); c.room.take("others", 0, 2, 1) }, 1},
		"it needs more now": {func(c *cluster) {
			c.leave("s")
			c.room.take("others", 0, 2, 1)
			c.snap.Waiting[0].Sizing = gang("h", 3, 2).Sizing
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(4).run(gang("r", 2, 0), 2, 0).run(gang("s", 2, 0), 2, 1).wait(with(gang("h", 2, 2), ofPriority(9)))
			c.others(0)
			got := Schedule(c.snap, c.room, noon.Add(10*time.Second))
			if text := say(got); text != "h NoRoom, s is evicted (preempt)" {
				t.Fatal(text)
			}
			c.keep(got)
			tc.change(c)
			if d := Schedule(c.snap, c.room, noon.Add(11*time.Second)).Decisions[0]; d.Taken.Lost != tc.lost {
				t.Errorf("%d were lost: %+v", d.Taken.Lost, d.Taken)
			}
		})
	}
}

// A head whose freed nodes others get again and again pauses, for longer each time, and says so.
func TestTakesAgain(t *testing.T) {
	c := newCluster(30).wait(with(gang("h", 2, 100), ofPriority(9)))
	for i := range 30 {
		c.run(gang(fmt.Sprintf("r%02d", i), 1, i), 1, i)
	}
	c.others(0)
	var evicted []int // when, in seconds
	for second := 100; second < 1000; second++ {
		now := noon.Add(time.Duration(second) * time.Second)
		got := Schedule(c.snap, c.room, now)
		if at := got.Decisions[0].LookAgain; got.Decisions[0].Taken.Pause.After(now) && at.After(got.Decisions[0].Taken.Pause) {
			t.Fatalf("after %d s it is looked at again at %s, after the pause", second, at)
		}
		c.keep(got)
		for _, e := range got.Evictions {
			evicted = append(evicted, second)
			node := c.room.held[e.Gang][0]
			c.leave(e.Gang)
			c.room.take("others", len(evicted), node, 1)
			c.snap.Foreign.Add(Resources{"cpu": 1, "pods": 1}, 1)
		}
		if len(evicted) == 6 && len(got.Evictions) == 0 {
			checkMessages(t, got, "h 1 needs 2, 0 free; others got the nodes that were freed for it, 3 times: no more are taken before 2026-11-21T12:04:43Z")
		}
	}
	if want := []int{100, 100, 101, 101, 162, 162, 283, 283, 524, 524}; !slices.Equal(evicted, want) {
		t.Errorf("gangs were evicted after %v s, want %v", evicted, want)
	}
}

// A restart is worth more nodes once the command has run for long enough, and then the gang is looked at again.
func TestRestartIsWorthIt(t *testing.T) {
	c := newCluster(8).run(elasticGang("r", 2, 4, 0, 0), 4, 0, malleable, func(r *Running) { r.Max = 8 }, restarts)
	at := Schedule(c.snap, c.room, noon.Add(100*time.Second)).LookAgain
	if want := noon.Add(2*time.Minute + 1); !at.Equal(want) {
		t.Errorf("it is looked at again at %s, want %s", at, want)
	}
	if got := say(Schedule(c.snap, c.room, at)); got != "r grows 4" {
		t.Errorf("then %s", got)
	}

	c.snap.Running[0].Expected = 150 * time.Second // at its size; it will be late
	at = Schedule(c.snap, c.room, noon.Add(100*time.Second)).LookAgain
	if got := say(Schedule(c.snap, c.room, at)); at.Before(noon.Add(150*time.Second)) || got != "r grows 4" {
		t.Errorf("at %s %s", at, got)
	}
}

// Once a protected gang may be evicted, the queue is looked at again.
func TestMinRuntimeEnds(t *testing.T) {
	c := newCluster(6, queue("default", func(q *Queue) { q.MinRuntime = time.Minute })).run(gang("r", 6, 0), 6, 2).wait(with(gang("a", 6, 1), ofPriority(9)))
	if got, want := Schedule(c.snap, c.room, noon.Add(10*time.Second)).Decisions[0].LookAgain, noon.Add(62*time.Second); !got.Equal(want) {
		t.Errorf("it is looked at again at %s, want %s", got, want)
	}
	if got := say(Schedule(c.snap, c.room, noon.Add(62*time.Second))); got != "a NoRoom, r is evicted (preempt)" {
		t.Errorf("then %s", got)
	}
}

func TestReclaim(t *testing.T) {
	lent := queue("b", func(q *Queue) { q.Reclaimable = true })
	weighs := func(name string, weight int) Queue { return queue(name, func(q *Queue) { q.Weight = weight }) }
	testSchedule(t, map[string]scheduleCase{
		"what another queue has above its share": {
			cluster: newCluster(10, easy("default"), lent).run(with(gang("r", 5, 0), inQueue("b")), 5, 0).run(with(gang("s", 5, 0), inQueue("b")), 5, 1).wait(gang("a", 5, 1)), second: 10,
			want: "a NoRoom, s is evicted (reclaim)",
		},
		"what others use is not shared": {
			cluster: newCluster(10, easy("default"), lent).others(6).run(with(gang("r", 2, 0), inQueue("b")), 2, 0).run(with(gang("s", 2, 0), inQueue("b")), 2, 1).wait(gang("a", 2, 1)), second: 10,
			want: "a NoRoom, s is evicted (reclaim)",
		},
		"not below its share": {
			cluster: newCluster(10, easy("default"), lent).run(with(gang("r", 6, 0), inQueue("b")), 6, 0).run(with(gang("s", 4, 0), inQueue("b")), 4, 1).wait(gang("a", 5, 1)), second: 10,
			want: "a NoRoom",
		},
		"not from a queue that is served first: it would take them back": {
			cluster: newCluster(10, easy("default"), queue("b", func(q *Queue) { q.Reclaimable, q.Priority = true, 1 })).
				run(with(gang("r", 5, 0), inQueue("b")), 5, 0).run(with(gang("s", 5, 0), inQueue("b")), 5, 1).wait(gang("a", 5, 1)), second: 10,
			want: "a NoRoom",
		},
		"not if it is not lent": {
			cluster: newCluster(10, easy("default"), easy("b")).run(with(gang("r", 5, 0), inQueue("b")), 5, 0).run(with(gang("s", 5, 0), inQueue("b")), 5, 1).wait(gang("a", 5, 1)), second: 10,
			want: "a NoRoom",
		},
		"not for more than the own share": {
			cluster: newCluster(10, easy("default"), lent).run(with(gang("r", 5, 0), inQueue("b")), 5, 0).run(with(gang("s", 5, 0), inQueue("b")), 5, 1).wait(gang("a", 6, 1)), second: 10,
			want: "a NoRoom",
		},
		"a guarantee, from a gang that is larger than what is above the share": {
			cluster: newCluster(10, queue("default", func(q *Queue) { q.Guarantee = Resources{"cpu": 5} }), lent).run(with(gang("r", 10, 0), inQueue("b")), 10, 0).wait(gang("a", 5, 1)), second: 10,
			want: "a NoRoom, r is evicted (reclaim)",
		},
		"not beyond the guarantee": {
			cluster: newCluster(10, queue("default", func(q *Queue) { q.Guarantee = Resources{"cpu": 4} }), lent).run(with(gang("r", 10, 0), inQueue("b")), 10, 0).wait(gang("a", 5, 1)), second: 10,
			want: "a NoRoom",
		},
		"not from a queue within its guarantee": {
			cluster: newCluster(10, queue("default", func(q *Queue) { q.Guarantee = Resources{"cpu": 5} }), queue("b", func(q *Queue) { q.Reclaimable, q.Guarantee = true, Resources{"cpu": 10} })).
				run(with(gang("r", 10, 0), inQueue("b")), 10, 0).wait(gang("a", 5, 1)), second: 10,
			want: "a NoRoom",
		},
		"surplus first": {
			cluster: newCluster(10, easy("default"), lent).run(with(elasticGang("r", 2, 8, 0, 0), inQueue("b")), 8, 0, malleable).run(with(gang("s", 2, 0), inQueue("b")), 2, 1).wait(gang("a", 2, 1)), second: 10,
			want: "a NoRoom, r drains [6 7] (reclaim)",
		},
		"what one has above its size goes, and another": {
			cluster: newCluster(9, weighs("default", 2), lent).run(with(gang("r", 4, 0), inQueue("b")), 4, 0).run(with(elasticGang("s", 1, 3, 0, 0), inQueue("b")), 5, 1, malleable).
				wait(gang("a", 6, 1)), second: 10,
			want: "a NoRoom, s drains [3 4] (reclaim), r is evicted (reclaim)",
		},
		"one that can shrink stays when another has to go": {
			cluster: newCluster(8, weighs("default", 3), lent).run(with(elasticGang("r", 2, 4, 0, 0), inQueue("b")), 4, 2, malleable).run(with(gang("s", 4, 0), inQueue("b")), 4, 1).wait(gang("a", 6, 1)), second: 10,
			want: "a NoRoom, r drains [2 3] (reclaim), s is evicted (reclaim)",
		},
		"what could shrink does not when a queue could not give up a larger gang then": {
			cluster: newCluster(8, weighs("default", 3), lent).run(with(elasticGang("r", 1, 2, 0, 0), inQueue("b")), 2, 2, malleable).run(with(gang("s", 6, 0), inQueue("b")), 6, 1).wait(gang("a", 6, 1)), second: 10,
			want: "a NoRoom, s is evicted (reclaim)",
		},
	})
}

// Gangs whose run times were learned stay small for another one only if they end sooner then, in sum.
func TestSizesByLearnedRuntimes(t *testing.T) {
	takes := func(g Gang, seconds int) Gang {
		g.Expected, g.Learned = time.Duration(seconds)*time.Second, true
		return g
	}
	two := func(first, second int) *cluster {
		return newCluster(64).wait(takes(twice(32, "a", 0), first), takes(twice(32, "b", 0), second))
	}
	guessed := two(100, 100)
	guessed.snap.Waiting[1].Learned = false
	grow := two(100, 100)
	grow.snap.Waiting[1].StartsAtOnce = true
	testSchedule(t, map[string]scheduleCase{
		"alike: one after the other":      {cluster: two(100, 100), want: "a Admitted 64, b NoRoom"},
		"a short one need not wait":       {cluster: two(100, 10), want: "a WaitingForSize, b Admitted 32"},
		"a long one waits for a short":    {cluster: two(10, 100), want: "a Admitted 64, b NoRoom"},
		"with an estimate they all start": {cluster: guessed, want: "a Admitted 32, b Admitted 32"},
		"one that grows later starts":     {cluster: grow, want: "a Admitted 32, b Admitted 32"},
		"others do not end soon": {
			cluster: newCluster(96).run(gang("r", 32, 0), 32, 0, endsAt(1000)).wait(takes(twice(32, "a", 0), 300), takes(twice(48, "b", 1), 10)), second: 1,
			want: "a Admitted 64, b NoRoom",
		},
	})
}

// A gang starts at less than its size unless it ends sooner with nodes that are about to become free.
func TestHoldsOutForMore(t *testing.T) {
	expects := func(g *Gang) { g.Expected = 100 * time.Second }
	learned := func(g *Gang) { g.Learned = true }
	held := func(second int) func(*Gang) {
		spent := time.Duration(second) * time.Second
		return func(g *Gang) { g.Held = Hold{For: 64, Until: noon.Add(spent), Spent: spent} }
	}
	half := func(change ...func(*Gang)) Gang { return with(with(twice(32, "a", 0), expects), change...) }
	anySize := with(elasticGang("a", 32, 64, 0, 0), expects)
	until := func(second int) *cluster { return newCluster(64).run(gang("r", 32, 0), 32, 0, endsAt(second)) }
	testSchedule(t, map[string]scheduleCase{
		"the others end soon":              {cluster: until(5).wait(half()), want: "a WaitingForSize"},
		"just before it were of no use":    {cluster: until(99).wait(half()), want: "a WaitingForSize"},
		"the others end too late":          {cluster: until(100).wait(half()), want: "a Admitted 32"},
		"when the others end is not known": {cluster: newCluster(64).run(gang("r", 32, 0), 32, 0).wait(half()), want: "a Admitted 32"},
		"nobody takes what it leaves idle": {
			cluster: newCluster(10).run(with(gang("r", 6, 0), expected(130)), 6, 0).
				wait(with(elasticGang("a", 4, 8, 2, 0), expects, func(g *Gang) { g.Held = Hold{For: 8, Until: noon.Add(140 * time.Second), Spent: time.Minute} }), gang("b", 2, 3)), second: 101,
			want: "a WaitingForSize, b WaitingForTurn",
		},
		"how long it runs is not known":          {cluster: until(5).wait(twice(32, "a", 0)), want: "a Admitted 32"},
		"it grows later":                         {cluster: until(5).wait(half(func(g *Gang) { g.StartsAtOnce = true })), want: "a Admitted 32"},
		"not for more than others take":          {cluster: until(5).wait(half(held(60)), gang("b", 1, 1)), second: 1, want: "a WaitingForSize, b WaitingForTurn"},
		"while others wait, it waits shortly":    {cluster: until(19).wait(anySize, gang("b", 8, 0)), want: "a WaitingForSize, b NoRoom"},
		"while others wait, it waits not longer": {cluster: until(21).wait(anySize, gang("b", 8, 0)), want: "a Admitted 32, b NoRoom"},
		"unless these want little, and its run time was learned": {
			cluster: until(21).wait(with(anySize, learned), gang("b", 8, 0)), want: "a WaitingForSize, b NoRoom",
		},
		"but not for longer than it gains": {
			cluster: until(51).wait(with(anySize, learned), gang("b", 8, 0)), want: "a Admitted 32, b NoRoom",
		},
		"but not if these want all nodes": {
			cluster: until(21).wait(with(anySize, learned), gang("b", 8, 0), gang("c", 64, 0)), want: "a Admitted 32, c NoRoom, b WaitingForTurn",
		},
		"it holds out once": {cluster: until(50).wait(half(held(10))), second: 11, want: "a Admitted 32"},
		"one whose run time was learned holds out again, if few are left": {
			cluster: until(21).wait(with(anySize, held(10), learned), gang("b", 8, 0)), second: 11, want: "a WaitingForSize, b NoRoom",
		},
		"but not for longer than it gains in all": {
			cluster: until(102).wait(with(anySize, held(79), learned), gang("b", 8, 0)), second: 80, want: "a Admitted 32, b NoRoom",
		},
		"nor if it starts at once now": {
			cluster: until(20).wait(with(anySize, held(19), learned, func(g *Gang) { g.StartsAtOnce = true }), gang("b", 8, 0)), second: 11, want: "a Admitted 32, b NoRoom",
		},
		"until then only at that size": {cluster: until(50).wait(half(held(12))), second: 11, want: "a WaitingForSize"},
		"they are free":                {cluster: newCluster(64).wait(half(held(12))), second: 11, want: "a Admitted 64"},
		"two wait for the same nodes":  {cluster: newCluster(96).run(gang("r", 32, 0), 32, 0, endsAt(65)).wait(half(), with(twice(32, "b", 60), expects)), second: 60, want: "a WaitingForSize, b Admitted 32"},
	})
}

// The others may be late by a part of the expected time, or by a moment if that is short. But a gang holds out for no
// longer than it gains, in all.
func TestHoldsOutIfOthersAreLate(t *testing.T) {
	for _, tc := range []struct {
		expected, spent time.Duration
		learned         bool
		want            time.Duration
	}{
		{100 * time.Second, 0, false, 8 * time.Second},
		{5 * time.Second, 0, false, 5 * time.Second},
		{100 * time.Second, 0, true, 8 * time.Second},
		{5 * time.Second, time.Second, true, 4 * time.Second},
	} {
		c := newCluster(64).run(gang("r", 32, 0), 32, 0, endsAt(3)).wait(with(twice(32, "a", 0), func(g *Gang) {
			g.Expected, g.Learned, g.Held.Spent = tc.expected, tc.learned, tc.spent
		}))
		d := Schedule(c.snap, c.room, noon).Decisions[0]
		if want := noon.Add(tc.want); !d.Held.Until.Equal(want) || d.Held.Spent != tc.spent+tc.want {
			t.Errorf("%+v: it holds out until %s, for %s in all, want %s", tc, d.Held.Until, d.Held.Spent, want)
		}
	}
}

func TestGrow(t *testing.T) {
	upTo := func(n int) func(*Running) { return func(r *Running) { r.Max = n } }
	doubling := func(g *Gang) { g.Sizing.Operator, g.Sizing.Operand = elastic.Multiply, 2 }
	testSchedule(t, map[string]scheduleCase{
		"idle nodes go to a gang that can take them": {
			cluster: newCluster(10).run(elasticGang("r", 2, 4, 0, 0), 4, 0, malleable, upTo(8)),
			want:    "r grows 4",
		},
		"not while somebody waits for them": {
			cluster: newCluster(10).run(elasticGang("r", 2, 4, 0, 0), 4, 0, malleable, upTo(8)).wait(gang("a", 10, 1)), second: 10,
			want: "a NoRoom",
		},
		"not onto what is freed for one that waits for capacity, too": {
			cluster: newCluster(8, queue("default", func(q *Queue) { q.Capacity = Resources{"cpu": 4} }), easy("b")).
				run(elasticGang("r", 1, 2, 0, 0), 3, 0, malleable, func(r *Running) { r.Draining = []int{2} }).
				run(with(elasticGang("s", 1, 8, 0, 0), inQueue("b")), 4, 0, malleable, upTo(8)).
				wait(with(gang("a", 2, 1), func(g *Gang) { g.Taken = Taken{At: noon, Size: 2, From: map[string]int{"r": 2}} })), second: 10,
			want: "a QueueFull",
		},
		"onto nodes that nobody who waits could use, also of the same queue": {
			cluster: newCluster(10).on(0, 7, "r").on(8, 10, "s").run(elasticGang("r", 2, 4, 0, 0), 4, 0, malleable, upTo(8)).run(gang("s", 2, 0), 2, 0).
				wait(gang("a", 5, 1)).on(5, 10, "a"), second: 10,
			want: "a NoRoom, r grows 1",
		},
		"not while its queue waits for capacity": {
			cluster: newCluster(10, queue("default", func(q *Queue) { q.Capacity = Resources{"cpu": 7} })).on(0, 5, "r").
				run(elasticGang("r", 2, 3, 0, 0), 3, 0, malleable, upTo(8)).wait(gang("a", 5, 1)).on(5, 10, "a"), second: 10,
			want: "a QueueFull",
		},
		"not while one holds out for capacity": {
			cluster: newCluster(20, queue("default", func(q *Queue) { q.Capacity = Resources{"cpu": 7} })).on(0, 8, "r").on(10, 20, "s").
				run(elasticGang("r", 2, 2, 0, 0), 2, 0, malleable, upTo(8)).run(gang("s", 1, 0), 1, 0, endsAt(5)).
				wait(with(elasticGang("a", 4, 5, 0, 0), func(g *Gang) { g.Expected = 100 * time.Second })).on(10, 20, "a"),
			want: "a WaitingForSize",
		},
		"of whom no guarantee could need the nodes": {
			cluster: newCluster(10, easy("default"), queue("b", func(q *Queue) { q.Guarantee = Resources{"cpu": 1} })).on(0, 5, "r", AnyGang).on(5, 10, "s").
				run(elasticGang("r", 2, 3, 0, 0), 3, 0, malleable, upTo(8)).run(gang("s", 2, 0), 2, 0).wait(gang("a", 5, 1)).on(5, 10, "a"), second: 10,
			want: "a NoRoom, r grows 1",
		},
		"not while one waits that depends on guarantees": {
			cluster: newCluster(10, easy("default"), queue("b", func(q *Queue) { q.Guarantee = Resources{"cpu": 1} })).on(0, 5, "r").on(5, 10, "s").
				run(elasticGang("r", 2, 3, 0, 0), 3, 0, malleable, upTo(8)).run(gang("s", 2, 0), 2, 0).wait(gang("a", 5, 1)).on(5, 10, "a"), second: 10,
			want: "a NoRoom",
		},
		"one that never fits does not count": {
			cluster: newCluster(10).run(elasticGang("r", 2, 4, 0, 0), 4, 0, malleable, upTo(8)).wait(gang("a", 11, 1)), second: 10,
			want: "a NeverFits, r grows 4",
		},
		"to sizes that are allowed": {
			cluster: newCluster(7).run(with(elasticGang("r", 2, 8, 0, 0), doubling), 2, 0, malleable),
			want:    "r grows 2",
		},
		"within the capacity of the queue": {
			cluster: newCluster(10, queue("default", func(q *Queue) { q.Capacity = Resources{"cpu": 5} })).run(elasticGang("r", 2, 4, 0, 0), 4, 0, malleable, upTo(8)),
			want:    "r grows 1",
		},
		"not if its command would stand still for longer than that is worth": {
			cluster: newCluster(8).run(elasticGang("r", 2, 4, 0, 0), 4, 0, malleable, upTo(8), restarts), second: 100,
		},
		"once it has run for long enough, it will": {
			cluster: newCluster(8).run(elasticGang("r", 2, 4, 0, 0), 4, 0, malleable, upTo(8), restarts), second: 130,
			want: "r grows 4",
		},
		"not if it ends before": {
			cluster: newCluster(8).run(elasticGang("r", 2, 4, 0, 0), 4, 0, malleable, upTo(8), restarts, endsAt(200)), second: 130,
		},
		"nor if it is expected to": {
			cluster: newCluster(8).run(with(elasticGang("r", 2, 4, 0, 0), func(g *Gang) { g.Expected = 200 * time.Second }), 4, 0, malleable, upTo(8), restarts), second: 130,
		},
		"but if the user wants that": {
			cluster: newCluster(8).run(elasticGang("r", 2, 8, 0, 0), 4, 0, malleable, restarts, func(r *Running) { r.Sought = true }), second: 10,
			want: "r grows 4",
		},
		"and not only a part": {
			cluster: newCluster(7).run(elasticGang("r", 2, 8, 0, 0), 4, 0, malleable, restarts, func(r *Running) { r.Sought = true }), second: 10,
		},
		"a gang that cannot change stays": {
			cluster: newCluster(10).run(elasticGang("r", 2, 4, 0, 0), 4, 0, upTo(8)),
		},
	})
}

// Gangs leave nodes that are about to go away, if their commands can go on elsewhere.
func TestClear(t *testing.T) {
	going := func(ranks ...int) func(*Running) { return func(r *Running) { r.Going = ranks } }
	testSchedule(t, map[string]scheduleCase{
		"ranks leave": {
			cluster: newCluster(4).run(elasticGang("r", 2, 4, 0, 0), 4, 0, malleable, going(1, 3)), want: "r drains [1 3] (clear)",
		},
		"they leave already": {
			cluster: newCluster(4).run(elasticGang("r", 2, 4, 0, 0), 4, 0, malleable, going(1), func(r *Running) { r.Draining = []int{1} }),
		},
		"too few would be left, and its command has no checkpoint": {
			cluster: newCluster(4).run(elasticGang("r", 3, 4, 0, 0), 4, 0, malleable, begun, going(1, 3)),
		},
		"too few would be left": {
			cluster: newCluster(4).run(elasticGang("r", 3, 4, 0, 0), 4, 0, malleable, begun, saves(time.Minute), going(1, 3)), want: "r is evicted (clear)",
		},
		"the lead has to go": {
			cluster: newCluster(4).run(elasticGang("r", 2, 4, 0, 0), 4, 0, malleable, begun, saves(time.Minute), going(0)), want: "r is evicted (clear)",
		},
		"its command cannot lose any": {cluster: newCluster(4).run(gang("r", 4, 0), 4, 0, begun, going(1))},
		"its command has not begun": {
			cluster: newCluster(4).run(gang("r", 4, 0), 4, 0, malleable, going(1)), want: "r is evicted (clear)",
		},
		"its command goes on from a checkpoint": {
			cluster: newCluster(4).run(gang("r", 4, 0), 4, 0, begun, saves(time.Minute), going(1)), want: "r is evicted (clear)",
		},
		"a gang that ends": {cluster: newCluster(4).run(gang("r", 4, 0), 4, 0, saves(time.Minute), going(1), ending)},
		"a gang that changes just now, and may stay then": {
			cluster: newCluster(4).run(elasticGang("r", 2, 4, 0, 0), 4, 0, begun, saves(time.Minute), going(1), changing),
		},
	})
}

func TestMessages(t *testing.T) {
	q := queue("research", func(q *Queue) { q.Capacity = Resources{"cpu": 48} })
	research := inQueue("research")
	c := newCluster(100, q, easy("default")).run(with(gang("r", 40, 0), research), 40, 0, endsAt(30)).run(gang("s", 60, 0), 60, 0, endsAt(20)).
		wait(with(gang("a", 64, 1), research), with(gang("b", 10, 2), research), with(gang("c", 10, 3), research), gang("d", 50, 4), with(gang("e", 1, 5), inQueue("lost")))
	got := Schedule(c.snap, c.room, noon.Add(10*time.Second))
	want := []string{
		"d 1 needs 50, 0 free",
		"a 1 needs 64 cpu, queue research may have 48 cpu",
		"b 2 needs 10 cpu, and jobs of queue research have 40 cpu of its 48 cpu; it is expected to start by 2026-11-21T12:00:30Z",
		"c 3 waits for its turn: 1 is before it in queue research",
		"e 1 there is no queue lost",
	}
	checkMessages(t, got, want...)
}

// A gang that waits for ranks that leave is expected when they have left.
func TestExpectsThoseThatLeave(t *testing.T) {
	c := newCluster(8, queue("default", func(q *Queue) { q.Backfill = Conservative })).
		run(gang("r", 8, 0), 8, 0, ending, func(r *Running) { r.EndBy = noon.Add(130 * time.Second) }).wait(gang("a", 5, 1), gang("b", 3, 2))
	for _, d := range Schedule(c.snap, c.room, noon.Add(100*time.Second)).Decisions {
		if !d.LookAgain.Equal(noon.Add(130*time.Second)) || !strings.Contains(d.Message, "; it is expected to start by 2026-11-21T12:02:10Z") {
			t.Errorf("%s %s, looked at again at %s", d.Gang, d.Message, d.LookAgain)
		}
	}
}

// A gang that has its nodes alone is told why it needs more than its pods request.
func TestMessagesOfWholeNodes(t *testing.T) {
	alone := func(g *Gang) { g.Queue, g.Exclusive = "research", true }
	limited := queue("research", func(q *Queue) { q.Capacity = Resources{"cpu": 48, "pods": 20} })
	c := newCluster(100, limited).run(with(gang("r", 18, 0), alone), 18, 0, endsAt(30)).
		wait(with(gang("a", 64, 1), alone), with(gang("b", 3, 2), alone))
	checkMessages(t, Schedule(c.snap, c.room, noon.Add(10*time.Second)),
		"a 1 needs 64 cpu in whole nodes, queue research may have 48 cpu",
		"b 2 needs 3 pods, and jobs of queue research have 18 pods of its 20 pods; it is expected to start by 2026-11-21T12:00:30Z",
	)
	promised := queue("other", func(q *Queue) { q.Guarantee = Resources{"cpu": 70} })
	c = newCluster(100, promised, easy("research")).run(with(gang("r", 20, 0), alone), 20, 0, endsAt(30)).
		wait(with(gang("a", 40, 1), alone), with(gang("b", 20, 2), alone))
	checkMessages(t, Schedule(c.snap, c.room, noon.Add(10*time.Second)),
		"a 1 needs 40 cpu in whole nodes, of 100 cpu in all 70 cpu are guaranteed to other queues",
		"b 2 needs 20 cpu in whole nodes: 80 cpu free, of which 70 cpu are guaranteed to other queues; it is expected to start by 2026-11-21T12:00:30Z",
	)
}

// Heads of several queues are not promised the same nodes.
func TestPromisesOfHeads(t *testing.T) {
	heads := func(c *cluster) *cluster { return c.wait(gang("x", 10, 1), with(gang("y", 10, 2), inQueue("b"))) }
	queues := func(backfill Backfill) []Queue {
		with := func(q *Queue) { q.Backfill = backfill }
		return []Queue{queue("default", with), queue("b", with)}
	}
	for name, tc := range map[string]struct {
		cluster *cluster
		y, x    string
	}{
		"the same nodes":         {heads(newCluster(10, queues(EASY)...).run(gang("r", 10, 0), 10, 0, endsAt(60))), "2026-11-21T12:01:00Z", ""},
		"with Conservative, too": {heads(newCluster(10, queues(Conservative)...).run(gang("r", 10, 0), 10, 0, endsAt(60))), "2026-11-21T12:01:00Z", ""},
		"one after the other":    {heads(newCluster(20, queues(EASY)...).run(gang("r", 10, 0), 10, 0, endsAt(60)).run(gang("s", 10, 0), 10, 0, endsAt(90))), "2026-11-21T12:01:00Z", ""},
		"nothing is sure for the first": {
			heads(newCluster(10, queues(EASY)...).run(gang("r", 5, 0), 5, 0, endsAt(60)).run(gang("s", 5, 0), 5, 0)), "", "",
		},
		"other nodes, of which nothing is sure": {
			heads(newCluster(20, queues(EASY)...).on(0, 10, "r", "x").on(10, 20, "s", "y").run(gang("r", 10, 0), 10, 0, endsAt(60)).run(gang("s", 10, 0), 10, 0)).on(0, 10, "x").on(10, 20, "y"),
			"", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := Schedule(tc.cluster.snap, tc.cluster.room, noon.Add(10*time.Second))
			for i, want := range []string{tc.y, tc.x} {
				_, by, _ := strings.Cut(got.Decisions[i].Message, "; it is expected to start by ")
				if by != want {
					t.Errorf("%s is promised a start by %q, want %q", got.Decisions[i].Gang, by, want)
				}
			}
		})
	}
}

// Who was promised a start goes first, although another queue has less.
func TestPromiseIsKept(t *testing.T) {
	c := newCluster(12, easy("default"), easy("b")).run(gang("r", 10, 0), 10, 0, endsAt(60)).run(with(gang("z", 2, 0), inQueue("b")), 2, 0).
		wait(gang("x", 10, 1), with(gang("y", 10, 2), inQueue("b"), limited(time.Hour)))
	got := Schedule(c.snap, c.room, noon.Add(10*time.Second))
	checkMessages(t, got, "y 1 needs 10, 0 free; it is expected to start by 2026-11-21T12:01:00Z", "x 1 needs 10, 0 free")
	c.keep(got)
	for second := 60; second < 180; second += 10 { // r still ends
		got = Schedule(c.snap, c.room, noon.Add(time.Duration(second)*time.Second))
		checkMessages(t, got, "y 1 needs 10, 0 free; it is the next to start", "x 1 needs 10, 0 free")
		c.keep(got)
	}
	c.leave("r")
	c.snap.MostUnmade, c.snap.Unmade = 100, Unmade{0: 100}
	got = Schedule(c.snap, c.room, noon.Add(175*time.Second))
	checkMessages(t, got, "y 1 waits until the pods of those that start are made", "x 1 needs 10, 0 free")
	c.keep(got)
	c.snap.Unmade = nil
	if text := say(Schedule(c.snap, c.room, noon.Add(176*time.Second))); text != "y Admitted 10, x NoRoom" {
		t.Error(text)
	}
}

// Who was promised a start goes first, although another gang of the queue may have nodes now, and is older or has had less.
func TestPromiseInAQueue(t *testing.T) {
	for name, c := range map[string]*cluster{
		"the user of the other was at a limit": newCluster(10, limits(1, 0)).run(with(gang("early", 1, 0), of("u")), 1, 0, endsAt(7200)).
			run(with(gang("r", 5, 0), of("v")), 5, 0, endsAt(3600)).wait(with(gang("w", 4, 1), of("u")), with(gang("h", 8, 2), of("x"))),
		"the user of the other has less now": newCluster(10, fair(map[string]float64{"a": 0.1, "b": 0.0})).run(with(gang("early", 4, 0), of("b")), 4, 0, endsAt(7200)).
			run(with(gang("r", 5, 0), of("v")), 5, 0, endsAt(3600)).wait(with(gang("h", 6, 1), of("a")), with(gang("w", 7, 2), of("b"))),
		"the other is the user's, and was refused": newCluster(10, limits(1, 0)).run(with(gang("r", 5, 0), of("v")), 5, 0, endsAt(3600)).
			wait(with(gang("w", 7, 1), of("u"), func(g *Gang) { g.Refused = elastic.Refuse(elastic.QuotaExceeded, "quota") }), with(gang("h", 8, 2), of("u"))),
	} {
		for i, gone := range []string{"early", "r", ""} {
			got := Schedule(c.snap, c.room, noon.Add(time.Duration(10*(i+1))*time.Second))
			c.keep(got)
			c.leave(gone)
			c.snap.Waiting[0].Refused = elastic.Refusal{}
			if gone == "" && !strings.HasPrefix(say(got), "h Admitted") {
				t.Errorf("%s: %s", name, say(got))
			}
		}
	}
}

func checkMessages(t *testing.T, got Result, want ...string) {
	t.Helper()
	var said []string
	for i := range got.Decisions {
		d := &got.Decisions[i]
		said = append(said, d.Gang+" "+string(rune('0'+d.Position))+" "+d.Message)
	}
	if a, b := strings.Join(said, "\n"), strings.Join(want, "\n"); a != b {
		t.Errorf("got\n%s\nwant\n%s", a, b)
	}
}

// A start is promised by the deadline of a gang that then goes on in another attempt only to those that go before it.
func TestPromiseByAGangThatReturns(t *testing.T) {
	returns := func(g *Gang) { g.Returns = true }
	for name, tc := range map[string]struct {
		queue   Queue
		running Gang
		is      bool
	}{
		"one that ends for good":                   {easy("default"), gang("r", 6, 0), true},
		"one that is before the others again":      {easy("default"), with(gang("r", 6, 0), returns), false},
		"one that is behind the others then":       {easy("default"), with(gang("r", 6, 5), returns), true},
		"one of higher priority":                   {easy("default"), with(gang("r", 6, 5), returns, ofPriority(1)), false},
		"one whose queue sends it to the end":      {queue("default", func(q *Queue) { q.RequeuesLast = true }), with(gang("r", 6, 0), returns), true},
		"one in a queue in which users take turns": {queue("default", func(q *Queue) { q.Ordering = ByUser }), with(gang("r", 6, 5), returns), false},
		"one in a queue in which age alone counts": {queue("default", func(q *Queue) { q.Ordering = ByAge }), with(gang("r", 6, 5), returns, ofPriority(1)), true},
		"one of another queue":                     {easy("default"), with(gang("r", 6, 5), returns, inQueue("other")), false},
		"one of a queue of lower priority":         {queue("default", func(q *Queue) { q.Priority = 1 }), with(gang("r", 6, 0), returns, inQueue("other")), true},
	} {
		for _, backfill := range []Backfill{EASY, Conservative} {
			tc.queue.Backfill = backfill
			c := newCluster(10, tc.queue, easy("other")).run(tc.running, 6, 0, endsAt(100)).wait(gang("h", 10, 1))
			got := Schedule(c.snap, c.room, noon.Add(10*time.Second))
			if promised := strings.Contains(got.Decisions[0].Message, "expected to start by"); promised != tc.is {
				t.Errorf("%s, %s: %s", name, backfill, got.Decisions[0].Message)
			}
		}
	}
}

// In a Conservative queue a gang keeps the start that it had, also if one before it could have that now.
func TestConservativeKeepsStarts(t *testing.T) {
	at := func(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }
	for name, tc := range map[string]struct {
		change func(a, b *Gang)
		queue  func(*Queue)
		want   string // of a and b
	}{
		"one without a start is planned in its place":     {want: "a 100, b 300"},
		"it keeps its start":                              {change: func(_, b *Gang) { b.Reserved = at(100) }, want: "a 300, b 100"},
		"a start for which there is no room is late":      {change: func(_, b *Gang) { b.Reserved = at(210) }, want: "a 100, b 300"},
		"one that is late goes before later ones":         {change: func(a, b *Gang) { a.Reserved, b.Reserved = at(99.8), at(199.8) }, want: "a 100, b 300"},
		"one of a higher priority goes first":             {change: func(a, b *Gang) { a.Priority, b.Reserved = 1, at(100) }, want: "a 100, b 300"},
		"a start of a gang that waits apart is forgotten": {change: func(_, b *Gang) { b.Reserved, b.Refused = at(100), elastic.Refuse(elastic.QuotaExceeded, "quota") }, want: "a 100, b -"},
		"usage changes the order": {
			change: func(_, b *Gang) { b.Reserved = at(100) }, queue: func(q *Queue) { q.Ordering = ByUser }, want: "a 100, b 300",
		},
	} {
		c := newCluster(10, queue("default", func(q *Queue) {
			if q.Backfill = Conservative; tc.queue != nil {
				tc.queue(q)
			}
		})).run(with(gang("r", 6, 0), ofPriority(2)), 6, 0, endsAt(100)).run(with(gang("s", 4, 0), ofPriority(2)), 4, 0, endsAt(200))
		a, b := with(gang("a", 6, 2), limited(100*time.Second)), with(gang("b", 4, 3), limited(100*time.Second))
		if tc.change != nil {
			tc.change(&a, &b)
		}
		c.wait(with(gang("h", 10, 1), limited(100*time.Second), ofPriority(2)), a, b)
		starts := map[string]string{}
		for _, d := range Schedule(c.snap, c.room, at(10)).Decisions {
			if starts[d.Gang] = d.Gang + " -"; !d.Reserved.IsZero() {
				starts[d.Gang] = fmt.Sprintf("%s %.0f", d.Gang, d.Reserved.Sub(noon).Seconds())
			}
		}
		if got := starts["a"] + ", " + starts["b"]; got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// A gang of another queue that gets a size for which a profile has no room does not leave the profile: y would grow in its place,
// and b start late.
func TestConservativeSeesAllThatStarts(t *testing.T) {
	of := func(g Gang, queue string, limit time.Duration) Gang { return with(g, inQueue(queue), limited(limit)) }
	conservative := func(q *Queue) { q.Backfill = Conservative }
	c := newCluster(15, queue("1", conservative), queue("2", conservative)).
		run(with(gang("r", 10, 0), inQueue("2")), 10, 0, endsAt(600)).run(with(gang("s", 1, 0), inQueue("2")), 1, 0, endsAt(1200)).
		wait(of(gang("head1", 8, 1), "1", 2*time.Hour), of(elasticGang("x", 1, 2, 2, 0), "1", time.Hour), of(gang("head2", 8, 1), "2", 2*time.Hour),
			of(gang("b", 4, 2), "2", 5*time.Minute), of(elasticGang("y", 1, 2, 3, 0), "2", time.Hour))
	sizes := map[string]int{}
	for _, d := range Schedule(c.snap, c.room, noon.Add(30*time.Second)).Decisions {
		sizes[d.Gang] = len(d.Nodes)
	}
	if sizes["x"] != 2 || sizes["y"] != 1 {
		t.Errorf("x starts with %d, y with %d", sizes["x"], sizes["y"])
	}
}

// Behind more gangs of one user than are planned, the first of others are planned, too.
func TestConservativePlansForAllUsers(t *testing.T) {
	c := newCluster(10, queue("default", func(q *Queue) { q.Backfill = Conservative })).run(gang("r", 6, 0), 6, 0, endsAt(100))
	for i := range 2 * mostReservations {
		c.wait(with(gang(fmt.Sprintf("a%03d", i), 10, 1+i), limited(time.Hour), of("alice")))
	}
	c.wait(with(gang("b", 4, 1000), limited(time.Minute), of("bob")))
	planned, admitted := map[string]int{}, ""
	for _, d := range Schedule(c.snap, c.room, noon.Add(10*time.Second)).Decisions {
		if d.Verdict == elastic.Admitted {
			admitted += d.Gang
		} else if !d.Reserved.IsZero() {
			planned[d.Gang[:1]]++
		}
	}
	if admitted != "b" || planned["a"] != mostReservations {
		t.Errorf("started: %s, planned: %v", admitted, planned)
	}
}

// A gang that is put off uses nothing yet.
func TestPutOffUsesNothing(t *testing.T) {
	c := newCluster(10, queue("default", func(q *Queue) { q.Users.HalfLife = time.Hour })).wait(gang("a", 4, 1), gang("b", 4, 2))
	c.snap.MostUnmade = 1
	got := Schedule(c.snap, c.room, noon.Add(100*time.Second)).Uses[0]
	if got.Used["cpu"] != 4 || len(got.Users) != 1 || got.Users[0].Gangs != 1 || got.Users[0].Pods != 4 || got.Users[0].Pending != 1 {
		t.Errorf("it uses %+v", got)
	}
}
