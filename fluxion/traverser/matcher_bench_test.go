// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/fluxion/jobspec"
)

// cluster makes racks of 100 nodes of 8 cores each.
func cluster(tb testing.TB, nodes int) *Graph {
	tb.Helper()
	b := newGraph()
	uniq := int64(0)
	add := func(parent int32, typeName string, id, rank int) int32 {
		v, err := b.addBelow(parent, vertexSpec{
			Type: typeName, Basename: typeName, Name: fmt.Sprint(typeName, id), ID: int64(id), UniqID: uniq, Rank: int64(rank), Size: 1,
		})
		if err != nil {
			tb.Fatal(err)
		}
		uniq++
		return v
	}
	root := add(none, "cluster", 0, -1)
	rack := none
	for n := range nodes {
		if n%100 == 0 {
			rack = add(root, "rack", n/100, -1)
		}
		node := add(rack, "node", n, n)
		for c := range 8 {
			add(node, "core", c, n)
		}
	}
	return b
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

// BenchmarkMatch allocates whole nodes. Once half of the nodes are allocated, it cancels
// the oldest job first. p50-ms is the time of a match alone.
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
	b.Helper()
	m, err := NewMatcher(cluster(b, nodes), Options{Policy: policy})
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
		elapsed := stopwatch()
		if _, err := m.Match(Allocate, spec, id, 0); err != nil {
			b.Fatal(err)
		}
		times = append(times, elapsed())
		id++
	}
	reportMedian(b, times)
}

// BenchmarkMatchRefused requests more than is free of 10,000 nodes, and more than any node
// has.
func BenchmarkMatchRefused(b *testing.B) {
	for _, policy := range policyNames {
		m, err := NewMatcher(cluster(b, 10000), Options{Policy: policy})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := m.Match(Allocate, nodeSlots(b, 9950), 1, 0); err != nil {
			b.Fatal(err)
		}
		requests := map[string]struct {
			op   Op
			spec *jobspec.Jobspec
			want error
		}{
			"refused": {Allocate, nodeSlots(b, 64), ErrBusy},
			"never":   {Satisfiability, nodeSlots(b, 10001), ErrUnsatisfiable},
			"never-so-large": {Satisfiability, parseJobspec(b, `{"version": 1, "resources": [{"type": "slot", "count": 64, "label": "default",
				"with": [{"type": "node", "count": 1, "with": [{"type": "core", "count": 9}]}]}],
				"tasks": [{"command": ["app"], "slot": "default", "count": {"per_slot": 1}}], "attributes": {}}`), ErrUnsatisfiable},
		}
		for name, request := range requests {
			b.Run(fmt.Sprintf("%s/%s", name, policy), func(b *testing.B) {
				var times []time.Duration
				for b.Loop() {
					elapsed := stopwatch()
					_, err := m.Match(request.op, request.spec, 2, 0)
					times = append(times, elapsed())
					if !errors.Is(err, request.want) {
						b.Fatal(err)
					}
				}
				reportMedian(b, times)
			})
		}
	}
}

// BenchmarkMatchReserve reserves 64 of 1,000 nodes. 60 jobs hold all of the nodes, and end
// one after the other.
func BenchmarkMatchReserve(b *testing.B) {
	for _, policy := range policyNames {
		b.Run(policy, func(b *testing.B) {
			m, err := NewMatcher(cluster(b, 1000), Options{Policy: policy})
			if err != nil {
				b.Fatal(err)
			}
			for id := range uint64(60) {
				spec := *nodeSlots(b, 1000/60+1)
				if id >= 40 {
					spec = *nodeSlots(b, 16)
				}
				spec.Duration = int64(1000 + id*10)
				if _, err := m.Match(Allocate, &spec, id+1, 0); err != nil {
					b.Fatal(err)
				}
			}
			spec := nodeSlots(b, 64)
			var times []time.Duration
			for b.Loop() {
				elapsed := stopwatch()
				match, err := m.Match(AllocateOrElseReserve, spec, 100, 0)
				times = append(times, elapsed())
				if err != nil || !match.Reserved {
					b.Fatalf("it was not reserved: %v", err)
				}
				if err := m.Cancel(100); err != nil {
					b.Fatal(err)
				}
			}
			reportMedian(b, times)
		})
	}
}

// stopwatch starts to measure time.
func stopwatch() func() time.Duration {
	start := time.Now()                                      //nolint:forbidigo // a benchmark measures time
	return func() time.Duration { return time.Since(start) } //nolint:forbidigo // a benchmark measures time
}

func reportMedian(b *testing.B, times []time.Duration) {
	b.Helper()
	slices.Sort(times)
	b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1e6, "p50-ms")
	b.ReportMetric(float64(times[len(times)*95/100].Nanoseconds())/1e6, "p95-ms")
}

// BenchmarkReadJGF reads 100,000 nodes of 8 cores: 901,001 vertices. live-MiB is the memory
// of the graph. sys-MiB is the peak memory of the process, without the text.
func BenchmarkReadJGF(b *testing.B) {
	m, err := NewMatcher(cluster(b, 100000), Options{})
	if err != nil {
		b.Fatal(err)
	}
	text, err := m.Find("status=up", JGF)
	if err != nil {
		b.Fatal(err)
	}
	runtime.GC()
	debug.FreeOSMemory()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var g *Graph
	for b.Loop() {
		if g, err = ReadJGF(strings.NewReader(text)); err != nil {
			b.Fatal(err)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/(1<<20), "live-MiB")
	b.ReportMetric(float64(after.HeapSys-after.HeapReleased)/(1<<20)-float64(len(text))/(1<<20), "sys-MiB")
	runtime.KeepAlive(g)
	runtime.KeepAlive(text)
}
