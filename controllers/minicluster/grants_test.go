// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"testing"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// No more pods are made than the cluster could hold, unless they are few or wanted at once.
func TestPodsAreBounded(t *testing.T) {
	launcher := func() *fixture.MiniClusterWrapper { return fixture.MiniCluster("lmp").MaxSize(100_000).Launcher() }
	for name, tc := range map[string]struct {
		mc       *fixture.MiniClusterWrapper
		holds    int   // by the cluster
		trial    int32 // the brokers of the JobSet of a trial
		admitted int32 // the largest size that was recorded
		want     int32
	}{
		"a small cluster":                     {mc: launcher(), holds: 3, want: 256},
		"a large cluster":                     {mc: launcher(), holds: 5000, want: 5000},
		"a cluster that is larger":            {mc: launcher(), holds: 1 << 40, want: 100_000},
		"few pods":                            {mc: launcher().MaxSize(200), holds: 3, want: 200},
		"as many as are wanted":               {mc: launcher().Size(400), holds: 3, want: 400},
		"one that cannot grow":                {mc: fixture.MiniCluster("lmp").Size(300).MaxSize(100_000), holds: 3, want: 300},
		"pods of a trial stay":                {mc: launcher(), holds: 9000, trial: 300, want: 300},
		"and so do those of an admission":     {mc: launcher(), holds: 9000, trial: 300, admitted: 300, want: 300},
		"before its pods are made, too":       {mc: launcher(), holds: 9000, admitted: 400, want: 400},
		"one whose hosts others know":         {mc: launcher().Spec(burstsTo("far")), holds: 3, want: 256},
		"a maxSize that is lower than it was": {mc: launcher().MaxSize(300), admitted: 400, want: 300},
	} {
		t.Run(name, func(t *testing.T) {
			mc := tc.mc
			seen := &observed{observation: &life.Observation{}, check: &check{pod: fixture.Pod("x").Obj()}}
			if tc.admitted > 0 {
				mc = mc.Admitted(1, 1, "a").Status(func(s *v1alpha2.MiniClusterStatus) { s.MaximumSize = tc.admitted })
			}
			seen.view = state.View{MiniCluster: mc.Defaulted()}
			if tc.trial > 0 {
				made, err := jobset.JobSet(launcher().MaxSize(tc.trial).Defaulted(), 1)
				if err != nil {
					t.Fatal(err)
				}
				seen.view.JobSet, seen.observation.Workload = made, life.Ahead
			}
			(&grants{scheduler: &waitingRoom{most: tc.holds}}).boundPods(seen)
			set, err := jobset.JobSet(seen.view.MiniCluster, 1)
			if err != nil {
				t.Fatal(err)
			}
			if got := jobset.Brokers(set); got != tc.want || state.MaxSize(seen.view.MiniCluster) < got {
				t.Errorf("%d pods are made, want %d", got, tc.want)
			}
		})
	}
}

func burstsTo(name string) func(*v1alpha2.MiniClusterSpec) {
	return func(s *v1alpha2.MiniClusterSpec) {
		s.Flux.Bursting.Clusters = []v1alpha2.BurstedCluster{{Name: name, Size: 1}}
	}
}
