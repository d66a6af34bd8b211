// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"testing"
	"time"

	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/kueue"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// A Workload that is deleted soon after it was made is made again once the cache must have shown it.
func TestAsksAgain(t *testing.T) {
	mc, now := fixture.MiniCluster("lmp").Defaulted(), fixture.Noon
	seen := &observed{
		observation: &life.Observation{}, view: state.View{MiniCluster: mc}, stored: mc, memory: &memory{asked: now.Add(-time.Second)}, now: now,
		kueueInput: kueue.Input{MiniCluster: mc, Uses: true, Want: &kueueapi.Workload{}, Now: now},
	}
	plan, err := (&Reconciler{}).tellKueue(t.Context(), seen, life.Plan{Step: life.Wait{}, State: life.StateQueued})
	if want := now.Add(cacheDelay - time.Second); err != nil || !plan.LookAgain.Equal(want) {
		t.Errorf("it is looked at again at %s (%v), want %s", plan.LookAgain, err, want)
	}
}
