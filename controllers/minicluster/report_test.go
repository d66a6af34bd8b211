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

// Why one waits is written when its reason changes, and its words twice a minute.
func TestPaces(t *testing.T) {
	if a, b := pace(life.Plan{State: life.StateQueued}), pace(life.Plan{State: life.StateRunning}); a != 30*time.Second || b != 3*time.Second {
		t.Errorf("one that waits has to wait for %s, one that runs for %s", a, b)
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
