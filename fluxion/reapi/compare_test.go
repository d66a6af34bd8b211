// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapi_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/flux-elastic/flux-elastic/fluxion/reapi"
	"github.com/flux-elastic/flux-elastic/fluxion/traverser"
)

// TestLibrary does the same random steps on a random graph with Fluxion's library and with
// package traverser. Both answer the same, byte for byte.
func TestLibrary(t *testing.T) {
	oracle := reapi.OpenOracle(t)
	seeds := uint64(1500)
	if testing.Short() {
		seeds = 100
	}
	compared := map[string]int{}
	for seed := range seeds {
		r := newRandom(seed)
		l := life{oracle: oracle, graph: r.graph(), options: r.options()}
		for range 40 {
			l.steps = append(l.steps, r.step())
		}
		if problem := l.compare(compared); problem != "" {
			t.Fatalf("seed %d: %s", seed, l.shrink())
		}
	}
	t.Logf("Compared: %v", compared)
}

// deviations are the differences that the traverser has on purpose. After a deviation that
// ends the life, the two are in different states.
//
// The steps avoid everything on which the library crashes, hangs or goes on with wrong
// counts. These functions say how:
//   - clone, for matches in a clone;
//   - attach and remove, for changes of the graph where jobs are;
//   - setStatus and add, for nodes that go up or down twice, or are down from the start;
//   - partialCancel, for parts that the library does not give back completely, and match,
//     for requests for racks after a partial cancel;
//   - graph, for types of which only some vertices have children;
//   - nodes, for requests that leave out a level in the middle.
var deviations = []struct {
	why     string
	accepts func(d difference) bool
	ends    bool
}{
	{
		"the library knows a type that this graph does not have, because another graph of the process has had the type",
		func(d difference) bool {
			return d.ours == "invalid, never" && slices.Contains([]string{"busy", "never", "invalid"}, d.theirs)
		},
		false,
	},
	{
		"the library cannot write JGF of the root alone, and says that nothing was found",
		func(d difference) bool { return strings.Contains(d.ours, "only the root") && d.theirs == "not found" },
		false,
	},
	{
		"the library's planner looks for a later time only at the ends of jobs that have the first type of the root's " +
			"filter: it misses jobs of which no filter counts anything, and most jobs of which a part was given back",
		func(d difference) bool {
			at, _, _ := strings.Cut(d.ours, ", reserved")
			return slices.ContainsFunc(slices.Collect(maps.Values(d.jobs)), func(j held) bool {
				return (!d.counts(j) || j.partly) && strings.HasSuffix(at, fmt.Sprint(" at ", j.at+j.duration))
			})
		},
		true,
	},
}

// difference is a step of which the two have said different things.
type difference struct {
	kind, ours, theirs string
	jobs               map[uint64]held
	prune              string
}

// counts reports whether the root's filter counts anything of a job. Filters always count
// the types of leaves.
func (d difference) counts(j held) bool {
	var r document
	if err := json.Unmarshal([]byte(j.r), &r); err != nil {
		panic(err) // the traverser wrote this text
	}
	return slices.ContainsFunc(r.Graph.Nodes, func(v vertex) bool {
		kind := v.Metadata.Type
		return slices.Contains([]string{"core", "memory", "gpu"}, kind) || strings.Contains(d.prune, "ALL:"+kind)
	})
}

// known is the deviation that explains a difference; "" if there is none.
func (d difference) known() (why string, ends bool) {
	for _, deviation := range deviations {
		if deviation.accepts(d) {
			return deviation.why, deviation.ends
		}
	}
	return "", false
}

// life is a graph and the steps that are done to the graph.
type life struct {
	oracle  *reapi.Oracle
	graph   string
	options options
	steps   []step
	// told are the traverser's answers to the steps.
	told []string
}

type options struct {
	Load   string           `json:"load_format"`
	Policy string           `json:"matcher_policy"`
	Prune  string           `json:"prune_filters"`
	Format traverser.Format `json:"match_format"`
}

// step is one thing to do with both. It returns both answers.
type step struct {
	kind, what string
	run        func(p *pair) (ours, theirs string)
}

// pair is a Matcher and a client of the library that have had the same steps.
type pair struct {
	ours   *traverser.Matcher
	theirs *reapi.Client
	format traverser.Format
	prune  string
	// jobs are the jobs that hold something.
	jobs map[uint64]held
	// down are the paths of the vertices that are down.
	down map[string]bool
	// removed is true once a vertex was removed from the graph.
	removed bool
}

// held is what a job holds.
type held struct {
	r            string // in JGF
	at, duration int64
	reserved     bool
	// partly is true if the job has given back a part.
	partly bool
}

// compare does the steps, and counts what was compared. It returns the first difference that
// is no deviation; "" if there is none.
func (l *life) compare(compared map[string]int) string {
	p, err := l.open()
	if err != nil {
		return err.Error()
	}
	defer func() { p.theirs.Destroy() }()
	l.told = nil
	for i, s := range l.steps {
		ours, theirs := s.run(p)
		l.told = append(l.told, ours)
		if ours != theirs {
			why, ends := difference{s.kind, ours, theirs, p.jobs, p.prune}.known()
			if why != "" {
				compared["but "+why]++
				if ends {
					return ""
				}
				continue
			}
			return fmt.Sprintf("step %d, %s %s:\n%s", i, s.kind, s.what, apart(ours, theirs))
		}
		word, _, _ := strings.Cut(ours, ":")
		compared[s.kind+" "+word]++
	}
	return ""
}

// apart shows the part of two texts around their first difference.
func apart(ours, theirs string) string {
	const before, shown = 300, 900
	at := 0
	for at < min(len(ours), len(theirs)) && ours[at] == theirs[at] {
		at++
	}
	cut := func(text string) string {
		text = text[max(at-before, 0):]
		return text[:min(len(text), shown)]
	}
	return "ours:   " + cut(ours) + "\ntheirs: " + cut(theirs)
}

func (l *life) open() (*pair, error) {
	graph, err := traverser.ReadJGF(strings.NewReader(l.graph))
	if err != nil {
		return nil, err
	}
	ours, err := traverser.NewMatcher(graph, traverser.Options{Policy: l.options.Policy, PruneFilters: l.options.Prune})
	if err != nil {
		return nil, err
	}
	theirs, err := l.oracle.NewClient()
	if err != nil {
		return nil, err
	}
	p := &pair{ours, theirs, l.options.Format, l.options.Prune, map[uint64]held{}, map[string]bool{}, false}
	return p, theirs.InitContext(l.graph, asJSON(l.options))
}

// shrink leaves out the steps that a difference does not need, and describes the life.
func (l *life) shrink() string {
	for i := len(l.steps) - 1; i >= 0 && len(l.steps) > 1; i-- {
		shorter := *l
		shorter.steps = slices.Delete(slices.Clone(l.steps), i, i+1)
		if shorter.compare(map[string]int{}) != "" {
			l.steps = shorter.steps
		}
	}
	problem := l.compare(map[string]int{})
	out := fmt.Sprintf("graph %s\noptions %+v\n", l.graph, l.options)
	for i, ours := range l.told {
		out += fmt.Sprintf("%d %s %s\n%.1000s\n", i, l.steps[i].kind, l.steps[i].what, ours)
	}
	return out + problem
}

// reasons are the errors that mean the same.
var reasons = []struct {
	ours, theirs error
	word         string
}{
	{traverser.ErrInvalid, reapi.ErrInvalid, "invalid"},
	{traverser.ErrBusy, reapi.ErrBusy, "busy"},
	{traverser.ErrUnsatisfiable, reapi.ErrUnsatisfiable, "never"},
	{traverser.ErrNotFound, reapi.ErrNotFound, "not found"},
	{traverser.ErrExists, reapi.ErrExists, "exists"},
}

// outcome is the answer to a step: the reasons of an error, or else a text after "ok: ".
func outcome(err error, text string) string {
	if err == nil {
		return "ok: " + text
	}
	var words []string
	for _, r := range reasons {
		if errors.Is(err, r.ours) || errors.Is(err, r.theirs) {
			words = append(words, r.word)
		}
	}
	if len(words) == 0 {
		return err.Error()
	}
	return strings.Join(words, ", ")
}

func allocated(r string, at int64, reserved bool) string {
	return fmt.Sprintf("%s at %d, reserved %v", strings.TrimSuffix(r, "\n"), at, reserved)
}
