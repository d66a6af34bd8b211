// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"crypto/sha256"
	"maps"
	"slices"
	"unique"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// Ledger is who holds what in a cluster. Events may come in any order. A Ledger is not safe for
// concurrent use.
//
// The account of a MiniCluster is one job of the graph, by its UID. Its pods are part of the job,
// also after their rank gave its node back, or the MiniCluster lost its promise: so the queue can
// ask what is free without them. A pod that ended holds nothing. A pod that is being deleted
// holds its node until it is gone.
type Ledger struct {
	// LeaveCordoned is true if cordoned nodes count as about to go.
	LeaveCordoned bool

	layout
	claimants
	accounts
	releases
	matcher Matcher
	// pods are the pods that hold something.
	pods map[types.UID]*Pod
	// makers are the Jobs and JobSets, and early the ranks of pods whose Jobs were not seen yet, by Job.
	// listed is how many pods the makers of a namespace list. expects is whether the pods count that these Jobs are still to make.
	makers  map[types.UID]*maker
	early   map[types.NamespacedName]map[int]bool
	listed  listings
	expects bool
	// graph is nil if it has to be built again.
	graph *fluxion.Graph
	// total and foreign are computed again if they are nil. foreignOn is by node.
	total, foreign queue.Resources
	foreignOn      map[string]queue.Resources
	// earlier is the cluster with the nodes that are away; nil if it has to be made again, as after each change of a node
	// that CouldHold depends on.
	earlier *Ledger
	// shared are what pods request.
	shared shared
}

// layout is the nodes of a cluster, and which of them a gang could use.
type layout struct {
	// Nodes selects the nodes that brokers may use. It is set before there are nodes.
	Nodes labels.Selector
	// NamespaceLabels returns the labels of a namespace; nil if nobody knows them.
	NamespaceLabels func(namespace string) labels.Set

	reservations
	levels []state.TopologyLevel
	nodes  map[string]*node
	// daemons are what DaemonSet and static pods take of each node.
	daemons map[string]map[types.UID]*Pod
	// exclusions are the nodes that pods cannot use, by Places.Key, and domains those of gangs, by
	// Domains.Key. They are valid for the graph of the ledger.
	exclusions map[string][]fluxion.Exclusion
	domains    map[string]*domains
	// archs are the architectures of the nodes; nil if they have to be counted again.
	archs []string
	// away are the nodes that were deleted or tainted in the last hour, by name.
	away map[string]*away
	// most are the answers of MostPods, by a hash of the requests. They are forgotten whenever earlier is.
	most map[[sha256.Size]byte]int
	// could is what could come, by queue.
	could map[string][]Could
	// repels are the terms of the anti-affinity of pods of others.
	repels *repulsions
}

// accounts are by the UID of their MiniCluster.
type accounts map[types.UID]*account

// node is a node with what is derived from it.
type node struct {
	*corev1.Node
	capacity fluxion.Resources
	topology []string
	down     string
	others   bool // brokers may not use it
	// shape is that of a node that could come; nil for a node that exists.
	shape *state.Shape
}

// Pod is what is kept of a pod: what it holds, where and whose it is.
type Pod struct {
	uid types.UID
	// owner is the MiniCluster to which the pod belongs; "" if it belongs to none.
	owner types.UID
	// rank is negative if the pod is no broker.
	rank     int
	node     string
	requests fluxion.Resources
	daemon   bool
	// expected is true for a pod of a DaemonSet that is not bound yet.
	expected bool
	// foreign is true for a pod without the label of a MiniCluster.
	foreign bool
	// repels are the terms of its anti-affinity.
	repels []*state.Repulsion
}

// New returns the ledger of a cluster without nodes. The matcher has the last word on the nodes
// that a gang gets; nil keeps the choice of the queue.
func New(levels []state.TopologyLevel, matcher Matcher) *Ledger {
	return &Ledger{
		layout: layout{
			Nodes: labels.Everything(), NamespaceLabels: func(string) labels.Set { return nil }, levels: slices.Clone(levels), nodes: map[string]*node{},
			daemons: map[string]map[types.UID]*Pod{}, away: map[string]*away{}, repels: newRepulsions(),
		},
		claimants: claimants{
			miniClusters: map[types.UID]miniCluster{}, claims: map[types.UID]map[types.UID]*corev1.Pod{}, claimed: map[types.UID]types.UID{}, disowned: map[types.UID]types.UID{},
		},
		accounts: accounts{}, matcher: matcher, pods: map[types.UID]*Pod{}, foreignOn: map[string]queue.Resources{},
		makers: map[types.UID]*maker{}, early: map[types.NamespacedName]map[int]bool{}, listed: listings{},
	}
}

// SetNode records the state of a node.
func (l *Ledger) SetNode(made *corev1.Node) {
	n := &node{Node: made, capacity: state.Amounts(made.Status.Allocatable), down: state.Down(made), others: !l.Nodes.Matches(labels.Set(made.Labels))}
	for _, level := range l.levels {
		n.topology = append(n.topology, made.Labels[level.Label])
	}
	before := l.nodes[made.Name]
	l.nodes[made.Name] = n
	l.follow(made.Name, before, n)
	if before == nil || !slices.Equal(before.topology, n.topology) {
		l.rebuild()
		before = nil
	}
	if (before == nil || l.update(before, n)) && n.down == "" {
		l.free([]string{made.Name})
	}
}

// update changes the graph from one state of a node to another, and reports whether they differ for
// gangs.
func (l *Ledger) update(before, now *node) (changed bool) {
	if !maps.Equal(before.capacity, now.capacity) {
		l.resize(now, l.capacity(before))
		changed = true
	}
	if !now.takesSame(before) {
		l.exclusions, l.domains, l.archs, l.earlier, l.most, changed = nil, nil, nil, nil, nil, true
	}
	if before.down != now.down || before.others != now.others {
		l.total, l.foreign, changed = nil, nil, true
		if l.graph != nil {
			l.graph.SetDown(now.Name, now.down)
		}
	}
	return changed
}

// takesSame reports whether two states of a node keep off the same pods for good.
func (n *node) takesSame(other *node) bool {
	return maps.Equal(other.Labels, n.Labels) && slices.EqualFunc(lastingTaints(other), lastingTaints(n), sameTaint)
}

func lastingTaints(n *node) []corev1.Taint {
	var out []corev1.Taint
	for _, taint := range n.Spec.Taints {
		if state.Lasting(&taint) {
			out = append(out, taint)
		}
	}
	return out
}

func sameTaint(a, b corev1.Taint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
}

// DeleteNode forgets a node.
func (l *Ledger) DeleteNode(name string) {
	if n := l.nodes[name]; n != nil {
		delete(l.nodes, name)
		l.follow(name, n, nil)
		l.rebuild()
		for uid := range l.accounts {
			if slices.Contains(l.nodesOf(uid), name) {
				l.free([]string{name}) // it holds less now
				return
			}
		}
	}
}

// rebuild makes the next use build the graph again.
func (l *Ledger) rebuild() {
	l.graph, l.total, l.foreign, l.exclusions, l.domains, l.archs = nil, nil, nil, nil, nil, nil
	l.earlier, l.most = nil, nil
}

// resize gives a node the capacity that it has now. The graph is made anew if it cannot be changed,
// for example because the node has another kind of resources than before.
func (l *Ledger) resize(n *node, before fluxion.Resources) {
	l.earlier, l.most = nil, nil
	now := l.capacity(n)
	kinds := maps.Clone(before)
	maps.Copy(kinds, now)
	if l.graph == nil || len(kinds) != len(before) || len(kinds) != len(now) || !l.graph.SetCapacity(n.Name, now) {
		l.rebuild()
		return
	}
	if l.total != nil && n.counts() {
		for name, amount := range now {
			l.total[name] += max(amount, 0) - max(before[name], 0)
		}
	}
}

// SetPod records the state of a pod that has the label of a MiniCluster.
func (l *Ledger) SetPod(made *corev1.Pod) {
	l.claim(made)
	l.set(made)
}

// Set records what a pod holds; nil if nothing.
func (l *Ledger) Set(uid types.UID, p *Pod) {
	if p == nil {
		l.drop(uid)
		return
	}
	p.node, p.requests = unique.Make(p.node).Value(), l.shared.of(p.requests)
	before := l.pods[p.uid]
	if before != nil && before.same(p) {
		return
	}
	if before != nil && (before.daemon || p.daemon || before.owner != p.owner) {
		l.drop(p.uid)
		before = nil
	}
	l.pods[p.uid] = p
	l.repels.add(p) // first: what stays keeps its number
	if before != nil {
		l.repels.remove(before)
	}
	switch {
	case p.daemon:
		l.setDaemon(p.node, p.uid, p)
	case p.owner != "":
		l.setBroker(p)
	default:
		l.setForeign(before, -1)
		l.setForeign(p, 1)
		l.swap(before.held(), p.held())
	}
}

// Gone forgets a pod that a watch does not show any more. It keeps the pod if the label of its
// MiniCluster came or went: then another watch shows it.
func (l *Ledger) Gone(made *corev1.Pod) {
	if !isForeign(made) {
		l.unclaim(made.UID)
		l.leave(made)
	}
	if p := l.pods[made.UID]; p != nil && p.foreign == isForeign(made) {
		l.drop(made.UID)
	}
}

// KeepForeign forgets all foreign pods but these.
func (l *Ledger) KeepForeign(there map[types.UID]bool) {
	for uid, p := range l.pods {
		if p.foreign && !there[uid] {
			l.DeletePod(uid)
		}
	}
}

// DeletePod forgets a pod.
func (l *Ledger) DeletePod(uid types.UID) {
	l.unclaim(uid)
	l.drop(uid)
}

// drop forgets what a pod holds.
func (l *Ledger) drop(uid types.UID) {
	p := l.pods[uid]
	delete(l.pods, uid)
	if p != nil {
		l.repels.remove(p)
	}
	switch {
	case p == nil:
	case p.daemon:
		l.setDaemon(p.node, uid, nil)
	case p.owner != "":
		l.deleteBroker(p)
	default:
		l.setForeign(p, -1)
		l.swap(p.held(), nil)
	}
}

func (p *Pod) same(other *Pod) bool {
	return p.owner == other.owner && p.foreign == other.foreign && p.rank == other.rank && p.node == other.node && p.daemon == other.daemon && p.expected == other.expected &&
		slices.EqualFunc(p.repels, other.repels, isSameTerm) && maps.Equal(p.requests, other.requests)
}

// held is what a pod of others holds; nothing for a nil pod.
func (p *Pod) held() []occupied {
	if p == nil {
		return nil
	}
	return []occupied{{p.node, p.requests}}
}

// current is the resource graph of the cluster as it is now. It changes with the ledger, so
// callers that keep it make a snapshot. It is built again only if nodes came, went, or changed
// their topology or the kinds of their resources.
func (l *Ledger) current() (*fluxion.Graph, error) {
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
	l.graph, l.exclusions, l.domains = graph, nil, nil
	for _, r := range l.reservations {
		r.closed = nil
	}
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
