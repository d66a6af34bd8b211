// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

// Format is an output format. The output is byte for byte that of Fluxion.
type Format string

// These are the formats. The shorthand ones leave out what is below an exclusive vertex. R
// is the resource set of RFC 20.
const (
	Simple       Format = "simple"
	PrettySimple Format = "pretty_simple"
	JGF          Format = "jgf"
	JGFShorthand Format = "jgf_shorthand"
	RLite        Format = "rlite"
	RV1          Format = "rv1"
	RV1NoSched   Format = "rv1_nosched"
	RV1Shorthand Format = "rv1_shorthand"
)

// written is the input of a writer.
type written struct {
	graph     *Graph
	emissions []emission
	labels    map[int32]string
	// aggregates are the amounts of filters, for find.
	aggregates map[int32]map[string]string
	// R has the start and end, in seconds, and the queue.
	start, end int64
	queue      string
	// path keeps the path of the last parent.
	parent     int32
	parentPath string
}

// Encode writes a match as text, which ends with a newline. It must be called before the
// graph changes. An empty match is "". For an R, every node needs a rank.
func (m *Match) Encode(format Format) (string, error) {
	w := &written{
		graph: m.graph, emissions: m.emissions, labels: m.labels, start: m.At, end: m.At + m.Duration, queue: m.queue,
	}
	text, err := w.encode(format)
	if err != nil {
		return "", fmt.Errorf("writing the match of job %d as %s: %w", m.id, format, err)
	}
	return text, nil
}

func (w *written) encode(format Format) (string, error) {
	if len(w.emissions) == 0 {
		return "", nil
	}
	switch format {
	case Simple, PrettySimple:
		return w.lines(format == PrettySimple), nil
	case JGF, JGFShorthand:
		text, err := w.jgf(format == JGFShorthand)
		if err != nil {
			return "", err
		}
		return text + "\n", nil
	case RLite:
		r, err := w.execution()
		if err != nil || r == nil {
			return "", err
		}
		return r.groups + "\n", nil
	case RV1, RV1NoSched, RV1Shorthand:
		return w.r(format)
	}
	return "", fmt.Errorf("there is no format %q", format)
}

// lines has a line for each vertex. Pretty lines begin with the root.
func (w *written) lines(pretty bool) string {
	exclusive, shared := "x", "s"
	if pretty {
		exclusive, shared = "exclusive", "shared"
	}
	lines := make([]string, 0, len(w.emissions))
	for _, e := range w.emissions {
		mode := shared
		if e.exclusive {
			mode = exclusive
		}
		indent := strings.Repeat("---", int(e.depth))
		lines = append(lines, fmt.Sprintf("      %s%s[%d:%s]\n", indent, w.graph.vertices[e.vertex].name, e.needs, mode))
	}
	if pretty {
		slices.Reverse(lines)
	}
	return strings.Join(lines, "")
}

func (w *written) jgf(shorthand bool) (string, error) {
	nodes := make([]byte, 0, 160*len(w.emissions))
	edges := make([]byte, 0, 40*len(w.emissions))
	complete := true
	for _, e := range w.emissions {
		if shorthand && e.inside {
			complete = false
			continue
		}
		if len(nodes) > 0 {
			nodes = append(nodes, ", "...)
		}
		nodes = w.appendNode(nodes, e)
		if v := &w.graph.vertices[e.vertex]; v.parent != none {
			if len(edges) > 0 {
				edges = append(edges, ", "...)
			}
			edges = strconv.AppendInt(append(edges, `{"source": "`...), w.graph.vertices[v.parent].uniq, 10)
			edges = strconv.AppendInt(append(edges, `", "target": "`...), v.uniq, 10)
			edges = append(edges, `"}`...)
		}
	}
	if len(edges) == 0 {
		return "", errors.New("it has no edge, only the root")
	}
	writer := ""
	if !complete {
		writer = `, "writer": "fluxion:jgf_shorthand"`
	}
	return `{"graph": {"nodes": [` + string(nodes) + `], "edges": [` + string(edges) + `]}` + writer + `}`, nil
}

func (w *written) appendNode(out []byte, e emission) []byte {
	v := &w.graph.vertices[e.vertex]
	typeName := w.graph.kinds[v.kind]
	out = strconv.AppendInt(append(out, `{"id": "`...), v.uniq, 10)
	out = appendQuoted(append(out, `", "metadata": {"type": `...), typeName)
	if v.basename != typeName {
		out = appendQuoted(append(out, `, "basename": `...), v.basename)
	}
	if number, found := strings.CutPrefix(v.name, v.basename); !found || number != strconv.FormatInt(v.id, 10) {
		out = appendQuoted(append(out, `, "name": `...), v.name)
	}
	out = strconv.AppendInt(append(out, `, "id": `...), v.id, 10)
	out = strconv.AppendInt(append(out, `, "rank": `...), int64(v.rank), 10)
	out = appendMap(out, "properties", w.graph.properties[e.vertex])
	if unit := w.graph.units[e.vertex]; unit != "" {
		out = appendQuoted(append(out, `, "unit": `...), unit)
	}
	if e.exclusive {
		out = append(out, `, "exclusive": true`...)
	}
	if e.needs != 1 {
		out = strconv.AppendInt(append(out, `, "size": `...), e.needs, 10)
	}
	out = w.appendPaths(out, e.vertex)
	if label, has := w.labels[e.vertex]; has {
		out = appendQuoted(append(out, `, "ephemeral": {"label": `...), label)
		out = append(out, '}')
	}
	return append(appendMap(out, "agfilter", w.aggregates[e.vertex]), "}}"...)
}

func (w *written) appendPaths(out []byte, v int32) []byte {
	path := w.path(v)
	if elsewhere := w.graph.elsewhere[v]; len(elsewhere) > 0 {
		paths := maps.Clone(elsewhere)
		paths[containment] = path
		return appendMap(out, "paths", paths)
	}
	out = appendQuoted(append(out, `, "paths": {"containment": `...), path)
	return append(out, '}')
}

// path is the path of a vertex. Siblings come one after the other, so that the path of the
// parent can be kept.
func (w *written) path(v int32) string {
	parent := w.graph.vertices[v].parent
	if _, own := w.graph.paths[v]; own || parent == none {
		return w.graph.path(v)
	}
	if w.parentPath == "" || w.parent != parent {
		w.parent, w.parentPath = parent, w.graph.path(parent)
	}
	return w.parentPath + "/" + w.graph.vertices[v].name
}

// appendMap writes a map as a field, unless it is empty.
func appendMap(out []byte, name string, values map[string]string) []byte {
	if len(values) == 0 {
		return out
	}
	separator := `, "` + name + `": {`
	for _, key := range slices.Sorted(maps.Keys(values)) {
		out = appendQuoted(append(out, separator...), key)
		out = appendQuoted(append(out, ": "...), values[key])
		separator = ", "
	}
	return append(out, '}')
}

// appendQuoted writes a string as JSON.
func appendQuoted(out []byte, text string) []byte {
	for i := range len(text) {
		if c := text[i]; c < ' ' || c == '"' || c == '\\' || c > '~' {
			return append(out, quote(text)...)
		}
	}
	return append(append(append(out, '"'), text...), '"')
}

// quote writes a string as JSON, and does not escape characters of HTML.
func quote(text string) string {
	var out strings.Builder
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	_ = encoder.Encode(text) // a string can always be encoded
	return strings.TrimSuffix(out.String(), "\n")
}

// execution is the part of an R about ranks.
type execution struct {
	groups, nodelist, properties string
}

// host is a node of a match.
type host struct {
	rank int64
	name string
}

// gathered are the nodes of a match, by the text of their cores and GPUs, and the ranks
// that have each property.
type gathered struct {
	hosts      map[string][]host
	properties map[string][]int64
}

// execution groups the nodes that have the same cores and GPUs; nil if there are none.
func (w *written) execution() (*execution, error) {
	g, err := w.gather()
	if err != nil || len(g.hosts) == 0 {
		return nil, err
	}
	out := &execution{}
	var all []host
	var texts []string
	for _, children := range slices.Sorted(maps.Keys(g.hosts)) {
		var ranks []int64
		for _, h := range g.hosts[children] {
			ranks = append(ranks, h.rank)
		}
		all = append(all, g.hosts[children]...)
		texts = append(texts, fmt.Sprintf(`{"rank": %s, "children": %s}`, quote(idset.Encode(ranks)), children))
	}
	out.groups = "[" + strings.Join(texts, ", ") + "]"
	slices.SortStableFunc(all, func(a, b host) int { return cmp.Compare(a.rank, b.rank) })
	names := make([]string, 0, len(all))
	for _, h := range all {
		names = append(names, h.name)
	}
	out.nodelist = quote(hostlist.Encode(names))
	texts = nil
	for _, key := range slices.Sorted(maps.Keys(g.properties)) {
		texts = append(texts, quote(key)+": "+quote(idset.Encode(g.properties[key])))
	}
	if len(texts) > 0 {
		out.properties = `"properties": {` + strings.Join(texts, ", ") + `}, `
	}
	return out, nil
}

// gather collects the nodes of a match. Cores and GPUs come before their node. A node
// without either is left out.
func (w *written) gather() (*gathered, error) {
	g := &gathered{map[string][]host{}, map[string][]int64{}}
	var cores, gpus []int64
	for _, e := range w.emissions {
		v := &w.graph.vertices[e.vertex]
		switch v.kind {
		case coreKind:
			cores = append(cores, v.id)
		case gpuKind:
			gpus = append(gpus, v.id)
		case nodeKind, storageNodeKind:
			if len(cores)+len(gpus) == 0 {
				continue
			}
			if v.rank < 0 {
				return nil, fmt.Errorf("%w: node %s has no rank", ErrInvalid, v.name)
			}
			children := childrenOf(cores, gpus)
			cores, gpus = cores[:0], gpus[:0]
			g.hosts[children] = append(g.hosts[children], host{int64(v.rank), v.name})
			for key, value := range w.graph.properties[e.vertex] {
				if value != "" {
					key += "=" + value
				}
				g.properties[key] = append(g.properties[key], int64(v.rank))
			}
		}
	}
	return g, nil
}

func childrenOf(cores, gpus []int64) string {
	var texts []string
	if len(cores) > 0 {
		texts = append(texts, `"core": "`+idset.Encode(cores)+`"`)
	}
	if len(gpus) > 0 {
		texts = append(texts, `"gpu": "`+idset.Encode(gpus)+`"`)
	}
	return "{" + strings.Join(texts, ", ") + "}"
}

// r writes an R of version 1.
func (w *written) r(format Format) (string, error) {
	ranks, err := w.execution()
	if err != nil || ranks == nil {
		return "", err
	}
	rest := ""
	if format != RV1NoSched {
		graph, err := w.jgf(format == RV1Shorthand)
		if err != nil {
			return "", err
		}
		rest = `, "scheduling": ` + graph
		if w.queue != "" {
			rest += `, "attributes": {"system": {"scheduler": {"queue": ` + quote(w.queue) + `}}}`
		}
	}
	const r = `{"version": 1, "execution": {"R_lite": %s, "nodelist": [%s], %s"starttime": %d, "expiration": %d}%s}`
	return fmt.Sprintf(r+"\n", ranks.groups, ranks.nodelist, ranks.properties, w.start, w.end, rest), nil
}
