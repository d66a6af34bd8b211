// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapigraph

import (
	"fmt"

	"github.com/flux-elastic/flux-elastic/fluxion/reapi"
)

// These are the types of vertices below the cluster. Domains of all levels share a type, because
// the library knows only the types of the first graph of the process.
const (
	domainType = "domain"
	nodeType   = "node"
	coreType   = "core"
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

// choose lets Fluxion choose n places, if the kind is a node, or n of their cores. The places
// are in the order of the graph. The counts say how many Fluxion chose of each place.
func (e *Engine) choose(kind string, places []place, n int) (counts []int, err error) {
	vertices := len(places)
	for i := range places {
		vertices += places[i].cores
	}
	if vertices > maxVertices {
		return nil, fmt.Errorf("it would take a graph of %d nodes and cores; the most is %d", vertices, maxVertices)
	}
	ranks, err := e.library.Match(makeGraph(places), e.policy, kind, n)
	if err != nil {
		return nil, err
	}
	return count(ranks, places, n)
}

// count counts the ranks of each place. There have to be n ranks.
func count(ranks []int, places []place, n int) ([]int, error) {
	if len(ranks) != n {
		return nil, fmt.Errorf("got %d vertices, not %d", len(ranks), n)
	}
	counts := make([]int, len(places))
	for _, rank := range ranks {
		if rank < 0 || rank >= len(places) {
			return nil, fmt.Errorf("got rank %d, which is not in the graph", rank)
		}
		counts[rank]++
		if most := max(places[rank].cores, 1); counts[rank] > most {
			return nil, fmt.Errorf("got rank %d more than %d times", rank, most)
		}
	}
	return counts, nil
}

// makeGraph is a cluster with the places, each in its domains. The rank of a place is its index.
//
// All places are equally deep. Fluxion looks for slots at the first vertex that has the type
// directly below, and no further down. So a place in no domain of a level gets a domain of its
// own there.
func makeGraph(places []place) *reapi.Graph {
	graph := reapi.NewGraph()
	above := []int{reapi.Root}
	var last []int // the domains of the last place
	for rank, p := range places {
		same := 0
		for same < min(len(last), len(p.above)) && last[same] == p.above[same] {
			same++
		}
		above = above[:same+1]
		for range p.above[same:] {
			above = append(above, graph.Add(above[len(above)-1], domainType, -1))
		}
		last = p.above
		node := graph.Add(above[len(above)-1], nodeType, rank)
		for range p.cores {
			graph.Add(node, coreType, rank)
		}
	}
	return graph
}
