// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"slices"
	"strings"
)

// path is the path of a vertex: "/cluster0/rack1/node7".
func (g *Graph) path(v int32) string {
	if path, own := g.paths[v]; own {
		return path
	}
	if g.vertices[v].parent == none {
		return "/" + g.vertices[v].name
	}
	return g.path(g.vertices[v].parent) + "/" + g.vertices[v].name
}

// at finds the vertices of a path. There is one as a rule, and several if siblings of
// different ranks share a name.
func (g *Graph) at(path string) []int32 {
	if own := g.ownPaths()[path]; len(own) > 0 {
		return own
	}
	names := strings.Split(path, "/")
	if g.root == none || len(names) < 2 || names[0] != "" || names[1] != g.vertices[g.root].name {
		return nil
	}
	found := []int32{g.root}
	for _, name := range names[2:] {
		var next []int32
		for _, v := range found {
			next = append(next, g.childrenNamed(v, name)...)
		}
		found = next
	}
	return found
}

// childrenNamed are the children of a name, without those whose path does not follow from
// the tree. The names are kept, because many children are looked up.
func (g *Graph) childrenNamed(v int32, name string) []int32 {
	if g.namedShape != g.shape {
		g.named, g.namedShape = map[int32]map[string][]int32{}, g.shape
	}
	byName, known := g.named[v]
	if !known {
		byName = map[string][]int32{}
		for c := g.vertices[v].first; c != none; c = g.vertices[c].next {
			if g.paths[c] == "" {
				byName[g.vertices[c].name] = append(byName[g.vertices[c].name], c)
			}
		}
		g.named[v] = byName
	}
	return byName[name]
}

// ownPaths finds the vertices whose path does not follow from the tree.
func (g *Graph) ownPaths() map[string][]int32 {
	if len(g.paths) > 0 && len(g.byPath) == 0 {
		for v, path := range g.paths {
			g.byPath[path] = append(g.byPath[path], v)
		}
		for _, vertices := range g.byPath {
			slices.Sort(vertices)
		}
	}
	return g.byPath
}

// find is the vertex of a path and rank; none if there is no such vertex.
func (g *Graph) find(path string, rank int64) int32 {
	for _, v := range g.at(path) {
		if int64(g.vertices[v].rank) == rank {
			return v
		}
	}
	return none
}

// rootsByRank are the topmost vertices of every rank.
func (g *Graph) rootsByRank() map[int64][]int32 {
	roots := map[int64][]int32{}
	g.below(g.root, func(v int32) {
		x := &g.vertices[v]
		if x.parent == none || g.vertices[x.parent].rank != x.rank {
			roots[int64(x.rank)] = append(roots[int64(x.rank)], v)
		}
	})
	return roots
}
