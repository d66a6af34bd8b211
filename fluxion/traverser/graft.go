// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// ReadJGF reads a resource graph in the JSON Graph Format that Fluxion takes. It reads
// the containment subsystem, in which every vertex but the root has one parent. Edges
// and paths of other subsystems take no part in matches.
func ReadJGF(r io.Reader) (*Graph, error) {
	g := newGraph()
	if err := g.addJGF(r); err != nil {
		return nil, fmt.Errorf("reading JGF: %w", err)
	}
	return g, nil
}

// grafter adds to a graph the vertices of a JGF document that the graph does not have
// yet. A vertex of the document is one of the graph if both have the same path and rank.
type grafter struct {
	graph *Graph
	// index finds the vertex of the graph by the id that the document gives it.
	index map[string]int32
	// names holds one copy of each name: many vertices have the same name.
	names map[string]string
	// firstNew is the index of the first new vertex, and paths are those of the new ones.
	firstNew int32
	paths    []string
	// growing is true if the graph had vertices before.
	growing bool
}

// addJGF adds the vertices of a document. After an error the graph is of no use.
func (g *Graph) addJGF(r io.Reader) error {
	f := &grafter{
		graph: g, index: map[string]int32{}, names: map[string]string{},
		firstNew: int32(len(g.vertices)), growing: g.root != none,
	}
	if err := parseJGF(r, f); err != nil {
		return err
	}
	if g.root == none {
		return errors.New("no node is the root: none has a containment path with one slash")
	}
	return f.keepPaths()
}

func (f *grafter) vertex(v *jgfSpec) error {
	g := f.graph
	if _, twice := f.index[v.id]; twice {
		return errors.New("another node has its id")
	}
	path := v.spec.Path
	if f.growing {
		if known := g.find(path, v.spec.Rank); known != none {
			f.index[v.id] = known
			return nil
		}
	}
	v.spec.Path = ""
	v.spec.Name, v.spec.Basename = f.intern(v.spec.Name), f.intern(v.spec.Basename)
	u, err := g.add(none, v.spec)
	if err != nil {
		return err
	}
	if strings.LastIndexByte(path, '/') == 0 {
		if g.root != none {
			return fmt.Errorf("%s and %s are both roots", g.path(g.root), path)
		}
		g.root = u
	}
	if v.paths != nil {
		g.elsewhere[u] = v.paths
	}
	f.index[v.id] = u
	f.paths = append(f.paths, path)
	return nil
}

func (f *grafter) intern(name string) string {
	if known, has := f.names[name]; has {
		return known
	}
	f.names[name] = name
	return name
}

func (f *grafter) edge(from, to string) error {
	source, found := f.index[from]
	target, foundToo := f.index[to]
	switch {
	case !found || !foundToo:
		return fmt.Errorf("from %q to %q: it is not between nodes", from, to)
	case target < f.firstNew && source < f.firstNew:
		return nil
	case target == f.graph.root || target < f.firstNew || f.graph.vertices[target].parent != none:
		return fmt.Errorf("from %q to %q: it gives %s a second parent", from, to, f.graph.vertices[target].name)
	}
	f.graph.link(source, target)
	return nil
}

// keepPaths checks that the root leads to every new vertex. It keeps the paths that do
// not follow from the parents' paths and the vertices' names.
func (f *grafter) keepPaths() error {
	g := f.graph
	pathOf := func(v int32) string {
		if v >= f.firstNew {
			return f.paths[v-f.firstNew]
		}
		return g.path(v)
	}
	for v := f.firstNew; int(v) < len(g.vertices); v++ {
		if g.tooDeep(v) {
			return fmt.Errorf("%s is in a cycle, or more than %d levels deep", g.vertices[v].name, maxDepth)
		}
	}
	reached := 0
	g.below(g.root, func(v int32) {
		if v < f.firstNew {
			return
		}
		reached++
		path, name := pathOf(v), g.vertices[v].name
		rest, below := path, true
		if parent := g.vertices[v].parent; parent != none {
			rest, below = strings.CutPrefix(path, pathOf(parent))
			below = below && g.paths[parent] == "" // otherwise names from the root on do not lead to v
		}
		if !below || len(rest) != len(name)+1 || rest[0] != '/' || rest[1:] != name {
			g.paths[v] = path
			clear(g.byPath)
		}
	})
	if reached != len(f.paths) {
		return fmt.Errorf("%d of %d nodes are not below the root", len(f.paths)-reached, len(f.paths))
	}
	return nil
}
