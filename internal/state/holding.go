// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// holding is what one MiniCluster has: what it was promised, and its pods.
type holding struct {
	promise *Promise
	pods    map[types.UID]*pod
	plan
}

// plan is what a holding is in the graph.
type plan struct {
	job fluxion.Gang
	// nodes are those of the job, by rank; none if there is no job.
	nodes []string
	// extras are what pods hold that is none of the job.
	extras []occupied
	// stand are the pods, by rank, that hold nothing but what the job does.
	stand map[int]types.UID
}

// occupied is what is held of a node.
type occupied struct {
	node     string
	requests fluxion.Resources
}

// SetPromise says what a MiniCluster was promised; nil: nothing (any more). The pods
// that it has go on holding.
func (c *Cluster) SetPromise(uid types.UID, promise *Promise) {
	h := c.holdings[uid]
	switch {
	case h == nil && promise == nil:
		return
	case h == nil:
		h = c.newHolding(uid)
	case h.promise.Same(promise):
		return
	}
	h.promise = nil
	if promise != nil {
		kept := *promise
		kept.Nodes, kept.Requests = slices.Clone(promise.Nodes), maps.Clone(promise.Requests)
		h.promise = &kept
	}
	c.sync(uid, h)
}

// Same reports whether both promise the same for the same time; nil: nothing.
func (p *Promise) Same(other *Promise) bool {
	if p == nil || other == nil {
		return p == other
	}
	return p.End.Equal(other.End) && slices.Equal(p.Nodes, other.Nodes) && maps.Equal(p.Requests, other.Requests)
}

func (c *Cluster) newHolding(uid types.UID) *holding {
	h := &holding{pods: map[types.UID]*pod{}}
	c.holdings[uid] = h
	return h
}

// setBroker says how a pod of a MiniCluster is.
func (c *Cluster) setBroker(p *pod) {
	h := c.holdings[p.owner]
	if h == nil {
		h = c.newHolding(p.owner)
	}
	_, known := h.pods[p.uid]
	h.pods[p.uid] = p
	if !known && h.promised(p) {
		p.requests = h.promise.Requests // there are many pods
		if _, twice := h.stand[p.rank]; !twice {
			h.stand[p.rank] = p.uid // and nothing changes
			return
		}
	}
	c.sync(p.owner, h)
}

// promised reports whether a pod takes nothing but what was promised to its rank.
func (h *holding) promised(p *pod) bool {
	return h.promise != nil && p.rank >= 0 && p.rank < len(h.promise.Nodes) && p.node == h.promise.Nodes[p.rank] &&
		maps.Equal(p.requests, h.promise.Requests)
}

// deleteBroker says that a pod of a MiniCluster is gone.
func (c *Cluster) deleteBroker(p *pod) {
	h := c.holdings[p.owner]
	delete(h.pods, p.uid)
	if h.promised(p) && len(h.extras) == 0 {
		delete(h.stand, p.rank) // and nothing changes
		return
	}
	c.sync(p.owner, h)
}

// sync puts what a MiniCluster holds in the place of what it held.
func (c *Cluster) sync(uid types.UID, h *holding) {
	before := h.plan
	h.plan = h.plans(uid)
	if h.sameJob(&before) {
		c.swap(before.extras, h.extras)
	} else {
		c.replan(&before, &h.plan)
	}
	if h.promise == nil && len(h.pods) == 0 {
		delete(c.holdings, uid)
	}
}

func (p *plan) sameJob(other *plan) bool {
	return p.job.End.Equal(other.job.End) && slices.Equal(p.nodes, other.nodes) &&
		maps.Equal(p.job.Pods.Requests, other.job.Pods.Requests)
}

// replan puts one plan in the place of another.
func (c *Cluster) replan(before, now *plan) {
	if c.graph != nil {
		before.remove(c.graph)
		if now.put(c.graph) != nil {
			c.remake()
		}
	}
	if c.frees(before.all(), now.all()) {
		c.freed++
	}
}

// swap puts what is held by no job in the place of what was.
func (c *Cluster) swap(before, now []occupied) {
	if c.graph != nil {
		for _, o := range before {
			c.graph.Vacate(o.node, o.requests)
		}
		for _, o := range now {
			c.graph.Occupy(o.node, o.requests)
		}
	}
	if c.frees(before, now) {
		c.freed++
	}
}

// frees reports whether there is more left of a node that is up now than before.
func (c *Cluster) frees(before, now []occupied) bool {
	more := map[string]fluxion.Resources{}
	add := func(list []occupied, sign int64) {
		for _, o := range list {
			if n := c.nodes[o.node]; n == nil || n.down != "" {
				continue
			}
			if more[o.node] == nil {
				more[o.node] = fluxion.Resources{}
			}
			for name, amount := range o.requests {
				more[o.node][name] += sign * amount
			}
		}
	}
	add(before, 1)
	add(now, -1)
	for _, amounts := range more {
		for _, amount := range amounts {
			if amount > 0 {
				return true
			}
		}
	}
	return false
}

// put puts what is planned in a graph.
func (p *plan) put(graph *fluxion.Graph) error {
	for _, o := range p.extras {
		graph.Occupy(o.node, o.requests)
	}
	if len(p.nodes) == 0 {
		return nil
	}
	return graph.Adopt(p.job, fluxion.Placement{Nodes: p.nodes})
}

// remove takes it out again.
func (p *plan) remove(graph *fluxion.Graph) {
	for _, o := range p.extras {
		graph.Vacate(o.node, o.requests)
	}
	// One whose nodes are all gone holds nothing, and is not there.
	if len(p.nodes) > 0 && len(graph.Pods(p.job.Job)) > 0 {
		_ = graph.Release(p.job.Job)
	}
}

// all is all that is held.
func (p *plan) all() []occupied {
	all := slices.Clone(p.extras)
	for _, node := range p.nodes {
		if node != "" {
			all = append(all, occupied{node, p.job.Pods.Requests})
		}
	}
	return all
}

// plans says what a holding is in a graph: the job of its promise, or of its pods where
// it has none any more, and what its pods hold beside that. It goes by the order of the
// pods' UIDs, so that it does not matter in which order they came.
func (h *holding) plans(uid types.UID) plan {
	pods := slices.SortedFunc(maps.Values(h.pods), func(a, b *pod) int {
		return cmp.Or(cmp.Compare(uint(a.rank), uint(b.rank)), strings.Compare(string(a.uid), string(b.uid)))
	})
	var promise *Promise
	if h.promise == nil {
		promise = promiseOf(pods)
	} else {
		promise = h.promise.until(pods)
	}
	p := plan{stand: map[int]types.UID{}}
	p.job = fluxion.Gang{Job: string(uid), Pods: fluxion.Shape{Requests: promise.Requests}, Sizes: []int{len(promise.Nodes)}, End: promise.End}
	p.nodes = promise.Nodes
	// Of the pods of a rank on its node one stands for what was promised, one that takes
	// just that if there is one.
	exact := map[int]types.UID{}
	for _, pod := range pods {
		if _, twice := exact[pod.rank]; !twice && maps.Equal(pod.requests, promise.Requests) && promise.isAt(pod) {
			exact[pod.rank] = pod.uid
		}
	}
	for _, pod := range pods {
		_, twice := p.stand[pod.rank]
		chosen, isThere := exact[pod.rank]
		if twice || !promise.isAt(pod) || (isThere && chosen != pod.uid) {
			p.extras = append(p.extras, occupied{pod.node, pod.requests})
			continue
		}
		p.stand[pod.rank] = pod.uid
		if more := above(pod.requests, promise.Requests); len(more) > 0 {
			p.extras = append(p.extras, occupied{pod.node, more})
		}
	}
	return p
}

// until is the promise with what is left of ranks that gave their node back: pods that
// are not gone yet, if they take the same.
func (p *Promise) until(pods []*pod) *Promise {
	var left []elastic.Pod
	for _, pod := range pods {
		gave := pod.rank >= 0 && pod.rank < len(p.Nodes) && p.Nodes[pod.rank] == ""
		if gave && maps.Equal(pod.requests, p.Requests) && !slices.ContainsFunc(left, func(l elastic.Pod) bool { return l.Rank == pod.rank }) {
			left = append(left, elastic.Pod{Rank: pod.rank, Node: pod.node})
		}
	}
	if left == nil {
		return p
	}
	return p.With(left)
}

// isAt reports whether a pod is on the node that was promised to its rank.
func (p *Promise) isAt(pod *pod) bool {
	return pod.rank >= 0 && pod.rank < len(p.Nodes) && p.Nodes[pod.rank] == pod.node
}

// above is by how much one takes more than was promised.
func above(takes, promised fluxion.Resources) fluxion.Resources {
	var more fluxion.Resources
	for name, amount := range takes {
		if amount > promised[name] {
			if more == nil {
				more = fluxion.Resources{}
			}
			more[name] = amount - promised[name]
		}
	}
	return more
}

// promiseOf is what would have to be promised for the pods to be just that: one of each
// rank, of those that take what the first one does.
func promiseOf(pods []*pod) *Promise {
	p := &Promise{}
	for _, pod := range pods {
		if pod.rank < 0 || (p.Requests != nil && !maps.Equal(pod.requests, p.Requests)) {
			continue
		}
		p.Requests = pod.requests
		for len(p.Nodes) <= pod.rank {
			p.Nodes = append(p.Nodes, "")
		}
		if p.Nodes[pod.rank] == "" {
			p.Nodes[pod.rank] = pod.node
		}
	}
	return p
}

// Holds are the ranks of a MiniCluster that hold a node that there is, rising: it was
// promised to them, or they have a pod on it.
func (c *Cluster) Holds(uid types.UID) []int {
	h := c.holdings[uid]
	if h == nil {
		return nil
	}
	var out []int
	add := func(rank int, node string) {
		if rank >= 0 && c.nodes[node] != nil {
			out = append(out, rank)
		}
	}
	if h.promise != nil {
		for rank, node := range h.promise.Nodes {
			add(rank, node)
		}
	}
	for _, pod := range h.pods {
		add(pod.rank, pod.node)
	}
	slices.Sort(out)
	return slices.Compact(out)
}
