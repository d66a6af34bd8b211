// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

// PartialCancel gives back a part of what a job has: the vertices of a JGF document
// ("jgf"), or all vertices of some broker ranks, as named by an R of version 1 ("rv1exec").
// It reports whether the job has nothing left, and is gone. A reservation cannot be given
// back in part. An error changes nothing.
func (m *Matcher) PartialCancel(id uint64, format, r string) (full bool, err error) {
	m.totalPreorder, m.totalPostorder = 0, 0
	j := m.jobs[id]
	switch {
	case id == 0 || j == nil:
		return false, fmt.Errorf("partially cancelling job %d: %w", id, ErrNotFound)
	case j.reserved:
		return false, fmt.Errorf("partially cancelling job %d: %w: it is a reservation", id, ErrInvalid)
	}
	var vertices []int32
	switch format {
	case "jgf":
		_, vertices, err = m.readJGF(r)
	case "rv1exec":
		vertices, err = m.verticesOfRanks(r)
	default:
		err = fmt.Errorf("%w: there is no format %q to read R", ErrInvalid, format)
	}
	if err != nil {
		return false, fmt.Errorf("partially cancelling job %d: %w", id, err)
	}
	if !slices.ContainsFunc(vertices, j.hasPool) {
		return false, fmt.Errorf("partially cancelling job %d: %w: it has none of the resources", id, ErrInvalid)
	}
	m.giveBack(j, vertices)
	if full = !slices.ContainsFunc(j.holds, func(h hold) bool { return !h.gone }); full {
		m.forget(id)
	}
	return full, nil
}

// readJGF reads a JGF document, and finds the vertices of its nodes in the graph.
func (m *Matcher) readJGF(text string) (doc *jgfList, vertices []int32, err error) {
	doc = &jgfList{}
	if err := parseJGF(strings.NewReader(text), doc); err != nil {
		return nil, nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	for i := range doc.vertices {
		v, err := m.same(&doc.vertices[i].spec)
		if err != nil {
			return nil, nil, err
		}
		vertices = append(vertices, v)
	}
	return doc, vertices, nil
}

// same finds the vertex that a document describes.
func (m *Matcher) same(spec *vertexSpec) (int32, error) {
	v := m.graph.find(spec.Path, spec.Rank)
	if v == none {
		return none, fmt.Errorf("%w: there is no vertex %s of rank %d", ErrInvalid, spec.Path, spec.Rank)
	}
	x := &m.graph.vertices[v]
	if m.graph.kinds[x.kind] != spec.Type || x.basename != spec.Basename || x.name != spec.Name ||
		x.size != spec.Size || x.id != spec.ID {
		return none, fmt.Errorf("%w: the vertex %s is not the same: type %s, basename %s, size %d, id %d, name %s",
			ErrInvalid, spec.Path, m.graph.kinds[x.kind], x.basename, x.size, x.id, x.name)
	}
	return v, nil
}

func (m *Matcher) verticesOfRanks(text string) ([]int32, error) {
	groups, err := parseExecution(text)
	if err != nil {
		return nil, err
	}
	var vertices []int32
	m.graph.below(m.graph.root, func(v int32) {
		root := v // a vertex without a rank belongs to the vertex above
		for m.graph.vertices[root].rank < 0 && m.graph.vertices[root].parent != none {
			root = m.graph.vertices[root].parent
		}
		if slices.ContainsFunc(groups, func(g ranked) bool { return g.ranks.Has(int64(m.graph.vertices[root].rank)) }) {
			vertices = append(vertices, v)
		}
	})
	return vertices, nil
}

// hasPool reports whether a job has a vertex, and not only others below the vertex.
func (j *job) hasPool(v int32) bool {
	h := j.holdOf(v)
	return h != nil && h.pool
}

// giveBack takes vertices off a job, and their units off the filters above.
func (m *Matcher) giveBack(j *job, vertices []int32) {
	for _, v := range vertices {
		if !j.hasPool(v) {
			continue
		}
		x := &m.graph.vertices[v]
		m.release(j, j.holdOf(v))
		for p := x.parent; p != none; p = m.graph.vertices[p].parent {
			m.reduce(j, p, x.kind, x.size)
		}
	}
	m.releasePaths(j, vertices)
}

// releasePaths releases the vertices of a job that are above none of its pools any more:
// those that were named, and those whose filter counted something. As with Fluxion, the
// others stay in use until the job is cancelled.
func (m *Matcher) releasePaths(j *job, named []int32) {
	given := make(map[int32]bool, len(named))
	for _, v := range named {
		given[v] = true
	}
	leads := map[int32]bool{}
	for i := range j.holds {
		if h := &j.holds[i]; h.gone || !h.pool {
			continue
		}
		for p := m.graph.vertices[j.holds[i].vertex].parent; p != none && !leads[p]; p = m.graph.vertices[p].parent {
			leads[p] = true
		}
	}
	for i := range j.holds {
		if h := &j.holds[i]; !h.gone && !h.pool && !leads[h.vertex] && (given[h.vertex] || h.counts != none) {
			m.release(j, h)
		}
	}
}

// reduce takes units of a type off the filter of a vertex, as far as the job has them
// there.
func (m *Matcher) reduce(j *job, v int32, k kind, units int64) {
	h := j.holdOf(v)
	if h == nil || h.counts == none || units == 0 {
		return
	}
	x := &m.graph.vertices[v]
	filter := m.graph.filters[x.kind]
	i := slices.Index(filter, k)
	if i < 0 {
		return
	}
	counts := j.counts[h.counts:][:len(filter)]
	units = min(units, counts[i])
	counts[i] -= units
	amounts := make([]int64, filterDims+len(filter))
	amounts[filterDims+i] = units
	m.graph.plans[x.plan].reduce(j.from, j.until, amounts)
}

// Update gives a job the resources of an R, as after a restart. The R is a JGF document,
// bare or under the key "scheduling" ("jgf"), or an R of version 1 alone ("rv1exec"). With
// "jgf_shorthand", all vertices below an exclusive vertex belong to the document. The job
// starts at a time and has a duration, in seconds. An error changes nothing.
func (m *Matcher) Update(id uint64, format, r string, at, duration int64) (*Match, error) {
	if m.jobs[id] != nil {
		return nil, fmt.Errorf("updating job %d: %w", id, ErrExists)
	}
	if at < 0 || duration <= 0 || at >= graphEnd {
		return nil, fmt.Errorf("updating job %d: %w: it cannot start at %d s and last %d s", id, ErrInvalid, at, duration)
	}
	until := at + min(duration, graphEnd-at)
	m.sequence++
	m.compiled = compiledSpec{} // so that no type is exclusive
	var named []int32
	var exclusive bool
	var err error
	switch format {
	case "jgf", "jgf_shorthand":
		named, exclusive, err = m.markJGF(r, format == "jgf_shorthand")
	case "rv1exec":
		named, err = m.markRanks(r)
	default:
		err = fmt.Errorf("%w: there is no format %q to read R", ErrInvalid, format)
	}
	if err == nil {
		err = m.checkFree(named, exclusive, at, until)
	}
	if err != nil {
		return nil, fmt.Errorf("updating job %d: %w", id, err)
	}
	u := &update{Matcher: m, whole: true, job: &job{id: id, from: at, until: until, later: at > 0}}
	u.run(m.graph.vertices[m.graph.root].size, exclusive)
	m.remember(u.job)
	return &Match{At: at, Duration: until - at, id: id, graph: m.graph, emissions: u.out}, nil
}

// checkFree refuses marked vertices of which another job has something, and named vertices
// without all the vertices above them.
func (m *Matcher) checkFree(named []int32, exclusive bool, from, until int64) error {
	u := &update{Matcher: m, whole: true, dry: true}
	u.run(m.graph.vertices[m.graph.root].size, exclusive)
	s := &search{Matcher: m, from: from, until: until}
	told := map[int32]bool{}
	for _, e := range u.out {
		told[e.vertex] = true
		if !s.takable(e) {
			return fmt.Errorf("%w: %s is taken", ErrInvalid, m.graph.path(e.vertex))
		}
	}
	for _, v := range named {
		if !told[v] {
			return fmt.Errorf("%w: not all that leads from the root to %s is named", ErrInvalid, m.graph.path(v))
		}
	}
	if len(named) == 0 {
		return fmt.Errorf("%w: it names no resources", ErrInvalid)
	}
	return nil
}

// takable reports whether an emission is free during the window.
func (s *search) takable(e emission) bool {
	x := &s.graph.vertices[e.vertex]
	if s.avail(x) < x.size {
		return false
	}
	return !e.exclusive || x.plan == none || s.graph.plans[x.plan].peak(s.graph.dims(x), jobsDim, s.from, s.until) == 0
}

// markJGF marks the vertices of a document, and returns those that a job would hold.
func (m *Matcher) markJGF(text string, shorthand bool) (named []int32, exclusive bool, err error) {
	doc, vertices, err := m.readJGF(schedulingOf(text))
	if err != nil {
		return nil, false, err
	}
	s := &search{Matcher: m}
	index := map[string]int32{}
	for i, v := range vertices {
		id, spec := doc.vertices[i].id, &doc.vertices[i].spec
		if _, twice := index[id]; twice {
			return nil, false, fmt.Errorf("%w: two nodes have the id %q", ErrInvalid, id)
		}
		index[id] = v
		s.mark(v, spec.Size, spec.Exclusive)
		if !spec.Exclusive {
			continue
		}
		exclusive = exclusive || v == m.graph.root
		named = append(named, v)
		if shorthand {
			m.graph.below(v, func(u int32) { s.mark(u, m.graph.vertices[u].size, true) })
		}
	}
	return named, exclusive, m.sameEdges(doc.edges, index)
}

// sameEdges refuses edges that the graph does not have.
func (m *Matcher) sameEdges(edges [][2]string, index map[string]int32) error {
	for _, e := range edges {
		source, found := index[e[0]]
		target, foundToo := index[e[1]]
		if !found || !foundToo || m.graph.vertices[target].parent != source {
			return fmt.Errorf("%w: the graph has no edge from %q to %q", ErrInvalid, e[0], e[1])
		}
	}
	return nil
}

// markRanks marks the cores and GPUs that an R gives by rank, and the vertices above them.
// A node is exclusive if the R gives all of it.
func (m *Matcher) markRanks(text string) (named []int32, err error) {
	groups, err := parseExecution(text)
	if err != nil {
		return nil, err
	}
	s := &search{Matcher: m}
	roots := m.graph.rootsByRank()
	ranks := slices.Sorted(maps.Keys(roots))
	for _, g := range groups {
		found := int64(0)
		for _, rank := range ranks {
			if !g.ranks.Has(rank) {
				continue
			}
			found++
			marked, err := s.markRank(roots[rank][0], g.children)
			if err != nil {
				return nil, err
			}
			named = append(named, marked...)
		}
		if found < g.ranks.Len() {
			return nil, fmt.Errorf("%w: of the ranks %s there are only %d", ErrInvalid, g.ranks, found)
		}
	}
	return named, nil
}

// markRank marks the leaves below a node by type and id.
func (s *search) markRank(node int32, children map[string]idset.Set) (marked []int32, err error) {
	all := 0
	found := map[string]map[int64]bool{}
	s.graph.below(node, func(v int32) {
		x := &s.graph.vertices[v]
		if x.first != none {
			return
		}
		all++
		typeName := s.graph.kinds[x.kind]
		if !children[typeName].Has(x.id) {
			return
		}
		if found[typeName] == nil {
			found[typeName] = map[int64]bool{}
		}
		found[typeName][x.id] = true
		marked = append(marked, v)
		s.mark(v, x.size, true)
		s.markPath(v)
	})
	for typeName, ids := range children {
		if n := int64(len(found[typeName])); n < ids.Len() {
			return nil, fmt.Errorf("%w: %s has only %d of %s %s", ErrInvalid, s.graph.path(node), n, typeName, ids)
		}
	}
	if len(marked) == all {
		s.mark(node, s.graph.vertices[node].size, true)
	}
	return marked, nil
}
