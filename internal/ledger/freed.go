// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"

	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// Freed counts the changes after which more may fit: a pod or promise ended, or a node came,
// changed or came up.
func (l *Ledger) Freed() uint64 { return l.freed }

// free records nodes of which less is held than before.
func (l *Ledger) free(nodes []string) {
	if len(nodes) > 0 {
		l.freed, l.freedNodes = l.freed+1, append(l.freedNodes, nodes...)
	}
}

// TakeFreed returns the nodes of which less is held since the last call. Some may be down, or deleted.
func (l *Ledger) TakeFreed() []string {
	nodes := l.freedNodes
	l.freedNodes = nil
	return nodes
}

// Serves reports whether one of some nodes has room now for what a pod of a gang requests.
func (l *Ledger) Serves(nodes []string, ask state.Ask) bool {
	if l.graph == nil { // nodes have changed; the next cycle makes the graph
		return true
	}
	graph, excluded := l.graph, l.excluded(l.graph, ask.Places)
	return slices.ContainsFunc(nodes, func(name string) bool {
		node, known := graph.Index(name)
		if !known || l.nodes[name].down != "" || slices.ContainsFunc(excluded, func(e fluxion.Exclusion) bool { return e.Nodes.Has(node) }) {
			return false
		}
		left := graph.Left(name)
		for resource, amount := range ask.Pods.Requests {
			if resource != fluxion.WholeNode && amount > left[resource] {
				return false
			}
		}
		return true
	})
}
