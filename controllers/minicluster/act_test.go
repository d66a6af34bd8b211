// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

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
			return (&actor{}).carryOut(t.Context(), &observed{}, life.Plan{Step: properties.Step})
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
	if err := (&podWriter{client: c}).tidy(t.Context(), seen); err != nil {
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

// Many pods are deleted in parts, each in a pass of its own, because a request may not take long.
func TestTidyInParts(t *testing.T) {
	asked := 0
	c := interceptor.NewClient((&written{}).newClient(), interceptor.Funcs{
		DeleteAllOf: func(_ context.Context, _ client.WithWatch, _ client.Object, opts ...client.DeleteAllOfOption) error {
			if limit := (&client.DeleteAllOfOptions{}).ApplyOptions(opts).Limit; limit != tidyAtOnce {
				t.Errorf("a request deletes up to %d pods", limit)
			}
			asked++
			return nil
		},
	})
	p, seen := &podWriter{client: c}, &observed{now: fixture.Noon, memory: &memory{}}
	seen.view = state.View{MiniCluster: fixture.MiniCluster("lmp").Defaulted(), JobSet: fixture.JobSet("lmp", 1).Obj()}
	for _, pass := range []struct{ pods, asked int }{{600, 1}, {350, 2}, {100, 3}, {50, 3}} {
		seen.view.Pods = make([]protocol.Pod, pass.pods)
		if err := p.tidy(t.Context(), seen); err != nil {
			t.Fatal(err)
		}
		if asked != pass.asked {
			t.Errorf("with %d pods left there were %d requests, want %d", pass.pods, asked, pass.asked)
		}
	}
}
