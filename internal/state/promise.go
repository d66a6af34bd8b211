// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

// Promise is what a MiniCluster was given: nodes by rank, "" for a rank that holds none, and what
// a broker takes of each. It holds as long as the MiniCluster needs the nodes, with or without
// pods.
type Promise struct {
	Nodes    []string
	Requests fluxion.Resources
	// End is the latest time at which the MiniCluster ends; zero if it is not known.
	End time.Time
	// Draining are the drained ranks that still hold a node.
	Draining []int
	// Rigid is true if the command runs and would end if ranks left.
	Rigid bool
	// Leaves is true if all nodes are to be given back, and the command has time to end.
	Leaves bool
}

// PromiseOf is what the admission of a MiniCluster holds; nil if the MiniCluster needs the nodes
// no longer. Ranks that gave their node back hold none.
func PromiseOf(mc *v1alpha2.MiniCluster) (*Promise, error) {
	if meta.IsStatusConditionTrue(mc.Status.Conditions, v1alpha2.ConditionFinished) {
		return nil, nil
	}
	a, err := admissionOf(mc)
	if a == nil || err != nil {
		return nil, err
	}
	p := &Promise{Nodes: a.Nodes, Requests: admitted(mc.Status.Admission), End: end(mc), Rigid: !mayShrink(mc), Leaves: a.Eviction != nil}
	for _, rank := range a.Vacated {
		p.Nodes[rank] = ""
	}
	if a.Draining != nil {
		p.Draining = slices.DeleteFunc(a.Draining.Ranks, func(rank int) bool { return !p.Holds(rank) })
	}
	return p, nil
}

// Nodes are the nodes of the MiniCluster's admission, by rank.
func Nodes(mc *v1alpha2.MiniCluster) ([]string, error) {
	if mc.Status.Admission == nil {
		return nil, nil
	}
	size := int(mc.Status.Admission.Size)
	nodes, err := hostlist.Decode(mc.Status.Admission.Nodes, size)
	if err == nil && len(nodes) != size {
		err = fmt.Errorf("%d nodes for %d brokers", len(nodes), size)
	}
	if err != nil {
		return nil, fmt.Errorf("reading status.admission.nodes: %w", err)
	}
	return nodes, nil
}

// ranks reads an idset of ranks from a field of the admission.
func ranks(field, text string, size int) ([]int, error) {
	if text == "" {
		return nil, nil
	}
	ids, err := idset.Decode(text, size)
	if err == nil && len(ids) > 0 && ids[len(ids)-1] >= int64(size) {
		err = fmt.Errorf("rank %d of %d brokers", ids[len(ids)-1], size)
	}
	if err != nil {
		return nil, fmt.Errorf("reading status.admission.%s: %w", field, err)
	}
	out := make([]int, len(ids))
	for i, id := range ids {
		out[i] = int(id)
	}
	return out, nil
}

// Holds reports whether a rank holds a node.
func (p *Promise) Holds(rank int) bool { return rank < len(p.Nodes) && p.Nodes[rank] != "" }

// Has reports whether a pod's rank holds exactly the pod's node.
func (p *Promise) Has(pod elastic.Pod) bool {
	return p.Holds(pod.Rank) && p.Nodes[pod.Rank] == pod.Node
}

// Ranks are the ranks that hold a node, rising.
func (p *Promise) Ranks() []int {
	var out []int
	for rank := range p.Nodes {
		if p.Holds(rank) {
			out = append(out, rank)
		}
	}
	return out
}

// Same reports whether both promises hold the same until the same time; nil holds nothing.
func (p *Promise) Same(other *Promise) bool {
	if p == nil || other == nil {
		return p == other
	}
	return p.End.Equal(other.End) && slices.Equal(p.Nodes, other.Nodes) && maps.Equal(p.Requests, other.Requests)
}

// With returns the promise with other or additional nodes for some ranks.
func (p *Promise) With(pods []elastic.Pod) *Promise {
	more := *p
	more.Nodes = slices.Clone(p.Nodes)
	for _, pod := range pods {
		for len(more.Nodes) <= pod.Rank {
			more.Nodes = append(more.Nodes, "")
		}
		more.Nodes[pod.Rank] = pod.Node
	}
	return &more
}
