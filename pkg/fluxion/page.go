// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"math/bits"
	"slices"
)

// pageSize is the number of nodes of a page: the bits of a word.
const pageSize = 64

// page tells what is left of up to 64 neighbouring nodes of one innermost domain.
// Nodes between which no match can tell a difference are one class: a match
// reckons once for all of them.
//
// Invariants: each node of the page is in one class; no class is without nodes;
// no two classes are alike. Only the owner writes to a page, all others copy it
// first.
type page struct {
	owner   *owner
	classes []class
	// free is what is left, by class and resource.
	free []int64
}

// owner is whose a page is: of one graph, until it gives a snapshot away.
type owner struct{ _ byte }

// class are the nodes of a page that are alike.
type class struct {
	nodes uint64
	// model is what they have (layout.models).
	model int32
	// down is why nothing can be placed on them; "" if they are up.
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

func (p *page) clone(owner *owner) *page {
	// Room for one class more: the next thing that happens is often a new one.
	width := p.width()
	classes := make([]class, len(p.classes), len(p.classes)+1)
	free := make([]int64, len(p.free), len(p.free)+width)
	copy(classes, p.classes)
	copy(free, p.free)
	return &page{owner, classes, free}
}

// change gives back n times the amounts on each of the nodes, or takes them where n
// is below zero.
func (p *page) change(nodes uint64, amounts []int64, n int64) {
	p.alter(nodes, func(class int) {
		left := p.left(class)
		for r := range left {
			left[r] += n * amounts[r]
		}
	})
}

// setDown says of nodes why they are down.
func (p *page) setDown(nodes uint64, why string) {
	p.alter(nodes, func(class int) { p.classes[class].down = why })
}

// alter does something to each class that some nodes make up, once they are apart from
// the nodes that were like them.
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

// split takes nodes out of their class into one of their own, and returns it. It
// is like the other until it is changed, and then has to be joined.
func (p *page) split(from int, nodes uint64) int {
	if p.classes[from].nodes == nodes {
		return from
	}
	p.free = append(p.free, p.left(from)...) // before classes: width reckons with both
	p.classes = append(p.classes, p.classes[from])
	to := len(p.classes) - 1
	p.classes[from].nodes &^= nodes
	p.classes[to].nodes = nodes
	return to
}

// join puts a class into another that is like it, if there is one.
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

// remove puts the last class in the place of one.
func (p *page) remove(c int) {
	last, width := len(p.classes)-1, p.width()
	p.classes[c] = p.classes[last]
	copy(p.left(c), p.left(last))
	p.free = p.free[:last*width]
	p.classes[last] = class{}
	p.classes = p.classes[:last]
}

// bit is a node of a page.
func bit(i int32) uint64 { return 1 << uint(i) }

// eachBit yields the positions of the bits that are set, lowest first.
func eachBit(mask uint64) func(yield func(int32) bool) {
	return func(yield func(int32) bool) {
		for ; mask != 0; mask &= mask - 1 {
			if !yield(int32(bits.TrailingZeros64(mask))) {
				return
			}
		}
	}
}
