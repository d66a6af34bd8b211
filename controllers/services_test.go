// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/internal/fixture"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

func TestReleaseServices(t *testing.T) {
	pod, lead := fixture.ServicesPod("lmp").Obj(), fixture.BrokerPod("lmp", 0).On("a").Obj()
	for name, tc := range map[string]struct {
		pods    []*corev1.Pod
		soon    time.Duration // when it is looked at again anyway
		fails   error
		patches int // in two passes
		again   time.Duration
	}{
		"the lead has its node":        {pods: []*corev1.Pod{lead, pod}, patches: 1},
		"the lead waits":               {pods: []*corev1.Pod{fixture.BrokerPod("lmp", 0).Obj(), pod}, again: servicesInterval},
		"the lead waits, not for long": {pods: []*corev1.Pod{fixture.BrokerPod("lmp", 0).Obj(), pod}, soon: time.Millisecond, again: time.Millisecond},
		"there are no services":        {pods: []*corev1.Pod{lead}, soon: time.Hour, again: time.Hour},
		"it is not taken":              {pods: []*corev1.Pod{lead, pod}, fails: errors.New("no"), patches: 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := written{fails: tc.fails}
			c := w.newClient(pod)
			r := &MiniClusterReconciler{Client: c, Clock: clock.RealClock{}}
			mc := fixture.MiniCluster("lmp").Admitted(1, 1, "a").Defaulted()
			seen := &observed{stored: mc, view: state.View{
				MiniCluster: mc, JobSet: fixture.JobSet("lmp", 1).Obj(), Pods: tc.pods, Node: func(name string) *corev1.Node { return fixture.Node(name).Obj() },
			}}
			var err error
			if seen.observation, err = state.Observe(seen.view); err != nil {
				t.Fatal(err)
			}
			result := ctrl.Result{RequeueAfter: tc.soon}
			for range 2 { // the cache does not show it yet
				if err := r.releaseServices(t.Context(), seen, &result); !errors.Is(err, tc.fails) {
					t.Fatal(err)
				}
			}
			if w.patches != tc.patches || result.RequeueAfter != tc.again {
				t.Errorf("%d patches, and again after %s", w.patches, result.RequeueAfter)
			}
			var there corev1.Pod
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), &there); err != nil {
				t.Fatal(err)
			}
			if jobset.HasGate(&there) == (tc.patches > 0) {
				t.Errorf("its gates are %v", there.Spec.SchedulingGates)
			}
		})
	}
}
