// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// Every type of step is in Steps, for which events and the controller are tested.
func TestEveryStepIsListed(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var declared, listed []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`(?m)^func \((?:\w+ )?(\w+)\) step\(\)`).FindAllSubmatch(text, -1) {
			declared = append(declared, string(match[1]))
		}
	}
	for _, properties := range Steps {
		listed = append(listed, Name(properties.Step))
		_, decides := properties.Step.(Decision)
		if _, quiet := properties.Step.(Appoint); quiet {
			decides = false
		}
		if decides != (PropertiesOf(properties.Step).Warning || properties.Event != "") {
			t.Errorf("%s decides: %t, and its event is %q", Name(properties.Step), decides, properties.Event)
		}
	}
	slices.Sort(declared)
	slices.Sort(listed)
	if !slices.Equal(declared, listed) {
		t.Errorf("declared are %v, listed %v", declared, listed)
	}
}

// What a decision writes down is what the next observation starts from.
func TestApply(t *testing.T) {
	later := noon.Add(time.Hour)
	has := func(change func(*Admission)) Record {
		a := &Admission{Attempt: 2, Quorum: 4, At: noon, Nodes: []string{"a", "b", "c", "d"}}
		change(a)
		return Record{Admission: a, GivenUp: 1}
	}
	same := func(*Admission) {}
	cases := map[string]struct {
		before Record
		step   Step
		want   Record
	}{
		"a step that decides nothing changes nothing": {has(same), Publish{Quorum: 2}, has(same)},
		"an admission begins anew, and forgets nodes that were avoided long enough": {
			Record{GivenUp: 1, NotBefore: noon, Avoid: []string{"x"}, AvoidUntil: noon, ExitCode: new(1)},
			Admit{Attempt: 2, Nodes: []string{"a", "b"}},
			Record{GivenUp: 1, Attempts: 2, NotBefore: noon, Admission: &Admission{Attempt: 2, Quorum: 2, At: later, Nodes: []string{"a", "b"}}},
		},
		"the lead is recorded": {has(same), Appoint{Lead: "first"}, has(func(a *Admission) { a.Lead = "first" })},
		"the lead stays": {
			has(func(a *Admission) { a.Lead = "first" }), Start{Quorum: 4, Lead: "second"},
			func() Record {
				r := has(func(a *Admission) { a.Lead = "first" })
				r.Started, r.Runs = later, 1
				return r
			}(),
		},
		"the command began when its lead was ready, and not when a manager saw that": {
			has(same), Start{Quorum: 4, ReadySince: noon.Add(time.Minute)},
			func() Record {
				r := has(func(a *Admission) { a.ReadySince = noon.Add(time.Minute) })
				r.Started, r.Runs = noon.Add(time.Minute), 1
				return r
			}(),
		},
		"but not before the lead had its node, as the clock of that node says": {
			has(same), Start{Quorum: 4, ReadySince: noon.Add(-time.Minute)},
			func() Record {
				r := has(func(a *Admission) { a.ReadySince = noon.Add(-time.Minute) })
				r.Started, r.Runs = later, 1
				return r
			}(),
		},
		"the start takes nodes of ranks that have no part in it": {
			has(same), Start{Quorum: 3, Vacated: []int{2}},
			func() Record {
				r := has(func(a *Admission) { a.Quorum, a.Vacated = 3, []int{2} })
				r.Started, r.Runs = later, 1
				return r
			}(),
		},
		"ranks that leave are drained": {
			has(same), Drain{Ranks: []int{1, 3}, Quorum: 2, Deadline: later},
			has(func(a *Admission) {
				a.Quorum, a.Draining = 2, &Draining{Ranks: []int{1, 3}, At: later, Deadline: later, Reason: "why"}
			}),
		},
		"further ranks have their own time": {
			has(func(a *Admission) { a.Draining = &Draining{Ranks: []int{3}, At: noon} }), LowerQuorum{Leaving: []int{1, 3}, Quorum: 2},
			has(func(a *Admission) { a.Quorum, a.Draining = 2, &Draining{Ranks: []int{1, 3}, At: later, Reason: "why"} }),
		},
		"some have left, the others have not yet": {
			has(func(a *Admission) { a.Draining = &Draining{Ranks: []int{1, 3}} }), Vacate{Ranks: []int{1}, Quorum: 3},
			has(func(a *Admission) { a.Quorum, a.Vacated, a.Draining = 3, []int{1}, &Draining{Ranks: []int{3}} }),
		},
		"ranks that leave, and a restart, get their time once more": {
			has(func(a *Admission) {
				a.Restart, a.Draining = &Restarting{From: 4, At: noon, Reason: "y"}, &Draining{Ranks: []int{3}, At: noon, Deadline: noon, Reason: "x"}
			}),
			Prolong{Restart: true, Deadline: later.Add(time.Minute)},
			has(func(a *Admission) {
				a.Restart = &Restarting{From: 4, At: later, Reason: "y", Again: true}
				a.Draining = &Draining{Ranks: []int{3}, At: later, Deadline: later.Add(time.Minute), Reason: "x", Again: true}
			}),
		},
		"or they stay": {
			has(func(a *Admission) { a.Quorum, a.Draining = 3, &Draining{Ranks: []int{3}} }), Keep{Ranks: []int{3}, Quorum: 4},
			has(same),
		},
		"growing fills vacated ranks and adds others": {
			has(func(a *Admission) { a.Vacated, a.Moved = []int{1, 3}, []int{3} }),
			Grow{Pods: []elastic.Pod{{Rank: 3, Node: "x"}, {Rank: 4, Node: "y"}}, Quorum: 4},
			has(func(a *Admission) { a.Nodes, a.Vacated = []string{"a", "b", "c", "x", "y"}, []int{1} }),
		},
		"moving avoids the node, beside others": {
			func() Record { r := has(same); r.Avoid, r.AvoidUntil = []string{"x"}, later.Add(time.Second); return r }(),
			Move{Pods: []elastic.Pod{{Rank: 2, Node: "z"}}, Avoid: []string{"c"}},
			func() Record {
				r := has(func(a *Admission) { a.Nodes, a.Moved = []string{"a", "b", "z", "d"}, []int{2} })
				r.Avoid, r.AvoidUntil = []string{"c", "x"}, later.Add(10*time.Minute)
				return r
			}(),
		},
		"an attempt that is given up counts": {
			has(same), GiveUp{NotBefore: later.Add(time.Minute), Most: 3}, Record{GivenUp: 2, NotBefore: later.Add(time.Minute), Most: 3},
		},
		"one that is evicted does not":        {has(same), Evict{Reason: "Preempted"}, Record{GivenUp: 1, NotBefore: later}},
		"one whose time is over counts apart": {has(same), Evict{Reason: Requeued, Checkpointed: true}, Record{GivenUp: 1, Requeued: 1, NotBefore: later, Checkpointed: later}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			before := tc.before.clone()
			got := Plan{Step: tc.step, Message: "why"}.Apply(tc.before, later)
			if show := diff(tc.want, got); show != "" {
				t.Errorf("the record is another (-want +got):\n%s", show)
			}
			if show := diff(before, tc.before); show != "" {
				t.Errorf("the record before was changed (-want +got):\n%s", show)
			}
		})
	}
}
