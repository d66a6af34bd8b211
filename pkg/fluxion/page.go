// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import "slices"

// pageSize is the number of nodes of a page: the bits of a word.
const pageSize = 64

// page is what is left of up to 64 neighbouring nodes of one innermost domain. Nodes
// that no match can tell apart are one class: a match counts once for all of them.
//
// Invariants: each node of the page is in one class; no class is without nodes; no two
// classes are alike. Only the owner changes a page; everybody else copies it first.
type page struct {
	owner   *owner
	classes []class
	// free is what is left of each node, by class and resource.
	free []int64
}

// owner is the identity of one graph that may change its pages and jobs. A snapshot and
// its graph get new owners.
type owner struct{ _ byte }

// class is a set of nodes of a page that are alike.
type class struct {
	nodes uint64
	// model is the capacity of each node (layout.models).
	model int32
	// down is the reason why nothing can be placed on the nodes; "" if they are up.
	down string
}

// width is the number of resources.
func (p *page) width() int { return len(p.free) / len(p.classes) }

// left is what is left of each node of a class.
func (p *page) left(class int) []int64 {
	width := p.width()
	return p.free[class*width : (class+1)*width]
}

// of is the class of a node.
func (p *page) of(node uint64) int {
	return slices.IndexFunc(p.classes, func(c class) bool { return c.nodes&node != 0 })
}

// all is the set of nodes of a page.
func (p *page) all() uint64 {
	nodes := uint64(0)
	for i := range p.classes {
		nodes |= p.classes[i].nodes
	}
	return nodes
}

func (p *page) clone(owner *owner) *page {
	// The copy has room for one more class, because the next change often makes one.
	width := p.width()
	classes := make([]class, len(p.classes), len(p.classes)+1)
	free := make([]int64, len(p.free), len(p.free)+width)
	copy(classes, p.classes)
	copy(free, p.free)
	return &page{owner, classes, free}
}

// change adds n times the amounts to what is left of each of the nodes.
func (p *page) change(nodes uint64, amounts []int64, n int64) {
	p.alter(nodes, func(class int) {
		left := p.left(class)
		for r := range left {
			left[r] += n * amounts[r]
		}
	})
}

// setDown gives the reason why nodes are down.
func (p *page) setDown(nodes uint64, why string) {
	p.alter(nodes, func(class int) { p.classes[class].down = why })
}

// alter changes some nodes, class by class. Nodes that are to change leave their class
// first, and join a class that is like them afterwards.
func (p *page) alter(nodes uint64, do func(class int)) {
	for i := 0; i < len(p.classes) && nodes != 0; {
		moving := p.classes[i].nodes & nodes
		if moving == 0 {
			i++
			continue
		}
		nodes &^= moving
		to := p.split(i, moving)
		do(to)
		p.join(to)
		i = 0 // classes have moved
	}
}

// split moves nodes out of their class into a new one, and returns the new one. Both are
// alike until the caller changes one and calls join.
func (p *page) split(from int, nodes uint64) int {
	if p.classes[from].nodes == nodes {
		return from
	}
	p.free = append(p.free, p.left(from)...) // before classes, since width divides one by the other
	p.classes = append(p.classes, p.classes[from])
	to := len(p.classes) - 1
	p.classes[from].nodes &^= nodes
	p.classes[to].nodes = nodes
	return to
}

// join merges a class into another one that is like it, if there is one.
func (p *page) join(c int) {
	for other := range p.classes {
		if other != c && p.alike(other, c) {
			p.classes[other].nodes |= p.classes[c].nodes
			p.remove(c)
			return
		}
	}
}

func (p *page) alike(a, b int) bool {
	return p.classes[a].model == p.classes[b].model && p.classes[a].down == p.classes[b].down &&
		slices.Equal(p.left(a), p.left(b))
}

// remove replaces a class by the last one.
func (p *page) remove(c int) {
	last, width := len(p.classes)-1, p.width()
	p.classes[c] = p.classes[last]
	copy(p.left(c), p.left(last))
	p.free = p.free[:last*width]
	p.classes[last] = class{}
	p.classes = p.classes[:last]
}
