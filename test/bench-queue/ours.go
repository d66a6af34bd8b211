// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

// ours is the queue of flux-elastic.
type ours struct {
	queues []queue.Queue
	nodes  int
	jobs   map[string]*job
	gangs  map[*job]queue.Gang
	// runtimes are what the queue learns of its gangs, and ran are those that ran at the last decision.
	runtimes *queue.Runtimes
	ran      map[string]queue.Running
}

func newOurs(nodes int, ordering queue.Ordering, backfill queue.Backfill, queues ...string) *ours {
	o := &ours{nodes: nodes, jobs: map[string]*job{}, gangs: map[*job]queue.Gang{}, runtimes: queue.NewRuntimes(1)}
	for _, name := range queues {
		o.queues = append(o.queues, queue.Queue{
			Name: name, Weight: 1, Reclaimable: true, Ordering: ordering, Backfill: backfill, Patience: 5 * time.Minute,
		})
	}
	return o
}

// epoch is the time at which a workload begins.
var epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func (o *ours) decide(now time.Duration, waiting []*job, runs []*running, _ int) (d decision) {
	snapshot := queue.Snapshot{Queues: o.queues, Total: queue.Resources{"nodes": int64(o.nodes)}}
	room := &room{free: o.nodes, nodes: o.nodes, held: map[string]int{}}
	o.learn(now, waiting, runs)
	for _, j := range waiting {
		snapshot.Waiting = append(snapshot.Waiting, o.gang(j))
	}
	for _, r := range runs {
		room.take(strconv.Itoa(r.number), r.nodes)
		run := queue.Running{
			Gang: o.gang(r.job), Ranks: ranks[:r.nodes], Max: r.size, Malleable: r.malleable, Admitted: epoch.Add(r.began),
			Began: epoch.Add(r.began), Saved: epoch.Add(r.changed), RestartCost: r.standstill(), SaveCost: r.checkpoint,
		}
		if !r.unlimited {
			run.End = epoch.Add(r.limit)
		}
		snapshot.Running = append(snapshot.Running, run)
		o.ran[run.ID] = run
	}
	result := queue.Schedule(snapshot, room, epoch.Add(now))
	for i := range result.Decisions {
		o.keep(&result.Decisions[i], now, &d)
	}
	for _, eviction := range result.Evictions {
		d.evicted = append(d.evicted, o.jobs[eviction.Gang])
	}
	for _, drain := range result.Drains {
		d.resizes = append(d.resizes, resize{o.jobs[drain.Gang], room.held[drain.Gang] - len(drain.Ranks)})
	}
	for _, growth := range result.Growths {
		d.resizes = append(d.resizes, resize{o.jobs[growth.Gang], room.held[growth.Gang] + len(growth.Pods)})
	}
	d.lookAt(result.LookAgain, now)
	return d
}

// learn records which gangs have ended since the last decision. Those that wait again were evicted.
func (o *ours) learn(now time.Duration, waiting []*job, runs []*running) {
	for _, r := range runs {
		delete(o.ran, strconv.Itoa(r.number))
	}
	for _, j := range waiting {
		delete(o.ran, strconv.Itoa(j.number))
	}
	for _, id := range slices.Sorted(maps.Keys(o.ran)) {
		run := o.ran[id]
		o.runtimes.Learn(&run, epoch.Add(now))
	}
	o.ran = map[string]queue.Running{}
}

// lookAt asks for a decision at a time, if that is in the future.
func (d *decision) lookAt(t time.Time, now time.Duration) {
	if at := t.Sub(epoch); !t.IsZero() && at > now && (d.lookAgain == 0 || at < d.lookAgain) {
		d.lookAgain = at
	}
}

// keep carries out the decision on a waiting gang, and keeps what the next cycle needs of it.
func (o *ours) keep(made *queue.Decision, now time.Duration, d *decision) {
	j := o.jobs[made.Gang]
	if made.Verdict == elastic.Admitted {
		d.starts = append(d.starts, resize{j, len(made.Nodes)})
		return
	}
	g := o.gangs[j]
	g.Memory = made.Memory
	o.gangs[j] = g
	d.lookAt(made.LookAgain, now)
}

func (o *ours) gang(j *job) queue.Gang {
	if g, ok := o.gangs[j]; ok {
		o.runtimes.Expect(&g)
		return g
	}
	id := strconv.Itoa(j.number)
	o.jobs[id] = j
	created := epoch.Add(j.arrival)
	gang := queue.Gang{
		ID: id, Name: id, Queue: j.queue, User: id, // each job has a user, so that only what the queue tells is learned
		Priority: j.priority, Created: created, Since: created, Limit: j.limit(), Estimate: queue.Estimate{Expected: j.estimate}, Class: "node", StartsAtOnce: j.malleable,
		Sizing:   elastic.Sizing{Min: j.least, Size: j.size, Operator: elastic.Multiply, Operand: 2},
		Requests: queue.Resources{"nodes": 1},
	}
	if j.unlimited {
		gang.Limit, gang.Learned = 0, j.known
		if !j.known {
			gang.Expected = 0
		}
	}
	o.gangs[j] = gang
	o.runtimes.Expect(&gang)
	return gang
}

// mostNodes is the size of the largest machine.
const mostNodes = 1 << 17

// ranks and names are those of any gang: the nodes of the machine are alike.
var ranks, names = func() ([]int, []string) {
	ranks, names := make([]int, mostNodes), make([]string, mostNodes)
	for i := range ranks {
		ranks[i], names[i] = i, "n"
	}
	return ranks, names
}()

// room is a queue.Room whose nodes are alike, so that their number is enough.
type room struct {
	nodes, free int
	held        map[string]int
	kept        bool
}

func (r *room) take(id string, n int) {
	r.free -= n
	if r.held[id] += n; r.held[id] == 0 {
		delete(r.held, id)
	}
}

func (r *room) Place(id string, sizes []int) []string {
	largest := 0
	for _, size := range sizes {
		if size <= r.free {
			largest = max(largest, size)
		}
	}
	if largest == 0 {
		return nil
	}
	r.take(id, largest)
	return names[:largest]
}

func (r *room) Fits(_ string, limit int) int { return min(limit, r.free) }

// FitsApart: a gang has one pod on each node anyway.
func (r *room) FitsApart(id string, limit int) int { return r.Fits(id, limit) }

// With: no nodes could come.
func (r *room) With(string, []int) queue.Room { return r.Snapshot() }

func (r *room) CouldHold(_ string, sizes []int) bool { return slices.Min(sizes) <= r.nodes }

// CouldHoldBeside: every gang can use every node.
func (r *room) CouldHoldBeside(string, []int, []string) bool { return false }

// Amount: a node has one of everything.
func (r *room) Amount(_, _, other string) (free, all int64) {
	if other != "" {
		return 0, 0
	}
	return int64(r.free), int64(r.nodes)
}

// Elsewhere and Meet: every gang can use every node.
func (r *room) Elsewhere(string, string) []int { return nil }

func (r *room) Meet(_, _, without string) bool { return without == "" }

func (r *room) Why(_ string, sizes []int) string {
	if slices.Min(sizes) <= r.free {
		return ""
	}
	return "too few nodes are free"
}

// Keep: every gang can use every node.
func (r *room) Keep(string) { r.kept = true }

func (r *room) Grow(id string, n int) []elastic.Pod {
	if n = min(n, r.free); r.kept {
		n = 0
	}
	pods := make([]elastic.Pod, max(n, 0))
	for i := range pods {
		pods[i] = elastic.Pod{Rank: r.held[id] + i, Node: names[0]}
	}
	r.take(id, len(pods))
	return pods
}

func (r *room) Victims(id string, n int, _ string) []int {
	n = min(n, r.held[id]-1)
	return ranks[r.held[id]-n : r.held[id]]
}

func (r *room) Shrink(id string, ranks []int) { r.take(id, -len(ranks)) }

func (r *room) Release(id string) { r.take(id, -r.held[id]) }

func (r *room) Snapshot() queue.Room {
	return &room{nodes: r.nodes, free: r.free, held: maps.Clone(r.held), kept: r.kept}
}
