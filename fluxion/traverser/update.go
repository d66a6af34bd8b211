// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"cmp"
	"maps"
	"slices"
)

// emission is a vertex in the output of a match. Emissions are in post-order, and an edge
// to a vertex follows the vertices below it.
type emission struct {
	vertex int32
	depth  int16
	// exclusive is true if the job has the vertex exclusively, and inside if the job has a
	// vertex above exclusively.
	exclusive, inside bool
	needs             int64
}

// update visits the marked vertices from the root. It makes the output, and holds the
// vertices for a job. Where the policy or the jobspec makes a type exclusive, all vertices
// below a vertex of that type are held as well.
type update struct {
	*Matcher
	job *job // nil for output alone
	// dry is true if nothing may change, not even the weights.
	dry bool
	// whole is true for an R that is read back: an exclusive vertex takes all of its pool.
	whole bool
	now   int64
	out   []emission
	depth int16
}

// give makes the output of a match, and holds the vertices for its job.
func (m *Matcher) give(match *Match, op Op, now, needs int64, exclusive bool) {
	u := &m.scratch.update
	*u = update{Matcher: m, now: now}
	if op != WithoutAllocating && op != WithoutAllocatingFuture {
		u.job = &job{
			id: match.id, from: match.At, until: match.At + match.Duration, reserved: match.Reserved, later: match.Reserved,
			holds: m.scratch.holds[:0], counts: m.scratch.held[:0],
		}
	}
	u.out = m.scratch.out[:0]
	u.run(needs, exclusive)
	match.emissions = slices.Clone(u.out)
	m.scratch.out = u.out
	if len(m.scratch.labels) > 0 {
		match.labels = maps.Clone(m.scratch.labels)
	}
	if u.job != nil && len(u.out) > 0 {
		m.scratch.holds, m.scratch.held = u.job.holds, u.job.counts
		u.job.holds, u.job.counts = slices.Clone(u.job.holds), slices.Clone(u.job.counts)
		m.remember(u.job)
	}
}

// run visits the tree from the root.
func (u *update) run(rootNeeds int64, exclusive bool) {
	root := u.graph.root
	shadow := u.exclusiveKind(u.graph.vertices[root].kind)
	u.counts = u.counts[:0]
	u.visit(root, rootNeeds, exclusive, shadow, false)
}

func (m *Matcher) exclusiveKind(k kind) bool {
	return k == nodeKind && m.policy.nodeExclusive || slices.Contains(m.compiled.exclusive, k)
}

// visit returns the number of exclusive vertices at v and below. It adds their units to the
// counts of the parent, which are on top of the stack.
func (u *update) visit(v int32, needs int64, exclusive, shadow, inside bool) int {
	shadow = shadow || u.exclusiveKind(u.graph.vertices[v].kind)
	exclusive = exclusive || shadow
	parent := len(u.counts) - len(u.pruned)
	u.counts = append(u.counts, u.zeros...)
	u.depth++
	n := 0
	for c := u.graph.vertices[v].first; c != none; c = u.graph.vertices[c].next {
		child := &u.graph.vertices[c]
		if !shadow && child.mark != u.sequence {
			continue
		}
		childNeeds, childExclusive := child.needs, child.exclusive
		if shadow {
			childNeeds, childExclusive = child.size, true
		}
		if below := u.visit(c, childNeeds, childExclusive, shadow, exclusive); below > 0 {
			if u.policy.stopEarly && !u.dry {
				u.reweigh(v, c)
			}
			n += below
		}
	}
	if exclusive {
		n++
	}
	if n > 0 {
		u.grant(v, needs, exclusive, parent)
		u.out = append(u.out, emission{v, u.depth, exclusive, inside, needs})
	}
	u.depth--
	u.counts = u.counts[:len(u.counts)-len(u.pruned)]
	return n
}

// grant holds a vertex for the job, and counts it for the parent.
func (u *update) grant(v int32, needs int64, exclusive bool, parent int) {
	if u.job == nil {
		return
	}
	x := &u.graph.vertices[v]
	counts := u.counts[len(u.counts)-len(u.pruned):]
	h := hold{vertex: v, counts: none}
	if exclusive {
		h.pool, h.units = true, needs
		if u.whole {
			h.units = x.size
		}
	}
	if x.totals != none && slices.ContainsFunc(counts, func(n int64) bool { return n != 0 }) {
		h.counts = int32(len(u.job.counts))
		for _, k := range u.graph.filters[x.kind] {
			u.job.counts = append(u.job.counts, counts[u.prunedIndex[k]])
		}
	}
	u.job.holds = append(u.job.holds, h)
	u.hold(u.job, &u.job.holds[len(u.job.holds)-1])
	if parent < 0 {
		return
	}
	up := u.counts[parent:][:len(u.pruned)]
	for i, n := range counts {
		up[i] += n
	}
	if i := u.prunedIndex[x.kind]; i >= 0 {
		up[i] += x.size
		if !exclusive {
			up[i] -= needs
		}
	}
}

// byWeight are the children of a vertex, the freest first. The weight of a child is what
// was free of the last pruned type when the child was last given. Children that were never
// given come first. For equal weights, the highest unique id comes first.
func (m *Matcher) byWeight(v int32) []int32 {
	if children, known := m.ordered[v]; known {
		return children
	}
	var children []int32
	for c := m.graph.vertices[v].first; c != none; c = m.graph.vertices[c].next {
		children = append(children, c)
	}
	slices.SortFunc(children, m.freer)
	m.ordered[v] = children
	return children
}

func (m *Matcher) freer(a, b int32) int {
	x, y := &m.graph.vertices[a], &m.graph.vertices[b]
	return cmp.Or(cmp.Compare(y.weight, x.weight), cmp.Compare(y.uniq, x.uniq), cmp.Compare(a, b))
}

// reweigh moves a child to its place by weight, after it was given.
func (u *update) reweigh(v, c int32) {
	x := &u.graph.vertices[c]
	if x.totals == none {
		return
	}
	filter := u.graph.filters[x.kind]
	last := len(filter) - 1
	avail := u.graph.totals[int(x.totals)+last]
	if x.plan != none {
		avail -= u.graph.plans[x.plan].now(filterDims+len(filter), filterDims+last, u.now)
	}
	switch {
	case u.whole: // Fluxion reads an R back without a time
		avail = 0
	case avail == 0 && x.filtered == 0:
		return
	}
	if x.weight == uint64(avail) {
		return
	}
	children := u.byWeight(v)
	i, _ := slices.BinarySearchFunc(children, c, u.freer)
	x.weight = uint64(avail)
	j := i
	for ; j > 0 && u.freer(c, children[j-1]) < 0; j-- {
		children[j] = children[j-1]
	}
	for ; j+1 < len(children) && u.freer(c, children[j+1]) > 0; j++ {
		children[j] = children[j+1]
	}
	children[j] = c
}
