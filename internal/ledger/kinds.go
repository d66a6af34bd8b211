// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
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
	gang, ok := r.ask(id, nil)
	if !ok {
		return 0, 0
	}
	var without fluxion.Bitmap
	if other != "" {
		without = r.nodesOf(other)
	}
	return gang.AmountIn(r.graph, resource, without)
}

// Elsewhere is part of queue.Kinds.
func (r *room) Elsewhere(id, other string) []int { return r.nodesOf(id).RanksOutside(r.graph, other) }

// Meet is part of queue.Kinds.
func (r *room) Meet(id, other string) bool { return r.nodesOf(id).Meets(r.nodesOf(other)) }

// nodesOf is usable, which is remembered as long as no nodes could come.
func (r *room) nodesOf(id string) fluxion.Bitmap {
	known := r.request(id)
	switch {
	case known == nil:
		return nil
	case r.added != nil:
		return r.usable(id)
	case known.usable == nil:
		known.usable = r.usable(id)
	}
	return known.usable
}
