// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
)

// gangMatch is the work of one match. It goes from the pages of the graph, of which
// it reads no more than once what is in them, to cells (gather); says how many pods
// fit (fits); and then decides which nodes get how many (place), for which it looks
// at cells alone. Its slices are kept for the next match.
type gangMatch struct {
	*layout
	gang Gang
	// pods and lead are the shapes; lead is that of pods where the gang has no other.
	pods, lead demand
	// limit is how many pods of the gang one node may have.
	limit    int32
	distinct bool
	// level is that of the gang's topology, below zero if there is none.
	level int
	// from and to are the pages to look at.
	from, to int32
	// own are the nodes that have pods of the gang already, in the order of the graph,
	// none before the pages to look at.
	own []ownNode
	// leadNode is where the lead will be, before it is taken; below zero if it is not
	// known, taken, or like the others.
	leadNode int32

	cells []cell
	leads []leadCell
	// top is how many pods a node gets in the step that is under way, at most.
	top int32
	// What the steps need for themselves.
	outer, inner []domain
	again        []cell
	order        []uint64
	sums         []int64
	ranks        []int32
	left         []int64
	nodes        []int32
}

// cell are nodes of a page that can take the same number of pods, and that are as
// good as each other.
type cell struct {
	nodes uint64
	page  int32
	// room is how many pods each of the nodes can take, has how many it has.
	room, has int32
	tier      tier
	// take is how many pods a node that is chosen gets in the step under way.
	take int32
	// each is how many pods every node gets, chosen are nodes that get `take` more, and
	// last is one that gets `rest` more.
	each, rest   int32
	chosen, last uint64
}

// tier is how willingly a node is used, of those with the same room.
type tier uint8

const (
	// tierFull: nothing is left of one of the resources asked for.
	tierFull tier = iota
	// tierUsed: something of it was taken before.
	tierUsed
	// tierUnused: it was left alone until now.
	tierUnused
)

// leadCell are nodes of a page that can take the lead at the same cost.
type leadCell struct {
	nodes uint64
	page  int32
	// room is how many other pods each of them could take without the lead, after how
	// many with it.
	room, after int32
}

// ownNode is a node that has pods of the gang.
type ownNode struct{ node, has int32 }

// match begins one.
func (g *Graph) match(gang *Gang) *gangMatch {
	m := g.scratch
	m.layout, m.gang = g.nodes.layout, *gang
	m.from, m.to, m.own, m.leadNode = 0, int32(len(g.nodes.pages)), m.own[:0], -1
	m.pods.compile(m.resources, gang.Pods.Requests)
	if gang.Lead != nil {
		m.lead.compile(m.resources, gang.Lead.Requests)
	}
	m.limit = unlimited
	if gang.MaxPerNode > 0 {
		m.limit = int32(min(gang.MaxPerNode, unlimited))
	}
	m.distinct = gang.Distinct || gang.Policy == Spread
	m.level = m.levelOf(gang.Topology.Level)
	return m
}

// required reports whether all pods have to be in one domain.
func (m *gangMatch) required() bool { return m.gang.Topology.Required && m.gang.Topology.Level != "" }

// gather makes the cells of the pages, and as long as the lead is not placed, those
// that it could have.
func (m *gangMatch) gather(pages []*page) {
	m.cells, m.leads = m.cells[:0], m.leads[:0]
	own := m.own
	for i := m.from; i < m.to; i++ {
		own = m.gatherPage(pages[i], i, own)
	}
	m.setTop(m.whole(), m.limit)
}

// gatherPage makes the cells of a page. It begins with the gang's own nodes there,
// and returns the others.
func (m *gangMatch) gatherPage(page *page, i int32, own []ownNode) []ownNode {
	feasible := m.feasible(&m.gang.Pods, i)
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
	if m.gang.Lead != nil && len(m.own) == 0 {
		m.addLeads(page, i, feasible)
	}
	return own
}

// gatherAnew makes the cells of one page again.
func (m *gangMatch) gatherAnew(page *page, i int32) {
	isBefore := func(c cell, page int32) int { return cmp.Compare(c.page, page) }
	lo, _ := slices.BinarySearchFunc(m.cells, i, isBefore)
	hi, _ := slices.BinarySearchFunc(m.cells, i+1, isBefore)
	count := len(m.cells)
	m.gatherPage(page, i, m.own)
	m.again = append(m.again[:0], m.cells[count:]...)
	m.cells = slices.Replace(m.cells[:count], lo, hi, m.again...)
}

// feasible are the nodes of a page that a shape can use.
func (m *gangMatch) feasible(shape *Shape, page int32) uint64 {
	nodes := ^uint64(0)
	for i := range shape.Infeasible {
		nodes &^= shape.Infeasible[i].Nodes.window(m.first[page])
	}
	return nodes
}

// add makes a cell of nodes, or adds them to one of the page, whose cells begin at
// start.
func (m *gangMatch) add(start int, page int32, nodes uint64, model int32, left []int64) {
	if nodes == 0 {
		return
	}
	room := min(m.pods.fits(left), m.limit)
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
	m.cells = append(m.cells, cell{nodes: nodes, page: page, room: room, tier: tier})
}

func (m *gangMatch) tier(model int32, left []int64, room int32) tier {
	gets := int64(room)
	if m.distinct {
		gets = 1
	}
	for _, r := range m.pods.asked {
		if m.resources[r] != Pods && left[r] == gets*m.pods.amounts[r] {
			return tierFull
		}
	}
	if slices.Equal(left, m.model(model)) {
		return tierUnused
	}
	return tierUsed
}

// addOwn makes the cell of a node that has pods of the gang. It is made even if there
// is no room for more: its domain is one of the gang's.
func (m *gangMatch) addOwn(page *page, i int32, own ownNode, node, feasible uint64) {
	c := page.of(node)
	room := int32(0)
	if page.classes[c].down == "" && node&feasible != 0 {
		left := page.left(c)
		if own.node == m.leadNode {
			left = m.without(left)
		}
		room = min(m.pods.fits(left), max(m.limit-own.has, 0))
	}
	m.cells = append(m.cells, cell{nodes: node, page: i, room: room, has: own.has})
}

// without is what the lead leaves.
func (m *gangMatch) without(left []int64) []int64 {
	m.left = m.left[:0]
	for r, amount := range left {
		m.left = append(m.left, amount-m.lead.amounts[r])
	}
	return m.left
}

func (m *gangMatch) addLeads(page *page, i int32, feasible uint64) {
	nodes, start := m.feasible(m.gang.Lead, i), len(m.leads)
	for c := range page.classes {
		class := &page.classes[c]
		can := class.nodes & nodes
		if class.down != "" || can == 0 || m.lead.fits(page.left(c)) == 0 {
			continue
		}
		left := page.left(c)
		m.addLead(start, leadCell{
			nodes: can & feasible, page: i,
			room:  min(m.pods.fits(left), m.limit),
			after: min(m.pods.fits(m.without(left)), m.limit-1),
		})
		m.addLead(start, leadCell{nodes: can &^ feasible, page: i})
	}
}

// addLead makes a cell for the lead, or adds its nodes to one of the page, whose
// cells begin at start.
func (m *gangMatch) addLead(start int, l leadCell) {
	if l.nodes == 0 {
		return
	}
	for i := start; i < len(m.leads); i++ {
		if other := &m.leads[i]; other.room == l.room && other.after == l.after {
			other.nodes |= l.nodes
			return
		}
	}
	m.leads = append(m.leads, l)
}

// noLead is the loss where there is no place for the lead.
const noLead = math.MaxInt32

// loss is how many other pods the lead displaces, while a node gets `top` at most.
func (m *gangMatch) loss(l *leadCell) int32 {
	return min(l.room, m.top) - min(l.after, m.top-1)
}

// setTop begins a step in which no node of a span has more than so many pods.
func (m *gangMatch) setTop(s span, top int32) {
	m.top = top
	for i := s.lo; i < s.hi; i++ {
		cell := &m.cells[i]
		cell.take = min(cell.room, max(top-cell.has, 0))
	}
}

// fits is how many pods there is room for, the lead among them: in all, or in the
// roomiest domain where all have to be in one.
func (m *gangMatch) fits() int64 {
	if !m.required() {
		whole := m.sum(m.whole(), -1)
		return m.size(&whole)
	}
	fits := int64(0)
	m.outer = m.divide(m.outer[:0], m.whole(), m.level)
	for i := range m.outer {
		fits = max(fits, m.size(&m.outer[i]))
	}
	return fits
}

// size is how many pods a domain has room for, the lead among them.
func (m *gangMatch) size(d *domain) int64 {
	switch {
	case m.required() && (m.level < 0 || !d.placed):
		return 0
	case m.gang.Lead == nil || len(m.own) > 0:
		return d.room
	case d.loss == noLead:
		return 0
	}
	return d.room - int64(d.loss) + 1
}

// narrow leaves, where all pods have to be in one domain, the tightest that takes so
// many.
func (m *gangMatch) narrow(size int64) {
	if !m.required() {
		return
	}
	best := -1
	for i := range m.outer { // as fits left them
		if room := m.size(&m.outer[i]); room >= size && (best < 0 || room < m.size(&m.outer[best])) {
			best = i
		}
	}
	d := &m.outer[best]
	m.limitTo(d.id)
	m.cells = append(m.cells[:0], m.cells[d.lo:d.hi]...)
	m.leads = append(m.leads[:0], m.leads[d.leadLo:d.leadHi]...)
}

// limitTo leaves only the pages of a domain of the gang's level.
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
