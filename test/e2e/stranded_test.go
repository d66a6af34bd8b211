// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
)

// A node that stays down holds its pod. The next attempt begins on other nodes and ends there, and
// the pod ends when the node is back.
func TestNodeStaysDown(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4)
	mc := s.create(s.miniCluster("goes-on").Size(3).PodAnnotation(simulator.Runtime, untilTold).Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Elastic.OnLoss, spec.Elastic.Recreate.BackoffBase = v1alpha2.LossRecreate, duration("1s")
	}))
	s.awaitState(mc, v1alpha2.StateRunning)
	down := nodeOfRank(s, mc, 2)
	back := s.goDown(down)
	s.await(mc, "given up", func(mc *v1alpha2.MiniCluster) bool { return len(mc.Status.Attempts) == 1 })
	s.await(mc, "running again", func(mc *v1alpha2.MiniCluster) bool {
		return state(mc) == v1alpha2.StateRunning && mc.Status.Admission.Attempt == 2
	})
	if nodes := s.nodesOf(mc); slices.Contains(nodes, down) {
		t.Errorf("it runs on %v, and %s is down", nodes, down)
	}
	left := s.podsOn(mc, down)
	if len(left) != 1 || left[0].DeletionTimestamp == nil || mc.Status.Nodes != 4 {
		t.Errorf("%d pods are left on %s, and it holds %d nodes", len(left), down, mc.Status.Nodes)
	}
	s.endCommand(mc)
	s.awaitState(mc, v1alpha2.StateSucceeded)
	if left := s.podsOn(mc, down); len(left) != 1 {
		t.Errorf("%d pods are left on %s", len(left), down)
	}
	s.awaitDecisions(mc, map[string]int{"Admitted": 2, "Started": 2, "GaveUp": 1, "Succeeded": 1})
	back()
	s.delete(&left[0], client.GracePeriodSeconds(0)) // as its kubelet does; kwok does not know it any more
	eventually(t, func() error {
		if n := len(s.podsOn(mc, down)); n > 0 {
			return fmt.Errorf("%d pods on %s", n, down)
		}
		return nil
	})
	s.awaitSuccess(mc)
}

// podsOn are the pods of a MiniCluster that are bound to a node.
func (s *site) podsOn(mc *v1alpha2.MiniCluster, node string) []corev1.Pod {
	s.t.Helper()
	return slices.DeleteFunc(s.pods(mc), func(pod corev1.Pod) bool { return pod.Spec.NodeName != node })
}

// goDown takes a node from kwok, so that nothing ends its pods, and reports it as not ready. The
// node is back with the returned function, or when the test has ended.
func (s *site) goDown(name string) (back func()) {
	s.t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.patch(node, `{"metadata":{"labels":{"type":null}}}`)
	back = func() {
		s.t.Helper()
		s.patch(node, `{"metadata":{"labels":{"type":"simulated"}}}`)
		s.awaitReady(name, corev1.ConditionTrue)
	}
	s.t.Cleanup(back)
	const status = `{"status":{"conditions":[{"type":"Ready","status":"False","reason":"Down"}]}}`
	if err := env.client.Status().Patch(s.ctx, node, client.RawPatch(types.StrategicMergePatchType, []byte(status))); err != nil {
		s.t.Fatal(err)
	}
	s.awaitReady(name, corev1.ConditionFalse)
	return back
}

// awaitReady waits until the condition Ready of a node has a status, and a ready node has no taint.
func (s *site) awaitReady(name string, status corev1.ConditionStatus) {
	s.t.Helper()
	eventually(s.t, func() error {
		var node corev1.Node
		if err := env.client.Get(s.ctx, client.ObjectKey{Name: name}, &node); err != nil {
			return err
		}
		for _, c := range node.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == status && (status == corev1.ConditionFalse) == (len(node.Spec.Taints) > 0) {
				return nil
			}
		}
		return fmt.Errorf("node %s has the conditions %v and the taints %v", name, node.Status.Conditions, node.Spec.Taints)
	})
}
