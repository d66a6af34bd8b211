// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
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
			if q.due.lookAgain.After(q.now.Add(leavesWithin)) || q.due.lookAgain.IsZero() {
				t.Errorf("the next cycle is at %s", q.due.lookAgain)
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

// Pods that stay on nodes that they gave back are no victims: whoever is to leave has to hold what a head needs.
func TestPodsThatStayAreNoVictims(t *testing.T) {
	urgent := wholeNode.DeepCopy()
	urgent.Spec.Priority = new(int32(10))
	for name, tc := range map[string]struct {
		nodes int32  // of the head
		order string // to x, and to y
	}{
		"another rank leaves":    {1, "elastic.Drain [1], <nil>"},
		"a whole gang leaves":    {2, "elastic.Evict, <nil>"},
		"two give what is there": {3, "elastic.Drain [1], elastic.Evict"},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t, "a", "b", "c", "d", "e")
			theirs := strict("theirs")
			theirs.Spec.Ordering = v1alpha2.OrderPriority
			q.seen.queues = append(q.seen.queues, theirs)
			runs := func(name, nodes, vacated string, size int) *v1alpha2.MiniCluster {
				mc := fixture.MiniCluster(name).Size(int32(size)).MinSize(1).Launcher().Queue("theirs").Created(fixture.Noon).Admitted(1, int32(size), nodes).Status(func(s *v1alpha2.MiniClusterStatus) {
					s.StartTime, s.Queue, s.Admission.Vacated = &metav1.Time{Time: fixture.Noon}, "theirs", vacated
					s.Admission.Requests = wholeNode.Spec.Containers[0].Resources.Requests
				})
				if name == "y" {
					mc = mc.MinSize(int32(size))
				}
				q.seen.miniClusters = append(q.seen.miniClusters, mc.Obj())
				return mc.Obj()
			}
			x, y := runs("x", "a,b,c", "2", 3), runs("y", "d,e", "", 2)
			for rank, node := range []string{"a", "b", "c"} {
				q.ledger.SetPod(fixture.BrokerPod("x", rank).CPU("8").On(node).Obj())
			}
			q.cycle()
			q.now = q.now.Add(leavesWithin)
			q.offerOf(fixture.MiniCluster("head").Size(tc.nodes).Queue("theirs"), urgent)
			q.cycle()
			ofX, _ := q.ledger.OrderOf(x.UID)
			ofY, _ := q.ledger.OrderOf(y.UID)
			if got := fmt.Sprintf("%s, %s", orderText(ofX), orderText(ofY)); got != tc.order {
				t.Errorf("%s, want %s", got, tc.order)
			}
		})
	}
}

func orderText(order elastic.Order) string {
	if drain, ok := order.(elastic.Drain); ok {
		return fmt.Sprintf("%T %v", order, drain.Ranks)
	}
	return fmt.Sprintf("%T", order)
}

// A gang grows by a rank again once the pod that stays there has gone, or its Job: a pod of an earlier attempt is in nobody's
// way.
func TestNoGrowthWhereAPodStays(t *testing.T) {
	q := newQueue(t, "a", "b", "c")
	x := fixture.MiniCluster("x").Size(2).MinSize(1).Launcher().Created(fixture.Noon).Admitted(1, 2, "a,b").Status(func(s *v1alpha2.MiniClusterStatus) {
		s.StartTime, s.Queue, s.Admission.Vacated = &metav1.Time{Time: fixture.Noon}, v1alpha2.DefaultQueue, "1"
		s.Admission.Requests = wholeNode.Spec.Containers[0].Resources.Requests
	}).Obj()
	q.seen.miniClusters = append(q.seen.miniClusters, x)
	stays := fixture.BrokerPod("x", 1).CPU("8").On("b").Obj()
	q.ledger.SetPod(fixture.BrokerPod("x", 0).CPU("8").On("a").Obj())
	q.ledger.SetPod(stays)
	job := &state.Maker{UID: stays.OwnerReferences[0].UID, MiniCluster: x.UID, Namespace: x.Namespace, Name: x.Name}
	q.ledger.SetMaker(job)
	q.Order(x, wholeNode, nil)
	q.cycle()
	q.now = q.now.Add(leavesWithin)
	for range 2 {
		q.cycle()
		if order, _ := q.ledger.OrderOf(x.UID); order != nil {
			t.Fatalf("it is to %+v", order)
		}
	}
	q.ledger.DeleteMaker(job.UID) // as with the attempt of the pod
	q.cycle()
	if order, _ := q.ledger.OrderOf(x.UID); orderText(order) != "elastic.Grow" {
		t.Errorf("it is to %+v", order)
	}
}
