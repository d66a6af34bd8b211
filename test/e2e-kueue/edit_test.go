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

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// setLabel sets a label of a MiniCluster.
func (s *site) setLabel(mc *v1alpha2.MiniCluster, label, value string) {
	s.T.Helper()
	s.Patch(mc, `{"metadata":{"labels":{%q:%q}}}`, label, value)
}

// A suspended MiniCluster has no quota. When it is resumed, it asks again.
func TestSuspended(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	s.newQueue("team", 16, s.withPlacement())
	mc := s.create(s.miniCluster("rests").Size(2), "team")
	s.AwaitState(mc, v1alpha2.StateRunning)
	workload := s.workloadOf(mc)
	s.Patch(mc, `{"spec":{"suspend":true}}`)
	s.AwaitState(mc, v1alpha2.StateSuspended)
	s.awaitInactive(workload)
	next := s.newWorkload("next", "team", podSet("lead", 2, "8"))
	s.awaitCondition(next, kueueapi.WorkloadQuotaReserved, metav1.ConditionTrue)
	s.Patch(mc, `{"spec":{"suspend":false}}`)
	s.awaitWaiting(mc, "insufficient unused quota")
	s.Delete(next)
	s.AwaitState(mc, v1alpha2.StateRunning)
	s.succeed(mc)
}

// One that was deleted and is kept by a finalizer of its user has no quota either.
func TestKeptWhenDeleted(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	s.newQueue("team", 16, s.withPlacement())
	mc := s.create(s.miniCluster("kept").Size(2), "team")
	s.AwaitState(mc, v1alpha2.StateRunning)
	workload := s.workloadOf(mc)
	s.Patch(mc, `{"metadata":{"finalizers":["example.com/keeps"]}}`)
	s.Delete(mc)
	s.awaitInactive(workload)
	next := s.newWorkload("next", "team", podSet("lead", 2, "8"))
	s.awaitCondition(next, kueueapi.WorkloadQuotaReserved, metav1.ConditionTrue)
	s.Patch(mc, `{"metadata":{"finalizers":null}}`)
	s.AwaitGone(mc)
	s.AwaitGone(workload)
}

// The manager deactivates the Workload of a MiniCluster that no node can hold. Once there are nodes, the MiniCluster runs when
// it has been suspended and resumed.
func TestReactivated(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	s.newQueue("team", 16, s.withPlacement())
	mc := s.create(s.miniCluster("large").Size(2).Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Pod.NodeSelector["example.com/large"] = "true"
	}), "team")
	workload := s.workloadOf(mc)
	s.hasTriedOften(workload)
	s.awaitWorkload(workload, "deactivated, without quota", func(wl *kueueapi.Workload) bool {
		return !*wl.Spec.Active && meta.IsStatusConditionFalse(wl.Status.Conditions, kueueapi.WorkloadRequeued)
	})
	for _, name := range s.Nodes {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		s.Patch(node, `{"metadata":{"labels":{"example.com/large":"true"}}}`)
		t.Cleanup(func() { s.Patch(node, `{"metadata":{"labels":{"example.com/large":null}}}`) })
	}
	s.Patch(mc, `{"spec":{"suspend":true}}`)
	s.AwaitState(mc, v1alpha2.StateSuspended)
	s.Patch(mc, `{"spec":{"suspend":false}}`)
	s.AwaitState(mc, v1alpha2.StateRunning)
}

// A policy that allows no Workload is told in its own words, and no node is held. Once the policy is gone, the MiniCluster asks
// Kueue.
func TestRefusedWorkloads(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	s.newQueue("team", 16, s.withPlacement())
	const words = "no Workloads today"
	allow := s.Deny("kueue.x-k8s.io", "workloads", words, s.workload("probe", "team", podSet("lead", 1, "8")))
	mc := s.create(s.miniCluster("told").Size(2), "team")
	s.Await(mc, "told", func(mc *v1alpha2.MiniCluster) bool {
		message := harness.Condition(mc, v1alpha2.ConditionAdmitted).Message
		return mc.Status.Admission == nil && strings.Contains(message, "elling Kueue by Workload ") && strings.Contains(message, words)
	})
	allow()
	s.AwaitState(mc, v1alpha2.StateRunning)
	if attempt := mc.Status.Admission.Attempt; attempt != 1 {
		t.Errorf("it has the attempt %d", attempt)
	}
	s.succeed(mc)
}

// The label of a MiniCluster that waits can be changed, removed and added.
func TestLabelChanges(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	s.newQueue("full", 0)
	s.newQueue("free", 24)
	moves, leaves := s.create(s.miniCluster("moves"), "full"), s.create(s.miniCluster("leaves"), "full")
	for _, mc := range []*v1alpha2.MiniCluster{moves, leaves} {
		s.awaitWaiting(mc, "queue \"full\"")
	}
	s.setLabel(moves, v1alpha2.KueueQueueLabel, "free")
	s.AwaitState(moves, v1alpha2.StateRunning)
	s.Patch(leaves, `{"metadata":{"labels":{%q:null}}}`, v1alpha2.KueueQueueLabel)
	s.AwaitState(leaves, v1alpha2.StateRunning)
	s.hasNoWorkload(leaves)
	comes := s.create(s.miniCluster("comes").Size(2), "") // there is one node left
	s.AwaitState(comes, v1alpha2.StateQueued)
	s.setLabel(comes, v1alpha2.KueueQueueLabel, "free")
	s.awaitCondition(s.workloadOf(comes), kueueapi.WorkloadAdmitted, metav1.ConditionTrue)
	s.endCommand(leaves)
	s.AwaitState(comes, v1alpha2.StateRunning)
	if moves.Status.Admission.Quota == nil || leaves.Status.Admission.Quota != nil || comes.Status.Admission.Quota == nil {
		t.Error("not those with the label have quota")
	}
}

// What a MiniCluster names and is not there is what it waits for.
func TestNamesNothing(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	s.newQueue("team", 16)
	class := s.name("later")
	classless := s.createWithPriority("classless", 1, "team", class)
	s.awaitWaiting(classless, `"`+class+`", which does not exist`)
	queueless := s.create(s.miniCluster("queueless"), "later")
	s.awaitWaiting(queueless, "LocalQueue later doesn't exist")
	s.newPriority("later", 7)
	s.AwaitState(classless, v1alpha2.StateRunning)
	if priority := s.workloadOf(classless).Spec.Priority; *priority != 7 {
		t.Errorf("its priority is %d", *priority)
	}
	s.newQueue("later", 8)
	s.AwaitState(queueless, v1alpha2.StateRunning)
}

// A ClusterQueue that holds lets nothing start. One that drains takes the quota back, too.
func TestStopPolicy(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	queue := s.newQueue("team", 16, s.withPlacement())
	first := s.create(s.miniCluster("first"), "team")
	s.AwaitState(first, v1alpha2.StateRunning)
	s.Patch(queue, `{"spec":{"stopPolicy":%q}}`, kueueapi.Hold)
	second := s.create(s.miniCluster("second"), "team")
	s.awaitWaiting(second, "is inactive")
	s.Patch(queue, `{"spec":{"stopPolicy":%q}}`, kueueapi.HoldAndDrain)
	s.awaitWaiting(first, "ClusterQueue")
	if len(first.Status.Attempts) != 1 {
		t.Error("it did not run before")
	}
	s.Patch(queue, `{"spec":{"stopPolicy":%q}}`, kueueapi.None)
	for _, mc := range []*v1alpha2.MiniCluster{first, second} {
		s.AwaitState(mc, v1alpha2.StateRunning)
	}
}
