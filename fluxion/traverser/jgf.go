// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"strconv"
)

// jgfVertex is a node of a JSON Graph Format document, with Fluxion's metadata.
type jgfVertex struct {
	ID       string      `json:"id"`
	Metadata jgfMetadata `json:"metadata"`
}

type jgfMetadata struct {
	Type       string            `json:"type"`
	Basename   string            `json:"basename"`
	Name       string            `json:"name"`
	ID         int64             `json:"id"`
	UniqID     int64             `json:"uniq_id"`
	Rank       int64             `json:"rank"`
	Size       int64             `json:"size"`
	Status     int               `json:"status"`
	Exclusive  bool              `json:"exclusive"`
	Properties map[string]string `json:"properties"`
	Paths      map[string]string `json:"paths"`
}

// missing stands for a number that is not in the document.
const missing = math.MinInt64

// reset prepares for the next vertex, and keeps the memory: a graph may have a million
// vertices.
func (v *jgfVertex) reset() {
	paths := v.Metadata.Paths
	if paths == nil {
		paths = map[string]string{}
	}
	clear(paths)
	*v = jgfVertex{Metadata: jgfMetadata{ID: missing, UniqID: missing, Rank: -1, Size: 1, Paths: paths}}
}

type jgfEdge struct {
	Source   string `json:"source"`
	Target   string `json:"target"`
	Metadata struct {
		Subsystem string `json:"subsystem"`
	} `json:"metadata"`
}

// jgfSink takes the vertices of a document, then its edges.
type jgfSink interface {
	vertex(v *jgfSpec) error
	edge(source, target string) error
}

// jgfSpec is a vertex with its id in the document, and its paths.
type jgfSpec struct {
	id    string
	spec  vertexSpec
	paths map[string]string // in other subsystems
}

// jgfParser reads a document piece by piece, because it may have a million vertices.
type jgfParser struct {
	*json.Decoder
	sink            jgfSink
	vertices, edges int
	v               jgfVertex
	e               jgfEdge
	// early are edges that come before the vertices.
	early [][2]string
}

func parseJGF(r io.Reader, sink jgfSink) error {
	p := &jgfParser{Decoder: json.NewDecoder(r), sink: sink}
	found := map[string]bool{}
	err := eachKey(p.Decoder, func(key string) error {
		if key != "graph" {
			return skip(p.Decoder)
		}
		return eachKey(p.Decoder, func(key string) error {
			if found[key] {
				return fmt.Errorf("%q is there twice", key)
			}
			found[key] = true
			switch key {
			case "nodes":
				return eachElement(p.Decoder, p.readVertex)
			case "edges":
				return eachElement(p.Decoder, func() error { return p.readEdge(found["nodes"]) })
			}
			return skip(p.Decoder)
		})
	})
	if err == nil && p.More() {
		err = errors.New("there is more after the document")
	}
	switch {
	case err != nil:
		return err
	case !found["nodes"] || !found["edges"]:
		return errors.New("it has no graph with nodes and edges")
	}
	for _, e := range p.early {
		if err := sink.edge(e[0], e[1]); err != nil {
			return err
		}
	}
	return nil
}

// eachKey calls value for every key of the object that comes next.
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

// eachElement calls read for every element of the array that comes next.
func eachElement(d *json.Decoder, read func() error) error {
	if err := expect(d, json.Delim('[')); err != nil {
		return err
	}
	for d.More() {
		if err := read(); err != nil {
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

func (p *jgfParser) readVertex() error {
	p.v.reset()
	if err := p.Decode(&p.v); err != nil {
		return fmt.Errorf("node %d: %w", p.vertices, err)
	}
	spec, err := p.v.spec()
	if err == nil && spec.spec.Path != "" { // otherwise the vertex is in other subsystems only
		err = p.sink.vertex(&spec)
	}
	if err != nil {
		return fmt.Errorf("node %d (id %q): %w", p.vertices, p.v.ID, err)
	}
	p.vertices++
	return nil
}

func (p *jgfParser) readEdge(now bool) error {
	p.e = jgfEdge{}
	err := p.Decode(&p.e)
	if err == nil && (p.e.Source == "" || p.e.Target == "") {
		err = errors.New("it needs a source and a target")
	}
	if subsystem := p.e.Metadata.Subsystem; err == nil && (subsystem == "" || subsystem == containment) {
		if now {
			err = p.sink.edge(p.e.Source, p.e.Target)
		} else {
			p.early = append(p.early, [2]string{p.e.Source, p.e.Target})
		}
	}
	if err != nil {
		return fmt.Errorf("edge %d: %w", p.edges, err)
	}
	p.edges++
	return nil
}

// spec applies Fluxion's defaults.
func (v *jgfVertex) spec() (jgfSpec, error) {
	out := jgfSpec{id: v.ID}
	m := &v.Metadata
	switch {
	case v.ID == "":
		return out, errors.New("it has no id")
	case m.Type == "":
		return out, errors.New("it has no metadata with a type")
	case len(m.Paths) == 0:
		return out, errors.New("its metadata has no paths")
	case m.Status != 0 && m.Status != 1:
		return out, fmt.Errorf("status %d is neither 0 (up) nor 1 (down)", m.Status)
	}
	if m.UniqID == missing {
		var err error
		if m.UniqID, err = leadingInteger(v.ID); err != nil {
			return out, errors.New("it has no uniq_id, and its id is no number")
		}
	}
	if m.ID == missing {
		if m.ID = m.UniqID; m.Type == "node" {
			m.ID = numberOf(m.Name, m.UniqID)
		}
	}
	basename := cmp.Or(m.Basename, m.Type)
	name := m.Name
	if name == "" {
		name = basename + strconv.FormatInt(m.ID, 10)
	}
	out.spec = vertexSpec{
		Type: m.Type, Basename: basename, Name: name, ID: m.ID, UniqID: m.UniqID, Rank: m.Rank, Size: m.Size,
		Down: m.Status == 1, Exclusive: m.Exclusive, Properties: m.Properties, Path: m.Paths[containment],
	}
	if len(m.Paths) > 1 || out.spec.Path == "" {
		out.paths = maps.Clone(m.Paths)
		delete(out.paths, containment)
	}
	return out, nil
}

// numberOf is the number at the end of a host name; otherwise, if there is none.
func numberOf(host string, otherwise int64) int64 {
	if _, id, err := splitHost(host); err == nil && id >= 0 {
		return id
	}
	return otherwise
}

// leadingInteger reads an integer at the start of a text, as strtoll does.
func leadingInteger(text string) (int64, error) {
	end := 0
	for end < len(text) && (text[end] >= '0' && text[end] <= '9' || end == 0 && text[end] == '-') {
		end++
	}
	return strconv.ParseInt(text[:end], 10, 64)
}

// jgfList is a whole document.
type jgfList struct {
	vertices []jgfSpec
	edges    [][2]string
}

func (l *jgfList) vertex(v *jgfSpec) error {
	l.vertices = append(l.vertices, *v)
	return nil
}

func (l *jgfList) edge(source, target string) error {
	l.edges = append(l.edges, [2]string{source, target})
	return nil
}
