// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2eautoscale

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/scaleup"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// Annotations of pods that use what a ProvisioningRequest provides.
const (
	consumes = "autoscaling.x-k8s.io/consume-provisioning-request"
	class    = "autoscaling.x-k8s.io/provisioning-class-name"
)

// byRequest lets a queue ask by ProvisioningRequests.
func byRequest(up *v1alpha2.ScaleUp) {
	up.Provider, up.Cooldown = v1alpha2.ProvideByRequest, &metav1.Duration{Duration: time.Hour}
}

// A gang runs on nodes that were provided by a ProvisioningRequest, which stays while the gang runs: its pods name the request. It
// asks for all nodes or none, and only as long as the queue waits.
func TestProvisioningRequest(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.newDouble(0, nil)
	q := s.queue("batch", 4, byRequest)
	s.setTimeout(q, "20m")
	mc := s.create(s.miniCluster("gang", "batch").Size(3))
	s.awaitVerdict(mc, v1alpha2.ReasonNodesFailed, "the node group has no more than 0 nodes")
	s.Delete(mc)
	s.AwaitGone(mc)

	d.most.Store(3)
	mc = s.create(s.miniCluster("gang", "batch").Size(3))
	s.AwaitState(mc, v1alpha2.StateRunning)
	r := d.request("provided", func(r *scaleup.Request) bool { return isTrue(r, "Provisioned") })
	if r.Spec.Class != v1alpha2.DefaultProvisioningClass || r.Spec.PodSets[0].Count != 3 || r.Spec.Parameters["ValidUntilSeconds"] != "1200" {
		t.Errorf("the request is %+v", r.Spec)
	}
	for _, pod := range s.Pods(mc) {
		if pod.Annotations[consumes] != r.Name || pod.Annotations[class] != v1alpha2.DefaultProvisioningClass {
			t.Errorf("pod %s has the annotations %v", pod.Name, pod.Annotations)
		}
	}
	s.succeed(mc)
	harness.Eventually(t, s.nothingAsked)

	second := s.create(s.miniCluster("second", "batch").Size(2)) // fits on what is there
	s.AwaitState(second, v1alpha2.StateRunning)
	s.succeed(second)
	if d.made != 3 {
		t.Errorf("%d nodes were made", d.made)
	}
}

// What the autoscaler says is the reason of the MiniCluster. If the autoscaler fails, or what it had provided is lost, an elastic gang
// asks for half, down to its least size, and pauses then.
func TestProvisioningRequestIsLost(t *testing.T) {
	t.Parallel()
	for condition, reason := range map[string]string{
		"Failed": v1alpha2.ReasonNodesFailed, "BookingExpired": v1alpha2.ReasonNodesExpired, "CapacityRevoked": v1alpha2.ReasonNodesRevoked,
	} {
		t.Run(condition, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			// The nodes of the double never become ready.
			d := s.newDouble(8, func(node *corev1.Node) { node.Labels["type"] = "never-ready" })
			s.queue("batch", 8, byRequest)
			mc := s.create(s.miniCluster("gang", "batch").Size(4).MinSize(2))
			s.awaitVerdict(mc, v1alpha2.ReasonNodesProvisioned, "Waits for 4 more nodes")
			for _, size := range []int32{4, 2} {
				r := d.request(fmt.Sprint("for ", size), func(r *scaleup.Request) bool { return r.Spec.PodSets[0].Count == size && isTrue(r, "Provisioned") })
				harness.Eventually(t, func() error { return d.say(s.Ctx, r, condition, metav1.ConditionTrue, "lost by the test") })
			}
			s.awaitVerdict(mc, reason, "lost by the test")
			harness.Eventually(t, func() error { // until it may ask again
				requests, err := s.requests(requestKind)
				if err == nil && len(requests) > 0 {
					err = fmt.Errorf("%s is still there", requests[0].Name)
				}
				return err
			})
		})
	}
}

// A policy that allows none of the objects by which the autoscaler is asked is told in its own words. Once the policy is gone, the
// nodes come.
func TestRefusedRequests(t *testing.T) {
	t.Parallel()
	request := objectOf(requestKind)
	request.Object["spec"] = map[string]any{
		"provisioningClassName": "a", "podSets": []any{map[string]any{"count": int64(1), "podTemplateRef": map[string]any{"name": "a"}}},
	}
	for _, tc := range []struct {
		group, resource string
		probe           client.Object
	}{
		{"", "podtemplates", &corev1.PodTemplate{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}}}}},
		{requestKind.Group, "provisioningrequests", request},
	} {
		t.Run(tc.resource, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.newDouble(2, nil)
			s.queue("batch", 2, byRequest)
			words := fmt.Sprintf("no %s today", tc.resource)
			tc.probe.SetNamespace(s.Namespace)
			tc.probe.SetName("probe")
			allow := s.Deny(tc.group, tc.resource, words, tc.probe)
			mc := s.create(s.miniCluster("gang", "batch").Size(2))
			s.awaitVerdict(mc, "", "for which the autoscaler cannot be asked: creating ")
			s.awaitVerdict(mc, "", words)
			allow()
			s.AwaitState(mc, v1alpha2.StateRunning)
			s.succeed(mc)
		})
	}
}

// Nodes that come without the shape asked for are no room. The gang gives up, and says so; the next one uses them.
func TestOtherNodesCome(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.newDouble(2, func(node *corev1.Node) { delete(node.Labels, "disk") })
	q := s.queue("batch", 2, func(up *v1alpha2.ScaleUp) {
		byRequest(up)
		up.Shapes[0].Labels["disk"] = "fast"
	})
	mc := s.create(s.miniCluster("picky", "batch").Size(2).Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.Pod.NodeSelector["disk"] = "fast" }))
	s.awaitNodes(2)
	s.awaitVerdict(mc, v1alpha2.ReasonNodesProvisioned, "Waits for 2 more nodes")
	s.setTimeout(q, "1s")
	s.awaitVerdict(mc, v1alpha2.ReasonNodesTimedOut, "")
	modest := s.create(s.miniCluster("modest", "batch").Size(2))
	s.AwaitState(modest, v1alpha2.StateRunning)
	s.succeed(modest)
}

// The class that only checks gets its parameters, and waits until there is room.
func TestCheckCapacity(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.newDouble(0, nil)
	s.queue("batch", 2, func(up *v1alpha2.ScaleUp) {
		byRequest(up)
		up.Class, up.Parameters = checkClass, map[string]string{"noRetry": "false"}
	})
	mc := s.create(s.miniCluster("gang", "batch").Size(1))
	s.awaitVerdict(mc, v1alpha2.ReasonNodesAccepted, "Waits for 1 more node")
	r := d.request("checked", func(r *scaleup.Request) bool { return len(r.Status.Conditions) == 2 })
	if r.Spec.Class != checkClass || len(r.Spec.Parameters) != 1 || r.Spec.Parameters["noRetry"] != "false" {
		t.Errorf("the request is %+v", r.Spec)
	}
	if err := d.makeNode(s.Ctx, nil); err != nil { // somebody else
		t.Fatal(err)
	}
	s.AwaitState(mc, v1alpha2.StateRunning)
	s.succeed(mc)
}

// A node that is to go is no room, also for pods that tolerate all taints.
func TestNodeThatIsToGo(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	d := s.newDouble(1, nil)
	s.queue("batch", 2, byRequest)
	mc := s.create(s.miniCluster("first", "batch").Size(1))
	s.AwaitState(mc, v1alpha2.StateRunning)
	s.succeed(mc)
	node := s.awaitNodes(1)[0]
	second := s.create(s.miniCluster("second", "batch").Size(1).Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Suspend = true
		spec.Pod.Tolerations = []v1alpha2.Toleration{{Operator: corev1.TolerationOpExists}}
	}))
	s.AwaitState(second, v1alpha2.StateSuspended)
	s.Patch(&node, `{"spec":{"taints":[{"key":%q,"value":"1","effect":"NoSchedule"}]}}`, leaving)
	d.most.Store(2)
	s.Patch(second, `{"spec":{"suspend":false}}`)
	s.AwaitState(second, v1alpha2.StateRunning)
	if on := second.Status.Admission.Nodes; on == node.Name || strings.Contains(on, ",") {
		t.Errorf("it runs on %s", on)
	}
	s.succeed(second)
}
