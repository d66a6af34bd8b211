// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import (
	"maps"
	"slices"
)

// pods is the resource that every pod takes one of.
const pods = "pods"

// view is a room, with what each queue uses in it.
type view struct {
	room  Room
	lines []*line
	total Resources
	used  []Resources // by line
	sum   Resources
}

// withPod are the requests with the pod itself.
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

func (v *view) snapshot() *view {
	c := *v
	c.room = v.room.Snapshot()
	c.sum = maps.Clone(v.sum)
	c.used = make([]Resources, len(v.used))
	for i := range v.used {
		c.used[i] = maps.Clone(v.used[i])
	}
	return &c
}

// add counts n pods more, or fewer.
func (v *view) add(l *line, requests Resources, n int) {
	for name, amount := range requests {
		v.used[l.index][name] += amount * int64(n)
		v.sum[name] += amount * int64(n)
	}
}

// place gives a gang nodes at exactly a size; nil if it does not fit.
func (v *view) place(e *entry, size int) []string {
	nodes := v.room.Place(e.ID, []int{size})
	if len(nodes) > 0 {
		v.add(e.line, e.Requests, len(nodes))
	}
	return nodes
}

// unplace takes them back.
func (v *view) unplace(e *entry, size int) {
	v.room.Release(e.ID)
	v.add(e.line, e.Requests, -size)
}

// end takes out a gang that runs, of which so many pods are left.
func (v *view) end(r *run, left int) {
	v.room.Release(r.ID)
	v.add(r.line, r.Requests, -left)
}

func (v *view) shrink(r *run, ranks []int) {
	v.room.Shrink(r.ID, ranks)
	v.add(r.line, r.Requests, -len(ranks))
}

// most is how many pods of a gang may run here, limit at most. The nodes do not
// count for a gang that its queue has no capacity for.
func (v *view) most(e *entry, limit int) int {
	limit = v.quota(e.line, e.Requests, limit)
	if limit == 0 || e.overCapacity {
		return limit
	}
	return min(limit, v.room.Fits(e.ID, limit))
}

// quota is how many pods the capacity of the queue and the guarantees of others
// leave, limit at most.
func (v *view) quota(l *line, requests Resources, limit int) int {
	return v.guaranteed(l, requests, v.capacity(l, requests, limit))
}

func (v *view) capacity(l *line, requests Resources, limit int) int {
	for name, most := range l.Capacity {
		if amount := requests[name]; amount > 0 {
			limit = min(limit, int(max(most-v.used[l.index][name], 0)/amount))
		}
	}
	return limit
}

func (v *view) guaranteed(l *line, requests Resources, limit int) int {
	for _, name := range v.guarantees(l) {
		if amount := requests[name]; amount > 0 {
			free := v.total[name] - v.sum[name]
			// What it was promised itself it may take, though all promises may be more than there is.
			own := min(free, l.Guarantee[name]-v.used[l.index][name])
			free = max(free-v.kept(l, name), own)
			limit = min(limit, int(max(free, 0)/amount))
		}
	}
	return limit
}

// guarantees are the resources of which a queue has to leave some to others.
func (v *view) guarantees(l *line) []string {
	var names []string
	for _, other := range v.lines {
		if other == l {
			continue
		}
		for name := range other.Guarantee {
			if v.kept(l, name) > 0 {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// kept is how much of a resource others were promised and do not use.
func (v *view) kept(l *line, name string) int64 {
	var kept int64
	for _, other := range v.lines {
		if other != l {
			kept += max(other.Guarantee[name]-v.used[other.index][name], 0)
		}
	}
	return kept
}

// share is the part of the cluster that an amount is, by the resource of which it
// is the most.
func (v *view) share(amount Resources) float64 {
	share := 0.0
	for name, total := range v.total {
		if total > 0 {
			share = max(share, float64(amount[name])/float64(total))
		}
	}
	return share
}
