// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapigraph

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion/reapi"
)

// These are the types of vertices. Domains of all levels share a type, because the library
// knows only the types of the first graph of the process for good.
const (
	clusterType = "cluster"
	domainType  = "domain"
	nodeType    = "node"
	coreType    = "core"
)

// maxVertices bounds a graph: Fluxion takes 12 KiB for a vertex, and the manager has little
// memory.
const maxVertices = 20_000

// place is a node to choose, or a node with cores to choose.
type place struct {
	// above are the domains of the place by level, outermost first. Neighbours in different
	// domains have different numbers.
	above []int
	cores int
}

// choose lets Fluxion choose n places, if the kind is a node, or n of their cores. The
// places are in the order of the graph. The counts say how many Fluxion chose of each
// place.
func (e *Engine) choose(kind string, places []place, n int) (counts []int, err error) {
	counts = make([]int, len(places))
	if n == 0 {
		return counts, nil
	}
	if len(places) == 0 {
		return nil, errNoRoom
	}
	if vertices := size(places); vertices > maxVertices {
		return nil, fmt.Errorf("it would take a graph of %d nodes and cores; the most is %d", vertices, maxVertices)
	}
	graph, err := json.Marshal(map[string]any{"graph": makeGraph(places)})
	if err != nil {
		return nil, err
	}
	client, err := e.library.NewClient()
	if err != nil {
		return nil, err
	}
	defer client.Destroy()
	if err := client.InitContext(string(graph), e.options); err != nil {
		return nil, err
	}
	allocation, err := client.Match(reapi.MatchAllocate, jobspec(kind, n))
	if err != nil {
		return nil, err
	}
	return counts, count(allocation.R, kind, places, counts, n)
}

// size is the number of nodes and cores.
func size(places []place) int {
	size := len(places)
	for i := range places {
		size += places[i].cores
	}
	return size
}

// jobspec requests slots of one vertex each, for as long as the graph lasts.
func jobspec(kind string, slots int) string {
	return fmt.Sprintf(`{"version": 1,
		"resources": [{"type": "slot", "label": "pod", "count": %d, "with": [{"type": %q, "count": 1}]}],
		"tasks": [{"command": ["broker"], "slot": "pod", "count": {"per_slot": 1}}],
		"attributes": {"system": {"duration": 0}}}`, slots, kind)
}

// count reads from R, by rank, how many of the vertices belong to each place.
func count(r, kind string, places []place, counts []int, n int) error {
	var chosen struct{ Graph jgf }
	if err := json.Unmarshal([]byte(r), &chosen); err != nil {
		return fmt.Errorf("reading R: %w", err)
	}
	got := 0
	for _, v := range chosen.Graph.Nodes {
		if v.Metadata.Type != kind || !v.Metadata.Exclusive {
			continue
		}
		rank := v.Metadata.Rank
		if rank < 0 || rank >= len(places) {
			return fmt.Errorf("reading R: rank %d is not in the graph", rank)
		}
		counts[rank]++
		got++
		if most := max(places[rank].cores, 1); counts[rank] > most {
			return fmt.Errorf("reading R: rank %d has more than %d", rank, most)
		}
	}
	if got != n {
		return fmt.Errorf("reading R: it has %d of type %s, not %d", got, kind, n)
	}
	return nil
}

// jgf is a graph as Fluxion reads it, and an R as Fluxion writes it.
type jgf struct {
	Nodes []vertex `json:"nodes"`
	Edges []edge   `json:"edges"`
}

type vertex struct {
	ID       string   `json:"id"`
	Metadata metadata `json:"metadata"`
}

type metadata struct {
	Type string `json:"type"`
	// ID is the number of the vertex among the vertices of its type. Policies compare it.
	ID int `json:"id"`
	// Rank is the index of the vertex's place.
	Rank      int               `json:"rank"`
	Exclusive bool              `json:"exclusive,omitempty"`
	Paths     map[string]string `json:"paths"`
}

type edge struct {
	Source string `json:"source"`
	Target string `json:"target"`
}

// builder makes a graph.
type builder struct {
	jgf
	paths []string
	ids   map[string]int
}

// add adds a vertex below another, and returns its index.
func (b *builder) add(above int, kind string, rank int) int {
	id, at := b.ids[kind], len(b.Nodes)
	b.ids[kind]++
	path := fmt.Sprintf("/%s%d", kind, id)
	if above >= 0 {
		path = b.paths[above] + path
		b.Edges = append(b.Edges, edge{strconv.Itoa(above), strconv.Itoa(at)})
	}
	b.paths = append(b.paths, path)
	b.Nodes = append(b.Nodes, vertex{strconv.Itoa(at), metadata{kind, id, rank, false, map[string]string{"containment": path}}})
	return at
}

// makeGraph is a cluster with the places, each in its domains. All places are equally deep:
// Fluxion looks for slots at the first vertex that has the type directly below, and no
// further down. So a place in no domain of a level gets a domain of its own there.
func makeGraph(places []place) jgf {
	b := builder{ids: map[string]int{}}
	above := []int{b.add(-1, clusterType, -1)}
	var last []int // the domains of the last place
	for rank, p := range places {
		same := 0
		for same < min(len(last), len(p.above)) && last[same] == p.above[same] {
			same++
		}
		above = above[:same+1]
		for range p.above[same:] {
			above = append(above, b.add(above[len(above)-1], domainType, -1))
		}
		last = p.above
		node := b.add(above[len(above)-1], nodeType, rank)
		for range p.cores {
			b.add(node, coreType, rank)
		}
	}
	return b.jgf
}
