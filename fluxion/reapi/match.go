// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapi

import (
	"encoding/json"
	"fmt"
)

// Match lets Fluxion choose so many vertices of a type on a graph that no job uses. The policy
// is the name of a match policy of Fluxion. The result is the rank of each chosen vertex.
func (l *Library) Match(graph *Graph, policy, kind string, count int) (ranks []int, err error) {
	if len(graph.jgf.Nodes) == 1 { // the library does not survive such a graph
		return nil, refuse("initialize", ErrInvalid, "the graph has nothing below its root")
	}
	text, err := json.Marshal(map[string]any{"graph": graph.jgf})
	if err != nil {
		return nil, err
	}
	r, err := l.allocate(string(text), options(policy), jobspec(kind, count))
	if err != nil {
		return nil, err
	}
	return ranksOf(r, kind)
}

// allocate loads a graph, matches a jobspec on the graph, and returns the R of the job.
func (l *Library) allocate(graph, options, jobspec string) (string, error) {
	mu.Lock()
	defer mu.Unlock()
	ctx := l.create()
	if ctx == 0 {
		return "", refuse("new", ErrNoMemory, "")
	}
	defer l.destroy(ctx)
	if err := l.call(ctx, "initialize", func() int32 { return l.initialize(ctx, graph, options) }); err != nil {
		return "", err
	}
	const matchAllocate, jobid = 1, 1
	var reserved bool
	var r *byte
	var at int64
	var overhead float64
	err := l.call(ctx, "match", func() int32 {
		return l.match(ctx, matchAllocate, jobspec, jobid, &reserved, &r, &at, &overhead)
	})
	return l.take(r), err
}

func options(policy string) string {
	return fmt.Sprintf(`{"load_format": "jgf", "match_format": "jgf", "prune_filters": "ALL:core,ALL:node", `+
		`"matcher_policy": %q}`, policy)
}

// jobspec requests slots of one vertex each, for as long as the graph lasts.
func jobspec(kind string, slots int) string {
	return fmt.Sprintf(`{"version": 1,
		"resources": [{"type": "slot", "label": "pod", "count": %d, "with": [{"type": %q, "count": 1}]}],
		"tasks": [{"command": ["broker"], "slot": "pod", "count": {"per_slot": 1}}],
		"attributes": {"system": {"duration": 0}}}`, slots, kind)
}

// ranksOf reads from R the ranks of the chosen vertices of a type. The job has these vertices
// exclusively. R also has the vertices above them.
func ranksOf(r, kind string) ([]int, error) {
	var chosen struct{ Graph jgf }
	if err := json.Unmarshal([]byte(r), &chosen); err != nil {
		return nil, fmt.Errorf("fluxion: reading R: %w", err)
	}
	var ranks []int
	for _, v := range chosen.Graph.Nodes {
		if v.Metadata.Type == kind && v.Metadata.Exclusive {
			ranks = append(ranks, v.Metadata.Rank)
		}
	}
	return ranks, nil
}
