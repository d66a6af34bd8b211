// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapi

import (
	"fmt"
	"strconv"
)

// Root is the index of the root of every Graph.
const Root = 0

// Graph is a resource graph: a tree of vertices under a cluster.
type Graph struct {
	jgf jgf
	// next are the next numbers by type.
	next map[string]int
}

// jgf is a graph as the library reads and writes graphs.
type jgf struct {
	Nodes []vertex `json:"nodes"`
	Edges []edge   `json:"edges"`
}

type vertex struct {
	ID       string   `json:"id"`
	Metadata metadata `json:"metadata"`
}

type metadata struct {
	Type string `json:"type"`
	// ID is the number of the vertex among the vertices of its type. Match policies compare it.
	ID        int   `json:"id"`
	Rank      int   `json:"rank"`
	Exclusive bool  `json:"exclusive,omitempty"`
	Paths     paths `json:"paths"`
}

type paths struct {
	Containment string `json:"containment"`
}

type edge struct {
	Source string `json:"source"`
	Target string `json:"target"`
}

// NewGraph is a Graph of a root alone.
func NewGraph() *Graph {
	g := &Graph{next: map[string]int{}}
	g.add("", "cluster", -1)
	return g
}

// Add adds a vertex below another vertex, and returns the index of the new vertex. A vertex
// that belongs to no node has the rank -1.
func (g *Graph) Add(above int, kind string, rank int) int {
	at := g.add(g.jgf.Nodes[above].Metadata.Paths.Containment, kind, rank)
	g.jgf.Edges = append(g.jgf.Edges, edge{strconv.Itoa(above), strconv.Itoa(at)})
	return at
}

// add adds a vertex without an edge.
func (g *Graph) add(above, kind string, rank int) int {
	id, at := g.next[kind], len(g.jgf.Nodes)
	g.next[kind]++
	g.jgf.Nodes = append(g.jgf.Nodes, vertex{strconv.Itoa(at), metadata{
		Type: kind, ID: id, Rank: rank, Paths: paths{fmt.Sprintf("%s/%s%d", above, kind, id)},
	}})
	return at
}
