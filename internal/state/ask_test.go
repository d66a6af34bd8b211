// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

// How long a MiniCluster may hold nodes: the start, the command and the end, as long as each may take.
func TestAskEnds(t *testing.T) {
	now := fixture.Noon.Add(30 * time.Minute)
	began := func(s *v1alpha2.MiniClusterStatus) {
		s.StartTime = &metav1.Time{Time: fixture.Noon.Add(2 * time.Minute)}
	}
	starts := func(s *v1alpha2.MiniClusterSpec) {
		s.Elastic.StartTimeout = &metav1.Duration{Duration: 5 * time.Minute}
	}
	for name, tc := range map[string]struct {
		mc   *fixture.MiniClusterWrapper
		want time.Duration // after noon; 0 if the end is not known
	}{
		"without a time limit":               {fixture.MiniCluster("x"), 0},
		"it waits":                           {fixture.MiniCluster("x").Deadline(3600), 101 * time.Minute},
		"it waits, and has to start soon":    {fixture.MiniCluster("x").Deadline(3600).Spec(starts), 96 * time.Minute},
		"it starts":                          {fixture.MiniCluster("x").Deadline(3600).Admitted(1, 1, "a"), 71 * time.Minute},
		"it runs":                            {fixture.MiniCluster("x").Deadline(3600).Admitted(1, 1, "a").Status(began), 63 * time.Minute},
		"it runs, without a time limit":      {fixture.MiniCluster("x").Admitted(1, 1, "a").Status(began), 0},
		"it runs for longer than it may":     {fixture.MiniCluster("x").Deadline(60).Admitted(1, 1, "a").Status(began), 0},
		"it takes longer to start than ever": {fixture.MiniCluster("x").Deadline(60).Admitted(1, 1, "a"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			ends := Request(tc.mc.Defaulted(), fixture.Pod("p").Obj(), nil, nil).At(now).Ends
			if (tc.want == 0) != ends.IsZero() || (tc.want > 0 && !ends.Equal(fixture.Noon.Add(tc.want))) {
				t.Errorf("it ends by %s", ends)
			}
		})
	}
}
