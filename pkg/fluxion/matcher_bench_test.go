// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package fluxion

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion/jobspec"
)

// cluster makes racks of 100 nodes of some cores each.
func cluster(tb testing.TB, nodes, cores int) *Graph {
	tb.Helper()
	b := newBuilder()
	uniq := int64(0)
	add := func(parent int, typeName string, id, rank int) int {
		v, err := b.add(parent, VertexSpec{
			Type: typeName, Basename: typeName, Name: fmt.Sprint(typeName, id), ID: int64(id), UniqID: uniq, Rank: int64(rank), Size: 1,
		})
		if err != nil {
			tb.Fatal(err)
		}
		uniq++
		return v
	}
	root := add(-1, "cluster", 0, -1)
	rack := 0
	for n := range nodes {
		if n%100 == 0 {
			rack = add(root, "rack", n/100, -1)
		}
		node := add(rack, "node", n, n)
		for c := range cores {
			add(node, "core", c, n)
		}
	}
	g, err := b.graph()
	if err != nil {
		tb.Fatal(err)
	}
	return g
}

func nodeSlots(tb testing.TB, n int) *jobspec.Jobspec {
	tb.Helper()
	return parseJobspec(tb, fmt.Sprintf(`{"version": 1, "resources": [{"type": "slot", "count": %d, "label": "default",
		"with": [{"type": "node", "count": 1}]}],
		"tasks": [{"command": ["app"], "slot": "default", "count": {"per_slot": 1}}],
		"attributes": {"system": {"duration": 3600}}}`, n))
}

func parseJobspec(tb testing.TB, text string) *jobspec.Jobspec {
	tb.Helper()
	spec, err := jobspec.Parse([]byte(text))
	if err != nil {
		tb.Fatal(err)
	}
	return spec
}

var policyNames = []string{"first", "firstnodex", "high", "low", "hinode", "lonode", "hinodex", "lonodex", "locality", "variation"}

// BenchmarkMatch gives whole nodes the way of Fluxion, and takes the oldest job back
// where half of the nodes are given; p50-ms is the time of a match alone.
func BenchmarkMatch(b *testing.B) {
	for _, size := range []struct{ nodes, request int }{{1000, 64}, {10000, 64}, {100000, 64}, {10000, 2000}} {
		for _, policy := range policyNames {
			b.Run(fmt.Sprintf("%d/%d/%s", size.nodes, size.request, policy), func(b *testing.B) {
				benchmarkMatch(b, size.nodes, size.request, policy)
			})
		}
	}
}

func benchmarkMatch(b *testing.B, nodes, request int, policy string) {
	m, err := NewMatcher(cluster(b, nodes, 8), Options{Policy: policy})
	if err != nil {
		b.Fatal(err)
	}
	spec := nodeSlots(b, request)
	var times []time.Duration
	id, oldest := uint64(1), uint64(1)
	for held := 0; b.Loop(); held += request {
		for held+request > nodes/2 && held > 0 {
			if err := m.Cancel(oldest); err != nil {
				b.Fatal(err)
			}
			oldest++
			held -= request
		}
		start := time.Now()
		if _, err := m.Match(Allocate, spec, id, 0); err != nil {
			b.Fatal(err)
		}
		times = append(times, time.Since(start))
		id++
	}
	reportMedian(b, times)
}

func reportMedian(b *testing.B, times []time.Duration) {
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1e6, "p50-ms")
	b.ReportMetric(float64(times[len(times)*95/100].Nanoseconds())/1e6, "p95-ms")
}
