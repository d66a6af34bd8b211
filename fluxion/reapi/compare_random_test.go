// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapi_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/flux-elastic/flux-elastic/fluxion/traverser"
)

// document is JGF.
type document struct {
	Graph struct {
		Nodes []vertex     `json:"nodes"`
		Edges []connection `json:"edges"`
	} `json:"graph"`
}

type vertex struct {
	ID       string `json:"id"`
	Metadata struct {
		Type       string            `json:"type"`
		Name       string            `json:"name,omitempty"`
		ID         int               `json:"id"`
		Rank       int               `json:"rank"`
		Size       int               `json:"size,omitempty"`
		Status     int               `json:"status,omitempty"`
		Exclusive  bool              `json:"exclusive,omitempty"`
		Properties map[string]string `json:"properties,omitempty"`
		Paths      map[string]string `json:"paths"`
	} `json:"metadata"`
}

type connection struct {
	Source string `json:"source"`
	Target string `json:"target"`
}

func asJSON(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		panic(err) // tests give only values that JSON has
	}
	return string(text)
}

// random makes graphs and steps.
type random struct {
	*rand.Rand
	document document
	// ids are the next ids by type. If local is true, the ids start at 0 in every parent. If
	// there is a spread, vertex n has the id spread[n].
	ids    map[string]int
	spread []int
	local  bool
	// cores is about how many cores the graph gets.
	cores int
	// sockets is true for a graph with sockets between nodes and cores.
	sockets bool
	steps   uint64
	// grown is true once a step attaches a node.
	grown bool
}

// few is a number of cores that leaves room for one more node.
const few = 8

func newRandom(seed uint64) *random {
	r := &random{Rand: rand.New(rand.NewPCG(seed, 7)), ids: map[string]int{}, cores: few}
	switch r.IntN(4) {
	case 0:
		r.local = true
	case 1:
		r.spread = r.Perm(4000)
	case 2:
		r.spread, r.cores = r.Perm(4000), 60
	}
	return r
}

func (r *random) options() options {
	policies := []string{
		"first", "firstnodex", "high", "low", "hinode", "lonode", "hinodex", "lonodex",
		"policy=low node_centric=true stop_on_1_matches=true", "policy=high node_exclusive=true",
	}
	if r.cores == few { // with these policies, many vertices have the same score
		policies = append(policies, "locality", "variation")
	}
	return options{
		Load: "jgf", Policy: policies[r.IntN(len(policies))],
		Prune: []string{
			"ALL:core,ALL:node", "ALL:core", "ALL:node,ALL:memory", "ALL:gpu,ALL:core", "rack:node,node:core,cluster:gpu",
		}[r.IntN(5)],
		Format: []traverser.Format{traverser.JGF, traverser.JGF, traverser.RV1NoSched, traverser.Simple}[r.IntN(4)],
	}
}

// graph is a cluster.
//
// The order of vertices with the same score must not matter. So a graph has at most 16
// vertices of a type: such a list has the same order after a stable and an unstable sort. Or
// the graph has more, and all their ids differ.
//
// Either all vertices of a type are leaves, or none is. Elsewhere the library's root counts
// only the vertices that come after the first leaf.
func (r *random) graph() string {
	uneven := r.IntN(3) == 0
	r.sockets = r.IntN(2) == 0
	root := r.add(-1, "cluster", 0, -1, 1)
	cores := 0
	for i := range 1 + r.IntN(3) {
		rack := r.add(root, "rack", i, -1, 1)
		for k := range 1 + r.IntN(max(r.cores/3, 4)) {
			if cores >= r.cores && k > 0 {
				break
			}
			cores += r.addNode(rack, k, r.cores-cores, uneven)
		}
	}
	return asJSON(r.document)
}

// addNode makes a node, and returns how many cores the node has. These are at most so many
// cores, but at least one in each socket.
func (r *random) addNode(rack, nth, most int, uneven bool) (cores int) {
	rank := r.ids["node"]
	node := r.add(rack, "node", nth, rank, 1)
	parents := []int{node}
	if r.sockets {
		parents = nil
		for i := range 1 + r.IntN(2) {
			parents = append(parents, r.add(node, "socket", i, rank, 1))
		}
	}
	for _, parent := range parents {
		for i := range max(1, min(1+r.IntN(4), most-cores)) {
			r.add(parent, "core", i, rank, 1)
			cores++
		}
		for i := range r.IntN(3) {
			size := 4
			if uneven {
				size = 1 + r.IntN(4)
			}
			r.add(parent, "memory", i, rank, size)
		}
		for i := range r.IntN(2) {
			r.add(parent, "gpu", i, rank, 1)
		}
	}
	return cores
}

// add makes a vertex, and returns its index. The root has the parent -1.
func (r *random) add(parent int, kind string, nth, rank, size int) int {
	id := r.ids[kind]
	r.ids[kind]++
	switch {
	case r.local:
		id = nth
	case r.spread != nil:
		id = r.spread[len(r.document.Graph.Nodes)]
	}
	var v vertex
	v.ID = fmt.Sprint(len(r.document.Graph.Nodes))
	m := &v.Metadata
	m.Type, m.ID, m.Rank, m.Size = kind, id, rank, size
	if parent >= 0 && rank >= 0 && kind != "node" && r.IntN(25) == 0 {
		m.Status = 1 // not for nodes: the library would count a negative number of nodes
	}
	name := fmt.Sprint(kind, id)
	if kind == "node" {
		m.Properties = map[string]string{"perf_class": fmt.Sprint(r.IntN(4))}
		if r.IntN(2) == 0 {
			m.Properties["fast"] = ""
		}
	}
	m.Paths = map[string]string{"containment": "/" + name}
	if parent >= 0 {
		above := r.document.Graph.Nodes[parent]
		m.Paths["containment"] = above.Metadata.Paths["containment"] + "/" + name
		r.document.Graph.Edges = append(r.document.Graph.Edges, connection{above.ID, v.ID})
	}
	r.document.Graph.Nodes = append(r.document.Graph.Nodes, v)
	return len(r.document.Graph.Nodes) - 1
}

func (r *random) path() string {
	return r.document.Graph.Nodes[r.IntN(len(r.document.Graph.Nodes))].Metadata.Paths["containment"]
}

// step is a random step.
func (r *random) step() step {
	r.steps++
	choice, path, yes := r.Uint64(), r.path(), r.IntN(2) == 0
	switch n := r.IntN(100); {
	case n < 20:
		return step{"cancel", "", func(p *pair) (string, string) { return p.cancel(p.choose(choice)) }}
	case n < 28:
		return step{"partial cancel", "", func(p *pair) (string, string) {
			return p.partialCancel(p.choose(choice), yes, choice)
		}}
	case n < 32:
		return step{"update", "", func(p *pair) (string, string) { return p.update(p.choose(choice)) }}
	case n < 38:
		return step{"status", fmt.Sprint(path, yes), func(p *pair) (string, string) { return p.setStatus(path, yes) }}
	case n < 52:
		expression := r.expression()
		format := []traverser.Format{traverser.JGF, traverser.RV1NoSched}[r.IntN(2)]
		return step{"find", fmt.Sprint(expression, " in ", format), func(p *pair) (string, string) {
			return p.find(strings.ReplaceAll(expression, "JOB", fmt.Sprint(p.choose(choice))), format)
		}}
	case n < 55:
		return step{"clone", "", (*pair).clone}
	case n < 57 && (r.cores > few || !r.grown):
		r.grown = true
		return r.attach()
	case n < 59:
		return step{"remove", path, func(p *pair) (string, string) { return p.remove(path) }}
	}
	op := r.IntN(len(operations))
	text, id := r.jobspec(), r.steps
	return step{"match " + operations[op].name, fmt.Sprint(id, text), func(p *pair) (string, string) {
		return p.match(op, id, text)
	}}
}

// attach is the step that adds a node to a rack.
func (r *random) attach() step {
	grown := *r
	grown.document = document{}
	rack := 0
	for i, v := range r.document.Graph.Nodes {
		if v.Metadata.Type == "rack" && (rack == 0 || r.IntN(2) == 0) {
			rack = i
		}
	}
	known := len(r.document.Graph.Nodes)
	r.addNode(rack, known, 4, true)
	all := r.document.Graph
	all.Nodes[known].Metadata.Status = 1
	grown.document.Graph.Nodes = append([]vertex{all.Nodes[0], all.Nodes[rack]}, all.Nodes[known:]...)
	grown.document.Graph.Edges = append([]connection{{all.Nodes[0].ID, all.Nodes[rack].ID}}, all.Edges[known-1:]...)
	subgraph, path := asJSON(grown.document), all.Nodes[known].Metadata.Paths["containment"]
	return step{"attach", subgraph, func(p *pair) (string, string) { return p.attach(subgraph, path) }}
}

// choose is a job, as a rule one that is there.

func (r *random) expression() string {
	predicates := []string{
		"status=up", "status=down", "sched-now=allocated", "sched-now=free", "sched-future=reserved", "sched-future=free",
		"agfilter=true", "property=fast", fmt.Sprintf("names=node[0-%d]", r.IntN(4)),
		"jobid-alloc=JOB", "jobid-reserved=JOB", "jobid-span=JOB", "jobid-tag=JOB",
	}
	one := func() string { return predicates[r.IntN(len(predicates))] }
	switch r.IntN(4) {
	case 0:
		return one() + []string{" and ", " or "}[r.IntN(2)] + one()
	case 1:
		return one() + " and (" + one() + " or " + one() + ")"
	}
	return one()
}

// jobspec requests slots, nodes, or other vertices.
func (r *random) jobspec() string {
	resources := r.resources()
	constraint := []string{
		"", "", `, "constraints": {"properties": ["fast"]}`, `, "constraints": {"not": [{"ranks": ["1-2"]}]}`,
		`, "constraints": {"or": [{"hostlist": ["node[1-2]"]}, {"properties": ["^fast"]}]}`,
	}[r.IntN(5)]
	return fmt.Sprintf(`{"version": 1, "resources": [%s], `+
		`"tasks": [{"command": ["app"], "slot": "default", "count": {"per_slot": 1}}], `+
		`"attributes": {"system": {"duration": %d%s}}}`, resources, 100*(1+r.IntN(3)), constraint)
}

func (r *random) resources() string {
	oneNode := `{"type": "node", "count": 1` + []string{
		"", `, "with": [{"type": "core", "count": 2}]`, `, "with": [{"type": "socket", "count": 1}]`,
	}[r.IntN(3)] + "}"
	switch r.IntN(12) {
	case 0, 1:
		return r.slot(r.leaves())
	case 2:
		return r.slot(oneNode)
	case 3:
		return r.slot(r.some("node", ""))
	case 4:
		return r.slot(`{"type": "core", "count": 1}`)
	case 5:
		return r.nodes()
	case 6:
		return r.some("node", r.some("socket", r.slot(r.leaves())))
	case 7:
		return r.some("rack", r.nodes())
	case 8:
		return r.some("rack", r.slot(oneNode))
	case 9:
		return r.some("socket", r.slot(r.leaves()))
	case 10:
		return r.slot(r.some("rack", ""))
	}
	return r.some("cluster", r.some("rack", r.slot(oneNode)))
}

// nodes requests nodes with slots, and names the sockets between them if the graph has any.
// Without the sockets, the chosen vertices are not connected. Then the library gives nothing,
// and names the reason of an earlier failure.
func (r *random) nodes() string {
	if r.sockets {
		return r.some("node", r.some("socket", r.slot(r.leaves())))
	}
	return r.some("node", r.slot(r.leaves()))
}

func (r *random) count(most int) string {
	low := 1 + r.IntN(1+r.IntN(most))
	switch r.IntN(8) {
	case 0:
		return fmt.Sprintf(`{"min": %d}`, low)
	case 1:
		return fmt.Sprintf(`{"min": %d, "max": %d, "operator": "+", "operand": %d}`, low, low+r.IntN(5), 1+r.IntN(3))
	case 2:
		return fmt.Sprintf(`{"min": %d, "max": %d, "operator": "*", "operand": 2}`, low, low*4)
	case 3:
		return fmt.Sprintf(`{"min": %d, "max": %d, "operator": "^", "operand": 2}`, low+1, low*5)
	}
	return fmt.Sprint(low)
}

func (r *random) slot(with string) string {
	return fmt.Sprintf(`{"type": "slot", "count": %s, "label": "default", "with": [%s]}`, r.count(4), with)
}

// some requests vertices of a type, with other vertices below.
func (r *random) some(kind, with string) string {
	count, exclusive := r.count(3), []string{"", `, "exclusive": true`, ""}[r.IntN(3)]
	text := fmt.Sprintf(`{"type": %q, "count": %s%s`, kind, count, exclusive)
	if with != "" {
		text += `, "with": [` + with + `]`
	}
	return text + "}"
}

// leaves are the vertices of a slot that is smaller than a node.
func (r *random) leaves() string {
	text := fmt.Sprintf(`{"type": "core", "count": %s}`, r.count(3))
	if r.IntN(2) == 0 {
		text += fmt.Sprintf(`, {"type": "memory", "count": %d}`, 1+r.IntN(6))
	}
	if r.IntN(4) == 0 {
		text += `, {"type": "gpu", "count": 1}`
	}
	return text
}
