// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/tidwall/btree"
)

// none is the node of a rank that has no pod.
const none int32 = -1

// jobs are the jobs that hold something, by id. A copy and its original share what neither has changed since.
type jobs struct {
	owner *owner
	byID  *btree.Map[string, *gangJob]
	// byEnd and bySize are made again if they are nil.
	byEnd, bySize []*gangJob
}

// gangJob is a job, and the nodes of its pods.
type gangJob struct {
	owner *owner
	gang  Gang
	// nodes are by rank; none for a rank that has no pod (any more).
	nodes []int32
	// pods is the number of ranks that have a pod.
	pods int
}

func newJobs() jobs { return jobs{owner: &owner{}, byID: &btree.Map[string, *gangJob]{}} }

func (j *jobs) copy() jobs {
	j.owner = &owner{}
	return jobs{&owner{}, j.byID.Copy(), j.byEnd, j.bySize}
}

// get is the job of an id; nil if there is none.
func (j *jobs) get(id string) *gangJob {
	job, _ := j.byID.Get(id)
	return job
}

// all are the jobs by id.
func (j *jobs) all() iter.Seq[*gangJob] {
	return func(yield func(*gangJob) bool) {
		j.byID.Scan(func(_ string, job *gangJob) bool { return yield(job) })
	}
}

// writable is a job that may be changed; nil if there is none of the id.
func (j *jobs) writable(id string) *gangJob {
	j.byEnd, j.bySize = nil, nil
	job := j.get(id)
	if job != nil && job.owner != j.owner {
		own := *job
		own.owner, own.nodes = j.owner, slices.Clone(job.nodes)
		job = &own
		j.put(id, job)
	}
	return job
}

func (j *jobs) put(id string, job *gangJob) {
	j.byEnd, j.bySize = nil, nil
	j.byID.Set(id, job)
}

func (j *jobs) remove(id string) {
	j.byEnd, j.bySize = nil, nil
	j.byID.Delete(id)
}

// ending are the jobs whose end is known, the earliest end first.
func (j *jobs) ending() []*gangJob {
	if j.byEnd == nil {
		for job := range j.all() {
			if !job.gang.End.IsZero() {
				j.byEnd = append(j.byEnd, job)
			}
		}
		slices.SortFunc(j.byEnd, func(a, b *gangJob) int {
			return cmp.Or(a.gang.End.Compare(b.gang.End), strings.Compare(a.gang.Job, b.gang.Job))
		})
	}
	return j.byEnd
}

// largest are all jobs, the job with the most pods first.
func (j *jobs) largest() []*gangJob {
	if j.bySize == nil {
		j.bySize = slices.SortedFunc(j.all(), func(a, b *gangJob) int {
			return cmp.Or(cmp.Compare(b.pods, a.pods), strings.Compare(a.gang.Job, b.gang.Job))
		})
	}
	return j.bySize
}

// Pod is one pod of a gang.
type Pod struct {
	Rank int
	Node string
}

// Pods are the pods of a job, by rank.
func (g *Graph) Pods(job string) []Pod {
	j := g.jobs.get(job)
	if j == nil {
		return nil
	}
	pods := make([]Pod, 0, j.pods)
	for rank, node := range j.nodes {
		if node != none {
			pods = append(pods, Pod{rank, g.nodes.names[node]})
		}
	}
	return pods
}

// RanksOutside are the ranks of a job on other nodes than those of the set, rising.
func (b Bitmap) RanksOutside(g *Graph, job string) (ranks []int) {
	if j := g.jobs.get(job); j != nil {
		for rank, node := range j.nodes {
			if node != none && !b.Has(int(node)) {
				ranks = append(ranks, rank)
			}
		}
	}
	return ranks
}

// Take records that the gang's job holds a placement. It fails if the graph has a job of
// that id already (ErrExists). It also fails if a node is not in the graph, is down, or
// has too little left (ErrBusy). A Take that fails changes nothing.
func (g *Graph) Take(gang Gang, placement Placement) error {
	if err := g.take(&gang, placement); err != nil {
		return fmt.Errorf("taking nodes for job %q: %w", gang.Job, err)
	}
	return nil
}

func (g *Graph) take(gang *Gang, placement Placement) error {
	if g.jobs.get(gang.Job) != nil {
		return ErrExists
	}
	if len(placement.Nodes) == 0 {
		return errors.New("none are named")
	}
	job := g.newJob(gang, placement)
	if rank := slices.Index(job.nodes, none); rank >= 0 {
		return fmt.Errorf("node %s: %w", placement.Nodes[rank], ErrBusy)
	}
	g.hold(job, g.nodes.take)
	for _, node := range job.nodes {
		if why := g.lacks(node); why != "" {
			g.hold(job, g.nodes.give)
			return fmt.Errorf("node %s (%s): %w", g.Name(int(node)), why, ErrBusy)
		}
	}
	g.jobs.put(gang.Job, job)
	return nil
}

// newJob is a job at a placement. Ranks on nodes that are not in the graph have no pod.
func (g *Graph) newJob(gang *Gang, placement Placement) *gangJob {
	job := &gangJob{owner: g.jobs.owner, gang: gang.clone(), nodes: make([]int32, len(placement.Nodes))}
	for rank, name := range placement.Nodes {
		node, ok := g.nodes.index[name]
		if !ok {
			node = none
		} else {
			job.pods++
		}
		job.nodes[rank] = node
	}
	return job
}

// lacks is the reason why a node cannot have the pods that hold has just put there; ""
// if there is none.
func (g *Graph) lacks(node int32) string {
	if down := g.nodes.down(node); down != "" {
		return down
	}
	left, demand := g.nodes.left(node), &g.scratch.pods
	for _, r := range demand.asked {
		if left[r] < 0 && g.nodes.resources[r] == WholeNode {
			return "in use"
		}
		if left[r] < 0 {
			return "too little " + g.nodes.resources[r]
		}
	}
	if demand.unknown != "" {
		return "without " + demand.unknown
	}
	return ""
}

// Adopt records that a job holds a placement already. It is never refused for lack of
// room. Ranks on nodes that are not in the graph hold nothing.
func (g *Graph) Adopt(gang Gang, placement Placement) error {
	if g.jobs.get(gang.Job) != nil {
		return fmt.Errorf("adopting job %q: %w", gang.Job, ErrExists)
	}
	if job := g.newJob(&gang, placement); job.pods > 0 {
		g.hold(job, g.nodes.take)
		g.jobs.put(gang.Job, job)
	}
	return nil
}

// hold takes what all pods of a job take, or gives it back.
func (g *Graph) hold(job *gangJob, change func([]int32, []int64)) {
	g.scratch.pods.compile(g.nodes.resources, job.gang.Pods.Requests)
	change(job.nodes, g.scratch.pods.amounts)
}

// Free gives back what one pod of a job holds. With its last pod the job is gone.
func (g *Graph) Free(job string, rank int) error {
	j := g.jobs.writable(job)
	if j == nil {
		return fmt.Errorf("freeing rank %d of job %q: %w", rank, job, ErrNotFound)
	}
	if rank < 0 || rank >= len(j.nodes) || j.nodes[rank] == none {
		return fmt.Errorf("freeing rank %d of job %q: it has no pod", rank, job)
	}
	g.scratch.pods.compile(g.nodes.resources, j.gang.Pods.Requests)
	g.nodes.give(j.nodes[rank:rank+1], g.scratch.pods.amounts)
	j.nodes[rank] = none
	if j.pods--; j.pods == 0 {
		g.jobs.remove(job)
	}
	return nil
}

// Release gives back all that a job holds.
func (g *Graph) Release(job string) error {
	j := g.jobs.get(job)
	if j == nil {
		return fmt.Errorf("releasing job %q: %w", job, ErrNotFound)
	}
	g.hold(j, g.nodes.give)
	g.jobs.remove(job)
	return nil
}
