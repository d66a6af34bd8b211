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
	room  Room
	total Resources
	// guarantors are the queues with guarantees, and guaranteed the resources of these.
	guarantors []*jobQueue
	guaranteed []string
	// used is what each queue has of the total, beside what each queue has outside, and sum what all have of the total.
	used, beside []int64 // by queue and resource
	sum          []int64 // by resource, as names has them
	names        resourceNames
	users        []tally
	// outside are the ranks outside by gang, and owns is true if no snapshot has the same map.
	outside map[string][]int
	owns    bool
	// came are the nodes that do not exist and count as there, by queue and shape; nil if there are none.
	came map[*jobQueue][]int
}

// resourceNames are the resources that gangs request, and where amounts by resource have each.
type resourceNames map[string]int

// of are the amounts of a queue, of amounts by queue and resource.
func (n resourceNames) of(q *jobQueue, amounts []int64) []int64 {
	return amounts[q.index*len(n):][:len(n)]
}

// amount is that of a resource; 0 if no gang requests the resource.
func (n resourceNames) amount(amounts []int64, name string) int64 {
	if i, known := n[name]; known {
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
	s := &clusterState{
		room: room, total: total, names: names, outside: map[string][]int{}, owns: true,
		used: make([]int64, n), beside: make([]int64, n), sum: make([]int64, len(names)),
	}
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

// namesOf are the resources that gangs request.
func namesOf(s *Snapshot) resourceNames {
	names := resourceNames{pods: 0}
	add := func(g *Gang) {
		for name := range g.Requests {
			if _, known := names[name]; !known {
				names[name] = len(names)
			}
		}
	}
	for i := range s.Waiting {
		add(&s.Waiting[i])
	}
	for i := range s.Running {
		add(&s.Running[i].Gang)
	}
	return names
}

// needs are some requests.
func (s *clusterState) needs(requests Resources) []need {
	needs := make([]need, 0, len(requests))
	for name, amount := range requests {
		needs = append(needs, need{s.names[name], amount})
	}
	return needs
}

// has is how much a queue has of a resource of the total, and free how much of the total nobody has.
func (s *clusterState) has(q *jobQueue, name string) int64 {
	return s.names.amount(s.names.of(q, s.used), name)
}

func (s *clusterState) free(name string) int64 {
	return s.total[name] - s.names.amount(s.sum, name)
}

// hasOutside is how much a queue has of a resource outside.
func (s *clusterState) hasOutside(q *jobQueue, name string) int64 {
	return s.names.amount(s.names.of(q, s.beside), name)
}

// uses is what a queue has of the total.
func (s *clusterState) uses(q *jobQueue) Resources { return s.names.resources(s.names.of(q, s.used)) }

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
	s.owns = false
	c := *s
	c.room = s.room.Snapshot()
	c.sum, c.users, c.used = slices.Clone(s.sum), slices.Clone(s.users), slices.Clone(s.used)
	return &c
}

// run counts a gang that has nodes.
func (s *clusterState) run(r *run) {
	s.add(r.user, r.needs, 1, len(r.Ranks))
	if len(r.Outside) > 0 {
		s.outside[r.ID] = r.Outside
		s.move(r.user, r.needs, len(r.Outside))
	}
}

// leave counts ranks of a gang that leave no longer as outside.
func (s *clusterState) leave(id string, u *user, needs []need, leaves func(rank int) bool) {
	had := s.outside[id]
	if !slices.ContainsFunc(had, leaves) {
		return
	}
	if !s.owns {
		s.outside, s.owns = maps.Clone(s.outside), true
	}
	stay := slices.DeleteFunc(slices.Clone(had), leaves)
	if s.outside[id] = stay; len(stay) == 0 {
		delete(s.outside, id)
	}
	s.move(u, needs, len(stay)-len(had))
}

// all is what a queue has, also outside.
func (s *clusterState) all(q *jobQueue) Resources {
	all := s.uses(q)
	all.Add(s.names.resources(s.names.of(q, s.beside)), 1)
	return all
}

// inside is how many of n ranks of a gang that leave are not outside: the best to leave, or with the lead, all.
func (s *clusterState) inside(r *run, n int) int {
	outside := s.outside[r.ID]
	if len(outside) == 0 {
		return n
	}
	leave := s.room.Victims(r.ID, n)
	all := len(leave) < n
	for _, rank := range outside {
		if slices.Contains(leave, rank) || all && r.stays(rank) {
			n--
		}
	}
	return n
}

// move counts what some pods have as outside, or no longer if the number is negative.
func (s *clusterState) move(u *user, needs []need, pods int) {
	s.beside = slices.Clone(s.beside)
	addTo(s.names.of(u.queue, s.beside), needs, pods)
	addTo(s.names.of(u.queue, s.used), needs, -pods)
	addTo(s.sum, needs, -pods)
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
	addTo(s.sum, needs, pods)
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

// lose frees the n ranks of a running gang that are best to leave.
func (s *clusterState) lose(r *run, n int) {
	if n > 0 {
		s.shrink(r, s.room.Victims(r.ID, n))
	}
}

// fits is the number of pods of a gang that may run here, at most limit. Nodes do not count for a
// gang that its queue has no capacity for.
func (s *clusterState) fits(e *entry, limit int) int {
	limit = s.allowed(e.user, e.Requests, 1, limit)
	if limit == 0 || e.overCapacity {
		return limit
	}
	return min(limit, e.fitsIn(s.room, limit))
}

// allowed is the number of pods that the limits of a user, the queue's capacity and the guarantees of
// others leave, at most limit. gangs is 1 for pods of a new gang, and 0 if a gang grows.
func (s *clusterState) allowed(u *user, requests Resources, gangs, limit int) int {
	return s.withinGuarantees(u.queue, requests, s.withinCapacity(u.queue, requests, s.withinUser(u, gangs, limit)))
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

func (s *clusterState) withinGuarantees(q *jobQueue, requests Resources, limit int) int {
	for _, name := range s.guaranteedToOthers(q) {
		if amount := requests[name]; amount > 0 {
			free := s.free(name)
			// A queue may always take its own guarantee, even if all guarantees exceed the
			// cluster.
			own := min(free, q.Guarantee[name]-s.has(q, name))
			free = max(free-s.keptForOthers(q, name), own)
			limit = min(limit, int(max(free, 0)/amount))
		}
	}
	return limit
}

// guaranteedToOthers are the resources of which a queue has to leave some to others.
func (s *clusterState) guaranteedToOthers(q *jobQueue) []string {
	return slices.DeleteFunc(slices.Clone(s.guaranteed), func(name string) bool { return s.keptForOthers(q, name) == 0 })
}

// sparesGuarantees reports whether a gang at its smallest size leaves other queues what they are guaranteed, if the
// cluster holds all guarantees.
func (s *clusterState) sparesGuarantees(e *entry) bool {
	for _, name := range s.guaranteedToOthers(e.queue) {
		promised, need := int64(0), times(e.Requests[name], e.least())
		for _, q := range s.guarantors {
			promised = bounded(promised + q.Guarantee[name])
		}
		if promised <= s.total[name] && need > s.free(name)-s.keptForOthers(e.queue, name) {
			return false
		}
	}
	return true
}

// keptForOthers is how much of a resource is guaranteed to other queues and not in use.
func (s *clusterState) keptForOthers(q *jobQueue, name string) int64 {
	var kept int64
	for _, other := range s.guarantors {
		if other != q {
			kept = bounded(kept + max(other.Guarantee[name]-s.has(other, name), 0))
		}
	}
	return kept
}

// share is the part of the cluster that an amount takes of its dominant resource (dominant
// resource fairness, Ghodsi et al. 2011).
func (s *clusterState) share(amount Resources) float64 {
	return largestShare(s.total, func(name string) int64 { return amount[name] })
}

// shareOf is the share of a queue.
func (s *clusterState) shareOf(q *jobQueue) float64 {
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
