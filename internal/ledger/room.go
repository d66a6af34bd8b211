// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"iter"
	"maps"
	"slices"

	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// Matcher chooses the nodes of a gang on a graph that it only reads. It must return the same
// size, or the same refusal, as the graph's own MatchGang; the nodes may differ.
type Matcher func(graph *fluxion.Graph, gang fluxion.Gang) (fluxion.Placement, *fluxion.Refusal)

// Choose lets the matcher choose as many nodes for a gang as the queue gave it; nil if they are
// taken. A gang in domains keeps its nodes.
func (l *Ledger) Choose(ask state.Ask, nodes []string) []string {
	if l.matcher == nil || ask.Domains != nil {
		return nodes
	}
	id := ask.Job
	r, err := l.room(func(string) (state.Ask, bool) { return ask, true })
	if err != nil || !r.leave(id) {
		return nil
	}
	gang, _ := r.ask(id, []int{len(nodes)})
	if chosen, refusal := l.matcher(r.graph, gang.Gang); refusal == nil && len(chosen.Nodes) == len(nodes) && r.graph.Take(gang.Gang, chosen) == nil {
		return chosen.Nodes
	}
	if r.graph.Take(gang.Gang, fluxion.Placement{Nodes: nodes}) != nil {
		return nil
	}
	return nodes
}

// hasRoom reports whether more pods like those of a promise fit on their nodes.
func (l *Ledger) hasRoom(promise *state.Promise, pods []elastic.Pod) bool {
	if len(pods) == 0 {
		return true
	}
	graph, err := l.current()
	if err != nil {
		return false
	}
	var nodes []string
	for _, pod := range pods {
		nodes = append(nodes, pod.Node)
	}
	gang := fluxion.Gang{Job: "more pods", Pods: fluxion.Shape{Requests: promise.Requests}}
	return graph.Snapshot().Take(gang, fluxion.Placement{Nodes: nodes}) == nil
}

// request is a gang in the terms of a graph.
type request struct {
	fluxion.Gang
	domains *domains // nil for a gang that may be anywhere
	ask     state.Ask
}

// room is a queue.Room on a graph of its own.
type room struct {
	layout *layout
	graph  *fluxion.Graph
	askOf  func(id string) (state.Ask, bool)
	// requests are those of the gangs that were asked about, by ID. All snapshots share them.
	requests map[string]*request
	// earlier is the cluster with the nodes that went away in the last hour; nil if none did.
	earlier *Ledger
	// kept are nodes that no running gang may get: those that waiting gangs could use.
	kept []fluxion.Exclusion
	// leftovers are what each pod takes of gangs without a promise that still have pods.
	leftovers map[string]fluxion.Resources
	// added are the nodes of the graph that could come, by queue.
	added map[string]addition
	// kinds are the nodes that gangs could use. Snapshots share them.
	kinds *kinds
	// extended is a copy with all that could come for a queue, until the room changes; nil until needed. So long the amounts hold
	// that were asked about.
	extended    *room
	extendedFor string
	amounts     map[amountOf]amount
}

// Room is what is free now, for requests by ID: of waiting gangs, and of running gangs that can grow
// only on some nodes. askOf is called once for each gang that the Room is asked about, and reports
// false for other gangs. What gangs hold later does not change the Room. Once nodes or reservations
// change, the Room must not be used any more.
//
// Grow also gives a node to a rank whose node is gone.
func (l *Ledger) Room(askOf func(id string) (state.Ask, bool)) (queue.Room, error) {
	return l.room(askOf)
}

func (l *Ledger) room(askOf func(id string) (state.Ask, bool)) (*room, error) {
	graph, err := l.current()
	if err != nil {
		return nil, err
	}
	r := &room{
		layout: &l.layout, graph: graph.Snapshot(), askOf: askOf, requests: map[string]*request{}, earlier: l.withAway(),
		leftovers: map[string]fluxion.Resources{}, kinds: newKinds(), amounts: map[amountOf]amount{},
	}
	for uid, a := range l.accounts {
		if a.promise == nil {
			r.leftovers[string(uid)] = a.job.Pods.Requests
		}
	}
	return r, nil
}

// gangOf is a request in the terms of a graph, with the nodes that the pods cannot use, or not now.
func (l *layout) gangOf(graph *fluxion.Graph, ask state.Ask) fluxion.Gang {
	gang := ask.Gang
	gang.Pods.Infeasible = l.excluded(graph, ask.Places)
	if far := l.unreached(graph, ask.Reach); len(far) > 0 {
		gang.Pods.Infeasible = slices.Concat(gang.Pods.Infeasible, far)
	}
	if domains := l.domainsOf(graph, ask.Domains); domains != nil {
		gang.Pods.Infeasible = append(slices.Clip(gang.Pods.Infeasible), domains.outside)
	}
	if len(ask.Avoid) > 0 {
		gang.Pods.Infeasible = l.avoiding(graph, gang, &ask)
	}
	gang.Pods.Closed = slices.Concat(l.closed(graph, &ask), l.repelled(graph, &ask))
	return gang
}

// maxExclusions bounds the cache of exclusions: more than the kinds of pods in a cluster.
const maxExclusions = 4096

// excluded are the nodes that a pod can never use, by reason, in the terms of the graph. They are
// cached until nodes change.
func (l *layout) excluded(graph *fluxion.Graph, places state.Places) []fluxion.Exclusion {
	if places.Pod == nil {
		return nil
	}
	return l.cached(graph, places.Key, excluded(places.Pod, maps.Values(l.nodes)))
}

// unreached are the nodes that cannot reach the volumes of a pod, as excluded.
func (l *layout) unreached(graph *fluxion.Graph, reach state.Reach) []fluxion.Exclusion {
	if len(reach.Volumes) == 0 {
		return nil
	}
	return l.cached(graph, reach.Key, unreached(reach.Volumes, maps.Values(l.nodes)))
}

// cached are the exclusions for the nodes of a key, each with the reason.
func (l *layout) cached(graph *fluxion.Graph, key string, reasons iter.Seq2[string, string]) []fluxion.Exclusion {
	if known, ok := l.exclusions[key]; ok {
		return known
	}
	if len(l.exclusions) >= maxExclusions || l.exclusions == nil {
		l.exclusions = map[string][]fluxion.Exclusion{}
	}
	out := slices.Clip(graph.Exclusions(reasons))
	l.exclusions[key] = out
	return out
}

// avoided is the reason why a gang does not use nodes that it avoids.
const avoided = "avoided"

// avoiding are the nodes that a gang cannot use, and the nodes that it avoids if the other nodes
// could hold it.
func (l *layout) avoiding(graph *fluxion.Graph, gang fluxion.Gang, ask *state.Ask) []fluxion.Exclusion {
	infeasible := gang.Pods.Infeasible
	gang.Pods.Infeasible = append(slices.Clip(infeasible), graph.Exclusions(func(yield func(node, reason string) bool) {
		for _, node := range ask.Avoid {
			if !yield(node, avoided) {
				return
			}
		}
	})...)
	if !l.couldHoldInOne(graph, gang, ask, []int{ask.Least}) {
		return infeasible
	}
	return gang.Pods.Infeasible
}

// request is that of a gang; nil if the gang is not known.
func (r *room) request(id string) *request {
	known, asked := r.requests[id]
	if asked {
		return known
	}
	ask, ok := anyAsk(), id == queue.AnyGang
	if !ok {
		ask, ok = r.askOf(id)
	}
	if ok {
		known = &request{Gang: r.layout.gangOf(r.graph, ask), domains: r.layout.domainsOf(r.graph, ask.Domains), ask: ask}
		known.Job = id
	}
	r.requests[id] = known
	return known
}

// ask is the request of a gang at some sizes, in the architecture that is best now.
func (r *room) ask(id string, sizes []int) (gang request, ok bool) {
	if gang, ok = r.askAny(id, sizes); ok {
		gang.Gang = r.layout.ofOneArch(r.graph, gang.Gang, &gang.ask)
	}
	return gang, ok
}

// askAny is the request of a gang at some sizes, in any architecture.
func (r *room) askAny(id string, sizes []int) (gang request, ok bool) {
	known := r.request(id)
	if known == nil {
		return request{}, false
	}
	gang = *known
	gang.Sizes = sizes
	if r.added != nil {
		gang.Pods.Infeasible = slices.Concat(gang.Pods.Infeasible, r.absent(gang.ask.Queue))
	}
	return gang, true
}

func (r *room) Place(id string, sizes []int) []string {
	gang, ok := r.ask(id, sizes)
	if !ok || !r.leave(id) {
		return nil
	}
	var placement fluxion.Placement
	if gang.domains != nil {
		placement.Nodes = gang.domains.place(r.graph, gang.Gang)
	} else {
		placement, _ = r.graph.MatchGang(gang.Gang)
	}
	if r.changes(); len(placement.Nodes) == 0 || r.graph.Take(gang.Gang, placement) != nil {
		return nil
	}
	return placement.Nodes
}

// leave turns pods of an earlier attempt into other occupants of their nodes, so that the gang
// can be placed. It returns false if the gang holds nodes in another way.
func (r *room) leave(id string) bool {
	pods := r.graph.Pods(id)
	if len(pods) == 0 {
		return true
	}
	r.changes()
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
	var fits int
	if gang.domains != nil {
		fits = sum(gang.domains.room(r.graph, gang.Gang))
	} else {
		fits = r.graph.Fits(gang.Gang)
	}
	return min(fits, max(limit, 0))
}

func (r *room) CouldHold(id string, sizes []int) bool {
	gang, ok := r.askAny(id, sizes)
	return ok && (r.layout.couldHoldInOne(r.graph, gang.Gang, &gang.ask, sizes) || r.couldHoldBefore(&gang))
}

func (r *room) CouldHoldBeside(id string, sizes []int, others []string) bool {
	gang, ok := r.askAny(id, sizes)
	if !ok {
		return false
	}
	gang.Pods.Infeasible = slices.Clip(gang.Pods.Infeasible)
	for _, other := range others {
		gang.Pods.Infeasible = append(gang.Pods.Infeasible, fluxion.Exclusion{Reason: "kept for others", Nodes: r.reach(other).usable.Bitmap})
	}
	return r.layout.couldHoldInOne(r.graph, gang.Gang, &gang.ask, sizes)
}

// couldHoldBefore reports whether a gang could fit before nodes went away.
func (r *room) couldHoldBefore(gang *request) bool {
	return r.earlier != nil && r.layout.mayReturn(gang.ask.Queue) && r.earlier.couldHold(gang.ask, gang.Sizes)
}

func (r *room) Why(id string, sizes []int) string {
	gang, ok := r.ask(id, sizes)
	if !ok {
		return "is not known"
	}
	if refusal := r.graph.Explain(gang.Gang); refusal != nil {
		why := refusal.String()
		if refusal.Never && r.couldHoldBefore(&gang) {
			why += "; nodes that went away in the last hour may come back"
		}
		return why
	}
	if gang.domains != nil {
		return gang.domains.why(r.graph, gang.Gang)
	}
	return ""
}

func (r *room) Grow(id string, n int) []elastic.Pod {
	r.changes()
	gang, ok := r.complete(id)
	if !ok {
		return nil
	}
	if gang.domains != nil {
		return gang.domains.grow(r.graph, gang.Gang, n)
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

// complete adds to a running gang's job the nodes that its pods can use, which the promise does
// not name, without those that are kept. It returns the request for more pods, and false if the
// gang cannot have any.
func (r *room) complete(id string) (request, bool) {
	if len(r.graph.Pods(id)) == 0 {
		return request{}, false
	}
	gang, ok := r.ask(id, nil)
	if !ok {
		return request{}, len(r.kept) == 0
	}
	gang.Pods.Infeasible = slices.Concat(gang.Pods.Infeasible, r.kept)
	return gang, r.graph.Respecify(id, gang.Gang) == nil
}

// Keep also keeps the nodes that a gang avoids: it may use them later.
func (r *room) Keep(id string) {
	if nodes := r.reach(id).usable.Bitmap; len(nodes) > 0 {
		r.kept = append(slices.Clip(r.kept), fluxion.Exclusion{Reason: "kept for others", Nodes: nodes})
	}
}

func (r *room) Victims(id string, n int, taker string) []int {
	return r.graph.Victims(id, n, r.reach(taker).open)
}

func (r *room) Shrink(id string, ranks []int) {
	r.changes()
	for _, rank := range ranks {
		if rank > 0 {
			_ = r.graph.Free(id, rank) // no error matters: the rank may hold nothing
		}
	}
}

func (r *room) Release(id string) {
	r.changes()
	_ = r.graph.Release(id) // the gang may hold nothing
}

// changes forgets what was found out of the nodes that are free.
func (r *room) changes() { r.extended, r.amounts = nil, map[amountOf]amount{} }

func (r *room) Snapshot() queue.Room { return r.snapshot() }

func (r *room) snapshot() *room {
	snapshot := *r
	snapshot.graph = r.graph.Snapshot()
	return &snapshot
}
