// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"fmt"
	"strings"
)

// policy is which of the resources that would do are taken. What is equally good
// goes in the order of edges.
type policy struct {
	// order says how candidates of one type compare.
	order order
	// nodeCentric: what is in one node belongs together, before its own id counts.
	nodeCentric bool
	// nodeExclusive: nodes are taken whole, with all that is in them.
	nodeExclusive bool
	// stopEarly: not the best of all, but the first that are enough, from where most
	// is free.
	stopEarly bool
}

type order int

const (
	highFirst order = iota
	lowFirst
	// intervalFirst takes, in the graph as a whole, from the highest run of
	// consecutive scores; below, high scores.
	intervalFirst
	// classFirst takes what has the lowest performance class (property perf_class).
	classFirst
)

// policies by name, as Fluxion has them.
var policies = map[string]policy{
	"first":      {order: highFirst, nodeCentric: true, stopEarly: true},
	"firstnodex": {order: highFirst, nodeCentric: true, nodeExclusive: true, stopEarly: true},
	"high":       {order: highFirst},
	"low":        {order: lowFirst},
	"hinode":     {order: highFirst, nodeCentric: true},
	"lonode":     {order: lowFirst, nodeCentric: true},
	"hinodex":    {order: highFirst, nodeCentric: true, nodeExclusive: true},
	"lonodex":    {order: lowFirst, nodeCentric: true, nodeExclusive: true},
	"locality":   {order: intervalFirst},
	"variation":  {order: classFirst},
}

// parsePolicy reads the name of a policy, or a custom one such as "policy=low
// node_centric=true stop_on_1_matches=true node_exclusive=true".
func parsePolicy(text string) (policy, error) {
	if p, known := policies[text]; known {
		return p, nil
	}
	var p policy
	chosen := false
	for _, option := range strings.Fields(text) {
		name, value, _ := strings.Cut(option, "=")
		if name == "policy" {
			if value != "high" && value != "low" {
				return p, fmt.Errorf("parsing match policy %q: policy is high or low, not %q", text, value)
			}
			chosen = true
			if p.order = highFirst; value == "low" {
				p.order = lowFirst
			}
			continue
		}
		flag, known := map[string]*bool{
			"node_centric": &p.nodeCentric, "node_exclusive": &p.nodeExclusive, "stop_on_1_matches": &p.stopEarly,
		}[name]
		if !known {
			return p, fmt.Errorf("parsing match policy %q: there is no option or policy %q", text, name)
		}
		if value != "true" && value != "false" {
			return p, fmt.Errorf("parsing match policy %q: %s is true or false, not %q", text, name, value)
		}
		*flag = value == "true"
	}
	if !chosen {
		return p, fmt.Errorf("parsing match policy %q: it needs policy=high or policy=low", text)
	}
	return p, nil
}

// Scores, as Fluxion makes them: above 0 is a match.
const (
	matched    = 1
	nodeFactor = 10000
	worstClass = 9999
)

// factor is what a node adds to the scores of what is in it, under a node-centric
// policy.
func (p *policy) factor(v *vertex) int64 {
	if !p.nodeCentric || v.kind != nodeKind {
		return 0
	}
	tie := v.uniq%nodeFactor - 1
	if tie < 0 {
		tie = -tie
	}
	return (v.rated()+2)*nodeFactor + tie
}

// maxRated is the highest id that scores tell from others.
const maxRated = 1 << 48

// rated is a vertex's id, as scores take it: ids come from names, and can be anything.
func (v *vertex) rated() int64 { return min(max(v.id, -1), maxRated) }

// score is that of a vertex in a node of some factor.
func (p *policy) score(g *Graph, u int32, factor int64) int64 {
	if p.order == classFirst {
		return matched + perfClass(g.properties[u])
	}
	return matched + factor + g.vertices[u].rated() + 1
}

// perfClass is the performance class of a vertex: 0 to 9999. A missing class, or one that
// is no number, counts as 9999.
func perfClass(properties map[string]string) int64 {
	text, has := properties["perf_class"]
	if !has {
		return worstClass
	}
	class, err := leadingInteger(strings.TrimPrefix(strings.TrimLeft(text, " \t\n"), "+"))
	if err != nil || class < 0 || class > worstClass {
		return worstClass
	}
	return class
}
