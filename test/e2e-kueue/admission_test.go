// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2ekueue

import (
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// awaitCheck waits until the AdmissionCheck of a Workload has a state.
func (s *site) awaitCheck(workload *kueueapi.Workload, state kueueapi.CheckState) kueueapi.AdmissionCheckState {
	s.T.Helper()
	s.awaitWorkload(workload, "answered with "+string(state), func(workload *kueueapi.Workload) bool {
		return len(workload.Status.AdmissionChecks) == 1 && workload.Status.AdmissionChecks[0].State == state
	})
	return workload.Status.AdmissionChecks[0]
}

// awaitWaiting waits until a MiniCluster waits for quota, with a part of a message.
func (s *site) awaitWaiting(mc *v1alpha2.MiniCluster, message string) {
	s.T.Helper()
	s.Await(mc, "waiting for quota: "+message, func(mc *v1alpha2.MiniCluster) bool {
		c := harness.Condition(mc, v1alpha2.ConditionAdmitted)
		return c.Status == metav1.ConditionFalse && c.Reason == v1alpha2.ReasonWaitingForQuota && strings.Contains(c.Message, message)
	})
}

// A MiniCluster gets its nodes before Kueue admits its Workload, and its pods are placed after that.
func TestCheckReady(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4)
	queue := s.newQueue("team", 32, s.withPlacement())
	mc := s.create(s.miniCluster("ready").Size(4), "team")
	workload := s.workloadOf(mc)
	s.awaitCheck(workload, kueueapi.CheckStateReady)
	s.awaitCondition(workload, kueueapi.WorkloadAdmitted, metav1.ConditionTrue)
	s.AwaitState(mc, v1alpha2.StateRunning)
	s.awaitCondition(workload, kueueapi.WorkloadPodsReady, metav1.ConditionTrue)
	quota := mc.Status.Admission.Quota
	if quota == nil || quota.ClusterQueue != queue.Name || quota.Size != 4 || quota.Workload != workload.UID || quota.NodeSelector[harness.SiteLabel] != s.Namespace {
		t.Errorf("its quota is %+v", quota)
	}
	placed := meta.FindStatusCondition(mc.Status.Conditions, v1alpha2.ConditionAdmitted)
	if placed == nil || placed.Status != metav1.ConditionTrue {
		t.Errorf("condition Admitted is %+v", placed)
	}
}

// Quota does not wait for nodes that others hold: it goes back with the reason and a time, and the
// MiniCluster starts when there is room.
func TestCheckRetry(t *testing.T) {
	t.Parallel()
	s := newCluster(t, 4, "").newSite(t, 4) // no other MiniCluster is in the queue
	s.newQueue("team", 32, s.withPlacement())
	holder := s.create(s.miniCluster("holder").Size(3), "") // by the queue of this project
	s.AwaitState(holder, v1alpha2.StateRunning)
	mc := s.create(s.miniCluster("waits").Size(2), "team")
	workload := s.workloadOf(mc)
	evicted := s.awaitCondition(workload, kueueapi.WorkloadEvicted, metav1.ConditionTrue)
	if evicted.Reason != kueueapi.WorkloadEvictedByAdmissionCheck || !strings.Contains(evicted.Message, "needs room for 2 brokers") {
		t.Errorf("it is evicted because of %s: %s", evicted.Reason, evicted.Message)
	}
	s.awaitWaiting(mc, " times, next at ") // how often: messages may be 30 s old
	s.awaitCondition(workload, kueueapi.WorkloadQuotaReserved, metav1.ConditionFalse)
	next := s.newWorkload("next", "team", podSet("lead", 1, "32")) // the quota is free meanwhile
	s.awaitCondition(next, kueueapi.WorkloadQuotaReserved, metav1.ConditionTrue)
	s.Delete(next)
	s.endCommand(holder)
	s.AwaitState(mc, v1alpha2.StateRunning)
}

// hasTriedOften makes a Workload one that gave its quota back so often that it rests: pauses between tries take minutes.
func (s *site) hasTriedOften(workload *kueueapi.Workload) {
	s.T.Helper()
	s.awaitCondition(workload, kueueapi.WorkloadEvicted, metav1.ConditionTrue)
	s.awaitWorkload(workload, "asks for quota again", func(workload *kueueapi.Workload) bool {
		if len(workload.Status.AdmissionChecks) == 0 || workload.Status.Admission != nil {
			return false
		}
		before := workload.DeepCopy()
		workload.Status.AdmissionChecks[0].RetryCount = ptr.To(int32(20))
		return s.Cluster.Client.Status().Patch(s.T.Context(), workload, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})) == nil
	})
}

// A MiniCluster that the empty cluster could not hold gives its quota back for an hour; a change of its spec begins anew.
func TestNeverFits(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	s.newQueue("team", 32, s.withPlacement())
	mc := s.create(s.miniCluster("large").Size(3), "team")
	workload := s.workloadOf(mc)
	s.hasTriedOften(workload)
	s.awaitWorkload(workload, "inactive", func(workload *kueueapi.Workload) bool { return !*workload.Spec.Active })
	s.awaitCondition(workload, kueueapi.WorkloadQuotaReserved, metav1.ConditionFalse)
	s.awaitWaiting(mc, "; asks Kueue again at ")
	s.Patch(mc, `{"spec":{"size":2}}`)
	s.AwaitState(mc, v1alpha2.StateRunning)
}

// Without the check, nodes are looked for after the admission. Quota without nodes goes back after
// startTimeout, and is asked for again.
func TestWithoutCheck(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4)
	s.newQueue("team", 32)
	holder := s.create(s.miniCluster("holder").Size(3), "")
	s.AwaitState(holder, v1alpha2.StateRunning)
	mc := s.create(s.miniCluster("waits").Size(2).Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Elastic.QuorumTimeout = &metav1.Duration{Duration: 3 * time.Second}
		spec.Elastic.StartTimeout = &metav1.Duration{Duration: 3 * time.Second}
	}), "team")
	workload := s.workloadOf(mc)
	s.awaitCondition(workload, kueueapi.WorkloadAdmitted, metav1.ConditionTrue)
	evicted := s.awaitCondition(workload, kueueapi.WorkloadEvicted, metav1.ConditionTrue)
	if evicted.Reason != kueueapi.WorkloadEvictedByPodsReadyTimeout {
		t.Errorf("it is evicted because of %s", evicted.Reason)
	}
	s.awaitCondition(workload, kueueapi.WorkloadQuotaReserved, metav1.ConditionFalse)
	s.awaitWaiting(mc, "; queued again at ")
	s.Patch(mc, `{"spec":{"elastic":{"quorumTimeout":"1h","startTimeout":"1h"}}}`)
	s.endCommand(holder)
	s.AwaitState(mc, v1alpha2.StateRunning)
	s.awaitCondition(workload, kueueapi.WorkloadEvicted, metav1.ConditionFalse)
}
