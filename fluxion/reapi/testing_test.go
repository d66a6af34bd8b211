// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapi

import (
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"testing"
)

// openOnce opens the library once for all tests. Until flux-sched 0.54 the library knows only
// the types of the first graph of a process. So the first graph has the types of all tests.
var openOnce = sync.OnceValues(func() (*Oracle, error) {
	oracle, err := openOracle(os.Getenv("FLUXION_LIBRARY"))
	if err != nil {
		return nil, err
	}
	client, err := oracle.NewClient()
	if err != nil {
		return nil, err
	}
	defer client.Destroy()
	var d document
	root, path := d.vertex("", "cluster", "/cluster0", -1), "/cluster0/"
	for _, kind := range []string{"rack", "node", "socket", "core", "memory", "gpu", "slice"} {
		d.vertex(root, kind, path+kind, -1)
	}
	return oracle, client.InitContext(d.text(), jgfOptions)
})

// OpenOracle opens the library that FLUXION_LIBRARY names. The libraries that it needs have to
// be on LD_LIBRARY_PATH if the dynamic loader does not find them elsewhere.
func OpenOracle(tb testing.TB) *Oracle {
	tb.Helper()
	if os.Getenv("FLUXION_LIBRARY") == "" {
		tb.Skip("FLUXION_LIBRARY does not name a libreapi_cli.so of flux-sched 0.54 or later")
	}
	oracle, err := openOnce()
	if err != nil {
		tb.Fatal(err)
	}
	return oracle
}

// openClient is a client on a graph.
func openClient(tb testing.TB, graph *document, options string) *Client {
	tb.Helper()
	client, err := OpenOracle(tb).NewClient()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(client.Destroy)
	if err := client.InitContext(graph.text(), options); err != nil {
		tb.Fatal(err)
	}
	return client
}

// jgfOptions are the options of most tests.
const jgfOptions = `{"load_format": "jgf"}`

// document is JGF that tests can change.
type document struct {
	Graph struct {
		Nodes []*node `json:"nodes"`
		Edges []*link `json:"edges"`
	} `json:"graph"`
}

type node struct {
	ID       any            `json:"id"`
	Metadata map[string]any `json:"metadata"`
}

type link struct {
	Source   string         `json:"source"`
	Target   string         `json:"target"`
	Metadata map[string]any `json:"metadata,omitempty"`
}

// makeGraph is a cluster of nodes of cores. Vertex 0 is the cluster. Each node follows, and then
// the cores of the node.
func makeGraph(nodes, cores int) *document {
	var d document
	d.vertex("", "cluster", "/cluster0", -1)
	for n := range nodes {
		path := fmt.Sprintf("/cluster0/node%d", n)
		at := d.vertex("0", "node", path, n)
		d.with(len(d.Graph.Nodes)-1, "name", fmt.Sprintf("node%d", n))
		for core := range cores {
			d.vertex(at, "core", fmt.Sprintf("%s/core%d", path, core), n)
			d.with(len(d.Graph.Nodes)-1, "id", core)
		}
	}
	return &d
}

func (d *document) vertex(above, kind, path string, rank int) string {
	id := fmt.Sprint(len(d.Graph.Nodes))
	d.Graph.Nodes = append(d.Graph.Nodes, &node{ID: id, Metadata: map[string]any{
		"type": kind, "rank": rank, "paths": map[string]any{"containment": path},
	}})
	if above != "" {
		d.Graph.Edges = append(d.Graph.Edges, &link{Source: above, Target: id})
	}
	return id
}

// with sets a field of a vertex.
func (d *document) with(vertex int, key string, value any) *document {
	d.Graph.Nodes[vertex].Metadata[key] = value
	return d
}

// link adds an edge.
func (d *document) link(source, target string) *document {
	d.Graph.Edges = append(d.Graph.Edges, &link{Source: source, Target: target})
	return d
}

// twoWay adds an edge back for every edge, as Fluence 1 does.
func (d *document) twoWay() *document {
	for _, e := range d.Graph.Edges {
		d.link(e.Target, e.Source)
	}
	return d
}

func (d *document) text() string { return asJSON(d) }

func asJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// makeJobspec requests slots of cores for some seconds. 0 seconds are as long as the graph.
func makeJobspec(slots, cores any, duration int) string {
	return fmt.Sprintf(`{"version": 9999,
		"resources": [{"type": "slot", "label": "s", "count": %s, "with": [{"type": "core", "count": %s}]}],
		"tasks": [{"command": ["a"], "slot": "s", "count": {"per_slot": 1}}],
		"attributes": {"system": {"duration": %d}}}`, asJSON(slots), asJSON(cores), duration)
}

// makeNodeJobspec requests whole nodes.
func makeNodeJobspec(nodes int) string {
	return fmt.Sprintf(`{"version": 9999,
		"resources": [{"type": "node", "exclusive": true, "count": %d, "with": [
			{"type": "slot", "label": "s", "count": 1, "with": [{"type": "core", "count": 1}]}]}],
		"tasks": [{"command": ["a"], "slot": "s", "count": {"per_slot": 1}}],
		"attributes": {}}`, nodes)
}

// ranksOnly is R that names a rank and no vertices.
const ranksOnly = `{"version": 1, "execution": {"R_lite": [{"rank": "0"}], "nodelist": ["node0"], "starttime": 0, ` +
	`"expiration": 0}}`

// part is R of the vertices of a resource set that pass, without edges.
func part(tb testing.TB, r string, pass func(metadata map[string]any) bool) string {
	tb.Helper()
	var d document
	if err := json.Unmarshal([]byte(r), &d); err != nil {
		tb.Fatal(err)
	}
	var out document
	out.Graph.Edges = []*link{}
	for _, n := range d.Graph.Nodes {
		if pass(n.Metadata) {
			out.Graph.Nodes = append(out.Graph.Nodes, n)
		}
	}
	return asJSON(map[string]any{"version": 1, "scheduling": out})
}

// ofRank passes what a job holds exclusively on a rank.
func ofRank(rank int) func(map[string]any) bool {
	return func(metadata map[string]any) bool {
		return metadata["exclusive"] == true && metadata["rank"] == float64(rank)
	}
}
