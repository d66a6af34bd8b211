// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package traverser

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// criterion reports whether a vertex fits. Criteria are joined from left to right: only
// parentheses give precedence.
type criterion func(m *Matcher, v int32, above states) bool

// states are the states of a vertex, or of a vertex above.
type states struct{ down, allocated, reserved bool }

// query is a parsed expression.
type query struct {
	criterion criterion
	// aggregates is true if the amounts of filters are wanted: of one job, or of all jobs
	// if job is 0.
	aggregates bool
	job        uint64
}

// Find writes the vertices that fit an expression, and the vertices above them. Predicates
// are status=up|down, sched-now=allocated|free, sched-future=reserved|free, jobid-alloc=ID,
// jobid-reserved=ID, jobid-span=ID, jobid-tag=ID, names=HOSTLIST, property=NAME, and
// agfilter=true, which adds the amounts of filters. They are joined by "and", "or" and
// parentheses.
func (m *Matcher) Find(expression string, format Format) (string, error) {
	q := &query{}
	var err error
	if q.criterion, err = q.parse(expression); err != nil {
		return "", fmt.Errorf("finding %q: %w: %w", expression, ErrInvalid, err)
	}
	w := &written{graph: m.graph, aggregates: map[int32]map[string]string{}}
	m.findBelow(q, m.graph.root, states{}, 1, w)
	return w.encode(format)
}

func (m *Matcher) findBelow(q *query, v int32, above states, depth int16, w *written) (found bool) {
	x := &m.graph.vertices[v]
	here := states{above.down || x.down, above.allocated || x.allocations > 0, above.reserved || x.reservations > 0}
	for c := x.first; c != none; c = m.graph.vertices[c].next {
		found = m.findBelow(q, c, here, depth+1, w) || found
	}
	if !q.criterion(m, v, here) && !found {
		return false
	}
	if q.aggregates {
		if w.aggregates[v] = m.aggregates(v, q.job); w.aggregates[v] == nil {
			return false // nor is the vertex above written, unless for something else
		}
	}
	w.emissions = append(w.emissions, emission{vertex: v, depth: depth, exclusive: true, needs: x.size})
	return true
}

// aggregates are the amounts of a vertex's filter, of one job or of all. They are nil if
// the vertex has no filter, or the filter does not count the job.
func (m *Matcher) aggregates(v int32, id uint64) map[string]string {
	x := &m.graph.vertices[v]
	if x.totals == none {
		return nil
	}
	filter := m.graph.filters[x.kind]
	used := make([]int64, len(filter))
	if id != 0 {
		j := m.jobs[id]
		if j == nil || j.holdOf(v) == nil || j.holdOf(v).counts == none {
			return nil
		}
		copy(used, j.counts[j.holdOf(v).counts:])
	} else if x.plan != none {
		for i := range filter {
			used[i] = m.graph.plans[x.plan].now(filterDims+len(filter), filterDims+i, 0)
		}
	}
	out := map[string]string{}
	for i, k := range filter {
		out[m.graph.kinds[k]] = fmt.Sprintf("used:%d, total:%d", used[i], m.graph.totals[int(x.totals)+i])
	}
	return out
}

// parse reads an expression.
func (q *query) parse(text string) (criterion, error) {
	text = strings.Trim(text, " \t")
	left, rest, err := q.term(text)
	for err == nil && rest != "" {
		if !strings.HasPrefix(rest, " ") && !strings.HasPrefix(rest, "\t") {
			return nil, fmt.Errorf("a space is missing before %q", rest)
		}
		rest = strings.TrimLeft(rest, " \t")
		word, after := cutWord(rest)
		if word == "and" || word == "or" {
			rest = strings.TrimLeft(after, " \t")
		}
		var right criterion
		if right, rest, err = q.term(rest); err == nil {
			left = join(left, right, word == "or")
		}
	}
	return left, err
}

func join(left, right criterion, either bool) criterion {
	return func(m *Matcher, v int32, s states) bool {
		if either {
			return left(m, v, s) || right(m, v, s)
		}
		return left(m, v, s) && right(m, v, s)
	}
}

func cutWord(text string) (word, rest string) {
	if i := strings.IndexAny(text, " \t"); i >= 0 {
		return text[:i], text[i:]
	}
	return text, ""
}

// maxNesting bounds the depth of parentheses.
const maxNesting = 1000

// term reads a predicate, or an expression in parentheses.
func (q *query) term(text string) (criterion, string, error) {
	if !strings.HasPrefix(text, "(") {
		word, rest := cutWord(text)
		predicate, err := q.predicate(word)
		return predicate, rest, err
	}
	depth := 0
	for i, r := range text {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		}
		if depth > maxNesting {
			return nil, "", fmt.Errorf("parentheses are nested more than %d deep", maxNesting)
		}
		if depth == 0 {
			inner, err := q.parse(text[1:i])
			return inner, text[i+1:], err
		}
	}
	return nil, "", fmt.Errorf("a parenthesis is not closed in %q", text)
}

// predicate reads name=value.
func (q *query) predicate(text string) (criterion, error) {
	name, value, found := strings.Cut(text, "=")
	if !found {
		return nil, fmt.Errorf("%q is not name=value", text)
	}
	lower := strings.ToLower(value)
	switch name {
	case "jobid-alloc", "jobid-reserved", "jobid-span", "jobid-tag":
		return q.jobPredicate(name, value)
	case "agfilter":
		yes := lower == "true" || lower == "t"
		if !yes && lower != "false" && lower != "f" {
			return nil, fmt.Errorf("%s is true or false, not %q", name, value)
		}
		q.aggregates = yes
		return func(*Matcher, int32, states) bool { return yes }, nil
	case "names":
		return namesPredicate(value)
	case "property":
		if lower == "" {
			return nil, fmt.Errorf("%s needs a name", name)
		}
		return func(m *Matcher, v int32, _ states) bool {
			_, has := m.graph.properties[v][lower]
			return has
		}, nil
	}
	if predicate, known := statePredicates[name+"="+lower]; known {
		return func(_ *Matcher, _ int32, s states) bool { return predicate(s) }, nil
	}
	return nil, fmt.Errorf("there is no predicate %q", text)
}

// namesPredicate compares names as given, and, as Fluxion does, in lower case.
func namesPredicate(hostList string) (criterion, error) {
	hosts, err := hostlist.Decode(hostList, maxHosts)
	if err != nil {
		return nil, err
	}
	names := make(map[string]bool, len(hosts))
	for _, host := range hosts {
		names[host], names[strings.ToLower(host)] = true, true
	}
	return func(m *Matcher, v int32, _ states) bool { return names[m.graph.vertices[v].name] }, nil
}

// maxHosts bounds the names in a host list.
const maxHosts = 1 << 20

var statePredicates = map[string]func(states) bool{
	"status=down":           func(s states) bool { return s.down },
	"status=up":             func(s states) bool { return !s.down },
	"sched-now=allocated":   func(s states) bool { return s.allocated },
	"sched-now=free":        func(s states) bool { return !s.allocated },
	"sched-future=reserved": func(s states) bool { return s.reserved },
	"sched-future=free":     func(s states) bool { return !s.reserved },
}

func (q *query) jobPredicate(name, value string) (criterion, error) {
	digits, base := value, 10
	if hex, isHex := strings.CutPrefix(value, "0x"); isHex {
		digits, base = hex, 16
	}
	id, err := strconv.ParseUint(digits, base, 64)
	if err != nil {
		return nil, fmt.Errorf("%s needs the number of a job, not %q", name, value)
	}
	q.job = id
	return func(m *Matcher, v int32, _ states) bool {
		j := m.jobs[id]
		if j == nil {
			return false
		}
		h := j.holdOf(v)
		switch {
		case h == nil:
			return false
		case name == "jobid-alloc":
			return h.pool && !j.reserved
		case name == "jobid-reserved":
			return h.pool && j.reserved
		case name == "jobid-span":
			return h.counts != none
		}
		return true
	}, nil
}
