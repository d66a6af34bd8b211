// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// Something carries out every step. What a step does to nothing does not matter here.
func TestEveryStepIsCarriedOut(t *testing.T) {
	for _, properties := range life.Steps {
		err := func() (err error) {
			defer func() { _ = recover() }()
			return (&Reconciler{}).carryOut(t.Context(), &observed{}, life.Plan{Step: properties.Step})
		}()
		if errors.Is(err, errNoSuchStep) {
			t.Error(err)
		}
	}
}

// Only the followers of the JobSet are deleted, whatever Job a pod among them names as its owner.
func TestTidy(t *testing.T) {
	forged := fixture.BrokerPod("lmp", 2).OfJob("other-w-0").Ended(0).Obj()
	lead, follower, others := fixture.BrokerPod("lmp", 0).Ended(0).Obj(), fixture.BrokerPod("lmp", 1).Ended(0).Obj(), fixture.BrokerPod("other", 1).Obj()
	c := (&written{}).newClient(forged, lead, follower, others)
	seen := &observed{now: fixture.Noon, memory: &memory{}}
	seen.view = state.View{
		MiniCluster: fixture.MiniCluster("lmp").Size(3).Defaulted(), JobSet: fixture.JobSet("lmp", 1).Obj(), Pods: []protocol.Pod{protocol.Read(forged)},
	}
	if err := (&Reconciler{Client: c}).tidy(t.Context(), seen); err != nil {
		t.Fatal(err)
	}
	var left corev1.PodList
	if err := c.List(t.Context(), &left); err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range left.Items {
		names = append(names, left.Items[i].Name)
	}
	if slices.Sort(names); !slices.Equal(names, []string{"lmp-0", "other-1"}) {
		t.Errorf("left are %v", names)
	}
}
