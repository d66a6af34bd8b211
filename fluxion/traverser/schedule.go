// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

// schedule finds the time and the vertices of a job. Needs is how many units of the root
// the job gets.
func (s *search) schedule(op Op, now, duration int64, exclusive bool) (at, needs int64, err error) {
	if err := s.feasible(op, now, duration); err != nil {
		return 0, 0, err
	}
	requests := s.compiled.requests
	s.from, s.until, s.now = now, now+duration, true
	if needs, err = s.run(requests, exclusive); err == nil {
		s.totalPreorder, s.totalPostorder = s.preorder, s.postorder
		return now, needs, nil
	}
	switch op {
	case AllocateWithSatisfiability:
		return 0, 0, s.everPossible(exclusive, true)
	case AllocateOrElseReserve, WithoutAllocatingFuture:
		s.now = false
		root := &s.graph.vertices[s.graph.root]
		for at := range s.times(root, now+1) {
			s.from, s.until = at, at+duration
			if !s.enough(root, s.compiled.rootNeeds) {
				continue
			}
			needs, err = s.run(requests, exclusive)
			s.totalPreorder += s.preorder
			s.totalPostorder += s.postorder
			if err == nil {
				return at, needs, nil
			}
		}
		return 0, 0, s.everPossible(exclusive, false)
	}
	return 0, 0, ErrBusy
}

// everPossible is ErrBusy if an idle graph could satisfy the request, and else
// ErrUnsatisfiable.
func (s *search) everPossible(exclusive, tell bool) error {
	s.ignoring, s.now = true, false
	_, err := s.run(s.compiled.requests, exclusive)
	if tell {
		s.totalPreorder += s.preorder
		s.totalPostorder += s.postorder
	}
	if err != nil {
		return unavailable(err)
	}
	return ErrBusy
}

// times are the times, from a time on, at which a job starts or ends on a vertex.
func (s *search) times(v *vertex, from int64) func(yield func(int64) bool) {
	return func(yield func(int64) bool) {
		if v.plan == none {
			return
		}
		points := s.graph.plans[v.plan].points
		for i := s.graph.plans[v.plan].search(from); i < len(points); i++ {
			if at := points[i].at; at >= graphEnd || !yield(at) {
				return
			}
		}
	}
}

// feasible refuses a request early if too few nodes are up, or if its constraint allows too
// few.
func (s *search) feasible(op Op, now, duration int64) error {
	nodes := s.compiled.total[nodeKind]
	ever := op == AllocateWithSatisfiability
	if nodes <= s.graph.nodesUp && (s.constraint == nil || s.enoughAllowed(nodes, op, now, duration)) {
		return nil
	}
	if ever {
		return ErrUnsatisfiable
	}
	return ErrBusy
}

// enoughAllowed reports whether the constraint allows so many free nodes: now, or at the
// end of the graph for operations that may wait.
func (s *search) enoughAllowed(nodes int64, op Op, now, duration int64) bool {
	at := graphEnd - 1
	if op == Allocate || op == WithoutAllocating {
		at = now
	}
	s.from, s.until = at, at+duration
	for v := range s.graph.vertices {
		if nodes <= 0 {
			return true
		}
		x := &s.graph.vertices[v]
		up := !x.down || op == AllocateWithSatisfiability
		if x.kind == nodeKind && !x.gone && up && s.allows(int32(v), x) && s.avail(x) == 1 {
			nodes--
		}
	}
	return nodes <= 0
}
