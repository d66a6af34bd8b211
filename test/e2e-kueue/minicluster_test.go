// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2ekueue

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// A MiniCluster of a LocalQueue runs with quota of Kueue, which is free at its end.
func TestMiniCluster(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	s.newQueue("team", 16)
	mc := s.create(s.miniCluster("first").Size(2), "team")
	workload := s.workloadOf(mc)
	s.awaitCondition(workload, kueueapi.WorkloadAdmitted, metav1.ConditionTrue)
	s.AwaitState(mc, v1alpha2.StateRunning)
	next := s.newWorkload("next", "team", podSet("lead", 1, "8"))
	s.awaitCondition(next, kueueapi.WorkloadQuotaReserved, metav1.ConditionFalse)
	s.succeed(mc)
	s.awaitCondition(next, kueueapi.WorkloadAdmitted, metav1.ConditionTrue)
}

// A MiniCluster without the label runs as ever. Kueue's integrations of Jobs, JobSets and pods leave it
// alone.
func TestWithoutLabel(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	mc := s.create(s.miniCluster("free").Size(2), "")
	s.AwaitState(mc, v1alpha2.StateRunning)
	s.succeed(mc)
	var list kueueapi.WorkloadList
	if err := s.Cluster.Client.List(s.Ctx, &list, client.InNamespace(s.Namespace)); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) > 0 {
		t.Errorf("it has a Workload, %s", list.Items[0].Name)
	}
}

// The lead and the workers get the same flavor, though Kueue could give each another: nodes of two
// flavors that share none are no nodes for one MiniCluster.
func TestOneFlavor(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	s.newPools()
	s.newQueue("team", 0, withFlavor("one", 8), withFlavor("rest", 16))
	mc := s.create(s.miniCluster("lmp").Size(2), "team")
	s.AwaitState(mc, v1alpha2.StateRunning)
	if pool := mc.Status.Admission.Quota.NodeSelector["pool"]; pool != "rest" {
		t.Errorf("it runs in the pool %q", pool)
	}
	s.succeed(mc)
}

// Pods get the tolerations of their flavor, with which they may run on its nodes.
func TestTaintedFlavor(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	taint := func(taints string) {
		for _, name := range s.Nodes {
			s.Patch(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, `{"spec":{"taints":%s}}`, taints)
		}
	}
	taint(`[{"key":"spot","effect":"NoSchedule"}]`)
	t.Cleanup(func() { taint("null") })
	tolerates := corev1.Toleration{Key: "spot", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
	flavor := &kueueapi.ResourceFlavor{ObjectMeta: metav1.ObjectMeta{Name: s.name("spot")}}
	flavor.Spec.NodeLabels = map[string]string{harness.SiteLabel: s.Namespace}
	flavor.Spec.NodeTaints = []corev1.Taint{{Key: "spot", Effect: corev1.TaintEffectNoSchedule}}
	flavor.Spec.Tolerations = []corev1.Toleration{tolerates}
	s.make(flavor)
	s.newQueue("team", 0, withFlavor("spot", 16))
	mc := s.create(s.miniCluster("lmp").Size(2), "team")
	s.AwaitState(mc, v1alpha2.StateRunning)
	var pods corev1.PodList
	if err := s.Cluster.Client.List(s.Ctx, &pods, client.InNamespace(s.Namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range pods.Items {
		if n := len(slices.DeleteFunc(pods.Items[i].Spec.Tolerations, func(t corev1.Toleration) bool { return t != tolerates })); n != 1 {
			t.Errorf("%d of the tolerations of pod %s are those of the flavor", n, pods.Items[i].Name)
		}
	}
	s.succeed(mc)
}
