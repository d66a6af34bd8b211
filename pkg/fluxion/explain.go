// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"cmp"
	"maps"
	"math/bits"
	"slices"
)

// Explain is the refusal of a gang with all reasons; nil if the gang fits.
func (g *Graph) Explain(gang Gang) *Refusal {
	_, r := g.MatchGang(gang)
	if r == nil {
		return nil
	}
	e := newExplanation(g, &gang, r)
	for i, page := range g.nodes.pages {
		e.addPage(int32(i), page)
	}
	for _, text := range slices.Sorted(maps.Keys(e.counts)) {
		r.Reasons = append(r.Reasons, Reason{text, e.counts[text]})
	}
	slices.SortStableFunc(r.Reasons, func(a, b Reason) int { return cmp.Compare(b.Nodes, a.Nodes) })
	if !r.Never {
		r.Jobs, r.Until = g.blocking(&gang)
	}
	return r
}

// explanation counts nodes by the first reason why they cannot take a broker. Reasons
// that last come before reasons that pass.
type explanation struct {
	*layout
	shape  *Shape
	demand demand
	never  bool
	// several is true if the gang asks for more than one resource, so that the reason
	// names the resource.
	several bool
	// whole is the index of WholeNode.
	whole int
	// domains is the name of the level in one domain of which all brokers have to be;
	// "" if there is none. level is its index, below zero for an unknown name.
	domains string
	level   int
	least   int64
	// now and empty are the numbers of brokers for which each domain has room: now, and
	// on the empty graph.
	now, empty []int64
	counts     map[string]int
}

func newExplanation(g *Graph, gang *Gang, r *Refusal) *explanation {
	m := g.match(gang)
	e := &explanation{
		layout: g.nodes.layout, shape: &gang.Pods, never: r.Never,
		whole: slices.Index(g.nodes.resources, WholeNode), domains: r.Level, level: m.level, least: int64(r.Least), counts: map[string]int{},
	}
	if e.domains != "" && e.level >= 0 {
		m.gather(g.nodes.pages)
		e.now = m.roomByDomain()
		m.gatherEmpty()
		e.empty = m.roomByDomain()
	}
	e.demand.compile(e.resources, e.shape.Requests)
	named := 0
	for _, resource := range e.demand.asked {
		if isNamed(e.resources[resource]) {
			named++
		}
	}
	e.several = named > 1
	return e
}

// roomByDomain is the number of brokers that fit in each domain of the gang's level, by the cells.
func (m *gangMatch) roomByDomain() []int64 {
	m.fits()
	var rooms []int64
	if domains := m.levels[m.level].domain; len(domains) > 0 {
		rooms = make([]int64, domains[len(domains)-1]+1)
	}
	for i := range m.outer {
		rooms[m.outer[i].id] = m.roomIn(&m.outer[i])
	}
	return rooms
}

func (e *explanation) addPage(i int32, page *page) {
	left := e.countExcluded(i, e.shape.Infeasible, page.all())
	for c := range page.classes {
		class := &page.classes[c]
		nodes := class.nodes & left
		text := e.lasting(i, class)
		if text == "" && !e.never {
			nodes = e.countExcluded(i, e.shape.Closed, nodes)
			text = e.passing(i, class, page.left(c))
		}
		e.count(text, nodes)
	}
}

// countExcluded counts those of some nodes that are excluded, and returns the others.
func (e *explanation) countExcluded(page int32, exclusions []Exclusion, nodes uint64) uint64 {
	for i := range exclusions {
		excluded := exclusions[i].Nodes.window(e.first[page]) & nodes
		e.count(exclusions[i].Reason, excluded)
		nodes &^= excluded
	}
	return nodes
}

func (e *explanation) count(text string, nodes uint64) {
	if text != "" && nodes != 0 {
		e.counts[text] += bits.OnesCount64(nodes)
	}
}

// lasting is the reason why nodes of a class can never take a broker; "" if there is
// none.
func (e *explanation) lasting(page int32, class *class) string {
	lacking, none := e.demand.lacking(e.resources, e.model(class.model))
	switch {
	case e.domains != "" && (e.level < 0 || !e.levels[e.level].placed[page]):
		return "in no " + e.domains
	case lacking != "" && none:
		return "without " + lacking
	case lacking != "":
		return "too little " + lacking
	case e.isSmall(page, e.empty):
		return "in a " + e.domains + " too small"
	}
	return ""
}

// isSmall reports whether all brokers have to be in one domain, and the domain of a page
// has too little room.
func (e *explanation) isSmall(page int32, rooms []int64) bool {
	return e.domains != "" && rooms[e.levels[e.level].domain[page]] < e.least
}

// passing is the reason why nodes of a class cannot take a broker now; "" if there is
// none.
func (e *explanation) passing(page int32, class *class, left []int64) string {
	lacking, _ := e.demand.lacking(e.resources, left)
	switch {
	case class.down != "":
		return class.down
	case left[e.whole] < e.demand.amounts[e.whole] && e.shape.Requests[WholeNode] > 0:
		return "in use"
	case left[e.whole] < e.demand.amounts[e.whole]:
		return "in use exclusively"
	case lacking != "" && e.several:
		return "in use (" + lacking + ")"
	case lacking != "":
		return "in use"
	case e.isSmall(page, e.now):
		return "in a " + e.domains + " with too little room"
	}
	return ""
}
