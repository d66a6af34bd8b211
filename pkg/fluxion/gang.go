// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import "time"

// Gang is a request for brokers that start together, each in a pod of its own.
type Gang struct {
	// Job is the id under which Take records what it is given.
	Job string
	// Pods is the shape of its pods.
	Pods Shape
	// Lead is the shape of the pod of rank 0, where it has one of its own.
	Lead *Shape
	// Sizes are the numbers of pods, the lead among them, that it may start with: one
	// at least, in any order. Numbers below 1
	// and above 2^31-1 never fit.
	Sizes []int
	// MaxPerNode is how many of its pods one node may have; 0 if any number.
	MaxPerNode int
	// Distinct puts one pod on each node while there are nodes with room, and then a
	// second one on each, and so on. Otherwise it gets the fewest nodes.
	Distinct bool
	Topology Topology
	Policy   Policy
	// End is when the job will be over, at the latest; zero if that is not known.
	End time.Time
}

// Shape is what pods take, and where they cannot be.
type Shape struct {
	// Requests are what one pod takes.
	Requests Resources
	// Infeasible are the nodes that it cannot use. Where a node is in several, the
	// first says why.
	Infeasible []Exclusion
}

// Topology says how close the pods of a gang have to be to each other. It comes
// before everything but the size.
type Topology struct {
	// Level is the name of a level of the graph; "" if it does not matter.
	Level string
	// Required: all are in one domain of the level; the size is the largest that a
	// domain has room for. Otherwise they are in as few domains as their size allows.
	Required bool
}

// Policy says which of the nodes that would do are taken.
type Policy int

const (
	// Pack takes the fewest innermost domains (racks), of these the one in which least
	// is left over, and in it the nodes with the least room, those that get full and
	// those of which something is taken already first: whole racks and whole nodes are
	// left to others.
	Pack Policy = iota
	// Spread takes as many nodes (as Distinct does) and as many innermost domains as
	// it can, evenly.
	Spread
)

// Placement is where a gang would be.
type Placement struct {
	// Nodes are the nodes by rank. Ranks follow the order of the graph, but for a lead
	// with a shape of its own, so that neighbours in rank are neighbours.
	Nodes []string
}

// MatchGang finds nodes for the largest allowed size that fits now: all of it or
// nothing. It changes nothing; what is found has to be taken (Take). Where there is
// no room, the refusal says so in numbers, and Explain knows more.
func (g *Graph) MatchGang(gang Gang) (Placement, *Refusal) {
	m := g.match(&gang)
	m.gather(g.nodes.pages)
	fits := m.fits()
	size := largestWithin(gang.Sizes, fits)
	if size == 0 {
		return Placement{}, g.refuse(m, fits, least(gang.Sizes))
	}
	m.narrow(int64(size))
	pods := int64(size)
	if gang.Lead != nil {
		pods--
		m.placeLead(g.nodes.pages, pods)
	}
	m.place(pods)
	return Placement{m.byRank(size)}, nil
}

// CouldHold reports whether the gang would fit the graph if nobody held any of it
// and every node were up. If not, it says so.
func (g *Graph) CouldHold(gang Gang) *Refusal {
	m := g.match(&gang)
	m.gather(g.nodes.empty)
	if largestWithin(gang.Sizes, m.fits()) > 0 {
		return nil
	}
	m.gather(g.nodes.pages)
	return g.refuse(m, m.fits(), least(gang.Sizes))
}

// Fits is how many pods of a gang there is room for now, whatever its sizes: in one
// domain, where all have to be in one. No more than 2^31-1 count.
func (g *Graph) Fits(gang Gang) int {
	m := g.match(&gang)
	m.gather(g.nodes.pages)
	return int(min(m.fits(), unlimited))
}

// fitsNow reports whether the gang has room at one of its sizes.
func (g *Graph) fitsNow(gang *Gang) bool {
	m := g.match(gang)
	m.gather(g.nodes.pages)
	return largestWithin(gang.Sizes, m.fits()) > 0
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
