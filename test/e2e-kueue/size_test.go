// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2ekueue

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
)

// reclaimable is the number of pods whose quota a Workload gave back.
func reclaimable(workload *kueueapi.Workload) (n int32) {
	for _, r := range workload.Status.ReclaimablePods {
		n += r.Count
	}
	return n
}

// Kueue grants 40 of 64 brokers. Of the sizes 2, 4, 8 ... 64, 32 is the largest. The quota of the
// other 8 goes back at once, and another MiniCluster runs with it.
func TestPartialAdmission(t *testing.T) {
	t.Parallel()
	s := newSite(t, 5) // with 8 brokers on each
	s.newQueue("team", 40, s.withPlacement())
	mc := s.create(s.miniCluster("large").CPU("1").Size(64).MinSize(2).Tasks(64).Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Elastic.Sizes = &v1alpha2.Sizes{Operator: "*", Operand: 2}
	}), "team")
	s.AwaitState(mc, v1alpha2.StateRunning)
	if mc.Status.Admission.Size != 32 || mc.Status.Admission.Quota.Size != 40 || mc.Status.Tasks != 32 {
		t.Errorf("it runs with %d brokers of %d, and %d tasks", mc.Status.Admission.Size, mc.Status.Admission.Quota.Size, mc.Status.Tasks)
	}
	other := s.create(s.miniCluster("other").CPU("1").Size(8), "team")
	s.AwaitState(other, v1alpha2.StateRunning)
	workload := s.workloadOf(mc)
	if n := reclaimable(workload); n != 32 {
		t.Errorf("%d pods of 64 are reclaimable", n)
	}
	s.succeed(other, mc)
}

// The Workload is finished, and says how, when no pod is left. Its quota is free then.
func TestQuotaAtTheEnd(t *testing.T) {
	t.Parallel()
	for outcome, code := range map[string]string{kueueapi.WorkloadFinishedReasonSucceeded: "0", kueueapi.WorkloadFinishedReasonFailed: "3"} {
		t.Run(outcome, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, 3)
			s.newQueue("team", 24)
			mc := s.create(s.miniCluster("ends").Size(3).PodAnnotation(simulator.ExitCode, code), "team")
			s.AwaitState(mc, v1alpha2.StateRunning)
			next := s.newWorkload("next", "team", podSet("lead", 3, "8"))
			s.awaitCondition(next, kueueapi.WorkloadQuotaReserved, metav1.ConditionFalse)
			s.endCommand(mc)
			if c := s.awaitCondition(s.workloadOf(mc), kueueapi.WorkloadFinished, metav1.ConditionTrue); c.Reason != outcome {
				t.Errorf("it is finished because of %s: %s", c.Reason, c.Message)
			}
			s.awaitCondition(next, kueueapi.WorkloadAdmitted, metav1.ConditionTrue)
		})
	}
}

// Brokers that leave give their quota back, one after the other.
func TestQuotaOfLeavers(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	s.newQueue("team", 24)
	mc := s.create(s.miniCluster("shrinks").Size(3).MinSize(1).Launcher(), "team")
	s.AwaitState(mc, v1alpha2.StateRunning)
	workload := s.workloadOf(mc)
	for size := int32(2); size > 0; size-- {
		next := s.newWorkload(fmt.Sprintf("next-%d", size), "team", podSet("lead", 1, "8"))
		s.awaitCondition(next, kueueapi.WorkloadQuotaReserved, metav1.ConditionFalse)
		s.Patch(mc, `{"spec":{"size":%d}}`, size)
		s.awaitWorkload(workload, "without the quota of those that left", func(wl *kueueapi.Workload) bool { return reclaimable(wl) == 3-size })
		s.awaitCondition(next, kueueapi.WorkloadAdmitted, metav1.ConditionTrue)
	}
	s.succeed(mc)
}
