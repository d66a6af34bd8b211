// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/flux-elastic/flux-elastic/fluxion/jobspec"
)

// twin is the naive twin of a matcher: it has no filters, no index and no timelines. It
// shares the graph of a Matcher, and reads the tree alone.
type twin struct {
	graph  *Graph
	policy policy
	spans  map[int32][]booking // by vertex
}

// booking is what a job has of a vertex during some time.
type booking struct {
	job         uint64
	from, until int64
	units       int64 // of its pool
	pool        bool
	reserved    bool
}

// twinSearch is one traversal of the twin.
type twinSearch struct {
	*twin
	from, until int64
	ever, now   bool
	constraint  *jobspec.Constraint
	marks       map[int32]mark
}

type mark struct {
	needs     int64
	exclusive bool
}

// candidate is a vertex, or a slot of several.
type candidate struct {
	score int64
	units int64
	marks map[int32]mark
	kind  string
}

func (w *twin) free(v int32, from, until int64) int64 {
	least := w.graph.vertices[v].size
	for _, at := range w.spans[v] {
		used := int64(0)
		for _, other := range w.spans[v] { // at the start of a booking, or of the window
			t := max(at.from, from)
			if t < min(at.until, until) && other.from <= t && t < other.until {
				used += other.units
			}
		}
		least = min(least, w.graph.vertices[v].size-used)
	}
	return least
}

func (w *twin) used(v int32, from, until int64) bool {
	return slices.ContainsFunc(w.spans[v], func(s booking) bool { return s.from < until && from < s.until })
}

// visit returns the candidates that v passes to its parent, and whether v is one itself.
func (s *twinSearch) visit(v int32, wanted []jobspec.Resource, pristine, exclusive bool, factor int64) (passed []candidate, units, score int64, x, ok bool) {
	t := s.graph.vertices[v]
	typeName := s.graph.kinds[t.kind]
	var resource, slot *jobspec.Resource
	same := 0
	for i := range wanted {
		switch wanted[i].Type {
		case typeName:
			same++
			resource = &wanted[i]
			for j := range resource.With {
				if resource.With[j].Type == "slot" {
					slot = &resource.With[j]
				}
			}
		case "slot":
			same++
			slot = &wanted[i]
		}
	}
	if same > 1 {
		return nil, 0, 0, false, false
	}
	x = exclusive || resource != nil && resource.Exclusive == jobspec.Yes
	if slot != nil && !s.hasAll(v, slot.With) {
		slot = nil
	}
	if resource == nil && slot == nil && !pristine {
		return nil, 0, 0, false, false
	}
	units = t.size
	if !s.ever {
		units = s.free(v, s.from, s.until)
	}
	blocked := t.down && !s.ever || units <= 0
	if t.kind == nodeKind && !s.constraint.Match(target{s.graph, v}) {
		blocked = true
	}
	if resource != nil {
		if x && resource.Exclusive == jobspec.No {
			blocked = true
		}
		if x && s.now && slices.ContainsFunc(s.spans[v], func(s booking) bool { return s.pool && !s.reserved }) {
			blocked = true
		}
		if x && !s.ever && s.used(v, s.from, s.until) {
			blocked = true
		}
	}
	if blocked {
		return nil, 0, 0, false, false
	}
	inner := factor + s.policy.factor(&t)
	var found []candidate
	switch {
	case slot != nil:
		found = s.slots(v, slot, inner)
	case resource != nil:
		found = s.children(v, resource.With, false, x, inner)
	default:
		found = s.children(v, wanted, true, x, inner)
	}
	if resource != nil && len(resource.With) > 0 {
		for i := range resource.With {
			if !s.choose(found, &resource.With[i], false) {
				return nil, 0, 0, false, false
			}
		}
		found = nil
	}
	return found, units, s.policy.score(s.graph, v, factor), x, true
}

func (s *twinSearch) hasAll(v int32, wanted []jobspec.Resource) bool {
	for i := range wanted {
		has := false
		for c := s.graph.vertices[v].first; c != none; c = s.graph.vertices[c].next {
			has = has || s.graph.kinds[s.graph.vertices[c].kind] == wanted[i].Type
		}
		if !has {
			return false
		}
	}
	return true
}

func (s *twinSearch) children(v int32, wanted []jobspec.Resource, pristine, exclusive bool, factor int64) []candidate {
	var found []candidate
	for c := s.graph.vertices[v].first; c != none; c = s.graph.vertices[c].next {
		passed, units, score, x, ok := s.visit(c, wanted, pristine, exclusive, factor)
		if !ok {
			continue
		}
		found = append(found, passed...)
		found = append(found, candidate{score, units, map[int32]mark{c: {units, x}}, s.graph.kinds[s.graph.vertices[c].kind]})
	}
	return found
}

// sorted are the candidates of a type, the best first.
func (s *twinSearch) sorted(found []candidate, typeName string, low bool) []candidate {
	var out []candidate
	for _, c := range found {
		if c.kind == typeName {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b candidate) int {
		if low {
			return cmp.Compare(a.score, b.score)
		}
		return cmp.Compare(b.score, a.score)
	})
	return out
}

func (s *twinSearch) slots(v int32, slot *jobspec.Resource, factor int64) []candidate {
	found := s.children(v, slot.With, false, true, factor)
	var out []candidate
	left := map[string][]candidate{}
	counts := map[string]uint32{}
	for i := range slot.With {
		r := &slot.With[i]
		left[r.Type] = s.sorted(found, r.Type, s.policy.order == lowFirst)
		total := uint32(0)
		for _, c := range left[r.Type] {
			total += uint32(c.units)
		}
		if counts[r.Type] = r.Count.Largest(total); counts[r.Type] == 0 {
			return nil
		}
	}
	for {
		made := candidate{matched, 1, map[int32]mark{}, "slot"}
		for i := range slot.With {
			r := &slot.With[i]
			for sum := int64(0); sum < int64(counts[r.Type]); {
				if len(left[r.Type]) == 0 {
					return out
				}
				c := &left[r.Type][0]
				left[r.Type] = left[r.Type][1:]
				for u, m := range c.marks {
					made.marks[u] = mark{m.needs, true}
				}
				made.score += c.score
				sum += c.units
			}
		}
		out = append(out, made)
	}
}

// choose marks the best candidates of a type.
func (s *twinSearch) choose(found []candidate, r *jobspec.Resource, top bool) bool {
	candidates := s.sorted(found, r.Type, s.policy.order == lowFirst || s.policy.order == classFirst)
	if top && s.policy.order == intervalFirst {
		candidates = s.byInterval(found, r.Type)
	}
	total := int64(0)
	for _, c := range candidates {
		total += c.units
	}
	n := int64(r.Count.Largest(uint32(total)))
	if n == 0 {
		return false
	}
	for _, c := range candidates {
		if n <= 0 {
			break
		}
		for v, m := range c.marks {
			s.marks[v] = m
			for p := s.graph.vertices[v].parent; top && p != none; p = s.graph.vertices[p].parent {
				if _, marked := s.marks[p]; !marked {
					s.marks[p] = mark{s.graph.vertices[p].size, false}
				}
			}
		}
		n -= c.units
	}
	return true
}

func (s *twinSearch) byInterval(found []candidate, typeName string) []candidate {
	var out []candidate
	scores := map[int64]bool{}
	for _, c := range found {
		if c.kind == typeName {
			out = append(out, c)
			scores[c.score] = true
		}
	}
	lowest := func(score int64) int64 {
		for scores[score-1] {
			score--
		}
		return score
	}
	slices.SortStableFunc(out, func(a, b candidate) int { return cmp.Compare(lowest(b.score), lowest(a.score)) })
	return out
}

// match returns the vertices of a match, and its time.
func (w *twin) match(op Op, spec *jobspec.Jobspec, now int64) (got map[int32]mark, at int64, ever bool) {
	duration := cmp.Or(spec.Duration, graphEnd)
	try := func(at int64, ever, now bool) map[int32]mark {
		s := &twinSearch{w, at, at + duration, ever, now, spec.Constraint, map[int32]mark{}}
		x := spec.Resources[0].Type == w.graph.kinds[w.graph.vertices[w.graph.root].kind] && spec.Resources[0].Exclusive == jobspec.Yes
		found, units, score, x, ok := s.visit(w.graph.root, spec.Resources, true, x, 0)
		if !ok {
			return nil
		}
		found = append(found, candidate{score, units, nil, w.graph.kinds[w.graph.vertices[w.graph.root].kind]})
		for i := range spec.Resources {
			if !s.choose(found, &spec.Resources[i], true) {
				return nil
			}
		}
		s.marks[w.graph.root] = mark{w.graph.vertices[w.graph.root].size, x}
		return w.emitted(s, spec)
	}
	incoherent := func(got map[int32]mark) bool { return got != nil && len(got) == 0 } // its slots are below a level that the request leaves out
	if got := try(now, false, true); got != nil && op != Satisfiability {
		if incoherent(got) {
			return nil, 0, true
		}
		return got, now, true
	}
	if op == AllocateOrElseReserve {
		times := map[int64]bool{}
		for _, spans := range w.spans {
			for _, s := range spans {
				times[s.from], times[s.until] = true, true
			}
		}
		var sorted []int64
		for at := range times {
			if at > now {
				sorted = append(sorted, at)
			}
		}
		slices.Sort(sorted)
		for _, at := range sorted {
			if got := try(at, false, false); got != nil {
				if incoherent(got) {
					return nil, 0, true
				}
				return got, at, true
			}
		}
	}
	return nil, 0, try(0, true, false) != nil
}

// emitted adds the vertices below exclusive types, and drops vertices that lead to none.
func (w *twin) emitted(s *twinSearch, spec *jobspec.Jobspec) map[int32]mark {
	whole := map[string]bool{"node": w.policy.nodeExclusive}
	var collect func([]jobspec.Resource)
	collect = func(resources []jobspec.Resource) {
		for i := range resources {
			whole[resources[i].Type] = whole[resources[i].Type] || resources[i].Exclusive == jobspec.Yes
			collect(resources[i].With)
		}
	}
	collect(spec.Resources)
	out := map[int32]mark{}
	var walk func(v int32, m mark, shadow bool) bool
	walk = func(v int32, m mark, shadow bool) bool {
		t := w.graph.vertices[v]
		shadow = shadow || whole[w.graph.kinds[t.kind]]
		if shadow {
			m.exclusive = true
		}
		leads := m.exclusive
		for c := t.first; c != none; c = w.graph.vertices[c].next {
			below, marked := s.marks[c]
			if shadow {
				below, marked = mark{w.graph.vertices[c].size, true}, true
			}
			if marked && walk(c, below, shadow) {
				leads = true
			}
		}
		if leads {
			out[v] = m
		}
		return leads
	}
	walk(w.graph.root, s.marks[w.graph.root], false)
	return out
}

func (w *twin) take(id uint64, got map[int32]mark, from, duration int64, reserved bool) {
	for v, m := range got {
		units := m.needs
		if !m.exclusive {
			units = 0
		}
		w.spans[v] = append(w.spans[v], booking{id, from, from + duration, units, m.exclusive, reserved})
	}
}

func (w *twin) cancel(id uint64) {
	for v := range w.spans {
		w.spans[v] = slices.DeleteFunc(w.spans[v], func(s booking) bool { return s.job == id })
	}
}

// TestAgreesWithTwin does random operations on random graphs, with the matcher and with its
// twin.
func TestAgreesWithTwin(t *testing.T) {
	seeds := 3000
	if testing.Short() {
		seeds = 150
	}
	matches := 0
	for seed := range seeds {
		rng := rand.New(rand.NewPCG(uint64(seed), 1))
		names := []string{"high", "low", "hinode", "lonode", "hinodex", "lonodex", "locality", "variation"}
		policy := names[rng.IntN(len(names))]
		filters := []string{"ALL:core,ALL:node", "ALL:core", "ALL:node,ALL:memory", "rack:node,node:core,cluster:gpu"}[rng.IntN(4)]
		m, err := NewMatcher(randomGraph(t, rng), Options{Policy: policy, PruneFilters: filters, CountVisits: rng.IntN(4) == 0})
		if err != nil {
			t.Fatal(err)
		}
		matches += compareWithTwin(t, rng, m, fmt.Sprintf("seed %d, policy %s, filters %s", seed, policy, filters))
	}
	t.Logf("%d matches compared", matches)
}

func compareWithTwin(t *testing.T, rng *rand.Rand, m *Matcher, what string) int {
	t.Helper()
	w := &twin{graph: m.graph, policy: m.policy, spans: map[int32][]booking{}}
	var live []uint64
	matches := 0
	for step := range uint64(40) {
		id := step + 1
		switch {
		case rng.IntN(5) == 0 && len(live) > 0:
			i := rng.IntN(len(live))
			if err := m.Cancel(live[i]); err != nil {
				t.Fatalf("%s: step %d: %v", what, step, err)
			}
			w.cancel(live[i])
			live = slices.Delete(live, i, i+1)
		case rng.IntN(12) == 0:
			v := int32(rng.IntN(len(m.graph.vertices)))
			if err := m.SetStatus(m.graph.path(v), rng.IntN(2) == 0); err != nil {
				t.Fatalf("%s: step %d: %v", what, step, err)
			}
		default:
			matches++
			op := []Op{Allocate, AllocateOrElseReserve, AllocateWithSatisfiability, Satisfiability, WithoutAllocating}[rng.IntN(5)]
			text := randomJobspec(rng)
			spec := parseJobspec(t, text)
			want, at, ever := w.match(op, spec, 0)
			match, err := m.Match(op, spec, id, 0)
			if problem := differ(m, op, match, err, want, at, ever); problem != "" {
				t.Fatalf("%s: step %d, operation %d of %s: %s", what, step, op, text, problem)
			}
			if err == nil && op != Satisfiability && op != WithoutAllocating {
				w.take(id, want, at, match.Duration, match.Reserved)
				live = append(live, id)
			}
		}
		if problem := imbalance(m); problem != "" {
			t.Fatalf("%s: after step %d: %s", what, step, problem)
		}
	}
	for _, id := range live {
		if err := m.Cancel(id); err != nil {
			t.Fatal(err)
		}
	}
	for i := range m.graph.plans {
		if len(m.graph.plans[i].points) > 0 {
			t.Fatalf("%s: something is held when all is cancelled", what)
		}
	}
	return matches
}

// differ tells how a match differs from what the twin wants; "" if it does not.
func differ(m *Matcher, op Op, match *Match, err error, want map[int32]mark, at int64, ever bool) string {
	switch {
	case op == Satisfiability:
		if ever != (err == nil) {
			return fmt.Sprintf("satisfiable is %v, error %v", ever, err)
		}
		return ""
	case err != nil:
		if want != nil {
			return fmt.Sprintf("%v, but it fits at %d: %v", err, at, want)
		}
		// A request for more nodes than are up, or allowed, is refused early.
		if never := errors.Is(err, ErrUnsatisfiable); never && op != AllocateWithSatisfiability && ever {
			return "it is not unsatisfiable"
		}
		return ""
	case want == nil:
		return "it should not fit"
	case match.At != at:
		return fmt.Sprintf("it starts at %d, not at %d", match.At, at)
	}
	got := map[int32]mark{}
	for _, e := range match.emissions {
		got[e.vertex] = mark{e.needs, e.exclusive}
	}
	if len(got) != len(match.emissions) {
		return "a vertex is told twice"
	}
	for v := range m.graph.vertices {
		v := int32(v)
		if got[v] != want[v] {
			return fmt.Sprintf("of %s it gets %v, not %v", m.graph.path(v), got[v], want[v])
		}
	}
	return ""
}

// imbalance tells where the timelines differ from what the jobs hold; "" if they do not. So
// nothing is given twice, and all that was given back is free.
func imbalance(m *Matcher) string {
	held := map[int32]map[uint64]int{}
	for id, j := range m.jobs {
		for i, h := range j.holds {
			if h.gone {
				continue
			}
			if held[h.vertex] == nil {
				held[h.vertex] = map[uint64]int{}
			}
			if _, twice := held[h.vertex][id]; twice {
				return fmt.Sprintf("job %d holds %s twice", id, m.graph.path(h.vertex))
			}
			held[h.vertex][id] = i
		}
	}
	for v := range m.graph.vertices {
		x := &m.graph.vertices[v]
		dims := m.graph.dims(x)
		var plan timeline
		if x.plan != none {
			plan = m.graph.plans[x.plan]
		}
		for _, p := range plan.points {
			want := make([]int64, dims)
			for id, i := range held[int32(v)] {
				if j := m.jobs[id]; j.from <= p.at && p.at < j.until {
					for d, amount := range m.amounts(j, &j.holds[i]) {
						want[d] += amount
					}
				}
			}
			got := plan.used[plan.search(p.at)*dims:][:dims]
			if !slices.Equal(got, want) {
				return fmt.Sprintf("%s has %v in use at %d, its jobs %v", m.graph.path(int32(v)), got, p.at, want)
			}
			if got[poolDim] > x.size {
				return fmt.Sprintf("%s is given twice at %d", m.graph.path(int32(v)), p.at)
			}
		}
		if len(plan.points) == 0 && len(held[int32(v)]) > 0 {
			return fmt.Sprintf("%s is held, and nothing planned", m.graph.path(int32(v)))
		}
	}
	return ""
}

func randomGraph(t *testing.T, rng *rand.Rand) *Graph {
	t.Helper()
	b := newGraph()
	uniq := int64(0)
	counters := map[string]int64{}
	cpus := rng.IntN(2) == 0
	local, sockets, uneven := rng.IntN(3) == 0, rng.IntN(2) == 0, rng.IntN(3) == 0
	add := func(parent int32, typeName string, nth, rank, size int64) int32 {
		id := counters[typeName]
		counters[typeName]++
		if local {
			id = nth
		}
		spec := vertexSpec{
			Type: typeName, Basename: typeName, Name: fmt.Sprint(typeName, id), ID: id, UniqID: uniq, Rank: rank, Size: size,
			Down: rng.IntN(25) == 0,
		}
		if typeName == "node" {
			spec.Properties = map[string]string{"perf_class": fmt.Sprint(rng.IntN(4))}
			if rng.IntN(2) == 0 {
				spec.Properties["fast"] = ""
			}
		}
		v, err := b.addBelow(parent, spec)
		if err != nil {
			t.Fatal(err)
		}
		uniq++
		return v
	}
	inside := func(parent int32, rank int64) {
		for i := range 1 + rng.Int64N(4) {
			add(parent, "core", i, rank, 1)
		}
		for i := range rng.Int64N(4) {
			size := int64(4)
			if uneven {
				size = 1 + rng.Int64N(4)
			}
			add(parent, "memory", i, rank, size)
		}
		for i := range rng.Int64N(2) {
			add(parent, "gpu", i, rank, 1)
		}
		if cpus {
			for i := range 1 + rng.Int64N(2) {
				add(parent, "cpu", i, rank, 1+rng.Int64N(9))
			}
		}
	}
	root := add(none, "cluster", 0, -1, 1)
	rank := int64(0)
	for i := range 1 + rng.Int64N(3) {
		rack := add(root, "rack", i, -1, 1)
		for k := range 1 + rng.Int64N(4) {
			node := add(rack, "node", k, rank, 1)
			parents := []int32{node}
			if sockets {
				parents = nil
				for l := range 1 + rng.Int64N(2) {
					parents = append(parents, add(node, "socket", l, rank, 1))
				}
			}
			for _, parent := range parents {
				inside(parent, rank)
			}
			rank++
		}
	}
	return b
}

func randomJobspec(rng *rand.Rand) string {
	count := func(most int) string {
		low := 1 + rng.IntN(most)
		switch rng.IntN(6) {
		case 0:
			return fmt.Sprintf(`{"min": %d}`, low)
		case 1:
			return fmt.Sprintf(`{"min": %d, "max": %d, "operator": "+", "operand": %d}`, low, low+rng.IntN(5), 1+rng.IntN(3))
		case 2:
			return fmt.Sprintf(`{"min": %d, "max": %d, "operator": "*", "operand": 2}`, low, low*4)
		}
		return fmt.Sprint(low)
	}
	exclusive := func() string { return []string{"", `, "exclusive": true`, ""}[rng.IntN(3)] }
	slot := func(with string) string {
		return fmt.Sprintf(`{"type": "slot", "count": %s, "label": "default", "with": [%s]}`, count(4), with)
	}
	of := func(typeName, with string) string {
		text := fmt.Sprintf(`{"type": %q, "count": %s%s`, typeName, count(3), exclusive())
		if with != "" {
			text += `, "with": [` + with + `]`
		}
		return text + "}"
	}
	leaf := func() string {
		text := fmt.Sprintf(`{"type": "core", "count": %s}`, count(3))
		if rng.IntN(2) == 0 {
			text += fmt.Sprintf(`, {"type": "memory", "count": %d}`, 1+rng.IntN(6))
		}
		if rng.IntN(4) == 0 {
			text += `, {"type": "gpu", "count": 1}`
		}
		if rng.IntN(3) == 0 {
			text += fmt.Sprintf(`, {"type": "cpu", "count": %s}`, count(6))
		}
		return text
	}
	oneNode := fmt.Sprintf(`{"type": "node", "count": 1%s}`, []string{"", `, "with": [{"type": "core", "count": 2}]`, `, "with": [{"type": "socket", "count": 1}]`}[rng.IntN(3)])
	resources := []func() string{
		func() string { return slot(leaf()) },
		func() string { return slot(oneNode) },
		func() string { return slot(of("node", "")) },
		func() string { return slot(`{"type": "core", "count": 1}`) },
		func() string { return of("node", slot(leaf())) },
		func() string { return of("node", of("socket", slot(leaf()))) },
		func() string { return of("rack", of("node", slot(leaf()))) },
		func() string { return of("rack", slot(oneNode)) },
		func() string { return of("socket", slot(leaf())) },
		func() string { return slot(of("rack", "")) },
		func() string { return of("cluster", slot(oneNode)) },
		func() string { return slot(of("cpu", "")) },
		func() string { return of("node", of("cpu", "")) },
		func() string { return of("cpu", "") },
	}[rng.IntN(14)]()
	constraint := []string{"", "", `, "constraints": {"properties": ["fast"]}`, `, "constraints": {"not": [{"ranks": ["1-2"]}]}`}[rng.IntN(4)]
	return fmt.Sprintf(`{"version": 1, "resources": [%s], "tasks": [{"command": ["app"], "slot": "default", "count": {"per_slot": 1}}],
		"attributes": {"system": {"duration": %d%s}}}`, resources, 100*(1+rng.IntN(3)), constraint)
}
