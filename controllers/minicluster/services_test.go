// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/kueue"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

func TestReleaseServices(t *testing.T) {
	pod, lead := fixture.ServicesPod("lmp").Obj(), fixture.BrokerPod("lmp", 0).On("a").Obj()
	for name, tc := range map[string]struct {
		fails   error
		patches int // in two passes
	}{
		"once":            {patches: 1},
		"it is not taken": {fails: errors.New("no"), patches: 2},
	} {
		t.Run(name, func(t *testing.T) {
			w := written{fails: tc.fails}
			c := w.newClient(pod)
			a := &actor{pods: &podWriter{client: c, clock: clock.RealClock{}, maker: &maker{client: c}}}
			mc := fixture.MiniCluster("lmp").Admitted(1, 1, "a").Defaulted()
			seen := &observed{stored: mc, memory: (&memories{}).of(mc), quota: &kueue.Quota{}, view: state.View{
				MiniCluster: mc, JobSet: fixture.JobSet("lmp", 1).Obj(), Pods: []protocol.Pod{protocol.Read(lead), protocol.Read(pod)},
			}}
			seen.memory.files = seen.view.JobSet.UID
			for range 2 { // the cache does not show it yet
				if _, err := a.act(t.Context(), seen, life.Plan{Step: life.ReleaseServices{}}); !errors.Is(err, tc.fails) {
					t.Fatal(err)
				}
			}
			if w.patches != tc.patches {
				t.Errorf("%d patches", w.patches)
			}
			var there corev1.Pod
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(pod), &there); err != nil {
				t.Fatal(err)
			}
			if protocol.HasGate(&there) {
				t.Errorf("its gates are %v", there.Spec.SchedulingGates)
			}
		})
	}
}
