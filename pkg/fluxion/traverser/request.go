// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"math"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion/jobspec"
)

// unknownKind is that of a type which no vertex has.
const unknownKind kind = math.MaxUint16

// request is a resource of a jobspec, in terms of one tree.
type request struct {
	kind      kind
	count     jobspec.Count
	most      uint32 // the largest allowed count
	exclusive jobspec.Exclusive
	with      []*request
	label     string
	// least are the units of each pruned type that one of it has below it.
	least map[kind]int64
	// needs is least as the filter of each kind of vertex has it; nil: not made yet.
	needs [][]int64
}

// compile turns resources into requests, and adds up in total what they need at
// the least of each type that filters count.
func (m *Matcher) compile(resources []jobspec.Resource, total map[kind]int64) []*request {
	var requests []*request
	for i := range resources {
		resource := &resources[i]
		r := &request{
			kind: unknownKind, count: resource.Count, most: resource.Count.EffectiveMax(),
			exclusive: resource.Exclusive, label: resource.Label,
			least: map[kind]int64{}, needs: make([][]int64, len(m.graph.kinds)),
		}
		if k, known := m.graph.kindIndex[resource.Type]; known {
			r.kind = k
		}
		least := int64(resource.Count.Min)
		if m.prunes(r.kind) {
			total[r.kind] += least
		}
		r.with = m.compile(resource.With, r.least)
		for k, n := range r.least {
			total[k] += least * n
		}
		requests = append(requests, r)
	}
	return requests
}

// filterNeeds are the least amounts, in the order of a vertex's filter.
func (r *request) filterNeeds(g *Graph, k kind) []int64 {
	if r.needs[k] == nil {
		filter := g.filters[k]
		r.needs[k] = make([]int64, len(filter))
		for i, counted := range filter {
			r.needs[k][i] = r.least[counted]
		}
	}
	return r.needs[k]
}
