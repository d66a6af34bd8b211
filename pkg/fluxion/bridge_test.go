// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// fourNodes are two racks of two nodes of 4 cores and 8 GiB.
func fourNodes(t *testing.T) *Graph {
	t.Helper()
	var specs []Node
	for i := range 4 {
		specs = append(specs, Node{
			Name: fmt.Sprint("node", i), Topology: []string{fmt.Sprint("rack", i/2)},
			Capacity: Resources{CPU: 4000, Memory: 8 << 30, Pods: 10},
		})
	}
	g, err := NewGraph(specs, "rack")
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// podSpec asks for pods of some milli-CPU and MiB, as a jobspec.
func podSpec(n, cpu, mebibytes int) string {
	return fmt.Sprintf(`{"version": 1, "resources": [{"type": "slot", "count": %d, "label": "pod", "with": [
		{"type": "cpu", "count": %d}, {"type": "memory", "count": %d}, {"type": "pods", "count": 1}]}],
		"tasks": [{"command": ["app"], "slot": "pod", "count": {"per_slot": 1}}], "attributes": {}}`, n, cpu, mebibytes)
}

func TestJobspecsOnAGraphOfNodes(t *testing.T) {
	g := fourNodes(t)
	g.Occupy("node0", Resources{CPU: 3500, Memory: 1 << 30, Pods: 1})
	g.SetDown("node3", "cordoned")
	m, err := NewMatcher(g, Options{Policy: "lonode"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = m.Match(Allocate, parseJobspec(t, podSpec(5, 1500, 1024)), 1, 0)
	if !errors.Is(err, ErrBusy) {
		t.Errorf("five pods of 1500m want room for four, but got %v", err)
	}
	match, err := m.Match(Allocate, parseJobspec(t, podSpec(4, 1500, 1024)), 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	text, err := match.Encode(Simple)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"cpu0[3000:s]", "memory1[2048:s]", "pods2[2:s]", "node1[1:s]", "node2[1:s]"} {
		if !strings.Contains(text, line) {
			t.Errorf("the match has no %s:\n%s", line, text)
		}
	}
	if _, err := m.Match(Allocate, nodeSlots(t, 1), 2, 0); !errors.Is(err, ErrBusy) {
		t.Errorf("no node is free as a whole, but got %v", err)
	}
	if err := m.Cancel(1); err != nil {
		t.Fatal(err)
	}
	if match, err = m.Match(Allocate, nodeSlots(t, 2), 3, 0); err != nil {
		t.Fatalf("two nodes are free as a whole: %v", err)
	}
	if _, err := match.Encode(JGF); err != nil {
		t.Error(err)
	}
	if problem := imbalance(m); problem != "" {
		t.Error(problem)
	}
}

func TestGangsOnWhatAMatcherHasLeft(t *testing.T) {
	m, err := NewMatcher(cluster(t, 200), Options{Policy: "low"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Match(Allocate, nodeSlots(t, 150), 1, 0); err != nil {
		t.Fatal(err)
	}
	eight := parseJobspec(t, `{"version": 1, "resources": [{"type": "node", "count": 1, "with": [{"type": "slot", "count": 6, "label": "task",
		"with": [{"type": "core", "count": 1}]}]}], "tasks": [{"command": ["app"], "slot": "task", "count": {"per_slot": 1}}], "attributes": {}}`)
	if _, err := m.Match(Allocate, eight, 2, 0); err != nil {
		t.Fatal(err)
	}
	g, err := m.Graph(0)
	if err != nil {
		t.Fatal(err)
	}
	gang := Gang{Pods: Shape{Requests: Resources{"core": 8}}, Sizes: []int{40, 50}}
	if _, refusal := g.MatchGang(gang); refusal != nil {
		t.Fatalf("49 nodes are free: %v", refusal)
	}
	placement, _ := g.MatchGang(gang)
	if got := len(placement.Nodes); got != 40 {
		t.Errorf("of 40 or 50 pods, %d are placed on 49 free nodes", got)
	}
	if got := g.Left("node150")["core"]; got != 2 {
		t.Errorf("node150 has %d cores left, want 2", got)
	}
}

func TestGangsOnAGraphThatWasRead(t *testing.T) {
	g := cluster(t, 200)
	gang := Gang{Pods: Shape{Requests: Resources{"core": 4}}, Sizes: []int{200}, Topology: Topology{Level: "rack", Required: true}}
	placement, refusal := g.MatchGang(gang)
	if refusal != nil {
		t.Fatal(refusal)
	}
	for _, node := range placement.Nodes {
		if i, _ := g.Index(node); i >= 100 {
			t.Fatalf("%s is not in the rack of the others", node)
		}
	}
}
