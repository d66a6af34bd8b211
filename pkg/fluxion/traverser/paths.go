// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"slices"
	"strings"
)

// path is where a vertex is: "/cluster0/rack1/node7".
func (g *Graph) path(v int32) string {
	if path, own := g.paths[v]; own {
		return path
	}
	if g.vertices[v].parent == none {
		return "/" + g.vertices[v].name
	}
	return g.path(g.vertices[v].parent) + "/" + g.vertices[v].name
}

// at returns the vertices of a path: as a rule one, several where siblings of
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

// childrenNamed are the children of a name whose path follows from where they are.
// The names of a parent's children are kept: often many are asked for.
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

// ownPaths are the vertices with a path of their own.
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

// find returns the vertex of a path and rank.
func (g *Graph) find(path string, rank int64) int32 {
	for _, v := range g.at(path) {
		if int64(g.vertices[v].rank) == rank {
			return v
		}
	}
	return none
}

// rankRoots are the topmost vertices of broker ranks, and the ranks that no vertex has.
func (g *Graph) rankRoots(ranks []int64) (roots []int32, missing []int64) {
	byRank := g.rootsByRank()
	for _, rank := range ranks {
		if rank < 0 || len(byRank[rank]) == 0 {
			missing = append(missing, rank)
		} else {
			roots = append(roots, byRank[rank]...)
		}
	}
	slices.Sort(roots)
	return slices.Compact(roots), missing
}

// rootsByRank are the topmost vertices of all ranks.
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
