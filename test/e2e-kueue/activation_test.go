// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2ekueue

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// Kueue deactivates the Workload of a MiniCluster that no node can hold. Once there are nodes, the
// MiniCluster runs when it has been suspended and resumed.
func TestReactivated(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	s.newCheck("placement", v1alpha2.PlacementCheck)
	s.newQueue("team", 16, withCheck("placement"))
	mc := s.create(s.miniCluster("large").Size(2).Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Pod.NodeSelector["example.com/large"] = "true"
	}), "team")
	workload := s.workloadOf(mc)
	s.awaitWorkload(workload, "deactivated, without quota", func(wl *kueueapi.Workload) bool {
		return !*wl.Spec.Active && meta.IsStatusConditionFalse(wl.Status.Conditions, kueueapi.WorkloadRequeued)
	})
	for _, name := range s.Nodes {
		s.Patch(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, `{"metadata":{"labels":{"example.com/large":"true"}}}`)
	}
	s.Patch(mc, `{"spec":{"suspend":true}}`)
	s.AwaitState(mc, v1alpha2.StateSuspended)
	s.Patch(mc, `{"spec":{"suspend":false}}`)
	s.AwaitState(mc, v1alpha2.StateRunning)
}
