// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// setDaemon records a daemon pod of a node; nil if the pod is gone.
func (l *Ledger) setDaemon(name string, uid types.UID, p *Pod) {
	n := l.nodes[name]
	var before fluxion.Resources
	if n != nil {
		before = l.capacity(n)
	}
	switch of := l.daemons[name]; {
	case p == nil && len(of) <= 1:
		delete(l.daemons, name)
	case p == nil:
		delete(of, uid)
	case of == nil:
		l.daemons[name] = map[types.UID]*Pod{uid: p}
	default:
		of[uid] = p
	}
	if n != nil {
		l.resize(n, before)
		if p == nil && n.down == "" {
			l.free([]string{name})
		}
	}
}

// capacity is what a node has beside its daemon pods.
func (l *layout) capacity(n *node) fluxion.Resources {
	capacity := maps.Clone(n.capacity)
	l.withoutDaemons(n, capacity)
	return capacity
}

// withoutDaemons takes what the daemon pods of a node hold from its capacity. They give the node no other kinds of
// resources. A pod that is still expected counts only if there is room for it beside the others: one that asks for more
// waits for ever.
func (l *layout) withoutDaemons(n *node, capacity fluxion.Resources) {
	var expected []*Pod
	for _, p := range l.daemons[n.Name] {
		if p.expected {
			expected = append(expected, p)
		} else {
			lower(capacity, p.requests)
		}
	}
	slices.SortFunc(expected, func(a, b *Pod) int { return cmp.Compare(a.uid, b.uid) })
	for _, p := range expected {
		if hasRoomFor(p.requests, capacity) {
			lower(capacity, p.requests)
		}
	}
}

func lower(capacity, requests fluxion.Resources) {
	for name, amount := range requests {
		if _, has := capacity[name]; has {
			capacity[name] -= amount
		}
	}
}
