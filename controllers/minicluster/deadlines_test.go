// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/fixture/cached"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// waitingRoom is a scheduler that gives nothing.
type waitingRoom struct {
	Scheduler
	skipped, overlooks bool
	most               int
}

func (s *waitingRoom) Place(*v1alpha2.MiniCluster) (queue string, waits bool, freed time.Time) {
	return
}

func (s *waitingRoom) Overlooks(string) bool { return s.overlooks }

func (s *waitingRoom) MostPods(*corev1.Pod) int { return s.most }

func (s *waitingRoom) Report(_ *v1alpha2.MiniCluster, wants state.Wants) elastic.Offer {
	s.skipped = wants.Want == state.NoNodes
	return elastic.Offer{}
}

// A change of the queue of all MiniClusters with quota wakes those that wait, and that of any queue those that have nodes
// by it.
func TestQueueWakes(t *testing.T) {
	labelled := func(w *fixture.MiniClusterWrapper) *v1alpha2.MiniCluster {
		mc := w.Obj()
		mc.Labels = map[string]string{v1alpha2.KueueQueueLabel: "team"}
		return mc
	}
	waits := labelled(fixture.MiniCluster("waits"))
	has := labelled(fixture.MiniCluster("has-nodes").Admitted(1, 1, "a"))
	has.Status.Queue = "night"
	w := &wakeups{cache: cached.Client(t, waits, has, fixture.MiniCluster("without").Obj())}
	for queue, wakes := range map[string][]*v1alpha2.MiniCluster{v1alpha2.KueueQueue: {waits}, "night": {has}, "other": nil} {
		var want []reconcile.Request
		for _, mc := range wakes {
			want = append(want, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(mc)})
		}
		if got := w.boundBy(t.Context(), fixture.Queue(queue).Obj()); !slices.Equal(got, want) {
			t.Errorf("the queue %s wakes %v", queue, got)
		}
	}
}
