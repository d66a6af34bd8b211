// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// Reservation keeps nodes for the MiniClusters of one queue from a time until another, as Slurm's
// reservations do.
type Reservation struct {
	Name string
	// Queue is the queue whose MiniClusters may use the nodes; "" if no MiniCluster may.
	Queue       string
	Nodes       []string
	From, Until time.Time
}

// reservations are those that are not over.
type reservations []*reserved

// reserved is a reservation with what gangs have to know of it.
type reserved struct {
	Reservation
	reason string
	// names are the nodes of a reservation for nobody; nil for others.
	names map[string]bool
	// closed are the nodes in the terms of the graph; nil until needed.
	closed *fluxion.Exclusion
}

// bars reports whether a gang may not get the nodes: others have reserved them from a time at which the
// gang could still run.
func (r *Reservation) bars(ask *state.Ask) bool {
	if r.Queue != "" && r.Queue == ask.Queue {
		return false
	}
	return ask.Ends.IsZero() || ask.Ends.After(r.From)
}

// reservedForNobody is from when a node is reserved for nobody, as far as that matters to a gang.
func (l *reservations) reservedForNobody(node string, ask *state.Ask) (from time.Time, reserved bool) {
	for _, r := range *l {
		if r.names[node] && r.bars(ask) {
			from, reserved = elastic.Earliest(from, r.From), true
		}
	}
	return from, reserved
}

// cleared are the nodes that gangs leave before the reservation begins, because it is for nobody.
func (r *Reservation) cleared() map[string]bool {
	if r.Queue != "" {
		return nil
	}
	names := make(map[string]bool, len(r.Nodes))
	for _, name := range r.Nodes {
		names[name] = true
	}
	return names
}

// Overlaps reports whether two reservations have a time in common.
func (r *Reservation) Overlaps(other *Reservation) bool {
	return r.From.Before(other.Until) && other.From.Before(r.Until)
}

// Reserve replaces all reservations by those that are not over. next is when one of them begins or ends
// next; zero if none does.
func (l *reservations) Reserve(all []Reservation, now time.Time) (next time.Time) {
	*l = nil
	for _, r := range all {
		if !now.Before(r.Until) {
			continue
		}
		reason, at := "reserved from ", r.From
		if !now.Before(r.From) {
			reason, at = "reserved until ", r.Until
		}
		next = elastic.Earliest(next, at)
		reason += at.UTC().Format(time.RFC3339) + " (" + r.Name + ")"
		*l = append(*l, &reserved{Reservation: r, reason: reason, names: r.cleared()})
	}
	return next
}

// closed are the nodes that reservations keep from a gang, in the terms of the graph.
func (l *reservations) closed(graph *fluxion.Graph, ask *state.Ask) []fluxion.Exclusion {
	var out []fluxion.Exclusion
	for _, r := range *l {
		if r.bars(ask) {
			out = append(out, r.on(graph))
		}
	}
	return out
}

// on are the nodes in the terms of the graph. They are valid until nodes come or go.
func (r *reserved) on(graph *fluxion.Graph) fluxion.Exclusion {
	if r.closed == nil {
		r.closed = &fluxion.Exclusion{Reason: r.reason}
		for _, name := range r.Nodes {
			if node, ok := graph.Index(name); ok {
				r.closed.Nodes.Set(node)
			}
		}
	}
	return *r.closed
}

// Reserved reports whether there are reservations.
func (l *reservations) Reserved() bool { return len(*l) > 0 }

// Barred names the reservations that keep nodes from a gang: gangs with the same names may use the same
// nodes, as far as reservations go.
func (l *reservations) Barred(ask state.Ask) string {
	var names []string
	for _, r := range *l {
		if r.bars(&ask) {
			names = append(names, r.Name)
		}
	}
	return strings.Join(names, ",")
}

// BarredNext is when a gang without nodes loses further nodes to a reservation, because it could still
// run when that begins; zero if never.
func (l *reservations) BarredNext(ask state.Ask) (next time.Time) {
	for _, r := range *l {
		if ask.Lasts > 0 && (r.Queue == "" || r.Queue != ask.Queue) && !r.bars(&ask) {
			next = elastic.Earliest(next, r.From.Add(time.Millisecond-ask.Lasts))
		}
	}
	return next
}

// Selected are the existing nodes that a selector matches, by name.
func (l *layout) Selected(selector labels.Selector) []string {
	var names []string
	for name, n := range l.nodes {
		if selector.Matches(labels.Set(n.Labels)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Existing are those of some nodes that exist, by name.
func (l *layout) Existing(names []string) []string {
	out := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return l.nodes[name] == nil })
	slices.Sort(out)
	return slices.Compact(out)
}

// Pick chooses n nodes for a reservation among those that a selector matches. It keeps nodes that were
// chosen before, as long as they exist. Then it chooses nodes that are up and free from the beginning on,
// or else soonest after it, and none that is taken. There are fewer than n if too few are left. asks are
// those of all MiniClusters with nodes.
func (l *Ledger) Pick(r *Reservation, n int, selector labels.Selector, before []string, taken map[string]bool, asks map[types.UID]state.Ask) []string {
	kept := slices.DeleteFunc(l.Existing(before), func(name string) bool { return !selector.Matches(labels.Set(l.nodes[name].Labels)) })
	if len(kept) >= n {
		return kept[:n]
	}
	uses := l.usesAfter(r.From, asks)
	more := slices.DeleteFunc(l.Selected(selector), func(name string) bool {
		return taken[name] || !l.nodes[name].counts() || slices.Contains(kept, name)
	})
	slices.SortStableFunc(more, func(a, b string) int { return uses[a].compare(uses[b]) })
	picked := slices.Concat(kept, more[:min(n-len(kept), len(more))])
	slices.Sort(picked)
	return picked
}

// use is how long a node may be used after a time: not at all, until another time, or no one knows.
type use struct {
	unknown bool
	until   time.Time
}

func (u use) compare(other use) int {
	switch {
	case u.unknown == other.unknown:
		return u.until.Compare(other.until)
	case u.unknown:
		return 1
	}
	return -1
}

// usesAfter says how long nodes may be used after a time, by name.
func (l *Ledger) usesAfter(from time.Time, asks map[types.UID]state.Ask) map[string]use {
	out := map[string]use{}
	for uid, ask := range asks {
		for _, node := range l.nodesOf(uid) {
			u := out[node]
			u.unknown = u.unknown || ask.Ends.IsZero()
			if ask.Ends.After(from) && ask.Ends.After(u.until) {
				u.until = ask.Ends
			}
			out[node] = u
		}
	}
	for node := range l.foreignOn {
		out[node] = use{unknown: true}
	}
	return out
}

// Staying are the MiniClusters that hold nodes of a reservation and may still run there when it begins,
// by UID, without those that may use it. asks are those of all MiniClusters with nodes.
func (l *Ledger) Staying(r *Reservation, asks map[types.UID]state.Ask) []types.UID {
	var out []types.UID
	for uid, ask := range asks {
		if r.bars(&ask) && slices.ContainsFunc(l.nodesOf(uid), func(node string) bool { return slices.Contains(r.Nodes, node) }) {
			out = append(out, uid)
		}
	}
	slices.Sort(out)
	return out
}

// nodesOf are the nodes of which a MiniCluster holds something.
func (l accounts) nodesOf(uid types.UID) []string {
	a := l[uid]
	if a == nil {
		return nil
	}
	var out []string
	for _, o := range a.all() {
		out = append(out, o.node)
	}
	return out
}
