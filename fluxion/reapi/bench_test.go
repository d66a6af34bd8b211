// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/fluxion/jobspec"
	"github.com/flux-elastic/flux-elastic/fluxion/reapi"
	"github.com/flux-elastic/flux-elastic/fluxion/traverser"
)

// racks is the JGF of a cluster of racks of 100 nodes of 8 cores each.
func racks(nodes int) string {
	var vertices, edges []string
	add := func(parent int, typeName, path string, id, rank int) (int, string) {
		v := len(vertices)
		path += fmt.Sprintf("/%s%d", typeName, id)
		vertices = append(vertices, fmt.Sprintf(
			`{"id": "%[1]d", "metadata": {"type": %[2]q, "name": "%[2]s%[3]d", "id": %[3]d, "rank": %[4]d, `+
				`"paths": {"containment": %[5]q}}}`,
			v, typeName, id, rank, path))
		if parent >= 0 {
			edges = append(edges, fmt.Sprintf(`{"source": "%d", "target": "%d"}`, parent, v))
		}
		return v, path
	}
	root, rootPath := add(-1, "cluster", "", 0, -1)
	rack, rackPath := 0, ""
	for n := range nodes {
		if n%100 == 0 {
			rack, rackPath = add(root, "rack", rootPath, n/100, -1)
		}
		node, nodePath := add(rack, "node", rackPath, n, n)
		for c := range 8 {
			add(node, "core", nodePath, c, n)
		}
	}
	return `{"graph": {"nodes": [` + strings.Join(vertices, ", ") + `], "edges": [` + strings.Join(edges, ", ") + `]}}`
}

func wholeNodes(n int) string {
	return fmt.Sprintf(`{"version": 1,
		"resources": [{"type": "slot", "count": %d, "label": "default", "with": [{"type": "node", "count": 1}]}],
		"tasks": [{"command": ["app"], "slot": "default", "count": {"per_slot": 1}}],
		"attributes": {"system": {"duration": 3600}}}`, n)
}

// matcher gives nodes to a job, and takes them back. A match reads the text of a jobspec and
// writes the text of an R.
type matcher interface {
	match(spec string, reserve bool) (id uint64, err error)
	cancel(id uint64) error
}

type ours struct {
	matcher *traverser.Matcher
	last    uint64
}

func (o *ours) match(text string, reserve bool) (uint64, error) {
	spec, err := jobspec.Parse([]byte(text))
	if err != nil {
		return 0, err
	}
	op := traverser.Allocate
	if reserve {
		op = traverser.AllocateOrElseReserve
	}
	o.last++
	match, err := o.matcher.Match(op, spec, o.last, 0)
	if err != nil {
		return 0, err
	}
	_, err = match.Encode(traverser.JGF)
	return o.last, err
}

func (o *ours) cancel(id uint64) error { return o.matcher.Cancel(id) }

type theirs struct{ client *reapi.Client }

func (t *theirs) match(text string, reserve bool) (uint64, error) {
	op := reapi.MatchAllocate
	if reserve {
		op = reapi.MatchAllocateOrElseReserve
	}
	a, err := t.client.Match(op, text)
	return a.JobID, err
}

func (t *theirs) cancel(id uint64) error { return t.client.Cancel(id, false) }

// BenchmarkSideBySide measures the traverser beside the library that FLUXION_LIBRARY names, or
// alone. Each fills a graph with jobs and cancels all of them, again and again. The metrics
// p50-ms and p95-ms are the times of one match. The metric times-ours is the library's p50-ms
// divided by the traverser's.
func BenchmarkSideBySide(b *testing.B) {
	for _, bench := range []struct {
		nodes, request, jobs int
		reserve              bool
		policies             []string
	}{
		{1000, 64, 15, false, []string{"first", "high", "lonode", "lonodex"}},
		{1000, 4, 240, false, []string{"first", "high"}},
		{1000, 64, 60, true, []string{"first", "high"}},
		{10000, 64, 150, false, []string{"first", "high"}},
		{10000, 2000, 4, false, []string{"first"}},
	} {
		graph := racks(bench.nodes)
		for _, policy := range bench.policies {
			name := fmt.Sprintf("%d-nodes/%d-jobs-of-%d/%s", bench.nodes, bench.jobs, bench.request, policy)
			if bench.reserve {
				name = strings.Replace(name, "jobs", "reservations", 1)
			}
			median := 0.0
			b.Run(name+"/ours", func(b *testing.B) {
				median = fill(b, newOurs(b, graph, policy), bench.request, bench.jobs, bench.reserve)
			})
			b.Run(name+"/fluxion", func(b *testing.B) {
				b.ReportMetric(fill(b, newTheirs(b, graph, policy), bench.request, bench.jobs, bench.reserve)/median, "times-ours")
			})
		}
	}
}

func newOurs(b *testing.B, graph, policy string) matcher {
	b.Helper()
	g, err := traverser.ReadJGF(strings.NewReader(graph))
	if err != nil {
		b.Fatal(err)
	}
	m, err := traverser.NewMatcher(g, traverser.Options{Policy: policy})
	if err != nil {
		b.Fatal(err)
	}
	return &ours{matcher: m}
}

func newTheirs(b *testing.B, graph, policy string) matcher {
	b.Helper()
	client, err := reapi.OpenOracle(b).NewClient()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(client.Destroy)
	options := fmt.Sprintf(`{"load_format": "jgf", "matcher_policy": %q, "match_format": "jgf", `+
		`"prune_filters": "ALL:core,ALL:node"}`, policy)
	if err := client.InitContext(graph, options); err != nil {
		b.Fatal(err)
	}
	return &theirs{client}
}

func fill(b *testing.B, m matcher, request, jobs int, reserve bool) (median float64) {
	b.Helper()
	spec := wholeNodes(request)
	var times []float64
	for b.Loop() {
		var ids []uint64
		for range jobs {
			start := time.Now() //nolint:forbidigo // a benchmark measures time
			id, err := m.match(spec, reserve)
			times = append(times, float64(time.Since(start))/1e6) //nolint:forbidigo // a benchmark measures time
			if err != nil {
				b.Fatal(err)
			}
			ids = append(ids, id)
		}
		for _, id := range ids {
			if err := m.cancel(id); err != nil {
				b.Fatal(err)
			}
		}
	}
	slices.Sort(times)
	median = times[len(times)/2]
	b.ReportMetric(0, "ns/op") // the time to fill a graph is of no interest
	b.ReportMetric(median, "p50-ms")
	b.ReportMetric(times[len(times)*95/100], "p95-ms")
	return median
}
