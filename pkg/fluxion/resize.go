// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"cmp"
	"fmt"
	"slices"
)

// Respecify replaces the gang of a job: where more pods of the job can be, and how close
// to each other. The id, the end and the requests of the job stay.
func (g *Graph) Respecify(job string, gang Gang) error {
	j := g.jobs.writable(job)
	if j == nil {
		return fmt.Errorf("respecifying job %q: %w", job, ErrNotFound)
	}
	gang.Job, gang.End, gang.Pods.Requests = j.gang.Job, j.gang.End, j.gang.Pods.Requests
	j.gang = gang
	return nil
}

// Grow gives a job up to n more pods, as many as fit, and returns them. They are near the
// pods that the job has: in the same innermost domains first, and in the same domain if
// all pods have to be in one. They get the lowest ranks that have no pod, except rank 0.
// The caller has to know whether the job may have the new size. If no pod fits, nothing
// changes, and the refusal is about one more pod.
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
		m.gang.Sizes = []int{1}
		return nil, g.refuse(m, 0), nil
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
		case node == none:
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

// seat gives a node to the first rank that has no pod, and returns the rank. A job that
// has lost its lead gets no other one.
func (j *gangJob) seat(node int32) int {
	j.pods++
	for rank := 1; rank < len(j.nodes); rank++ {
		if j.nodes[rank] == none {
			j.nodes[rank] = node
			return rank
		}
	}
	j.nodes = append(j.nodes, node)
	return len(j.nodes) - 1
}

// Victims are n ranks of a job, rising, and never the lead: first ranks on useful nodes that
// are up. Without them, as many innermost domains as possible are free of the job, then as many
// nodes as possible. Of equal ranks, those farthest along the topology come first. There are
// fewer victims if the job has fewer pods.
func (g *Graph) Victims(job string, n int, useful Bitmap) []int {
	j := g.jobs.get(job)
	if j == nil {
		return nil
	}
	innermost := g.nodes.levels[len(g.nodes.levels)-1].domain
	rack := func(node int32) int32 { return innermost[g.nodes.pageOf[node]] }
	perRack, perNode, useless := map[int32]int{}, map[int32]int{}, map[int32]int{}
	var ranks []int
	for rank, node := range j.nodes {
		switch {
		case node == none:
			continue
		case rank == 0: // the lead stays, so its rack and node never become free
			perRack[rack(node)], perNode[node] = len(j.nodes), len(j.nodes)
			continue
		}
		perRack[rack(node)]++
		perNode[node]++
		if !useful.Has(int(node)) || g.nodes.down(node) != "" {
			useless[node] = 1
		}
		ranks = append(ranks, rank)
	}
	slices.SortFunc(ranks, func(a, b int) int {
		x, y := j.nodes[a], j.nodes[b]
		return cmp.Or(
			cmp.Compare(useless[x], useless[y]),
			cmp.Compare(perRack[rack(x)], perRack[rack(y)]), cmp.Compare(rack(y), rack(x)),
			cmp.Compare(perNode[x], perNode[y]), cmp.Compare(y, x),
			cmp.Compare(b, a),
		)
	})
	victims := ranks[:min(max(n, 0), len(ranks))]
	slices.Sort(victims)
	return victims
}
