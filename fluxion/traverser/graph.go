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

// none stands for no vertex where the index of one is expected.
const none int32 = -1

// kind is a resource type, as an index into Graph.kinds.
type kind uint16

// These are the types that Fluxion knows from the start, in its order. The order decides
// which type a pruning filter counts last; the policy "first" orders children by that type.
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

// vertexSpec is a vertex as a reader found it.
type vertexSpec struct {
	// The name of a vertex is Basename and ID, as a rule.
	Type, Basename, Name string
	// ID is what policies score by. UniqID is unique in the graph, and is the id in JGF.
	// Rank is the rank of the broker (execution target), or -1. Size is the size of the
	// resource pool.
	ID, UniqID, Rank, Size int64
	Unit                   string
	Down, Exclusive        bool
	Properties             map[string]string
	// Path is the path of a vertex whose path is not its parent's path and its name.
	Path string
}

// vertex is a resource pool, its place in the tree, and what is planned for it.
type vertex struct {
	parent, first, last, next int32
	kind                      kind
	down                      bool
	// gone is true for a vertex that was removed. The vertex stays in the slice, so that
	// the indexes of the others do not change.
	gone bool
	rank int32
	size int64
	id   int64
	uniq int64
	// plan is the index of the timeline; none until something is planned.
	plan int32
	// totals is where the aggregates of the pruning filter start in Graph.totals; none for
	// a vertex without a filter.
	totals int32
	// allocations and reservations are the numbers of jobs that hold the pool.
	allocations, reservations int32
	// running is the number of jobs that use the vertex or a vertex below it, and started
	// when they were given.
	running int32
	// filtered is the number of jobs that have an amount in the pruning filter.
	filtered int32
	// weight orders the children of a vertex for policies that stop early.
	weight uint64
	// A match marks the vertices that it has chosen, with its sequence number, the units
	// that it needs, and whether the job gets the vertex exclusively.
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
	// plans are the timelines of the vertices.
	plans []timeline
	// filters are the types that the pruning filter of each kind of vertex counts, and
	// totals are the amounts of these types below each vertex.
	filters [][]kind
	totals  []int64
	// Few vertices have a unit, properties, or a path that does not follow from the tree.
	units      map[int32]string
	properties map[int32]map[string]string
	paths      map[int32]string
	// byPath finds the vertices with such a path.
	byPath map[string][]int32
	// elsewhere are the paths of vertices in other subsystems.
	elsewhere map[int32]map[string]string
	// named are the children of vertices by name. They are valid while shape is namedShape.
	named      map[int32]map[string][]int32
	namedShape uint64
	// nodesUp is the number of nodes that are up, and below no vertex that is down.
	nodesUp int64
	// shape counts the changes of the tree, by which caches notice that they are out of
	// date.
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

// intern is the kind of a type, new or known.
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

// maxVertices bounds the vertices of a graph, because indexes have 32 bits. maxDepth bounds
// its levels, because walks are recursive.
const (
	maxVertices = 1 << 26
	maxDepth    = 1000
)

// tooDeep reports whether a vertex is below the last allowed level, or in a cycle.
func (g *Graph) tooDeep(v int32) bool {
	for range maxDepth {
		if v = g.vertices[v].parent; v == none {
			return false
		}
	}
	return true
}

// check refuses a vertex that cannot exist.
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

// add appends a vertex as the last child of parent. A vertex without a parent is linked to
// one later.
func (g *Graph) add(parent int32, spec vertexSpec) (int32, error) {
	if len(g.vertices) >= maxVertices || len(g.kinds) > math.MaxUint16-1 {
		const text = "adding a vertex: a graph holds at most %d vertices of %d types"
		return none, fmt.Errorf(text, maxVertices, math.MaxUint16-1)
	}
	if err := spec.check(); err != nil {
		return none, fmt.Errorf("adding vertex %q: %w", spec.Name, err)
	}
	v := int32(len(g.vertices))
	if len(g.vertices) == cap(g.vertices) { // append alone would copy a large graph ten times
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

// addBelow appends a vertex below parent, and returns its index. The vertex without a
// parent is the root.
func (g *Graph) addBelow(parent int32, spec vertexSpec) (int32, error) {
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
	if parent == none {
		return
	}
	g.shape++
	p := &g.vertices[parent]
	g.vertices[v].parent = parent
	if p.last == none {
		p.first = v
	} else {
		g.vertices[p.last].next = v
	}
	p.last = v
}

// unlink removes v from the children of its parent.
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

// below calls visit for v and every vertex below it, parents first.
func (g *Graph) below(v int32, visit func(int32)) {
	visit(v)
	for c := g.vertices[v].first; c != none; c = g.vertices[c].next {
		g.below(c, visit)
	}
}

// dims is the number of amounts that the timeline of a vertex counts.
func (g *Graph) dims(v *vertex) int {
	if v.totals == none {
		return filterDims
	}
	return filterDims + len(g.filters[v.kind])
}

// clone is a deep copy. It shares the filters, which are never changed in place.
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
