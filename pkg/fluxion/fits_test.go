// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"errors"
	"fmt"
	"testing"
)

// twoRacks are two racks of two nodes. Each node has room for two pods, and one pod is on
// the first node.
func twoRacks(t *testing.T) *Graph {
	t.Helper()
	var nodes []Node
	for i := range 4 {
		nodes = append(nodes, Node{Name: fmt.Sprintf("n%d", i), Capacity: Resources{CPU: 2000}, Topology: []string{fmt.Sprint(i / 2)}})
	}
	g, err := NewGraph(nodes, "rack")
	if err != nil {
		t.Fatal(err)
	}
	g.Occupy("n0", Resources{CPU: 1000})
	return g
}

// Fits is the largest size at which a gang is given nodes.
func TestFitsIsTheLargestSize(t *testing.T) {
	g := twoRacks(t)
	pod := Shape{Requests: Resources{CPU: 1000}}
	rack := Topology{Level: "rack", Required: true}
	for name, tc := range map[string]struct {
		gang Gang
		want int
	}{
		"anywhere":           {Gang{Pods: pod}, 7},
		"distinct":           {Gang{Pods: pod, Distinct: true}, 7},
		"in one rack":        {Gang{Pods: pod, Topology: rack}, 4},
		"in none that is":    {Gang{Pods: pod, Topology: Topology{Level: "x", Required: true}}, 0},
		"too large for each": {Gang{Pods: Shape{Requests: Resources{CPU: 3000}}}, 0},
		"for nothing":        {Gang{}, unlimited},
	} {
		t.Run(name, func(t *testing.T) {
			if got := g.Fits(tc.gang); got != tc.want {
				t.Fatalf("%d fit, want %d", got, tc.want)
			}
			for size := 1; size <= 9; size++ {
				gang := tc.gang
				gang.Sizes = []int{size}
				if _, refusal := g.MatchGang(gang); (refusal == nil) != (size <= tc.want) {
					t.Errorf("of size %d: %v", size, refusal)
				}
			}
		})
	}
}

// Respecify tells where the pods of an adopted job can be. It does not change what its pods
// take.
func TestRespecify(t *testing.T) {
	g := twoRacks(t)
	adopted := Gang{Job: "j", Pods: Shape{Requests: Resources{CPU: 2000}}}
	if err := g.Adopt(adopted, Placement{Nodes: []string{"n1"}}); err != nil {
		t.Fatal(err)
	}
	before := g.Snapshot()
	told := Gang{Job: "other", Pods: Shape{Requests: Resources{CPU: 1}}, Topology: Topology{Level: "rack", Required: true}}
	if err := g.Respecify("j", told); err != nil {
		t.Fatal(err)
	}
	if pods, _, err := g.Grow("j", 1); len(pods) > 0 || err != nil {
		t.Errorf("it left its rack: %v, %v", pods, err)
	}
	if pods, _, err := before.Grow("j", 1); len(pods) != 1 || err != nil {
		t.Errorf("what was said of the graph was said of its snapshot: %v, %v", pods, err)
	}
	if err := g.Release("j"); err != nil || g.Left("n1")[CPU] != 2000 {
		t.Errorf("left is %v (%v)", g.Left("n1"), err)
	}
	if err := g.Respecify("j", told); !errors.Is(err, ErrNotFound) {
		t.Errorf("got %v", err)
	}
}
