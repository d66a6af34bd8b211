// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"maps"

	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

// counts reports whether brokers can use a node now.
func (n *node) counts() bool { return n.down == "" && !n.others }

// Usable are the names of the nodes that brokers may use, and whether they can use them now.
func (l *Ledger) Usable() map[string]bool {
	nodes := make(map[string]bool, len(l.nodes))
	for name, n := range l.nodes {
		if !n.others {
			nodes[name] = n.down == ""
		}
	}
	return nodes
}

// Total is the capacity of all nodes that are up, and that brokers may use.
func (l *Ledger) Total() queue.Resources {
	if l.total == nil {
		l.total = queue.Resources{}
		for _, n := range l.nodes {
			if !n.counts() {
				continue
			}
			capacity := queue.Resources(l.capacity(n))
			for name, amount := range capacity {
				capacity[name] = max(amount, 0)
			}
			l.total.Add(capacity, 1)
		}
	}
	return maps.Clone(l.total)
}

// Foreign is what pods of others hold on these nodes, beside daemon pods.
func (l *Ledger) Foreign() queue.Resources {
	if l.foreign == nil {
		l.foreign = queue.Resources{}
		for name, held := range l.foreignOn {
			if n := l.nodes[name]; n == nil || !n.counts() {
				continue
			}
			l.foreign.Add(held, 1)
		}
	}
	return maps.Clone(l.foreign)
}

// setForeign counts what a pod of others holds, or no longer counts it if the sign is -1. Nothing
// is counted for a nil pod.
func (l *Ledger) setForeign(p *Pod, sign int64) {
	if p == nil {
		return
	}
	on := l.foreignOn[p.node]
	if on == nil {
		on = queue.Resources{}
		l.foreignOn[p.node] = on
	}
	n := l.nodes[p.node]
	for name, amount := range p.requests {
		change(on, name, sign*amount)
		if l.foreign != nil && n != nil && n.counts() {
			change(l.foreign, name, sign*amount)
		}
	}
	if len(on) == 0 {
		delete(l.foreignOn, p.node)
	}
}

// change changes one of some amounts. Those that are zero have no name.
func change(amounts queue.Resources, name string, by int64) {
	if amounts[name] += by; amounts[name] == 0 {
		delete(amounts, name)
	}
}
