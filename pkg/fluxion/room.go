// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"math/bits"
	"slices"
)

// Room is the room of a node for pods of a gang, for callers that choose nodes
// themselves.
type Room struct {
	// Node is the index of the node.
	Node int
	// Pods is the number of pods that the node can take now; no more than 2^31-1. The
	// gang's topology does not matter here.
	Pods int
	// Domains are the domains of the node by level, outermost first. The numbers rise in
	// the order of the graph, and are below zero for a node that is in no domain of the
	// level. The slice must not be changed.
	Domains []int
}

// Rooms are the nodes that can take a pod of a gang now, in the order of the graph.
func (g *Graph) Rooms(gang Gang) []Room {
	m := g.match(&gang)
	m.gather(g.nodes.pages)
	var rooms []Room
	for cells := m.cells; len(cells) > 0; {
		page := cells[0].page
		var pods [pageSize]int32
		can := uint64(0)
		for ; len(cells) > 0 && cells[0].page == page; cells = cells[1:] {
			can |= cells[0].nodes
			for node := range eachBit(cells[0].nodes) {
				pods[node] = cells[0].room
			}
		}
		domains := m.domainsOf(page)
		for node := range eachBit(can) {
			rooms = append(rooms, Room{int(m.first[page] + node), int(pods[node]), domains})
		}
	}
	return rooms
}

// Usable are the nodes that could take a pod of a gang if every node were up and nothing held. The gang's topology does not
// matter here.
func (g *Graph) Usable(gang Gang) Bitmap {
	m := g.match(&gang)
	m.gather(m.empty)
	nodes := Bitmap{}
	for i := range m.cells {
		nodes.add(m.first[m.cells[i].page], m.cells[i].nodes)
	}
	return nodes
}

// maxSum is the largest amount of several nodes.
const maxSum = 1 << 61

// AmountIn is how much of a resource is free on those nodes of the set that are up, and how much of it they have in all.
// Nothing is free of a node that a pod has alone.
func (b Bitmap) AmountIn(g *Graph, resource string) (free, all int64) {
	l := g.nodes.layout
	index, known := slices.BinarySearch(l.resources, resource)
	whole, _ := slices.BinarySearch(l.resources, WholeNode)
	if !known {
		return 0, 0
	}
	for i, page := range g.nodes.pages {
		in := b.window(l.first[i])
		for c := range page.classes {
			class := &page.classes[c]
			nodes := int64(bits.OnesCount64(class.nodes & in))
			if nodes == 0 || class.down != "" {
				continue
			}
			all = min(all+nodes*max(l.model(class.model)[index], 0), maxSum)
			if left := page.left(c); left[whole] > 0 {
				free = min(free+nodes*max(left[index], 0), maxSum)
			}
		}
	}
	return free, all
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
