// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"regexp"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/story"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// The notes are read as they are written.
func TestNotes(t *testing.T) {
	limited := &v1alpha2.Deadlines{Default: &metav1.Duration{Duration: time.Minute}}
	for name, tc := range map[string]struct {
		step      life.Step
		deadlines *v1alpha2.Deadlines
		note      *regexp.Regexp
		want      []string
	}{
		"placed":                  {life.Admit{}, nil, story.PlacedNote, []string{"n[1-2,7]"}},
		"placed, with a deadline": {life.Admit{}, limited, story.PlacedNote, []string{"n[1-2,7]"}},
		"grew":                    {life.Grow{Pods: []elastic.Pod{{Rank: 3, Node: "n8"}, {Rank: 4, Node: "n9"}}}, nil, story.GrewNote, []string{"3-4", "n[8-9]"}},
		"left":                    {life.Vacate{Ranks: []int{1, 2}}, nil, story.LeftNote, []string{"1-2"}},
	} {
		in := Input{MiniCluster: fixture.MiniCluster("lmp").Size(4).Defaulted(), Observation: &life.Observation{}, Plan: life.Plan{Step: tc.step, Message: "because"}}
		text := noteOf(in, &v1alpha2.MiniClusterStatus{QueueingStatus: v1alpha2.QueueingStatus{Queue: "q"}, Admission: &v1alpha2.Admission{Size: 3, Nodes: "n[1-2,7]", QueueDeadlines: tc.deadlines}})
		if got := tc.note.FindStringSubmatch(text); len(got) == 0 || !slices.Equal(got[1:], tc.want) {
			t.Errorf("%s: %q is read as %q", name, text, got)
		}
	}
}
