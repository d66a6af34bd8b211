// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapigraph

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/flux-elastic/flux-elastic/fluxion/reapi"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// lonode is the policy of most tests: one node after the other, in the order of the graph.
const lonode = "lonode"

func TestOpenSaysWhatIsMissing(t *testing.T) {
	if _, err := Open("/nowhere/libreapi_cli.so", lonode, nil); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "/nowhere/libreapi_cli.so") {
		t.Errorf("without a library: %v", err)
	}
	if _, err := Open("libc.so.6", lonode, nil); runtime.GOOS == "linux" && (!errors.Is(err, reapi.ErrUnsupported) || !strings.Contains(err.Error(), "is no libreapi_cli")) {
		t.Errorf("with another library: %v", err)
	}
	_, err := Open("libc.so.6", "lonodex", nil)
	if want := `the policy is "lonodex": it can be first, high, low, hinode, lonode, locality`; err == nil || err.Error() != want {
		t.Errorf("with a policy that takes whole nodes: %v", err)
	}
}

// TestFluxionChooses: it is Fluxion's policy by which nodes are chosen.
func TestFluxionChooses(t *testing.T) {
	cases := map[string]map[bool]string{ // by policy, and whether nodes are distinct
		"lonode": {false: "n0 n0", true: "n0 n1"},
		"low":    {false: "n0 n0", true: "n0 n1"},
		"hinode": {false: "n3 n3", true: "n2 n3"},
		"high":   {false: "n3 n3", true: "n2 n3"},
	}
	for policy, want := range cases {
		for distinct, want := range want {
			graph, err := fluxion.NewGraph(line(4))
			if err != nil {
				t.Fatal(err)
			}
			engine := openEngine(t, policy)
			engine.failed = func(err error) { t.Error(err) }
			placement, refusal := engine.MatchGang(graph, fluxion.Gang{Pods: shape(2), Sizes: []int{2}, Distinct: distinct})
			if got := strings.Join(placement.Nodes, " "); got != want {
				t.Errorf("policy %s, distinct %v: got %q (%v), want %q", policy, distinct, got, refusal, want)
			}
		}
	}
}

func TestWhereFluxionFailsTheGraphChooses(t *testing.T) {
	cases := map[string]struct {
		nodes  int
		policy string
		gang   fluxion.Gang
		want   string
	}{
		"the library refuses": {
			nodes: 3, policy: "best", gang: fluxion.Gang{Pods: shape(8), Sizes: []int{2}, Distinct: true},
			want: `letting Fluxion choose 2 nodes for job "job": fluxion: initialize: invalid: `,
		},
		"too large a graph": {
			nodes: 1000, policy: lonode, gang: fluxion.Gang{Pods: shape(1), Sizes: []int{20}},
			want: `letting Fluxion choose 20 nodes for job "job": it would take a graph of 21000 nodes and cores; the most is 20000`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			engine := openEngine(t, lonode)
			engine.policy = tc.policy
			var failed error
			engine.failed = func(err error) { failed = err }
			graph := benchGraph(t, tc.nodes)
			tc.gang.Job = "job"
			got, refusal := engine.MatchGang(graph, tc.gang)
			want, _ := graph.MatchGang(tc.gang)
			if refusal != nil || !slices.Equal(got.Nodes, want.Nodes) {
				t.Errorf("got %v (%v), want %v", got.Nodes, refusal, want.Nodes)
			}
			if failed == nil || !strings.HasPrefix(failed.Error(), tc.want) {
				t.Errorf("told of %v", failed)
			}
		})
	}
}

// TestMatchesKeepNoMemory: each match has a graph of its own, of 15 MiB here, which is
// freed.
func TestMatchesKeepNoMemory(t *testing.T) {
	engine := openEngine(t, lonode)
	graph := benchGraph(t, 149)
	before := resident(t)
	for range 50 {
		engine.MatchGang(graph, fluxion.Gang{Pods: shape(4), Sizes: []int{8}})
	}
	if grown := resident(t) - before; grown > 100<<20 {
		t.Errorf("50 matches have left %d MiB behind", grown>>20)
	}
}

// resident is the memory of the process, in bytes.
func resident(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Skip(err)
	}
	var size, pages int
	if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// benchGraph is nodes of 32 cores in racks of 100.
func benchGraph(tb testing.TB, n int) *fluxion.Graph {
	tb.Helper()
	nodes := line(n)
	for i := range nodes {
		nodes[i].Topology = []string{"z", fmt.Sprint("r", i/100)}
		nodes[i].Capacity[fluxion.CPU] = 32000
	}
	graph, err := fluxion.NewGraph(nodes, "zone", "rack")
	if err != nil {
		tb.Fatal(err)
	}
	return graph
}

func BenchmarkMatchGang(b *testing.B) {
	cases := map[string]fluxion.Gang{
		"64 distinct nodes":             {Pods: shape(32), Sizes: []int{64}, Distinct: true},
		"64 distinct nodes of one rack": {Pods: shape(32), Sizes: []int{64}, Distinct: true, Topology: fluxion.Topology{Level: "rack", Required: true}},
		"64 pods packed, 4 to a node":   {Pods: shape(8), Sizes: []int{64}},
		"16 pods packed, 32 to a node":  {Pods: shape(1), Sizes: []int{16}},
		"refused":                       {Pods: shape(33), Sizes: []int{64}},
	}
	for _, n := range []int{149, 1000} {
		for name, gang := range cases {
			graph := benchGraph(b, n)
			b.Run(fmt.Sprintf("%d nodes/%s/embedded", n, name), func(b *testing.B) {
				for b.Loop() {
					graph.MatchGang(gang)
				}
			})
			b.Run(fmt.Sprintf("%d nodes/%s/fluxion", n, name), func(b *testing.B) {
				engine := openEngine(b, lonode)
				for b.Loop() {
					engine.MatchGang(graph, gang)
				}
			})
		}
	}
}
