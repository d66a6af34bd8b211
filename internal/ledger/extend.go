// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// Could is a kind of nodes that could come for the gangs of a queue, and how many.
type Could struct {
	state.Shape
	Nodes int
}

// CouldCome replaces what could come for the gangs of each queue, by name. The order of the shapes is that of Room.With.
func (l *layout) CouldCome(could map[string][]Could) { l.could = could }

// Coming are the nodes that were made since a time and are not ready yet, and when the last node was made.
func (l *layout) Coming(since time.Time) (nodes int, last time.Time) {
	var shapes []state.Shape
	for _, could := range l.could {
		for _, c := range could {
			shapes = append(shapes, c.Shape)
		}
	}
	for _, n := range l.nodes {
		made := n.CreationTimestamp.Time
		if n.others || made.Before(since.Truncate(time.Second)) { // Kubernetes tells seconds
			continue
		}
		if made.After(last) {
			last = made
		}
		if comes := n.down != "" || n.starts(shapes); comes && state.Going(n.Node) == "" && !n.Spec.Unschedulable {
			nodes++
		}
	}
	return nodes, last
}

// starts reports whether a node has a taint of its start: one that keeps pods off, and that is not of its shape.
func (n *node) starts(shapes []state.Shape) bool {
	return slices.ContainsFunc(lastingTaints(n), func(taint corev1.Taint) bool {
		return !slices.ContainsFunc(shapes, func(s state.Shape) bool {
			return s.IsA(n.Node) && slices.ContainsFunc(s.Taints, func(other corev1.Taint) bool { return sameTaint(taint, other) })
		})
	})
}

// There is how many nodes of a shape exist.
func (l *layout) There(shape *state.Shape) int {
	there := 0
	for _, n := range l.nodes {
		if shape.IsA(n.Node) {
			there++
		}
	}
	return there
}

// Up is how many nodes of some shapes are up, without some nodes, and without those that start and are not in use.
func (l *Ledger) Up(shapes []state.Shape, without map[string]bool) int {
	used := map[string]bool{}
	for uid := range l.accounts {
		for _, name := range l.nodesOf(uid) {
			used[name] = true
		}
	}
	up := 0
	for name, n := range l.nodes {
		if n.down == "" && !n.others && !without[name] && (used[name] || !n.starts(shapes)) && slices.ContainsFunc(shapes, func(s state.Shape) bool { return s.IsA(n.Node) }) {
			up++
		}
	}
	return up
}

// addition are the nodes of a graph that do not exist and could come for a queue.
type addition struct {
	// nodes are by shape. all are all of them, and absent those that do not count as there.
	nodes       [][]int
	all, absent fluxion.Exclusion
}

// FitsApart is part of queue.Room.
func (r *room) FitsApart(id string, limit int) int {
	gang, ok := r.ask(id, nil)
	if !ok {
		return 0
	}
	return min(r.graph.FitsApart(gang.Gang), max(limit, 0))
}

// With is part of queue.Room. All nodes that could come are in the graph of the copy, and those that do not count as
// there are excluded for each gang.
func (r *room) With(name string, nodes []int) queue.Room {
	base := r
	if _, has := r.added[name]; !has {
		if r.extended == nil || r.extendedFor != name {
			r.extended, r.extendedFor = r.extend(name), name
		}
		base = r.extended
	}
	with := base.snapshot()
	with.added, with.kinds, with.amounts = maps.Clone(with.added), newKinds(), map[amountOf]amount{}
	a := with.added[name]
	a.absent.Nodes = nil
	for shape, n := range nodes {
		for _, node := range a.nodes[shape][min(n, len(a.nodes[shape])):] {
			a.absent.Nodes.Set(node)
		}
	}
	with.added[name] = a
	return with
}

// extend is a copy of the room whose graph has the nodes that could come for a queue.
func (r *room) extend(name string) *room {
	could := r.layout.could[name]
	var specs []fluxion.Node
	l := r.layout.copyOfNodes()
	for i := range could {
		for j := range could[i].Nodes {
			n := l.newNode(fmt.Sprintf("%s/%d/%d", name, i, j), &could[i].Shape)
			l.nodes[n.Name] = n
			specs = append(specs, fluxion.Node{Name: n.Name, Capacity: n.capacity, Topology: n.topology})
		}
	}
	graph, err := r.graph.Extend(specs)
	extended := r.snapshot()
	extended.extended = nil
	if extended.added = maps.Clone(r.added); extended.added == nil {
		extended.added = map[string]addition{}
	}
	a := addition{nodes: make([][]int, len(could)), all: fluxion.Exclusion{Reason: "not there"}}
	if err == nil { // their names are new
		extended.layout, extended.graph, extended.requests, extended.kept = l, graph, map[string]*request{}, nil
		for other, before := range r.added {
			extended.added[other] = before.moved(r.graph, graph)
		}
		for i := range could {
			for j := range could[i].Nodes {
				node, _ := graph.Index(fmt.Sprintf("%s/%d/%d", name, i, j))
				a.nodes[i] = append(a.nodes[i], node)
				a.all.Nodes.Set(node)
			}
		}
	}
	a.absent = a.all
	extended.added[name] = a
	return extended
}

// moved is an addition to one graph in the terms of another.
func (a addition) moved(from, to *fluxion.Graph) addition {
	out := addition{all: fluxion.Exclusion{Reason: a.all.Reason}, absent: fluxion.Exclusion{Reason: a.all.Reason}}
	for _, nodes := range a.nodes {
		moved := make([]int, len(nodes))
		for i, node := range nodes {
			moved[i], _ = to.Index(from.Name(node))
			out.all.Nodes.Set(moved[i])
			if a.absent.Nodes.Has(node) {
				out.absent.Nodes.Set(moved[i])
			}
		}
		out.nodes = append(out.nodes, moved)
	}
	return out
}

// absent are the nodes of the graph that could come, and are not there for a gang of a queue.
func (r *room) absent(queue string) []fluxion.Exclusion {
	var out []fluxion.Exclusion
	for _, name := range slices.Sorted(maps.Keys(r.added)) {
		if name == queue {
			out = append(out, r.added[name].absent)
		} else {
			out = append(out, r.added[name].all)
		}
	}
	return out
}

// copyOfNodes is a ledger with the same nodes and reservations, in which nobody holds anything.
func (l *layout) copyOfNodes() *layout {
	c := &New(l.levels, nil).layout
	c.Nodes, c.NamespaceLabels, c.could, c.nodes, c.repels = l.Nodes, l.NamespaceLabels, l.could, maps.Clone(l.nodes), l.repels
	for _, r := range l.reservations {
		own := *r
		own.closed = nil
		c.reservations = append(c.reservations, &own)
	}
	return c
}

// newNode is a node of a shape that could come.
func (l *layout) newNode(name string, shape *state.Shape) *node {
	made := &corev1.Node{}
	made.Name, made.Labels, made.Spec.Taints = name, shape.Labels, shape.Taints
	n := &node{Node: made, capacity: shape.Capacity, others: !shape.Any && !l.Nodes.Matches(labels.Set(made.Labels)), shape: shape}
	for _, level := range l.levels {
		n.topology = append(n.topology, shape.Domain(level))
	}
	return n
}
