// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import "github.com/flux-elastic/flux-elastic/fluxion/jobspec"

// prune is the reason why the traversal does not go below a vertex; nil if it does.
func (s *search) prune(u int32, v *vertex, wanted []*request, exclusive bool, avail int64) error {
	if v.down && !s.ignoring || avail <= 0 || !s.allows(u, v) {
		return ErrBusy
	}
	for _, r := range wanted {
		if r.kind == v.kind {
			if err := s.pruneShared(v, r, exclusive); err != nil {
				return err
			}
		}
		if (r.kind == v.kind || r.kind == slotKind) && !s.enoughBelow(v, r) {
			return ErrBusy
		}
	}
	return nil
}

// pruneShared refuses a vertex that a request wants exclusively, if a job uses the vertex
// or a vertex below it.
func (s *search) pruneShared(v *vertex, r *request, exclusive bool) error {
	if exclusive && r.exclusive == jobspec.No {
		return ErrInvalid // Fluxion's rule below a slot
	}
	if !exclusive && r.exclusive != jobspec.Yes || v.plan == none {
		return nil
	}
	if s.now && v.allocations > 0 {
		return ErrBusy
	}
	if !s.ignoring && s.graph.plans[v.plan].peak(s.graph.dims(v), jobsDim, s.from, s.until) > 0 {
		return ErrBusy
	}
	return nil
}

// avail is the number of units of a pool that are free during the window.
func (s *search) avail(v *vertex) int64 {
	if v.plan == none || s.ignoring {
		return v.size
	}
	return v.size - s.graph.plans[v.plan].peak(s.graph.dims(v), poolDim, s.from, s.until)
}

// enoughBelow reports whether the pruning filter of a vertex leaves room for what one
// vertex of the request needs below it.
func (s *search) enoughBelow(v *vertex, r *request) bool {
	return v.totals == none || len(r.least) == 0 || s.enough(v, r.filterNeeds(s.graph, v.kind))
}

// enough reports whether the pruning filter of a vertex leaves room for needs during the
// window. A vertex without a filter does.
func (s *search) enough(v *vertex, needs []int64) bool {
	if v.totals == none {
		return true
	}
	totals := s.graph.totals[v.totals:][:len(needs)]
	for i, need := range needs {
		if need > totals[i] {
			return false
		}
	}
	return v.plan == none || s.ignoring ||
		s.graph.plans[v.plan].fits(filterDims+len(needs), needs, totals, s.from, s.until)
}

// open reports whether the traversal goes below a vertex that the request leaves out.
func (s *search) open(v int32) bool {
	x := &s.graph.vertices[v]
	return (!x.down || s.ignoring) && s.avail(x) > 0 && s.allows(v, x)
}

// allows reports whether the constraint allows a vertex. Constraints are about nodes.
func (s *search) allows(u int32, v *vertex) bool {
	isNode := v.kind == nodeKind || v.kind == storageNodeKind
	return s.constraint == nil || !isNode || s.constraint.Match(target{s.graph, u})
}

// target is a vertex that a constraint is matched with.
type target struct {
	graph  *Graph
	vertex int32
}

func (t target) Name() string { return t.graph.vertices[t.vertex].name }

func (t target) Rank() int64 { return int64(t.graph.vertices[t.vertex].rank) }

func (t target) HasProperty(name string) bool {
	_, has := t.graph.properties[t.vertex][name]
	return has
}
