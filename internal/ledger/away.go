// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// awayFor is how long a node counts for what could ever fit after it was deleted, or got a taint that
// lasts. An autoscaler or a repair may bring the node back.
const awayFor = time.Hour

// away is a node as it was before it went away.
type away struct {
	before *node
	// until is when the node no longer counts; zero until Lapse has seen it.
	until time.Time
}

// follow keeps a node as it was if it goes away now, and no longer once it is back. before and now are
// nil for a node that does not exist.
func (l *layout) follow(name string, before, now *node) {
	kept := l.away[name]
	if kept != nil {
		before = kept.before
	}
	switch {
	case before == nil:
		l.replaced(now)
	case now != nil && !tainted(before, now):
		delete(l.away, name)
	case kept == nil:
		was := *before
		was.capacity = l.capacity(before) // its daemon pods go with it
		l.away[name] = &away{before: &was}
	}
}

// replaced forgets one node that went away, of which a new one has the capacity.
func (l *layout) replaced(now *node) {
	for _, name := range slices.Sorted(maps.Keys(l.away)) {
		if maps.Equal(state.Amounts(l.away[name].before.Status.Allocatable), now.capacity) {
			delete(l.away, name)
			return
		}
	}
}

// tainted reports whether a node got a taint that lasts.
func tainted(before, now *node) bool {
	had := lastingTaints(before)
	return slices.ContainsFunc(lastingTaints(now), func(taint corev1.Taint) bool {
		return !slices.ContainsFunc(had, func(other corev1.Taint) bool { return sameTaint(taint, other) })
	})
}

// lapseAway forgets the nodes that went away long ago. next is when it will forget others; zero if
// never.
func (l *Ledger) lapseAway(now time.Time) (next time.Time) {
	for name, a := range l.away {
		if a.until.IsZero() {
			a.until = now.Add(awayFor)
		}
		if now.Before(a.until) {
			next = elastic.Earliest(next, a.until)
		} else {
			delete(l.away, name)
			l.earlier, l.most = nil, nil
		}
	}
	return next
}

// withAway is the cluster with all nodes as they were before they went away; nil if none is away.
func (l *Ledger) withAway() *Ledger {
	if l.earlier == nil && len(l.away) > 0 {
		l.earlier = New(l.levels, nil)
		l.earlier.Nodes = l.Nodes
		maps.Copy(l.earlier.nodes, l.nodes)
		maps.Copy(l.earlier.daemons, l.daemons)
		for name, a := range l.away {
			l.earlier.nodes[name] = a.before
			delete(l.earlier.daemons, name)
		}
	}
	return l.earlier
}

// mayReturn reports whether a node that went away may come back for the gangs of a queue without that they ask for it.
func (l *layout) mayReturn(queue string) bool {
	could := l.could[queue]
	for _, a := range l.away {
		if !slices.ContainsFunc(could, func(c Could) bool { return c.IsA(a.before.Node) }) {
			return true
		}
	}
	return false
}

// couldHold reports whether the nodes could hold a gang at one of some sizes if they were empty.
func (l *Ledger) couldHold(ask state.Ask, sizes []int) bool {
	graph, err := l.current()
	if err != nil {
		return false
	}
	return l.couldHoldInOne(graph, l.gangOf(graph, ask), &ask, sizes)
}
