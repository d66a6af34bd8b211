// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// releases count what became free, and which pods came.
type releases struct {
	// freed counts changes after which more may fit, and freedNodes are the nodes of those since they were read.
	freed      uint64
	freedNodes []string
	// came counts ranks with a node whose pods were seen, and cameOf is the MiniCluster of the last.
	came   int
	cameOf types.UID
}

// Freed counts the changes after which more may fit: a pod or promise ended, or a node came,
// changed or came up.
func (l *releases) Freed() uint64 { return l.freed }

// free records nodes of which less is held than before.
func (l *releases) free(nodes []string) {
	if len(nodes) > 0 {
		l.freed, l.freedNodes = l.freed+1, append(l.freedNodes, nodes...)
	}
}

// TakeFreed returns the nodes of which less is held since the last call. Some may be down, or deleted.
func (l *releases) TakeFreed() []string {
	nodes := l.freedNodes
	l.freedNodes = nil
	return nodes
}

// Serves reports whether one of some nodes has room now for what a pod of one of some gangs requests.
func (l *Ledger) Serves(nodes []string, asks map[string]state.Ask) bool {
	if l.graph == nil { // nodes have changed; the next cycle makes the graph
		return len(asks) > 0
	}
	for _, name := range nodes {
		node, known := l.graph.Index(name)
		if !known || l.nodes[name].down != "" {
			continue
		}
		left := l.graph.Left(name)
		for _, ask := range asks {
			if hasRoomFor(ask.Pods.Requests, left) && !slices.ContainsFunc(l.excluded(l.graph, ask.Places), func(e fluxion.Exclusion) bool { return e.Nodes.Has(node) }) {
				return true
			}
		}
	}
	return false
}

// hasRoomFor reports whether so much is left, whether or not the node is a whole one.
func hasRoomFor(requests, left fluxion.Resources) bool {
	for name, amount := range requests {
		if name != fluxion.WholeNode && amount > left[name] {
			return false
		}
	}
	return true
}
