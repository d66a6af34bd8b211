// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// quotaFor is quota of Kueue for so many brokers, since some time after noon.
func quotaFor(size int32, since time.Duration) *v1alpha2.Quota {
	return &v1alpha2.Quota{ClusterQueue: "cq", Workload: "wl", Size: size, Time: metav1.NewTime(fixture.Noon.Add(since))}
}

// offerQuota offers a MiniCluster with quota, which the cache shows too.
func (q *toy) offerQuota(w *fixture.MiniClusterWrapper, pod *corev1.Pod, quota *v1alpha2.Quota) elastic.Offer {
	mc := w.Defaulted()
	if q.line.entries[client.ObjectKeyFromObject(mc)] == nil {
		q.seen.miniClusters = append(q.seen.miniClusters, w.Obj())
	}
	return q.Offer(mc, pod, nil, quota)
}

// A MiniCluster without quota of Kueue gets no nodes in the queue of MiniClusters with quota, whether the queue exists or not.
func TestKueuesQueueIsForQuota(t *testing.T) {
	for name, queues := range map[string][]*v1alpha2.MiniClusterQueue{"no object": nil, "an object": {fixture.Queue(v1alpha2.KueueQueue).Obj()}} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t, "a")
			q.seen.queues = append(q.seen.queues, queues...)
			mc := fixture.MiniCluster("x").Queue(v1alpha2.KueueQueue)
			q.offer(mc)
			q.cycle()
			if got := q.offer(mc); got.Verdict != elastic.NotAllowed || !strings.HasPrefix(got.Message, "queue kueue is for MiniClusters with quota") {
				t.Errorf("without quota it is %s (%s)", got.Verdict, got.Message)
			}
			q.offerQuota(mc, wholeNode, &v1alpha2.Quota{Size: 1})
			q.cycle()
			if got := q.offerQuota(mc, wholeNode, &v1alpha2.Quota{Size: 1}); got.Verdict != elastic.Admitted {
				t.Errorf("with quota it is %s (%s)", got.Verdict, got.Message)
			}
		})
	}
}

// A MiniCluster with quota of Kueue waits in the queue of that name, at most at the size of the quota,
// and gets nodes that have the labels of its flavor and no taints but those that the flavor tolerates.
func TestSchedulerStaysWithinQuota(t *testing.T) {
	q := newQueue(t)
	gpu := func(name string) *fixture.NodeWrapper {
		return fixture.Node(name).Has(corev1.ResourceCPU, "8").Has(corev1.ResourcePods, "110").Label("pool", "gpu")
	}
	q.ledger.SetNode(gpu("gpu1").Taint("gpu", corev1.TaintEffectNoSchedule).Obj())
	q.ledger.SetNode(gpu("gpu2").Taint("gpu", corev1.TaintEffectNoSchedule).Obj())
	q.ledger.SetNode(gpu("gpu3").Taint("gpu", corev1.TaintEffectNoSchedule).Obj())
	q.ledger.SetNode(gpu("gpu4").Taint("broken", corev1.TaintEffectNoSchedule).Obj())
	for _, node := range fixture.Nodes("a", "b", "c", "d") {
		q.ledger.SetNode(node)
	}
	quota := quotaFor(3, 0)
	quota.NodeSelector = map[string]string{"pool": "gpu"}
	quota.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
	train := fixture.MiniCluster("train").Size(4).MinSize(1).Queue("other")
	q.offerQuota(train, wholeNode, quota)
	if queue := q.line.entries[client.ObjectKeyFromObject(train.Obj())].queue; queue != v1alpha2.KueueQueue {
		t.Errorf("it waits in queue %s", queue)
	}
	q.cycle()
	offer := q.offerQuota(train, wholeNode, quota)
	if offer.Verdict != elastic.Admitted || !slices.Equal(offer.Nodes, []string{"gpu1", "gpu2", "gpu3"}) {
		t.Errorf("it is offered %+v", offer)
	}
	if wholeNode.Spec.NodeSelector != nil || wholeNode.Spec.Tolerations != nil {
		t.Error("the pod was changed")
	}
}

// The nodes of a MiniCluster are those that Kueue assigned, with so many brokers on each, and not those
// that placement.topologyKey or the spread over nodes would choose. Other domains are other quota.
func TestSchedulerFollowsTheAssignment(t *testing.T) {
	q := newQueue(t)
	for i := range 6 {
		q.ledger.SetNode(fixture.Node(fmt.Sprintf("n%d", i)).Has(corev1.ResourceCPU, "16").Label("cloud.provider.com/topology-rack", fmt.Sprint(i/3)).Obj())
	}
	in := func(nodes string, brokers int32) *v1alpha2.Quota {
		quota := quotaFor(4, 0)
		quota.Topology = &v1alpha2.QuotaTopology{Levels: []string{corev1.LabelHostname}, Domains: []v1alpha2.QuotaDomains{{Values: nodes, Brokers: brokers}}}
		return quota
	}
	gang := fixture.MiniCluster("gang").Size(4).MinSize(2).Spec(func(s *v1alpha2.MiniClusterSpec) {
		s.Placement = v1alpha2.PlacementSpec{TopologyKey: "cloud.provider.com/topology-rack", Topology: v1alpha2.TopologyRequired}
	})
	for _, tc := range []struct {
		quota *v1alpha2.Quota
		want  []string
	}{
		{in("n[1,5]", 2), []string{"n1", "n1", "n5", "n5"}},
		{in("n[1-3]", 1), []string{"n1", "n2", "n3"}},
		{in("n4", 3), []string{"n4", "n4"}}, // there is no room for more
	} {
		q.offerQuota(gang, wholeNode, tc.quota)
		q.cycle()
		if got := q.offerQuota(gang, wholeNode, tc.quota); got.Verdict != elastic.Admitted || !slices.Equal(got.Nodes, tc.want) {
			t.Errorf("with quota in %s it is offered %+v", tc.quota.Topology.Domains[0].Values, got)
		}
	}
	if got := q.offerQuota(gang, wholeNode, in("n0", 4)); len(got.Nodes) > 0 {
		t.Errorf("what was decided about other domains is offered: %+v", got)
	}
}

// Quota that is granted anew is quota for other nodes, perhaps fewer: what was decided is void.
func TestSchedulerDecidesAnewAboutOtherQuota(t *testing.T) {
	q := newQueue(t, "a", "b", "c", "d")
	mc := fixture.MiniCluster("lmp").Size(4).MinSize(1)
	q.offerQuota(mc, wholeNode, quotaFor(4, 0))
	q.cycle()
	if got := q.offerQuota(mc, wholeNode, quotaFor(4, 0)); len(got.Nodes) != 4 {
		t.Fatalf("it is offered %+v", got)
	}
	if got := q.offerQuota(mc, wholeNode, quotaFor(2, time.Minute)); got.Verdict != "" || len(got.Nodes) > 0 {
		t.Errorf("the decision about other quota is taken for this one: %+v", got)
	}
	q.cycle()
	if got := q.offerQuota(mc, wholeNode, quotaFor(2, time.Minute)); len(got.Nodes) != 2 {
		t.Errorf("it is offered %+v", got)
	}
	if got := q.Offer(mc.Defaulted(), wholeNode, nil, nil); got.Verdict != "" {
		t.Errorf("without the label it is offered %+v", got)
	}
	if queue := q.line.entries[client.ObjectKeyFromObject(mc.Obj())].queue; queue != v1alpha2.DefaultQueue {
		t.Errorf("without the label it waits in queue %s", queue)
	}
}

// Kueue has put MiniClusters in order: the first that has quota is the first, whatever its age and
// priority.
func TestSchedulerFollowsTheOrderOfQuota(t *testing.T) {
	q := newQueue(t, "a", "b", "c")
	urgent := wholeNode.DeepCopy()
	urgent.Spec.Priority = new(int32(1000))
	first, second := fixture.MiniCluster("first").Size(2).Created(fixture.Noon.Add(time.Minute)), fixture.MiniCluster("second").Size(2)
	q.offerQuota(second, urgent, quotaFor(2, 2*time.Minute))
	q.offerQuota(first, wholeNode, quotaFor(2, time.Minute))
	q.cycle()
	if got := q.offerQuota(first, wholeNode, quotaFor(2, time.Minute)); got.Verdict != elastic.Admitted {
		t.Errorf("the first is offered %+v", got)
	}
	if got := q.offerQuota(second, urgent, quotaFor(2, 2*time.Minute)); got.Verdict != elastic.NoRoom {
		t.Errorf("the second is offered %+v", got)
	}
}

// Kueue alone takes nodes from MiniClusters with its quota: no other queue reclaims them, and no
// priority preempts them. Nor do they grow beyond their quota.
func TestSchedulerLeavesQuotaToKueue(t *testing.T) {
	for name, in := range map[string]string{"of another queue": "ours", "of their own": ""} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t, "a", "b", "c", "d")
			ours := strict("ours")
			ours.Spec.Weight = 9
			ours.Spec.Priority = 9
			q.seen.queues = append(q.seen.queues, ours)
			runs := fixture.MiniCluster("runs").Size(4).MinSize(1).MaxSize(6).Launcher().Grow().Admitted(1, 4, "a,b,c,d").Status(func(s *v1alpha2.MiniClusterStatus) {
				now := metav1.NewTime(fixture.Noon)
				s.StartTime, s.Queue, s.MaximumSize = &now, v1alpha2.KueueQueue, 6
				s.Admission.Requests, s.Admission.Quota = wholeNode.Spec.Containers[0].Resources.Requests, quotaFor(4, 0)
			})
			q.seen.miniClusters = append(q.seen.miniClusters, runs.Obj())
			urgent := wholeNode.DeepCopy()
			urgent.Spec.Priority = new(int32(1000))
			head := fixture.MiniCluster("head").Size(2).Queue(in)
			if in == "" {
				q.offerQuota(head, urgent, quotaFor(2, time.Minute))
			} else {
				q.seen.miniClusters = append(q.seen.miniClusters, head.Obj())
				q.Offer(head.Defaulted(), urgent, nil, nil)
			}
			q.cycle()
			if order := q.Order(runs.Obj(), wholeNode, nil); order != nil {
				t.Errorf("it is ordered %+v", order)
			}
			for _, node := range fixture.Nodes("e", "f", "g", "h") {
				q.ledger.SetNode(node)
			}
			q.cycle()
			if order := q.Order(runs.Obj(), wholeNode, nil); order != nil {
				t.Errorf("with room it is ordered %+v", order)
			}
		})
	}
}
