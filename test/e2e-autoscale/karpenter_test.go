// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2eautoscale

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/localcluster"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// Nodes with a taint of their start are coming, and are used once somebody removes the taint.
func TestStartupTaints(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	taint := corev1.Taint{Key: "example.com/driver", Value: "missing", Effect: corev1.TaintEffectNoSchedule}
	s.pool(func(p *localcluster.NodePool) { p.StartupTaints = []corev1.Taint{taint} })
	s.queue("batch", 2, nil)
	mc := s.create(s.miniCluster("gang", "batch").Size(2))
	nodes := s.awaitNodes(2)
	for i := range nodes {
		node := &nodes[i]
		harness.Eventually(t, func() error { // until it lacks nothing else
			if err := s.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(node), node); err != nil {
				return err
			}
			if len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != taint.Key {
				return fmt.Errorf("node %s has the taints %v", node.Name, node.Spec.Taints)
			}
			return nil
		})
		if i == 0 {
			s.awaitVerdict(mc, "", "Waits for 2 more nodes")
		}
		s.Patch(node, `{"spec":{"taints":null}}`)
	}
	s.AwaitState(mc, v1alpha2.StateRunning)
	s.succeed(mc)
}

// Karpenter leaves the nodes of a running gang, though they are not as its NodePool says any more. It says why.
func TestRunningGangsStay(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.pool(nil)
	s.queue("batch", 2, nil)
	mc := s.create(s.miniCluster("gang", "batch").Size(2))
	s.AwaitState(mc, v1alpha2.StateRunning)
	pool := objectOf(poolKind)
	pool.SetName(s.pools[0])
	s.Patch(pool, `{"spec":{"template":{"metadata":{"labels":{"revision":"2"}}}}}`)
	harness.Eventually(t, func() error {
		list := listOf(claimKind)
		if err := s.Cluster.Client.List(s.Ctx, list, client.MatchingLabels{harness.SiteLabel: s.Namespace}); err != nil {
			return err
		}
		for i := range list.Items {
			if !hasCondition(&list.Items[i], "Drifted") {
				return fmt.Errorf("NodeClaim %s is as its NodePool says", list.Items[i].GetName())
			}
		}
		return nil
	})
	nodes := s.awaitNodes(2)
	harness.Eventually(t, func() error {
		var events corev1.EventList
		if err := s.Cluster.Client.List(s.Ctx, &events); err != nil {
			return err
		}
		blocked := map[string]bool{}
		for i := range events.Items {
			if e := &events.Items[i]; e.Reason == "DisruptionBlocked" {
				blocked[e.InvolvedObject.Name] = true
			}
		}
		for i := range nodes {
			if !blocked[nodes[i].Name] {
				return fmt.Errorf("Karpenter says nothing about node %s", nodes[i].Name)
			}
		}
		return nil
	})
	s.succeed(mc)
	s.awaitNodes(0) // an idle one is not left alone
}

// Karpenter taints a node that somebody deletes. A malleable gang leaves such a node with a warning, and goes on.
func TestDeletedNodesAreLeft(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.pool(func(p *localcluster.NodePool) { p.Limits = map[string]string{"cpu": "24"} }) // else Karpenter makes another, to which the gang grows
	s.queue("batch", 3, nil)
	mc := s.create(s.miniCluster("gang", "batch").Size(3).MinSize(2).Launcher())
	s.Await(mc, "running with three brokers", func(mc *v1alpha2.MiniCluster) bool {
		return harness.State(mc) == v1alpha2.StateRunning && mc.Status.Size == 3
	})
	nodes, err := state.Nodes(mc)
	if err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, s.nothingAsked)
	s.Kubectl("delete", "node", nodes[2], "--wait=false")
	s.Await(mc, "without the node", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.Admission.Vacated == "2" && mc.Status.Nodes == 2 })
	s.awaitNodes(2)
	if losses := mc.Status.Admission.Losses; losses > 0 {
		t.Errorf("it has lost %d brokers", losses)
	}
	s.succeed(mc)
	s.awaitNodes(0)
}

func hasCondition(object *unstructured.Unstructured, kind string) bool {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == kind && c["status"] == string(metav1.ConditionTrue) {
			return true
		}
	}
	return false
}

// While Karpenter is away, what runs goes on, what fits starts, and what lacks nodes waits for them. Without the API of
// CapacityBuffers, the reason says so. All go on when Karpenter is back.
func TestKarpenterAway(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	s := c.newSite(t)
	s.queue("batch", 8, nil)
	runs := s.create(s.miniCluster("runs", "batch").Size(2))
	s.AwaitState(runs, v1alpha2.StateRunning)
	if err := c.Kill(t.Context(), localcluster.KarpenterName); err != nil {
		t.Fatal(err)
	}
	waits := s.create(s.miniCluster("waits", "batch").Size(2))
	s.awaitVerdict(waits, v1alpha2.ReasonNodesRequested, "Waits for 2 more nodes (asked ")
	s.succeed(runs)
	s.AwaitState(waits, v1alpha2.StateRunning) // on the nodes of the other
	more := s.create(s.miniCluster("more", "batch").Size(3))
	s.awaitVerdict(more, v1alpha2.ReasonNodesRequested, "Waits for 3 more nodes")
	c.startKarpenter(t)
	s.AwaitState(more, v1alpha2.StateRunning)
	s.succeed(more)

	if err := c.Kill(t.Context(), localcluster.KarpenterName); err != nil {
		t.Fatal(err)
	}
	s.Kubectl("delete", "crd", "capacitybuffers.autoscaling.x-k8s.io")
	late := s.create(s.miniCluster("late", "batch").Size(6))
	s.awaitVerdict(late, "", "CapacityBuffer")
	c.startKarpenter(t)
	s.AwaitState(late, v1alpha2.StateRunning)
	s.succeed(waits, late)
}

// A queue that asks for nodes no longer, since a time at which no manager ran, keeps none asked for.
func TestQueueAsksNoLonger(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nil)
	s := c.newSite(t)
	if err := c.Kill(t.Context(), localcluster.KarpenterName); err != nil { // no node comes
		t.Fatal(err)
	}
	q := s.queue("batch", 8, nil)
	waits := s.create(s.miniCluster("waits", "batch").Size(2))
	s.awaitVerdict(waits, v1alpha2.ReasonNodesRequested, "Waits for 2 more nodes (asked ")
	c.manager.Stop()
	s.Patch(q, `{"spec":{"scaleUp":null}}`)
	if err := c.startManager(c.ManagerKubeconfig); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, s.nothingAsked)
	c.startKarpenter(t)
}
