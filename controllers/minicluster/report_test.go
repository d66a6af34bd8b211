// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// Why a MiniCluster waits is written when its reason changes. Its words and counts are written the more rarely, the longer it
// has waited.
func TestPaces(t *testing.T) {
	for name, tc := range map[string]struct {
		state         life.State
		waited, wants time.Duration
	}{
		"it waits for nodes":                {life.StateQueued, 0, 30 * time.Second},
		"it has waited for nodes":           {life.StateQueued, 2 * time.Minute, time.Minute},
		"it has waited for nodes for a day": {life.StateQueued, 24 * time.Hour, 5 * time.Minute},
		"its brokers come up":               {life.StateStarting, 2 * time.Second, 3 * time.Second},
		"its brokers come up slowly":        {life.StateStarting, 20 * time.Second, 10 * time.Second},
		"it runs":                           {life.StateRunning, time.Hour, 3 * time.Second},
	} {
		mc := fixture.MiniCluster("lmp").Obj()
		mc.CreationTimestamp = metav1.NewTime(fixture.Noon)
		seen := &observed{now: fixture.Noon.Add(tc.waited), view: state.View{MiniCluster: mc}, observation: &life.Observation{}}
		if tc.state != life.StateQueued {
			mc.CreationTimestamp = metav1.NewTime(fixture.Noon.Add(-time.Hour))
			seen.observation.Admission = &life.Admission{At: fixture.Noon}
		}
		if got := seen.pace(life.Plan{State: tc.state}); got != tc.wants {
			t.Errorf("%s: it is written after %s, want %s", name, got, tc.wants)
		}
	}
	waits := func(reason, message string) *v1alpha2.MiniClusterStatus {
		mc := fixture.MiniCluster("lmp").Condition(v1alpha2.ConditionAdmitted, metav1.ConditionFalse, reason).Obj()
		mc.Status.Conditions[0].Message = message
		return &mc.Status
	}
	old := waits(v1alpha2.ReasonNoRoom, "3 free")
	if !onlyCounts(old, waits(v1alpha2.ReasonNoRoom, "4 free")) || onlyCounts(old, waits(v1alpha2.ReasonWaitingForTurn, "3 free")) {
		t.Error("words and reasons are taken for each other")
	}
}
