// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// Why a MiniCluster waits is written when its reason changes, and its words twice a minute. The counts of brokers that come up
// are written the more rarely, the longer they take.
func TestPaces(t *testing.T) {
	for name, tc := range map[string]struct {
		state         life.State
		waited, wants time.Duration
	}{
		"it waits for nodes":                {life.StateQueued, 0, 30 * time.Second},
		"it has waited for nodes for a day": {life.StateQueued, 24 * time.Hour, 30 * time.Second},
		"its brokers come up":               {life.StateStarting, 2 * time.Second, 3 * time.Second},
		"its brokers come up slowly":        {life.StateStarting, 20 * time.Second, 10 * time.Second},
		"it runs":                           {life.StateRunning, time.Hour, 3 * time.Second},
	} {
		seen := &observed{now: fixture.Noon.Add(tc.waited), observation: &life.Observation{}}
		if tc.state != life.StateQueued {
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
