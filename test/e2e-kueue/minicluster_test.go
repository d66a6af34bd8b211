// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2ekueue

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
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
	s.endCommand(mc)
	s.AwaitSuccess(mc)
	s.awaitCondition(workload, kueueapi.WorkloadFinished, metav1.ConditionTrue)
	s.awaitCondition(next, kueueapi.WorkloadAdmitted, metav1.ConditionTrue)
}

// A MiniCluster without the label runs as ever. Kueue's integrations of Jobs, JobSets and pods leave it
// alone.
func TestWithoutLabel(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	mc := s.create(s.miniCluster("free").Size(2), "")
	s.AwaitState(mc, v1alpha2.StateRunning)
	s.endCommand(mc)
	s.AwaitSuccess(mc)
	var list kueueapi.WorkloadList
	if err := s.Cluster.Client.List(s.Ctx, &list, client.InNamespace(s.Namespace)); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) > 0 {
		t.Errorf("it has a Workload, %s", list.Items[0].Name)
	}
}
