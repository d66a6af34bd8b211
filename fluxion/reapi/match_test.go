// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapi

import (
	"encoding/json"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestGraphIsSafe: the library survives every graph that callers can make.
func TestGraphIsSafe(t *testing.T) {
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 1))
		graph := NewGraph()
		above := []int{Root}
		for range 1 + random.IntN(30) {
			kind := []string{"domain", "node", "core", "cluster"}[random.IntN(4)]
			above = append(above, graph.Add(above[random.IntN(len(above))], kind, random.IntN(9)-1))
		}
		text, err := json.Marshal(map[string]any{"graph": graph.jgf})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := checkGraph(string(text), false); err != nil {
			t.Errorf("seed %d: %v\n%s", seed, err, text)
		}
	}
	for _, policy := range policies {
		_, err := checkOptions(options(policy))
		checkError(t, err, "")
	}
	checkError(t, checkJobspec(jobspec("node", 1<<20)), "")
}

func TestMatch(t *testing.T) {
	library := OpenOracle(t).Library
	graph := NewGraph() // four nodes of two cores
	for rank := range 4 {
		node := graph.Add(Root, "node", rank)
		graph.Add(node, "core", rank)
		graph.Add(node, "core", rank)
	}
	cases := map[string]struct {
		graph        *Graph
		policy, kind string
		count        int
		want         []int
		wantReason   error
	}{
		"the first nodes":    {graph, "lonode", "node", 2, []int{0, 1}, nil},
		"the last nodes":     {graph, "hinode", "node", 2, []int{2, 3}, nil},
		"cores":              {graph, "lonode", "core", 3, []int{0, 0, 1}, nil},
		"no room":            {graph, "lonode", "node", 5, nil, ErrBusy},
		"nothing to choose":  {NewGraph(), "lonode", "node", 1, nil, ErrInvalid},
		"no such type":       {graph, "lonode", "teapot", 1, nil, ErrInvalid},
		"no such policy":     {graph, "best", "node", 1, nil, ErrInvalid},
		"none":               {graph, "lonode", "node", 0, nil, ErrBusy},
		"fewer than nothing": {graph, "lonode", "node", -1, nil, ErrInvalid},
	}
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			ranks, err := library.Match(test.graph, test.policy, test.kind, test.count)
			slices.Sort(ranks)
			if !slices.Equal(ranks, test.want) || !errors.Is(err, test.wantReason) {
				t.Errorf("ranks %v (%v), want %v (%v)", ranks, err, test.want, test.wantReason)
			}
		})
	}
}

func TestRanksOf(t *testing.T) {
	if _, err := ranksOf("", "node"); err == nil {
		t.Error("an empty R was read")
	}
	const r = `{"graph": {"nodes": [
		{"id": "2", "metadata": {"type": "core", "id": 0, "rank": 7, "exclusive": true}},
		{"id": "1", "metadata": {"type": "node", "id": 0, "rank": 7, "exclusive": false}},
		{"id": "0", "metadata": {"type": "cluster", "id": 0, "rank": -1}}], "edges": []}}`
	for kind, want := range map[string][]int{"core": {7}, "node": nil} {
		if ranks, err := ranksOf(r, kind); err != nil || !slices.Equal(ranks, want) {
			t.Errorf("%s: %v (%v), want %v", kind, ranks, err, want)
		}
	}
}
