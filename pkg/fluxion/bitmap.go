// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"iter"
	"math/bits"
	"slices"
	"strings"
)

// Bitmap is a set of nodes of a graph, by index (Graph.Index). The zero Bitmap is empty.
type Bitmap []uint64

// Set adds a node.
func (b *Bitmap) Set(node int) {
	if word := node / 64; word >= len(*b) {
		*b = append(*b, make(Bitmap, word+1-len(*b))...)
	}
	(*b)[node/64] |= 1 << (node % 64)
}

// Has reports whether a node is in the set.
func (b Bitmap) Has(node int) bool {
	return node >= 0 && node/64 < len(b) && b[node/64]&(1<<(node%64)) != 0
}

// Meets reports whether a node is in both sets.
func (b Bitmap) Meets(other Bitmap) bool {
	for i := range min(len(b), len(other)) {
		if b[i]&other[i] != 0 {
			return true
		}
	}
	return false
}

// Without are the nodes that are not in another set.
func (b Bitmap) Without(other Bitmap) Bitmap {
	left := slices.Clone(b)
	for i := range min(len(b), len(other)) {
		left[i] &^= other[i]
	}
	return left
}

// add adds the nodes of a word, from the first node on.
func (b *Bitmap) add(first int32, nodes uint64) {
	word, shift := int(first/64), uint(first%64)
	for i, part := range [...]uint64{nodes << shift, nodes >> (64 - shift)} {
		if part != 0 {
			*b = append(*b, make(Bitmap, max(word+i+1-len(*b), 0))...)
			(*b)[word+i] |= part
		}
	}
}

// window is the part of the set from the first node on, as one word.
func (b Bitmap) window(first int32) uint64 {
	word, shift := int(first/64), uint(first%64)
	if word >= len(b) {
		return 0
	}
	window := b[word] >> shift
	if shift > 0 && word+1 < len(b) {
		window |= b[word+1] << (64 - shift)
	}
	return window
}

// Exclusion is a set of nodes that a shape cannot use, whoever holds them, and why.
type Exclusion struct {
	// Reason completes a number of nodes: "tainted gpu" for "9 tainted gpu".
	Reason string
	Nodes  Bitmap
}

// Exclusions turns pairs of a node and a reason into the exclusions of a Shape: one for
// each reason, sorted by reason. Nodes that are not in the graph are left out.
func (g *Graph) Exclusions(reasons iter.Seq2[string, string]) []Exclusion {
	var out []Exclusion
	for name, reason := range reasons {
		node, ok := g.Index(name)
		if !ok {
			continue
		}
		i := slices.IndexFunc(out, func(e Exclusion) bool { return e.Reason == reason })
		if i < 0 {
			i = len(out)
			out = append(out, Exclusion{Reason: reason, Nodes: make(Bitmap, 0, len(g.nodes.names)/64+1)})
		}
		out[i].Nodes.Set(node)
	}
	slices.SortFunc(out, func(a, b Exclusion) int { return strings.Compare(a.Reason, b.Reason) })
	return out
}

// bit is the word in which one bit is set.
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

// lowest are the lowest n bits that are set, or all of them if there are fewer.
func lowest(mask uint64, n int) uint64 {
	if bits.OnesCount64(mask) <= n {
		return mask
	}
	rest := mask
	for range n {
		rest &= rest - 1
	}
	return mask &^ rest
}
