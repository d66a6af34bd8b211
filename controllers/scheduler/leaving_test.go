// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

// Others wait for the nodes of a gang that leaves, but not for ever: whoever keeps its pods does not keep what a queue was
// guaranteed.
func TestOthersWaitForThoseThatLeave(t *testing.T) {
	for name, tc := range map[string]struct {
		leave func(q *toy, x *v1alpha2.MiniCluster)
		nodes int32 // that others wait for
	}{
		"it gave its nodes back, and its pods stay": {func(_ *toy, x *v1alpha2.MiniCluster) { x.Status.Admission = nil }, 2},
		"it gave one back, and the pod there stays": {func(_ *toy, x *v1alpha2.MiniCluster) { x.Status.Admission.Vacated = "1" }, 1},
		"it was deleted, and its pods stay": {func(q *toy, x *v1alpha2.MiniCluster) {
			q.seen.miniClusters = slices.DeleteFunc(q.seen.miniClusters, func(mc *v1alpha2.MiniCluster) bool { return mc.Name == x.Name })
		}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t, "a", "b", "c", "d")
			q.seen.queues = append(q.seen.queues, fixture.Queue("gold").Guarantee(corev1.ResourceCPU, "16").Obj())
			runs := func(name, nodes string) *v1alpha2.MiniCluster {
				mc := fixture.MiniCluster(name).Size(2).CPU("8").Created(fixture.Noon).Admitted(1, 2, nodes).Status(func(s *v1alpha2.MiniClusterStatus) {
					s.Queue, s.StartTime = v1alpha2.DefaultQueue, &metav1.Time{Time: fixture.Noon}
					s.Admission.Requests = corev1.ResourceList{corev1.ResourceCPU: wholeNode.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU]}
				}).Obj()
				q.seen.miniClusters = append(q.seen.miniClusters, mc)
				return mc
			}
			x, y := runs("x", "a,b"), runs("y", "c,d")
			for rank, node := range []string{"a", "b"} {
				q.ledger.SetPod(fixture.BrokerPod("x", rank).CPU("8").On(node).Obj())
			}
			q.cycle()
			i := slices.IndexFunc(q.seen.miniClusters, func(mc *v1alpha2.MiniCluster) bool { return mc.Name == "x" })
			tc.leave(q, q.seen.miniClusters[i])
			q.offer(fixture.MiniCluster("head").Size(tc.nodes).CPU("8").Queue("gold").Created(fixture.Noon.Add(2 * time.Minute)))
			q.cycle()
			if order, _ := q.ledger.OrderOf(y.UID); order != nil {
				t.Errorf("at once another is to %v", order)
			}
			if q.lookAgain.After(q.now.Add(leavesWithin)) || q.lookAgain.IsZero() {
				t.Errorf("the next cycle is at %s", q.lookAgain)
			}
			q.now = q.now.Add(leavesWithin)
			q.cycle()
			q.cycle()
			ofX, _ := q.ledger.OrderOf(x.UID) // what is left of it
			if ofY, _ := q.ledger.OrderOf(y.UID); ofX == nil && ofY == nil {
				t.Errorf("%s later no other gang is to leave; %s left", leavesWithin, x.Name)
			}
		})
	}
}
