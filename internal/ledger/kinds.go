// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"encoding/binary"
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

// kinds are the sets of nodes that gangs could use, of the gangs that were asked about. Few gangs have a set of their own.
type kinds struct {
	reaches map[string]reach // by ID of the gang
	sets    map[string]*kind // by the nodes
	beside  map[[2]*kind]*kind
}

// kind is a set of nodes. Those of a room with the same nodes are the same.
type kind struct{ fluxion.Bitmap }

func newKinds() *kinds {
	return &kinds{reaches: map[string]reach{}, sets: map[string]*kind{}, beside: map[[2]*kind]*kind{}}
}

// of is the kind with some nodes.
func (k *kinds) of(nodes fluxion.Bitmap) *kind {
	key, _ := binary.Append(nil, binary.LittleEndian, []uint64(nodes)) // numbers have a size
	if k.sets[string(key)] == nil {
		k.sets[string(key)] = &kind{nodes}
	}
	return k.sets[string(key)]
}

// amountOf is a resource of the nodes of a kind, and amount how much of it they have.
type (
	amountOf struct {
		resource string
		kind     *kind
	}
	amount struct{ free, all int64 }
)

// Amount is part of queue.Kinds.
func (r *room) Amount(resource, id, other string) (free, all int64) {
	of := amountOf{resource, r.beside(id, other)}
	known, asked := r.amounts[of]
	if !asked {
		known.free, known.all = of.kind.AmountIn(r.graph, resource)
		r.amounts[of] = known
	}
	return known.free, known.all
}

// Elsewhere is part of queue.Kinds.
func (r *room) Elsewhere(id, other string) []int {
	return r.reach(id).usable.RanksOutside(r.graph, other)
}

// Meet is part of queue.Kinds.
func (r *room) Meet(id, other, beside string) bool {
	return r.reach(id).usable.Meets(r.beside(other, beside).Bitmap)
}

// beside are the nodes that a gang could use, and that another gang could not; "" is no other.
func (r *room) beside(id, other string) *kind {
	nodes := r.reach(id).usable
	if other == "" {
		return nodes
	}
	both := [2]*kind{nodes, r.reach(other).usable}
	if r.kinds.beside[both] == nil {
		r.kinds.beside[both] = r.kinds.of(nodes.Without(both[1].Bitmap))
	}
	return r.kinds.beside[both]
}

// reach is where a gang could be if it had no nodes and nothing was held: on nodes of all architectures of which it may get one.
type reach struct {
	// usable also has the nodes that are closed to the gang, or that it avoids: it may use them later. open are those without
	// them.
	usable *kind
	open   fluxion.Bitmap
}

// reach is that of a gang.
func (r *room) reach(id string) reach {
	if known, asked := r.kinds.reaches[id]; asked {
		return known
	}
	found := reach{usable: r.kinds.of(nil)}
	if gang, ok := r.askAny(id, nil); ok {
		if gang.ask.Arch != "" && r.layout.needsOneArch(&gang.ask) {
			gang.Gang = r.layout.ofArch(r.graph, gang.Gang, gang.ask.Arch)
		}
		found.open = r.graph.Usable(gang.Gang)
		gang.Pods.Closed = nil
		gang.Pods.Infeasible = slices.DeleteFunc(slices.Clone(gang.Pods.Infeasible), func(e fluxion.Exclusion) bool { return e.Reason == avoided })
		found.usable = r.kinds.of(r.graph.Usable(gang.Gang))
	}
	r.kinds.reaches[id] = found
	return found
}
