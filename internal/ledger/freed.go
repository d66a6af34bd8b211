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

// free records nodes that have more left than before. Nodes that are down do not count.
func (l *Ledger) free(nodes []string) {
	nodes = slices.DeleteFunc(nodes, func(name string) bool { return l.nodes[name] == nil || l.nodes[name].down != "" })
	if len(nodes) > 0 {
		l.freed, l.freedNodes = l.freed+1, append(l.freedNodes, nodes...)
	}
}

// TakeFreed returns the nodes that were freed since the last call.
func (l *Ledger) TakeFreed() []string {
	nodes := l.freedNodes
	l.freedNodes = nil
	return nodes
}

// Serves reports whether one of some nodes has room now for what a pod of a gang requests.
func (l *Ledger) Serves(nodes []string, ask state.Ask) bool {
	graph, err := l.current()
	if err != nil {
		return true // the cycle reports the error
	}
	excluded := l.excluded(graph, ask.Places)
	return slices.ContainsFunc(nodes, func(name string) bool {
		node, known := graph.Index(name)
		if !known || slices.ContainsFunc(excluded, func(e fluxion.Exclusion) bool { return e.Nodes.Has(node) }) {
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
