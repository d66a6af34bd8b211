// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// anyAsk is the request of a gang whose pods say nothing about their nodes, and request nothing.
func anyAsk() state.Ask {
	return state.Ask{
		Gang:   fluxion.Gang{Pods: fluxion.Shape{Requests: fluxion.Resources{fluxion.Pods: 1}}},
		Places: state.Places{Pod: &corev1.Pod{}, Key: "any pod", NamesArch: true},
	}
}

// Amount is part of queue.Kinds.
func (r *room) Amount(resource, id, other string) (free, all int64) {
	return r.beside(id, other).AmountIn(r.graph, resource)
}

// Elsewhere is part of queue.Kinds.
func (r *room) Elsewhere(id, other string) []int { return r.usable(id).RanksOutside(r.graph, other) }

// Meet is part of queue.Kinds.
func (r *room) Meet(id, other, beside string) bool {
	return r.usable(id).Meets(r.beside(other, beside))
}

// beside are the nodes that a gang could use, and that another gang could not; "" is no other.
func (r *room) beside(id, other string) fluxion.Bitmap {
	nodes := r.usable(id)
	if other != "" {
		nodes = nodes.Without(r.usable(other))
	}
	return nodes
}

// usable are the nodes that a gang could use.
func (r *room) usable(id string) fluxion.Bitmap { return r.reach(id).usable }

// reach is where a gang could be if it had no nodes and nothing was held: on nodes of all architectures of which it may get one.
type reach struct {
	// usable also has the nodes that are closed to the gang, or that it avoids: it may use them later. open are those without
	// them.
	usable, open fluxion.Bitmap
}

// reach is that of a gang. It is remembered as long as no nodes could come.
func (r *room) reach(id string) reach {
	gang, ok := r.askAny(id, nil)
	if !ok {
		return reach{}
	}
	if r.added == nil && gang.reach != nil {
		return *gang.reach
	}
	if gang.ask.Arch != "" && r.layout.needsOneArch(&gang.ask) {
		gang.Gang = r.layout.ofArch(r.graph, gang.Gang, gang.ask.Arch)
	}
	found := reach{open: r.graph.Usable(gang.Gang)}
	gang.Pods.Closed = nil
	gang.Pods.Infeasible = slices.DeleteFunc(slices.Clone(gang.Pods.Infeasible), func(e fluxion.Exclusion) bool { return e.Reason == avoided })
	found.usable = r.graph.Usable(gang.Gang)
	if r.added == nil {
		r.requests[id].reach = &found
	}
	return found
}
