// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"slices"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// GangMatcher chooses the nodes that gangs get on a graph, and changes nothing there.
// A *fluxion.Graph is the one of itself. Others answer with the same size, or the same
// refusal, and may choose other nodes.
type GangMatcher interface {
	MatchGang(gang fluxion.Gang) (fluxion.Placement, *fluxion.Refusal)
}

// Engine makes the GangMatcher of a graph.
type Engine func(*fluxion.Graph) GangMatcher

// room is an elastic.Room over a graph of its own.
type room struct {
	graph  *fluxion.Graph
	engine GangMatcher
	asks   map[string]fluxion.Gang
	// leftovers are those of the asks whose MiniCluster was promised nothing, and has
	// pods yet: what each of them takes.
	leftovers map[string]fluxion.Resources
}

// Room is what is free now, for the gangs that are asked about, by ID: those that wait,
// and those that run where they can grow only to some of the nodes. The engine chooses
// the nodes that gangs get; nil: the graph itself does, as it does on snapshots. What
// becomes of the Cluster later does not change the Room.
//
// Grow gives a node also to a rank whose node is gone.
func (c *Cluster) Room(gangs map[string]Ask, engine Engine) (elastic.Room, error) {
	graph, err := c.Graph()
	if err != nil {
		return nil, err
	}
	r := &room{graph: graph.Snapshot(), asks: make(map[string]fluxion.Gang, len(gangs)), leftovers: map[string]fluxion.Resources{}}
	for id, ask := range gangs {
		gang := ask.Gang
		gang.Job = id
		if ask.places != nil {
			gang.Pods.Infeasible = c.excluded(ask.places)
		}
		if len(ask.avoid) > 0 {
			gang.Pods.Infeasible = avoiding(r.graph, gang, ask)
		}
		r.asks[id] = gang
	}
	for uid, h := range c.holdings {
		if _, asked := r.asks[string(uid)]; asked && h.promise == nil {
			r.leftovers[string(uid)] = h.job.Pods.Requests
		}
	}
	r.engine = r.graph
	if engine != nil {
		r.engine = engine(r.graph)
	}
	return r, nil
}

// avoiding are the nodes that a gang cannot use, with those that it avoids if the others
// could hold it.
func avoiding(graph *fluxion.Graph, gang fluxion.Gang, ask Ask) []fluxion.Exclusion {
	infeasible := gang.Pods.Infeasible
	gang.Sizes = []int{ask.least}
	gang.Pods.Infeasible = append(slices.Clip(infeasible), graph.Exclusions(func(yield func(node, reason string) bool) {
		for _, node := range ask.avoid {
			if !yield(node, "avoided") {
				return
			}
		}
	})...)
	if graph.CouldHold(gang) != nil {
		return infeasible
	}
	return gang.Pods.Infeasible
}

// ask is what a gang asks for, at these sizes.
func (r *room) ask(id string, sizes []int) (fluxion.Gang, bool) {
	gang, ok := r.asks[id]
	gang.Sizes = sizes
	return gang, ok
}

func (r *room) Place(id string, sizes []int) []string {
	gang, ok := r.ask(id, sizes)
	if !ok || !r.leave(id) {
		return nil
	}
	placement, refusal := r.engine.MatchGang(gang)
	if refusal == nil && slices.Contains(sizes, len(placement.Nodes)) && r.graph.Take(gang, placement) == nil {
		return placement.Nodes
	}
	// What another engine does not find the graph still may.
	placement, refusal = r.graph.MatchGang(gang)
	if refusal != nil || r.graph.Take(gang, placement) != nil {
		return nil
	}
	return placement.Nodes
}

// leave makes what the pods of a gang hold yet, which were those of an attempt before,
// somebody else's: it is free to be placed. It is not if it holds nodes otherwise.
func (r *room) leave(id string) bool {
	pods := r.graph.Pods(id)
	if len(pods) == 0 {
		return true
	}
	requests, ok := r.leftovers[id]
	if !ok || r.graph.Release(id) != nil {
		return false
	}
	for _, pod := range pods {
		r.graph.Occupy(pod.Node, requests)
	}
	return true
}

func (r *room) Fits(id string, limit int) int {
	gang, ok := r.ask(id, nil)
	if !ok {
		return 0
	}
	return min(r.graph.Fits(gang), max(limit, 0))
}

func (r *room) CouldHold(id string, sizes []int) bool {
	gang, ok := r.ask(id, sizes)
	return ok && r.graph.CouldHold(gang) == nil
}

func (r *room) Why(id string, sizes []int) string {
	gang, ok := r.ask(id, sizes)
	if !ok {
		return "is not known"
	}
	if refusal := r.graph.Explain(gang); refusal != nil {
		return refusal.String()
	}
	return ""
}

func (r *room) Grow(id string, n int) []elastic.Pod {
	if !r.complete(id) {
		return nil
	}
	pods, _, err := r.graph.Grow(id, n)
	if err != nil {
		return nil
	}
	out := make([]elastic.Pod, len(pods))
	for i, pod := range pods {
		out[i] = elastic.Pod(pod)
	}
	return out
}

// complete tells the graph where the pods of a gang that has nodes can be, which it was
// not told by the promise. It reports whether the gang has nodes.
func (r *room) complete(id string) bool {
	pods := r.graph.Pods(id)
	if len(pods) == 0 {
		return false
	}
	gang, ok := r.asks[id]
	if !ok {
		return true
	}
	return r.graph.Respecify(id, gang) == nil
}

func (r *room) Victims(id string, n int) []int { return r.graph.Victims(id, n) }

func (r *room) Shrink(id string, ranks []int) {
	for _, rank := range ranks {
		if rank > 0 {
			_ = r.graph.Free(id, rank) // or it has nothing
		}
	}
}

func (r *room) Release(id string) {
	if len(r.graph.Pods(id)) > 0 {
		_ = r.graph.Release(id)
	}
}

func (r *room) Snapshot() elastic.Room {
	graph := r.graph.Snapshot()
	return &room{graph: graph, engine: graph, asks: r.asks, leftovers: r.leftovers}
}
