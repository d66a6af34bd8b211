// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"errors"
	"maps"
	"slices"
	"time"
)

// none stands for the node of a rank that has none.
const none int32 = -1

// Why a change of a Graph is refused, by errors.Is.
var (
	// ErrBusy means that a node has too little left, is down, or is not in the graph.
	ErrBusy = errors.New("no resources are free for it now")
	// ErrNotFound means that the graph has no such job.
	ErrNotFound = errors.New("not found")
	// ErrExists means that the graph has a job of this id already.
	ErrExists = errors.New("exists already")
)

// Graph is what there is and who holds it. It is not safe for use by several
// goroutines, not even if all of them only ask: each takes a Snapshot.
type Graph struct {
	nodes nodes
	jobs  jobs
	// scratch is what a match needs for itself; nothing in it outlives the match.
	scratch *gangMatch
}

// NewGraph makes a graph of nodes of which nothing is held. Levels are the names of
// the levels of the nodes' topology, outermost first, by which gangs ask for them;
// levels without a name are "level 1" and so on. Two nodes of one name are an error,
// and so are two levels of one name.
func NewGraph(specs []Node, levels ...string) (*Graph, error) {
	nodes, err := newNodes(specs, levels)
	if err != nil {
		return nil, err
	}
	return &Graph{nodes: nodes, jobs: newJobs(), scratch: &gangMatch{}}, nil
}

// Snapshot is a copy to try things with. It costs little: what neither changes is
// shared. One goroutine may read and change the snapshot while another goes on with
// the graph; the call itself is made by the one that has the graph.
func (g *Graph) Snapshot() *Graph {
	return &Graph{nodes: g.nodes.copy(), jobs: g.jobs.copy(), scratch: &gangMatch{}}
}

// trial is a snapshot without jobs, which is not used any more once the graph is
// changed: so the graph goes on owning its pages.
func (g *Graph) trial() *Graph {
	return &Graph{
		nodes:   nodes{layout: g.nodes.layout, owner: &owner{}, pages: slices.Clone(g.nodes.pages)},
		scratch: g.scratch,
	}
}

// Len is the number of nodes.
func (g *Graph) Len() int { return len(g.nodes.names) }

// Index is a node's place in the order of the graph, from 0, by which a Bitmap
// knows it.
func (g *Graph) Index(node string) (int, bool) {
	i, ok := g.nodes.index[node]
	return int(i), ok
}

// Name is the name of the node at an index.
func (g *Graph) Name(index int) string { return g.nodes.names[index] }

// Left is what is left of a node, by resource: less than nothing where others hold
// more than there is. It is nil for a node that is not in the graph.
func (g *Graph) Left(node string) Resources {
	i, ok := g.nodes.index[node]
	if !ok {
		return nil
	}
	out := make(Resources, len(g.nodes.resources))
	for r, amount := range g.nodes.left(i) {
		out[g.nodes.resources[r]] = amount
	}
	return out
}

// Occupy takes resources of a node for somebody who is no job of the graph. It is
// not refused where there is too little left: it tells what is so, whoever let it
// happen. On a node that is not in the graph it does nothing, and of resources that
// no node has it takes nothing.
func (g *Graph) Occupy(node string, resources Resources) { g.occupy(node, resources, g.nodes.take) }

// Vacate gives back what Occupy took.
func (g *Graph) Vacate(node string, resources Resources) { g.occupy(node, resources, g.nodes.give) }

func (g *Graph) occupy(node string, resources Resources, change func([]int32, []int64)) {
	if i, ok := g.nodes.index[node]; ok {
		g.scratch.pods.compile(g.nodes.resources, resources)
		change([]int32{i}, g.scratch.pods.amounts)
	}
}

// SetDown says why nothing can be placed on a node for the time being; "" brings it
// up. What is on it stays. On a node that is not in the graph it does nothing.
func (g *Graph) SetDown(node, why string) {
	if i, ok := g.nodes.index[node]; ok {
		g.nodes.setDown(i, why)
	}
}

// jobs are those that hold something, by id. A copy and its original share what
// neither has changed since.
type jobs struct {
	owner *owner
	byID  map[string]*gangJob
	// shared: the map has another reader.
	shared bool
}

// gangJob is what a job holds.
type gangJob struct {
	owner *owner
	gang  Gang
	// nodes are by rank; below zero where a rank has none (any more).
	nodes []int32
	// pods is the number of ranks that have one.
	pods int
	end  time.Time
}

func newJobs() jobs { return jobs{owner: &owner{}, byID: map[string]*gangJob{}} }

func (j *jobs) copy() jobs {
	j.owner, j.shared = &owner{}, true
	return jobs{owner: &owner{}, byID: j.byID, shared: true}
}

// own makes the map one's own.
func (j *jobs) own() {
	if j.shared {
		j.byID, j.shared = maps.Clone(j.byID), false
	}
}

// writable is a job that may be written to; nil if there is none of the id.
func (j *jobs) writable(id string) *gangJob {
	job := j.byID[id]
	if job != nil && job.owner != j.owner {
		own := *job
		own.owner, own.nodes = j.owner, append([]int32(nil), job.nodes...)
		job = &own
		j.put(id, job)
	}
	return job
}

func (j *jobs) put(id string, job *gangJob) {
	j.own()
	j.byID[id] = job
}

func (j *jobs) remove(id string) {
	j.own()
	delete(j.byID, id)
}
