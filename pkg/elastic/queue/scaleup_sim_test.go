// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// autoscaler provides nodes for what gangs have asked, and takes them away when nobody needs them.
type autoscaler struct {
	*simulation
	limit int // of nodes that it provides
	// takes is how long a node takes to come.
	takes  func() time.Duration
	coming []time.Time
	nodes  int
	// needed is when the nodes were last all needed.
	needed time.Time
	// paid and used are node-seconds.
	paid, used float64
}

// scaled is a simulated cluster without nodes.
func scaled(limit int, takes func() time.Duration, works func(Gang, int) time.Duration, queues ...Queue) *autoscaler {
	a := &autoscaler{simulation: simulate(newCluster(0, queues...), works), limit: limit, takes: takes}
	a.check = a.ask
	return a
}

// ask records what is asked, and lets nodes come for it.
func (a *autoscaler) ask(c Result) {
	asks := map[string]Ask{}
	for _, ask := range c.Asks {
		asks[ask.Gang] = ask
	}
	started := map[string]int{}
	for _, d := range c.Decisions {
		started[d.Gang] = len(d.Nodes)
	}
	wanted := 0
	for i := range a.snap.Waiting {
		g := &a.snap.Waiting[i]
		ask, asked := asks[g.ID]
		switch {
		case !asked:
			g.Asked = nil
		case ask.Pause > 0 && g.Asked.Until.IsZero():
			g.Asked.Until, g.Asked.Verdict = a.now.Add(ask.Pause), ask.Verdict
			a.say("%s gets no nodes for %d brokers, and pauses for %s", g.Name, ask.Size, ask.Pause)
		case ask.Pause > 0:
		case g.Asked == nil || g.Asked.Attempt != ask.Attempt:
			g.Asked = &Asked{Attempt: ask.Attempt, Pauses: ask.Pauses, Size: ask.Size, Apart: ask.Apart, At: a.now, Verdict: elastic.NodesRequested}
			a.say("%s asks for %d nodes to start at %d of %d", g.Name, ask.Nodes, ask.Size, g.Sizing.Size)
		}
		if asked && ask.Pause == 0 {
			wanted += ask.Size
		}
		wanted += started[g.ID] // its pods will be there
	}
	a.snap.Coming = len(a.coming)
	free := 0
	for _, n := range a.room.free {
		free += n
	}
	for range min(wanted-free-len(a.coming), a.limit-a.nodes-len(a.coming)) {
		a.coming = append(a.coming, a.now.Add(a.takes()))
	}
	if wanted >= free {
		a.needed = a.now
	}
}

// arrive lets nodes come, and idle ones go that were not needed for half a minute.
func (a *autoscaler) arrive() {
	came := 0
	a.coming = slices.DeleteFunc(a.coming, func(at time.Time) bool {
		if at.After(a.now) {
			return false
		}
		a.room.all, a.room.free, a.room.pods, a.room.kept = append(a.room.all, 1), append(a.room.free, 1), append(a.room.pods, 10), append(a.room.kept, false)
		a.nodes, came = a.nodes+1, came+1
		return true
	})
	gone := 0
	for i := range a.room.free {
		if a.room.free[i] > 0 && a.now.Sub(a.needed) >= 30*time.Second {
			a.room.all[i], a.room.free[i], a.room.pods[i] = 0, 0, 0
			a.nodes, gone = a.nodes-1, gone+1
		}
	}
	if came > 0 {
		a.snap.CameLast = a.now
		a.say("%d nodes are there", a.nodes)
	}
	if gone > 0 {
		a.say("%d nodes are left", a.nodes)
	}
	a.snap.Total = Resources{"cpu": int64(a.nodes), "pods": int64(10 * a.nodes)}
}

// finish goes on until all is done and the cluster is empty again.
func (a *autoscaler) finish() time.Duration {
	for range 20000 {
		a.leave()
		a.arrive()
		a.step()
		if len(a.snap.Waiting) == 0 && len(a.snap.Running) == 0 && a.nodes == 0 && len(a.coming) == 0 {
			return a.now.Sub(noon)
		}
		next := elastic.Earliest(a.lookAgain, a.now.Add(10*time.Second))
		for _, at := range a.coming {
			next = elastic.Earliest(next, at)
		}
		held := 0
		for i := range a.snap.Running {
			r := &a.snap.Running[i]
			held += len(r.Ranks)
			if next = elastic.Earliest(next, a.ends[r.ID]); r.Ending || len(r.Draining) > 0 {
				next = elastic.Earliest(next, a.now.Add(time.Second))
			}
		}
		if !next.After(a.now) {
			next = a.now.Add(time.Second)
		}
		a.paid += float64(a.nodes) * next.Sub(a.now).Seconds()
		a.used += float64(held) * next.Sub(a.now).Seconds()
		a.now = next
	}
	return -1
}

// Whatever the autoscaler does, each gang runs that fits what could come, the queue never waits for more nodes than it
// may, and the cluster is empty at the end.
func TestScaleUpSimulated(t *testing.T) {
	seeds := uint64(150)
	if testing.Short() {
		seeds = 15
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 24))
		limit, most := 8+random.IntN(24), 8+random.IntN(16)
		fails := random.IntN(4) == 0
		a := scaled(limit, func() time.Duration {
			if fails && random.IntN(40) == 0 {
				return time.Hour
			}
			return time.Duration(5+random.IntN(60)) * time.Second
		}, func(_ Gang, size int) time.Duration {
			return time.Duration(10+random.IntN(200)/size) * time.Second
		}, scaling("default", most), scaling("b", most, func(q *Queue) { q.Backfill = []Backfill{EASY, Conservative, NoBackfill}[random.IntN(3)] }))
		a.limits = random.IntN(2) == 0
		for i := range 5 + random.IntN(20) {
			size := 1 + random.IntN(min(limit, most))
			g := elasticGang(fmt.Sprintf("g%02d", i), 1+random.IntN(size), size, random.IntN(20), time.Duration(random.IntN(3))*time.Minute)
			g.Queue = []string{"default", "b"}[random.IntN(2)]
			g.Priority, g.Distinct = int32(random.IntN(8)/7), random.IntN(2) == 0
			if random.IntN(2) == 0 {
				g.Limit = 4 * time.Minute
			}
			a.wait(g)
		}
		a.now = noon.Add(20 * time.Second)
		before := a.check
		a.check = func(c Result) {
			waits := map[string]int{}
			for _, ask := range c.Asks {
				g := a.snap.Waiting[slices.IndexFunc(a.snap.Waiting, func(g Gang) bool { return g.ID == ask.Gang })]
				if ask.Pause == 0 {
					waits[g.Queue] += ask.Nodes
				}
				if ask.Size < g.Sizing.Min || ask.Size > g.Sizing.Size || ask.Nodes < 0 {
					t.Fatalf("seed %d: %+v of a gang of %d to %d", seed, ask, g.Sizing.Min, g.Sizing.Size)
				}
			}
			for queue, nodes := range waits {
				if nodes > most {
					t.Fatalf("seed %d: queue %s waits for %d nodes, and may for %d", seed, queue, nodes, most)
				}
			}
			before(c)
		}
		took := a.finish()
		if took < 0 {
			for i := range a.snap.Waiting {
				t.Logf("%+v", a.snap.Waiting[i])
			}
			t.Fatalf("seed %d: %d gangs wait and %d run for ever, with %d of %d nodes", seed, len(a.snap.Waiting), len(a.snap.Running), a.nodes, limit)
		}
	}
}

// Whole runs on clusters that scale, for people to read.
func TestScaleUpNarratives(t *testing.T) {
	for name, run := range map[string]struct {
		limit, most int
		gangs       []Gang
	}{
		"scale-from-zero": {30, 20, []Gang{
			gang("a", 8, 0), with(gang("b", 12, 1), limited(time.Minute)), gang("c", 4, 2), with(gang("d", 2, 3), limited(20*time.Second)),
		}},
		"scale-to-a-limit": {6, 20, []Gang{elasticGang("a", 2, 16, 0, 0), gang("b", 8, 1), gang("c", 3, 2)}},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			a := scaled(run.limit, func() time.Duration {
				n++
				return time.Duration(20+n%5*3) * time.Second
			}, func(Gang, int) time.Duration { return 40 * time.Second }, scaling("default", run.most))
			var log strings.Builder
			a.say = func(format string, args ...any) {
				fmt.Fprintf(&log, "%4ds  %s\n", int(a.now.Sub(noon).Seconds()), fmt.Sprintf(format, args...))
			}
			a.wait(run.gangs...)
			a.now = noon.Add(5 * time.Second)
			if name == "scale-to-a-limit" { // one that is too large for ever, for some minutes
				for range 100 {
					a.leave()
					a.arrive()
					a.step()
					a.now = a.now.Add(10 * time.Second)
				}
			} else if a.finish() < 0 {
				t.Error("it never ends")
			}
			checkNarrative(t, name, log.String())
		})
	}
}
