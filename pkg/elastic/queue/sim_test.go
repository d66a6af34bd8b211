// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// simulation runs a toy cluster: it carries out what is decided.
type simulation struct {
	*cluster
	now time.Time
	// works is how long a gang really runs at a size.
	works  func(g Gang, size int) time.Duration
	ends   map[string]time.Time
	limits bool // Running.End is known
	say    func(format string, args ...any)
	before func()
	check  func(c Result)
	done   map[string]time.Time
	began  map[string]time.Time
	// lookAgain is when time alone may change what was decided.
	lookAgain time.Time
	// ended is told of each gang that ends by itself.
	ended func(r *Running)
}

// learns lets gangs be expected to run for as long as others did.
func (s *simulation) learns() *simulation {
	runtimes := NewRuntimes(10)
	s.ended = func(r *Running) { runtimes.Learn(r, s.now) }
	s.before = func() {
		for i := range s.snap.Waiting {
			s.snap.Waiting[i].Expected, s.snap.Waiting[i].Learned = 0, false
			runtimes.Expect(&s.snap.Waiting[i])
		}
		for i := range s.snap.Running {
			s.snap.Running[i].Expected, s.snap.Running[i].Learned = 0, false
			runtimes.Expect(&s.snap.Running[i].Gang)
		}
	}
	return s
}

func simulate(c *cluster, works func(Gang, int) time.Duration) *simulation {
	s := &simulation{cluster: c, now: noon, works: works, ends: map[string]time.Time{}, done: map[string]time.Time{}, began: map[string]time.Time{}}
	s.say = func(string, ...any) {}
	s.before, s.check, s.ended = func() {}, func(Result) {}, func(*Running) {}
	for i := range c.snap.Running {
		r := &c.snap.Running[i]
		s.ends[r.ID] = r.Admitted.Add(works(r.Gang, len(r.Ranks)))
	}
	return s
}

// leave ends what is over now, and lets ranks go that were asked to.
func (s *simulation) leave() {
	for i := range s.snap.Running {
		r := &s.snap.Running[i]
		switch {
		case r.Ending:
			s.room.Release(r.ID)
			s.say("%s is gone", r.Name)
			g := r.Gang
			g.Since, g.Memory = s.now, Memory{Held: g.Held}
			s.wait(g)
		case !s.ends[r.ID].After(s.now):
			s.room.Release(r.ID)
			s.say("%s ends", r.Name)
			s.ended(r)
			s.done[r.ID] = s.now
		case len(r.Draining) > 0:
			s.room.Shrink(r.ID, r.Draining)
			s.say("%s is %d now", r.Name, len(r.Ranks)-len(r.Draining))
			r.Ranks, r.Draining = s.room.ranks(r.ID), nil
			continue
		default:
			continue
		}
		r.Ranks = nil
	}
	s.snap.Running = slices.DeleteFunc(s.snap.Running, func(r Running) bool { return r.Ranks == nil })
}

// step decides once, and carries it out.
func (s *simulation) step() {
	s.leave()
	s.before()
	cycle := Schedule(s.snap, s.room, s.now)
	s.check(cycle)
	s.start(cycle)
	for _, d := range cycle.Drains {
		r := s.running(d.Gang)
		r.Draining, r.DrainBy = d.Ranks, s.now.Add(time.Second)
		s.say("%s is asked to drain %v for %s (%s)", r.Name, d.Ranks, d.For, d.Action)
	}
	for _, e := range cycle.Evictions {
		r := s.running(e.Gang)
		r.Ending = true
		s.say("%s %s (%s)", r.Name, e.Message, e.Action)
	}
	for _, g := range cycle.Growths {
		r := s.running(g.Gang)
		for _, pod := range g.Pods {
			s.room.take(r.ID, pod.Rank, index(pod.Node), 1)
		}
		r.Ranks = s.room.ranks(r.ID)
		s.say("%s grows to %d", r.Name, len(r.Ranks))
	}
}

func (s *simulation) running(id string) *Running {
	for i := range s.snap.Running {
		if s.snap.Running[i].ID == id {
			return &s.snap.Running[i]
		}
	}
	panic(id + " does not run")
}

func (s *simulation) start(cycle Result) {
	decisions := map[string]Decision{}
	s.lookAgain = time.Time{}
	for _, d := range cycle.Decisions {
		decisions[d.Gang] = d
		if d.Verdict != elastic.Admitted {
			continue
		}
		i := slices.IndexFunc(s.snap.Waiting, func(g Gang) bool { return g.ID == d.Gang })
		g := s.snap.Waiting[i]
		g.Memory = d.Memory
		s.hold(g.ID, d.Nodes)
		s.ends[g.ID], s.began[g.ID] = s.now.Add(s.works(g, len(d.Nodes))), s.now
		r := Running{Gang: g, Ranks: s.room.ranks(g.ID), Max: g.Sizing.Size, Admitted: s.now, Malleable: g.Sizing.Min < g.Sizing.Size}
		if s.limits && g.Limit > 0 {
			r.End = s.now.Add(g.Limit)
		}
		s.snap.Running = append(s.snap.Running, r)
		s.say("%s starts at %d of %d (%s)", g.Name, len(d.Nodes), g.Sizing.Size, d.Action)
	}
	s.snap.Waiting = slices.DeleteFunc(s.snap.Waiting, func(g Gang) bool { return decisions[g.ID].Verdict == elastic.Admitted })
	for i := range s.snap.Waiting {
		g := &s.snap.Waiting[i]
		d := decisions[g.ID]
		if d.Verdict == elastic.NoRoom && g.Blocked.IsZero() {
			s.say("%s waits: %s", g.Name, d.Message)
		}
		g.Memory = d.Memory
		s.lookAgain = elastic.Earliest(s.lookAgain, d.LookAgain)
	}
}

// hold takes the very nodes of a decision.
func (s *simulation) hold(id string, nodes []string) {
	for rank, node := range nodes {
		i := index(node)
		s.room.take(id, rank, i, 1)
		if s.room.free[i] < 0 {
			panic("a node is given twice: " + node)
		}
	}
}

// index is the index of a node in the room.
func index(node string) int {
	i, err := strconv.Atoi(strings.TrimPrefix(node, "n"))
	if err != nil {
		panic(err)
	}
	return i
}

// finish goes on, from one end to the next, until all is done.
func (s *simulation) finish() time.Duration {
	for range 100000 {
		s.step()
		if len(s.snap.Waiting) == 0 && len(s.snap.Running) == 0 {
			return s.now.Sub(noon)
		}
		next := elastic.Earliest(s.lookAgain, s.now.Add(time.Hour))
		for i := range s.snap.Running {
			r := &s.snap.Running[i]
			if r.Ending || len(r.Draining) > 0 {
				next = s.now.Add(time.Second)
			} else if end := s.ends[r.ID]; end.Before(next) {
				next = end
			}
		}
		s.now = next
	}
	panic("it never ends")
}

// measure is the 76 gangs on 149 nodes: 10 s of work each, twice as long at half
// the size, and up to half a second before and after it.
func measure(seed uint64, half bool) time.Duration {
	random := rand.New(rand.NewPCG(seed, 7))
	c := newCluster(149)
	var gangs []Gang
	for _, kind := range [][2]int{{64, 6}, {32, 10}, {16, 20}, {8, 20}, {4, 20}} {
		for i := range kind[1] {
			g := gang(fmt.Sprintf("g%d-%02d", kind[0], i), kind[0], 0)
			if half {
				g.Sizing.Min = kind[0] / 2
			}
			gangs = append(gangs, g)
		}
	}
	random.Shuffle(len(gangs), func(i, j int) { gangs[i], gangs[j] = gangs[j], gangs[i] })
	noise := map[string]time.Duration{}
	for i := range gangs {
		gangs[i].Created = noon.Add(time.Duration(i) * time.Millisecond)
		gangs[i].Since = gangs[i].Created
		noise[gangs[i].ID] = time.Duration(random.IntN(500)) * time.Millisecond
	}
	c.wait(gangs...)
	return simulate(c, func(g Gang, size int) time.Duration {
		return 10*time.Second*time.Duration(g.Sizing.Size)/time.Duration(size) + noise[g.ID]
	}).learns().finish()
}

// Nobody says how long the gangs run. Those that may start at half of their size are not later, because the
// first ones tell how long the others run.
func TestMeasure(t *testing.T) {
	const bound, seeds = 84.8, 50
	var rigid, flexible, worst float64
	late := 0
	for seed := range uint64(seeds) {
		r, f := measure(seed, false).Seconds(), measure(seed, true).Seconds()
		rigid, flexible, worst = rigid+r/seeds, flexible+f/seeds, max(worst, r)
		if r > 1.2*bound {
			late++
		}
		if f > r+0.25 { // half of what two runs of a command may differ by
			t.Errorf("seed %d: elastic gangs took %.2f s, rigid ones %.2f s", seed, f, r)
		}
	}
	t.Logf("makespan: rigid %.1f s on average, %.1f s at worst, %d of %d above 1.2 times the bound of %.1f s; with half the size as minimum %.1f s", rigid, worst, late, seeds, bound, flexible)
	// A gang or two may be left over for a tenth wave.
	if rigid > 1.12*bound || worst > 1.25*bound || late > seeds/20 {
		t.Errorf("rigid gangs took %.1f s, %.1f s at worst, %d seeds were late", rigid, worst, late)
	}
	if flexible > rigid {
		t.Errorf("elastic gangs took %.1f s on average, rigid ones %.1f s", flexible, rigid)
	}
}

// One by one, each gang takes the largest size that fits before the next is looked
// at; together, gangs are smaller where that lets others start. Both keep all of the work.
func TestJointChoiceUsesMore(t *testing.T) {
	const nodes, seeds = 64, 20
	var joint, single time.Duration
	for seed := range uint64(seeds) {
		random := rand.New(rand.NewPCG(seed, 11))
		var gangs []Gang
		for i := range 30 {
			least := nodes/10 + random.IntN(nodes/5)
			g := elasticGang(fmt.Sprintf("g%02d", i), least, 2*least, 0, 0)
			g.Sizing.Operator, g.Sizing.Operand = elastic.Multiply, 2
			gangs = append(gangs, g)
		}
		works := func(g Gang, size int) time.Duration {
			return time.Minute * time.Duration(g.Sizing.Size) / time.Duration(size)
		}
		together := simulate(newCluster(nodes), works)
		together.wait(gangs...)
		joint += together.finish()
		single += simulate(newCluster(nodes), works).oneByOne(gangs)
	}
	t.Logf("together they take %s on average, one by one %s", joint/seeds, single/seeds)
	if joint*100 > single*95 {
		t.Errorf("together they take %s on average, one by one %s", joint/seeds, single/seeds)
	}
}

// oneByOne runs gangs of which each is decided about as if it were the only one.
func (s *simulation) oneByOne(waiting []Gang) time.Duration {
	for len(waiting)+len(s.snap.Running) > 0 {
		var left []Gang
		for _, g := range waiting {
			s.snap.Waiting = []Gang{g}
			s.step()
			left = append(left, s.snap.Waiting...)
		}
		waiting = left
		next := s.now.Add(time.Hour)
		for i := range s.snap.Running {
			if end := s.ends[s.snap.Running[i].ID]; end.Before(next) {
				next = end
			}
		}
		s.now = next
		s.snap.Waiting = nil
		s.leave()
	}
	return s.now.Sub(noon)
}

// A gang that fits the empty cluster starts in bounded time, whatever comes.
func TestNobodyStarves(t *testing.T) {
	for name, tc := range map[string]struct {
		queue  string // of the small ones
		limits bool
	}{
		"same queue, unknown ends": {queue: "default"}, "other queue, unknown ends": {queue: "b"},
		"same queue, known ends": {queue: "default", limits: true}, "other queue, known ends": {queue: "b", limits: true},
	} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(5, 5))
			s := simulate(newCluster(32, easy("default"), easy("b")), func(g Gang, _ int) time.Duration {
				return 5*time.Second + time.Duration(len(g.ID)*random.IntN(5000))*time.Millisecond
			})
			s.limits = tc.limits
			n := 0
			for second := range 900 {
				s.now = noon.Add(time.Duration(second) * time.Second)
				if second == 60 {
					s.wait(with(gang("large", 32, second), limited(30*time.Second)))
				}
				for len(s.snap.Waiting) < 40 {
					s.wait(with(gang(fmt.Sprintf("s%04d", n), 1+random.IntN(4), second), func(g *Gang) { g.Queue, g.Limit = tc.queue, 30*time.Second }))
					n++
				}
				s.step()
				if at, began := s.began["large"]; began {
					t.Logf("it waited %s", at.Sub(noon)-time.Minute)
					return
				}
			}
			t.Error("it never starts")
		})
	}
}

// A wide gang starts although the gang before it never does, or waits for other nodes for very long, and smaller ones come
// all the time.
func TestNobodyStarvesBehindHeads(t *testing.T) {
	const day = 24 * 60 * 60
	for _, backfill := range []Backfill{EASY, Conservative, NoBackfill} {
		for name, c := range map[string]*cluster{
			"others hold a node":        newCluster(32, queue("default", func(q *Queue) { q.Backfill = backfill })).others(1),
			"its nodes are others' too": newCluster(36, queue("default", func(q *Queue) { q.Backfill = backfill })).run(gang("r", 4, 0), 4, 0, endsAt(day)),
		} {
			if backfill == NoBackfill && len(c.snap.Running) > 0 { // the head is waited for
				continue
			}
			t.Run(fmt.Sprint(backfill, ", ", name), func(t *testing.T) {
				s := simulate(c, func(g Gang, _ int) time.Duration {
					if g.ID == "r" {
						return day * time.Second
					}
					return g.Limit * 2 / 3
				})
				s.limits = true
				head := gang("head", 32, 60)
				if len(c.snap.Running) > 0 {
					head = gang("head", 4, 60)
				}
				n := 0
				for second := range 1000 {
					s.now = noon.Add(time.Duration(second) * time.Second)
					switch second {
					case 60:
						s.wait(with(head, limited(time.Minute)))
						if head.Sizing.Size == 4 {
							s.on(0, 4, "head", "r")
						}
					case 70:
						s.wait(with(gang("wide", 24, 70), limited(time.Minute)))
					}
					for len(s.snap.Waiting) < 20 {
						s.wait(with(gang(fmt.Sprintf("s%04d", n), 1+n%4, second), limited(time.Duration(30+n%60)*time.Second)))
						n++
					}
					s.step()
					if at, began := s.began["wide"]; began {
						t.Logf("it waited %s", at.Sub(noon)-70*time.Second)
						return
					}
				}
				t.Error("it has not started after 1,000 s")
			})
		}
	}
}

// A gang that waits for jobs without limits starts soon after its queue's patience is over, also
// if older ones are queued again and are first in between, and if other nodes are held for long by
// jobs with a limit.
func TestPatienceBoundsTheWait(t *testing.T) {
	const day = 24 * 60 * 60
	endless := func(c *cluster) *cluster { return c.run(gang("launcher", 64, 0), 64, 0) }
	limits := func(c *cluster) *cluster {
		return c.run(gang("long0", 32, 0), 32, 0, endsAt(day)).run(gang("long1", 32, 0), 32, 0, endsAt(day))
	}
	for name, tc := range map[string]struct {
		cluster func(*cluster) *cluster
		others  int // seconds between older gangs; 0 for none
	}{
		"alone": {endless, 0}, "older ones are first in between": {endless, 100}, "a known end is far away": {limits, 0},
	} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(7, 7))
			s := simulate(tc.cluster(newCluster(149, easy("default"))), func(g Gang, _ int) time.Duration {
				if g.Sizing.Size > 8 {
					return day * time.Second
				}
				return 30*time.Second + time.Duration(random.IntN(60000))*time.Millisecond
			}).learns()
			n := 0
			for second := range 480 {
				s.now = noon.Add(time.Duration(second) * time.Second)
				if second == 120 {
					s.wait(gang("head", 64, second))
				}
				if tc.others > 0 && second > 120 && second%tc.others == 0 {
					s.wait(gang(fmt.Sprintf("old%03d", second), 8, second-3600))
				}
				for len(s.snap.Waiting) < 20 {
					s.wait(gang(fmt.Sprintf("s%04d", n), 1+random.IntN(4), second))
					n++
				}
				s.step()
				if at, began := s.began["head"]; began {
					t.Logf("it waited %s", at.Sub(noon)-2*time.Minute)
					return
				}
			}
			t.Error("it has not started after 6 minutes, and the patience is a minute")
		})
	}
}

// A head starts although those that pass it always take twice as long as they say, and new ones are late before those
// before them have ended.
func TestHeadsOutlastEstimates(t *testing.T) {
	for _, takes := range []time.Duration{90 * time.Second, 125 * time.Second, 10 * time.Minute} {
		s := simulate(newCluster(10), func(Gang, int) time.Duration { return takes })
		for second := range 3600 {
			s.now = noon.Add(time.Duration(second) * time.Second)
			if second == 30 {
				s.wait(with(gang("head", 10, second), expected(60)))
			}
			if second%13 == 0 && len(s.snap.Waiting) < 6 {
				s.wait(with(gang(fmt.Sprintf("s%04d", second), 1, second), expected(60)))
			}
			s.step()
		}
		at, began := s.began["head"]
		if !began {
			t.Fatalf("it has not started in an hour, and others take %s", takes)
		}
		t.Logf("it waited %s, and others take %s", at.Sub(noon)-30*time.Second, takes)
	}
}

func randomCluster(random *rand.Rand) *cluster {
	pick := func(n int) int { return random.IntN(n) }
	queues := []Queue{}
	for _, name := range []string{"a", "b", "c"} {
		q := Queue{Name: name, Weight: 1 + pick(3), Priority: int32(pick(2)), Reclaimable: pick(2) == 0, Patience: time.Duration(pick(60)) * time.Second}
		q.Backfill = []Backfill{NoBackfill, EASY, Conservative}[pick(3)]
		q.Ordering = []Ordering{ByPriority, ByAge, BySlowdown}[pick(3)]
		if pick(3) == 0 {
			q.Capacity = Resources{"cpu": int64(6 + pick(20))}
		}
		if pick(3) == 0 {
			q.Guarantee = Resources{"cpu": int64(pick(6))}
		}
		queues = append(queues, q)
	}
	c := newCluster(24, queues...)
	random32 := func(i int) Gang {
		size := 1 + pick(12)
		g := elasticGang(fmt.Sprintf("g%02d", i), 1+pick(size), size, pick(50), time.Duration(pick(90))*time.Second)
		g.Queue, g.Priority = queues[pick(3)].Name, int32(pick(3))
		if pick(2) == 0 {
			g.Limit = time.Duration(1+pick(100)) * time.Second
		}
		if pick(3) == 0 {
			g.Usual = time.Duration(pick(100)) * time.Second
		}
		if pick(3) == 0 {
			g.Expected, g.StartsAtOnce = time.Duration(1+pick(100))*time.Second, pick(2) == 0
		}
		if pick(9) == 0 {
			spent := time.Duration(pick(90)) * time.Second
			g.Held = Hold{For: 1 + pick(size), Until: noon.Add(spent), Spent: spent}
		}
		if pick(3) == 0 {
			putOff(pick(60), pick(2) == 0)(&g)
		}
		if half := 12 * pick(4); half <= 12 { // the first or the last nodes
			c.room.only[g.ID], g.Class = [2]int{half, half + 12}, fmt.Sprint("from ", half)
		}
		return g
	}
	for i := range 8 {
		g := random32(i)
		if size := g.Sizing.Min + pick(g.Sizing.Size-g.Sizing.Min+1); c.room.Fits(g.ID, size) == size && pick(4) > 0 {
			c.run(g, size, pick(60), func(r *Running) {
				r.Max, r.Malleable, r.Ending = r.Max+pick(4), pick(2) == 0, pick(6) == 0
				if r.Limit > 0 {
					r.End = r.Admitted.Add(r.Limit)
				}
				if r.Malleable && !r.Ending && pick(4) == 0 && len(r.Ranks) > r.Sizing.Min {
					r.Draining, r.DrainBy = r.Ranks[len(r.Ranks)-1:], noon.Add(70*time.Second)
				}
			})
		}
	}
	for i := range pick(14) {
		c.wait(random32(20 + i))
	}
	randomUsers(c, pick)
	return c
}

// randomUsers gives each gang one of three users, with limits and usage.
func randomUsers(c *cluster, pick func(int) int) {
	user := func() string { return fmt.Sprint("u", pick(3)) }
	for i := range c.snap.Waiting {
		c.snap.Waiting[i].User = user()
	}
	for i := range c.snap.Running {
		c.snap.Running[i].User = user()
	}
	for i := range c.snap.Queues {
		q := &c.snap.Queues[i]
		q.Users = Users{HalfLife: time.Hour, Usage: map[string]Spent{"u0": {"cpu": float64(pick(4000)) * 32}, "u1": {"cpu": float64(pick(4000)) * 32}}}
		if pick(2) == 0 {
			q.Ordering = ByUser
		}
		q.Users.MaxRunning, q.Users.MaxNodes = max(pick(8)-4, 0), max(pick(20)-8, 0)
	}
}

func TestRandomQueues(t *testing.T) {
	grows := 0
	for seed := range uint64(4000) {
		random := rand.New(rand.NewPCG(seed, 13))
		c := randomCluster(random)
		now := noon.Add(time.Minute)
		room := c.room.String()
		cycle := Schedule(c.snap, c.room, now)
		random.Shuffle(len(c.snap.Waiting), func(i, j int) {
			c.snap.Waiting[i], c.snap.Waiting[j] = c.snap.Waiting[j], c.snap.Waiting[i]
		})
		if again := Schedule(c.snap, c.room, now); fmt.Sprint(again) != fmt.Sprint(cycle) {
			t.Fatalf("seed %d: %s, and again %s", seed, say(cycle), say(again))
		}
		if c.room.String() != room {
			t.Fatalf("seed %d: the room was changed", seed)
		}
		for _, d := range cycle.Decisions {
			if !d.LookAgain.IsZero() && !d.LookAgain.After(now) {
				t.Fatalf("seed %d: %s is looked at again at %s", seed, d.Gang, d.LookAgain)
			}
		}
		if why := violation(c, cycle); why != "" {
			t.Fatalf("seed %d: %s: %s", seed, why, say(cycle))
		}
		if len(cycle.Growths) > 0 && slices.ContainsFunc(cycle.Decisions, waitsForNodes) {
			grows++
		}
	}
	if grows == 0 {
		t.Error("no gang grows while another one waits")
	}
}

// waitsForNodes reports whether a gang may start once there are nodes for it.
func waitsForNodes(d Decision) bool {
	return d.Verdict == elastic.NoRoom || d.Verdict == elastic.WaitingForTurn || d.Verdict == elastic.WaitingForSize
}

// violation is what a cycle must not do; "" if it does nothing of it.
func violation(c *cluster, cycle Result) string {
	free := slices.Clone(c.room.free)
	gangs, runs, users := map[string]Gang{}, map[string]Running{}, newUserCounts(c)
	used, before := map[string]int64{}, map[string]int64{}
	for _, g := range c.snap.Waiting {
		gangs[g.ID] = g
	}
	for _, r := range c.snap.Running {
		runs[r.ID] = r
		before[r.Queue] += int64(len(r.Ranks))
		used[r.Queue] += int64(len(r.Ranks))
	}
	take := func(node string) bool {
		i := index(node)
		free[i]--
		return free[i] >= 0
	}
	for _, d := range cycle.Decisions {
		g := gangs[d.Gang]
		users.give(&g, min(len(d.Nodes), 1), len(d.Nodes))
		if n := len(d.Nodes); d.Verdict == elastic.Admitted && (n < g.Sizing.Min || n > g.Sizing.Size) {
			return d.Gang + " has a size it may not have"
		}
		for _, node := range d.Nodes {
			used[g.Queue]++
			if !take(node) {
				return node + " is given twice"
			}
		}
	}
	for _, growth := range cycle.Growths {
		r := runs[growth.Gang]
		used[r.Queue] += int64(len(growth.Pods))
		users.give(&r.Gang, 0, len(growth.Pods))
		for _, pod := range growth.Pods {
			if !take(pod.Node) {
				return pod.Node + " is given twice"
			}
		}
		if len(r.Ranks)+len(growth.Pods) > r.Max || !r.Malleable {
			return r.ID + " grows too much"
		}
		for _, d := range cycle.Decisions {
			if waitsForNodes(d) && slices.ContainsFunc(growth.Pods, func(pod elastic.Pod) bool { return c.room.canUse(d.Gang, index(pod.Node)) }) {
				return r.ID + " takes a node for which " + d.Gang + " waits"
			}
		}
	}
	return badLimits(c, used, before) + users.exceeded(c) + badVictims(cycle, runs)
}

// userCounts are how many gangs and pods each user of a queue has.
type userCounts map[[2]string]*struct{ gangs, pods, newGangs, newPods int }

func newUserCounts(c *cluster) userCounts {
	counts := userCounts{}
	for i := range c.snap.Running {
		r := &c.snap.Running[i]
		counts.give(&r.Gang, 1, len(r.Ranks))
	}
	for _, has := range counts {
		has.newGangs, has.newPods = 0, 0
	}
	return counts
}

func (u userCounts) give(g *Gang, gangs, pods int) {
	key := [2]string{g.Queue, g.User}
	if u[key] == nil {
		u[key] = &struct{ gangs, pods, newGangs, newPods int }{}
	}
	u[key].gangs, u[key].pods = u[key].gangs+gangs, u[key].pods+pods
	u[key].newGangs, u[key].newPods = u[key].newGangs+gangs, u[key].newPods+pods
}

func (u userCounts) exceeded(c *cluster) string {
	for _, q := range c.snap.Queues {
		for key, has := range u {
			tooMany := has.newGangs > 0 && q.Users.MaxRunning > 0 && has.gangs > q.Users.MaxRunning
			if key[0] == q.Name && (tooMany || (has.newPods > 0 && q.Users.MaxNodes > 0 && has.pods > q.Users.MaxNodes)) {
				return fmt.Sprintf("user %s of queue %s has too much", key[1], key[0])
			}
		}
	}
	return ""
}

func badLimits(c *cluster, used, before map[string]int64) string {
	total, kept := int64(0), map[string]int64{}
	for _, q := range c.snap.Queues {
		if most, limited := q.Capacity["cpu"]; limited && used[q.Name] > max(most, before[q.Name]) {
			return "queue " + q.Name + " is above its capacity"
		}
		total += used[q.Name]
		kept[q.Name] = max(q.Guarantee["cpu"]-used[q.Name], 0)
	}
	for _, q := range c.snap.Queues {
		others := kept["a"] + kept["b"] + kept["c"] - kept[q.Name]
		if used[q.Name] > max(before[q.Name], q.Guarantee["cpu"]) && total+others > c.snap.Total["cpu"] {
			return "a guarantee is not kept"
		}
	}
	return ""
}

func badVictims(cycle Result, runs map[string]Running) string {
	for _, d := range cycle.Drains {
		r := runs[d.Gang]
		if !r.Malleable || r.Ending || len(r.Ranks)-len(r.Draining)-len(d.Ranks) < r.Sizing.Min {
			return d.Gang + " is shrunk too much"
		}
		for _, rank := range d.Ranks {
			if rank == 0 || slices.Contains(r.Draining, rank) || !slices.Contains(r.Ranks, rank) {
				return fmt.Sprintf("%s cannot drain %d", d.Gang, rank)
			}
		}
	}
	for _, e := range cycle.Evictions {
		if runs[e.Gang].Ending {
			return e.Gang + " is evicted twice"
		}
	}
	return ""
}

// kindsOf are all of some nodes, the first and the last.
func kindsOf(random *rand.Rand, nodes int) [][2]int {
	half := 2 + random.IntN(nodes-3)
	return [][2]int{{0, nodes}, {0, half}, {half, nodes}}
}

// fill runs small gangs until the nodes are taken, and lets some more wait. Choose says of which queue the next gang is and which
// nodes it could use.
func (c *cluster) fill(random *rand.Rand, waits int, choose func() (queue string, nodes [2]int)) *cluster {
	for i := 0; len(c.snap.Waiting) < waits; i++ {
		size := 1 + random.IntN(4)/3
		queue, nodes := choose()
		g := with(elasticGang(fmt.Sprintf("g%02d", i), 1+random.IntN(size), size, random.IntN(50), 0), inQueue(queue), func(g *Gang) { g.Class = fmt.Sprint(nodes) })
		if c.room.only[g.ID] = nodes; c.room.Fits(g.ID, size) == size {
			c.run(g, size, random.IntN(60), func(r *Running) { r.Malleable = random.IntN(2) == 0 })
		} else if i >= 2*len(c.room.free) {
			c.wait(g)
		}
	}
	return c
}

// borrowers are two queues that borrow from each other. Each gang of the first could use either the first nodes or the last, and
// each gang of the second all.
func borrowers(random *rand.Rand) *cluster {
	nodes, shared := 6+random.IntN(5), func(q *Queue) { q.Reclaimable = true }
	kinds := kindsOf(random, nodes)
	return newCluster(nodes, queue("a", shared), queue("b", shared)).fill(random, 1+random.IntN(2), func() (string, [2]int) {
		kind := random.IntN(3)
		return []string{"b", "a", "a"}[kind], kinds[kind]
	})
}

// guarantors are three queues of which some have guarantees. Each gang could use the first nodes, the last, or all.
func guarantors(random *rand.Rand) *cluster {
	nodes := 6 + random.IntN(5)
	var queues []Queue
	for i, left := 0, nodes; i < 3; i++ {
		queues = append(queues, queue(fmt.Sprint(i), func(q *Queue) {
			guarantee := random.IntN(2) * random.IntN(left)
			q.Reclaimable, q.Weight, q.Guarantee = true, 1+random.IntN(2), Resources{"cpu": int64(guarantee)}
			left -= guarantee
		}))
	}
	c, kinds := newCluster(nodes, queues...), kindsOf(random, nodes)
	c.room.only[AnyGang] = kinds[random.IntN(3)]
	return c.fill(random, 1+random.IntN(3), func() (string, [2]int) { return fmt.Sprint(random.IntN(3)), kinds[random.IntN(3)] })
}

// Where nothing ends and nothing comes, takers come to an end, too: nobody is evicted for
// nodes that it, or another, gets back in the next cycle.
func TestTakersComeToAnEnd(t *testing.T) {
	for name, of := range map[string]struct {
		cluster func(*rand.Rand) *cluster
		seeds   uint64
	}{"any": {randomCluster, 400}, "borrowers": {borrowers, 1000}, "guarantors": {guarantors, 1000}} {
		t.Run(name, func(t *testing.T) {
			evictions := 0
			for seed := range of.seeds {
				s := simulate(of.cluster(rand.New(rand.NewPCG(seed, 23))), func(Gang, int) time.Duration { return 1000 * time.Hour })
				taken := 0
				s.check = func(c Result) { taken = len(c.Evictions) + len(c.Drains) }
				s.now = noon.Add(time.Hour)
				for i := range s.snap.Running {
					s.ends[s.snap.Running[i].ID] = s.now.Add(1000 * time.Hour)
				}
				for range 75 { // longer than any patience
					s.step()
					evictions += taken
					s.now = s.now.Add(time.Second)
				}
				if taken > 0 {
					t.Errorf("seed %d: something is taken still", seed)
				}
			}
			if evictions == 0 {
				t.Error("nothing was ever taken")
			}
			t.Logf("%d times something was taken", evictions)
		})
	}
}

// With limits that are exact, the start that is expected of the first gang is
// never put off while it stays the first.
func TestHeadsAreNotDelayed(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 17))
		s := simulate(newCluster(24), func(g Gang, _ int) time.Duration { return g.Limit })
		s.limits = true
		for i := range 30 {
			s.wait(with(gang(fmt.Sprintf("g%02d", i), 1+random.IntN(24), 0), limited(time.Duration(1+random.IntN(40))*time.Second)))
		}
		head, at := "", ""
		s.check = func(c Result) {
			for _, d := range c.Decisions {
				if d.Blocked.IsZero() {
					continue
				}
				_, start, _ := strings.Cut(d.Message, "start by ")
				if d.Gang == head && start > at {
					t.Fatalf("seed %d: %s was to start by %s, now by %s", seed, head, at, start)
				}
				head, at = d.Gang, start
			}
		}
		s.finish()
	}
}

// With limits that are exact, and gangs that come in their order, the start that a conservative queue
// reserves for a gang is never put off.
func TestConservativeDelaysNobody(t *testing.T) {
	for seed := range uint64(200) {
		random := rand.New(rand.NewPCG(seed, 29))
		s := simulate(newCluster(24, queue("default", func(q *Queue) { q.Backfill = Conservative })), func(g Gang, _ int) time.Duration { return g.Limit })
		s.limits = true
		for i := range 30 {
			s.wait(with(gang(fmt.Sprintf("g%02d", i), 1+random.IntN(24), 10*i-300), limited(time.Duration(1+random.IntN(40))*time.Second)))
		}
		expected := map[string]string{}
		s.check = func(c Result) {
			for _, d := range c.Decisions {
				at := s.now.UTC().Format(time.RFC3339)
				if d.Verdict != elastic.Admitted {
					_, at, _ = strings.Cut(d.Message, "start by ")
				}
				if before, ok := expected[d.Gang]; at == "" || ok && at > before {
					t.Fatalf("seed %d: %s was to start by %q, now by %q", seed, d.Gang, before, at)
				}
				expected[d.Gang] = at
			}
		}
		s.finish()
	}
}

// reckons counts the usage of users from step to step, and returns it.
func (s *simulation) reckons() map[string]*Account {
	accounts := map[string]*Account{}
	for i := range s.snap.Queues {
		accounts[s.snap.Queues[i].Name] = &Account{At: s.now}
	}
	s.before = func() {
		for i := range s.snap.Queues {
			q := &s.snap.Queues[i]
			q.Users.Usage = accounts[q.Name].Until(s.now, q.Users.HalfLife)
		}
	}
	s.check = func(c Result) {
		for _, use := range c.Uses {
			accounts[use.Queue].Settle(s.now, s.snap.Queues[0].Users.HalfLife, use.Users, s.snap.Total, 10)
		}
	}
	return accounts
}

// Of two users with endless work each gets half of the cluster, from the first second up to one gang, whatever the sizes of
// their gangs are and how long these run. A user who comes later has as much after some half-lives.
func TestUsersShareEvenly(t *testing.T) {
	type kind struct{ size, seconds int }
	for name, tc := range map[string]struct {
		alice, bob kind
		comes      int // the second in which bob comes
		from       int // and from when on they have the same
	}{
		"alike":                 {kind{2, 20}, kind{2, 20}, 0, 0},
		"small and large":       {kind{1, 20}, kind{8, 20}, 0, 0},
		"short and long":        {kind{2, 5}, kind{2, 100}, 0, 0},
		"small and long, large": {kind{1, 100}, kind{6, 10}, 0, 0},
		"one comes later":       {kind{2, 20}, kind{2, 20}, 500, 1500},
	} {
		t.Run(name, func(t *testing.T) {
			random := rand.New(rand.NewPCG(9, 9))
			s := simulate(newCluster(32, fair(nil, func(q *Queue) { q.Users.HalfLife, q.Patience = 5*time.Minute, 10*time.Second })), func(g Gang, _ int) time.Duration {
				seconds := map[string]int{"alice": tc.alice.seconds, "bob": tc.bob.seconds}[g.User]
				return time.Duration(seconds*500+random.IntN(seconds*1000)) * time.Millisecond
			})
			accounts := s.reckons()
			n, had := 0, map[string]int{}
			for second := range 2500 {
				s.now = noon.Add(time.Duration(second) * time.Second)
				for i, kind := range []kind{tc.alice, tc.bob} {
					user, waits := []string{"alice", "bob"}[i], 0
					for i := range s.snap.Waiting {
						if s.snap.Waiting[i].User == user {
							waits++
						}
					}
					for ; waits < 20 && (user == "alice" || second >= tc.comes); waits++ {
						s.wait(with(gang(fmt.Sprintf("%s%05d", user, n), kind.size, second), of(user)))
						n++
					}
				}
				s.step()
				if second >= tc.from {
					for i := range s.snap.Running {
						had[s.snap.Running[i].User] += len(s.snap.Running[i].Ranks)
					}
				}
				if tc.comes == 0 && second == 0 && max(had["alice"], had["bob"])-min(had["alice"], had["bob"]) > tc.bob.size {
					t.Errorf("in the first second they have %v", had)
				}
			}
			part := float64(had["alice"]) / float64(had["alice"]+had["bob"])
			t.Logf("alice has %.3f of what both have; usage %v", part, accounts["default"].Usage)
			if part < 0.45 || part > 0.55 {
				t.Errorf("alice has %.3f of what both have", part)
			}
		})
	}
}

// The backlog of a user does not keep another user's first gang waiting for longer than until a gang of that
// size ends.
func TestBacklogDelaysNoOtherUser(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 31))
		s := simulate(newCluster(32, fair(nil, func(q *Queue) { q.Backfill = []Backfill{NoBackfill, EASY, Conservative}[seed%3] })), func(Gang, int) time.Duration {
			return time.Duration(10+random.IntN(100)) * time.Second
		})
		s.reckons()
		for i := range 100 {
			s.wait(with(gang(fmt.Sprintf("a%03d", i), 4, 0), of("alice")))
		}
		comes, until := 1+random.IntN(200), time.Time{}
		for second := 0; s.began["first"].IsZero(); second++ {
			if s.now = noon.Add(time.Duration(second) * time.Second); second == comes {
				s.wait(with(gang("first", 4, second), of("bob")))
				for _, r := range s.snap.Running {
					if end := s.ends[r.ID]; until.IsZero() || end.Before(until) {
						until = end
					}
				}
			}
			if s.step(); second >= comes && s.now.After(until) && s.began["first"].IsZero() {
				t.Fatalf("seed %d: it came at second %d, a gang ended at %s, and it has not begun at %s", seed, comes, until, s.now)
			}
		}
	}
}
