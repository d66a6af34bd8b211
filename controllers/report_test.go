// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// Why one waits is written when its reason changes, and its words twice a minute.
func TestPaces(t *testing.T) {
	var p paces
	name, now := types.NamespacedName{Name: "lmp"}, fixture.Noon
	queued, running := pace(elastic.Plan{State: elastic.StateQueued}), pace(elastic.Plan{State: elastic.StateRunning})
	if p.wait(name, queued, now) > 0 {
		t.Error("the first write waits")
	}
	p.wrote(name, now)
	if a, b := p.wait(name, queued, now.Add(time.Second)), p.wait(name, running, now.Add(time.Second)); a != 29*time.Second || b != 2*time.Second {
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
