// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
)

func withService(cpu string) func(*v1alpha2.MiniClusterSpec) {
	return func(s *v1alpha2.MiniClusterSpec) {
		s.Services = []v1alpha2.MiniClusterContainer{{Name: "db", Image: "db", Command: "serve"}}
		s.Services[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu)}
	}
}

// awaitService waits until the services pod runs, another one than those that are known.
func (s *site) awaitService(mc *v1alpha2.MiniCluster, known ...types.UID) *corev1.Pod {
	s.t.Helper()
	var found *corev1.Pod
	eventually(s.t, func() error {
		for _, pod := range s.pods(mc) {
			isKnown := len(known) > 0 && known[0] == pod.UID
			if protocol.Read(&pod).Services && pod.Status.Phase == corev1.PodRunning && !isKnown {
				found = &pod
				return nil
			}
		}
		return fmt.Errorf("no services pod of %s runs", mc.Name)
	})
	return found
}

// The services pod waits as long as the brokers do, takes its room from others, is made
// again, and ends with the lead.
func TestServices(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	first := s.create(s.miniCluster("first").Size(2).PodAnnotation(simulator.Runtime, "1h").Spec(withService("1")))
	service := s.awaitService(first)
	if service.Spec.Hostname != "first-services" || service.Spec.Subdomain != "first" || service.Labels[v1alpha2.RankLabel] != "services" {
		t.Errorf("its host is %s in %s, its labels are %v", service.Spec.Hostname, service.Spec.Subdomain, service.Labels)
	}
	s.await(first, "on three nodes", func(mc *v1alpha2.MiniCluster) bool {
		return state(mc) == v1alpha2.StateRunning && mc.Status.Nodes == 3 && mc.Status.Size == 2
	})

	if err := env.client.Status().Patch(s.ctx, service, client.RawPatch(types.MergePatchType, []byte(`{"status":{"phase":"Failed"}}`))); err != nil {
		t.Fatal(err)
	}
	s.awaitService(first, service.UID)
	if got := state(s.get(first)); got != v1alpha2.StateRunning {
		t.Errorf("after a services pod failed it is %s", got)
	}

	// The third node is not whole any more.
	second := s.create(s.miniCluster("second").PodAnnotation(simulator.Runtime, untilTold).Spec(withService("0")).Spec(needsScheduler))
	s.awaitState(second, v1alpha2.StateQueued)
	if pods := s.pods(second); len(pods) > 0 {
		t.Errorf("%d pods of a MiniCluster without nodes were made", len(pods))
	}
	s.delete(first)
	s.awaitService(second)
	s.endCommand(second)
	s.awaitSuccess(second)
	eventually(t, func() error {
		for _, pod := range s.pods(second) {
			if protocol.Read(&pod).Services {
				return fmt.Errorf("pod %s is still there: %s", pod.Name, pod.Status.Phase)
			}
		}
		return nil
	})
}
