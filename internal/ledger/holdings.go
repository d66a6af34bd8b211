// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// holdings are what an account holds in the graph: a job, and what its pods hold beside the job.
type holdings struct {
	job fluxion.Gang
	// nodes are the job's nodes: by rank if there is a promise. There are none without a job.
	nodes []string
	// extras are what pods hold beyond the job.
	extras []occupied
	// stand are the pods, by rank, that hold what the job holds for their rank.
	stand map[int]types.UID
}

// occupied is what is held of one node.
type occupied struct {
	node     string
	requests fluxion.Resources
}

// sync updates what a MiniCluster holds.
func (l *Ledger) sync(uid types.UID, a *account) {
	before := a.holdings
	a.holdings = a.holdingsOf(uid)
	if a.sameJob(&before) {
		l.swap(before.extras, a.extras)
	} else {
		l.replace(&before, &a.holdings)
	}
}

func (p *holdings) sameJob(other *holdings) bool {
	return p.job.End.Equal(other.job.End) && slices.Equal(p.nodes, other.nodes) &&
		maps.Equal(p.job.Pods.Requests, other.job.Pods.Requests)
}

// replace replaces all that an account held.
func (l *Ledger) replace(before, now *holdings) {
	if l.graph != nil {
		before.remove(l.graph)
		if now.put(l.graph) != nil {
			l.rebuild()
		}
	}
	l.free(more(before.all(), now.all()))
}

// swap replaces what pods held outside jobs.
func (l *Ledger) swap(before, now []occupied) {
	if l.graph != nil {
		for _, o := range before {
			l.graph.Vacate(o.node, o.requests)
		}
		for _, o := range now {
			l.graph.Occupy(o.node, o.requests)
		}
	}
	l.free(more(before, now))
}

// more are the nodes of which less is held than before.
func more(before, now []occupied) []string {
	less := map[string]fluxion.Resources{}
	add := func(list []occupied, sign int64) {
		for _, o := range list {
			if less[o.node] == nil {
				less[o.node] = fluxion.Resources{}
			}
			for name, amount := range o.requests {
				less[o.node][name] += sign * amount
			}
		}
	}
	add(before, 1)
	add(now, -1)
	var nodes []string
	for node, amounts := range less {
		for _, amount := range amounts {
			if amount > 0 {
				nodes = append(nodes, node)
				break
			}
		}
	}
	return nodes
}

// put adds the holdings to a graph.
func (p *holdings) put(graph *fluxion.Graph) error {
	for _, o := range p.extras {
		graph.Occupy(o.node, o.requests)
	}
	if len(p.nodes) == 0 {
		return nil
	}
	return graph.Adopt(p.job, fluxion.Placement{Nodes: p.nodes})
}

// remove removes the holdings from a graph.
func (p *holdings) remove(graph *fluxion.Graph) {
	for _, o := range p.extras {
		graph.Vacate(o.node, o.requests)
	}
	// A job whose nodes are all gone is not in the graph.
	if len(p.nodes) > 0 && len(graph.Pods(p.job.Job)) > 0 {
		_ = graph.Release(p.job.Job)
	}
}

// all is all that is held, by node.
func (p *holdings) all() []occupied {
	all := slices.Clone(p.extras)
	for _, node := range p.nodes {
		if node != "" {
			all = append(all, occupied{node, p.job.Pods.Requests})
		}
	}
	return all
}

// holdingsOf returns what an account holds: the job of its promise, or of its pods if there is no
// promise any more, and what its pods hold beyond the job. Pods are sorted, so that the order of
// their events does not matter.
func (a *account) holdingsOf(uid types.UID) holdings {
	pods := slices.SortedFunc(maps.Values(a.pods), func(a, b *Pod) int {
		return cmp.Or(cmp.Compare(uint(a.rank), uint(b.rank)), strings.Compare(string(a.uid), string(b.uid)))
	})
	p := holdings{stand: map[int]types.UID{}}
	if p.job.Job = string(uid); a.promise == nil {
		p.add(pods)
		return p
	}
	promise := withLeavers(a.promise, pods)
	p.job.Pods.Requests, p.job.Sizes, p.job.End = promise.Requests, []int{len(promise.Nodes)}, promise.End
	p.nodes = promise.Nodes
	// Of several pods of a rank on its node, one stands for the promise, preferably one that
	// takes exactly what was promised.
	exact := map[int]types.UID{}
	for _, pod := range pods {
		if _, twice := exact[pod.rank]; !twice && maps.Equal(pod.requests, promise.Requests) && pod.isAt(promise) {
			exact[pod.rank] = pod.uid
		}
	}
	for _, pod := range pods {
		_, twice := p.stand[pod.rank]
		chosen, isThere := exact[pod.rank]
		if twice || !pod.isAt(promise) || (isThere && chosen != pod.uid) {
			p.extras = append(p.extras, occupied{pod.node, pod.requests})
			continue
		}
		p.stand[pod.rank] = pod.uid
		if more := above(pod.requests, promise.Requests); len(more) > 0 {
			p.extras = append(p.extras, occupied{pod.node, more})
		}
	}
	return p
}

// add adds pods without a promise: as a job, one pod of each rank, of those that take as much as the
// first; and the others. The job counts its pods through, because their ranks may be any.
func (p *holdings) add(pods []*Pod) {
	for _, pod := range pods {
		_, twice := p.stand[pod.rank]
		if pod.rank < 0 || twice || (len(p.nodes) > 0 && !maps.Equal(pod.requests, p.job.Pods.Requests)) {
			p.extras = append(p.extras, occupied{pod.node, pod.requests})
			continue
		}
		p.job.Pods.Requests, p.nodes, p.stand[pod.rank] = pod.requests, append(p.nodes, pod.node), pod.uid
	}
	p.job.Sizes = []int{len(p.nodes)}
}

// withLeavers adds to the promise the ranks that gave their node back and whose pods still exist,
// if they take the same.
func withLeavers(p *state.Promise, pods []*Pod) *state.Promise {
	var left []elastic.Pod
	for _, pod := range pods {
		gave := pod.rank >= 0 && pod.rank < len(p.Nodes) && !p.Holds(pod.rank)
		if gave && maps.Equal(pod.requests, p.Requests) && !slices.ContainsFunc(left, func(l elastic.Pod) bool { return l.Rank == pod.rank }) {
			left = append(left, elastic.Pod{Rank: pod.rank, Node: pod.node})
		}
	}
	if left == nil {
		return p
	}
	return p.With(left)
}

// isAt reports whether a pod is on the node that was promised to its rank.
func (p *Pod) isAt(promise *state.Promise) bool {
	return p.rank >= 0 && promise.Has(elastic.Pod{Rank: p.rank, Node: p.node})
}

// above is what a pod takes beyond what was promised.
func above(takes, promised fluxion.Resources) fluxion.Resources {
	var more fluxion.Resources
	for name, amount := range takes {
		if amount > promised[name] {
			if more == nil {
				more = fluxion.Resources{}
			}
			more[name] = amount - promised[name]
		}
	}
	return more
}
