// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"iter"
	"math/bits"
	"slices"
	"strings"
)

// Bitmap is a set of nodes of a graph, by their index there (Graph.Index). The zero
// Bitmap is empty.
type Bitmap []uint64

// Set puts a node in.
func (b *Bitmap) Set(node int) {
	if word := node / 64; word >= len(*b) {
		*b = append(*b, make(Bitmap, word+1-len(*b))...)
	}
	(*b)[node/64] |= 1 << (node % 64)
}

// Has reports whether a node is in.
func (b Bitmap) Has(node int) bool {
	return node >= 0 && node/64 < len(b) && b[node/64]&(1<<(node%64)) != 0
}

// Count is the number of nodes.
func (b Bitmap) Count() int {
	count := 0
	for _, word := range b {
		count += bits.OnesCount64(word)
	}
	return count
}

// window is 64 nodes, from the first on.
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

// Exclusion are nodes that a shape cannot use, whoever holds them, and why.
type Exclusion struct {
	// Reason says it for a number of nodes: "9 tainted gpu".
	Reason string
	Nodes  Bitmap
}

// Exclusions groups reasons by node, each name with a reason that is not empty,
// into what a Shape needs, in the order of the reasons. Nodes that the graph does
// not have are left out.
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

// lowest are the lowest n bits that are set, or all.
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
