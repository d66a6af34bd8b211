// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// The nodes from 4 on are of another kind, for example with a taint: only gangs that say so can use them. What nobody could
// use is not what guarantees and shares are of.
func TestKindsOfNodes(t *testing.T) {
	research, prod := inQueue("research"), inQueue("prod")
	guaranteed := func(cpu int64) []Queue {
		return []Queue{queue("prod", func(q *Queue) { q.Guarantee = Resources{"cpu": cpu} }), easy("research")}
	}
	shared := []Queue{easy("prod"), queue("research", func(q *Queue) { q.Reclaimable = true })}
	testSchedule(t, map[string]scheduleCase{
		"free nodes that the gang cannot use keep no guarantee": {
			cluster: newCluster(8, guaranteed(2)...).run(with(gang("r", 2, 0), research), 2, 0).wait(with(gang("a", 1, 1), research)).on(0, 4, "r", "a", AnyGang), second: 100,
			want: "a NoRoom",
		},
		"beside nodes that the gang can use": {
			cluster: newCluster(8, guaranteed(2)...).run(with(gang("r", 1, 0), research), 1, 0).wait(with(gang("a", 1, 1), research)).on(0, 4, "r", "a", AnyGang), second: 100,
			want: "a Admitted 1",
		},
		"a guarantee that is had on other nodes": {
			cluster: newCluster(8, guaranteed(2)...).run(with(gang("r", 3, 0), research), 3, 0).on(4, 8, "p").run(with(gang("p", 2, 0), prod), 2, 0).on(0, 4, "r").
				wait(with(gang("a", 1, 1), research)).on(0, 4, "a"), second: 100,
			want: "a Admitted 1",
		},
		"reclaims the share of the nodes that it can use": {
			cluster: newCluster(8, shared...).run(with(gang("r", 2, 0), research), 2, 0).run(with(gang("s", 2, 0), research), 2, 1).wait(with(gang("a", 2, 1), prod)).on(0, 4, "r", "s", "a"), second: 100,
			want: "a NoRoom, s is evicted (reclaim)",
		},
		"and no more": {
			cluster: newCluster(8, shared...).run(with(gang("r", 1, 0), research), 1, 0).run(with(gang("s", 3, 0), research), 3, 1).wait(with(gang("a", 3, 1), prod)).on(0, 4, "r", "s", "a"), second: 100,
			want: "a NoRoom",
		},
		"whatever the queue has elsewhere": {
			cluster: newCluster(8, shared...).on(4, 8, "p").run(with(gang("p", 4, 0), prod), 4, 0).run(with(gang("r", 2, 0), research), 2, 0).run(with(gang("s", 2, 0), research), 2, 1).
				wait(with(gang("a", 2, 1), prod)).on(0, 4, "r", "s", "a"), second: 100,
			want: "a NoRoom, s is evicted (reclaim)",
		},
		"queues that want other nodes have no part": {
			cluster: newCluster(8, append(shared, easy("third"))...).run(with(gang("r", 2, 0), research), 2, 0).run(with(gang("s", 2, 0), research), 2, 1).
				wait(with(gang("a", 2, 1), prod), with(gang("b", 4, 1), inQueue("third"))).on(0, 4, "r", "s", "a").on(4, 8, "b"), second: 100,
			want: "a NoRoom, b Admitted 4, s is evicted (reclaim)",
		},
	})
}

// twoQueues are two queues of which one has four gangs on the nodes from 4 on and some on those before, and another has the rest.
func twoQueues(first map[string]int, second map[string]int) *cluster {
	shared := func(q *Queue) { q.Reclaimable = true }
	c := newCluster(8, queue("h", shared), queue("r", shared)).on(4, 8, "b1", "b2", "b3", "b4").on(0, 4, "a1", "a2")
	for _, id := range []string{"b1", "b2", "b3", "b4"} {
		c.run(with(gang(id, 1, 0), inQueue("h")), 1, 0)
	}
	for name, starts := range map[string]map[string]int{"h": first, "r": second} {
		for _, id := range sortedKeys(starts) {
			if g := with(gang(id, 1, 5), inQueue(name)); starts[id] < 0 {
				c.wait(g)
			} else {
				c.run(g, 1, starts[id])
			}
		}
	}
	return c.on(4, 8, "b1", "b2", "b3", "b4").on(0, 4, "a1", "a2").on(0, 8, "r1", "r2", "r3")
}

func sortedKeys(starts map[string]int) []string { return slices.Sorted(maps.Keys(starts)) }

// A queue loses nothing that it could take back, of the nodes that the gang could use that would go.
func TestQueuesDoNotTakeTurns(t *testing.T) {
	testSchedule(t, map[string]scheduleCase{
		"a gang that could use more": {
			cluster: twoQueues(map[string]int{"a1": 1, "a2": -1}, map[string]int{"r1": 2, "r2": 3, "r3": 4}), second: 100,
			want: "a2 NoRoom",
		},
		"a gang that could use less": {
			cluster: twoQueues(map[string]int{"a1": 1, "a2": 6}, map[string]int{"r1": 2, "r2": 3, "r3": -1}), second: 100,
			want: "r3 NoRoom, b1 is evicted (reclaim)",
		},
		"gangs elsewhere are no victims": {
			cluster: newCluster(8, easy("h"), queue("r", func(q *Queue) { q.Reclaimable = true })).
				on(4, 8, "b1", "b2").run(with(gang("b1", 2, 0), inQueue("r")), 2, 50).run(with(gang("b2", 2, 0), inQueue("r")), 2, 50).
				run(with(gang("a1", 2, 0), inQueue("r")), 2, 0).run(with(gang("a2", 2, 0), inQueue("r")), 2, 0).
				wait(with(gang("a", 2, 1), inQueue("h"))).on(4, 8, "b1", "b2").on(0, 4, "a1", "a2", "a"), second: 100,
			want: "a NoRoom, a1 is evicted (reclaim)",
		},
	})
}

// What is guaranteed is of the nodes that gangs of the queue could use, and on other nodes only as much as fits there.
func TestGuaranteesOfKinds(t *testing.T) {
	guaranteed := func(name string, cpu int64) Queue {
		return queue(name, func(q *Queue) { q.Guarantee = Resources{"cpu": cpu} })
	}
	shared := queue("third", func(q *Queue) { q.Reclaimable = true })
	research, prod, third := inQueue("research"), inQueue("prod"), inQueue("third")
	testSchedule(t, map[string]scheduleCase{
		"is had, though the guarantees are more than these nodes": {
			cluster: newCluster(8, guaranteed("lab", 2), guaranteed("prod", 6), shared).on(0, 4, "x", "y").
				run(with(gang("x", 2, 0), third), 2, 0).run(with(gang("y", 2, 0), third), 2, 1).
				wait(with(gang("h", 2, 1), inQueue("lab"))).on(0, 4, "x", "y", "h", AnyGang), second: 100,
			want: "h NoRoom, y is evicted (reclaim)",
		},
		"two are not had on the same other nodes": {
			cluster: newCluster(8, guaranteed("p1", 4), guaranteed("p2", 4), easy("research")).on(4, 8, "g1", "g2").
				run(with(gang("g1", 1, 0), inQueue("p1")), 1, 0).run(with(gang("g2", 1, 0), inQueue("p2")), 1, 0).
				wait(with(gang("a", 2, 1), research)).on(0, 8, "g1", "g2").on(0, 4, "a", AnyGang), second: 100,
			want: "a NoRoom",
		},
		"two are had on different other nodes": {
			cluster: newCluster(12, guaranteed("p1", 4), guaranteed("p2", 4), easy("research")).on(0, 4, "g1").on(8, 12, "g2").
				run(with(gang("g1", 1, 0), inQueue("p1")), 1, 0).run(with(gang("g2", 1, 0), inQueue("p2")), 1, 0).
				wait(with(gang("a", 4, 1), research)).on(0, 8, "g1").on(4, 12, "g2").on(4, 8, "a", AnyGang), second: 100,
			want: "a Admitted 4",
		},
		"is kept, also on nodes that are closed to others now": {
			cluster: newCluster(8, guaranteed("prod", 4), easy("research")).wait(with(gang("a", 4, 1), research)).shut("a", 4, 8), second: 100,
			want: "a Admitted 4",
		},
		"is had elsewhere, and refuses nobody": {
			cluster: newCluster(8, guaranteed("prod", 2), easy("research")).on(4, 8, "p").run(with(gang("p", 2, 0), prod), 2, 0).
				wait(with(gang("a", 3, 1), research)).on(4, 8, "p").on(0, 4, "a", AnyGang), second: 100,
			want: "a Admitted 3",
		},
		"refuses nobody for nodes that are closed now": {
			cluster: newCluster(8, guaranteed("prod", 4), easy("research")).wait(with(gang("a", 4, 1), research)).shut("a", 0, 4).shut(AnyGang, 0, 4), second: 100,
			want: "a Admitted 4",
		},
		"is not moved by a gang that may not use the queue": {
			cluster: newCluster(8, guaranteed("prod", 4), easy("research")).
				wait(with(gang("x", 1, 0), prod, func(g *Gang) { g.Refused = elastic.Refuse(elastic.NotAllowed, "no") }), with(gang("a", 4, 1), research)).
				on(0, 8, "x").on(0, 4, "a", AnyGang), second: 100,
			want: "x NotAllowed, a TooLargeForQueue",
		},
		"is not moved by a gang that is over": {
			cluster: newCluster(8, guaranteed("prod", 4), easy("research")).on(4, 8, "p").run(with(gang("p", 1, 0), prod), 1, 0, ending).
				wait(with(gang("a", 2, 1), research)).on(0, 8, "p").on(0, 4, "a", AnyGang), second: 100,
			want: "a TooLargeForQueue",
		},
		"is an amount: others take nodes that they could leave": {
			cluster: newCluster(8, guaranteed("prod", 4), queue("research", func(q *Queue) { q.Priority = 1 })).
				wait(with(gang("g", 4, 1), research), with(gang("a", 4, 1), prod)).on(0, 4, "a", AnyGang), second: 100,
			want: "a NoRoom, g Admitted 4",
		},
		"is had by what others give back": {
			cluster: newCluster(8, guaranteed("prod", 4), shared).run(with(gang("g", 4, 0), third), 4, 0).
				wait(with(gang("a", 4, 1), prod)).on(0, 4, "a", AnyGang), second: 100,
			want: "a NoRoom, g is evicted (reclaim)",
		},
		"is no part of nodes for those that it lets start": {
			cluster: newCluster(8, guaranteed("prod", 6), easy("research"), shared).on(4, 8, "p").run(with(gang("p", 1, 0), prod), 1, 0).on(0, 2, "y1", "y2").
				run(with(gang("y1", 1, 0), third), 1, 0).run(with(gang("y2", 1, 0), third), 1, 1).
				wait(with(gang("a", 1, 1), research)).on(0, 8, "p").on(0, 4, "a", "y1", "y2", AnyGang), second: 100,
			want: "a NoRoom, y2 is evicted (reclaim)",
		},
	})
}

// Of gangs with the same nodes, or with some of the nodes of others, one tells where the guarantee of their queue can be had.
func TestKindsOfAQueue(t *testing.T) {
	for want, gangs := range map[string]map[string][2]int{
		"[any gang]":     {"a": {0, 4}, "b": {2, 3}},
		"[any gang b c]": {"a": {0, 1}, "b": {2, 6}, "c": {4, 8}, "d": {4, 6}},
		"[c]":            {"a": {0, 4}, "b": {4, 8}, "c": {0, 8}},
	} {
		c := newCluster(8, queue("default", func(q *Queue) { q.Guarantee = Resources{"cpu": 2} })).on(0, 4, AnyGang)
		for _, id := range slices.Sorted(maps.Keys(gangs)) {
			c.wait(gang(id, 1, 0)).on(gangs[id][0], gangs[id][1], id)
		}
		if got := fmt.Sprint(newCycle(c.snap, c.room, noon).queues[0].kinds); got != want {
			t.Errorf("%v: %s, want %s", gangs, got, want)
		}
	}
}

// half is what runs and waits on one of two kinds of nodes, for gangs of queues of its own.
type half struct {
	kind    string
	queues  []Queue
	running []Running
	waiting []Gang
}

const halfNodes = 10

// The kinds of nodes. Those of the second have a taint.
const plain, tainted = "a", "b"

// halfOf is what is on the nodes of a kind. Guarantees are for gangs without tolerations.
func halfOf(random *rand.Rand, kind string) (h half) {
	pick, guarantee := random.IntN, halfNodes
	h.kind = kind
	for i := range 1 + pick(3) {
		q := queue(fmt.Sprint(kind, i), func(q *Queue) {
			q.Weight, q.Reclaimable, q.Priority, q.Backfill = 1+pick(3), pick(3) > 0, int32(pick(2)), NoBackfill
		})
		if kind == plain {
			cpu := pick(guarantee)
			guarantee, q.Guarantee = guarantee-cpu, Resources{"cpu": int64(cpu)}
		}
		h.queues = append(h.queues, q)
	}
	some := func(g *Gang) {
		g.Queue, g.Priority, g.Class = h.queues[pick(len(h.queues))].Name, int32(pick(2)), kind
		if pick(2) == 0 {
			g.Limit = time.Duration(1+pick(3)) * time.Hour
		}
	}
	for i, left := 0, halfNodes; i < 5 && left > 0; i++ {
		size := 1 + pick(min(4, left))
		g := with(gang(fmt.Sprint(kind, "r", i), size, pick(50)), some)
		h.running, left = append(h.running, Running{Gang: g, Admitted: g.Since, Ranks: make([]int, size)}), left-size
	}
	for i := range 5 {
		h.waiting = append(h.waiting, with(gang(fmt.Sprint(kind, "w", i), 1+pick(6), pick(50)), some))
	}
	return h
}

// decided is what starts and who is evicted by a cycle for some halves in one cluster, of those whose names begin with a kind.
func decided(kind string, halves ...half) string {
	var queues []Queue
	for _, h := range halves {
		queues = append(queues, h.queues...)
	}
	c := newCluster(halfNodes*len(halves), queues...)
	c.room.only[AnyGang] = [2]int{}
	for i, h := range halves {
		if h.kind == plain {
			c.room.only[AnyGang] = [2]int{i * halfNodes, (i + 1) * halfNodes}
		}
		for _, r := range h.running {
			c.on(i*halfNodes, (i+1)*halfNodes, r.ID)
			c.run(r.Gang, len(r.Ranks), int(r.Admitted.Sub(noon)/time.Second), func(running *Running) {
				if running.Class = r.Class; r.Limit > 0 {
					running.End = r.Admitted.Add(r.Limit)
				}
			})
		}
		for _, g := range h.waiting {
			c.wait(g)
			c.room.only[g.ID] = [2]int{i * halfNodes, (i + 1) * halfNodes}
		}
	}
	var out []string
	for _, part := range strings.Split(say(Schedule(c.snap, c.room, noon.Add(100*time.Second))), ", ") {
		if strings.HasPrefix(part, kind) && (strings.Contains(part, "Admitted") || strings.Contains(part, "evicted")) {
			out = append(out, part)
		}
	}
	return strings.Join(out, ", ")
}

// Nodes that none of its gangs could use change nothing for a queue: two kinds of nodes are as two clusters.
func TestKindsAreApart(t *testing.T) {
	evicts, starts := 0, 0
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 42))
		halves := []half{halfOf(random, plain), halfOf(random, tainted)}
		for _, h := range halves {
			alone, beside := decided(h.kind, h), decided(h.kind, halves...)
			if alone != beside {
				t.Fatalf("seed %d: alone %s\nbeside others %s", seed, alone, beside)
			}
			if strings.Contains(alone, "reclaim") {
				evicts++
			}
			if strings.Contains(alone, "Admitted") {
				starts++
			}
		}
	}
	if evicts < 100 || starts < 100 {
		t.Errorf("in %d cases some are evicted, in %d some start", evicts, starts)
	}
}
