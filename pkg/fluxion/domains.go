// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"math"
	"math/bits"
	"slices"
	"sort"
)

// span are neighbouring cells, and those for the lead.
type span struct{ lo, hi, leadLo, leadHi int }

// domain is one of a level, as far as there are cells in it.
type domain struct {
	span
	id int32
	// placed: its nodes have a name for the level.
	placed bool
	// room is how many pods it can take in the step under way, has how many it has.
	room, has int64
	// loss is how many of them the lead displaces at least (noLead).
	loss int32
	// get is how many it gets.
	get int64
}

func (m *gangMatch) whole() span { return span{0, len(m.cells), 0, len(m.leads)} }

// domainOf is the domain of a page; 0 of all without a level.
func (m *gangMatch) domainOf(level int, page int32) int32 {
	if level < 0 {
		return 0
	}
	return m.levels[level].domain[page]
}

// divide appends the domains of a level in a span.
func (m *gangMatch) divide(into []domain, s span, level int) []domain {
	for s.lo < s.hi || s.leadLo < s.leadHi {
		d := m.sum(s, level)
		s.lo, s.leadLo = d.hi, d.leadHi
		into = append(into, d)
	}
	return into
}

// sum is the first domain of a level in a span; all of it without a level.
func (m *gangMatch) sum(s span, level int) domain {
	page := int32(math.MaxInt32)
	if s.lo < s.hi {
		page = m.cells[s.lo].page
	}
	if s.leadLo < s.leadHi {
		page = min(page, m.leads[s.leadLo].page)
	}
	d := domain{span: s, loss: noLead, placed: true}
	if page == math.MaxInt32 {
		return d
	}
	d.id = m.domainOf(level, page)
	if level >= 0 {
		d.placed = m.levels[level].placed[page]
	}
	for d.hi = s.lo; d.hi < s.hi && m.domainOf(level, m.cells[d.hi].page) == d.id; d.hi++ {
		cell := &m.cells[d.hi]
		count := int64(bits.OnesCount64(cell.nodes))
		d.room += count * int64(cell.take)
		d.has += count * int64(cell.has+cell.each)
	}
	for d.leadHi = s.leadLo; d.leadHi < s.leadHi && m.domainOf(level, m.leads[d.leadHi].page) == d.id; d.leadHi++ {
		d.loss = min(d.loss, m.loss(&m.leads[d.leadHi]))
	}
	return d
}

// pack decides how many of n pods each domain gets: those that have some come first,
// and else there are as few domains as possible.
func (m *gangMatch) pack(domains []domain, n int64) {
	room := int64(0)
	for i := range domains {
		if domains[i].has > 0 {
			room += domains[i].room
		}
	}
	if room >= n {
		m.packFewest(domains, n, true)
		return
	}
	for i := range domains {
		if domains[i].has > 0 {
			domains[i].get = domains[i].room
		}
	}
	m.packFewest(domains, n-room, false)
}

// packFewest packs into those domains that have some, or into the others: the
// roomiest ones, but the last of them the tightest that takes what is left. So there
// are no fewer that would do, and of those that take all alone it is the best fit.
func (m *gangMatch) packFewest(domains []domain, n int64, has bool) {
	best := -1
	for i := range domains {
		d := &domains[i]
		if (d.has > 0) == has && d.room >= n && (best < 0 || d.room < domains[best].room) {
			best = i
		}
	}
	if best >= 0 {
		domains[best].get = n
		return
	}
	m.sortByRoom(domains, func(d *domain) bool { return (d.has > 0) == has })
	for order := m.order; n > 0; {
		// The tightest that takes what is left.
		i := sort.Search(len(order), func(i int) bool { return domains[domainIn(order[i])].room >= n })
		if i == len(order) {
			i-- // none does: the roomiest
		}
		room := domains[domainIn(order[i])].room
		i = sort.Search(len(order), func(i int) bool { return domains[domainIn(order[i])].room > room }) - 1
		d := &domains[domainIn(order[i])] // the first of them
		d.get = min(d.room, n)
		n -= d.get
		order = order[:i]
	}
}

// sortByRoom puts the indexes of domains in m.order: those with less room first, of
// those with the same the last one first. Room
// for 2^32 pods and more is the same.
func (m *gangMatch) sortByRoom(domains []domain, which func(*domain) bool) {
	m.order = m.order[:0]
	for i := range domains {
		if which(&domains[i]) {
			m.order = append(m.order, uint64(min(domains[i].room, math.MaxUint32))<<32|uint64(^uint32(i)))
		}
	}
	slices.Sort(m.order)
}

// domainIn is the index of the domain in an element of the order.
func domainIn(key uint64) uint32 { return ^uint32(key) }

// even decides how many of n pods each domain gets, so that they have as evenly many
// as they can, those that have some counted.
func (m *gangMatch) even(domains []domain, n int64) {
	level := func(d *domain, top int64) int64 { return min(max(top-d.has, 0), d.room) }
	most := int64(0)
	for i := range domains {
		most = max(most, domains[i].has)
	}
	top := int64(1 + sort.Search(int(n+most), func(i int) bool {
		sum := int64(0)
		for j := range domains {
			sum += level(&domains[j], int64(i)+1)
		}
		return sum >= n
	}))
	for i := range domains {
		domains[i].get = level(&domains[i], top-1)
		n -= domains[i].get
	}
	for i := range domains {
		d := &domains[i]
		if n > 0 && level(d, top) > d.get {
			d.get++
			n--
		}
	}
}
