// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// fuzzedGraph is a cluster of two racks of two nodes, with pools of different sizes.
const fuzzedGraph = `{"graph": {"nodes": [
	{"id": "0", "metadata": {"type": "cluster", "id": 0, "paths": {"containment": "/c0"}, "name": "c0"}},
	{"id": "1", "metadata": {"type": "rack", "id": 0, "paths": {"containment": "/c0/rack0"}}},
	{"id": "2", "metadata": {"type": "node", "id": 0, "rank": 0, "name": "n0", "properties": {"fast": ""}, "paths": {"containment": "/c0/rack0/n0"}}},
	{"id": "3", "metadata": {"type": "core", "id": 0, "rank": 0, "paths": {"containment": "/c0/rack0/n0/core0"}}},
	{"id": "4", "metadata": {"type": "core", "id": 1, "rank": 0, "paths": {"containment": "/c0/rack0/n0/core1"}}},
	{"id": "5", "metadata": {"type": "node", "id": 1, "rank": 1, "name": "n1", "paths": {"containment": "/c0/rack0/n1"}}},
	{"id": "6", "metadata": {"type": "core", "id": 0, "rank": 1, "paths": {"containment": "/c0/rack0/n1/core0"}}},
	{"id": "7", "metadata": {"type": "memory", "id": 0, "rank": 1, "size": 4, "paths": {"containment": "/c0/rack0/n1/memory0"}}},
	{"id": "8", "metadata": {"type": "rack", "id": 1, "paths": {"containment": "/c0/rack1"}}},
	{"id": "9", "metadata": {"type": "node", "id": 2, "rank": 2, "name": "n2", "paths": {"containment": "/c0/rack1/n2"}}},
	{"id": "10", "metadata": {"type": "core", "id": 0, "rank": 2, "paths": {"containment": "/c0/rack1/n2/core0"}}},
	{"id": "11", "metadata": {"type": "gpu", "id": 0, "rank": 2, "paths": {"containment": "/c0/rack1/n2/gpu0"}}},
	{"id": "12", "metadata": {"type": "node", "id": 3, "rank": 3, "name": "n3", "status": 1, "paths": {"containment": "/c0/rack1/n3"}}},
	{"id": "13", "metadata": {"type": "core", "id": 0, "rank": 3, "paths": {"containment": "/c0/rack1/n3/core0"}}}],
	"edges": [{"source": "0", "target": "1"}, {"source": "1", "target": "2"}, {"source": "2", "target": "3"}, {"source": "2", "target": "4"},
	{"source": "1", "target": "5"}, {"source": "5", "target": "6"}, {"source": "5", "target": "7"}, {"source": "0", "target": "8"},
	{"source": "8", "target": "9"}, {"source": "9", "target": "10"}, {"source": "9", "target": "11"}, {"source": "8", "target": "12"}, {"source": "12", "target": "13"}]}}`

// peculiarGraph has a rack whose path does not end in its name, which Fluxion's defaults make.
const peculiarGraph = `{"graph": {"nodes": [
	{"id": "0", "metadata": {"type": "cluster", "name": "c0", "paths": {"containment": "/c0"}}},
	{"id": "1", "metadata": {"type": "rack", "paths": {"containment": "/c0/rackA"}}},
	{"id": "2", "metadata": {"type": "node", "rank": 0, "name": "n0", "paths": {"containment": "/c0/rackA/n0"}}},
	{"id": "3", "metadata": {"type": "core", "rank": 0, "name": "core0", "paths": {"containment": "/c0/rackA/n0/core0"}}}],
	"edges": [{"source": "0", "target": "1"}, {"source": "1", "target": "2"}, {"source": "2", "target": "3"}]}}`

// fuzzedJobspecs are requests, some of which the graph can satisfy.
var fuzzedJobspecs = func() []string {
	var out []string
	for _, resources := range []string{
		`{"type": "slot", "count": 1, "label": "s", "with": [{"type": "core", "count": 1}]}`,
		`{"type": "slot", "count": {"min": 1, "max": 4, "operator": "+", "operand": 1}, "label": "s", "with": [{"type": "core", "count": 1}]}`,
		`{"type": "slot", "count": {"min": 1}, "label": "s", "with": [{"type": "node", "count": 1}]}`,
		`{"type": "node", "count": 2, "exclusive": true, "with": [{"type": "slot", "count": 1, "label": "s", "with": [{"type": "core", "count": 1}]}]}`,
		`{"type": "rack", "count": 1, "exclusive": true, "with": [{"type": "slot", "count": 1, "label": "s", "with": [{"type": "node", "count": 1}]}]}`,
		`{"type": "slot", "count": 1, "label": "s", "with": [{"type": "core", "count": 1}, {"type": "memory", "count": 2}]}`,
		`{"type": "node", "count": 1, "with": [{"type": "slot", "count": 1, "label": "s", "with": [{"type": "core", "count": 1}, {"type": "gpu", "count": 1}]}]}`,
		`{"type": "cluster", "count": 1, "with": [{"type": "slot", "count": 1, "label": "s", "with": [{"type": "rack", "count": 1}]}]}`,
	} {
		for _, duration := range []int{0, 100, 250} {
			out = append(out, fmt.Sprintf(`{"version": 1, "resources": [%s], "attributes": {"system": {"duration": %d}},
				"tasks": [{"command": ["a"], "slot": "s", "count": {"per_slot": 1}}]}`, resources, duration))
		}
	}
	return out
}()

// fuzzedMatcher has jobs 1 and 2 on the graph, and a reservation, job 3.
func fuzzedMatcher(tb testing.TB, options Options) *Matcher {
	tb.Helper()
	graph, err := ReadJGF(strings.NewReader(fuzzedGraph))
	if err != nil {
		tb.Fatal(err)
	}
	m, err := NewMatcher(graph, options)
	if err != nil {
		tb.Fatal(err)
	}
	for i, spec := range []string{fuzzedJobspecs[10], fuzzedJobspecs[1], fuzzedJobspecs[13]} {
		if _, err := m.Match(AllocateOrElseReserve, parseJobspec(tb, spec), uint64(i+1), 0); err != nil {
			tb.Fatal(err)
		}
	}
	if reserved, err := m.IsReserved(3); err != nil || !reserved {
		tb.Fatalf("Job 3 is reserved: %v, %v; it should be a reservation", reserved, err)
	}
	return m
}

// state is all that Find tells about a matcher.
func state(tb testing.TB, m *Matcher) string {
	tb.Helper()
	expressions := []string{"status=up", "status=down", "sched-now=allocated", "sched-future=reserved", "agfilter=true"}
	for _, id := range slices.Sorted(maps.Keys(m.jobs)) {
		for _, predicate := range []string{"jobid-tag", "jobid-span", "jobid-alloc", "jobid-reserved"} {
			expressions = append(expressions, fmt.Sprintf("%s=%d", predicate, id))
		}
	}
	var out strings.Builder
	for _, expression := range expressions {
		found, err := m.Find(expression, PrettySimple)
		if expression == "agfilter=true" {
			found, err = m.Find(expression, JGF)
		}
		if err != nil {
			found = err.Error()
		}
		out.WriteString(expression + ":\n" + found + "\n")
	}
	return out.String()
}

// checkBooks fails if the books do not balance, now or after all jobs are cancelled.
func checkBooks(t *testing.T, m *Matcher) {
	t.Helper()
	if problem := imbalance(m); problem != "" {
		t.Fatal(problem)
	}
	if up := m.graph.upBelow(m.graph.root); m.graph.nodesUp != up {
		t.Fatalf("%d nodes are up, and %d are counted", up, m.graph.nodesUp)
	}
	empty := m.Clone()
	for id := range m.jobs {
		if err := empty.Cancel(id); err != nil {
			t.Fatal(err)
		}
	}
	for v := range empty.graph.vertices {
		x := &empty.graph.vertices[v]
		if x.plan != none && len(empty.graph.plans[x.plan].points) > 0 || x.allocations+x.reservations+x.running+x.filtered != 0 {
			t.Fatalf("Something is held of %s when all jobs are cancelled", empty.graph.path(int32(v)))
		}
	}
	if problem := imbalance(m); problem != "" {
		t.Fatalf("Cancelling jobs of a clone changes the original: %s", problem)
	}
}

// A graph that was read has no more vertices than its text has bytes. Jobspecs match on it,
// and what Find writes of it reads as the same graph.
func FuzzReadJGF(f *testing.F) {
	f.Add(fuzzedGraph)
	f.Add(`{"graph": {"edges": [{"source": "a", "target": "b", "metadata": {"subsystem": "containment"}}], "nodes": [
		{"id": "a", "metadata": {"type": "cluster", "uniq_id": 7, "paths": {"containment": "/x", "power": "/p/x"}}},
		{"id": "b", "metadata": {"type": "node", "uniq_id": -8, "name": "n\u00fc\"3", "basename": "", "size": 9, "paths": {"containment": "/y/z"}}}]}}`)
	f.Add(peculiarGraph)
	f.Fuzz(func(t *testing.T, text string) {
		graph, err := ReadJGF(strings.NewReader(text))
		if err != nil {
			return
		}
		for v := range graph.vertices {
			if path := graph.path(int32(v)); graph.find(path, int64(graph.vertices[v].rank)) == none {
				t.Fatalf("No vertex of rank %d is found at its path %s", graph.vertices[v].rank, path)
			}
		}
		if len(graph.vertices) > len(text) {
			t.Errorf("%d vertices of %d bytes", len(graph.vertices), len(text))
		}
		if !uniqueIDs(graph) {
			return // the unique ids are the ids in JGF
		}
		m, err := NewMatcher(graph, Options{Policy: "lonodex"})
		if err != nil {
			t.Fatal(err)
		}
		before := findAll(t, m)
		for i, spec := range fuzzedJobspecs {
			if _, err := m.Match(AllocateOrElseReserve, parseJobspec(t, spec), uint64(i+1), 0); err == nil {
				checkBooks(t, m)
			}
		}
		if before == "" {
			return // the graph is a root alone
		}
		again, err := ReadJGF(strings.NewReader(before))
		if err != nil {
			t.Fatalf("%v; reading %s", err, before)
		}
		if m, err = NewMatcher(again, Options{}); err != nil {
			t.Fatal(err)
		}
		if after := findAll(t, m); after != before {
			t.Fatalf("Read again it is\n%s, not\n%s", after, before)
		}
	})
}

func uniqueIDs(g *Graph) bool {
	seen := map[int64]bool{}
	for v := range g.vertices {
		seen[g.vertices[v].uniq] = true
	}
	return len(seen) == len(g.vertices)
}

// findAll is the whole graph as JGF; "" for a root alone.
func findAll(t *testing.T, m *Matcher) string {
	t.Helper()
	found, err := m.Find("status=up or status=down", JGF)
	if err != nil && len(m.graph.vertices) > 1 {
		t.Fatal(err)
	}
	return found
}

// Find either writes vertices with all vertices above them, or refuses the expression. It
// changes nothing.
func FuzzFind(f *testing.F) {
	for _, expression := range []string{
		"status=up", "(sched-now=allocated or sched-future=reserved) and status=up", "names=n[0-2],n3 and property=fast",
		"agfilter=true and jobid-span=1", "((jobid-alloc=2)) or jobid-tag=0x3", "sched-now=free or agfilter=f", "jobid-reserved=3",
	} {
		f.Add(expression)
	}
	f.Fuzz(func(t *testing.T, expression string) {
		m := fuzzedMatcher(t, Options{Policy: "low"})
		before := state(t, m)
		found, err := m.Find(expression, JGF)
		if err == nil && found != "" && !strings.Contains(expression, "agfilter") {
			if _, err := ReadJGF(strings.NewReader(found)); err != nil {
				t.Fatalf("%v; reading %s", err, found)
			}
		}
		for _, format := range []Format{Simple, PrettySimple, JGFShorthand, RLite, RV1, RV1NoSched} {
			if _, other := m.Find(expression, format); errors.Is(other, ErrInvalid) != errors.Is(err, ErrInvalid) {
				t.Fatalf("In JGF the error is %v, in %s %v", err, format, other)
			}
		}
		if after := state(t, m); after != before {
			t.Fatalf("It is now\n%s, not\n%s", after, before)
		}
	})
}

// fuzzedParts are Rs, or parts of them.
var fuzzedParts = []string{
	`{"version": 1, "execution": {"R_lite": [{"rank": "0-1", "children": {"core": "0"}}, {"rank": "2", "children": {"core": "0", "gpu": "0"}}]}}`,
	`{"graph": {"nodes": [{"id": "3", "metadata": {"type": "core", "id": 0, "rank": 0, "exclusive": true, "paths": {"containment": "/c0/rack0/n0/core0"}}}], "edges": []}}`,
	`{"version": 1, "scheduling": {"graph": {"nodes": [{"id": "2", "metadata": {"type": "node", "id": 0, "rank": 0, "name": "n0", "exclusive": true,
		"paths": {"containment": "/c0/rack0/n0"}}}], "edges": []}}}`,
	`{"graph": {"nodes": [{"id": "10", "metadata": {"type": "core", "id": 0, "rank": 2, "exclusive": true, "paths": {"containment": "/c0/rack1/n2/core0"}}},
		{"id": "9", "metadata": {"type": "node", "id": 2, "rank": 2, "name": "n2", "paths": {"containment": "/c0/rack1/n2"}}},
		{"id": "8", "metadata": {"type": "rack", "id": 1, "paths": {"containment": "/c0/rack1"}}},
		{"id": "0", "metadata": {"type": "cluster", "id": 0, "name": "c0", "paths": {"containment": "/c0"}}}],
		"edges": [{"source": "9", "target": "10"}, {"source": "8", "target": "9"}, {"source": "0", "target": "8"}]}}`,
}

// fuzzedFormat is the format of a number, for reading an R.
func fuzzedFormat(n uint8) string { return []string{"jgf", "rv1exec", "jgf_shorthand"}[n%3] }

// What a job gives back is free. A refusal changes nothing.
func FuzzPartialCancel(f *testing.F) {
	for _, part := range fuzzedParts {
		f.Add(part, uint8(0))
		f.Add(part, uint8(1))
	}
	f.Fuzz(func(t *testing.T, part string, how uint8) {
		m := fuzzedMatcher(t, Options{Policy: "low", PruneFilters: []string{"", "ALL:core,ALL:memory", "node:core"}[how/16%3]})
		before := state(t, m)
		id := uint64(how / 4 % 4)
		full, err := m.PartialCancel(id, fuzzedFormat(how), part)
		if after := state(t, m); err != nil && after != before {
			t.Fatalf("After %v it is\n%s, not\n%s", err, after, before)
		}
		if gone := m.jobs[id] == nil; err == nil && full != gone {
			t.Fatalf("PartialCancel says that the job is gone: %v, but it is: %v", full, gone)
		}
		checkBooks(t, m)
	})
}

// A job that is put back has what was free. A refusal changes nothing.
func FuzzUpdate(f *testing.F) {
	for _, part := range fuzzedParts {
		f.Add(part, uint8(0), int64(0), int64(100))
		f.Add(part, uint8(1), int64(50), int64(1))
		f.Add(part, uint8(2), int64(1000), graphEnd)
	}
	f.Fuzz(func(t *testing.T, r string, how uint8, at, duration int64) {
		m := fuzzedMatcher(t, Options{Policy: "first"})
		if how >= 16 {
			if err := errors.Join(m.Cancel(1), m.Cancel(2)); err != nil {
				t.Fatal(err)
			}
		}
		before := state(t, m)
		id := uint64(how / 4 % 4 * 3)
		match, err := m.Update(id, fuzzedFormat(how), r, at, duration)
		switch {
		case err != nil:
			if after := state(t, m); after != before {
				t.Fatalf("After %v it is\n%s, not\n%s", err, after, before)
			}
		case len(m.jobs[id].holds) == 0:
			t.Fatal("The job has nothing")
		default:
			if _, err := match.Encode(PrettySimple); err != nil {
				t.Fatal(err)
			}
		}
		checkBooks(t, m)
	})
}

// After every operation, in whatever order, the books balance, clones are independent, and
// a match by index is the same as one by traversal.
func FuzzSession(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20})
	f.Add([]byte("match, cancel, find, and so on"))
	f.Fuzz(func(t *testing.T, operations []byte) {
		s := &fuzzedSession{given: map[uint64]string{}, bytes: operations[:min(len(operations), 200)]}
		policies := slices.Sorted(maps.Keys(policies))
		s.m = fuzzedMatcher(t, Options{Policy: policies[s.next(len(policies))], PruneFilters: []string{"", "ALL:core", "node:core,rack:memory"}[s.next(3)]})
		for s.id = 10; len(s.bytes) > 0; s.id++ {
			s.step(t)
			checkBooks(t, s.m)
		}
		if s.original != nil {
			checkBooks(t, s.original)
			if after := state(t, s.original); after != s.cloned {
				t.Fatalf("What was done to a clone changes the original to\n%s, not\n%s", after, s.cloned)
			}
		}
	})
}

// fuzzedSession does the operations that bytes stand for.
type fuzzedSession struct {
	m  *Matcher
	id uint64
	// m is a clone of original, whose state was cloned then.
	original *Matcher
	cloned   string
	// given is the JGF of the jobs that still have all that they were given.
	given map[uint64]string
	bytes []byte
}

// next is a number below n.
func (s *fuzzedSession) next(n int) int {
	if len(s.bytes) == 0 {
		return 0
	}
	b := s.bytes[0]
	s.bytes = s.bytes[1:]
	return int(b) % n
}

func (s *fuzzedSession) path() string {
	return s.m.graph.path(int32(s.next(len(s.m.graph.vertices))))
}

func (s *fuzzedSession) job() uint64 {
	ids := append(slices.Sorted(maps.Keys(s.m.jobs)), 9)
	return ids[s.next(len(ids))]
}

func (s *fuzzedSession) step(t *testing.T) {
	t.Helper()
	m := s.m
	switch s.next(12) {
	case 0:
		_ = m.Cancel(s.job())
	case 1:
		_ = m.SetStatus(s.path(), s.next(2) == 0)
	case 2:
		clear(s.given)
		_ = m.RemoveRanks([]int64{int64(s.next(6))})
	case 3:
		id := s.job()
		delete(s.given, id)
		_, _ = m.PartialCancel(id, "rv1exec", fmt.Sprintf(`{"version": 1, "execution": {"R_lite": [{"rank": "%d"}]}}`, s.next(6)))
	case 4:
		s.updateAgain(t)
	case 5:
		clear(s.given)
		_ = m.Remove(s.path())
	case 6:
		clear(s.given) // the jobs keep the cores of a node, and the node gets more
		if err := m.Attach(strings.NewReader(fuzzedGraph)); err != nil && !strings.Contains(err.Error(), "root") {
			t.Fatal(err)
		}
	case 7:
		if s.original == nil {
			s.original, s.cloned = m, state(t, m)
			s.m = m.Clone()
		}
	default:
		s.match(t)
	}
}

// updateAgain cancels a job, and gives it the same resources by Update.
func (s *fuzzedSession) updateAgain(t *testing.T) {
	t.Helper()
	id := s.job()
	job, r := s.m.jobs[id], s.given[id]
	if job == nil || job.reserved || r == "" {
		return
	}
	before := state(t, s.m)
	if err := s.m.Cancel(id); err != nil {
		t.Fatal(err)
	}
	if _, err := s.m.Update(id, "jgf", r, job.from, job.until-job.from); err != nil {
		t.Fatalf("%v; updating to %s", err, r)
	}
	if after := state(t, s.m); after != before {
		t.Fatalf("Updated it is\n%s, not\n%s", after, before)
	}
}

func (s *fuzzedSession) match(t *testing.T) {
	t.Helper()
	text := fuzzedJobspecs[s.next(len(fuzzedJobspecs))]
	op := []Op{Allocate, AllocateOrElseReserve, AllocateWithSatisfiability, Satisfiability, WithoutAllocating}[s.next(5)]
	spec := parseJobspec(t, text)
	walker := s.m.Clone()
	walker.countVisits = true
	want, wantErr := walker.Match(op, spec, s.id, 0)
	got, err := s.m.Match(op, spec, s.id, 0)
	if (err == nil) != (wantErr == nil) || errors.Is(err, ErrUnsatisfiable) != errors.Is(wantErr, ErrUnsatisfiable) {
		t.Fatalf("Operation %d of %s is %v by the index, %v by the traversal", op, text, err, wantErr)
	}
	if err != nil {
		return
	}
	a, err := got.Encode(Simple)
	b, wantErr := want.Encode(Simple)
	if err != nil || wantErr != nil || a != b || got.At != want.At {
		t.Fatalf("Operation %d of %s is at %d, %v:\n%s, by the traversal at %d, %v:\n%s", op, text, got.At, err, a, want.At, wantErr, b)
	}
	if s.m.jobs[s.id] != nil {
		s.given[s.id], _ = got.Encode(JGF) // a root alone has no JGF
	}
}
