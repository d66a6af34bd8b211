// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"fmt"
	"io"
	"slices"
	"strings"
)

// Attach adds the vertices of a JGF document that the graph does not have. What it
// has, by path and rank, is left as it is. An error changes nothing.
func (m *Matcher) Attach(r io.Reader) error {
	grown := m.tree.clone()
	if err := grown.addJGF(r); err != nil {
		return fmt.Errorf("attaching a subgraph: %w: %w", ErrInvalid, err)
	}
	*m.tree = *grown
	m.replant()
	return nil
}

// Remove cuts off the vertex of a path, and what is below it. Jobs lose what they
// have there.
func (m *Matcher) Remove(path string) error {
	vertices := m.tree.at(path)
	switch {
	case len(vertices) == 0:
		return fmt.Errorf("removing %s: %w", path, ErrNotFound)
	case slices.Contains(vertices, m.tree.root):
		return fmt.Errorf("removing %s: %w: it is the root", path, ErrInvalid)
	}
	m.cutOff(vertices[len(vertices)-1:])
	return nil
}

// RemoveRanks cuts off the topmost vertices of broker ranks, and what is below
// them. Jobs lose what they have there.
func (m *Matcher) RemoveRanks(ranks []int64) error {
	roots := m.tree.rankRoots(ranks)
	for _, rank := range ranks {
		if !slices.ContainsFunc(roots, func(v int32) bool { return int64(m.tree.vertices[v].rank) == rank }) {
			return fmt.Errorf("removing ranks: rank %d: %w", rank, ErrNotFound)
		}
	}
	if slices.Contains(roots, m.tree.root) {
		return fmt.Errorf("removing ranks: %w: the root has one of them", ErrInvalid)
	}
	m.cutOff(roots)
	return nil
}

// cutOff removes subtrees; jobs lose what they have there, and stay, if only in
// name, until they are cancelled.
func (m *Matcher) cutOff(vertices []int32) {
	var all []int32
	for _, v := range vertices {
		m.tree.below(v, func(u int32) { all = append(all, u) })
	}
	for _, j := range m.jobs {
		m.giveBack(j, all)
	}
	for _, u := range all {
		m.tree.vertices[u].gone = true
	}
	for _, v := range vertices {
		parent := m.tree.vertices[v].parent
		m.tree.unlink(v)
		if children, ordered := m.ordered[parent]; ordered {
			m.ordered[parent] = slices.DeleteFunc(children, func(c int32) bool { return c == v })
		}
	}
	m.replant()
}

// replant counts anew after the tree has changed.
func (m *Matcher) replant() {
	for parent, children := range m.ordered {
		for c := m.tree.vertices[parent].first; c != none; c = m.tree.vertices[c].next {
			if !slices.Contains(children, c) {
				children = append(children, c)
			}
		}
		slices.SortFunc(children, m.freer)
		m.ordered[parent] = children
	}
	m.prime()
}

// PartialCancel gives back a part of what a job has: the vertices of a JGF document
// ("jgf"), or all of some broker ranks, as an R of version 1 names them ("rv1exec").
// It reports whether nothing is left, and the job gone. A reservation cannot be
// given back in parts. An error changes nothing.
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
		vertices, err = m.verticesOf(r)
	case "rv1exec":
		vertices, err = m.verticesOfRanks(r)
	default:
		err = fmt.Errorf("%w: there is no format %q to read R", ErrInvalid, format)
	}
	if err != nil {
		return false, fmt.Errorf("partially cancelling job %d: %w", id, err)
	}
	if m.giveBack(j, vertices) == 0 {
		return false, fmt.Errorf("partially cancelling job %d: %w: it has none of the resources", id, ErrInvalid)
	}
	if full = m.isEmpty(j); full {
		m.forget(id)
	}
	return full, nil
}

// verticesOf are those that a JGF document names, except what it only passes
// through.
func (m *Matcher) verticesOf(text string) ([]int32, error) {
	doc := &jgfList{}
	if err := parseJGF(strings.NewReader(text), doc); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	var vertices []int32
	for i := range doc.vertices {
		v, err := m.same(&doc.vertices[i])
		if err != nil {
			return nil, err
		}
		vertices = append(vertices, v)
	}
	return vertices, nil
}

// same finds the vertex that a document describes.
func (m *Matcher) same(described *jgfSpec) (int32, error) {
	spec := &described.spec
	v := m.tree.find(spec.Path, spec.Rank)
	if v == none {
		return none, fmt.Errorf("%w: there is no vertex %s of rank %d", ErrInvalid, spec.Path, spec.Rank)
	}
	x := &m.tree.vertices[v]
	if m.tree.kinds[x.kind] != spec.Type || x.basename != spec.Basename || x.size != spec.Size && !x.divisible || x.id != spec.ID || x.name != spec.Name {
		return none, fmt.Errorf("%w: the vertex %s is not the same: type %s, basename %s, size %d, id %d, name %s",
			ErrInvalid, spec.Path, m.tree.kinds[x.kind], x.basename, x.size, x.id, x.name)
	}
	return v, nil
}

func (m *Matcher) verticesOfRanks(text string) ([]int32, error) {
	ranks, err := ranksOf(text)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	var vertices []int32
	for _, root := range m.tree.rankRoots(ranks) {
		m.tree.below(root, func(v int32) { vertices = append(vertices, v) })
	}
	return vertices, nil
}

// giveBack takes vertices off a job, and their units off what is counted above
// them. It returns how many of them the job had.
func (m *Matcher) giveBack(j *job, vertices []int32) int {
	given := 0
	for _, v := range vertices {
		h := j.holdOf(v)
		if h == nil || !h.pool && h.counts != none {
			continue
		}
		given++
		x := &m.tree.vertices[v]
		units := m.counted(x, h)
		m.release(j, h)
		for p := x.parent; p != none; p = m.tree.vertices[p].parent {
			m.reduce(j, p, x.kind, units)
		}
	}
	for i := range j.holds { // what only leads to what was given back
		if h := &j.holds[i]; !h.gone && !h.pool && h.counts != none && m.countless(j, h) {
			m.release(j, h)
		}
	}
	return given
}

// counted are the units of a hold that filters above it count.
func (m *Matcher) counted(x *vertex, h *hold) int64 {
	switch {
	case !h.pool || !m.prunes(x.kind):
		return 0
	case x.divisible:
		return h.units
	}
	return x.size
}

// reduce takes units of a type off what a job has counted at a vertex.
func (m *Matcher) reduce(j *job, v int32, k kind, units int64) {
	h := j.holdOf(v)
	if h == nil || h.counts == none || units == 0 {
		return
	}
	x := &m.tree.vertices[v]
	filter := m.tree.filters[x.kind]
	i := slices.Index(filter, k)
	if i < 0 {
		return
	}
	counts := j.counts[h.counts:][:len(filter)]
	units = min(units, counts[i])
	counts[i] -= units
	amounts := make([]int64, filterDims+len(filter))
	amounts[filterDims+i] = units
	m.tree.plans[x.plan].reduce(j.from, j.until, amounts)
}

func (m *Matcher) countless(j *job, h *hold) bool {
	filter := m.tree.filters[m.tree.vertices[h.vertex].kind]
	return !slices.ContainsFunc(j.counts[h.counts:][:len(filter)], func(n int64) bool { return n > 0 })
}

func (m *Matcher) isEmpty(j *job) bool {
	return !slices.ContainsFunc(j.holds, func(h hold) bool { return !h.gone })
}

// Update gives a job the resources that an R names, as after a restart: a JGF
// document, bare or as the scheduling key of an R ("jgf"; "jgf_shorthand": what is
// below an exclusive vertex goes with it), or an R of version 1 alone ("rv1exec").
// From at, in seconds, for a duration. An error changes nothing.
func (m *Matcher) Update(id uint64, format, r string, at, duration int64) (*Match, error) {
	if m.jobs[id] != nil {
		return nil, fmt.Errorf("updating job %d: %w", id, ErrExists)
	}
	if at < 0 || duration <= 0 || at >= graphEnd {
		return nil, fmt.Errorf("updating job %d: %w: it cannot start at %d s and last %d s", id, ErrInvalid, at, duration)
	}
	m.sequence++
	m.exclusiveKinds = m.exclusiveKinds[:0]
	var rootNeeds int64
	var exclusive bool
	var err error
	switch format {
	case "jgf", "jgf_shorthand":
		rootNeeds, exclusive, err = m.markJGF(r, format == "jgf_shorthand", at, at+duration)
	case "rv1exec":
		rootNeeds, err = m.markRanks(r, at, at+duration)
	default:
		err = fmt.Errorf("%w: there is no format %q to read R", ErrInvalid, format)
	}
	if err != nil {
		return nil, fmt.Errorf("updating job %d: %w", id, err)
	}
	u := &update{Matcher: m, whole: true, job: &job{id: id, from: at, until: at + duration}}
	u.run(rootNeeds, exclusive)
	m.remember(u.job)
	return &Match{ID: id, At: at, Duration: duration, tree: m.tree, emissions: u.out}, nil
}

// markJGF marks what a document names.
func (m *Matcher) markJGF(text string, shorthand bool, from, until int64) (needs int64, exclusive bool, err error) {
	doc := &jgfList{}
	if err := parseJGF(strings.NewReader(schedulingOf(text)), doc); err != nil {
		return 0, false, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	s := &search{Matcher: m, from: from, until: until}
	index := map[string]int32{}
	for i := range doc.vertices {
		described := &doc.vertices[i]
		v, err := m.same(described)
		if err != nil {
			return 0, false, err
		}
		index[described.id] = v
		needed := m.tree.vertices[v].size
		if m.tree.vertices[v].divisible {
			needed = described.spec.Size
		}
		if s.avail(&m.tree.vertices[v]) < needed {
			return 0, false, fmt.Errorf("%w: %s is taken", ErrInvalid, described.spec.Path)
		}
		if v == m.tree.root {
			needs, exclusive = described.spec.Size, described.spec.Exclusive
		}
		s.mark(v, described.spec.Size, described.spec.Exclusive)
		if shorthand && described.spec.Exclusive {
			m.tree.below(v, func(u int32) { s.mark(u, m.tree.vertices[u].size, true) })
		}
	}
	for _, e := range doc.edges {
		source, found := index[e[0]]
		target, foundToo := index[e[1]]
		if !found || !foundToo || m.tree.vertices[target].parent != source {
			return 0, false, fmt.Errorf("%w: the graph has no edge from %q to %q", ErrInvalid, e[0], e[1])
		}
	}
	return needs, exclusive, nil
}

// markRanks marks the cores and GPUs that an R gives by rank. A node of which it
// gives all is exclusive.
func (m *Matcher) markRanks(text string, from, until int64) (needs int64, err error) {
	groups, err := parseExecution(text)
	if err != nil {
		return 0, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	s := &search{Matcher: m, from: from, until: until}
	for _, g := range groups {
		for _, rank := range g.ranks {
			roots := m.tree.rankRoots([]int64{rank})
			if len(roots) == 0 {
				return 0, fmt.Errorf("%w: there is no rank %d", ErrInvalid, rank)
			}
			if err := s.markRank(roots[0], g.children); err != nil {
				return 0, err
			}
		}
	}
	return m.tree.vertices[m.tree.root].size, nil
}

// markRank marks children of a node by type and id, and what leads to them.
func (s *search) markRank(node int32, children map[string][]int64) error {
	all, marked := 0, 0
	wanted := 0
	var err error
	for _, ids := range children {
		wanted += len(ids)
	}
	s.tree.below(node, func(v int32) {
		x := &s.tree.vertices[v]
		if x.first != none {
			return
		}
		all++
		if !slices.Contains(children[s.tree.kinds[x.kind]], x.id) {
			return
		}
		if s.avail(x) < x.size {
			err = fmt.Errorf("%w: %s is taken", ErrInvalid, s.tree.path(v))
		}
		marked++
		s.mark(v, x.size, true)
		for p := x.parent; p != none && s.tree.vertices[p].mark != s.sequence; p = s.tree.vertices[p].parent {
			s.mark(p, s.tree.vertices[p].size, false)
		}
	})
	if err == nil && marked < wanted {
		err = fmt.Errorf("%w: %s has only %d of the %d resources named", ErrInvalid, s.tree.path(node), marked, wanted)
	}
	if marked == all {
		s.mark(node, s.tree.vertices[node].size, true)
	}
	return err
}
