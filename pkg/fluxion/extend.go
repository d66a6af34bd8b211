// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import "fmt"

// Extend is a copy of the graph that has more nodes. What pods hold of the others, they still hold. The order of the
// nodes is another one, so no exclusion of the graph counts for the copy, and its jobs must not grow before Respecify has
// told where they can.
func (g *Graph) Extend(more []Node) (*Graph, error) {
	specs := make([]Node, 0, g.Len()+len(more))
	for i := range g.nodes.names {
		specs = append(specs, g.node(int32(i)))
	}
	extended, err := NewGraph(append(specs, more...), g.Levels()...)
	if err != nil {
		return nil, fmt.Errorf("extending a resource graph: %w", err)
	}
	moved := make([]int32, g.Len()) // the index of each node in the copy
	taken := make([]int64, len(extended.nodes.resources))
	for i, name := range g.nodes.names {
		moved[i] = extended.nodes.index[name]
		page, mask := g.nodes.locate(int32(i))
		model := g.nodes.model(g.nodes.pages[page].classes[g.nodes.pages[page].of(mask)].model)
		left := g.nodes.left(int32(i))
		clear(taken)
		for r, at := 0, 0; r < len(left); r++ {
			for extended.nodes.resources[at] != g.nodes.resources[r] { // both are sorted, and the copy has all of them
				at++
			}
			taken[at] = model[r] - left[r]
		}
		extended.nodes.take(moved[i:i+1], taken)
	}
	for job := range g.jobs.all() {
		own := &gangJob{owner: extended.jobs.owner, gang: job.gang, nodes: make([]int32, len(job.nodes)), pods: job.pods}
		own.gang.Pods.Infeasible, own.gang.Pods.Closed = nil, nil
		for rank, node := range job.nodes {
			if own.nodes[rank] = none; node != none {
				own.nodes[rank] = moved[node]
			}
		}
		extended.jobs.put(job.gang.Job, own)
	}
	return extended, nil
}

// node is a node of the graph as it was made.
func (g *Graph) node(i int32) Node {
	page, mask := g.nodes.locate(i)
	class := g.nodes.pages[page].classes[g.nodes.pages[page].of(mask)]
	n := Node{Name: g.nodes.names[i], Down: class.down, Topology: g.nodes.topology[page], Capacity: Resources{}}
	for r, amount := range g.nodes.model(class.model) {
		if name := g.nodes.resources[r]; name != WholeNode {
			n.Capacity[name] = amount
		}
	}
	return n
}
