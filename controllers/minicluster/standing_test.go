// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// An order stands from its first time on, though it lapses and is given again. Brokers that leave, and restarts, begin anew,
// unless all brokers are to leave.
func TestOrderedSince(t *testing.T) {
	some, all := elastic.Drain{Ranks: []int{1}}, elastic.Evict{}
	running := func() *life.Admission { return &life.Admission{Vacated: []int{2}} }
	restarts := func() *life.Admission { return &life.Admission{Restart: &life.Restarting{}} }
	type look struct {
		after     time.Duration
		order     elastic.Order
		admission *life.Admission
	}
	for name, tc := range map[string]struct {
		looks []look
		want  time.Duration // after noon; negative: no order stands
	}{
		"no order":                     {[]look{{0, nil, running()}}, -1},
		"one that is given again":      {[]look{{0, some, running()}, {10 * time.Second, some, running()}, {20 * time.Second, nil, running()}, {21 * time.Second, some, running()}}, 0},
		"one of long ago":              {[]look{{0, some, running()}, {31 * time.Second, nil, running()}}, -1},
		"nobody looked for long":       {[]look{{0, some, running()}, {31 * time.Second, some, running()}}, 31 * time.Second},
		"the command was run again":    {[]look{{0, some, running()}, {time.Second, nil, restarts()}, {2 * time.Second, some, running()}}, 2 * time.Second},
		"that does not put an end off": {[]look{{0, all, restarts()}, {time.Second, nil, restarts()}, {2 * time.Second, all, restarts()}}, 0},
		"all were to leave before":     {[]look{{0, all, running()}, {time.Second, some, running()}}, time.Second},
		"its attempt is over":          {[]look{{0, all, running()}, {time.Second, nil, nil}}, -1},
		"one to nobody":                {[]look{{0, elastic.Drain{}, running()}, {time.Second, elastic.Drain{Ranks: []int{0, 2}}, running()}}, -1},
	} {
		m, since := &memory{}, time.Time{}
		for _, l := range tc.looks {
			o := &life.Observation{Order: l.order}
			o.Admission = l.admission
			since = m.orderedSince(o, fixture.Noon.Add(l.after))
		}
		if want := fixture.Noon.Add(tc.want); tc.want < 0 != since.IsZero() || tc.want >= 0 && !since.Equal(want) {
			t.Errorf("%s: since %s", name, since)
		}
	}
}

// An order that could be carried out, but not be recorded, does not stand, unless all brokers are to leave.
func TestNoteAble(t *testing.T) {
	for _, all := range []bool{false, true} {
		for _, step := range []life.Step{life.Wait{}, life.Drain{}, life.Restart{}} {
			m := &memory{ordered: standing{since: fixture.Noon, all: all}}
			m.noteAble(life.Plan{Step: step})
			_, waits := step.(life.Wait)
			if stands := !m.ordered.since.IsZero(); stands != (all || waits) {
				t.Errorf("%s, all %t: it stands: %t", life.Name(step), all, stands)
			}
		}
	}
}
