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
	running := func() *life.Admission { return &life.Admission{} }
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
		"one that is given again":      {[]look{{0, some, running()}, {61 * time.Second, nil, running()}, {62 * time.Second, some, running()}}, 0},
		"one of long ago":              {[]look{{0, some, running()}, {3 * time.Minute, nil, running()}}, -1},
		"another one, later":           {[]look{{0, some, running()}, {3 * time.Minute, some, running()}}, 3 * time.Minute},
		"the command was run again":    {[]look{{0, some, running()}, {time.Second, nil, restarts()}, {2 * time.Second, some, running()}}, 2 * time.Second},
		"that does not put an end off": {[]look{{0, all, restarts()}, {time.Second, nil, restarts()}, {2 * time.Second, all, restarts()}}, 0},
		"its attempt is over":          {[]look{{0, all, running()}, {time.Second, nil, nil}}, -1},
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
