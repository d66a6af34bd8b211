// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// scaling is a queue that may have so many more nodes, of one slot each.
func scaling(name string, nodes int, change ...func(*Queue)) Queue {
	return queue(name, func(q *Queue) {
		q.ScaleUp = &ScaleUp{
			Limit: nodes, More: nodes, Timeout: 5 * time.Minute, Cooldown: time.Minute, Arrival: 30 * time.Second,
			Shapes: []Shape{{Most: 100, Holds: Resources{"cpu": 1, "pods": 10}}},
		}
		for _, f := range change {
			f(q)
		}
	})
}

func shapes(shapes ...Shape) func(*Queue) { return func(q *Queue) { q.ScaleUp.Shapes = shapes } }

// asked is what was asked for a gang some seconds after noon.
func asked(size, second int, change ...func(*Asked)) func(*Gang) {
	return func(g *Gang) {
		g.Asked = &Asked{Attempt: 1, Size: size, At: noon.Add(time.Duration(second) * time.Second), Verdict: elastic.NodesRequested}
		for _, f := range change {
			f(g.Asked)
		}
	}
}

func saying(verdict elastic.Verdict, message string) func(*Asked) {
	return func(a *Asked) { a.Verdict, a.Message = verdict, message }
}

// pausedUntil is what failed, until when nothing is asked.
func pausedUntil(second int) func(*Asked) {
	return func(a *Asked) {
		a.Until, a.Verdict = noon.Add(time.Duration(second)*time.Second), elastic.NodesTimedOut
	}
}

func distinct(g *Gang) { g.Distinct = true }

func TestAskForNodes(t *testing.T) {
	testSchedule(t, map[string]scheduleCase{
		"from no nodes at all": {
			cluster: newCluster(0, scaling("default", 16)).wait(gang("a", 4, 1)), second: 100,
			want: "a NodesRequested, a asks for 4 at 4",
		},
		"only for what is missing": {
			cluster: newCluster(3, scaling("default", 16)).wait(gang("a", 4, 1)), second: 100,
			want: "a NodesRequested, a asks for 1 at 4",
		},
		"a queue that may not ask waits, or never fits": {
			cluster: newCluster(3).wait(gang("a", 4, 1)), second: 100,
			want: "a NeverFits",
		},
		"and so does one whose autoscaler is not there": {
			cluster: newCluster(3, scaling("default", 16, func(q *Queue) { q.ScaleUp.Barred = "there is none" })).wait(gang("a", 4, 1)), second: 100,
			want: "a NeverFits",
		},
		"more than may be asked for never fits, and holds up nobody": {
			cluster: newCluster(3, scaling("default", 16)).wait(gang("a", 20, 1), gang("b", 4, 2)), second: 100,
			want: "a NeverFits, b NodesRequested, b asks for 1 at 4",
		},
		"as many gangs as the queue may wait for": {
			cluster: newCluster(0, scaling("default", 10)).wait(gang("a", 4, 1), gang("b", 5, 2), gang("c", 2, 3), gang("d", 1, 4)), second: 100,
			want: "a NodesRequested, b NodesRequested, c WaitingForTurn, d WaitingForTurn, a asks for 4 at 4, b asks for 5 at 5",
		},
		"one for which others have to end, too, keeps none from asking": {
			cluster: newCluster(8, scaling("default", 4)).run(gang("r", 6, 0), 6, 0).wait(gang("a", 8, 1), gang("b", 3, 2)), second: 100,
			want: "a NoRoom, b NodesRequested, b asks for 1 at 3",
		},
		"nothing for one that fits once others have ended soon": {
			cluster: newCluster(8, scaling("default", 16)).run(gang("r", 6, 0), 6, 0, endsAt(120)).wait(gang("a", 8, 1)), second: 100,
			want: "a NoRoom",
		},
		"but for one that would wait for longer": {
			cluster: newCluster(8, scaling("default", 16)).run(gang("r", 6, 0), 6, 0, endsAt(140)).wait(gang("a", 8, 1)), second: 100,
			want: "a NodesRequested, a asks for 6 at 8",
		},
		"nothing for one that takes nodes from others": {
			cluster: newCluster(8, scaling("default", 16)).run(gang("r", 6, 0), 6, 0).wait(with(gang("a", 8, 1), ofPriority(1))), second: 100,
			want: "a NoRoom, r is evicted (preempt)",
		},
		"nothing for pods without requests": {
			cluster: newCluster(0, scaling("default", 16)).wait(with(gang("a", 2, 1), func(g *Gang) { g.BestEffort = true }), gang("b", 1, 2)), second: 100,
			want: "a NoRoom, b NodesRequested, b asks for 1 at 1",
		},
		"nothing beyond the capacity of the queue": {
			cluster: newCluster(0, scaling("default", 16, func(q *Queue) { q.Capacity = Resources{"cpu": 6} })).wait(gang("a", 4, 1), gang("b", 4, 2), gang("c", 2, 3)), second: 100,
			want: "a NodesRequested, b WaitingForTurn, c NodesRequested, a asks for 4 at 4, c asks for 2 at 2",
		},
		"nothing beyond what its user may have": {
			cluster: newCluster(0, scaling("default", 16, func(q *Queue) { q.Users.MaxRunning = 1 })).wait(gang("a", 4, 1), gang("b", 4, 2)), second: 100,
			want: "a NodesRequested, b UserLimit, a asks for 4 at 4",
		},
		"a guarantee of another queue counts": {
			cluster: newCluster(4, scaling("default", 16), queue("other", func(q *Queue) { q.Guarantee = Resources{"cpu": 4} })).wait(gang("a", 4, 1)), second: 100,
			want: "a NodesRequested, a asks for 4 at 4",
		},
		"an elastic gang asks for its full size": {
			cluster: newCluster(1, scaling("default", 16)).wait(elasticGang("a", 2, 8, 1, 0)), second: 100,
			want: "a NodesRequested, a asks for 7 at 8",
		},
		"or for what may be asked for": {
			cluster: newCluster(1, scaling("default", 4)).wait(elasticGang("a", 2, 8, 1, 0)), second: 100,
			want: "a NodesRequested, a asks for 4 at 5",
		},
		"one that fits at a smaller size starts": {
			cluster: newCluster(2, scaling("default", 16)).wait(elasticGang("a", 2, 8, 1, 0)), second: 100,
			want: "a Admitted 2",
		},
		"unless it holds out for its size, and asks meanwhile": {
			cluster: newCluster(2, scaling("default", 16)).wait(elasticGang("a", 2, 8, 1, time.Hour)), second: 100,
			want: "a NodesRequested, a asks for 6 at 8",
		},
		"the first kind of nodes that suits": {
			cluster: newCluster(0, scaling("default", 16, shapes(Shape{Most: 3}, Shape{Most: 8}))).wait(gang("a", 4, 1)), second: 100,
			want: "a NodesRequested, a asks for 2 at 4",
		},
		"or all of them": {
			cluster: newCluster(0, scaling("default", 16, shapes(Shape{Most: 3}, Shape{Most: 2}))).wait(gang("a", 6, 1)), second: 100,
			want: "a NodesRequested, a asks for 5 at 6",
		},
		"a node for each pod, if there may be as many": {
			cluster: newCluster(0, scaling("default", 16, shapes(Shape{}, Shape{Most: 8}))).wait(with(gang("a", 4, 1), distinct)), second: 100,
			want: "a NodesRequested, a asks for 4 at 4 apart",
		},
		"fewer, if there may not": {
			cluster: newCluster(0, scaling("default", 16, shapes(Shape{}, Shape{Most: 3}))).wait(with(gang("a", 6, 1), distinct)), second: 100,
			want: "a NodesRequested, a asks for 3 at 6",
		},
		"two queues do not count the same free nodes": {
			cluster: newCluster(3, scaling("a", 16), scaling("b", 16)).wait(with(gang("a1", 4, 1), inQueue("a")), with(gang("b1", 4, 2), inQueue("b"))), second: 100,
			want: "a1 NodesRequested, b1 NodesRequested, a1 asks for 1 at 4, b1 asks for 4 at 4",
		},
	})
}

func TestAwaitNodes(t *testing.T) {
	testSchedule(t, map[string]scheduleCase{
		"what was asked is asked until the nodes are there": {
			cluster: newCluster(3, scaling("default", 16)).wait(with(gang("a", 4, 1), asked(4, 90))), second: 100,
			want: "a NodesRequested, a asks for 1 at 4",
		},
		"and then the gang starts": {
			cluster: newCluster(4, scaling("default", 16)).wait(with(gang("a", 4, 1), asked(4, 90))), second: 100,
			want: "a Admitted 4",
		},
		"also if more would become free": {
			cluster: newCluster(8, scaling("default", 4)).run(gang("r", 4, 0), 4, 0, endsAt(105)).
				wait(with(twice(4, "a", 1), asked(4, 90), func(g *Gang) { g.Expected = 100 * time.Second })), second: 100,
			want: "a Admitted 4",
		},
		"an elastic one does not start with a part of them": {
			cluster: newCluster(3, scaling("default", 16)).wait(with(elasticGang("a", 2, 8, 1, 0), asked(8, 90))), second: 100,
			want: "a NodesRequested, a asks for 5 at 8",
		},
		"until the time is over": {
			cluster: newCluster(3, scaling("default", 16)).wait(with(elasticGang("a", 2, 8, 1, 0), asked(8, 90))), second: 390,
			want: "a Admitted 3",
		},
		"one that wants a node for each pod waits for them": {
			cluster: newCluster(0, scaling("default", 16, shapes(Shape{}, Shape{Most: 8}))).wait(with(gang("a", 4, 1), distinct, asked(4, 90, func(a *Asked) { a.Apart = true }))), second: 100,
			want: "a NodesRequested, a asks for 4 at 4 apart",
		},
		"the nodes are not for a gang behind it": {
			cluster: newCluster(3, scaling("default", 16)).wait(with(gang("a", 8, 1), asked(8, 90)), gang("b", 2, 2)), second: 100,
			want: "a NodesRequested, b NodesRequested, a asks for 5 at 8, b asks for 2 at 2",
		},
		"nor for one of another queue that does not ask": {
			cluster: newCluster(3, scaling("default", 16), easy("other")).wait(with(gang("a", 8, 1), asked(8, 90)), with(gang("b", 2, 2), inQueue("other"))), second: 100,
			want: "a NodesRequested, b NoRoom, a asks for 5 at 8",
		},
		"but for one that ends before they come": {
			cluster: newCluster(3, scaling("default", 16)).wait(with(gang("a", 8, 1), asked(8, 90)), with(gang("b", 2, 2), limited(15*time.Second))), second: 100,
			want: "a NodesRequested, b Admitted 2 by backfill, a asks for 5 at 8",
		},
		"or for anyone, if no node has come for long": {
			cluster: newCluster(3, scaling("default", 16)).wait(with(gang("a", 8, 1), asked(8, 40)), gang("b", 2, 2)), second: 100,
			want: "a NodesRequested, b Admitted 2 by backfill, a asks for 7 at 8",
		},
		"and for one behind it that has asked for as many": {
			cluster: newCluster(2, scaling("default", 16)).wait(with(gang("a", 8, 1), asked(8, 90)), with(gang("b", 2, 2), asked(2, 91))), second: 100,
			want: "a NodesRequested, b Admitted 2 by backfill, a asks for 8 at 8",
		},
		"not for one behind that, which has not": {
			cluster: newCluster(2, scaling("default", 16)).wait(with(gang("a", 8, 1), asked(8, 90)), with(gang("b", 3, 2), asked(3, 91)), gang("c", 2, 3)), second: 100,
			want: "a NodesRequested, b NodesRequested, c NodesRequested, a asks for 6 at 8, b asks for 3 at 3, c asks for 2 at 2",
		},
		"they are for a higher priority that comes": {
			cluster: newCluster(3, scaling("default", 16)).wait(with(gang("a", 8, 1), asked(8, 90)), with(gang("b", 2, 2), ofPriority(1))), second: 100,
			want: "b Admitted 2, a NodesRequested, a asks for 7 at 8",
		},
		"which may take what was to be asked for": {
			cluster: newCluster(0, scaling("default", 16)).wait(with(gang("a", 8, 1), asked(8, 90)), with(gang("b", 12, 2), ofPriority(1))), second: 100,
			want: "b NodesRequested, a WaitingForTurn, b asks for 12 at 12",
		},
		"a rigid gang whose nodes did not come pauses, and the next one asks": {
			cluster: newCluster(3, scaling("default", 16)).wait(with(gang("a", 8, 1), asked(8, 0)), gang("b", 4, 2)), second: 300,
			want: "a NodesRequested, b NodesRequested, a asks again in 1m0s, b asks for 1 at 4",
		},
		"also if the pause cannot be recorded": {
			cluster: newCluster(3, scaling("default", 16)).wait(with(gang("a", 8, 1), asked(8, 0), func(g *Gang) { g.AskProblem = "forbidden" })), second: 300,
			want: "a NodesTimedOut, a asks again in 1m0s",
		},
		"its nodes are lost once the pause is recorded": {
			cluster: newCluster(3, scaling("default", 16)).wait(with(gang("a", 8, 1), asked(8, 0, pausedUntil(360)))), second: 300,
			want: "a NodesTimedOut, a asks again in 1m0s",
		},
		"it pauses for longer each time": {
			cluster: newCluster(3, scaling("default", 16)).wait(with(gang("a", 8, 1), asked(8, 0, func(a *Asked) { a.Pauses = 3 }))), second: 300,
			want: "a NodesRequested, a asks again in 8m0s",
		},
		"but not for ever": {
			cluster: newCluster(3, scaling("default", 16)).wait(with(gang("a", 8, 1), asked(8, 0, func(a *Asked) { a.Pauses = 70 }))), second: 300,
			want: "a NodesRequested, a asks again in 1h0m0s",
		},
		"and holds nothing that others could use": {
			cluster: newCluster(3, scaling("default", 16)).wait(with(gang("a", 8, 1), asked(8, 0, pausedUntil(400))), gang("b", 3, 2)), second: 300,
			want: "a NodesTimedOut, b Admitted 3 by backfill, a asks again in 1m40s",
		},
		"after the pause it asks again": {
			cluster: newCluster(3, scaling("default", 16)).wait(with(gang("a", 8, 1), asked(8, 0, pausedUntil(400)))), second: 400,
			want: "a NodesRequested, a asks for 5 at 8, attempt 2",
		},
		"an elastic gang asks for half at once": {
			cluster: newCluster(1, scaling("default", 16)).wait(with(elasticGang("a", 3, 16, 1, 0), asked(16, 0))), second: 300,
			want: "a NodesRequested, a asks for 7 at 8, attempt 2",
		},
		"down to its smallest size": {
			cluster: newCluster(1, scaling("default", 16)).wait(with(elasticGang("a", 3, 16, 1, 0), asked(4, 0))), second: 300,
			want: "a NodesRequested, a asks for 2 at 3, attempt 2",
		},
		"and pauses if that fails, too": {
			cluster: newCluster(1, scaling("default", 16)).wait(with(elasticGang("a", 3, 16, 1, 0), asked(3, 0))), second: 300,
			want: "a NodesRequested, a asks again in 1m0s",
		},
		"nobody waits for what the autoscaler cannot provide": {
			cluster: newCluster(1, scaling("default", 16)).wait(with(gang("a", 8, 1), asked(8, 90, saying(elastic.NodesFailed, "no such machines")))), second: 100,
			want: "a NodesRequested, a asks again in 1m0s",
		},
		"what was asked does not count where the queue asks no longer": {
			cluster: newCluster(8).run(gang("r", 4, 0), 4, 0).wait(with(elasticGang("a", 2, 8, 1, 0), asked(8, 90))), second: 100,
			want: "a Admitted 4",
		},
	})
}

// What users read.
func TestMessagesAboutNodes(t *testing.T) {
	for name, tc := range map[string]struct {
		gang   Gang
		second int
		coming int
		want   string
	}{
		"nothing was asked yet": {gang("a", 4, 1), 100, 0, "waits for 3 more nodes"},
		"just now":              {with(gang("a", 4, 1), asked(4, 95)), 100, 0, "waits for 3 more nodes (asked just now)"},
		"some are coming":       {with(gang("a", 13, 1), asked(13, 55)), 100, 7, "waits for 12 more nodes (asked 40 s ago, 7 are coming)"},
		"one is coming":         {with(gang("a", 4, 1), asked(4, 0)), 130, 1, "waits for 3 more nodes (asked 2 min ago, 1 is coming)"},
		"no more come than are missing": {
			with(gang("a", 3, 1), asked(3, 0)), 100, 9, "waits for 2 more nodes (asked 1 min ago, 2 are coming)",
		},
		"one node, at a smaller size": {
			with(elasticGang("a", 2, 8, 1, 0), asked(2, 0)), 100, 0, "waits for 1 more node, to start with 2 of 8 brokers (asked 1 min ago)",
		},
		"too late": {with(gang("a", 4, 1), asked(4, 0)), 300, 0, "nodes for 4 brokers did not come in time; it asks again at 2026-11-21T12:06:00Z"},
		"the autoscaler says no": {
			with(gang("a", 4, 1), asked(4, 90, saying(elastic.NodesFailed, "no quota"))), 100, 0,
			"the autoscaler cannot provide nodes for 4 brokers: no quota; it asks again at 2026-11-21T12:02:40Z",
		},
		"too many": {
			gang("a", 40, 1), 100, 0, "needs 40, there are 1; queue default may ask for no more than 16 nodes (scaleUp.maxNodes)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(1, scaling("default", 16)).wait(tc.gang)
			c.snap.Coming = tc.coming
			d := Schedule(c.snap, c.room, noon.Add(time.Duration(tc.second)*time.Second)).Decisions[0]
			if d.Message != tc.want {
				t.Errorf("got %q\nwant %q", d.Message, tc.want)
			}
			if d.Verdict != elastic.NeverFits && (d.LookAgain.IsZero() && tc.gang.Asked != nil) {
				t.Error("it does not look again")
			}
		})
	}
	for want, shape := range map[string]Shape{
		"none of the nodes for which queue default may ask could hold a broker":                    {},
		"no more than 4 further nodes could come for queue default, by the limits of their shapes": {Most: 4, Holds: Resources{"pods": 1}},
	} {
		c := newCluster(1, scaling("default", 16, shapes(shape))).wait(gang("a", 40, 1))
		if got := Schedule(c.snap, c.room, noon).Decisions[0].Message; got != "needs 40, there are 1; "+want {
			t.Errorf("got %q\nwant %q", got, want)
		}
	}
}

// An age is told in the same words until the time at which it is told in others.
func TestAges(t *testing.T) {
	c, e := verdicts{cycle: &cycle{}}, &entry{awaits: true, Gang: Gang{Asked: &Asked{At: noon}}}
	words := 0
	for c.now = noon; c.now.Before(noon.Add(5 * time.Hour)); {
		next, said := c.nextAge(e), ago(c.now.Sub(noon))
		if before := ago(next.Sub(noon) - time.Nanosecond); before != said || ago(next.Sub(noon)) == said || !next.After(c.now) {
			t.Fatalf("after %s it is %q until %s, when it was %q and becomes %q", c.now.Sub(noon), said, next.Sub(noon), before, ago(next.Sub(noon)))
		}
		c.now = next
		words++
	}
	if fmt.Sprint(words) != "69" { // 6 in the first minute, 59 more in the first hour, and 4 more
		t.Errorf("in five hours it is told in %d ways", words)
	}
}
