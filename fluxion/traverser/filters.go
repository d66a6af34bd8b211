// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// pruning says which types the pruning filters count, for each type of anchor and for all
// anchors.
type pruning struct {
	anchored map[kind][]kind
	all      []kind
}

func parsePruning(g *Graph, text string) (pruning, error) {
	p := pruning{anchored: map[kind][]kind{}}
	for pair := range strings.SplitSeq(text, ",") {
		anchor, counted, found := strings.Cut(pair, ":")
		anchor, counted = strings.TrimSpace(anchor), strings.TrimSpace(counted)
		if !found || anchor == "" || counted == "" {
			return p, fmt.Errorf("parsing prune filters %q: %q is not ANCHOR:TYPE", text, pair)
		}
		if anchor == "ALL" {
			p.addAll(g.intern(counted))
		} else {
			p.add(g.intern(anchor), g.intern(counted))
		}
	}
	return p, nil
}

func (p *pruning) addAll(counted kind) {
	for anchor, kinds := range p.anchored {
		p.anchored[anchor] = slices.DeleteFunc(kinds, func(k kind) bool { return k == counted })
	}
	p.all = insert(p.all, counted)
}

func (p *pruning) add(anchor, counted kind) {
	if anchor != counted && !slices.Contains(p.all, counted) {
		p.anchored[anchor] = insert(p.anchored[anchor], counted)
	}
}

// insert adds a kind to sorted kinds, unless they have it.
func insert(kinds []kind, k kind) []kind {
	i, known := slices.BinarySearch(kinds, k)
	if known {
		return kinds
	}
	return slices.Insert(kinds, i, k)
}

// filter are the types that the filter of an anchor counts: first its own, then those of
// all anchors.
func (p *pruning) filter(anchor kind) []kind {
	filter := slices.Clone(p.anchored[anchor])
	for _, k := range p.all {
		if k != anchor {
			filter = append(filter, k)
		}
	}
	return filter
}

// counted are all types that some filter counts.
func (p *pruning) counted() []kind {
	counted := slices.Clone(p.all)
	for _, kinds := range p.anchored {
		for _, k := range kinds {
			counted = insert(counted, k)
		}
	}
	return counted
}

func (p *pruning) clone() pruning {
	c := pruning{anchored: maps.Clone(p.anchored), all: slices.Clone(p.all)}
	for anchor, kinds := range c.anchored {
		c.anchored[anchor] = slices.Clone(kinds)
	}
	return c
}

// prime sets the totals of all filters. The root's filter also counts the types of leaves
// that no other filter counts.
func (m *Matcher) prime() {
	g := m.graph
	g.shape++
	g.nodesUp = g.upBelow(g.root)
	m.pruned = m.pruning.counted()
	g.below(g.root, func(v int32) {
		if g.vertices[v].first == none && !slices.Contains(m.pruned, g.vertices[v].kind) {
			m.pruning.add(clusterKind, g.vertices[v].kind)
			m.pruned = append(m.pruned, g.vertices[v].kind)
		}
	})
	m.pruned = m.pruning.counted()
	m.prunedIndex = make([]int, len(g.kinds))
	for i := range m.prunedIndex {
		m.prunedIndex[i] = slices.Index(m.pruned, kind(i))
	}
	m.zeros = make([]int64, len(m.pruned))
	filters := make([][]kind, len(g.kinds))
	for k := range filters {
		filters[k] = m.pruning.filter(kind(k))
	}
	old := g.filters
	g.filters = filters
	g.totals = g.totals[:0]
	m.primeBelow(g.root, make([]int64, len(m.pruned)))
	if old != nil {
		m.refilter(old)
	}
}

// primeBelow adds the amounts at a vertex and below it to those of its parent.
func (m *Matcher) primeBelow(v int32, parent []int64) {
	g := m.graph
	x := &g.vertices[v]
	if i := m.prunedIndex[x.kind]; i >= 0 {
		parent[i] += x.size
	}
	if x.first == none {
		x.totals = none
		return
	}
	counts := make([]int64, len(m.pruned))
	for c := x.first; c != none; c = g.vertices[c].next {
		m.primeBelow(c, counts)
	}
	x.totals = none
	if filter := g.filters[x.kind]; len(filter) > 0 {
		x.totals = int32(len(g.totals))
		for _, k := range filter {
			g.totals = append(g.totals, counts[m.prunedIndex[k]])
		}
	}
	for i, n := range counts {
		parent[i] += n
	}
}

// refilter converts what jobs hold after the filters have changed: each amount keeps its
// type.
func (m *Matcher) refilter(old [][]kind) {
	for i := range m.graph.plans {
		m.graph.plans[i] = timeline{}
	}
	for _, j := range m.jobs {
		counts := []int64{}
		for i := range j.holds {
			h := &j.holds[i]
			if h.gone {
				continue
			}
			v := &m.graph.vertices[h.vertex]
			if h.counts != none {
				had := j.counts[h.counts:][:len(old[v.kind])]
				h.counts = none
				v.filtered--
				if v.totals != none {
					v.filtered++
					h.counts = int32(len(counts))
					for _, k := range m.graph.filters[v.kind] {
						amount := int64(0)
						if i := slices.Index(old[v.kind], k); i >= 0 {
							amount = had[i]
						}
						counts = append(counts, amount)
					}
				}
			}
		}
		j.counts = counts
		for i := range j.holds {
			if h := &j.holds[i]; !h.gone {
				m.graph.plans[m.graph.vertices[h.vertex].plan].add(j.from, j.until, m.amounts(j, h))
			}
		}
	}
}
