// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import "github.com/flux-elastic/flux-elastic/fluxion/jobspec"

// request is a resource of a jobspec, compiled for one graph.
type request struct {
	kind      kind
	count     jobspec.Count
	most      uint32 // the largest allowed count
	exclusive jobspec.Exclusive
	with      []*request
	label     string
	// least are the amounts of each pruned type that each vertex needs below it at least.
	least map[kind]int64
	// needs are these amounts in the order of the filter of each kind of vertex; nil until
	// they are needed.
	needs [][]int64
}

// compiledSpec is the last jobspec, because many are matched again and again.
type compiledSpec struct {
	spec     *jobspec.Jobspec
	shape    uint64
	requests []*request
	// exclusive are the types that the jobspec requests exclusively. A job holds all that
	// is below a vertex of such a type.
	exclusive []kind
	total     map[kind]int64
	// rootNeeds are the least amounts in total, in the order of the root's filter.
	rootNeeds []int64
}

// prepare compiles a jobspec, unless it was the last one.
func (m *Matcher) prepare(spec *jobspec.Jobspec) {
	if c := &m.compiled; c.spec != spec || c.shape != m.graph.shape {
		*c = compiledSpec{spec: spec, shape: m.graph.shape, total: map[kind]int64{}}
		c.requests = m.compile(spec.Resources, c.total)
		c.rootNeeds = m.rootNeeds(c.requests)
	}
}

// compile turns resources into requests. It adds to total the least amounts of each type
// that the filters count.
func (m *Matcher) compile(resources []jobspec.Resource, total map[kind]int64) []*request {
	var requests []*request
	for i := range resources {
		resource := &resources[i]
		r := &request{
			kind: m.graph.kindIndex[resource.Type], count: resource.Count, most: resource.Count.EffectiveMax(),
			exclusive: resource.Exclusive, label: resource.Label,
			least: map[kind]int64{}, needs: make([][]int64, len(m.graph.kinds)),
		}
		if r.exclusive == jobspec.Yes {
			m.compiled.exclusive = append(m.compiled.exclusive, r.kind)
		}
		least := int64(resource.Count.Min)
		if m.prunedIndex[r.kind] >= 0 {
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

// filterNeeds are the least amounts below a vertex, in the order of its filter.
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

// rootNeeds are the least amounts below the root, in the order of its filter.
func (m *Matcher) rootNeeds(requests []*request) []int64 {
	root := m.graph.vertices[m.graph.root].kind
	var needs []int64
	for _, k := range m.graph.filters[root] {
		need := int64(0)
		for _, r := range requests {
			count := int64(r.count.Min)
			if r.kind == root {
				count = 1
			}
			if need += count * r.least[k]; r.kind == k {
				need += count
			}
		}
		needs = append(needs, need)
	}
	return needs
}

func asksExclusive(wanted []*request, k kind) bool {
	for _, r := range wanted {
		if r.kind == k && r.exclusive == jobspec.Yes {
			return true
		}
	}
	return false
}
