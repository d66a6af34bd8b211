// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2ekueue

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// While Kueue is away, what runs goes on, and nothing gets quota. What came meanwhile says what it waits
// for, and goes on when Kueue is back.
func TestKueueAway(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 4, "")
	s := c.newSite(t, 4)
	s.newQueue("team", 32)
	runs := s.create(s.miniCluster("runs").Size(2), "team")
	s.AwaitState(runs, v1alpha2.StateRunning)
	if err := c.Kill(t.Context(), "kueue"); err != nil {
		t.Fatal(err)
	}
	err := c.Client.Create(s.Ctx, s.workload("refused", "team", podSet("lead", 1, "8")))
	if err == nil || !strings.Contains(err.Error(), `failed calling webhook "mworkload.kb.io"`) {
		t.Errorf("a Workload without Kueue: %v", err)
	}
	waits := s.create(s.miniCluster("waits").Size(2), "team")
	s.Await(waits, "waiting for Kueue's webhooks", func(mc *v1alpha2.MiniCluster) bool {
		c := harness.Condition(mc, v1alpha2.ConditionAdmitted)
		return c.Reason == v1alpha2.ReasonNotChecked && strings.HasPrefix(c.Message, "The pods cannot be checked: failed calling webhook")
	})
	s.AwaitState(waits, v1alpha2.StateQueued) // not Rejected: nothing is wrong with its spec
	s.AwaitState(runs, v1alpha2.StateRunning)
	c.startKueue(t, "")
	s.AwaitState(waits, v1alpha2.StateRunning)
	for _, mc := range []*v1alpha2.MiniCluster{runs, waits} {
		s.endCommand(mc)
		s.AwaitSuccess(mc)
		s.awaitCondition(s.workloadOf(mc), kueueapi.WorkloadFinished, metav1.ConditionTrue)
	}
	if attempts := runs.Status.Admission.Attempt; attempts != 1 {
		t.Errorf("%s was admitted %d times", runs.Name, attempts)
	}
	// With another configuration, Kueue evicts a Workload whose pods are not ready in time.
	c.startKueue(t, "waitForPodsReady: {timeout: 1s, requeuingStrategy: {backoffBaseSeconds: 1}}\n")
	late := s.newWorkload("late", "team", podSet("lead", 1, "8"))
	s.awaitEviction(late, kueueapi.WorkloadEvictedByPodsReadyTimeout)
	if requeued := late.Status.RequeueState; requeued == nil || *requeued.Count != 1 || requeued.RequeueAt == nil {
		t.Errorf("it is requeued as %+v", requeued)
	}
}

// Kueue ends with its cluster, and the next cluster in the same directory has keys and an API of its own.
func TestDownAndUp(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, "")
	if err := c.down(); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(t.Context(), "kueue"); err == nil {
		t.Error("Kueue starts without a cluster")
	}
	s := newCluster(t, 1, "").newSite(t, 1)
	s.newQueue("team", 8)
	s.awaitCondition(s.newWorkload("fits", "team", podSet("lead", 1, "8")), kueueapi.WorkloadAdmitted, metav1.ConditionTrue)
}
