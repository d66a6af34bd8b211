// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"math/bits"
	"slices"
	"sort"
)

// placeLead chooses the node of a lead with a shape of its own, such that n other
// pods still fit, and in as few domains as if both were chosen together. Then the
// lead is one of the gang's own pods, and the cells have to be gathered anew.
func (m *gangMatch) placeLead(pages []*page, n int64) {
	s := m.whole()
	if m.level >= 0 && !m.required() {
		s, n = m.leadDomain(s, m.level, n)
	}
	if m.distinct {
		m.setTop(s, m.lowestTop(s, n))
	}
	if m.gang.Policy == Pack {
		s, _ = m.leadDomain(s, len(m.levels)-1, n)
	}
	best, first := int32(noLead), int32(0)
	for i := s.leadLo; i < s.leadHi; i++ {
		l := &m.leads[i]
		node := m.first[l.page] + int32(bits.TrailingZeros64(l.nodes))
		if loss := m.loss(l); loss < best || (loss == best && node < first) {
			best, first = loss, node
		}
	}
	m.leadNode = first
	m.own, m.leads = append(m.own[:0], ownNode{first, 1}), m.leads[:0]
	m.gatherAnew(pages[m.pageOf[first]], m.pageOf[first])
}

// leadDomain is the domain of a level for the lead, such that it and n other pods
// need the fewest: the tightest that takes them all, or else the one in which the
// lead displaces the fewest. It returns how many of the others that one can get.
func (m *gangMatch) leadDomain(s span, level int, n int64) (span, int64) {
	m.outer = m.divide(m.outer[:0], s, level)
	domains := m.outer
	left := func(d *domain) int64 { return d.room - int64(d.loss) }
	best := -1
	for i := range domains {
		d := &domains[i]
		if d.loss < noLead && left(d) >= n && (best < 0 || left(d) < left(&domains[best])) {
			best = i
		}
	}
	if best < 0 {
		best = m.leadAmong(domains, n)
	}
	return domains[best].span, min(n, left(&domains[best]))
}

// leadAmong is the domain for the lead where it needs others for the pods beside it.
func (m *gangMatch) leadAmong(domains []domain, n int64) int {
	m.sortByRoom(domains, func(*domain) bool { return true })
	count := len(domains)
	// ranks are the places of the domains in the order of room, the roomiest first, and
	// sums the room of so many of them.
	m.ranks = slices.Grow(m.ranks[:0], count)[:count]
	m.sums = append(m.sums[:0], 0)
	for i := range count {
		d := domainIn(m.order[count-1-i])
		m.ranks[d] = int32(i)
		m.sums = append(m.sums, m.sums[i]+domains[d].room)
	}
	// holds reports whether a domain, with the roomiest others, takes all.
	holds := func(d, k int) bool {
		if domains[d].loss == noLead {
			return false
		}
		room := m.sums[k]
		if int(m.ranks[d]) >= k {
			room = m.sums[k-1] + domains[d].room
		}
		return room-int64(domains[d].loss) >= n
	}
	best := func(k int) int {
		best := -1
		for d := range domains {
			if holds(d, k) && (best < 0 || domains[d].loss < domains[best].loss) {
				best = d
			}
		}
		return best
	}
	fewest := 1 + sort.Search(count-1, func(i int) bool { return best(i+1) >= 0 })
	return best(fewest)
}
