// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package story

import (
	"slices"
	"testing"
)

func TestRecorder(t *testing.T) {
	seen := func(started, ended bool) func(*Recorder, float64) {
		return func(r *Recorder, s float64) { r.Seen(Story{Name: "a", Wanted: 2, State: "x"}, started, ended, at(s)) }
	}
	held := func(pod, node string) func(*Recorder, float64) {
		return func(r *Recorder, s float64) { r.Held(pod, "a", len(pod), node, at(s)) }
	}
	freed := func(pod string) func(*Recorder, float64) {
		return func(r *Recorder, s float64) { r.Freed(pod, at(s)) }
	}
	type step struct {
		at float64
		do func(*Recorder, float64)
	}
	for name, tc := range map[string]struct {
		steps []step
		want  string
	}{
		"it waits": {[]step{{0, seen(false, false)}}, "wait 0-100"},
		"it runs, and its pods go after its end": {
			[]step{{0, seen(false, false)}, {1, held("p", "n")}, {2, held("p", "n")}, {3, seen(true, false)}, {5, seen(true, true)}, {6, freed("p")}, {7, freed("p")}, {8, seen(true, true)}},
			"1 n 1-6@3, wait 0-1",
		},
		"its pods go before its end is seen": {
			[]step{{0, seen(false, false)}, {1, held("p", "n")}, {3, seen(true, false)}, {6, freed("p")}, {7, seen(true, true)}}, "1 n 1-6@3, wait 0-1",
		},
		"its start is seen before its pods": {
			[]step{{0, seen(false, false)}, {1, seen(true, false)}, {2, held("p", "n")}}, "1 n 2-@2, wait 0-1",
		},
		"a second attempt starts by itself": {
			[]step{
				{0, seen(false, false)}, {1, held("p", "n")}, {3, seen(true, false)}, {6, freed("p")}, {7, seen(false, false)},
				{20, held("q", "m")}, {25, seen(true, false)}, {30, seen(true, true)}, {31, freed("q")},
			}, "1 m 20-31@25, 1 n 1-6@3, wait 0-1, wait 6-20",
		},
		"it gives up and ends": {
			[]step{{0, seen(false, false)}, {1, held("p", "n")}, {6, freed("p")}, {7, seen(false, false)}, {50, seen(false, true)}}, "1 n 1-6, wait 0-1, wait 6-50",
		},
		"a pod comes while another one is there": {
			[]step{{0, seen(false, false)}, {1, held("p", "n")}, {4, held("q", "m")}, {6, freed("p")}}, "1 m 4-, 1 n 1-6, wait 0-1",
		},
	} {
		r := NewRecorder()
		for _, s := range tc.steps {
			s.do(r, s.at)
		}
		if got := describe(r.Stories()[0], at(100)); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}

func TestOrderOfStories(t *testing.T) {
	r := NewRecorder()
	for _, name := range []string{"z", "a", "z"} {
		r.Seen(Story{Name: name, Size: 2}, false, false, at(0))
	}
	var names []string
	for _, s := range r.Stories() {
		names = append(names, s.Name)
	}
	if !slices.Equal(names, []string{"z", "a"}) {
		t.Errorf("%v", names)
	}
}
