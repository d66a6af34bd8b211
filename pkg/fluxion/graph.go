// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"errors"
	"slices"
)

// Why a change of a Graph is refused, by errors.Is.
var (
	// ErrBusy means that a node is not in the graph, is down, or has too little left.
	ErrBusy = errors.New("no resources are free for it now")
	// ErrNotFound means that the graph has no such job.
	ErrNotFound = errors.New("not found")
	// ErrExists means that the graph has a job of this id already.
	ErrExists = errors.New("exists already")
)

// Graph is the nodes of a cluster, and who holds what of them. It is not safe for use
// by several goroutines, not even for matches alone: each goroutine takes a Snapshot.
type Graph struct {
	nodes nodes
	jobs  jobs
	// scratch is the memory of a match. Nothing in it outlives the match.
	scratch *gangMatch
}

// NewGraph makes a graph of nodes, of which nothing is held. Levels are the names of the
// levels of the nodes' topology, outermost first; a gang names a level by them. Levels
// without a name are "level 1" and so on. Two nodes of one name are an error, and so are
// two levels of one name.
func NewGraph(specs []Node, levels ...string) (*Graph, error) {
	nodes, err := newNodes(specs, levels)
	if err != nil {
		return nil, err
	}
	return &Graph{nodes: nodes, jobs: newJobs(), scratch: &gangMatch{}}, nil
}

// Snapshot is a copy to try things with. It costs little: the graph and the snapshot
// share their pages and jobs until one of them changes. The goroutine that has the graph
// makes the call; afterwards another goroutine may use the snapshot.
func (g *Graph) Snapshot() *Graph {
	return &Graph{nodes: g.nodes.copy(), jobs: g.jobs.copy(), scratch: &gangMatch{}}
}

// Len is the number of nodes.
func (g *Graph) Len() int { return len(g.nodes.names) }

// Index is the index of a node in the order of the graph, from 0. A Bitmap is a set of
// such indexes.
func (g *Graph) Index(node string) (int, bool) {
	i, ok := g.nodes.index[node]
	return int(i), ok
}

// Name is the name of the node at an index.
func (g *Graph) Name(index int) string { return g.nodes.names[index] }

// Levels are the names of the levels of the topology, outermost first.
func (g *Graph) Levels() []string {
	names := make([]string, len(g.nodes.levels))
	for i := range g.nodes.levels {
		names[i] = g.nodes.levels[i].name
	}
	return names
}

// Left is what is left of a node, by resource. An amount is below zero if pods hold more
// than the node has. The result is nil for a node that is not in the graph.
func (g *Graph) Left(node string) Resources {
	i, ok := g.nodes.index[node]
	if !ok {
		return nil
	}
	out := make(Resources, len(g.nodes.resources))
	for r, amount := range g.nodes.left(i) {
		if name := g.nodes.resources[r]; name != WholeNode {
			out[name] = amount
		}
	}
	return out
}

// Occupy takes resources of a node for a pod that belongs to no job of the graph. It is
// never refused, even if too little is left. It ignores a node that is not in the graph,
// and resources that no node has.
func (g *Graph) Occupy(node string, resources Resources) { g.occupy(node, resources, g.nodes.take) }

// Vacate gives back what one call of Occupy took.
func (g *Graph) Vacate(node string, resources Resources) { g.occupy(node, resources, g.nodes.give) }

func (g *Graph) occupy(node string, resources Resources, change func([]int32, []int64)) {
	if i, ok := g.nodes.index[node]; ok {
		g.scratch.pods.compile(g.nodes.resources, resources)
		change([]int32{i}, g.scratch.pods.amounts)
	}
}

// SetCapacity changes what a node has. Pods on the node stay. It returns false and changes nothing
// if the graph has to be made anew: the node is not in it, no node of the graph had one of the
// resources, or most of the capacities that the graph knows are those of no node any more.
func (g *Graph) SetCapacity(node string, capacity Resources) bool {
	i, ok := g.nodes.index[node]
	if !ok {
		return false
	}
	for name := range capacity {
		if _, known := slices.BinarySearch(g.nodes.resources, name); !known {
			return false
		}
	}
	var amounts demand
	amounts.capacity(g.nodes.resources, capacity)
	return g.nodes.setCapacity(i, amounts.amounts)
}

// SetDown gives the reason why no pod can be placed on a node for the time being; ""
// brings the node up. Pods on the node stay. A node that is not in the graph is ignored.
func (g *Graph) SetDown(node, why string) {
	if i, ok := g.nodes.index[node]; ok {
		g.nodes.setDown(i, why)
	}
}
