// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"math/bits"
	"slices"
	"sort"
)

// place decides which nodes get n pods, for which there is room.
//
//  1. With a topology, as few of its domains as possible get all pods.
//  2. In each domain, if nodes are to be distinct, every node gets as many pods as all
//     nodes can have, and some nodes get one more.
//  3. The policy divides the remaining pods over domains: Pack over those of each level inside
//     the topology's, from the outermost on, and Spread over the innermost ones, and
//  4. in each of these over the nodes.
func (m *gangMatch) place(n int64) {
	if m.level < 0 || m.required() {
		m.placeIn(m.whole(), n)
		return
	}
	m.outer = m.divide(m.outer[:0], m.whole(), m.level)
	m.pack(m.outer, n)
	for i := range m.outer {
		if d := &m.outer[i]; d.get > 0 {
			m.placeIn(d.span, d.get)
		}
	}
}

func (m *gangMatch) placeIn(s span, n int64) {
	if m.distinct {
		n = m.layer(s, n)
	}
	if m.gang.Policy == Spread {
		m.inner[0] = m.divide(m.inner[0][:0], s, len(m.levels)-1)
		m.even(m.inner[0], n)
		m.fillAll(m.inner[0])
		return
	}
	m.packWithin(s, n, m.level+1, m.inner)
}

// packWithin divides n pods over the domains of a level and of the levels inside. A gang that fits
// into one domain of a level inside gets the tightest of these. It keeps the domains of each level
// in inner.
func (m *gangMatch) packWithin(s span, n int64, level int, inner [][]domain) {
	last := len(m.levels) - 1
	level = min(level, last)
	for inside := last; len(m.own) == 0 && inside > level; inside-- {
		inner[0] = m.divide(inner[0][:0], s, inside)
		if slices.ContainsFunc(inner[0], func(d domain) bool { return d.room >= n }) {
			level = inside
		}
	}
	inner[0] = m.divide(inner[0][:0], s, level)
	m.pack(inner[0], n)
	if level >= last {
		m.fillAll(inner[0])
		return
	}
	for i := range inner[0] {
		if d := &inner[0][i]; d.get > 0 {
			m.packWithin(d.span, d.get, level+1, inner[1:])
		}
	}
}

// fillAll gives innermost domains the pods that they get.
func (m *gangMatch) fillAll(domains []domain) {
	for i := range domains {
		if d := &domains[i]; d.get > 0 {
			m.fill(m.cells[d.lo:d.hi], d.get, d.room)
		}
	}
}

// lowestTop is the smallest number of pods per node with which a span takes n pods.
func (m *gangMatch) lowestTop(s span, n int64) int32 {
	if m.takes(s, n, 1) {
		return 1
	}
	most := int64(1)
	for i := s.lo; i < s.hi; i++ {
		most = max(most, int64(m.cells[i].has)+1)
	}
	return int32(2 + sort.Search(int(min(n+most, unlimited-2)), func(i int) bool { return m.takes(s, n, int32(i)+2) }))
}

// takes reports whether a span takes n pods, with at most top pods on each node.
func (m *gangMatch) takes(s span, n int64, top int32) bool {
	for i := s.lo; i < s.hi; i++ {
		cell := &m.cells[i]
		cell.take = min(cell.room, max(top-cell.has, 0))
	}
	return m.sum(s, -1).room >= n
}

// layer gives each node of a span as many pods as all nodes can have. A node that can
// take one more may be chosen for it later. The number of pods that are left is returned.
func (m *gangMatch) layer(s span, n int64) int64 {
	top := m.lowestTop(s, n)
	for i := s.lo; i < s.hi; i++ {
		cell := &m.cells[i]
		cell.each = min(cell.room, max(top-1-cell.has, 0))
		cell.take = min(cell.room, max(top-cell.has, 0)) - cell.each
		n -= int64(cell.each) * int64(bits.OnesCount64(cell.nodes))
	}
	return n
}

// fill gives n pods to nodes of an innermost domain, which has room for them.
func (m *gangMatch) fill(cells []cell, n, room int64) {
	if n == room {
		for i := range cells {
			cells[i].chosen = cells[i].nodes
		}
		return
	}
	if m.distinct {
		m.fillDistinct(cells, n)
	} else {
		m.fillFewest(cells, n)
	}
}

// sortCells puts the indexes of cells into m.order: by rising room, then by tier, then
// by index.
func (m *gangMatch) sortCells(cells []cell) {
	m.order = m.order[:0]
	for i := range cells {
		cell := &cells[i]
		if cell.take > 0 {
			m.order = append(m.order, uint64(cell.room)<<32|uint64(cell.tier)<<30|uint64(i))
		}
	}
	slices.Sort(m.order)
}

// cellIndex masks the index of the cell in an element of the order.
const cellIndex = 1<<30 - 1

// fillDistinct gives one pod to each of n nodes: first to the nodes with the least room.
func (m *gangMatch) fillDistinct(cells []cell, n int64) {
	m.sortCells(cells)
	for _, key := range m.order {
		cell := &cells[key&cellIndex]
		cell.chosen = lowest(cell.nodes, int(n))
		if n -= int64(bits.OnesCount64(cell.chosen)); n == 0 {
			return
		}
	}
}

// fillFewest gives n pods to the fewest nodes. Nodes that have pods of the gang come
// first, then the roomiest nodes. The last node is the tightest that takes the rest.
func (m *gangMatch) fillFewest(cells []cell, n int64) {
	for i := range cells {
		if cell := &cells[i]; cell.has > 0 && n > 0 {
			cell.last = cell.nodes
			cell.rest = int32(min(n, int64(cell.take)))
			n -= int64(cell.rest)
			cell.take = 0
		}
	}
	m.sortCells(cells)
	for order := m.order; n > 0; {
		// The first cell of which one node takes the rest.
		if i := sort.Search(len(order), func(i int) bool { return int64(order[i]>>32) >= n }); i < len(order) {
			cell := &cells[order[i]&cellIndex]
			cell.last, cell.rest = lowest(cell.nodes&^cell.chosen, 1), int32(n)
			return
		}
		// No node takes the rest: the first cell with the most room gets pods.
		room := int64(order[len(order)-1] >> 32)
		i := sort.Search(len(order), func(i int) bool { return int64(order[i]>>32) >= room })
		cell := &cells[order[i]&cellIndex]
		free := cell.nodes &^ cell.chosen
		more := lowest(free, int(n/room))
		cell.chosen |= more
		n -= room * int64(bits.OnesCount64(more))
		if more == free {
			order = slices.Delete(order, i, i+1)
		}
	}
}

// byRank are the names of the nodes by rank, for size pods.
func (m *gangMatch) byRank(size int) []string {
	nodes := make([]string, 0, size)
	m.eachNode(func(node, pods int32) {
		for range pods {
			nodes = append(nodes, m.names[node])
		}
	})
	return nodes
}

// eachNode calls the function for each node that gets pods, in the order of the graph.
func (m *gangMatch) eachNode(call func(node, pods int32)) {
	for i := 0; i < len(m.cells); {
		page := m.cells[i].page
		var pods [pageSize]int32
		got := uint64(0)
		for ; i < len(m.cells) && m.cells[i].page == page; i++ {
			got |= m.cells[i].count(&pods)
		}
		for node := range eachBit(got) {
			call(m.first[page]+node, pods[node])
		}
	}
}

// count adds up how many pods each node gets, and returns the nodes that get pods.
func (c *cell) count(pods *[pageSize]int32) uint64 {
	got := uint64(0)
	if c.each > 0 {
		got = c.nodes
		for node := range eachBit(c.nodes) {
			pods[node] += c.each
		}
	}
	if c.take > 0 {
		got |= c.chosen
		for node := range eachBit(c.chosen) {
			pods[node] += c.take
		}
	}
	if c.rest > 0 {
		got |= c.last
		for node := range eachBit(c.last) {
			pods[node] += c.rest
		}
	}
	return got
}
