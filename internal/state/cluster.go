// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// Cluster is what a scheduler knows of the cluster, kept up to date event by event:
// what the nodes have, without what is held by pods that have not ended and by
// promises. Events may come in any order. It is not safe for use by several goroutines.
//
// A promise is a job of the graph, by its UID, and a pod that came of it is a part of
// it, also when its rank gave its node back. The pods of a MiniCluster that was promised nothing any more are a job, too, so
// that one can ask what there is without them. A pod that ended holds nothing; one that
// is being deleted holds until it is gone.
type Cluster struct {
	levels []TopologyLevel
	nodes  map[string]*node
	// pods are those that hold something.
	pods     map[types.UID]*pod
	holdings map[types.UID]*holding
	// daemons are what the pods that belong to a node take there.
	daemons map[string]map[types.UID]fluxion.Resources
	// graph is nil when it has to be made anew.
	graph *fluxion.Graph
	freed uint64
	// total is nil when it has to be reckoned anew.
	total elastic.Resources
	// exclusions are by the places that pods can be at. They are true of this graph and
	// these nodes.
	exclusions map[string][]fluxion.Exclusion
}

// node is a node, and what was made of it.
type node struct {
	*corev1.Node
	capacity fluxion.Resources
	topology []string
	down     string
}

// pod is what a pod holds.
type pod struct {
	uid types.UID
	// owner is the MiniCluster of which it is a broker; "" if it is none.
	owner types.UID
	// rank is below zero if it has none.
	rank     int
	node     string
	requests fluxion.Resources
	daemon   bool
}

// NewCluster is one of which nothing is known yet but the levels of its topology.
func NewCluster(levels []TopologyLevel) *Cluster {
	return &Cluster{
		levels: slices.Clone(levels), nodes: map[string]*node{}, pods: map[types.UID]*pod{},
		holdings: map[types.UID]*holding{}, daemons: map[string]map[types.UID]fluxion.Resources{},
	}
}

// SetNode says how a node is.
func (c *Cluster) SetNode(made *corev1.Node) {
	n := &node{Node: made, capacity: resources(made.Status.Allocatable), down: down(made)}
	for _, level := range c.levels {
		n.topology = append(n.topology, made.Labels[level.Label])
	}
	before := c.nodes[made.Name]
	c.nodes[made.Name] = n
	changed := true
	switch {
	case before == nil || !maps.Equal(before.capacity, n.capacity) || !slices.Equal(before.topology, n.topology):
		c.remake()
	case !maps.Equal(before.Labels, n.Labels) || !slices.EqualFunc(lastingTaints(before), lastingTaints(n), sameTaint):
		c.exclusions = nil
	default:
		changed = false
	}
	if before != nil && before.down != n.down {
		c.total, changed = nil, true
		if c.graph != nil {
			c.graph.SetDown(n.Name, n.down)
		}
	}
	if changed && n.down == "" {
		c.freed++
	}
}

func lastingTaints(n *node) []corev1.Taint {
	var out []corev1.Taint
	for _, taint := range n.Spec.Taints {
		if lasting(&taint) {
			out = append(out, taint)
		}
	}
	return out
}

func sameTaint(a, b corev1.Taint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
}

// DeleteNode says that a node is gone.
func (c *Cluster) DeleteNode(name string) {
	if c.nodes[name] != nil {
		delete(c.nodes, name)
		c.remake()
	}
}

// remake has the graph made anew when it is asked for.
func (c *Cluster) remake() { c.graph, c.total, c.exclusions = nil, nil, nil }

// SetPod says how a pod is.
func (c *Cluster) SetPod(made *corev1.Pod) {
	if Ended(made) || jobset.PinnedNode(made) == "" {
		c.DeletePod(made.UID)
		return
	}
	p := podOf(made)
	before := c.pods[p.uid]
	if before != nil && before.same(p) {
		return
	}
	if before != nil && (before.daemon || p.daemon || before.owner != p.owner) {
		c.DeletePod(p.uid)
		before = nil
	}
	c.pods[p.uid] = p
	switch {
	case p.daemon:
		c.setDaemon(p.node, p.uid, p.requests)
	case p.owner != "":
		c.setBroker(p)
	default:
		c.swap(before.held(), p.held())
	}
}

// DeletePod says that a pod is gone.
func (c *Cluster) DeletePod(uid types.UID) {
	p := c.pods[uid]
	delete(c.pods, uid)
	switch {
	case p == nil:
	case p.daemon:
		c.setDaemon(p.node, uid, nil)
	case p.owner != "":
		c.deleteBroker(p)
	default:
		c.swap(p.held(), nil)
	}
}

func podOf(made *corev1.Pod) *pod {
	p := &pod{uid: made.UID, node: jobset.PinnedNode(made), requests: Requests(made), daemon: isDaemon(made), rank: -1}
	if !p.daemon {
		p.owner = types.UID(made.Labels[v1alpha2.UIDLabel])
	}
	if rank, ok := jobset.Rank(made); ok && rank >= 0 && rank < maxRanks {
		p.rank = rank
	}
	return p
}

// maxRanks is more than a MiniCluster can have: labels are anybody's to write.
const maxRanks = 1 << 17

func (p *pod) same(other *pod) bool {
	return p.owner == other.owner && p.rank == other.rank && p.node == other.node && p.daemon == other.daemon &&
		maps.Equal(p.requests, other.requests)
}

// held is what a pod of others holds; nothing if there is no pod.
func (p *pod) held() []occupied {
	if p == nil {
		return nil
	}
	return []occupied{{p.node, p.requests}}
}

// setDaemon says what a pod that belongs to a node takes there; nil: nothing.
func (c *Cluster) setDaemon(name string, uid types.UID, requests fluxion.Resources) {
	switch of := c.daemons[name]; {
	case requests == nil && len(of) <= 1:
		delete(c.daemons, name)
	case requests == nil:
		delete(of, uid)
	case of == nil:
		c.daemons[name] = map[types.UID]fluxion.Resources{uid: requests}
	default:
		of[uid] = requests
	}
	if n := c.nodes[name]; n != nil {
		c.remake()
		if requests == nil && n.down == "" {
			c.freed++
		}
	}
}

// Freed counts the changes by which something may fit that did not: room was freed, or
// there is a node that was not there, was down or was different.
func (c *Cluster) Freed() uint64 { return c.freed }

// Graph is the resource graph of the cluster as it is now. It changes with the
// Cluster: who wants to keep it makes a Snapshot. It is made anew only when nodes came,
// went, or have something else than before.
func (c *Cluster) Graph() (*fluxion.Graph, error) {
	if c.graph != nil {
		return c.graph, nil
	}
	names := make([]string, len(c.levels))
	for i, level := range c.levels {
		names[i] = level.Name
	}
	specs := make([]fluxion.Node, 0, len(c.nodes))
	for name, n := range c.nodes {
		specs = append(specs, fluxion.Node{Name: name, Capacity: c.capacity(n), Down: n.down, Topology: n.topology})
	}
	graph, err := fluxion.NewGraph(specs, names...)
	if err != nil {
		return nil, err
	}
	c.graph, c.exclusions = graph, nil
	for _, p := range c.pods {
		if p.owner == "" && !p.daemon {
			graph.Occupy(p.node, p.requests)
		}
	}
	for _, h := range c.holdings {
		if err := h.put(graph); err != nil {
			c.graph = nil
			return nil, err
		}
	}
	return graph, nil
}

// capacity is what a node has for others than its daemons.
func (c *Cluster) capacity(n *node) fluxion.Resources {
	capacity := maps.Clone(n.capacity)
	for _, requests := range c.daemons[n.Name] {
		for name, amount := range requests {
			capacity[name] -= amount
		}
	}
	return capacity
}

// Total is what the nodes that are up have together, for others than their daemons.
func (c *Cluster) Total() elastic.Resources {
	if c.total == nil {
		c.total = elastic.Resources{}
		for _, n := range c.nodes {
			if n.down != "" {
				continue
			}
			for name, amount := range c.capacity(n) {
				c.total[name] += max(amount, 0)
			}
		}
	}
	return maps.Clone(c.total)
}
