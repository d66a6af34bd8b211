// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2ekueue

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// Kueue counts the services pod, too. The pod runs on a node of its own flavor, and its quota goes back
// when the pod is gone.
func TestServicesPod(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	s.newPools()
	s.newQueue("team", 0, withFlavor("one", 8), withFlavor("rest", 16), s.withPlacement())
	mc := s.create(s.miniCluster("lmp").Size(2).Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Services = []v1alpha2.MiniClusterContainer{{Name: "db", Image: "db", Command: "serve"}}
		spec.Services[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("6")}
	}), "team")
	s.AwaitState(mc, v1alpha2.StateRunning)
	if pool := mc.Status.Admission.Quota.NodeSelector["pool"]; pool != "rest" || mc.Status.Admission.Quota.Size != 2 {
		t.Errorf("the brokers have %+v", mc.Status.Admission.Quota)
	}
	harness.Eventually(t, func() error { return s.servicesRun(mc, s.Nodes[0]) })
	next := s.newWorkload("next", "team", podSet("lead", 1, "4"))
	s.awaitCondition(next, kueueapi.WorkloadQuotaReserved, metav1.ConditionFalse) // two CPUs are free
	s.endCommand(mc)
	s.AwaitSuccess(mc)
	s.awaitCondition(s.workloadOf(mc), kueueapi.WorkloadFinished, metav1.ConditionTrue)
	s.awaitCondition(next, kueueapi.WorkloadQuotaReserved, metav1.ConditionTrue)
	if s.servicesRun(mc, s.Nodes[0]) == nil {
		t.Error("its quota was given away while it ran")
	}
}

// servicesRun reports whether the services pod of a MiniCluster runs on a node.
func (s *site) servicesRun(mc *v1alpha2.MiniCluster, node string) error {
	var pods corev1.PodList
	if err := s.Cluster.Client.List(s.Ctx, &pods, client.InNamespace(s.Namespace), client.MatchingLabels{v1alpha2.MiniClusterLabel: mc.Name}); err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if protocol.Read(pod).Services && pod.Status.Phase == corev1.PodRunning {
			if pod.Spec.NodeName != node {
				return harness.Final(fmt.Errorf("the services pod is on %s, not %s", pod.Spec.NodeName, node))
			}
			return nil
		}
	}
	return fmt.Errorf("no services pod of %s runs", mc.Name)
}
