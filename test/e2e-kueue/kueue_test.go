// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2ekueue

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// The tests of this file say what Kueue does with Workloads that have no job behind them.
// flux-elastic relies on each of these facts.

// A Workload that fits gets its quota, in a flavor, and is admitted. Kueue's webhooks answer.
func TestFactAdmitted(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0)
	queue := s.newQueue("team", 8)
	workload := s.newWorkload("fits", "team", podSet("lead", 1, "8"))
	s.awaitCondition(workload, kueueapi.WorkloadQuotaReserved, metav1.ConditionTrue)
	s.awaitCondition(workload, kueueapi.WorkloadAdmitted, metav1.ConditionTrue)
	if name := workload.Status.Admission.ClusterQueue; string(name) != queue.Name {
		t.Errorf("the quota is that of %s", name)
	}
	if flavor := workload.Status.Admission.PodSetAssignments[0].Flavors[corev1.ResourceCPU]; string(flavor) != s.Namespace {
		t.Errorf("the flavor is %s, want that of the site", flavor)
	}
	err := s.Cluster.Client.Create(s.Ctx, s.clusterQueue("invalid", -8))
	if err == nil || !strings.Contains(err.Error(), `admission webhook "vclusterqueue.kb.io" denied the request`) {
		t.Errorf("a ClusterQueue with a negative quota: %v", err)
	}
}

// A podSet with minCount gets less than its count; one without waits. reclaimablePods counts from the
// count in the spec, and not from what was admitted.
func TestFactPartialAdmission(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0)
	s.newQueue("team", 40)
	whole := s.newWorkload("whole", "team", podSet("lead", 1, "1"), podSet("workers", 63, "1"))
	if c := s.awaitCondition(whole, kueueapi.WorkloadQuotaReserved, metav1.ConditionFalse); !strings.Contains(c.Message, "couldn't assign flavors to pod set") {
		t.Errorf("it waits because of %q", c.Message)
	}
	workers := podSet("workers", 63, "1")
	workers.MinCount = new(int32(31))
	partial := s.newWorkload("partial", "team", podSet("lead", 1, "1"), workers)
	s.awaitCondition(partial, kueueapi.WorkloadAdmitted, metav1.ConditionTrue)
	if count := partial.Status.Admission.PodSetAssignments[1].Count; *count != 39 {
		t.Errorf("%d workers are admitted, want 39", *count)
	}
	seven := s.newWorkload("seven", "team", podSet("lead", 7, "1"))
	s.setStatus(partial, func() { partial.Status.ReclaimablePods = []kueueapi.ReclaimablePod{{Name: "workers", Count: 30}} })
	eight := s.newWorkload("eight", "team", podSet("lead", 8, "1"))
	s.awaitCondition(seven, kueueapi.WorkloadQuotaReserved, metav1.ConditionFalse)
	s.awaitCondition(eight, kueueapi.WorkloadQuotaReserved, metav1.ConditionFalse)
	s.setStatus(partial, func() { partial.Status.ReclaimablePods[0].Count = 31 }) // 32 are left
	s.awaitCondition(seven, kueueapi.WorkloadAdmitted, metav1.ConditionTrue)
	s.awaitCondition(eight, kueueapi.WorkloadQuotaReserved, metav1.ConditionFalse)
}

// Reserved quota waits for the answers of all AdmissionChecks, also for one of another controller.
func TestFactAdmissionCheck(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0)
	check := s.newCheck("placement", "example.com/placement")
	s.setStatus(check, func() {
		meta.SetStatusCondition(&check.Status.Conditions, metav1.Condition{Type: kueueapi.AdmissionCheckActive, Status: metav1.ConditionTrue, Reason: "Active"})
	})
	s.newQueue("team", 8, withCheck("placement"))
	workload := s.newWorkload("waits", "team", podSet("lead", 1, "8"))
	s.awaitCondition(workload, kueueapi.WorkloadQuotaReserved, metav1.ConditionTrue)
	s.awaitWorkload(workload, "in need of an answer", func(workload *kueueapi.Workload) bool {
		checks := workload.Status.AdmissionChecks
		return len(checks) == 1 && checks[0].State == kueueapi.CheckStatePending
	})
	if meta.IsStatusConditionTrue(workload.Status.Conditions, kueueapi.WorkloadAdmitted) {
		t.Error("it is admitted before the answer")
	}
	s.setStatus(workload, func() {
		workload.Status.AdmissionChecks[0].State = kueueapi.CheckStateReady
		workload.Status.AdmissionChecks[0].LastTransitionTime = metav1.Now()
	})
	s.awaitCondition(workload, kueueapi.WorkloadAdmitted, metav1.ConditionTrue)
}

// A Workload that Kueue evicts keeps its quota until its owner clears it. `active: false` frees the quota
// at once.
func TestFactEviction(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0)
	high := s.newPriority("high", 100)
	s.newQueue("team", 8, preempting)
	low := s.newWorkload("low", "team", podSet("lead", 1, "8"))
	s.awaitCondition(low, kueueapi.WorkloadAdmitted, metav1.ConditionTrue)
	urgent := s.newUrgent("urgent", "team", high, podSet("lead", 1, "8"))
	s.awaitEviction(low, kueueapi.WorkloadEvictedByPreemption)
	s.awaitCondition(urgent, kueueapi.WorkloadQuotaReserved, metav1.ConditionFalse)
	s.clear(low)
	s.awaitCondition(urgent, kueueapi.WorkloadAdmitted, metav1.ConditionTrue)
	s.Patch(urgent, `{"spec":{"active":false}}`)
	s.awaitCondition(low, kueueapi.WorkloadAdmitted, metav1.ConditionTrue)
}

// awaitEviction waits until Kueue evicts a Workload, which then still has its quota.
func (s *site) awaitEviction(workload *kueueapi.Workload, reason string) {
	s.T.Helper()
	if evicted := s.awaitCondition(workload, kueueapi.WorkloadEvicted, metav1.ConditionTrue); evicted.Reason != reason {
		s.T.Errorf("it is evicted because of %s, want %s", evicted.Reason, reason)
	}
	if workload.Status.Admission == nil {
		s.T.Error("Kueue itself clears the admission")
	}
}

// clear gives the quota of an evicted Workload back, as the owner does once its pods are gone.
func (s *site) clear(workload *kueueapi.Workload) {
	s.T.Helper()
	s.setStatus(workload, func() {
		workload.Status.Admission = nil
		for _, kind := range []string{kueueapi.WorkloadQuotaReserved, kueueapi.WorkloadAdmitted} {
			meta.SetStatusCondition(&workload.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: "Cleared"})
		}
		meta.SetStatusCondition(&workload.Status.Conditions, metav1.Condition{Type: kueueapi.WorkloadRequeued, Status: metav1.ConditionTrue, Reason: "Cleared"})
	})
}

// A ClusterQueue borrows what its cohort does not use, and the owner of the quota takes it back.
func TestFactCohort(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0)
	s.newCohort("all")
	for _, queue := range []string{"red", "blue"} {
		s.newQueue(queue, 8, inCohort("all"), reclaiming)
	}
	borrower := s.newWorkload("borrower", "red", podSet("lead", 2, "8"))
	s.awaitCondition(borrower, kueueapi.WorkloadAdmitted, metav1.ConditionTrue)
	owner := s.newWorkload("owner", "blue", podSet("lead", 1, "8"))
	s.awaitEviction(borrower, kueueapi.WorkloadEvictedByPreemption)
	s.clear(borrower)
	s.awaitCondition(owner, kueueapi.WorkloadAdmitted, metav1.ConditionTrue)
	s.awaitCondition(borrower, kueueapi.WorkloadQuotaReserved, metav1.ConditionFalse)
}

// A podSet gets all its pods in one flavor: the first that has quota for them.
func TestFactFlavors(t *testing.T) {
	t.Parallel()
	s := newSite(t, 0)
	s.newFlavor("spot", "capacity", "spot")
	s.newQueue("team", 8, withFlavor("spot", 24))
	flavorOf := func(workload *kueueapi.Workload) kueueapi.ResourceFlavorReference {
		s.awaitCondition(workload, kueueapi.WorkloadAdmitted, metav1.ConditionTrue)
		return workload.Status.Admission.PodSetAssignments[0].Flavors[corev1.ResourceCPU]
	}
	if flavor := flavorOf(s.newWorkload("big", "team", podSet("lead", 2, "8"))); string(flavor) != s.name("spot") {
		t.Errorf("16 CPUs are in flavor %s", flavor)
	}
	if flavor := flavorOf(s.newWorkload("small", "team", podSet("lead", 1, "8"))); string(flavor) != s.Namespace {
		t.Errorf("8 CPUs are in flavor %s", flavor)
	}
}
