// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// Ledger is who holds what in a cluster. Events may come in any order. It is not safe for
// use by several goroutines.
//
// The account of a MiniCluster is a job of the graph, by its UID; a pod that came of it is a
// part of it, also when its rank gave its node back. The pods of a MiniCluster that was
// promised nothing any more are a job, too, so that one can ask what there is without them.
// A pod that ended holds nothing; one that is being deleted holds until it is gone.
type Ledger struct {
	levels  []state.TopologyLevel
	matcher Matcher
	nodes   map[string]*node
	// pods are those that hold something.
	pods     map[types.UID]*pod
	accounts map[types.UID]*account
	// daemons are what the pods that belong to a node take there.
	daemons map[string]map[types.UID]fluxion.Resources
	// graph is nil when it has to be made anew.
	graph *fluxion.Graph
	freed uint64
	// total is nil when it has to be reckoned anew.
	total queue.Resources
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

// New is a ledger of a cluster of which nothing is known yet but the levels of its topology.
// The matcher has the last word on the nodes that a gang gets; nil: nobody has.
func New(levels []state.TopologyLevel, matcher Matcher) *Ledger {
	return &Ledger{
		levels: slices.Clone(levels), matcher: matcher, nodes: map[string]*node{}, pods: map[types.UID]*pod{},
		accounts: map[types.UID]*account{}, daemons: map[string]map[types.UID]fluxion.Resources{},
	}
}

// SetNode says how a node is.
func (l *Ledger) SetNode(made *corev1.Node) {
	n := &node{Node: made, capacity: state.Amounts(made.Status.Allocatable), down: down(made)}
	for _, level := range l.levels {
		n.topology = append(n.topology, made.Labels[level.Label])
	}
	before := l.nodes[made.Name]
	l.nodes[made.Name] = n
	changed := true
	switch {
	case before == nil || !maps.Equal(before.capacity, n.capacity) || !slices.Equal(before.topology, n.topology):
		l.remake()
	case !maps.Equal(before.Labels, n.Labels) || !slices.EqualFunc(lastingTaints(before), lastingTaints(n), sameTaint):
		l.exclusions = nil
	default:
		changed = false
	}
	if before != nil && before.down != n.down {
		l.total, changed = nil, true
		if l.graph != nil {
			l.graph.SetDown(n.Name, n.down)
		}
	}
	if changed && n.down == "" {
		l.freed++
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
func (l *Ledger) DeleteNode(name string) {
	if l.nodes[name] != nil {
		delete(l.nodes, name)
		l.remake()
	}
}

// remake has the graph made anew when it is asked for.
func (l *Ledger) remake() { l.graph, l.total, l.exclusions = nil, nil, nil }

// SetPod says how a pod is.
func (l *Ledger) SetPod(made *corev1.Pod) {
	if protocol.Ended(made) || protocol.PinnedNode(made) == "" {
		l.DeletePod(made.UID)
		return
	}
	p := podOf(made)
	before := l.pods[p.uid]
	if before != nil && before.same(p) {
		return
	}
	if before != nil && (before.daemon || p.daemon || before.owner != p.owner) {
		l.DeletePod(p.uid)
		before = nil
	}
	l.pods[p.uid] = p
	switch {
	case p.daemon:
		l.setDaemon(p.node, p.uid, p.requests)
	case p.owner != "":
		l.setBroker(p)
	default:
		l.swap(before.held(), p.held())
	}
}

// DeletePod says that a pod is gone.
func (l *Ledger) DeletePod(uid types.UID) {
	p := l.pods[uid]
	delete(l.pods, uid)
	switch {
	case p == nil:
	case p.daemon:
		l.setDaemon(p.node, uid, nil)
	case p.owner != "":
		l.deleteBroker(p)
	default:
		l.swap(p.held(), nil)
	}
}

func podOf(made *corev1.Pod) *pod {
	p := &pod{uid: made.UID, node: protocol.PinnedNode(made), requests: state.Requests(made), daemon: isDaemon(made), rank: -1}
	if !p.daemon {
		p.owner = types.UID(made.Labels[v1alpha2.UIDLabel])
	}
	if rank, ok := protocol.Rank(made); ok && rank >= 0 && rank < maxRanks {
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
func (l *Ledger) setDaemon(name string, uid types.UID, requests fluxion.Resources) {
	switch of := l.daemons[name]; {
	case requests == nil && len(of) <= 1:
		delete(l.daemons, name)
	case requests == nil:
		delete(of, uid)
	case of == nil:
		l.daemons[name] = map[types.UID]fluxion.Resources{uid: requests}
	default:
		of[uid] = requests
	}
	if n := l.nodes[name]; n != nil {
		l.remake()
		if requests == nil && n.down == "" {
			l.freed++
		}
	}
}

// Freed counts the changes by which something may fit that did not: room was freed, or
// there is a node that was not there, was down or was different.
func (l *Ledger) Freed() uint64 { return l.freed }

// theGraph is the resource graph of the cluster as it is now. It changes with the ledger:
// who wants to keep it makes a snapshot. It is made anew only when nodes came, went, or
// have something else than before.
func (l *Ledger) theGraph() (*fluxion.Graph, error) {
	if l.graph != nil {
		return l.graph, nil
	}
	names := make([]string, len(l.levels))
	for i, level := range l.levels {
		names[i] = level.Name
	}
	specs := make([]fluxion.Node, 0, len(l.nodes))
	for name, n := range l.nodes {
		specs = append(specs, fluxion.Node{Name: name, Capacity: l.capacity(n), Down: n.down, Topology: n.topology})
	}
	graph, err := fluxion.NewGraph(specs, names...)
	if err != nil {
		return nil, err
	}
	l.graph, l.exclusions = graph, nil
	for _, p := range l.pods {
		if p.owner == "" && !p.daemon {
			graph.Occupy(p.node, p.requests)
		}
	}
	for _, a := range l.accounts {
		if err := a.put(graph); err != nil {
			l.graph = nil
			return nil, err
		}
	}
	return graph, nil
}

// capacity is what a node has for others than its daemons.
func (l *Ledger) capacity(n *node) fluxion.Resources {
	capacity := maps.Clone(n.capacity)
	for _, requests := range l.daemons[n.Name] {
		for name, amount := range requests {
			capacity[name] -= amount
		}
	}
	return capacity
}

// Total is what the nodes that are up have together, for others than their daemons.
func (l *Ledger) Total() queue.Resources {
	if l.total == nil {
		l.total = queue.Resources{}
		for _, n := range l.nodes {
			if n.down != "" {
				continue
			}
			for name, amount := range l.capacity(n) {
				l.total[name] += max(amount, 0)
			}
		}
	}
	return maps.Clone(l.total)
}
