// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"fmt"
	"strings"
)

// policy says which of the suitable resources a match takes. Resources of equal score are
// taken in the order of edges.
type policy struct {
	// order compares the scores of candidates.
	order order
	// nodeCentric lets the node of a vertex count before the id of the vertex.
	nodeCentric bool
	// nodeExclusive gives nodes exclusively, with all vertices below.
	nodeExclusive bool
	// stopEarly takes the first candidates that are enough, beginning with the freest
	// children, instead of the best ones.
	stopEarly bool
}

type order int

const (
	highFirst order = iota
	lowFirst
	// intervalFirst prefers the highest run of consecutive scores in the whole graph. Below
	// the root it prefers high scores.
	intervalFirst
	// classFirst prefers the lowest performance class (property perf_class).
	classFirst
)

// policies are the match policies of Fluxion by name.
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

// parsePolicy reads the name of a policy, or options such as "policy=low node_centric=true
// stop_on_1_matches=true node_exclusive=true".
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

// Scores are made as in Fluxion: a match has a score above 0.
const (
	matched    = 1
	nodeFactor = 10000
	worstClass = 9999
)

// factor is what a node adds to the scores of the vertices below it.
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

// maxRated is the highest id that scores can tell apart.
const maxRated = 1 << 48

// rated is the id of a vertex within the range of scores. Ids come from names, and can be
// anything.
func (v *vertex) rated() int64 { return min(max(v.id, -1), maxRated) }

// score is the score of a vertex, with the factor of the nodes above it.
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
