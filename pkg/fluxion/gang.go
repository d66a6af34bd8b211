// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"maps"
	"time"
)

// Gang is a request for brokers that start together, each in a pod of its own.
type Gang struct {
	// Job is the id under which Take records what the gang holds.
	Job string
	// Pods is the shape of every pod.
	Pods Shape
	// Sizes are the numbers of pods that the gang may start with, in any order. Numbers
	// below 1 and above 2^31-1 never fit.
	Sizes []int
	// Distinct puts one pod on each node while there are nodes with room, then a second
	// pod on each, and so on. Otherwise the gang gets the fewest nodes.
	Distinct bool
	Topology Topology
	Policy   Policy
	// End is the latest time at which the job ends; zero if that time is not known.
	End time.Time
}

// Shape is what a pod takes, and where the pod cannot be.
type Shape struct {
	// Requests are what one pod takes. With WholeNode the pod has its node alone.
	Requests Resources
	// Infeasible are the nodes that the pod cannot use. If several exclusions have a
	// node, the first one gives the reason.
	Infeasible []Exclusion
	// Closed are the nodes that the pod cannot use for now, whatever ends. The empty graph
	// has no such nodes.
	Closed []Exclusion
}

// Topology says how close the pods of a gang have to be to each other. Topology comes
// before everything but the size.
type Topology struct {
	// Level is the name of a level of the graph; "" if the topology does not matter.
	Level string
	// Required puts all pods into one domain of the level: the size is the largest that
	// a domain has room for. Otherwise the pods get as few domains as their size allows.
	Required bool
}

// Policy says which of the suitable nodes are taken.
type Policy int

const (
	// Pack leaves whole zones, racks and nodes to other gangs. It takes the fewest domains of
	// the outermost level (zones), in these the fewest of the next level, and so on, and of
	// equally many the domain in which least is left over. In an innermost domain (rack) it
	// takes the nodes with the least room: first the nodes that become full, then the nodes in
	// use.
	Pack Policy = iota
	// Spread takes as many nodes and as many innermost domains as possible, evenly. It
	// implies Distinct.
	Spread
)

// Placement is where the pods of a gang are.
type Placement struct {
	// Nodes are the nodes by rank. Ranks follow the order of the graph, so that
	// neighbours in rank are neighbours in the topology.
	Nodes []string
}

// clone is a copy with its own requests: a job gives back exactly what it took.
func (g *Gang) clone() Gang {
	c := *g
	c.Pods.Requests = maps.Clone(g.Pods.Requests)
	return c
}

// MatchGang finds nodes for the largest allowed size that fits now: for the whole gang
// or for nothing. It changes nothing: Take records the placement. If there is no room,
// the refusal says so in numbers, and Explain adds reasons.
func (g *Graph) MatchGang(gang Gang) (Placement, *Refusal) {
	m, fits := g.room(&gang)
	size := largestWithin(gang.Sizes, fits)
	if size == 0 {
		return Placement{}, g.refuse(m, fits)
	}
	m.narrow(int64(size))
	m.place(int64(size))
	return Placement{m.byRank(size)}, nil
}

// CouldHold returns nil if the gang would fit with every node up and nothing held or closed.
// Otherwise it returns a refusal.
func (g *Graph) CouldHold(gang Gang) *Refusal {
	m := g.match(&gang)
	m.gatherEmpty()
	if largestWithin(gang.Sizes, m.fits()) > 0 {
		return nil
	}
	m.gather(g.nodes.pages)
	return g.refuse(m, m.fits())
}

// Fits is the number of pods of a gang for which there is room now, whatever sizes are
// allowed: in one domain, if all pods have to be in one. No more than 2^31-1 count.
func (g *Graph) Fits(gang Gang) int {
	_, fits := g.room(&gang)
	return int(min(fits, unlimited))
}

// FitsApart is Fits with no more than one pod of the gang on each node.
func (g *Graph) FitsApart(gang Gang) int {
	m := g.match(&gang)
	m.gather(g.nodes.pages)
	for i := range m.cells {
		m.cells[i].room = min(m.cells[i].room, 1)
		m.cells[i].take = m.cells[i].room
	}
	return int(min(m.fits(), unlimited))
}

// fitsNow reports whether the gang has room at one of its sizes.
func (g *Graph) fitsNow(gang *Gang) bool {
	_, fits := g.room(gang)
	return largestWithin(gang.Sizes, fits) > 0
}

// room begins a match, and counts the pods of the gang that fit now.
func (g *Graph) room(gang *Gang) (*gangMatch, int64) {
	m := g.match(gang)
	m.gather(g.nodes.pages)
	fits := m.fits()
	return m, fits
}

// largestWithin is the largest allowed size of at most n pods; 0 if there is none.
func largestWithin(sizes []int, n int64) int {
	largest := 0
	for _, size := range sizes {
		if int64(size) <= min(n, unlimited) {
			largest = max(largest, size)
		}
	}
	return largest
}

// least is the smallest allowed size; 0 if there is none.
func least(sizes []int) int {
	least := 0
	for _, size := range sizes {
		if size > 0 && (least == 0 || size < least) {
			least = size
		}
	}
	return least
}
