// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
)

// Simulated pods say what a kubelet's would: the other tests rely on it.

// The lead's pod is ready while the command runs, others' from when they start.
// isReady reports whether a broker's container is ready.
func isReady(pod *corev1.Pod) bool { return protocol.Read(pod).Broker.Ready }

func TestSimulatedReadiness(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "other"}, Spec: corev1.PodSpec{
		NodeName: s.nodes[2], Containers: []corev1.Container{{Name: "app", Image: "app"}},
	}}
	if err := env.client.Create(s.ctx, other); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() error {
		if err := env.client.Get(s.ctx, client.ObjectKeyFromObject(other), other); err != nil {
			return final(err)
		}
		if statuses := other.Status.ContainerStatuses; len(statuses) == 0 || !statuses[0].Ready {
			return fmt.Errorf("the pod of others is %s, and not ready", other.Status.Phase)
		}
		return nil
	})
	s.delete(other, client.GracePeriodSeconds(0))

	mc := s.create(s.miniCluster("late").Size(2).PodAnnotation(simulator.NeverStart, "1").PodAnnotation(simulator.Runtime, "1h").
		Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.Elastic.QuorumTimeout = duration("10m") }))
	lead := s.awaitPod(mc, 0, "running", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning })
	if container := lead.Status.ContainerStatuses[0]; isReady(lead) || container.Ready || *container.Started || container.State.Running == nil {
		t.Errorf("before the command runs the lead's pod says %+v", lead.Status)
	}
	s.letStart(mc, 1)
	lead = s.awaitPod(mc, 0, "ready", isReady)
	if container := lead.Status.ContainerStatuses[0]; !container.Ready || !*container.Started || container.State.Running == nil {
		t.Errorf("the lead's pod is ready, and its container says %+v", container)
	}
	s.patch(lead, `{"metadata":{"annotations":{%q:"Test"}}}`, v1alpha2.StopAnnotation)
	lead = s.awaitPod(mc, 0, "failed", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodFailed })
	if ended := lead.Status.ContainerStatuses[0].State.Terminated; ended == nil || ended.ExitCode != 143 || isReady(lead) {
		t.Errorf("a lead that was told to stop says %+v", lead.Status)
	}
}

// Pods that are to cannot start on a node, and the lead's init container fails where it
// is to.
func TestSimulatedFaults(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4)
	waits := func(pod *corev1.Pod) bool {
		return pod.Status.Phase == corev1.PodPending && len(pod.Status.ContainerStatuses) == 1 && pod.Status.ContainerStatuses[0].State.Waiting != nil
	}
	hasReason := func(pod *corev1.Pod, reason string) {
		t.Helper()
		if got := pod.Status.ContainerStatuses[0].State.Waiting.Reason; got != reason || isReady(pod) {
			t.Errorf("%s waits for %q, want %q", pod.Name, got, reason)
		}
	}
	everywhere := s.create(s.miniCluster("no-image").PodAnnotation(simulator.CannotStart, "*"))
	somewhere := s.create(s.miniCluster("no-secret").Size(2).PodAnnotation(simulator.CannotStartReason, "CreateContainerConfigError"))
	hasReason(s.awaitPod(everywhere, 0, "waiting", waits), "ImagePullBackOff")
	s.delete(everywhere)
	s.awaitSuccess(somewhere) // no node is named

	fails := s.create(s.miniCluster("init-fails").Size(2).PodAnnotation(simulator.LeadFails, simulator.PhaseInit))
	lead := s.awaitPod(fails, 0, "failed", func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodFailed })
	if init := lead.Status.InitContainerStatuses[0].State.Terminated; init == nil || init.ExitCode != 1 {
		t.Errorf("the init container of the lead says %+v", lead.Status.InitContainerStatuses)
	}
	if main := lead.Status.ContainerStatuses[0].State.Waiting; main == nil || main.Reason != "PodInitializing" {
		t.Errorf("the container of the lead says %+v", lead.Status.ContainerStatuses)
	}

	named := s.create(s.miniCluster("bad-node").Size(4).PodAnnotation(simulator.CannotStart, s.nodes[1]+","+s.nodes[2]).
		PodAnnotation(simulator.CannotStartReason, "CreateContainerConfigError"))
	for rank := range 4 {
		pod := s.awaitPod(named, rank, "waiting or running", func(pod *corev1.Pod) bool { return waits(pod) || pod.Status.Phase == corev1.PodRunning })
		if node := pod.Spec.NodeName; waits(pod) != (node == s.nodes[1] || node == s.nodes[2]) {
			t.Errorf("on %s the pod is %s", node, pod.Status.Phase)
		}
		if waits(pod) {
			hasReason(pod, "CreateContainerConfigError")
		}
	}
}

// awaitPod waits until the pod of a rank is as it is expected to be.
func (s *site) awaitPod(mc *v1alpha2.MiniCluster, rank int, what string, holds func(*corev1.Pod) bool) *corev1.Pod {
	s.t.Helper()
	return s.shared.AwaitPod(mc, rank, what, holds)
}

// A pod of a node that went and came back ends once it is deleted, as on a real kubelet. Nothing depends on a Lease of the node:
// the garbage collector removes that of the node before whenever it comes to it.
func TestSimulatedNodeBack(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	name := s.nodes[0]
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "stays"}, Spec: corev1.PodSpec{
		NodeName: name, Containers: []corev1.Container{{Name: "app", Image: "app"}},
	}}
	s.shared.Create(pod)
	eventually(t, func() error {
		if err := env.client.Get(s.ctx, client.ObjectKeyFromObject(pod), pod); err != nil || pod.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("the pod is %s: %w", pod.Status.Phase, err)
		}
		return nil
	})
	s.takeNode(name)()
	s.awaitReady(name)
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name}}
	if err := client.IgnoreNotFound(env.client.Delete(s.ctx, lease)); err != nil {
		t.Fatal(err)
	}
	s.delete(pod)
	eventually(t, func() error {
		err := env.client.Get(s.ctx, client.ObjectKeyFromObject(pod), pod)
		if err == nil {
			return fmt.Errorf("the pod is still there, %s", pod.Status.Phase)
		}
		return client.IgnoreNotFound(err)
	})
}
