// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// racks are nodes of 8 cores in racks of 100, with the resources that Kubernetes has.
func racks(n int) []Node {
	nodes := make([]Node, n)
	for i := range nodes {
		nodes[i] = Node{
			Name:     fmt.Sprintf("n%d", i),
			Capacity: Resources{CPU: 8000, Memory: 32 << 30, EphemeralStorage: 100 << 30, Pods: 110},
			Topology: []string{fmt.Sprintf("z%d", i/1000), fmt.Sprintf("r%d", i/100)},
		}
	}
	return nodes
}

func racksGraph(b *testing.B, n int) *Graph {
	b.Helper()
	g, err := NewGraph(racks(n), "zone", "rack")
	if err != nil {
		b.Fatal(err)
	}
	return g
}

// halfBusy takes a core of each of about half of the nodes.
func halfBusy(g *Graph) {
	random := rand.New(rand.NewPCG(1, 1))
	for i := range g.Len() {
		if random.IntN(2) == 0 {
			g.Occupy(g.Name(i), broker(1))
		}
	}
}

// wholeNodes is a gang that takes whole nodes.
func wholeNodes(sizes ...int) Gang {
	return Gang{Job: "gang", Pods: Shape{Requests: Resources{CPU: 8000, Memory: 1 << 30, Pods: 1}}, Sizes: sizes}
}

func BenchmarkGang(b *testing.B) {
	type benchmark struct {
		name string
		gang Gang
		// prepare changes the graph or the gang.
		prepare func(g *Graph, gang *Gang)
		refused bool
	}
	busy := func(g *Graph, _ *Gang) { halfBusy(g) }
	infeasible := func(g *Graph, gang *Gang) {
		for r := range 3 {
			exclusion := Exclusion{Reason: fmt.Sprintf("tainted %d", r)}
			for i := r; i < g.Len(); i += 7 {
				exclusion.Nodes.Set(i)
			}
			gang.Pods.Infeasible = append(gang.Pods.Infeasible, exclusion)
		}
	}
	with := func(gang Gang, change func(*Gang)) Gang { change(&gang); return gang }
	benchmarks := func(n int) []benchmark {
		return []benchmark{
			{name: "64", gang: wholeNodes(64)},
			{name: "64-half-busy", gang: wholeNodes(64), prepare: busy},
			{name: "64-infeasible", gang: wholeNodes(64), prepare: infeasible},
			{name: "64-distinct", gang: with(wholeNodes(64), func(g *Gang) { g.Distinct = true; g.Pods.Requests = broker(2) }), prepare: busy},
			{name: "64-spread", gang: with(wholeNodes(64), func(g *Gang) { g.Policy = Spread }), prepare: busy},
			{name: "64-one-rack", gang: with(wholeNodes(64), func(g *Gang) { g.Topology = Topology{"rack", true} })},
			{name: "one-fifth", gang: wholeNodes(n / 5)},
			{name: "one-fifth-half-busy", gang: wholeNodes(n / 5), prepare: busy},
			{name: "refused", gang: wholeNodes(n*3/4, n), prepare: busy, refused: true},
			{name: "never", gang: wholeNodes(n + 1), refused: true},
		}
	}
	for _, n := range []int{1000, 10000, 100000} {
		for _, bench := range benchmarks(n) {
			b.Run(fmt.Sprintf("%d/%s", n, bench.name), func(b *testing.B) {
				g, gang := racksGraph(b, n), bench.gang
				if bench.prepare != nil {
					bench.prepare(g, &gang)
				}
				b.ReportAllocs()
				for b.Loop() {
					if _, refusal := g.MatchGang(gang); (refusal != nil) != bench.refused {
						b.Fatal(refusal)
					}
				}
			})
		}
		b.Run(fmt.Sprintf("%d/explain", n), func(b *testing.B) {
			g := racksGraph(b, n)
			halfBusy(g)
			b.ReportAllocs()
			for b.Loop() {
				if g.Explain(wholeNodes(n)).String() == "" {
					b.Fatal("it was not refused")
				}
			}
		})
		b.Run(fmt.Sprintf("%d/take-and-release", n), func(b *testing.B) {
			g, gang := racksGraph(b, n), wholeNodes(64)
			b.ReportAllocs()
			for b.Loop() {
				placement, _ := g.MatchGang(gang)
				if g.Take(gang, placement) != nil || g.Release(gang.Job) != nil {
					b.Fatal("it was not taken")
				}
			}
		})
		b.Run(fmt.Sprintf("%d/snapshot-and-take", n), func(b *testing.B) {
			g, gang := racksGraph(b, n), wholeNodes(64)
			placement, _ := g.MatchGang(gang)
			b.ReportAllocs()
			for b.Loop() {
				if g.Snapshot().Take(gang, placement) != nil {
					b.Fatal("it was not taken")
				}
			}
		})
		b.Run(fmt.Sprintf("%d/full-explain", n), func(b *testing.B) {
			g, gang := fullGraph(b, n)
			b.ReportAllocs()
			for b.Loop() {
				g.Explain(gang)
			}
		})
	}
}

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// fullGraph is a graph without room, and a gang that waits. 60 jobs, and jobs of one node
// each, hold all nodes.
func fullGraph(b *testing.B, n int) (*Graph, Gang) {
	b.Helper()
	g := racksGraph(b, n)
	random := rand.New(rand.NewPCG(1, 2))
	for i := 0; ; i++ {
		gang := wholeNodes(n/60, 1)
		gang.Job = fmt.Sprintf("job-%d", i)
		gang.End = noon.Add(time.Duration(1+random.IntN(1000)) * time.Minute)
		placement, refusal := g.MatchGang(gang)
		if refusal != nil {
			return g, wholeNodes(64)
		}
		if err := g.Take(gang, placement); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkNewGraph(b *testing.B) {
	for _, n := range []int{1000, 100000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			nodes := racks(n)
			rand.New(rand.NewPCG(1, 1)).Shuffle(n, func(i, j int) { nodes[i], nodes[j] = nodes[j], nodes[i] })
			b.ReportAllocs()
			for b.Loop() {
				if _, err := NewGraph(nodes, "zone", "rack"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// broker is what a broker of n cores takes.
func broker(n int64) Resources { return Resources{CPU: n * 1000, Pods: 1} }
