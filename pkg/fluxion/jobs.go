// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Pod is one of a gang.
type Pod struct {
	Rank int
	Node string
}

// Take gives a gang what a placement says, under its job. Nothing is taken where
// that fails: a job of the id is there already (ErrExists), a node is not, is down,
// or has too little left (ErrBusy).
func (g *Graph) Take(gang Gang, placement Placement) error {
	job, err := g.newJob(&gang, placement)
	if err != nil {
		return fmt.Errorf("taking nodes for job %q: %w", gang.Job, err)
	}
	g.hold(job, g.nodes.take)
	for rank, node := range job.nodes {
		if why := g.lacks(job, rank); why != "" {
			g.hold(job, g.nodes.give)
			return fmt.Errorf("taking nodes for job %q: node %s (%s): %w", gang.Job, g.Name(int(node)), why, ErrBusy)
		}
	}
	g.jobs.put(gang.Job, job)
	return nil
}

// Adopt records what a job holds already, be there as much or not: it tells what is
// so. Ranks on nodes that the graph does not have hold nothing.
func (g *Graph) Adopt(gang Gang, placement Placement) error {
	if g.jobs.byID[gang.Job] != nil {
		return fmt.Errorf("adopting job %q: %w", gang.Job, ErrExists)
	}
	job := &gangJob{owner: g.jobs.owner, gang: gang.clone(), end: gang.End}
	for _, name := range placement.Nodes {
		node, ok := g.nodes.index[name]
		if !ok {
			node = none
		} else {
			job.pods++
		}
		job.nodes = append(job.nodes, node)
	}
	if job.pods > 0 {
		g.hold(job, g.nodes.take)
		g.jobs.put(gang.Job, job)
	}
	return nil
}

// clone is a copy with amounts of its own: what is given back has to be what was taken.
func (g *Gang) clone() Gang {
	c := *g
	c.Pods.Requests = maps.Clone(g.Pods.Requests)
	if g.Lead != nil {
		lead := *g.Lead
		lead.Requests = maps.Clone(lead.Requests)
		c.Lead = &lead
	}
	return c
}

func (g *Graph) newJob(gang *Gang, placement Placement) (*gangJob, error) {
	if g.jobs.byID[gang.Job] != nil {
		return nil, ErrExists
	}
	if len(placement.Nodes) == 0 {
		return nil, errors.New("none are named")
	}
	job := &gangJob{owner: g.jobs.owner, gang: gang.clone(), end: gang.End, pods: len(placement.Nodes)}
	job.nodes = make([]int32, 0, job.pods)
	for _, name := range placement.Nodes {
		node, ok := g.nodes.index[name]
		if !ok {
			return nil, fmt.Errorf("node %s: %w", name, ErrBusy)
		}
		job.nodes = append(job.nodes, node)
	}
	return job, nil
}

// lacks is why a rank cannot be where it was put; "" if it can.
func (g *Graph) lacks(job *gangJob, rank int) string {
	node := job.nodes[rank]
	if down := g.nodes.down(node); down != "" {
		return down
	}
	left := g.nodes.left(node)
	demand := &g.scratch.pods
	if rank == 0 && job.gang.Lead != nil {
		demand = &g.scratch.lead
	}
	for _, r := range demand.asked {
		if left[r] < 0 {
			return "too little " + g.nodes.resources[r]
		}
	}
	if demand.unknown != "" {
		return "too little " + demand.unknown
	}
	return ""
}

// hold takes or gives back what a job takes.
func (g *Graph) hold(job *gangJob, change func([]int32, []int64)) {
	nodes := job.nodes
	if job.gang.Lead != nil {
		g.scratch.lead.compile(g.nodes.resources, job.gang.Lead.Requests)
		change(nodes[:1], g.scratch.lead.amounts)
		nodes = nodes[1:]
	}
	g.scratch.pods.compile(g.nodes.resources, job.gang.Pods.Requests)
	change(nodes, g.scratch.pods.amounts)
}

// Pods are the pods of a job, by rank.
func (g *Graph) Pods(job string) []Pod {
	j := g.jobs.byID[job]
	if j == nil {
		return nil
	}
	pods := make([]Pod, 0, j.pods)
	for rank, node := range j.nodes {
		if node >= 0 {
			pods = append(pods, Pod{rank, g.nodes.names[node]})
		}
	}
	return pods
}

// SetEnd says when a job will be over, at the latest; the zero time if that is not
// known.
func (g *Graph) SetEnd(job string, end time.Time) error {
	j := g.jobs.writable(job)
	if j == nil {
		return fmt.Errorf("setting the end of job %q: %w", job, ErrNotFound)
	}
	j.end = end
	return nil
}

// Respecify says anew where more pods of a job can be, and how close to each other:
// all of a gang but its id, its end, and what its pods take.
func (g *Graph) Respecify(job string, gang Gang) error {
	j := g.jobs.writable(job)
	if j == nil {
		return fmt.Errorf("respecifying job %q: %w", job, ErrNotFound)
	}
	gang.Job, gang.End = j.gang.Job, j.gang.End
	gang.Pods.Requests, gang.Lead = j.gang.Pods.Requests, j.gang.Lead
	j.gang = gang
	return nil
}

// Grow gives a job as many more pods as fit, n at most, and returns them: near those
// that it has, in the same innermost domains first; where all have to be in one
// domain, in that one. They get the lowest ranks that have no pod, but not rank 0.
// Whether the job may have the size is for the caller to know. Where not one fits
// nothing is changed, and the refusal is about one more pod.
func (g *Graph) Grow(job string, n int) ([]Pod, *Refusal, error) {
	j := g.jobs.writable(job)
	if j == nil {
		return nil, nil, fmt.Errorf("growing job %q: %w", job, ErrNotFound)
	}
	if n < 1 {
		return nil, nil, nil
	}
	m := g.matchMore(j)
	m.gather(g.nodes.pages)
	fits := m.sum(m.whole(), -1).room
	if fits == 0 {
		return nil, g.refuse(m, 0, 1), nil
	}
	m.place(min(int64(n), fits))
	var pods []Pod
	m.nodes = m.nodes[:0]
	m.eachNode(func(node, count int32) {
		for range count {
			pods = append(pods, Pod{j.seat(node), g.Name(int(node))})
			m.nodes = append(m.nodes, node)
		}
	})
	g.nodes.take(m.nodes, m.pods.amounts)
	return pods, nil, nil
}

// matchMore begins a match for more pods of a job.
func (g *Graph) matchMore(j *gangJob) *gangMatch {
	m := g.match(&j.gang)
	m.nodes = append(m.nodes[:0], j.nodes...)
	slices.Sort(m.nodes)
	for _, node := range m.nodes {
		switch last := len(m.own) - 1; {
		case node < 0:
		case last >= 0 && m.own[last].node == node:
			m.own[last].has++
		default:
			m.own = append(m.own, ownNode{node, 1})
		}
	}
	if m.required() && m.level >= 0 {
		m.limitTo(m.levels[m.level].domain[m.pageOf[m.own[0].node]])
	}
	return m
}

// seat puts a node in the first rank that has none, and returns the rank. What has
// lost its lead gets no other.
func (j *gangJob) seat(node int32) int {
	j.pods++
	for rank := 1; rank < len(j.nodes); rank++ {
		if j.nodes[rank] < 0 {
			j.nodes[rank] = node
			return rank
		}
	}
	j.nodes = append(j.nodes, node)
	return len(j.nodes) - 1
}

// Shrink takes pods from a job. Nothing is changed where one of the ranks has none, is
// named twice, or is the lead.
func (g *Graph) Shrink(job string, ranks []int) error {
	j := g.jobs.byID[job]
	if j == nil {
		return fmt.Errorf("shrinking job %q: %w", job, ErrNotFound)
	}
	sorted := slices.Sorted(slices.Values(ranks))
	for i, rank := range sorted {
		switch {
		case rank == 0:
			return fmt.Errorf("shrinking job %q: rank 0 leads it", job)
		case rank < 0 || rank >= len(j.nodes) || j.nodes[rank] < 0:
			return fmt.Errorf("shrinking job %q: rank %d has no pod", job, rank)
		case i > 0 && sorted[i-1] == rank:
			return fmt.Errorf("shrinking job %q: rank %d is named twice", job, rank)
		}
	}
	for _, rank := range sorted {
		g.free(job, rank)
	}
	return nil
}

// Free gives back what one pod of a job holds, when that is over. With its last pod
// the job is gone.
func (g *Graph) Free(job string, rank int) error {
	j := g.jobs.byID[job]
	if j == nil {
		return fmt.Errorf("freeing rank %d of job %q: %w", rank, job, ErrNotFound)
	}
	if rank < 0 || rank >= len(j.nodes) || j.nodes[rank] < 0 {
		return fmt.Errorf("freeing rank %d of job %q: it has no pod", rank, job)
	}
	g.free(job, rank)
	return nil
}

func (g *Graph) free(job string, rank int) {
	j := g.jobs.writable(job)
	shape := &j.gang.Pods
	if rank == 0 && j.gang.Lead != nil {
		shape = j.gang.Lead
	}
	g.scratch.pods.compile(g.nodes.resources, shape.Requests)
	g.nodes.give(j.nodes[rank:rank+1], g.scratch.pods.amounts)
	j.nodes[rank] = none
	if j.pods--; j.pods == 0 {
		g.jobs.remove(job)
	}
}

// Release gives back all that a job holds.
func (g *Graph) Release(job string) error {
	j := g.jobs.byID[job]
	if j == nil {
		return fmt.Errorf("releasing job %q: %w", job, ErrNotFound)
	}
	g.hold(j, g.nodes.give)
	g.jobs.remove(job)
	return nil
}

// Victims are n ranks of a job, never the lead, whose leaving frees whole innermost
// domains, as many as it can, and then whole nodes; those farthest along the
// topology first. There are fewer where the job has no more; they rise.
func (g *Graph) Victims(job string, n int) []int {
	j := g.jobs.byID[job]
	if j == nil {
		return nil
	}
	rack := func(node int32) int32 { return g.nodes.levels[len(g.nodes.levels)-1].domain[g.nodes.pageOf[node]] }
	perRack, perNode := map[int32]int{}, map[int32]int{}
	var ranks []int
	for rank, node := range j.nodes {
		switch {
		case node < 0:
			continue
		case rank == 0: // never done with
			perRack[rack(node)], perNode[node] = len(j.nodes), len(j.nodes)
			continue
		}
		perRack[rack(node)]++
		perNode[node]++
		ranks = append(ranks, rank)
	}
	slices.SortFunc(ranks, func(a, b int) int {
		x, y := j.nodes[a], j.nodes[b]
		return cmp.Or(
			cmp.Compare(perRack[rack(x)], perRack[rack(y)]), cmp.Compare(rack(y), rack(x)),
			cmp.Compare(perNode[x], perNode[y]), cmp.Compare(y, x),
			cmp.Compare(b, a),
		)
	})
	victims := ranks[:min(max(n, 0), len(ranks))]
	slices.Sort(victims)
	return victims
}
