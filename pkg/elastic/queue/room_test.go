// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// toyRoom is a cluster of nodes with slots, one for each pod, taken by index. Pods
// that ask for nothing take no slot; ten pods are on a node at most.
type toyRoom struct {
	slots int   // of one node
	all   []int // of each node
	free  []int
	pods  []int
	held  map[string]map[int]int // node by rank
	best  map[string]bool
	only  map[string][2]int // the first node that a gang can use, and the one after the last; all if there is none
	shut  map[string][2]int // the nodes that a gang could use, but not now
	kept  []bool            // by node
	// queue is that of each gang, and of each node that could come: only its gangs can use the node. came are these
	// nodes by queue and shape.
	queue map[string]string
	owner map[int]string
	came  map[string][]int
}

func newToyRoom(nodes, slots int) *toyRoom {
	r := &toyRoom{slots: slots, free: make([]int, nodes), pods: make([]int, nodes), held: map[string]map[int]int{}, best: map[string]bool{}, only: map[string][2]int{}, shut: map[string][2]int{}, kept: make([]bool, nodes), queue: map[string]string{}}
	for i := range r.free {
		r.free[i], r.pods[i], r.all = slots, max(10, slots), append(r.all, slots)
	}
	return r
}

func (r *toyRoom) take(id string, rank, node, sign int) {
	if !r.best[id] {
		r.free[node] -= sign
	}
	r.pods[node] -= sign
	ranks := maps.Clone(r.held[id])
	if ranks == nil {
		ranks = map[int]int{}
	}
	if sign > 0 {
		ranks[rank] = node
	} else {
		delete(ranks, rank)
	}
	r.held[id] = ranks
}

// isShut reports whether a gang cannot use a node now.
func (r *toyRoom) isShut(id string, node int) bool {
	shut := r.shut[id]
	return node >= shut[0] && node < shut[1]
}

// canUse reports whether a gang could use a node.
func (r *toyRoom) canUse(id string, node int) bool {
	only, limited := r.only[id]
	if owner := r.owner[node]; owner != "" && owner != r.queue[id] {
		return false
	}
	return !limited || (node >= only[0] && node < only[1]) || r.owner[node] != ""
}

func (r *toyRoom) open(id string, limit int) []int {
	var nodes []int
	for i := range r.free {
		if !r.canUse(id, i) || r.isShut(id, i) {
			continue
		}
		n := min(r.free[i], r.pods[i])
		if r.best[id] {
			n = r.pods[i]
		}
		for range n {
			if len(nodes) == limit {
				return nodes
			}
			nodes = append(nodes, i)
		}
	}
	return nodes
}

func (r *toyRoom) Fits(id string, limit int) int { return len(r.open(id, limit)) }

func (r *toyRoom) FitsApart(id string, limit int) int {
	return min(len(slices.Compact(r.open(id, math.MaxInt))), limit)
}

func (r *toyRoom) Amount(resource, id, other string) (free, all int64) {
	for node := range r.free {
		switch {
		case !r.canUse(id, node) || other != "" && r.canUse(other, node):
		case resource == "cpu":
			free, all = free+int64(r.free[node]), all+int64(r.all[node])
		case resource == pods:
			free, all = free+int64(r.pods[node]), all+int64(max(10, r.all[node]))
		}
	}
	return free, all
}

func (r *toyRoom) Elsewhere(id, other string) (ranks []int) {
	for rank, node := range r.held[other] {
		if !r.canUse(id, node) {
			ranks = append(ranks, rank)
		}
	}
	slices.Sort(ranks)
	return ranks
}

func (r *toyRoom) Meet(id, other, without string) bool {
	for node := range r.free {
		if r.canUse(id, node) && r.canUse(other, node) && (without == "" || !r.canUse(without, node)) {
			return true
		}
	}
	return false
}

// With adds nodes of one slot more than the shape has in its index.
func (r *toyRoom) With(queue string, nodes []int) Room {
	c := r.Snapshot().(*toyRoom)
	before := c.came[queue]
	c.owner, c.came = maps.Clone(c.owner), maps.Clone(c.came)
	if c.owner == nil {
		c.owner, c.came = map[int]string{}, map[string][]int{}
	}
	for shape, n := range nodes {
		if before != nil {
			n -= before[shape]
		}
		if n < 0 {
			panic("nodes that came go again")
		}
		for range n {
			c.owner[len(c.free)] = queue
			c.free, c.pods, c.kept = append(c.free, c.slots+shape), append(c.pods, 10), append(c.kept, false)
			c.all = append(slices.Clip(c.all), c.slots+shape)
		}
	}
	c.came[queue] = slices.Clone(nodes)
	return c
}

func (r *toyRoom) Place(id string, sizes []int) []string {
	open := r.open(id, slices.Max(sizes))
	largest := 0
	for _, size := range sizes {
		if size <= len(open) {
			largest = max(largest, size)
		}
	}
	if largest == 0 {
		return nil
	}
	if len(r.held[id]) > 0 {
		panic(id + " is placed twice")
	}
	ranks, nodes := make(map[int]int, largest), make([]string, largest)
	for rank, node := range open[:largest] {
		ranks[rank], nodes[rank] = node, fmt.Sprint("n", node)
		r.pods[node]--
		if !r.best[id] {
			r.free[node]--
		}
	}
	r.held[id] = ranks
	return nodes
}

func (r *toyRoom) CouldHold(id string, sizes []int) bool {
	if r.best[id] {
		return true
	}
	return slices.Min(sizes) <= r.most(id)
}

func (r *toyRoom) CouldHoldBeside(id string, sizes []int, others []string) bool {
	most := 0
	for node, slots := range r.all {
		if r.canUse(id, node) && !slices.ContainsFunc(others, func(other string) bool { return r.canUse(other, node) }) {
			most += slots
		}
	}
	return slices.Min(sizes) <= most
}

// most is how many pods of a gang the empty cluster could hold.
func (r *toyRoom) most(id string) int {
	most := 0
	for node, slots := range r.all {
		if r.canUse(id, node) {
			most += slots
		}
	}
	return most
}

func (r *toyRoom) Why(id string, sizes []int) string {
	least := slices.Min(sizes)
	if !r.CouldHold(id, sizes) {
		return fmt.Sprintf("needs %d, there are %d", least, r.most(id))
	}
	if fits := r.Fits(id, least); fits < least {
		return fmt.Sprintf("needs %d, %d free", least, fits)
	}
	return ""
}

func (r *toyRoom) Keep(id string) {
	for i := range r.kept {
		r.kept[i] = r.kept[i] || r.canUse(id, i)
	}
}

func (r *toyRoom) Grow(id string, n int) []elastic.Pod {
	var pods []elastic.Pod
	for _, node := range r.open(id, math.MaxInt) {
		if r.kept[node] || len(pods) == n {
			continue
		}
		rank := 0
		for _, taken := r.held[id][rank]; taken; _, taken = r.held[id][rank] {
			rank++
		}
		r.take(id, rank, node, 1)
		pods = append(pods, elastic.Pod{Rank: rank, Node: fmt.Sprint("n", node)})
	}
	return pods
}

func (r *toyRoom) ranks(id string) []int {
	return slices.Sorted(maps.Keys(r.held[id]))
}

func (r *toyRoom) Victims(id string, n int, taker string) []int {
	ranks := slices.DeleteFunc(r.ranks(id), func(rank int) bool { return rank == 0 })
	useful := func(rank int) bool { return r.canUse(taker, r.held[id][rank]) && !r.isShut(taker, r.held[id][rank]) }
	slices.SortStableFunc(ranks, func(a, b int) int { return compare(useful(a), useful(b)) })
	ranks = ranks[max(len(ranks)-n, 0):]
	slices.Sort(ranks)
	return ranks
}

func (r *toyRoom) Shrink(id string, ranks []int) {
	for _, rank := range ranks {
		r.take(id, rank, r.held[id][rank], -1)
	}
}

func (r *toyRoom) Release(id string) {
	for _, node := range r.held[id] {
		if !r.best[id] {
			r.free[node]++
		}
		r.pods[node]++
	}
	delete(r.held, id)
}

func (r *toyRoom) Snapshot() Room {
	c := *r
	c.free, c.pods, c.held, c.kept = slices.Clone(r.free), slices.Clone(r.pods), maps.Clone(r.held), slices.Clone(r.kept)
	return &c
}

func (r *toyRoom) String() string {
	var out strings.Builder
	for _, id := range slices.Sorted(maps.Keys(r.held)) {
		fmt.Fprintln(&out, id, r.held[id])
	}
	fmt.Fprintln(&out, r.free, r.pods)
	return out.String()
}

// gang is a rigid gang that came some seconds after noon. Of two that did not come in the
// same second, one was made clearly before the other.
func gang(id string, size, second int) Gang {
	at := noon.Add(time.Duration(second) * time.Second)
	return Gang{
		ID: id, Name: "default/" + id, Queue: "default", Created: noon.Add(10 * at.Sub(noon)), Since: at,
		Sizing:   elastic.Sizing{Min: size, Size: size, Operator: elastic.Add, Operand: 1, Tasks: elastic.Tasks{AtSize: 1}},
		Requests: Resources{"cpu": 1}, Class: "one",
	}
}

func elasticGang(id string, least, size, second int, wait time.Duration) Gang {
	g := gang(id, size, second)
	g.Sizing.Min, g.WaitForSize = least, wait
	return g
}

// with changes a gang.
func with(g Gang, changes ...func(*Gang)) Gang {
	for _, change := range changes {
		change(&g)
	}
	return g
}

func inQueue(queue string) func(*Gang) { return func(g *Gang) { g.Queue = queue } }

func ofPriority(priority int32) func(*Gang) { return func(g *Gang) { g.Priority = priority } }

func limited(limit time.Duration) func(*Gang) { return func(g *Gang) { g.Limit = limit } }

func expected(seconds int) func(*Gang) {
	return func(g *Gang) { g.Expected = time.Duration(seconds) * time.Second }
}

// usual is expected for the median of the queue.
func usual(seconds int) func(*Gang) {
	return func(g *Gang) { g.Usual = time.Duration(seconds) * time.Second }
}

// blocked is for a gang that was the first of its queue from a second on.
func blocked(second int) func(*Gang) {
	return func(g *Gang) { g.Blocked = noon.Add(time.Duration(second) * time.Second) }
}

// putOff is for a gang that was the first of its queue from a second on, and was put off then.
func putOff(second int, again bool) func(*Gang) {
	return func(g *Gang) {
		blocked(second)(g)
		g.Delay = Delay{Since: g.Blocked, Again: again}
	}
}

// cluster is a toy cluster and what runs on it.
type cluster struct {
	room *toyRoom
	snap Snapshot
}

func newCluster(nodes int, queues ...Queue) *cluster {
	if len(queues) == 0 {
		queues = []Queue{easy("default")}
	}
	for i := range queues {
		for user, spent := range queues[i].Users.Usage { // of each node
			queues[i].Users.Usage[user] = spent.times(float64(nodes))
		}
	}
	return &cluster{room: newToyRoom(nodes, 1), snap: Snapshot{Queues: queues, Total: Resources{"cpu": int64(nodes), "pods": int64(nodes * 10)}}}
}

func easy(name string) Queue {
	return Queue{Name: name, Weight: 1, Ordering: ByPriority, Backfill: EASY, Patience: time.Minute}
}

// run starts a gang of a size some seconds after noon.
func (c *cluster) run(g Gang, size, second int, change ...func(*Running)) *cluster {
	c.room.best[g.ID], c.room.queue[g.ID] = g.BestEffort, g.Queue
	if c.room.Place(g.ID, []int{size}) == nil {
		panic(g.ID + " does not fit")
	}
	r := Running{Gang: g, Max: g.Sizing.Size, Admitted: noon.Add(time.Duration(second) * time.Second), Ranks: c.room.ranks(g.ID)}
	for _, f := range change {
		f(&r)
	}
	c.snap.Running = append(c.snap.Running, r)
	return c
}

// others lets pods of others use some nodes.
func (c *cluster) others(nodes int) *cluster {
	for i := range nodes {
		c.room.take("others", i, len(c.room.free)-1-i, 1)
	}
	c.snap.Foreign = Resources{"cpu": int64(nodes), "pods": int64(nodes)}
	return c
}

func (c *cluster) wait(gangs ...Gang) *cluster {
	for i := range gangs {
		c.room.best[gangs[i].ID], c.room.queue[gangs[i].ID] = gangs[i].BestEffort, gangs[i].Queue
	}
	c.snap.Waiting = append(c.snap.Waiting, gangs...)
	return c
}

// keep keeps what a cycle found out about the gangs that wait.
func (c *cluster) keep(got Result) {
	for i := range c.snap.Waiting {
		g := &c.snap.Waiting[i]
		g.Memory = got.Decisions[slices.IndexFunc(got.Decisions, func(d Decision) bool { return d.Gang == g.ID })].Memory
	}
}

// leave takes a gang off its nodes.
func (c *cluster) leave(id string) {
	c.room.Release(id)
	c.snap.Running = slices.DeleteFunc(c.snap.Running, func(r Running) bool { return r.ID == id })
}

// on lets gangs use some nodes only. Their class is another for that.
func (c *cluster) on(first, end int, ids ...string) *cluster {
	for _, id := range ids {
		c.room.only[id] = [2]int{first, end}
	}
	class := func(g *Gang) {
		if slices.Contains(ids, g.ID) {
			g.Class = fmt.Sprint(first, " to ", end)
		}
	}
	for i := range c.snap.Waiting {
		class(&c.snap.Waiting[i])
	}
	for i := range c.snap.Running {
		class(&c.snap.Running[i].Gang)
	}
	return c
}

// shut closes some nodes to a gang for now.
func (c *cluster) shut(id string, first, end int) *cluster {
	c.room.shut[id] = [2]int{first, end}
	return c
}

func ending(r *Running) { r.Ending = true }

func malleable(r *Running) { r.Malleable = true }

// restarts lets the command of a malleable gang stand still for a minute while it is run again.
func restarts(r *Running) { r.RestartCost, r.Began = time.Minute, r.Admitted }

// saves lets the command write a checkpoint before it is evicted.
func saves(cost time.Duration) func(*Running) { return func(r *Running) { r.SaveCost = cost } }

// begun is one whose command has run since the gang got its nodes.
func begun(r *Running) { r.Began = r.Admitted }

func changing(r *Running) { r.Changing = true }

func endsAt(second int) func(*Running) {
	return func(r *Running) { r.End = noon.Add(time.Duration(second) * time.Second) }
}

// say is a cycle in a line.
func say(c Result) string {
	var out []string
	for i := range c.Decisions {
		d := &c.Decisions[i]
		text := d.Gang + " " + string(d.Verdict)
		if d.Verdict == elastic.Admitted {
			text += fmt.Sprint(" ", len(d.Nodes))
			if d.Action == "backfill" {
				text += " by backfill"
			}
		}
		out = append(out, text)
	}
	for _, d := range c.Drains {
		out = append(out, fmt.Sprintf("%s drains %v (%s)", d.Gang, d.Ranks, d.Action))
	}
	for _, e := range c.Evictions {
		out = append(out, fmt.Sprintf("%s is evicted (%s)", e.Gang, e.Action))
	}
	for _, a := range c.Asks {
		text := fmt.Sprintf("%s asks for %d at %d", a.Gang, a.Nodes, a.Size)
		if a.Apart {
			text += " apart"
		}
		if a.Attempt > 1 {
			text += fmt.Sprint(", attempt ", a.Attempt)
		}
		if a.Pause > 0 {
			text = fmt.Sprintf("%s asks again in %s", a.Gang, a.Pause)
		}
		out = append(out, text)
	}
	for _, g := range c.Growths {
		out = append(out, fmt.Sprintf("%s grows %d", g.Gang, len(g.Pods)))
	}
	return strings.Join(out, ", ")
}
