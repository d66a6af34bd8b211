// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"testing"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// A MiniCluster is forgotten once it has finished and nothing is left to do or to tell.
func TestIsOver(t *testing.T) {
	ended := life.Record{Outcome: life.OutcomeSucceeded}
	for name, tc := range map[string]struct {
		o       life.Observation
		step    life.Step
		pending []v1alpha2.Decision
		want    bool
	}{
		"it runs":                     {o: life.Observation{}, step: life.Wait{}},
		"it finishes now":             {o: life.Observation{}, step: life.Finish{}},
		"its followers still end":     {o: life.Observation{Record: ended, Occupied: 1}, step: life.Wait{}},
		"followers' pods still exist": {o: life.Observation{Record: ended, Done: 1}, step: life.Wait{}},
		"they are deleted now":        {o: life.Observation{Record: ended}, step: life.Tidy{}},
		"an event is pending":         {o: life.Observation{Record: ended}, step: life.Wait{}, pending: []v1alpha2.Decision{{}}},
		"it only waits":               {o: life.Observation{Record: ended}, step: life.Wait{}, want: true},
	} {
		stored := &v1alpha2.MiniCluster{}
		stored.Status.PendingEvents = tc.pending
		if got := isOver(&observed{observation: &tc.o, stored: stored}, life.Plan{Step: tc.step}); got != tc.want {
			t.Errorf("%s: over is %v", name, got)
		}
	}
}
