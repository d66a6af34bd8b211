// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

// rv1 is an R of version 1 (Flux RFC 20).
type rv1 struct {
	Version   int `json:"version"`
	Execution struct {
		Rlite      []rlite           `json:"R_lite"`
		Nodelist   []string          `json:"nodelist"`
		Properties map[string]string `json:"properties"`
	} `json:"execution"`
}

func parseRv1(data []byte) (*rv1, error) {
	var r rv1
	if err := json.Unmarshal(data, &r); err != nil {
		return nil, err
	}
	if r.Version != 1 {
		return nil, fmt.Errorf("version is %d, not 1", r.Version)
	}
	return &r, nil
}

// rlite is what each of some ranks has.
type rlite struct {
	Rank     string        `json:"rank"`
	Children rliteChildren `json:"children"`
}

// rliteChildren are resources by type, in the order of the file.
type rliteChildren []struct{ kind, ids string }

// UnmarshalJSON reads an object of strings. A map would lose its order.
func (c *rliteChildren) UnmarshalJSON(data []byte) error {
	var ids map[string]string
	if err := json.Unmarshal(data, &ids); err != nil {
		return err
	}
	*c = nil
	decoder := json.NewDecoder(bytes.NewReader(data))
	for {
		key, err := decoder.Token()
		if err != nil {
			break // the end, since the object is well formed
		}
		kind, isText := key.(string)
		if !isText {
			continue // a brace
		}
		if _, err := decoder.Token(); err != nil {
			return err
		}
		*c = append(*c, struct{ kind, ids string }{kind, ids[kind]})
	}
	if len(*c) > len(ids) {
		return errors.New("children: a type is there twice")
	}
	return nil
}

// ReadRv1Exec reads an R of version 1 as a resource graph: a cluster of nodes, and what
// each node has. It ignores the key "scheduling".
func ReadRv1Exec(r io.Reader) (*Graph, error) {
	graph, err := readRv1Exec(r, maxMade)
	if err != nil {
		return nil, fmt.Errorf("reading R: %w", err)
	}
	return graph, nil
}

func readRv1Exec(r io.Reader, limit int) (*Graph, error) {
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	file, err := parseRv1(data)
	if err != nil {
		return nil, err
	}
	hosts, err := file.hosts(limit)
	if err != nil {
		return nil, err
	}
	properties, err := file.properties()
	if err != nil {
		return nil, err
	}
	m := rv1Maker{graph: newGraph(), hosts: hosts, properties: properties, limit: limit}
	cluster, err := m.add(none, vertexSpec{Type: "cluster", Basename: "cluster", Name: "cluster0", Rank: -1})
	if err != nil {
		return nil, err
	}
	for _, entry := range file.Execution.Rlite {
		if err := m.addRanks(cluster, entry); err != nil {
			return nil, err
		}
	}
	return m.graph, nil
}

// hosts are the names of the nodes by rank. The n-th name belongs to the n-th of all ranks.
func (f *rv1) hosts(limit int) (map[int64]string, error) {
	var ranks []int64
	for _, entry := range f.Execution.Rlite {
		more, err := idset.Decode(entry.Rank, limit-len(ranks))
		if err != nil {
			return nil, err
		}
		ranks = append(ranks, more...)
	}
	slices.Sort(ranks)
	var names []string
	for _, list := range f.Execution.Nodelist {
		more, err := hostlist.Decode(list, limit-len(names))
		if err != nil {
			return nil, err
		}
		names = append(names, more...)
	}
	hosts := make(map[int64]string, len(ranks))
	for i, rank := range ranks {
		if i >= len(names) {
			return nil, fmt.Errorf("there is no host for rank %d", rank)
		}
		if _, twice := hosts[rank]; twice {
			return nil, fmt.Errorf("rank %d is there twice", rank)
		}
		hosts[rank] = names[i]
	}
	return hosts, nil
}

// properties are the ranks that have a property, by its name.
func (f *rv1) properties() (map[string]idset.Set, error) {
	properties := make(map[string]idset.Set, len(f.Execution.Properties))
	for name, text := range f.Execution.Properties {
		ranks, err := idset.Parse(text)
		if err != nil {
			return nil, fmt.Errorf("property %q: %w", name, err)
		}
		properties[name] = ranks
	}
	return properties, nil
}

// rv1Maker makes a graph of an R.
type rv1Maker struct {
	graph      *Graph
	hosts      map[int64]string
	properties map[string]idset.Set
	// limit is how many more vertices and properties may be made, and count the number of
	// vertices.
	limit, count int
}

// add adds a vertex of size one. The vertex counts as one, and so does each property.
func (m *rv1Maker) add(parent int32, v vertexSpec) (int32, error) {
	if m.limit -= 1 + len(v.Properties); m.limit < 0 {
		return none, errors.New("it makes too many vertices")
	}
	v.UniqID, v.Size = int64(m.count), 1
	m.count++
	return m.graph.addBelow(parent, v)
}

// addRanks adds the nodes of an entry of R_lite.
func (m *rv1Maker) addRanks(cluster int32, entry rlite) error {
	ranks, err := idset.Decode(entry.Rank, m.limit)
	if err != nil {
		return err
	}
	for _, rank := range ranks {
		host := m.hosts[rank]
		basename, id, err := splitHost(host)
		if err != nil {
			return err
		}
		node, err := m.add(cluster, vertexSpec{
			Type: "node", Basename: basename, Name: host, ID: id, Rank: rank, Properties: m.propertiesOf(rank),
		})
		if err != nil {
			return err
		}
		if err := m.addChildren(node, rank, entry.Children); err != nil {
			return err
		}
	}
	return nil
}

func (m *rv1Maker) addChildren(node int32, rank int64, children rliteChildren) error {
	for _, child := range children {
		ids, err := idset.Decode(child.ids, m.limit)
		if err != nil {
			return err
		}
		for _, id := range ids {
			name := child.kind + strconv.FormatInt(id, 10)
			_, err := m.add(node, vertexSpec{Type: child.kind, Basename: child.kind, Name: name, ID: id, Rank: rank})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *rv1Maker) propertiesOf(rank int64) map[string]string {
	var properties map[string]string
	for name, ranks := range m.properties {
		if ranks.Has(rank) {
			if properties == nil {
				properties = map[string]string{}
			}
			properties[name] = ""
		}
	}
	return properties
}

// splitHost divides the name of a host into the text before the number at its end, and the
// number; -1 if there is none. If the name is a number, both are the whole name.
func splitHost(host string) (basename string, id int64, err error) {
	basename = strings.TrimRight(host, "0123456789")
	digits := host[len(basename):]
	if digits == "" {
		return basename, -1, nil
	}
	if basename == "" {
		basename = host
	}
	if id, err = strconv.ParseInt(digits, 10, 64); err != nil {
		return "", 0, fmt.Errorf("host %q: the number at its end is too large", host)
	}
	return basename, id, nil
}

// ranked is what some ranks have of an R: ids by type.
type ranked struct {
	ranks    idset.Set
	children map[string]idset.Set
}

// parseExecution reads the execution part of an R of version 1.
func parseExecution(text string) ([]ranked, error) {
	r, err := parseRv1([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("%w: reading R: %w", ErrInvalid, err)
	}
	var out []ranked
	for _, entry := range r.Execution.Rlite {
		ranks, err := idset.Parse(entry.Rank)
		g := ranked{ranks, map[string]idset.Set{}}
		for _, child := range entry.Children {
			if err == nil {
				g.children[child.kind], err = idset.Parse(child.ids)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("%w: reading R: %w", ErrInvalid, err)
		}
		out = append(out, g)
	}
	return out, nil
}

// schedulingOf is the JGF document in an R, or the text itself if it is a bare document.
func schedulingOf(text string) string {
	var r struct {
		Scheduling json.RawMessage `json:"scheduling"`
	}
	if json.Unmarshal([]byte(text), &r) == nil && len(r.Scheduling) > 0 {
		return string(r.Scheduling)
	}
	return text
}
