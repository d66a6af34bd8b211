// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"cmp"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// maxMade bounds the vertices that a reader makes, because a short text can stand for many.
const maxMade = 1 << 24

// containment is the subsystem that says which vertex is a part of which.
const containment = "containment"

// pool is a vertex of a recipe, of which many vertices of the graph are made.
type pool struct {
	vertex    vertexSpec
	root      bool
	subsystem string
	relations []relation
	visited   bool
	// made are the vertices of the graph; absent for a vertex in another subsystem.
	made []int32
}

// absent stands for a vertex that has an id, and no place in the containment.
const absent int32 = -2

// relation is an edge of a recipe. It says how many vertices of its target are made for
// each vertex of its source, and how they are numbered.
type relation struct {
	target                      *pool
	method, subsystem           string
	scale, scope, start, stride int64
}

// ReadGRUG reads a recipe for a resource graph (GRUG): GraphML with a vertex for each kind
// of resource. Subsystems other than the containment are left out.
func ReadGRUG(r io.Reader) (*Graph, error) {
	graph, err := readGRUG(r, maxMade)
	if err != nil {
		return nil, fmt.Errorf("reading GRUG: %w", err)
	}
	return graph, nil
}

func readGRUG(r io.Reader, limit int64) (*Graph, error) {
	var file graphML
	if err := xml.NewDecoder(r).Decode(&file); err != nil {
		return nil, err
	}
	pools, err := file.pools()
	if err != nil {
		return nil, err
	}
	m := &maker{graph: newGraph(), limit: limit, roots: map[string]int32{}}
	for _, p := range pools {
		if p.visited {
			continue
		}
		if err := m.visit(p); err != nil {
			return nil, err
		}
	}
	if m.graph.root == none {
		return nil, errors.New("making a graph: it has no vertices")
	}
	return m.graph, nil
}

// maker makes a graph of a recipe. It visits the recipe depth first, and makes all vertices
// of a pool at a time, so that ids are those of Fluxion.
type maker struct {
	graph *Graph
	limit int64
	// roots are the root vertices, by subsystem.
	roots map[string]int32
	// count is the number of vertices, and nodes the number of vertices of type node.
	count, nodes int64
	// scales are the scales of the relations above the current pool, the nearest last.
	scales []int64
}

func (m *maker) visit(p *pool) error {
	p.visited = true
	for _, rel := range p.relations {
		if rel.target.visited {
			continue
		}
		if p.root && len(p.made) == 0 {
			if err := m.makeRoot(p); err != nil {
				return err
			}
		}
		if err := m.follow(p, rel); err != nil {
			return err
		}
		if err := m.visit(rel.target); err != nil {
			return err
		}
	}
	if len(m.scales) > 0 {
		m.scales = m.scales[:len(m.scales)-1]
	}
	return nil
}

// follow makes the vertices at the far end of a relation.
func (m *maker) follow(p *pool, rel relation) error {
	between := fmt.Sprintf("relation of %q to %q", p.vertex.Type, rel.target.vertex.Type)
	switch rel.method {
	case "MULTIPLY":
	case "ASSOCIATE_IN", "ASSOCIATE_BY_PATH_IN":
		if rel.subsystem == containment {
			return fmt.Errorf("%s: a vertex in two places is not supported", between)
		}
		return nil
	default:
		return fmt.Errorf("%s: unknown gen_method %q", between, rel.method)
	}
	if int64(len(p.made))*rel.scale > m.limit-m.count {
		return fmt.Errorf("the recipe makes more than %d vertices", m.limit)
	}
	for nth, parent := range p.made {
		if rel.subsystem != containment {
			parent = absent
		}
		for i := range rel.scale {
			if err := m.make(rel.target, parent, m.id(rel, int64(nth), i)); err != nil {
				return err
			}
		}
	}
	m.scales = append(m.scales, rel.scale)
	return nil
}

// id numbers the i-th child of the nth parent. Numbers start anew in the ancestor that the
// scope of the relation names, 0 for the parent. A scope below 0 gives no numbers, but -1.
func (m *maker) id(rel relation, nth, i int64) int64 {
	switch {
	case rel.scope < 0:
		return -1
	case rel.scope == 0:
		return rel.start + i
	}
	siblings := int64(1) // the parents within the scope
	for up := range min(rel.scope, int64(len(m.scales))) {
		siblings = min(siblings*m.scales[int64(len(m.scales))-1-up], m.limit)
	}
	return rel.start + (nth%max(siblings, 1)*rel.scale+i)*rel.stride
}

// makeRoot makes the root of a subsystem. All root pools of a subsystem are one vertex.
func (m *maker) makeRoot(p *pool) error {
	if at, found := m.roots[p.subsystem]; found {
		p.made = append(p.made, at)
		return nil
	}
	if p.subsystem != containment {
		m.skip(p)
	} else if err := m.add(p, none, 0); err != nil {
		return err
	}
	m.roots[p.subsystem] = p.made[0]
	return nil
}

// make makes a vertex below a parent.
func (m *maker) make(p *pool, parent int32, id int64) error {
	if parent == absent || p.subsystem != containment {
		m.skip(p)
		return nil
	}
	return m.add(p, parent, id)
}

// skip counts a vertex that is not in the containment.
func (m *maker) skip(p *pool) {
	m.rank(p)
	m.count++
	p.made = append(p.made, absent)
}

func (m *maker) add(p *pool, parent int32, id int64) error {
	v := p.vertex
	v.ID, v.UniqID, v.Rank, v.Name = id, m.count, m.rank(p), v.Basename
	if id != -1 {
		v.Name += strconv.FormatInt(id, 10)
	}
	at, err := m.graph.addBelow(parent, v)
	m.count++
	p.made = append(p.made, at)
	return err
}

// rank is the next rank for a node, and -1 for other vertices.
func (m *maker) rank(p *pool) int64 {
	if p.vertex.Type != "node" {
		return -1
	}
	m.nodes++
	return m.nodes - 1
}

// graphML is the part of GraphML that recipes use.
type graphML struct {
	Keys []struct {
		ID      string `xml:"id,attr"`
		For     string `xml:"for,attr"`
		Name    string `xml:"attr.name,attr"`
		Default string `xml:"default"`
	} `xml:"key"`
	Nodes []struct {
		ID   string        `xml:"id,attr"`
		Data []graphMLData `xml:"data"`
	} `xml:"graph>node"`
	Edges []struct {
		Source string        `xml:"source,attr"`
		Target string        `xml:"target,attr"`
		Data   []graphMLData `xml:"data"`
	} `xml:"graph>edge"`
}

type graphMLData struct {
	Key   string `xml:"key,attr"`
	Value string `xml:",chardata"`
}

// pools are the vertices of a recipe with their edges, in the order of the file.
func (g *graphML) pools() ([]*pool, error) {
	pools := make([]*pool, 0, len(g.Nodes))
	byID := make(map[string]*pool, len(g.Nodes))
	for _, node := range g.Nodes {
		a := g.attributes("node", node.Data)
		p := &pool{
			vertex: vertexSpec{
				Type: a.text("type"), Basename: a.text("basename"), Size: a.number("size", 1, 64), Unit: a.text("unit"),
			},
			root:      a.number("root", 0, 32) != 0,
			subsystem: cmp.Or(a.text("subsystem"), containment),
		}
		if _, twice := byID[node.ID]; twice || a.err != nil {
			return nil, fmt.Errorf("node %q: %w", node.ID, cmp.Or(a.err, errors.New("there are two")))
		}
		byID[node.ID] = p
		pools = append(pools, p)
	}
	for _, edge := range g.Edges {
		a := g.attributes("edge", edge.Data)
		rel := relation{
			target: byID[edge.Target], method: cmp.Or(a.text("gen_method"), "MULTIPLY"),
			subsystem: cmp.Or(a.text("e_subsystem"), containment), scale: a.number("multi_scale", 1, 32),
			scope: a.number("id_scope", 0, 32), start: a.number("id_start", 0, 32), stride: a.number("id_stride", 1, 32),
		}
		source := byID[edge.Source]
		switch {
		case source == nil || rel.target == nil:
			a.err = errors.New("an end is no node")
		case rel.scale < 0:
			a.err = fmt.Errorf("multi_scale is %d", rel.scale)
		}
		if a.err != nil {
			return nil, fmt.Errorf("edge from %q to %q: %w", edge.Source, edge.Target, a.err)
		}
		source.relations = append(source.relations, rel)
	}
	return pools, nil
}

// attributes are the attributes of a node or edge.
type attributes struct {
	values map[string]string
	// err is the first error in reading them.
	err error
}

func (g *graphML) attributes(of string, data []graphMLData) attributes {
	a := attributes{values: map[string]string{}}
	names := map[string]string{}
	for _, key := range g.Keys {
		if key.For == of || key.For == "all" {
			names[key.ID] = key.Name
			a.values[key.Name] = key.Default
		}
	}
	for _, d := range data {
		name, declared := names[d.Key]
		if !declared {
			a.err = fmt.Errorf("there is no key %q", d.Key)
		}
		a.values[name] = d.Value
	}
	return a
}

func (a *attributes) text(name string) string { return strings.TrimSpace(a.values[name]) }

// number reads a number, and returns otherwise if the text is empty.
func (a *attributes) number(name string, otherwise int64, bits int) int64 {
	text := a.text(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.ParseInt(text, 10, bits)
	if err != nil {
		a.err = cmp.Or(a.err, fmt.Errorf("%s: %q is no number of %d bits", name, text, bits))
	}
	return n
}
