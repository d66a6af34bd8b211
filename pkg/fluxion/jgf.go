// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// jgfVertex is a node of a JSON Graph Format document, with Fluxion's metadata.
type jgfVertex struct {
	ID       string       `json:"id"`
	Metadata *jgfMetadata `json:"metadata"`
}

type jgfMetadata struct {
	Type       string            `json:"type"`
	Basename   *string           `json:"basename"`
	Name       *string           `json:"name"`
	ID         *int64            `json:"id"`
	UniqID     *int64            `json:"uniq_id"`
	Rank       *int64            `json:"rank"`
	Size       *int64            `json:"size"`
	Status     int               `json:"status"`
	Exclusive  bool              `json:"exclusive"`
	Properties map[string]string `json:"properties"`
	Paths      map[string]string `json:"paths"`
}

type jgfEdge struct {
	Source   *string `json:"source"`
	Target   *string `json:"target"`
	Metadata struct {
		Subsystem *string `json:"subsystem"`
	} `json:"metadata"`
}

// jgfGraph is a document, read.
type jgfGraph struct {
	vertices []jgfSpec
	edges    [][2]string
}

// jgfSpec is a vertex with its id in the document, and its paths.
type jgfSpec struct {
	id    string
	spec  VertexSpec
	paths map[string]string // in other subsystems
}

// ReadJGF reads a resource graph in the JSON Graph Format that Fluxion takes: its
// containment subsystem, in which every vertex but the root has one parent. Edges
// and paths of other subsystems are kept out of matches.
func ReadJGF(r io.Reader) (*Graph, error) {
	doc, err := parseJGF(r)
	if err != nil {
		return nil, fmt.Errorf("reading JGF: %w", err)
	}
	t := newTree()
	if err := doc.addTo(t); err != nil {
		return nil, fmt.Errorf("reading JGF: %w", err)
	}
	return &Graph{tree: t}, nil
}

// parseJGF reads a document piece by piece: it may have a million vertices.
func parseJGF(r io.Reader) (*jgfGraph, error) {
	d := json.NewDecoder(r)
	doc := &jgfGraph{}
	found := map[string]bool{}
	err := eachKey(d, func(key string) error {
		if key != "graph" {
			return skip(d)
		}
		return eachKey(d, func(key string) error {
			found[key] = true
			switch key {
			case "nodes":
				return eachElement(d, doc.readVertex)
			case "edges":
				return eachElement(d, doc.readEdge)
			}
			return skip(d)
		})
	})
	switch {
	case err != nil:
		return nil, err
	case !found["nodes"] || !found["edges"]:
		return nil, errors.New("it has no graph with nodes and edges")
	}
	return doc, nil
}

// eachKey calls value at every value of the object that comes next.
func eachKey(d *json.Decoder, value func(key string) error) error {
	if err := expect(d, json.Delim('{')); err != nil {
		return err
	}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return err
		}
		if err := value(token.(string)); err != nil {
			return err
		}
	}
	return expect(d, json.Delim('}'))
}

// eachElement calls read at every element of the array that comes next.
func eachElement(d *json.Decoder, read func(*json.Decoder) error) error {
	if err := expect(d, json.Delim('[')); err != nil {
		return err
	}
	for d.More() {
		if err := read(d); err != nil {
			return err
		}
	}
	return expect(d, json.Delim(']'))
}

func expect(d *json.Decoder, want json.Delim) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	if token != want {
		return fmt.Errorf("at byte %d is %v, not %v", d.InputOffset(), token, want)
	}
	return nil
}

func skip(d *json.Decoder) error {
	var raw json.RawMessage
	return d.Decode(&raw)
}

func (doc *jgfGraph) readVertex(d *json.Decoder) error {
	var v jgfVertex
	if err := d.Decode(&v); err != nil {
		return fmt.Errorf("node %d: %w", len(doc.vertices), err)
	}
	spec, err := v.spec()
	if err != nil {
		return fmt.Errorf("node %d (id %q): %w", len(doc.vertices), v.ID, err)
	}
	doc.vertices = append(doc.vertices, spec)
	return nil
}

func (doc *jgfGraph) readEdge(d *json.Decoder) error {
	var e jgfEdge
	if err := d.Decode(&e); err != nil {
		return fmt.Errorf("edge %d: %w", len(doc.edges), err)
	}
	if e.Source == nil || e.Target == nil {
		return fmt.Errorf("edge %d: it needs a source and a target", len(doc.edges))
	}
	if e.Metadata.Subsystem == nil || *e.Metadata.Subsystem == containment {
		doc.edges = append(doc.edges, [2]string{*e.Source, *e.Target})
	}
	return nil
}

// spec applies Fluxion's defaults.
func (v *jgfVertex) spec() (jgfSpec, error) {
	out := jgfSpec{id: v.ID}
	m := v.Metadata
	switch {
	case v.ID == "":
		return out, errors.New("it has no id")
	case m == nil || m.Type == "":
		return out, errors.New("its metadata has no type")
	case m.Paths == nil:
		return out, errors.New("its metadata has no paths")
	case m.Status != 0 && m.Status != 1:
		return out, fmt.Errorf("status %d is neither 0 (up) nor 1 (down)", m.Status)
	}
	s := VertexSpec{
		Type: m.Type, Basename: m.Type, Rank: -1, Size: 1,
		Down: m.Status == 1, Exclusive: m.Exclusive, Properties: m.Properties, Path: m.Paths[containment],
	}
	if m.UniqID == nil {
		uniq, err := leadingInteger(v.ID)
		if err != nil {
			return out, errors.New("it has no uniq_id, and its id is no number")
		}
		m.UniqID = &uniq
	}
	s.UniqID = *m.UniqID
	set(&s.Basename, m.Basename)
	set(&s.Rank, m.Rank)
	set(&s.Size, m.Size)
	if s.ID = s.UniqID; m.ID != nil {
		s.ID = *m.ID
	} else if m.Type == "node" && m.Name != nil {
		s.ID = trailingNumber(*m.Name, s.ID)
	}
	s.Name = s.Basename + strconv.FormatInt(s.ID, 10)
	set(&s.Name, m.Name)
	out.spec = s
	if delete(m.Paths, containment); len(m.Paths) > 0 {
		out.paths = m.Paths
	}
	return out, nil
}

func set[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// leadingInteger reads an integer at the start of a text, as strtoll does.
func leadingInteger(text string) (int64, error) {
	end := 0
	for end < len(text) && (text[end] >= '0' && text[end] <= '9' || end == 0 && text[end] == '-') {
		end++
	}
	return strconv.ParseInt(text[:end], 10, 64)
}

// trailingNumber is the number at the end of a host name.
func trailingNumber(name string, otherwise int64) int64 {
	digits := name[len(strings.TrimRight(name, "0123456789")):]
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
		return n
	}
	return otherwise
}

// addTo adds what the tree does not have yet: a vertex of the same path and rank is
// the same one.
func (doc *jgfGraph) addTo(t *tree) error {
	index := make(map[string]int32, len(doc.vertices))
	added := make([]string, 0, len(doc.vertices)) // paths, from firstNew on
	firstNew := int32(len(t.vertices))
	empty := t.root == none
	for i := range doc.vertices {
		v := &doc.vertices[i]
		path := v.spec.Path
		if path == "" {
			continue // of other subsystems alone
		}
		if _, twice := index[v.id]; twice {
			return fmt.Errorf("two nodes have the id %q", v.id)
		}
		if !empty {
			if known := t.find(path, v.spec.Rank); known != none {
				index[v.id] = known
				continue
			}
		}
		v.spec.Path = ""
		u, err := t.add(none, v.spec)
		if err != nil {
			return err
		}
		if strings.Count(path, "/") == 1 {
			if t.root != none {
				return fmt.Errorf("%s and %s are both roots", t.path(t.root), path)
			}
			t.root = u
		}
		if v.paths != nil {
			t.elsewhere[u] = v.paths
		}
		index[v.id] = u
		added = append(added, path)
	}
	if t.root == none {
		return errors.New("no node is the root: none has a containment path with one slash")
	}
	if err := doc.linkTo(t, index, firstNew); err != nil {
		return err
	}
	return keepPaths(t, firstNew, added)
}

// linkTo adds the edges to new vertices.
func (doc *jgfGraph) linkTo(t *tree, index map[string]int32, firstNew int32) error {
	for _, e := range doc.edges {
		source, found := index[e[0]]
		target, foundToo := index[e[1]]
		switch {
		case !found || !foundToo:
			return fmt.Errorf("the edge from %q to %q is not between nodes", e[0], e[1])
		case target < firstNew && source < firstNew:
			continue
		case target == t.root || target < firstNew || t.vertices[target].parent != none:
			return fmt.Errorf("the edge from %q to %q gives %s a second parent", e[0], e[1], t.vertices[target].name)
		}
		t.link(source, target)
	}
	return nil
}

// keepPaths checks that the new vertices hang on the root, and keeps those paths
// that do not follow from where they are.
func keepPaths(t *tree, firstNew int32, added []string) error {
	pathOf := func(v int32) string {
		if v >= firstNew {
			return added[v-firstNew]
		}
		return t.path(v)
	}
	reached := 0
	visit := func(v int32) {
		if v < firstNew {
			return
		}
		reached++
		path, name := added[v-firstNew], t.vertices[v].name
		rest, below := path, true
		if parent := t.vertices[v].parent; parent != none {
			rest, below = strings.CutPrefix(path, pathOf(parent))
		}
		if !below || len(rest) != len(name)+1 || rest[0] != '/' || rest[1:] != name {
			t.paths[v] = path
			clear(t.byPath)
		}
	}
	t.below(t.root, visit)
	if reached != len(added) {
		return fmt.Errorf("%d of %d nodes are not below the root, or are in a cycle", len(added)-reached, len(added))
	}
	return nil
}
