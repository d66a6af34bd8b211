// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"math/bits"
	"slices"
)

// gangMatch is the work of one match. First gather reads the pages of the graph, each
// one once, and makes cells of them. Then fits counts the pods that fit. Then place
// decides how many pods each node gets, and reads the cells alone. The slices are kept
// for the next match.
type gangMatch struct {
	*layout
	gang     Gang
	pods     demand
	distinct bool
	// level is the index of the level of the gang's topology, below zero for none.
	level int
	// from and to limit the pages that gather reads.
	from, to int32
	// own are the nodes that have pods of the gang already, in the order of the graph.
	// All of them are on or after page from.
	own []ownNode

	cells []cell
	// outer are the domains of the gang's level, and inner those of the levels inside, outermost
	// first.
	outer []domain
	inner [][]domain
	// order holds sort keys, and nodes holds node indexes, for one step at a time.
	order []uint64
	nodes []int32
}

// cell is a set of nodes of a page that can take the same number of pods, and are as
// good as each other.
type cell struct {
	nodes uint64
	page  int32
	// room is the number of pods that each node can take; has is the number of pods of
	// the gang that each node has already.
	room, has int32
	tier      tier
	// take is the number of pods that a chosen node gets in this step.
	take int32
	// Every node gets each pods, the chosen nodes get take more, and the last node gets
	// rest more.
	each, rest   int32
	chosen, last uint64
}

// tier ranks nodes that have the same room: the lowest tier is used first.
type tier uint8

const (
	// tierFull: the pods use up one of the requested resources.
	tierFull tier = iota
	// tierUsed: something of the node is in use.
	tierUsed
	// tierUnused: nothing of the node is in use.
	tierUnused
)

// ownNode is a node that has pods of the gang.
type ownNode struct{ node, has int32 }

// match begins a match for a gang.
func (g *Graph) match(gang *Gang) *gangMatch {
	m := g.scratch
	m.layout, m.gang = g.nodes.layout, *gang
	m.from, m.to, m.own = 0, int32(len(g.nodes.pages)), m.own[:0]
	m.pods.compile(m.resources, gang.Pods.Requests)
	m.distinct = gang.Distinct || gang.Policy == Spread
	m.level = m.levelOf(gang.Topology.Level)
	for len(m.inner) <= len(m.levels) {
		m.inner = append(m.inner, nil)
	}
	return m
}

// required reports whether all pods have to be in one domain.
func (m *gangMatch) required() bool { return m.gang.Topology.Required && m.gang.Topology.Level != "" }

// gather makes the cells of the pages.
func (m *gangMatch) gather(pages []*page) {
	m.cells = m.cells[:0]
	own := m.own
	for i := m.from; i < m.to; i++ {
		own = m.gatherPage(pages[i], i, own)
	}
}

// gatherEmpty makes the cells of the empty graph, of which nothing is closed.
func (m *gangMatch) gatherEmpty() {
	closed := m.gang.Pods.Closed
	m.gang.Pods.Closed = nil
	m.gather(m.empty)
	m.gang.Pods.Closed = closed
}

// gatherPage makes the cells of a page. Own begins with the gang's own nodes on that
// page; the nodes after them are returned.
func (m *gangMatch) gatherPage(page *page, i int32, own []ownNode) []ownNode {
	feasible := m.feasible(i)
	start := len(m.cells)
	others := ^uint64(0)
	for ; len(own) > 0 && m.pageOf[own[0].node] == i; own = own[1:] {
		_, node := m.locate(own[0].node)
		others &^= node
		m.addOwn(page, i, own[0], node, feasible)
	}
	for c := range page.classes {
		if class := &page.classes[c]; class.down == "" {
			m.add(start, i, class.nodes&feasible&others, class.model, page.left(c))
		}
	}
	return own
}

// feasible is the set of nodes of a page that the gang's pods can use.
func (m *gangMatch) feasible(page int32) uint64 {
	nodes := ^uint64(0)
	for i := range m.gang.Pods.Infeasible {
		nodes &^= m.gang.Pods.Infeasible[i].Nodes.window(m.first[page])
	}
	for i := range m.gang.Pods.Closed {
		nodes &^= m.gang.Pods.Closed[i].Nodes.window(m.first[page])
	}
	return nodes
}

// add makes a cell of nodes, or adds the nodes to a cell of the same page. The cells of
// that page begin at start.
func (m *gangMatch) add(start int, page int32, nodes uint64, model int32, left []int64) {
	if nodes == 0 {
		return
	}
	room := m.pods.fits(left)
	if room == 0 {
		return
	}
	tier := m.tier(model, left, room)
	for i := start; i < len(m.cells); i++ {
		if cell := &m.cells[i]; cell.room == room && cell.tier == tier && cell.has == 0 {
			cell.nodes |= nodes
			return
		}
	}
	m.cells = append(m.cells, cell{nodes: nodes, page: page, room: room, take: room, tier: tier})
}

// tier is the tier of nodes of a model, of which this much is left.
func (m *gangMatch) tier(model int32, left []int64, room int32) tier {
	gets := int64(room)
	if m.distinct {
		gets = 1
	}
	for _, r := range m.pods.asked {
		if isNamed(m.resources[r]) && left[r] == gets*m.pods.amounts[r] {
			return tierFull
		}
	}
	if slices.Equal(left, m.model(model)) {
		return tierUnused
	}
	return tierUsed
}

// addOwn makes the cell of a node that has pods of the gang. The node gets a cell even
// without room for more pods, because its domain is one of the gang's domains.
func (m *gangMatch) addOwn(page *page, i int32, own ownNode, node, feasible uint64) {
	c := page.of(node)
	room := int32(0)
	if page.classes[c].down == "" && node&feasible != 0 {
		room = m.pods.fits(page.left(c))
	}
	m.cells = append(m.cells, cell{nodes: node, page: i, room: room, take: room, has: own.has})
}

// fits is the number of pods for which there is room: on all nodes, or in the roomiest
// domain if all pods have to be in one.
func (m *gangMatch) fits() int64 {
	if !m.required() {
		return m.sum(m.whole(), -1).room
	}
	fits := int64(0)
	m.outer = m.divide(m.outer[:0], m.whole(), m.level)
	for i := range m.outer {
		fits = max(fits, m.roomIn(&m.outer[i]))
	}
	return fits
}

// roomIn is the number of pods that a domain can take, if all pods have to be in one.
func (m *gangMatch) roomIn(d *domain) int64 {
	if m.level < 0 || !d.placed {
		return 0
	}
	return d.room
}

// narrow keeps the cells of the tightest domain that takes n pods, if all pods have to
// be in one. It uses the domains that fits has made.
func (m *gangMatch) narrow(n int64) {
	if !m.required() {
		return
	}
	best := -1
	for i := range m.outer {
		if room := m.roomIn(&m.outer[i]); room >= n && (best < 0 || room < m.outer[best].room) {
			best = i
		}
	}
	d := &m.outer[best]
	m.cells = append(m.cells[:0], m.cells[d.lo:d.hi]...)
}

// limitTo makes gather read the pages of one domain of the gang's level.
func (m *gangMatch) limitTo(id int32) {
	domain := m.levels[m.level].domain
	from, _ := slices.BinarySearch(domain, id)
	to, _ := slices.BinarySearch(domain, id+1)
	m.from, m.to = int32(from), int32(to)
}

// nodesWithRoom is the number of nodes that can take a pod.
func (m *gangMatch) nodesWithRoom() int {
	count := 0
	for i := range m.cells {
		if m.cells[i].room > 0 {
			count += bits.OnesCount64(m.cells[i].nodes)
		}
	}
	return count
}
