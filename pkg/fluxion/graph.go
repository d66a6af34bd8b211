// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"fmt"
	"maps"
	"slices"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// Node is a machine that brokers run on.
type Node struct {
	Name     string
	Capacity Resources
	// Down says why nothing can be placed on it for the time being ("not ready",
	// "cordoned"); "" if it is up.
	Down string
}

// Graph is what there is and who holds it.
//
// Invariant: nodes are in the order of hostlist.Compare, so that neighbours in
// the graph are neighbours by name.
type Graph struct {
	nodes []vertex
	index map[string]int
}

// vertex is a node and what is left of it. Free may be below zero, where others
// hold more than there is.
type vertex struct {
	Node
	free Resources
}

// NewGraph makes a graph of nodes of which nothing is held. Two nodes of one name
// are an error.
func NewGraph(nodes []Node) (*Graph, error) {
	g := &Graph{nodes: make([]vertex, 0, len(nodes)), index: make(map[string]int, len(nodes))}
	for _, node := range nodes {
		g.nodes = append(g.nodes, vertex{Node: node, free: maps.Clone(node.Capacity)})
	}
	slices.SortFunc(g.nodes, func(a, b vertex) int { return hostlist.Compare(a.Name, b.Name) })
	for i := range g.nodes {
		name := g.nodes[i].Name
		if _, twice := g.index[name]; twice {
			return nil, fmt.Errorf("making a resource graph: two nodes are named %q", name)
		}
		g.index[name] = i
	}
	return g, nil
}

// Occupy takes resources of a node. It is not refused where there is too little
// left: it tells what is so, whoever let it happen. On a node that is not in the
// graph it does nothing.
func (g *Graph) Occupy(node string, resources Resources) {
	if i, ok := g.index[node]; ok {
		if g.nodes[i].free == nil {
			g.nodes[i].free = Resources{}
		}
		g.nodes[i].free.add(resources, -1)
	}
}
