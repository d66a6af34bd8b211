// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2ekueue

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
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
	// Without Kueue's webhooks nobody can tell a pod that its command ends.
	ends := s.create(s.miniCluster("ends").Size(2).PodAnnotation(simulator.Runtime, "20s"), "team")
	s.AwaitState(ends, v1alpha2.StateRunning)
	if err := c.Kill(t.Context(), "kueue"); err != nil {
		t.Fatal(err)
	}
	err := c.Client.Create(s.Ctx, s.workload("refused", "team", podSet("lead", 1, "8")))
	if err == nil || !strings.Contains(err.Error(), `failed calling webhook "mworkload.kb.io"`) {
		t.Errorf("a Workload without Kueue: %v", err)
	}
	s.AwaitSuccess(ends) // and its nodes are free, before Kueue hears of that
	waits := s.create(s.miniCluster("waits").Size(2), "team")
	s.Await(waits, "waiting for Kueue's webhooks", func(mc *v1alpha2.MiniCluster) bool {
		c := harness.Condition(mc, v1alpha2.ConditionAdmitted)
		return c.Reason == v1alpha2.ReasonNotChecked && strings.HasPrefix(c.Message, "The pods cannot be checked: failed calling webhook")
	})
	s.AwaitState(waits, v1alpha2.StateQueued) // not Rejected: nothing is wrong with its spec
	s.AwaitState(runs, v1alpha2.StateRunning)
	c.startKueue(t, "")
	s.AwaitState(waits, v1alpha2.StateRunning)
	s.succeed(runs, waits)
	s.awaitCondition(s.workloadOf(ends), kueueapi.WorkloadFinished, metav1.ConditionTrue)
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

// The definitions of Kueue's objects are removed. The command of a MiniCluster with nodes ends before its
// Workload is gone. Nothing runs until the definitions are back. Then all MiniClusters ask again.
func TestWithoutAPI(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 4, "")
	s := c.newSite(t, 4)
	s.newQueue("team", 16, s.withPlacement())
	runs := s.create(s.miniCluster("runs").Size(2), "team")
	s.AwaitState(runs, v1alpha2.StateRunning)
	waits := s.create(s.miniCluster("waits").Size(2), "team")
	s.awaitWaiting(waits, "insufficient unused quota")
	c.removeKueueAPI(t)
	later := s.create(s.miniCluster("later").Size(2), "team")
	all := []*v1alpha2.MiniCluster{runs, waits, later}
	for _, mc := range all {
		s.awaitWaiting(mc, "the API server does not have its objects")
	}

	c.startKueue(t, "")
	// The history has to see what has quota before anything can have some.
	seen := s.clusterQueue("seen", 0)
	s.make(seen)
	s.AwaitSeen(s.history, seen)
	for _, mc := range all {
		s.AwaitSeen(s.history, s.workloadOf(mc))
	}
	s.makeFlavor()
	s.newQueue("team", 32, s.withPlacement())
	first := s.awaitRunning(all, 2)
	s.succeed(first...)
	s.succeed(s.awaitRunning(all, 1)...)
	if ended := len(runs.Status.Attempts); ended != 1 {
		t.Errorf("%s ended %d times before", runs.Name, ended)
	}
	for _, mc := range all[1:] {
		if len(mc.Status.Attempts) > 0 {
			t.Errorf("%s ran before", mc.Name)
		}
	}
}

// removeKueueAPI deletes the definitions of Kueue's objects, and waits until they are gone.
func (c *cluster) removeKueueAPI(t *testing.T) {
	t.Helper()
	harness.Eventually(t, func() error {
		var list apiextensionsv1.CustomResourceDefinitionList
		if err := c.Client.List(t.Context(), &list); err != nil {
			return err
		}
		var left error
		for i := range list.Items {
			d := &list.Items[i]
			if d.Spec.Group != kueueapi.SchemeGroupVersion.Group {
				continue
			}
			left = errors.Join(left, fmt.Errorf("%s is still there", d.Name))
			if d.DeletionTimestamp == nil {
				left = errors.Join(left, c.Client.Delete(t.Context(), d))
			}
		}
		return left
	})
}

// Kueue ends with its cluster, and the next cluster in the same directory has keys and an API of its own.
func TestDownAndUp(t *testing.T) {
	t.Parallel()
	c, err := up(t.Context(), t.Name(), 1, "")
	if err != nil {
		t.Fatal(err)
	}
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
