// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestIndexAgreesWithTraversal does the same random operations with the index and without.
func TestIndexAgreesWithTraversal(t *testing.T) {
	seeds := 1200
	if testing.Short() {
		seeds = 100
	}
	for seed := range seeds {
		l := newMatcherLife(t, uint64(seed))
		for step := range uint64(40) {
			if !l.step(step + 1) {
				return
			}
		}
		l.end()
	}
}

// matcherLife has two matchers, with which the same is done.
type matcherLife struct {
	t        *testing.T
	what     string
	rng      *rand.Rand
	matchers [2]*Matcher
	// whole is the graph at the start.
	whole string
	now   int64
	live  []uint64
	log   []string
}

func newMatcherLife(t *testing.T, seed uint64) *matcherLife {
	t.Helper()
	l := &matcherLife{t: t}
	for i := range l.matchers {
		l.rng = rand.New(rand.NewPCG(seed, 77))
		policy := policyNames[2+l.rng.IntN(8)] // without the policies that stop early, which use no index
		filters := []string{"ALL:core,ALL:node", "ALL:core", "ALL:node,ALL:memory", "rack:node,node:core,cluster:gpu"}[l.rng.IntN(4)]
		m, err := NewMatcher(randomGraph(t, l.rng), Options{Policy: policy, PruneFilters: filters, CountVisits: i == 1})
		if err != nil {
			t.Fatal(err)
		}
		l.matchers[i], l.what = m, fmt.Sprintf("seed %d, policy %s, filters %s", seed, policy, filters)
	}
	whole, err := l.matchers[0].Find("property=no-one-has or status=up", JGF)
	if err == nil {
		l.whole = whole
	}
	return l
}

// both does something with both matchers, and reports whether the results are equal.
func (l *matcherLife) both(what string, do func(m *Matcher) string) bool {
	l.t.Helper()
	first, second := do(l.matchers[0]), do(l.matchers[1])
	l.log = append(l.log, what+": "+first)
	if first != second {
		l.t.Errorf("%s: %s: %s by index, %s by traversal; after\n%s", l.what, what, first, second, strings.Join(l.log, "\n"))
	}
	return first == second
}

func (l *matcherLife) step(id uint64) bool {
	l.t.Helper()
	path := l.matchers[0].graph.path(int32(l.rng.IntN(len(l.matchers[0].graph.vertices))))
	job, number := uint64(0), l.rng.IntN(1000)
	if len(l.live) > 0 {
		job = l.live[l.rng.IntN(len(l.live))]
	}
	same := true
	switch l.rng.IntN(16) {
	case 0:
		l.now += int64(number % 150)
	case 1:
		same = l.both(fmt.Sprint("cancel ", job), func(m *Matcher) string { return fmt.Sprint(m.Cancel(job)) })
	case 2:
		r := fmt.Sprintf(`{"version": 1, "execution": {"R_lite": [{"rank": "%d", "children": {"core": "0"}}]}}`, number%6)
		same = l.both(fmt.Sprint("partial cancel ", job, " of ", r), func(m *Matcher) string { return fmt.Sprint(m.PartialCancel(job, "rv1exec", r)) })
	case 3:
		same = l.both("status "+path, func(m *Matcher) string { return fmt.Sprint(m.SetStatus(path, number%2 == 0)) })
	case 4:
		same = number%4 > 0 || l.both("remove "+path, func(m *Matcher) string { return fmt.Sprint(m.Remove(path)) })
	case 5:
		same = number%3 > 0 || l.whole == "" || l.both("attach", func(m *Matcher) string { return fmt.Sprint(m.Attach(strings.NewReader(l.whole))) })
	case 6:
		same = l.both("property of "+path, func(m *Matcher) string { return fmt.Sprint(m.SetProperty(path, "perf_class", fmt.Sprint(number%4))) })
	case 7:
		if number%5 == 0 {
			l.matchers = [2]*Matcher{l.matchers[0].Clone(), l.matchers[1].Clone()}
		}
	default:
		same = l.match(id, Op(number%6))
	}
	for _, m := range l.matchers {
		if problem := imbalance(m); problem != "" {
			l.t.Errorf("%s: %s; after\n%s", l.what, problem, strings.Join(l.log, "\n"))
			return false
		}
	}
	return same
}

func (l *matcherLife) match(id uint64, op Op) bool {
	l.t.Helper()
	spec := parseJobspec(l.t, randomJobspec(l.rng))
	same := l.both(fmt.Sprint("match ", id, " by ", op), func(m *Matcher) string {
		match, err := m.Match(op, spec, id, l.now)
		if err != nil {
			return err.Error()
		}
		text, err := match.Encode(Simple)
		return fmt.Sprint(match.At, match.Duration, match.Reserved, text, err)
	})
	if l.matchers[0].jobs[id] != nil {
		l.live = append(l.live, id)
	}
	return same
}

// end cancels all jobs, and checks that nothing is held then.
func (l *matcherLife) end() {
	l.t.Helper()
	for _, m := range l.matchers {
		for _, id := range l.live {
			if m.jobs[id] != nil {
				if err := m.Cancel(id); err != nil {
					l.t.Errorf("%s: %v", l.what, err)
				}
			}
		}
		for v := range m.graph.vertices {
			x := &m.graph.vertices[v]
			if x.plan != none && len(m.graph.plans[x.plan].points) > 0 || x.running != 0 || x.allocations != 0 || x.reservations != 0 || x.filtered != 0 {
				l.t.Errorf("%s: %s is held when all is cancelled; after\n%s", l.what, x.name, strings.Join(l.log, "\n"))
				return
			}
		}
		if up := m.graph.upBelow(m.graph.root); up != m.graph.nodesUp {
			l.t.Errorf("%s: %d nodes are up, not %d", l.what, up, m.graph.nodesUp)
		}
	}
}

// small is a rack of nodes of two cores and two GPUs.
func small(t *testing.T, nodes int) *Matcher {
	t.Helper()
	b := newGraph()
	add := func(parent int32, typeName string, id, rank int) int32 {
		v, err := b.addBelow(parent, vertexSpec{
			Type: typeName, Basename: typeName, Name: fmt.Sprint(typeName, id), ID: int64(id), UniqID: int64(len(b.vertices)), Rank: int64(rank), Size: 1,
		})
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	rack := add(add(none, "cluster", 0, -1), "rack", 0, -1)
	for n := range nodes {
		node := add(rack, "node", n, n)
		for i := range 2 {
			add(node, "core", i, n)
			add(node, "gpu", i, n)
		}
	}
	m, err := NewMatcher(b, Options{Policy: "low"})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func slots(n int, typeName string, each int) string {
	return fmt.Sprintf(`{"version": 1, "resources": [{"type": "slot", "count": %d, "label": "s", "with": [{"type": %q, "count": %d}]}],
		"tasks": [{"command": ["a"], "slot": "s", "count": {"per_slot": 1}}], "attributes": {"system": {"duration": 3600}}}`, n, typeName, each)
}

// encoded is the JGF of a match on a graph of its own.
func encoded(t *testing.T, m *Matcher, spec string) string {
	t.Helper()
	match, err := m.Match(WithoutAllocating, parseJobspec(t, spec), 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	text, err := match.Encode(JGF)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestWhatAJobHasStaysItsOwn(t *testing.T) {
	for name, disturb := range map[string]func(m *Matcher) error{
		"when another node is removed": func(m *Matcher) error { return m.Remove("/cluster0/rack0/node2") },
		"when a partial cancel names other ranks": func(m *Matcher) error {
			_, err := m.PartialCancel(1, "rv1exec", `{"version": 1, "execution": {"R_lite": [{"rank": "2", "children": {"core": "0"}}]}}`)
			if err == nil {
				return fmt.Errorf("it was not refused")
			}
			return nil
		},
	} {
		m := small(t, 3)
		if _, err := m.Match(Allocate, parseJobspec(t, slots(1, "gpu", 2)), 1, 0); err != nil {
			t.Fatal(err)
		}
		if err := disturb(m); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := m.Match(Allocate, parseJobspec(t, slots(2, "node", 1)), 2, 0); name == "when another node is removed" && err == nil {
			t.Errorf("%s: a node is given whole whose GPUs are another job's", name)
		}
	}
}

// What is below a vertex with a path of its own is found, and is not attached a second time.
func TestPeculiarPaths(t *testing.T) {
	graph, err := ReadJGF(strings.NewReader(peculiarGraph))
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewMatcher(graph, Options{})
	if err != nil {
		t.Fatal(err)
	}
	before := len(m.graph.vertices)
	if err := m.Attach(strings.NewReader(peculiarGraph)); err != nil || len(m.graph.vertices) != before {
		t.Errorf("%d vertices are %d after the same is attached: %v", before, len(m.graph.vertices), err)
	}
	if err := m.SetStatus("/c0/rackA/n0", false); err != nil {
		t.Error(err)
	}
}

// A partial cancel of what a job does not have leaves in use what the job has in use.
func TestRefusedPartialCancelChangesNothing(t *testing.T) {
	graph, err := ReadJGF(strings.NewReader(fuzzedGraph))
	if err != nil {
		t.Fatal(err)
	}
	m, err := NewMatcher(graph, Options{Policy: "low", PruneFilters: "ALL:node"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Match(Allocate, parseJobspec(t, slots(1, "core", 1)), 1, 0); err != nil {
		t.Fatal(err)
	}
	const core0 = `{"graph": {"nodes": [{"id": "3", "metadata": {"type": "core", "id": 0, "rank": 0, "paths": {"containment": "/c0/rack0/n0/core0"}}}], "edges": []}}`
	if full, err := m.PartialCancel(1, "jgf", core0); err != nil || full {
		t.Fatal(full, err) // its node has no filter and was not named
	}
	before := state(t, m)
	if _, err := m.PartialCancel(1, "rv1exec", `{"version": 1, "execution": {"R_lite": [{"rank": "0"}]}}`); err == nil {
		t.Error("the job has something there")
	}
	if after := state(t, m); after != before {
		t.Errorf("after a refusal it is\n%s, not\n%s", after, before)
	}
	checkBooks(t, m)
}

func TestUpdateRefusesWhatItCannotHold(t *testing.T) {
	node := `{"graph": {"nodes": [{"id": "2", "metadata": {"type": "node", "id": 0, "rank": 0, "exclusive": true,
		"paths": {"containment": "/cluster0/rack0/node0"}}}], "edges": []}}`
	for name, update := range map[string]func(m *Matcher) error{
		"what does not hang on the root": func(m *Matcher) error {
			_, err := m.Update(2, "jgf", node, 0, 3600)
			return err
		},
		"a node of which another job has a core": func(m *Matcher) error {
			_, err := m.Update(2, "jgf", encoded(t, small(t, 2), slots(1, "node", 1)), 0, 3600)
			return err
		},
		"the same in shorthand": func(m *Matcher) error {
			_, err := m.Update(2, "jgf_shorthand", encoded(t, small(t, 2), slots(1, "node", 1)), 0, 3600)
			return err
		},
		"nothing at all": func(m *Matcher) error {
			_, err := m.Update(2, "rv1exec", `{"version": 1, "execution": {"R_lite": []}}`, 0, 3600)
			return err
		},
		"a rank beyond all bounds": func(m *Matcher) error {
			_, err := m.Update(2, "rv1exec", `{"version": 1, "execution": {"R_lite": [{"rank": "4294967296", "children": {"core": "0"}}]}}`, 0, 3600)
			return err
		},
	} {
		m := small(t, 2)
		if _, err := m.Match(Allocate, parseJobspec(t, slots(1, "core", 1)), 1, 0); err != nil {
			t.Fatal(err)
		}
		if err := update(m); err == nil {
			t.Errorf("%s: it was taken", name)
		}
		if problem := imbalance(m); problem != "" || m.jobs[2] != nil {
			t.Errorf("%s: it left something: %s", name, problem)
		}
	}
}

func TestUpdateEndsWithTheGraph(t *testing.T) {
	m := small(t, 2)
	match, err := m.Update(1, "jgf", encoded(t, small(t, 2), slots(2, "node", 1)), 1, 1<<62)
	if err != nil || match.At+match.Duration != graphEnd {
		t.Fatalf("it ends at %d: %v", match.At+match.Duration, err)
	}
	if _, err := m.Match(AllocateOrElseReserve, parseJobspec(t, slots(2, "node", 1)), 2, 5); err == nil {
		t.Error("nothing is free to the end, but it was given")
	}
}

func TestGraphsWithPeculiarNamesAreRead(t *testing.T) {
	vertex := func(id, typeName, name string, rank int, path string) string {
		return fmt.Sprintf(`{"id": %q, "metadata": {"type": %q, "name": %q, "rank": %d, "paths": {"containment": %q}}}`, id, typeName, name, rank, path)
	}
	for name, vertices := range map[string][]string{
		"a switch in a switch": {
			vertex("0", "cluster", "c", -1, "/c"), vertex("1", "switch", "a", -1, "/c/a"), vertex("2", "switch", "b", -1, "/c/a/b"),
			vertex("3", "node", "n", 0, "/c/a/b/n"),
		},
		"nodes of one name and several ranks": {
			vertex("0", "cluster", "c", -1, "/c"), vertex("1", "rack", "r", -1, "/c/r"), vertex("2", "socket", "n", 0, "/c/r/n"), vertex("3", "node", "n", 1, "/c/r/n/n"),
		},
	} {
		edges := `{"source": "0", "target": "1"}, {"source": "1", "target": "2"}, {"source": "2", "target": "3"}`
		text := `{"graph": {"nodes": [` + strings.Join(vertices, ", ") + `], "edges": [` + edges + `]}}`
		if _, err := ReadJGF(strings.NewReader(text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
