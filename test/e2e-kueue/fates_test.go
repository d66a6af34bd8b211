// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2ekueue

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// A Workload that is deleted takes its quota with it once the pods are gone. The MiniCluster asks for
// quota with a new one, and runs again.
func TestWorkloadDeleted(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	s.newQueue("team", 16, s.withPlacement())
	mc := s.create(s.miniCluster("again").Size(2), "team")
	s.AwaitState(mc, v1alpha2.StateRunning)
	first := s.workloadOf(mc)
	s.Delete(first)
	s.awaitAgain(mc)
	if mc.Status.Admission.Quota.Workload == first.UID {
		t.Error("it runs with the quota of the Workload that was deleted")
	}
	s.succeed(mc)
}

// The quota of a MiniCluster that is deleted while it runs is free when its last pod is gone.
func TestDeletedWhileRunning(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, "")
	s := c.newSite(t, 2)
	s.newQueue("team", 16)
	mc := s.create(s.miniCluster("deleted").Size(2), "team")
	s.AwaitState(mc, v1alpha2.StateRunning)
	workload := s.workloadOf(mc)
	if err := c.Suspend("kwok"); err != nil { // no pod ends
		t.Fatal(err)
	}
	s.Delete(mc)
	s.awaitWorkload(workload, "being deleted", func(wl *kueueapi.Workload) bool { return wl.DeletionTimestamp != nil })
	next := s.newWorkload("next", "team", podSet("lead", 1, "8"))
	s.awaitCondition(next, kueueapi.WorkloadQuotaReserved, metav1.ConditionFalse)
	again := s.create(s.miniCluster("deleted").Size(2), "team") // has the name, and another UID
	s.awaitCondition(s.workloadOf(again), kueueapi.WorkloadQuotaReserved, metav1.ConditionFalse)
	s.Delete(next)
	if err := c.Resume("kwok"); err != nil {
		t.Fatal(err)
	}
	s.AwaitState(again, v1alpha2.StateRunning)
	s.AwaitGone(workload)
}

// podsReady is a part of Kueue's configuration. It says how long Kueue waits for pods.
func podsReady(timeout string) string {
	return "waitForPodsReady: {timeout: " + timeout + ", requeuingStrategy: {backoffBaseSeconds: 5, backoffLimitCount: 1}}\n"
}

// A node never starts its pod. With minSize, the lower quorum counts as ready. With too few brokers,
// Kueue evicts and requeues up to its limit. Then the Workload is inactive until the MiniCluster is
// suspended and resumed.
func TestPodsReady(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 5, podsReady("1h"))
	s := c.newSite(t, 5)
	s.newQueue("team", 40, s.withPlacement())
	lower := s.create(s.miniCluster("lower").Size(3).MinSize(2).PodAnnotation(simulator.NeverStart, "2").Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Elastic.QuorumTimeout = &metav1.Duration{Duration: 2 * time.Second}
	}), "team")
	small := s.create(s.miniCluster("small").Size(2).PodAnnotation(simulator.NeverStart, "1"), "team")
	s.AwaitState(lower, v1alpha2.StateRunning)
	ready := s.workloadOf(lower)
	s.awaitCondition(ready, kueueapi.WorkloadPodsReady, metav1.ConditionTrue)

	c.startKueue(t, podsReady("20s"))
	workload := s.workloadOf(small)
	if c := s.awaitCondition(workload, kueueapi.WorkloadEvicted, metav1.ConditionTrue); c.Reason != kueueapi.WorkloadEvictedByPodsReadyTimeout {
		t.Errorf("it is evicted because of %s", c.Reason)
	}
	s.Await(small, "queued again", func(mc *v1alpha2.MiniCluster) bool {
		return strings.Contains(harness.Condition(mc, v1alpha2.ConditionAdmitted).Message, "queued again 1 times")
	})
	s.awaitWaiting(small, "exceeding the maximum number of re-queuing retries")
	s.awaitInactive(workload)
	c.startKueue(t, podsReady("1h"))
	s.Patch(small, `{"spec":{"suspend":true}}`)
	s.AwaitState(small, v1alpha2.StateSuspended)
	s.Patch(small, `{"spec":{"suspend":false,"pod":{"annotations":{%q:null}}}}`, simulator.NeverStart)
	s.AwaitState(small, v1alpha2.StateRunning)

	s.AwaitState(lower, v1alpha2.StateRunning)
	if len(lower.Status.Attempts) > 0 {
		t.Error("Kueue evicted a MiniCluster that has its quorum")
	}
	s.succeed(lower, small)
}

// MiniClusters with and without the label share nodes.
func TestBothKinds(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4)
	s.newQueue("team", 32, s.withPlacement())
	var mcs []*v1alpha2.MiniCluster
	for i := range 12 {
		queue := []string{"", "team"}[i%2]
		mcs = append(mcs, s.create(s.miniCluster(fmt.Sprintf("kind-%d", i)).Size(int32(1+i%3)).PodAnnotation(simulator.Runtime, "1s"), queue))
	}
	for i, mc := range mcs {
		s.AwaitSuccess(mc)
		if quota := mc.Status.Admission.Quota; (quota != nil) != (i%2 == 1) {
			t.Errorf("%s has quota %v", mc.Name, quota)
		}
	}
}

// hasNoWorkload waits until a MiniCluster has no Workload.
func (s *site) hasNoWorkload(mc *v1alpha2.MiniCluster) {
	s.T.Helper()
	harness.Eventually(s.T, func() error {
		workloads, err := s.workloads(mc)
		if err == nil && len(workloads) > 0 {
			err = errors.New("it has a Workload")
		}
		return err
	})
}

// A MiniCluster asks for no quota while another one runs with its singleton key: Kueue would evict others for quota that
// the MiniCluster cannot use yet.
func TestSingletonAsksForNoQuota(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	s.newQueue("team", 16, preempting, s.withPlacement())
	withKey := func(spec *v1alpha2.MiniClusterSpec) { spec.Singleton = "only" }
	first := s.create(s.miniCluster("first").Size(1).Spec(withKey), "team")
	other := s.create(s.miniCluster("other").Size(1), "team")
	s.AwaitState(first, v1alpha2.StateRunning)
	s.AwaitState(other, v1alpha2.StateRunning)

	second := s.miniCluster("second").Size(1).Spec(withKey).New()
	second.Namespace = s.Namespace
	second.Labels = map[string]string{v1alpha2.KueueQueueLabel: "team", v1alpha2.KueuePriorityLabel: s.newPriority("high", 100)}
	s.Create(second)
	s.Await(second, "waiting for its key", func(mc *v1alpha2.MiniCluster) bool {
		return harness.Condition(mc, v1alpha2.ConditionAdmitted).Reason == v1alpha2.ReasonSingleton
	})
	s.hasNoWorkload(second)
	s.succeed(first)
	s.AwaitState(second, v1alpha2.StateRunning)
	if runs := s.runsOf(other); runs != 1 {
		t.Errorf("the other MiniCluster ran %d times", runs)
	}
}
