// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import "slices"

// Room is what a node can take of a gang now, for those who choose nodes themselves.
type Room struct {
	// Node is the node's index in the order of the graph.
	Node int
	// Pods is how many pods that do not lead it takes, by all that the gang asks for but
	// its topology; no more than 2^31-1.
	Pods int
	// BesideLead is how many of them it takes beside a lead with a shape of its own;
	// below zero where there is no such lead, or it cannot be there.
	BesideLead int
	// Domains are those that the node is in, by level, outermost first: numbers that
	// rise in the order of the graph, below zero where it is in none. Not to be changed.
	Domains []int
}

// Levels are the names of the levels of the topology, outermost first.
func (g *Graph) Levels() []string {
	names := make([]string, len(g.nodes.levels))
	for i := range g.nodes.levels {
		names[i] = g.nodes.levels[i].name
	}
	return names
}

// Rooms are the nodes that can take a pod of a gang now, in the order of the graph.
func (g *Graph) Rooms(gang Gang) []Room {
	m := g.match(&gang)
	m.gather(g.nodes.pages)
	var rooms []Room
	cells, leads := m.cells, m.leads
	for page := range int32(len(g.nodes.pages)) {
		var pods, beside [pageSize]int32
		can := uint64(0)
		for ; len(cells) > 0 && cells[0].page == page; cells = cells[1:] {
			can |= cells[0].nodes
			for node := range eachBit(cells[0].nodes) {
				pods[node] = cells[0].room
			}
		}
		for ; len(leads) > 0 && leads[0].page == page; leads = leads[1:] {
			can |= leads[0].nodes
			for node := range eachBit(leads[0].nodes) {
				beside[node] = leads[0].after + 1
			}
		}
		domains := m.domainsOf(page)
		for node := range eachBit(can) {
			rooms = append(rooms, Room{int(m.first[page] + node), int(pods[node]), int(beside[node]) - 1, domains})
		}
	}
	return rooms
}

// domainsOf are the domains of a page, by level.
func (l *layout) domainsOf(page int32) []int {
	domains := slices.Repeat([]int{-1}, len(l.levels))
	for i := range l.levels {
		if level := &l.levels[i]; level.placed[page] {
			domains[i] = int(level.domain[page])
		}
	}
	return domains
}
