// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"maps"
	"slices"
)

// pods is the resource of which every pod takes one.
const pods = "pods"

// clusterState is a room, with what each queue and each user use of it.
type clusterState struct {
	sums
	room Room
	// pool is what the queues have of the nodes that the gang could use for which nodes are reclaimed; nil if none are.
	pool *sums
	// unplaced is what gangs have whose nodes the room does not know yet, by resource; nil if there are none. All of them are
	// of the class that is asked about.
	unplaced []int64
	// guarantors are the queues with guarantees, and guaranteed the resources of these.
	guarantors []*jobQueue
	guaranteed []string
	users      []tally
	// came are the nodes that do not exist and count as there, by queue and shape; nil if there are none.
	came map[*jobQueue][]int
}

// sums are what the queues have of some nodes.
type sums struct {
	names resourceNames
	// total is what the nodes hold for gangs.
	total Resources
	// used is what each queue has of the total, and beside what each queue has outside.
	used, beside []int64 // by queue and resource
	// outside are the ranks outside by gang, and owns is true if no snapshot has the same map.
	outside map[string][]int
	owns    bool
}

// resourceNames are the resources that count (namesOf), and where amounts by resource have each.
type resourceNames map[string]int

// of are the amounts of a queue, of amounts by queue and resource.
func (n resourceNames) of(q *jobQueue, amounts []int64) []int64 {
	return amounts[q.index*len(n):][:len(n)]
}

// amount is that of a resource; 0 if the resource does not count.
func (n resourceNames) amount(amounts []int64, name string) int64 {
	if i, known := n[name]; known && i < len(amounts) {
		return amounts[i]
	}
	return 0
}

// resources are some amounts, without those that are zero.
func (n resourceNames) resources(amounts []int64) Resources {
	out := Resources{}
	for name, i := range n {
		if amounts[i] != 0 {
			out[name] = amounts[i]
		}
	}
	return out
}

// need is what a pod requests of a resource.
type need struct {
	name   int // the index in the names of the state
	amount int64
}

func newClusterState(room Room, queues []*jobQueue, total Resources, names resourceNames) *clusterState {
	n := len(queues) * len(names)
	s := &clusterState{room: room, sums: sums{
		names: names, total: total, used: make([]int64, n), beside: make([]int64, n), outside: map[string][]int{}, owns: true,
	}}
	all := Resources{}
	for _, q := range queues {
		if len(q.Guarantee) > 0 {
			s.guarantors = append(s.guarantors, q)
			all.Add(q.Guarantee, 1)
		}
	}
	s.guaranteed = sorted(all)
	return s
}

// namesOf are the resources that count: of nodes that are there or could come, of queues and of running gangs. No gang gets
// nodes that waits for other resources.
func namesOf(s *Snapshot) resourceNames {
	names := resourceNames{pods: 0}
	add := func(amounts Resources) {
		for name := range amounts {
			if _, known := names[name]; !known {
				names[name] = len(names)
			}
		}
	}
	add(s.Total)
	for i := range s.Queues {
		q := &s.Queues[i]
		add(q.Capacity)
		add(q.Guarantee)
		if q.ScaleUp != nil {
			for k := range q.ScaleUp.Shapes {
				add(q.ScaleUp.Shapes[k].Holds)
			}
		}
	}
	for i := range s.Running {
		add(s.Running[i].Requests)
	}
	return names
}

// needs are those of some requests that count.
func (n resourceNames) needs(requests Resources) []need {
	needs := make([]need, 0, min(len(requests), len(n)))
	for name, amount := range requests {
		if i, counts := n[name]; counts {
			needs = append(needs, need{i, amount})
		}
	}
	return needs
}

// has is how much a queue has of a resource of the total.
func (s *sums) has(q *jobQueue, name string) int64 {
	return s.names.amount(s.names.of(q, s.used), name)
}

// hasOutside is how much a queue has of a resource outside.
func (s *sums) hasOutside(q *jobQueue, name string) int64 {
	return s.names.amount(s.names.of(q, s.beside), name)
}

// uses is what a queue has of the total.
func (s *sums) uses(q *jobQueue) Resources { return s.names.resources(s.names.of(q, s.used)) }

// MaxAmount is the largest amount of a resource. Sums and products stop there, so that they stay within int64, and so
// does the sum of a few of them.
const MaxAmount = 1 << 61

// Add adds what some pods request, or takes it away if the number of pods is negative.
func (r Resources) Add(requests Resources, pods int) {
	for name, amount := range requests {
		r[name] = bounded(r[name] + times(amount, pods))
	}
}

// times is what a number of pods request.
func times(amount int64, pods int) int64 {
	if size := max(pods, -pods); size > 0 && (amount > MaxAmount/int64(size) || amount < -MaxAmount/int64(size)) {
		if (amount > 0) == (pods > 0) {
			return MaxAmount
		}
		return -MaxAmount
	}
	return amount * int64(pods)
}

// bounded is an amount that is at most MaxAmount.
func bounded(amount int64) int64 { return min(max(amount, -MaxAmount), MaxAmount) }

// withPod adds the pod itself to the requests.
func withPod(requests Resources) Resources {
	if requests[pods] > 0 {
		return requests
	}
	requests = maps.Clone(requests)
	if requests == nil {
		requests = Resources{}
	}
	requests[pods] = 1
	return requests
}

func (s *clusterState) snapshot() *clusterState {
	c := *s
	c.room, c.sums = s.room.Snapshot(), s.sums.snapshot()
	if s.pool != nil {
		pool := s.pool.snapshot()
		c.pool = &pool
	}
	c.users, c.unplaced = slices.Clone(s.users), slices.Clone(s.unplaced)
	return &c
}

func (s *sums) snapshot() sums {
	s.owns = false
	c := *s
	c.used = slices.Clone(s.used)
	return c
}

// run counts a gang that has nodes.
func (s *clusterState) run(r *run) {
	s.add(r.user, r.needs, 1, len(r.Ranks))
	s.stay(r.ID, r.user, r.needs, r.Outside)
}

// stay counts some more ranks of a gang as outside.
func (s *sums) stay(id string, u *user, needs []need, ranks []int) {
	if len(ranks) > 0 {
		s.own()
		s.outside[id] = slices.Concat(s.outside[id], ranks)
		s.move(u, needs, len(ranks))
	}
}

// own copies what snapshots share, before a change.
func (s *sums) own() {
	if !s.owns {
		s.outside, s.owns = maps.Clone(s.outside), true
	}
}

// leave counts ranks of a gang that leave no longer as outside.
func (s *sums) leave(id string, u *user, needs []need, leaves func(rank int) bool) {
	had := s.outside[id]
	if !slices.ContainsFunc(had, leaves) {
		return
	}
	s.own()
	stay := slices.DeleteFunc(slices.Clone(had), leaves)
	if s.outside[id] = stay; len(stay) == 0 {
		delete(s.outside, id)
	}
	s.move(u, needs, len(stay)-len(had))
}

// leave counts ranks of a gang that leave no longer as outside.
func (s *clusterState) leave(id string, u *user, needs []need, leaves func(rank int) bool) {
	s.sums.leave(id, u, needs, leaves)
	if s.pool != nil {
		s.pool.leave(id, u, needs, leaves)
	}
}

// all is what a queue has, also outside.
func (s *sums) all(q *jobQueue) Resources {
	all := s.uses(q)
	all.Add(s.names.resources(s.names.of(q, s.beside)), 1)
	return all
}

// inside is how many of n ranks of a gang that leave for a taker are not outside: the best to leave, or with the lead, all.
func (s *sums) inside(room Room, r *run, n int, taker string) int {
	outside := s.outside[r.ID]
	if len(outside) == 0 {
		return n
	}
	leave := room.Victims(r.ID, n, taker)
	all := len(leave) < n
	for _, rank := range outside {
		if slices.Contains(leave, rank) || all && r.stays(rank) {
			n--
		}
	}
	return n
}

// move counts what some pods have as outside, or no longer if the number is negative.
func (s *sums) move(u *user, needs []need, pods int) {
	s.beside = slices.Clone(s.beside)
	addTo(s.names.of(u.queue, s.beside), needs, pods)
	addTo(s.names.of(u.queue, s.used), needs, -pods)
}

// addTo adds what some pods need, as Resources.Add.
func addTo(amounts []int64, needs []need, pods int) {
	for _, n := range needs {
		amounts[n.name] = bounded(amounts[n.name] + times(n.amount, pods))
	}
}

// add counts more gangs and pods of a user, or fewer if the numbers are negative.
func (s *clusterState) add(u *user, needs []need, gangs, pods int) {
	addTo(s.names.of(u.queue, s.used), needs, pods)
	if s.pool != nil {
		addTo(s.names.of(u.queue, s.pool.used), needs, pods)
	}
	s.users[u.index].gangs += gangs
	s.users[u.index].pods += pods
}

// place gives a gang nodes at exactly one size; nil if it does not fit.
func (s *clusterState) place(e *entry, size int) []string {
	nodes := s.room.Place(e.ID, []int{size})
	if len(nodes) > 0 {
		s.add(e.user, e.needs, 1, len(nodes))
	}
	return nodes
}

// unplace takes the nodes of a gang back.
func (s *clusterState) unplace(e *entry, size int) {
	s.room.Release(e.ID)
	s.add(e.user, e.needs, -1, -size)
}

// end removes a running gang, of which left pods are still counted.
func (s *clusterState) end(r *run, left int) {
	s.room.Release(r.ID)
	s.leave(r.ID, r.user, r.needs, r.stays)
	s.add(r.user, r.needs, -1, -left)
}

func (s *clusterState) shrink(r *run, ranks []int) {
	s.room.Shrink(r.ID, ranks)
	s.leave(r.ID, r.user, r.needs, func(rank int) bool { return slices.Contains(ranks, rank) })
	s.add(r.user, r.needs, 0, -len(ranks))
}

// lose frees the n ranks of a running gang that are best to leave for a taker.
func (s *clusterState) lose(r *run, n int, taker string) {
	if n > 0 {
		s.shrink(r, s.room.Victims(r.ID, n, taker))
	}
}

// fits is the number of pods of a gang that may run here, at most limit. Nodes do not count for a
// gang that its queue has no capacity for.
func (s *clusterState) fits(e *entry, limit int) int {
	limit = s.allowed(&e.Gang, e.user, 1, limit)
	if limit == 0 || e.overCapacity {
		return limit
	}
	return min(limit, e.fitsIn(s.room, limit))
}

// allowed is the number of pods of a gang that the limits of its user, the queue's capacity and the guarantees of
// others leave, at most limit. gangs is 1 for pods of a new gang, and 0 if the gang grows.
func (s *clusterState) allowed(g *Gang, u *user, gangs, limit int) int {
	return s.withinGuarantees(g, u.queue, s.withinCapacity(u.queue, g.Requests, s.withinUser(u, gangs, limit)))
}

func (s *clusterState) withinUser(u *user, gangs, limit int) int {
	has, may := s.users[u.index], &u.queue.Users
	if may.MaxRunning > 0 && gangs > 0 && has.gangs+gangs > may.MaxRunning {
		return 0
	}
	if may.MaxNodes > 0 {
		limit = min(limit, max(may.MaxNodes-has.pods, 0))
	}
	return limit
}

func (s *clusterState) withinCapacity(q *jobQueue, requests Resources, limit int) int {
	for name, most := range q.Capacity {
		if amount := requests[name]; amount > 0 {
			limit = min(limit, int(max(most-s.has(q, name)-s.hasOutside(q, name), 0)/amount))
		}
	}
	return limit
}

// share is the part of the cluster that an amount takes of its dominant resource (dominant
// resource fairness, Ghodsi et al. 2011).
func (s *sums) share(amount Resources) float64 {
	return largestShare(s.total, func(name string) int64 { return amount[name] })
}

// shareOf is the share of a queue.
func (s *sums) shareOf(q *jobQueue) float64 {
	return largestShare(s.total, func(name string) int64 { return s.has(q, name) })
}

func largestShare(total Resources, amount func(name string) int64) float64 {
	share := 0.0
	for name, total := range total {
		if total > 0 {
			share = max(share, float64(amount(name))/float64(total))
		}
	}
	return share
}
