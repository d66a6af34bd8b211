// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// Counts is what one pod of a waiting MiniCluster counts for in its queue: what the pod requests, or
// the whole node of an exclusive MiniCluster. Which node that is, is not known yet. So it is an average
// one of those that could hold the pod.
func (l *Ledger) Counts(ask state.Ask) queue.Resources {
	requests := ask.Pods.Requests
	graph, err := l.current()
	if err != nil || requests[fluxion.WholeNode] == 0 {
		return queue.Resources(requests)
	}
	ask.Avoid = nil
	gang := l.gangOf(graph, ask)
	gang.Pods.Closed = nil
	nodes := graph.Usable(gang)
	var usable []fluxion.Resources
	for i := range graph.Len() {
		if nodes.Has(i) {
			usable = append(usable, l.capacity(l.nodes[graph.Name(i)]))
		}
	}
	return average(requests, usable)
}

// CountsNow is what one pod of a MiniCluster counts for that has nodes: what it requests, or an average
// one of the nodes that an exclusive MiniCluster has, of those that Total counts if there are some.
func (l *Ledger) CountsNow(uid types.UID, requests queue.Resources) queue.Resources {
	if requests[fluxion.WholeNode] == 0 {
		return requests
	}
	var has, counts []fluxion.Resources
	if a := l.accounts[uid]; a != nil {
		for _, name := range a.nodes {
			n := l.nodes[name]
			if n == nil {
				continue
			}
			has = append(has, l.capacity(n))
			if n.counts() {
				counts = append(counts, l.capacity(n))
			}
		}
	}
	if len(counts) > 0 {
		has = counts
	}
	return average(fluxion.Resources(requests), has)
}

// average is a node of an average capacity, but no less than a pod requests, and with the place of one
// pod.
func average(requests fluxion.Resources, capacities []fluxion.Resources) queue.Resources {
	out := queue.Resources{}
	for _, capacity := range capacities {
		for name, amount := range capacity {
			out[name] += amount
		}
	}
	for name := range out {
		out[name] /= int64(len(capacities))
	}
	for name, amount := range requests {
		out[name] = max(out[name], amount)
	}
	out[fluxion.Pods] = requests[fluxion.Pods]
	delete(out, fluxion.WholeNode)
	return out
}
