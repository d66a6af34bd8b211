// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package reapigraph lets Fluxion itself choose the nodes that a gang gets, through
// libreapi_cli.so (package reapi).
//
// Fluxion knows whole vertices: no thousandths of a core, no bytes, no pods of other
// jobs. So a fluxion.Graph keeps the books: it says which nodes there are, who holds
// them, whether a gang fits, at which size, and why not. For each match Fluxion gets a
// new graph of the nodes that have room. The graph has a cluster, the domains of the
// topology and the nodes, and in each node one core for each pod that fits there. Fluxion
// chooses in this order:
//
//  1. one domain, if all pods have to be in one, or should be and fit;
//  2. one core for each pod. If nodes are to be distinct, Fluxion chooses nodes. If there
//     are fewer nodes than pods, every node gets as many pods as all nodes can have, and
//     Fluxion chooses the nodes that get one more.
//
// The answers say how many pods each node gets, and ranks follow the order of the graph.
// So size and refusals are those of the embedded matcher, and the nodes are Fluxion's.
//
// Unlike Fluxion, the embedded matcher takes the tightest domain, the fewest domains if
// one is not enough, and the fewest nodes if nodes differ in room. With Fluxion, Spread
// is the same as Distinct.
//
// Importing this package makes a binary that needs a dynamic loader and libc: import
// it only in programs of this module.
package reapigraph

import (
	"fmt"
	"slices"
	"strings"

	"github.com/flux-elastic/flux-elastic/fluxion/reapi"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// Policies are the match policies of Fluxion that Open takes. The missing ones always give
// whole nodes, or use properties that the graph does not have.
var Policies = []string{"first", "high", "low", "hinode", "lonode", "locality"}

// Engine is Fluxion's library, ready to choose.
type Engine struct {
	library *reapi.Library
	policy  string
	failed  func(error)
}

// Open loads the library and tries it. The function failed is called when Fluxion does not
// answer a match as it should. Then the embedded matcher's choice is taken.
func Open(library, policy string, failed func(error)) (*Engine, error) {
	if !slices.Contains(Policies, policy) {
		return nil, fmt.Errorf("the policy is %q: it can be %s", policy, strings.Join(Policies, ", "))
	}
	loaded, err := reapi.Open(library)
	if err != nil {
		return nil, err
	}
	e := &Engine{loaded, policy, failed}
	if err := e.try(); err != nil {
		return nil, fmt.Errorf("trying Fluxion: %w", err)
	}
	return e, nil
}

// try chooses once. The library knows only the types of its first graph for good, so this
// graph has all types.
func (e *Engine) try() error {
	places := []place{{above: []int{0}, cores: 1}, {above: []int{1}, cores: 2}}
	_, err := e.choose(coreType, places, 3)
	return err
}

// MatchGang is graph.MatchGang, with nodes that Fluxion chooses. It only reads the graph. Several
// goroutines may call it, each with a graph of its own.
func (e *Engine) MatchGang(graph *fluxion.Graph, gang fluxion.Gang) (fluxion.Placement, *fluxion.Refusal) {
	placement, refusal := graph.MatchGang(gang)
	if refusal != nil {
		return placement, refusal
	}
	chosen, err := e.place(graph, &gang, len(placement.Nodes))
	if err != nil {
		e.failed(fmt.Errorf("letting Fluxion choose %d nodes for job %q: %w", len(placement.Nodes), gang.Job, err))
		return placement, nil
	}
	return chosen, nil
}
