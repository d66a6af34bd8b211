// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// none is the index of no vertex.
const none int32 = -1

// kind is a resource type, interned: an index into tree.kinds.
type kind uint16

// Types that Fluxion knows from the start, in its order: it decides which
// aggregate is the last of a pruning filter, by which the policy first orders.
const (
	clusterKind kind = iota
	coreKind
	socketKind
	gpuKind
	nodeKind
	rackKind
	slotKind
	xorSlotKind
	ssdKind
	storageNodeKind
)

var firstKinds = []string{
	"cluster", "core", "socket", "gpu", "node", "rack", "slot", "xor_slot", "ssd", "storage_node",
}

// VertexSpec is a resource as a reader found it.
type vertexSpec struct {
	// Type of the resource; its pool is named Name, as a rule Basename and ID.
	Type, Basename, Name string
	// ID is what policies score by; UniqID is unique in the graph, and the id in
	// JGF; Rank is that of the broker (execution target), -1 if it has none; Size
	// is how much the pool holds.
	ID, UniqID, Rank, Size int64
	Unit                   string
	Down, Exclusive        bool
	Properties             map[string]string
	// Path is kept where it is not the parent's path and Name.
	Path string
}

// vertex is a resource pool, its place in the tree, and what is planned on it.
type vertex struct {
	parent, first, last, next int32
	kind                      kind
	down                      bool
	// gone: cut off; the vertex stays, so that indexes do.
	gone bool
	rank int32
	size int64
	id   int64
	uniq int64
	// plan is the index of its timeline, none as long as nothing was planned.
	plan int32
	// totals is where its aggregates start in tree.totals, none for a leaf.
	totals int32
	// allocations and reservations are how many jobs hold its pool.
	allocations, reservations int32
	// running is how many jobs that are no reservations use it or something below.
	running int32
	// filtered is how many jobs have something in its pruning filter.
	filtered int32
	// weight orders the children of one parent for policies that stop early.
	weight uint64
	// mark tells the update what the match chose: the job's need of the edge that
	// leads here, valid where seq is that of the match.
	mark           uint64
	needs          int64
	exclusive      bool
	name, basename string
}

// Graph is a resource graph: the tree of its containment subsystem. The vertices are a
// slice and refer to each other by index. Children keep the order of their edges, which
// is the order of traversal and of output.
type Graph struct {
	kinds     []string
	kindIndex map[string]kind
	vertices  []vertex
	root      int32
	// plans are the timelines of the vertices that something was planned on.
	plans []timeline
	// filters are, by kind of vertex, the types whose amounts below it are counted;
	// totals the amounts.
	filters [][]kind
	totals  []int64
	// units, properties and paths of the few vertices that have some.
	units      map[int32]string
	properties map[int32]map[string]string
	paths      map[int32]string
	// byPath finds those with a path of their own.
	byPath map[string][]int32
	// elsewhere are the paths of vertices in other subsystems.
	elsewhere map[int32]map[string]string
	// named are children by name of the parents that were asked about, as the tree was
	// at namedShape.
	named      map[int32]map[string][]int32
	namedShape uint64
	// nodesUp counts the vertices of type node that are up, with all they are in.
	nodesUp int64
	// shape counts changes of the tree itself, by which indexes notice them.
	shape uint64
}

func newGraph() *Graph {
	g := &Graph{
		root: none, kindIndex: map[string]kind{}, units: map[int32]string{},
		properties: map[int32]map[string]string{}, paths: map[int32]string{},
		byPath: map[string][]int32{}, elsewhere: map[int32]map[string]string{},
	}
	for _, name := range firstKinds {
		g.intern(name)
	}
	return g
}

// intern returns the kind of a type, new or known.
func (g *Graph) intern(name string) kind {
	if k, known := g.kindIndex[name]; known {
		return k
	}
	k := kind(len(g.kinds))
	name = strings.Clone(name)
	g.kinds = append(g.kinds, name)
	g.kindIndex[name] = k
	return k
}

// maxVertices bounds a graph: indexes are 32 bits wide. maxDepth bounds its levels:
// walks are recursive.
const (
	maxVertices = 1 << 26
	maxDepth    = 1000
)

// tooDeep reports whether a vertex is on a level beyond the last, or in a cycle.
func (g *Graph) tooDeep(v int32) bool {
	for range maxDepth {
		if v = g.vertices[v].parent; v == none {
			return false
		}
	}
	return true
}

// check refuses what no vertex can be.
func (s *vertexSpec) check() error {
	switch {
	case s.Type == "":
		return errors.New("it has no type")
	case s.Size < 0 || s.Size > math.MaxUint32:
		return fmt.Errorf("size %d is not between 0 and %d", s.Size, math.MaxUint32)
	case s.Rank < -1 || s.Rank > math.MaxInt32:
		return fmt.Errorf("rank %d is not between -1 and %d", s.Rank, math.MaxInt32)
	}
	return nil
}

// add appends a vertex as the last child of parent; none makes it the root.
func (g *Graph) add(parent int32, spec vertexSpec) (int32, error) {
	if len(g.vertices) >= maxVertices || len(g.kinds) > math.MaxUint16-1 {
		return none, fmt.Errorf("adding a vertex: a graph holds at most %d vertices of %d types", maxVertices, math.MaxUint16-1)
	}
	if err := spec.check(); err != nil {
		return none, fmt.Errorf("adding vertex %q: %w", spec.Name, err)
	}
	v := int32(len(g.vertices))
	if len(g.vertices) == cap(g.vertices) { // append would copy a large graph ten times
		g.vertices = slices.Grow(g.vertices, max(len(g.vertices), 64))
	}
	g.vertices = append(g.vertices, vertex{
		parent: none, first: none, last: none, next: none, plan: none, totals: none,
		kind: g.intern(spec.Type), down: spec.Down, rank: int32(spec.Rank), size: spec.Size, id: spec.ID,
		uniq: spec.UniqID, weight: math.MaxUint64, name: spec.Name, basename: spec.Basename,
	})
	if spec.Unit != "" {
		g.units[v] = spec.Unit
	}
	if len(spec.Properties) > 0 {
		g.properties[v] = spec.Properties
	}
	if spec.Path != "" {
		g.paths[v] = spec.Path
	}
	g.link(parent, v)
	return v, nil
}

// addBelow appends a vertex below parent; none makes it the root, of which there is
// one. It returns its index.
func (g *Graph) addBelow(parent int32, spec vertexSpec) (int32, error) {
	if parent == none && g.root != none {
		return none, fmt.Errorf("adding vertex %s: the graph has a root already, %s", spec.Name, g.vertices[g.root].name)
	}
	v, err := g.add(parent, spec)
	if err != nil {
		return none, err
	}
	if parent == none {
		g.root = v
	}
	if g.tooDeep(v) {
		return none, fmt.Errorf("adding vertex %q: it is more than %d levels deep", spec.Name, maxDepth)
	}
	return v, nil
}

// link makes v the last child of parent.
func (g *Graph) link(parent, v int32) {
	g.shape++
	if parent == none {
		return
	}
	p := &g.vertices[parent]
	g.vertices[v].parent = parent
	if p.last == none {
		p.first = v
	} else {
		g.vertices[p.last].next = v
	}
	p.last = v
}

// unlink takes v out of its parent's children.
func (g *Graph) unlink(v int32) {
	g.shape++
	p := &g.vertices[g.vertices[v].parent]
	if p.first == v {
		p.first = g.vertices[v].next
		if p.last == v {
			p.last = none
		}
		return
	}
	before := p.first
	for g.vertices[before].next != v {
		before = g.vertices[before].next
	}
	g.vertices[before].next = g.vertices[v].next
	if p.last == v {
		p.last = before
	}
}

// below calls visit for v and everything under it, parents first.
func (g *Graph) below(v int32, visit func(int32)) {
	visit(v)
	for c := g.vertices[v].first; c != none; c = g.vertices[c].next {
		g.below(c, visit)
	}
}

// dims is how many amounts the timeline of a vertex counts.
func (g *Graph) dims(v *vertex) int {
	if v.totals == none {
		return filterDims
	}
	return filterDims + len(g.filters[v.kind])
}

// clone is a deep copy.
func (g *Graph) clone() *Graph {
	c := *g
	c.kinds, c.vertices, c.totals = slices.Clone(g.kinds), slices.Clone(g.vertices), slices.Clone(g.totals)
	c.kindIndex = maps.Clone(g.kindIndex)
	c.plans = make([]timeline, len(g.plans))
	for i := range g.plans {
		c.plans[i] = g.plans[i].clone()
	}
	c.units, c.paths, c.elsewhere = maps.Clone(g.units), maps.Clone(g.paths), maps.Clone(g.elsewhere)
	c.byPath, c.named, c.namedShape = map[string][]int32{}, nil, 0
	c.properties = make(map[int32]map[string]string, len(g.properties))
	for v, properties := range g.properties {
		c.properties[v] = maps.Clone(properties)
	}
	return &c
}
