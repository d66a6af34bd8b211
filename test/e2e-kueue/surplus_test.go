// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2ekueue

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// A MiniCluster that Kueue preempts gives back as many brokers above minSize as the other Workload
// needs, and goes on with the rest of its quota. Without enough surplus its command ends.
func TestSurplusFirst(t *testing.T) {
	t.Parallel()
	s := newSite(t, 6)
	high := s.newPriority("high", 100)
	s.newQueue("team", 48, preempting, s.withPlacement())
	mc := s.create(s.miniCluster("elastic").Size(6).MinSize(2).Launcher(), "team")
	s.AwaitState(mc, v1alpha2.StateRunning)
	first := s.workloadOf(mc)

	small := s.newUrgent("small", "team", high, podSet("lead", 3, "8"))
	s.awaitCondition(small, kueueapi.WorkloadQuotaReserved, metav1.ConditionTrue)
	s.Await(mc, "on three nodes", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.Size == 3 })
	s.awaitWorkload(first, "admitted with the rest", func(wl *kueueapi.Workload) bool {
		return len(wl.Status.ReclaimablePods) == 1 && wl.Status.ReclaimablePods[0].Count == 3
	})
	for _, kind := range []string{kueueapi.WorkloadEvicted, kueueapi.WorkloadPreempted} {
		if c := s.awaitCondition(first, kind, metav1.ConditionFalse); c.Reason != "SurplusGivenBack" {
			t.Errorf("%s is False because of %s", kind, c.Reason)
		}
	}
	if stats := first.Status.SchedulingStats.Evictions; len(stats) != 1 || stats[0].Count != 1 {
		t.Errorf("it was evicted more than once: %+v", stats)
	}
	if first.Status.Admission == nil || harness.State(mc) != v1alpha2.StateRunning {
		t.Errorf("it is %s, with %v", harness.State(mc), first.Status.Admission)
	}

	large := s.newUrgent("large", "team", high, podSet("lead", 2, "8"))
	s.Await(mc, "waiting for quota", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.Admission == nil })
	s.awaitCondition(large, kueueapi.WorkloadQuotaReserved, metav1.ConditionTrue)
	s.awaitCondition(first, kueueapi.WorkloadQuotaReserved, metav1.ConditionFalse)
}
