// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"math"
	"math/bits"
	"slices"
	"sort"
)

// span is a range of neighbouring cells.
type span struct{ lo, hi int }

// domain is a domain of a level, with the cells that it has.
type domain struct {
	span
	id int32
	// placed is false for nodes that are in no domain of the level.
	placed bool
	// room is the number of pods that the domain can take in this step; has is the
	// number of pods of the gang that it has.
	room, has int64
	// get is the number of pods that the domain gets.
	get int64
}

func (m *gangMatch) whole() span { return span{0, len(m.cells)} }

// domainOf is the domain of a page. Without a level all pages are in domain 0.
func (m *gangMatch) domainOf(level int, page int32) int32 {
	if level < 0 {
		return 0
	}
	return m.levels[level].domain[page]
}

// divide appends the domains of a level in a span.
func (m *gangMatch) divide(into []domain, s span, level int) []domain {
	for s.lo < s.hi {
		d := m.sum(s, level)
		s.lo = d.hi
		into = append(into, d)
	}
	return into
}

// sum is the first domain of a level in a span. Without a level it is the whole span.
func (m *gangMatch) sum(s span, level int) domain {
	d := domain{span: s, placed: true}
	if s.lo == s.hi {
		return d
	}
	page := m.cells[s.lo].page
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
	return d
}

// pack decides how many of n pods each domain gets. Domains that have pods of the gang
// come first. Apart from that, as few domains as possible get pods.
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

// packFewest gives n pods to the domains that have pods of the gang, or to the others.
// The roomiest domains come first, and the last one is the tightest that takes the
// rest. So no fewer domains would do, and a domain that takes all pods is the best fit.
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
	m.sortByRoom(domains, has)
	for order := m.order; n > 0; {
		// The tightest domain that takes the rest, or else the roomiest domain.
		i := sort.Search(len(order), func(i int) bool { return domains[domainIn(order[i])].room >= n })
		i = min(i, len(order)-1)
		room := domains[domainIn(order[i])].room
		// The first of the domains with this room.
		i = sort.Search(len(order), func(i int) bool { return domains[domainIn(order[i])].room > room }) - 1
		d := &domains[domainIn(order[i])]
		d.get = min(d.room, n)
		n -= d.get
		order = order[:i]
	}
}

// sortByRoom puts the indexes of domains into m.order: by rising room, and for equal
// room by falling index. Room for 2^32 pods and more counts as equal.
func (m *gangMatch) sortByRoom(domains []domain, has bool) {
	m.order = m.order[:0]
	for i := range domains {
		if (domains[i].has > 0) == has {
			m.order = append(m.order, uint64(min(domains[i].room, math.MaxUint32))<<32|uint64(^uint32(i)))
		}
	}
	slices.Sort(m.order)
}

// domainIn is the index of the domain in an element of the order.
func domainIn(key uint64) uint32 { return ^uint32(key) }

// even decides how many of n pods each domain gets, so that the domains have as equal
// numbers of pods as possible. Pods that a domain has already count.
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
