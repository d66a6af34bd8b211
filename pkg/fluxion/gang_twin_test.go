// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// life is a graph and its twin, with which the same is done.
type life struct {
	t      *testing.T
	seed   uint64
	step   int
	random *rand.Rand
	w      *world
	g      *Graph
	jobs   int
}

func (l *life) failf(format string, values ...any) {
	l.t.Helper()
	l.t.Fatalf("seed %d, step %d: %s", l.seed, l.step, fmt.Sprintf(format, values...))
}

// After random operations, each match finds the largest size for which there is room, on
// nodes as near to each other as possible. Nothing is given twice or lost.
func TestGangAgainstNaiveTwin(t *testing.T) {
	seeds := uint64(6000)
	if testing.Short() {
		seeds = 300
	}
	for seed := range seeds {
		random := rand.New(rand.NewPCG(seed, 7))
		w := randomWorld(random)
		l := &life{t: t, seed: seed, random: random, w: w, g: w.graph(t, random)}
		for l.step = range 12 {
			l.live()
			l.conserves(l.g, l.w)
		}
		if seed%3 == 0 {
			l.branch()
			l.extend()
		}
	}
}

// live does a random operation.
func (l *life) live() {
	job := l.anyJob()
	switch what := l.random.IntN(12); {
	case what < 4:
		l.match()
	case what == 4 && len(l.w.nodes) > 0:
		l.occupy()
	case what == 5 && len(l.w.nodes) > 0:
		i := l.random.IntN(len(l.w.nodes))
		l.w.nodes[i].Down = []string{"", "cordoned"}[l.random.IntN(2)]
		l.g.SetDown(l.w.nodes[i].Name, l.w.nodes[i].Down)
	case what == 11 && len(l.w.nodes) > 0:
		l.setCapacity()
	case job == "":
	case what == 6 || what == 7:
		l.grow(job)
	case what == 8:
		l.shrink(job)
	case what == 9:
		l.free(job)
	default:
		l.release(job)
	}
}

func (l *life) anyJob() string {
	ids := slices.Sorted(maps.Keys(l.w.jobs))
	if len(ids) == 0 {
		return ""
	}
	return ids[l.random.IntN(len(ids))]
}

// conserves checks that what is left and what is held add up to the capacity, and that the
// pages keep their invariants.
func (l *life) conserves(g *Graph, w *world) {
	l.t.Helper()
	shared := slices.Index(g.nodes.resources, WholeNode)
	pods, whole := w.held()
	for i, free := range w.free() {
		if got, want := g.nodes.left(int32(i))[shared], allShares-int64(whole[i])*allShares-int64(pods[i]-whole[i]); got != want {
			l.failf("of node %s %d shares are left, want %d", w.nodes[i].Name, got, want)
		}
		left := g.Left(w.nodes[i].Name)
		for name, amount := range left {
			if free[name] != amount {
				l.failf("node %s has %v left, want %v", w.nodes[i].Name, left, free)
			}
		}
		if down := g.nodes.down(int32(i)); down != w.nodes[i].Down || g.Name(i) != w.nodes[i].Name {
			l.failf("node %d is %s (%q), want %s (%q)", i, g.Name(i), down, w.nodes[i].Name, w.nodes[i].Down)
		}
	}
	for id, job := range w.jobs {
		var want []Pod
		for rank, name := range job.nodes {
			if name != "" {
				want = append(want, Pod{rank, name})
			}
		}
		if got := g.Pods(id); !slices.Equal(got, want) {
			l.failf("job %s has %v, want %v", id, got, want)
		}
	}
	if jobs := slices.Collect(g.jobs.all()); len(jobs) != len(w.jobs) {
		l.failf("%d jobs, want %d", len(jobs), len(w.jobs))
	}
	for i, page := range g.nodes.pages {
		all := uint64(0)
		for c := range page.classes {
			if nodes := page.classes[c].nodes; nodes == 0 || all&nodes != 0 {
				l.failf("page %d has classes %v", i, page.classes)
			}
			all |= page.classes[c].nodes
			for other := range c {
				if page.alike(other, c) {
					l.failf("page %d has two classes that are alike", i)
				}
			}
		}
	}
}

func (l *life) match() {
	l.jobs++
	gang := l.w.randomGang(l.random, fmt.Sprint("job-", l.jobs))
	p := l.w.puzzle(gang, false)
	size, fits := p.size()
	got, refusal := l.g.MatchGang(gang)
	if len(got.Nodes) != size || (refusal == nil) != (size > 0) {
		l.failf("%+v got %v (%v), want %d", gang, got, refusal, size)
	}
	again := l.w.graph(l.t, l.random)
	if other, _ := again.MatchGang(gang); !slices.Equal(other.Nodes, got.Nodes) {
		l.failf("%+v got %v, and on a graph that came to be in another way %v", gang, got, other)
	}
	emptySize, capacity := l.w.puzzle(gang, true).size()
	if could := l.g.CouldHold(gang); (could == nil) != (emptySize > 0) {
		l.failf("%+v: CouldHold says %v, want room for %d", gang, could, capacity)
	}
	if _, apart := p.capped(1).size(); l.g.FitsApart(gang) != apart {
		l.failf("%+v: FitsApart says %d, want %d", gang, l.g.FitsApart(gang), apart)
	}
	if refusal != nil {
		if refusal.Fits != fits || refusal.Capacity != capacity || refusal.Never != (emptySize == 0) {
			l.failf("%+v: got %+v, want room for %d, of %d", gang, refusal, fits, capacity)
		}
		l.explain(gang, p)
		return
	}
	if l.g.Explain(gang) != nil {
		l.failf("%+v is placed, and is told why not", gang)
	}
	l.isGood(gang, p, got.Nodes)
	if err := l.g.Take(gang, got); err != nil {
		l.failf("%v", err)
	}
	l.w.jobs[gang.Job] = &worldJob{gang, got.Nodes}
	if err := l.g.Take(gang, got); !errors.Is(err, ErrExists) {
		l.failf("taken twice: %v", err)
	}
}

// explain checks the reasons and jobs of a refusal.
func (l *life) explain(gang Gang, p *puzzle) {
	r := l.g.Explain(gang)
	counted := 0
	for _, reason := range r.Reasons {
		counted += reason.Nodes
	}
	if !r.Never && r.Level == "" {
		without := 0
		for _, room := range p.room {
			if room == 0 {
				without++
			}
		}
		if counted != without {
			l.failf("%+v: %q tells of %d nodes, want %d", gang, r, counted, without)
		}
	}
	if (len(r.Jobs) > 0 && r.Never) || len(r.String()) == 0 {
		l.failf("%+v: %q", gang, r)
	}
	ended := l.w.clone()
	for _, id := range slices.Sorted(maps.Keys(l.w.jobs)) {
		delete(ended.jobs, id)
	}
	size, _ := ended.puzzle(gang, false).size()
	if (size > 0) != (len(r.Jobs) > 0) {
		l.failf("%+v: without jobs it gets %d, and is told that %v are in the way", gang, size, r.Jobs)
	}
	// The gang fits without these jobs, and does not fit if one of them stays.
	for stays := -1; stays < len(r.Jobs) && len(r.Jobs) > 0; stays++ {
		after := l.w.clone()
		for i, id := range r.Jobs {
			if i != stays {
				delete(after.jobs, id)
			}
		}
		if size, _ := after.puzzle(gang, false).size(); (size > 0) != (stays < 0) {
			l.failf("%+v: %v are in the way, but without number %d it gets %d", gang, r.Jobs, stays, size)
		}
	}
	if want := l.earliest(gang); !r.Never && !r.Until.Equal(want) {
		l.failf("%+v fits by %s, want %s", gang, r.Until, want)
	}
}

// earliest is the first end of a job at which the gang fits; zero if it fits at none.
func (l *life) earliest(gang Gang) time.Time {
	after := l.w.clone()
	byEnd := slices.SortedFunc(maps.Values(l.w.jobs), func(a, b *worldJob) int { return a.gang.End.Compare(b.gang.End) })
	for _, job := range byEnd {
		if job.gang.End.IsZero() {
			continue
		}
		delete(after.jobs, job.gang.Job)
		if size, _ := after.puzzle(gang, false).size(); size > 0 {
			return job.gang.End
		}
	}
	return time.Time{}
}

// setCapacity gives a node another capacity. A graph that refuses is made anew.
func (l *life) setCapacity() {
	i := l.random.IntN(len(l.w.nodes))
	node := &l.w.nodes[i]
	node.Capacity = randomCapacity(l.random)
	if l.random.IntN(4) == 0 {
		node.Capacity = l.w.nodes[l.random.IntN(len(l.w.nodes))].Capacity
	}
	if !l.g.SetCapacity(node.Name, node.Capacity) {
		l.g = l.w.graph(l.t, l.random)
	}
}

func (l *life) occupy() {
	name := l.w.nodes[l.random.IntN(len(l.w.nodes))].Name
	resources := Resources{CPU: l.random.Int64N(4), Memory: l.random.Int64N(3), Pods: 1}
	if l.random.IntN(8) == 0 {
		resources[WholeNode] = 1
	}
	if pods := l.w.others[name]; l.random.IntN(2) == 0 && len(pods) > 0 {
		l.g.Vacate(name, pods[0])
		l.w.others[name] = pods[1:]
		return
	}
	l.g.Occupy(name, resources)
	l.w.others[name] = append(slices.Clip(l.w.others[name]), resources)
}

func (l *life) grow(id string) {
	job := l.w.jobs[id]
	p := l.w.puzzle(job.gang, false)
	scope := l.w.all()
	if t := job.gang.Topology; t.Required && slices.Contains(l.w.levels, t.Level) {
		for _, nodes := range l.w.domains(t.Level, scope) {
			if slices.ContainsFunc(nodes, func(i int) bool { return p.has[i] > 0 }) {
				scope = nodes
			}
		}
	}
	n := 1 + l.random.IntN(5)
	want := min(n, p.most(scope))
	pods, refusal, err := l.g.Grow(id, n)
	if err != nil || len(pods) != want || (refusal == nil) != (want > 0) {
		l.failf("%+v grew by %v (%v), want %d", job.gang, pods, refusal, want)
	}
	nodes := make([]string, len(pods))
	for i, pod := range pods {
		nodes[i] = pod.Node
		for rank := range pod.Rank {
			if rank > 0 && (rank >= len(job.nodes) || job.nodes[rank] == "") || pod.Rank == 0 {
				l.failf("%v: rank %d has no pod yet", pods, rank)
			}
		}
		if pod.Rank == len(job.nodes) {
			job.nodes = append(job.nodes, "")
		}
		job.nodes[pod.Rank] = pod.Node
	}
	if want > 0 {
		l.isGood(p.gang, p, nodes)
	}
}

func (l *life) shrink(id string) {
	job := l.w.jobs[id]
	victims := l.g.Victims(id, l.random.IntN(5), nil)
	l.areGoodVictims(job, victims)
	for _, rank := range victims {
		if err := l.g.Free(id, rank); err != nil {
			l.failf("%v", err)
		}
		job.nodes[rank] = ""
	}
	l.bury(id)
}

// areGoodVictims checks that no other ranks would free more innermost domains.
func (l *life) areGoodVictims(job *worldJob, victims []int) {
	freed := func(ranks []int) int {
		has := map[string]bool{}
		level := ""
		if len(l.w.levels) > 0 {
			level = l.w.levels[len(l.w.levels)-1]
		}
		for key, nodes := range l.w.domains(level, l.w.all()) {
			for rank, name := range job.nodes {
				if name != "" && !slices.Contains(ranks, rank) && slices.Contains(nodes, l.w.index(name)) {
					has[key] = true
				}
			}
		}
		return -len(has)
	}
	if len(job.nodes) > 10 {
		return
	}
	for choice := range 1 << len(job.nodes) {
		var ranks []int
		for rank, name := range job.nodes {
			if choice>>rank&1 == 1 && rank > 0 && name != "" {
				ranks = append(ranks, rank)
			}
		}
		if len(ranks) == len(victims) && freed(ranks) > freed(victims) {
			l.failf("%v of %v leave, though %v would free more", victims, job.nodes, ranks)
		}
	}
}

func (l *life) free(id string) {
	job := l.w.jobs[id]
	rank := l.random.IntN(len(job.nodes))
	if err := l.g.Free(id, rank); (err == nil) != (job.nodes[rank] != "") {
		l.failf("freeing rank %d of %v: %v", rank, job.nodes, err)
	}
	job.nodes[rank] = ""
	l.bury(id)
}

// bury removes a job that has no pod left.
func (l *life) bury(id string) {
	if !slices.ContainsFunc(l.w.jobs[id].nodes, func(name string) bool { return name != "" }) {
		delete(l.w.jobs, id)
	}
}

func (l *life) release(id string) {
	if err := l.g.Release(id); err != nil {
		l.failf("%v", err)
	}
	delete(l.w.jobs, id)
	if err := l.g.Release(id); !errors.Is(err, ErrNotFound) {
		l.failf("released twice: %v", err)
	}
}

// branch goes on with a snapshot and with the graph, each with its own twin.
func (l *life) branch() {
	other := &life{t: l.t, seed: l.seed, random: rand.New(rand.NewPCG(l.seed, 8)), w: l.w.clone(), g: l.g.Snapshot(), jobs: 100}
	for step := range 6 {
		l.step, other.step = 100+step, 200+step
		l.live()
		other.live()
		l.conserves(l.g, l.w)
		other.conserves(other.g, other.w)
	}
}

// extend goes on with a copy that has more nodes.
func (l *life) extend() {
	var more []Node
	for i := range l.random.IntN(5) {
		node := Node{Name: fmt.Sprint("more", i), Capacity: randomCapacity(l.random)}
		if len(l.w.nodes) > 0 && l.random.IntN(3) > 0 {
			node.Topology = l.w.nodes[l.random.IntN(len(l.w.nodes))].Topology
		}
		more = append(more, node)
	}
	before := l.w.clone()
	extended, err := l.g.Extend(more)
	if err != nil {
		l.failf("%v", err)
	}
	w := l.w.clone()
	w.nodes = append(w.nodes, more...)
	w.sort()
	for _, job := range w.jobs { // where they can grow is not known there
		job.gang.Pods.Infeasible, job.gang.Pods.Closed = nil, nil
	}
	other := &life{t: l.t, seed: l.seed, random: l.random, w: w, g: extended, jobs: 200}
	other.conserves(other.g, other.w)
	for other.step = range 6 {
		other.live()
		other.conserves(other.g, other.w)
	}
	l.conserves(l.g, before)
	if _, err := l.g.Extend(l.w.nodes); err == nil && len(l.w.nodes) > 0 {
		l.failf("it has two nodes of a name")
	}
}

// isGood checks the nodes of new pods of a gang: that each node has room, and that the pods
// are as near to each other as possible.
func (l *life) isGood(gang Gang, p *puzzle, names []string) {
	l.t.Helper()
	counts := make([]int, len(l.w.nodes))
	for n, name := range names {
		i := l.w.index(name)
		if i < 0 || counts[i] == p.room[i] {
			l.failf("%+v got %v: there is no room for %d on %s", gang, names, n, name)
		}
		counts[i]++
		if n > 0 && l.w.index(names[n-1]) > i {
			l.failf("%+v got %v: %s is not in order", gang, names, name)
		}
	}
	l.isNear(gang, p, counts)
}

// isNear checks the domains of a placement, from the outermost to the innermost.
func (l *life) isNear(gang Gang, p *puzzle, counts []int) {
	t := gang.Topology
	scopes := map[string][]int{"": l.w.all()}
	switch known := slices.Contains(l.w.levels, t.Level); {
	case known && t.Required:
		n := total(counts, l.w.all())
		best := unlimited
		domains := l.w.domains(t.Level, l.w.all())
		scopes = map[string][]int{}
		for key, nodes := range domains {
			if room := p.most(nodes); room >= n && !isNone(key) && total(p.has, nodes) == 0 {
				best = min(best, room)
			}
			if total(counts, nodes) > 0 {
				scopes[key] = nodes
			}
		}
		for key, nodes := range scopes {
			if len(scopes) > 1 || isNone(key) || (total(p.has, l.w.all()) == 0 && p.most(nodes) != best) {
				l.failf("%+v got %v: not all in the tightest %s", gang, counts, t.Level)
			}
		}
	case known:
		scopes = l.w.domains(t.Level, l.w.all())
		l.isFewest(gang, p, scopes, counts)
	}
	for _, nodes := range scopes {
		if total(counts, nodes) == 0 {
			continue
		}
		l.isNearIn(gang, p, nodes, counts, slices.Index(l.w.levels, t.Level)+1)
	}
}

// isPacked checks that pods are in as few domains as possible of a level, and in these in as few as
// possible of the next one, and so on. Pods that fit into one domain of a level inside are in one.
func (l *life) isPacked(gang Gang, p *puzzle, nodes, counts []int, level int) {
	if level >= len(l.w.levels) {
		return
	}
	domains := l.w.domains(l.w.levels[level], nodes)
	for inside := len(l.w.levels) - 1; total(p.has, l.w.all()) == 0 && inside > level; inside-- {
		of := l.w.domains(l.w.levels[inside], nodes)
		for _, some := range of {
			if p.most(some) >= total(counts, nodes) && inside > level {
				domains, level = of, inside
			}
		}
	}
	l.isFewest(gang, p, domains, counts)
	for _, nodes := range domains {
		if total(counts, nodes) > 0 {
			l.isPacked(gang, p, nodes, counts, level+1)
		}
	}
}

// isFewest checks that pods are in as few domains as possible. If one domain is enough, it
// has to be the tightest.
func (l *life) isFewest(gang Gang, p *puzzle, domains map[string][]int, counts []int) {
	var all, in []int
	used := 0
	for _, nodes := range domains {
		all = append(all, nodes...)
		if total(counts, nodes) > 0 && total(p.has, nodes) == 0 {
			used++
			in = nodes
		}
	}
	n := total(counts, all)
	if want := p.fewest(domains, n); used != want {
		l.failf("%+v got %v: in %d domains of %v, want %d", gang, counts, used, domains, want)
	}
	for _, nodes := range domains {
		if used == 1 && total(p.has, all) == 0 && p.most(nodes) >= n && p.most(nodes) < p.most(in) {
			l.failf("%+v got %v: in %v, though %v is tighter", gang, counts, in, nodes)
		}
	}
}

func total(counts, nodes []int) int {
	sum := 0
	for _, i := range nodes {
		sum += counts[i]
	}
	return sum
}

// isNearIn checks the domains of a scope from a level on, and their nodes.
func (l *life) isNearIn(gang Gang, p *puzzle, nodes, counts []int, from int) {
	level := ""
	if len(l.w.levels) > 0 {
		level = l.w.levels[len(l.w.levels)-1]
	}
	racks := l.w.domains(level, nodes)
	if !gang.Distinct && gang.Policy == Pack {
		l.isPacked(gang, p, nodes, counts, from)
		for _, rack := range racks {
			l.hasFewestNodes(gang, p, rack, counts)
		}
		return
	}
	// The fullest node has as few pods as possible.
	n := total(counts, nodes)
	top := 1
	for p.capped(top).most(nodes) < n {
		top++
	}
	base := 0 // what every node gets
	for _, i := range nodes {
		if counts[i] > 0 && counts[i]+p.has[i] > top {
			l.failf("%+v got %v: more than %d on one node", gang, counts, top)
		}
		each := min(p.room[i], max(top-1-p.has[i], 0))
		base += each
		if counts[i] < each {
			l.failf("%+v got %v: fewer than %d on node %d", gang, counts, each, i)
		}
	}
	switch {
	case gang.Policy == Spread:
		l.isEven(gang, p, racks, counts, top)
	case base == 0:
		l.isPacked(gang, p.capped(top), nodes, counts, from)
	}
}

// hasFewestNodes checks that the pods of a rack are on as few nodes as possible.
func (l *life) hasFewestNodes(gang Gang, p *puzzle, rack, counts []int) {
	n, used := 0, 0
	var rooms []int
	for _, i := range rack {
		n += counts[i]
		if p.has[i] > 0 {
			n -= p.room[i]
			continue
		}
		rooms = append(rooms, p.room[i])
		if counts[i] > 0 {
			used++
		}
	}
	slices.Sort(rooms)
	for _, room := range slices.Backward(rooms) {
		if n > 0 {
			n -= room
			used--
		}
	}
	if used > 0 {
		l.failf("%+v got %v: on more nodes than needed", gang, counts)
	}
}

// isEven checks that no rack has two pods more than another one that has room.
func (l *life) isEven(gang Gang, p *puzzle, racks map[string][]int, counts []int, top int) {
	has := func(rack []int) (has, most, base int) {
		for _, i := range rack {
			has += p.has[i] + counts[i]
			most += p.has[i] + min(p.room[i], max(top-p.has[i], 0))
			base += p.has[i] + min(p.room[i], max(top-1-p.has[i], 0))
		}
		return has, most, base
	}
	for _, a := range racks {
		for _, b := range racks {
			hasA, _, baseA := has(a)
			hasB, mostB, _ := has(b)
			if hasA > hasB+1 && hasA > baseA && hasB < mostB {
				l.failf("%+v got %v: %d in %v, but %d in %v", gang, counts, hasA, a, hasB, b)
			}
		}
	}
}
