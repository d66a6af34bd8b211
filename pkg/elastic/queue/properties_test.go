// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// life is a cluster to which gangs come at random, one step a second.
type life struct {
	*simulation
	random *rand.Rand
	come   int
}

const lifeNodes = 24

func newLife(seed uint64) *life {
	random := rand.New(rand.NewPCG(seed, 37))
	pick := random.IntN
	var queues []Queue
	for _, name := range []string{"a", "b", "c"} {
		queues = append(queues, Queue{
			Name: name, Weight: 1 + pick(3), Priority: int32(pick(2)), Reclaimable: true, Patience: time.Duration(pick(30)) * time.Second,
			Backfill: []Backfill{NoBackfill, EASY, Conservative}[pick(3)], Ordering: []Ordering{ByPriority, ByAge, ByUser, BySlowdown}[pick(4)],
			Users: Users{HalfLife: time.Hour},
		})
	}
	l := &life{random: random}
	l.simulation = simulate(newCluster(lifeNodes, queues...), func(g Gang, _ int) time.Duration {
		longest := 60
		if g.Limit > 0 {
			longest = int(g.Limit / time.Second)
		}
		return time.Duration(1+pick(longest)) * time.Second
	})
	l.limits = true
	return l
}

// live goes on for some seconds. What is called before each step may change the cluster.
func (l *life) live(seconds int, before func(second int)) {
	for second := range seconds {
		l.now = noon.Add(time.Duration(second) * time.Second)
		for l.random.IntN(3) == 0 && len(l.snap.Waiting) < 30 {
			l.wait(l.comes())
		}
		before(second)
		l.step()
	}
}

// comes is a gang of a few kinds, so that many are alike.
func (l *life) comes() Gang {
	pick := l.random.IntN
	l.come++
	size := []int{1, 4, 8, 16, 24}[pick(5)]
	g := elasticGang(fmt.Sprintf("g%03d", l.come), size, size, 0, 0)
	if g.Created = l.now.Add(time.Duration(l.come) * time.Millisecond); pick(3) == 0 {
		g.Sizing.Min = (size + 1) / 2
	}
	g.Since, g.StartsAtOnce = l.now, true
	g.Queue, g.Priority, g.User = []string{"a", "b", "c"}[pick(3)], int32(pick(2)), []string{"u", "v"}[pick(2)]
	g.Limit = time.Duration(30*pick(3)) * time.Second
	return g
}

// uses is how many pods of a queue hold nodes.
func (l *life) uses(queue string) (pods int) {
	for i := range l.snap.Running {
		if l.snap.Running[i].Queue == queue {
			pods += len(l.snap.Running[i].Ranks)
		}
	}
	return pods
}

// The first gang of a queue that the guarantee covers starts at once, or as soon as the gangs are gone that are evicted
// for it, unless others of its queue start now. Guarantees change meanwhile, and others hold everything.
func TestGuaranteesAreHad(t *testing.T) {
	covered := 0
	for seed := range uint64(200) {
		l := newLife(seed)
		waits := map[string]int{} // for how many steps a gang has been first and covered
		l.check = func(c Result) {
			still, starts := map[string]int{}, map[string]bool{}
			for _, d := range c.Decisions {
				starts[l.gang(d.Gang).Queue] = starts[l.gang(d.Gang).Queue] || d.Verdict == elastic.Admitted
			}
			for _, d := range c.Decisions {
				g := l.gang(d.Gang)
				i := slices.IndexFunc(l.snap.Queues, func(q Queue) bool { return q.Name == g.Queue })
				if !d.Head || starts[g.Queue] || l.uses(g.Queue)+g.Sizing.Min > int(l.snap.Queues[i].Guarantee["cpu"]) {
					continue
				}
				covered++
				if still[d.Gang] = waits[d.Gang] + 1; still[d.Gang] > 1 {
					t.Fatalf("seed %d, %s: %s of queue %s needs %d: %s; %s", seed, l.now.Sub(noon), d.Gang, g.Queue, g.Sizing.Min, d.Message, say(c))
				}
			}
			waits = still
		}
		l.live(100, func(second int) {
			if second%20 != 0 {
				return
			}
			clear(waits)
			left := lifeNodes
			for i := range l.snap.Queues {
				guarantee := l.random.IntN(left + 1)
				l.snap.Queues[i].Guarantee = Resources{"cpu": int64(guarantee)}
				left -= guarantee
			}
		})
	}
	if covered == 0 {
		t.Error("no guarantee is ever needed")
	}
	t.Logf("%d times a guarantee is needed", covered)
}

// Of gangs that are alike in all but their age, the older starts first, unless the younger was promised a start while the older
// had nodes.
func TestEqualsGoByAge(t *testing.T) {
	pairs := 0
	for seed := range uint64(100) {
		l := newLife(seed)
		l.check = func(c Result) {
			younger := map[string]string{} // a gang that starts, by what equals have in common
			for _, d := range c.Decisions {
				if g := l.gang(d.Gang); d.Verdict == elastic.Admitted && (younger[alike(g)] == "" || g.Created.After(l.gang(younger[alike(g)]).Created)) {
					younger[alike(g)] = d.Gang
				}
			}
			for _, d := range c.Decisions {
				g := l.gang(d.Gang)
				other := younger[alike(g)]
				if d.Verdict == elastic.Admitted || other == "" || !l.gang(other).Promised.IsZero() {
					continue
				}
				if pairs++; g.Created.Before(l.gang(other).Created) {
					t.Fatalf("seed %d, %s: %s starts before %s: %s; %s", seed, l.now.Sub(noon), other, d.Gang, d.Message, say(c))
				}
			}
		}
		l.live(100, func(int) {
			if n := len(l.snap.Waiting); n > 0 && n < 20 { // a twin
				twin := l.comes()
				twin = with(l.snap.Waiting[l.random.IntN(n)], func(g *Gang) {
					g.ID, g.Name, g.Created, g.Since, g.Memory = twin.ID, twin.Name, twin.Created, twin.Since, Memory{Held: g.Held}
				})
				l.wait(twin)
			}
		})
	}
	if pairs == 0 {
		t.Error("no two gangs are alike")
	}
	t.Logf("%d gangs wait for an older one like them", pairs)
}

// gang is a waiting gang.
func (l *life) gang(id string) *Gang {
	return &l.snap.Waiting[slices.IndexFunc(l.snap.Waiting, func(g Gang) bool { return g.ID == id })]
}

// alike is what gangs have in common that are equals.
func alike(g *Gang) string {
	return fmt.Sprint(g.Queue, g.User, g.Priority, g.Sizing, g.Limit)
}

// Some nodes are down. What is taken for a head is on other nodes, and without any part of it the head could not start.
func TestTakesNothingInVain(t *testing.T) {
	taken, down := 0, 0
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 8))
		c, free := newCluster(60), 60
		for i := 0; free > 5; i++ {
			size := 1 + random.IntN(min(free, 12))
			c.run(elasticGang(fmt.Sprintf("r%03d", i), 1+random.IntN(size), size, i, 0), size, i, func(r *Running) {
				r.Priority, r.Malleable = int32(random.IntN(3)), random.IntN(3) > 0
			})
			free -= size
		}
		first := random.IntN(60)
		c.cordon(first, min(first+random.IntN(30), 60))
		got := Schedule(c.wait(with(gang("h", 1+random.IntN(30), 1000), ofPriority(2))).snap, c.room, noon.Add(time.Hour))
		after := c.room.Snapshot().(*toyRoom)
		useful := func(id string, ranks []int) bool {
			return slices.ContainsFunc(ranks, func(rank int) bool { return after.canUse("h", c.room.held[id][rank]) })
		}
		for _, e := range got.Evictions {
			if !useful(e.Gang, c.room.ranks(e.Gang)) {
				t.Fatalf("seed %d: %s is evicted for nothing: %s", seed, e.Gang, say(got))
			}
			after.Release(e.Gang)
		}
		for _, d := range got.Drains {
			for _, rank := range d.Ranks {
				if !useful(d.Gang, []int{rank}) {
					t.Fatalf("seed %d: rank %d of %s leaves for nothing: %s", seed, rank, d.Gang, say(got))
				}
			}
			after.Shrink(d.Gang, d.Ranks)
		}
		if len(got.Evictions)+len(got.Drains) == 0 {
			continue
		}
		taken++
		if c.snap.Total["cpu"] < 60 {
			down++
		}
		least := c.snap.Waiting[0].Sizing.Min
		has := after.Fits("h", 60)
		for _, e := range got.Evictions {
			n := 0
			for _, node := range c.room.held[e.Gang] {
				if after.canUse("h", node) {
					n++
				}
			}
			if has-n >= least {
				t.Fatalf("seed %d: %s need not go, the head has %d and needs %d: %s", seed, e.Gang, has, least, say(got))
			}
		}
		if has < least || len(got.Drains) > 0 && has > least {
			t.Fatalf("seed %d: the head has %d and needs %d: %s", seed, has, least, say(got))
		}
	}
	if taken < 100 || down < 100 {
		t.Errorf("something was taken in %d cases, while nodes were down in %d", taken, down)
	}
}

// A head gets enough, and nothing is taken for it that it does not need.
func TestTakesNoMoreThanNeeded(t *testing.T) {
	taken := 0
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 7))
		c, free, sizes := newCluster(200), 200, map[string]int{}
		for i := 0; free > 5; i++ {
			id, size := fmt.Sprintf("r%03d", i), 1+random.IntN(min(free, 12))
			wants := 1 + random.IntN(size)
			c.run(elasticGang(id, 1+random.IntN(wants), wants, i, 0), size, i, func(r *Running) {
				r.Priority, r.Malleable = int32(random.IntN(3)), random.IntN(3) > 0
			})
			free, sizes[id] = free-size, size
		}
		least := 20 + random.IntN(150)
		got := Schedule(c.wait(with(gang("h", least, 1000), ofPriority(2))).snap, c.room, noon.Add(time.Hour))
		has := free
		for _, e := range got.Evictions {
			has += sizes[e.Gang]
		}
		for _, d := range got.Drains {
			has += len(d.Ranks)
		}
		switch {
		case has == free:
			continue
		case has < least, has > least && len(got.Drains) > 0:
			t.Fatalf("seed %d: the head has %d and needs %d: %s", seed, has, least, say(got))
		}
		for _, e := range got.Evictions {
			if has-sizes[e.Gang] >= least {
				t.Fatalf("seed %d: %s is not needed: the head has %d and needs %d: %s", seed, e.Gang, has, least, say(got))
			}
		}
		taken++
	}
	if taken < 150 {
		t.Errorf("something was taken in %d cases alone", taken)
	}
}
