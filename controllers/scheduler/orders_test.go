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
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// A queue below its share gets it back: surplus first, and then whole gangs.
func TestSchedulerReclaims(t *testing.T) {
	q := newQueue(t, "a", "b", "c", "d", "e", "f", "g", "h")
	ours, theirs := strict("ours"), strict("theirs")
	ours.Spec.Weight = 3
	q.seen.queues = append(q.seen.queues, ours, theirs)
	started := func(s *v1alpha2.MiniClusterStatus) {
		now := metav1.NewTime(fixture.Noon)
		s.StartTime, s.Queue = &now, "theirs"
		s.Admission.Requests = wholeNode.Spec.Containers[0].Resources.Requests
	}
	sweep := fixture.MiniCluster("sweep").Size(4).MinSize(2).Launcher().Queue("theirs").Admitted(1, 4, "a,b,c,d").Status(started)
	job := fixture.MiniCluster("job").Size(4).Queue("theirs").Admitted(1, 4, "e,f,g,h").Status(started)
	q.offer(fixture.MiniCluster("head").Size(6).Queue("ours"))
	q.seen.miniClusters = append(q.seen.miniClusters, sweep.Obj(), job.Obj())
	q.cycle()
	if order, drains := q.Order(sweep.Obj(), wholeNode, nil).(elastic.Drain); !drains || len(order.Ranks) != 2 {
		t.Errorf("sweep is ordered %+v", order)
	}
	if order, evicts := q.Order(job.Obj(), wholeNode, nil).(elastic.Evict); !evicts || order.Reason != v1alpha2.ReasonReclaimed {
		t.Errorf("job is ordered %+v", order)
	}
}

// Gangs move off nodes that are about to go, if their commands can go on elsewhere.
func TestSchedulerClearsNodesThatGo(t *testing.T) {
	started := func(s *v1alpha2.MiniClusterStatus) {
		now := metav1.NewTime(fixture.Noon)
		s.StartTime, s.Admission.Requests = &now, wholeNode.Spec.Containers[0].Resources.Requests
	}
	saves := func(s *v1alpha2.MiniClusterSpec) {
		s.Elastic.Checkpoint = &v1alpha2.Checkpoint{Signal: "SIGUSR1", Wait: &metav1.Duration{Duration: time.Minute}}
	}
	sweep := fixture.MiniCluster("sweep").Size(3).MinSize(2).Launcher().Admitted(1, 3, "a,b,c").Status(started)
	saver := fixture.MiniCluster("saver").Size(2).Spec(saves).Admitted(1, 2, "d,e").Status(started)
	rigid := fixture.MiniCluster("rigid").Size(1).Admitted(1, 1, "f").Status(started)
	onNodes := func(change func(*fixture.NodeWrapper) *fixture.NodeWrapper) func(*toy) {
		return func(q *toy) {
			for _, node := range []string{"b", "e", "f"} {
				q.due.changed = false
				if q.setNode(change(fixture.Node(node)).Obj()); !q.due.changed {
					t.Error("no cycle is asked for")
				}
			}
		}
	}
	cordoned := onNodes((*fixture.NodeWrapper).Cordoned)
	reserved := func(minutes int, queue string) func(*toy) {
		return func(q *toy) {
			q.seen.reservations = append(q.seen.reservations, q.reservation("maintenance", minutes).Nodes("b", "e", "f").Queue(queue).Obj())
		}
	}
	const moves = "sweep: [1], saver: NodesGo, rigid: "
	for name, tc := range map[string]struct {
		change func(*toy)
		want   string
	}{
		"Karpenter removes them": {
			onNodes(func(w *fixture.NodeWrapper) *fixture.NodeWrapper {
				return w.Taint("karpenter.sh/disrupted", corev1.TaintEffectNoSchedule)
			}), moves,
		},
		"they are cordoned, and gangs leave such nodes":       {func(q *toy) { q.UseNodes(labels.Everything(), true); cordoned(q) }, moves},
		"they are reserved for nobody in a minute":            {reserved(1, ""), moves},
		"in two minutes, when there is time for a checkpoint": {reserved(2, ""), "sweep: , saver: NodesGo, rigid: "},
		"later":                           {reserved(3, ""), "sweep: , saver: , rigid: "},
		"for the MiniClusters of a queue": {reserved(1, "other"), "sweep: , saver: , rigid: "},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t, "a", "b", "c", "d", "e", "f", "g")
			q.seen.miniClusters = append(q.seen.miniClusters, sweep.Obj(), saver.Obj(), rigid.Obj())
			orders := func() string {
				var out []string
				for _, w := range []*fixture.MiniClusterWrapper{sweep, saver, rigid} {
					text := w.Obj().Name + ": "
					switch order := q.Order(w.Obj(), wholeNode, nil).(type) {
					case elastic.Drain:
						text += fmt.Sprint(order.Ranks)
					case elastic.Evict:
						text += order.Reason
					}
					out = append(out, text)
				}
				return strings.Join(out, ", ")
			}
			q.cycle()
			if got, want := orders(), "sweep: , saver: , rigid: "; got != want {
				t.Fatalf("before, they are ordered %s", got)
			}
			tc.change(q)
			q.cycle()
			if got := orders(); got != tc.want {
				t.Errorf("they are ordered %s, want %s", got, tc.want)
			}
		})
	}
}

// A cycle is due when gangs have to leave nodes for a reservation.
func TestSchedulerClearsNodesInTime(t *testing.T) {
	q := newQueue(t, "a", "b")
	q.seen.miniClusters = append(q.seen.miniClusters, fixture.MiniCluster("runs").Admitted(1, 1, "a").Obj())
	made := q.reservation("maintenance", 60).Nodes("a").Obj()
	q.seen.reservations = append(q.seen.reservations, made)
	q.cycle()
	if want := made.Spec.From.Add(-time.Minute); !q.due.lookAgain.Equal(want) {
		t.Errorf("the next look is at %s, want %s", q.due.lookAgain, want)
	}
}

// A gang whose node begins to go while its status does not show its nodes yet, is moved as soon as it does.
func TestSchedulerClearsNodesOfThoseThatStart(t *testing.T) {
	q := newQueue(t, "a", "b")
	starts := fixture.MiniCluster("starts").Size(1)
	q.offer(starts)
	q.cycle()
	q.expect(starts, elastic.Admitted, "a")
	q.setNode(fixture.Node("a").Taint("karpenter.sh/disrupted", corev1.TaintEffectNoSchedule).Obj())
	q.cycle()
	if !q.due.owed {
		t.Error("its status will ask for no cycle")
	}
	q.show(fixture.MiniCluster("starts").Size(1).Admitted(1, 1, "a"))
	q.cycle()
	if order := q.Order(starts.Obj(), wholeNode, nil); order == nil {
		t.Error("it stays")
	}
}

// Nodes that were given back are on their way as long as pods are on them: nobody is
// evicted for somebody who gets these.
func TestSchedulerAwaitsPodsThatLeave(t *testing.T) {
	q := newQueue(t, "a", "b", "c", "d")
	urgent := wholeNode.DeepCopy()
	urgent.Spec.Priority = new(int32(1000))
	sweep := fixture.MiniCluster("sweep").Size(4).MinSize(2).Launcher().Admitted(1, 4, "a,b,c,d").Vacated("2-3").Status(func(s *v1alpha2.MiniClusterStatus) {
		now := metav1.NewTime(fixture.Noon)
		s.StartTime, s.Admission.Requests = &now, wholeNode.Spec.Containers[0].Resources.Requests
	})
	leaves := fixture.BrokerPod("sweep", 2).CPU("8").On("c").Up().Leaving().Obj()
	head := fixture.MiniCluster("head").Size(2)
	q.seen.miniClusters = append(q.seen.miniClusters, sweep.Obj(), head.Obj())
	q.ledger.SetPod(leaves)
	q.Offer(head.Defaulted(), urgent, nil, nil)
	q.cycle()
	if order := q.Order(sweep.Obj(), wholeNode, nil); order != nil {
		t.Errorf("sweep is ordered %+v", order)
	}
	q.expect(head, elastic.NoRoom)
	before := q.ledger.Freed()
	q.ledger.DeletePod(leaves.UID)
	if q.ledger.Freed() == before {
		t.Error("nothing was freed")
	}
	q.cycle()
	q.expect(head, elastic.Admitted, "c", "d")
}

// Cycles are for what may change a decision.
func TestWhatMatters(t *testing.T) {
	queued := fixture.MiniCluster("x").Size(4).MinSize(1)
	admitted := fixture.MiniCluster("x").Size(4).MinSize(1).Admitted(1, 4, "a,b,c,d")
	leaving := fixture.MiniCluster("x").Size(4).MinSize(1).Admitted(1, 4, "a,b,c,d").Draining("3", fixture.Noon)
	shrunk := fixture.MiniCluster("x").Size(4).MinSize(1).Admitted(1, 4, "a,b,c,d").Vacated("3")
	started := func(w *v1alpha2.MiniClusterStatus) {
		later := metav1.NewTime(fixture.Noon.Add(time.Second))
		w.StartTime = &later
	}
	growing := func(s *v1alpha2.MiniClusterStatus) { s.MaximumSize = 6 }
	running := fixture.MiniCluster("x").Size(4).MinSize(1).Admitted(1, 4, "a,b,c,d").Status(started)
	limited := fixture.MiniCluster("x").Size(4).MinSize(1).Deadline(60).Admitted(1, 4, "a,b,c,d")
	ends := fixture.MiniCluster("x").Size(4).MinSize(1).Deadline(60).Admitted(1, 4, "a,b,c,d").Status(started)
	for name, tc := range map[string]struct {
		before, after *fixture.MiniClusterWrapper
		owed, want    bool
	}{
		"it wrote down what it was given": {queued, admitted, false, false},
		"and there is an order for it":    {queued, admitted, true, true},
		"it gave its nodes back":          {admitted, queued, false, true},
		"ranks were asked to leave":       {admitted, leaving, false, false},
		"ranks gave theirs back":          {leaving, shrunk, false, true},
		"it grew":                         {shrunk, admitted, false, true},
		"it started":                      {admitted, running, false, false},
		"it started, and may grow": {
			fixture.MiniCluster("x").Size(4).MaxSize(6).Launcher().Grow().Admitted(1, 4, "a,b,c,d").Status(growing),
			fixture.MiniCluster("x").Size(4).MaxSize(6).Launcher().Grow().Admitted(1, 4, "a,b,c,d").Status(growing).Status(started), false, true,
		},
		"it started, below its size": {
			fixture.MiniCluster("x").Size(6).Launcher().Admitted(1, 4, "a,b,c,d").Status(growing),
			fixture.MiniCluster("x").Size(6).Launcher().Admitted(1, 4, "a,b,c,d").Status(growing).Status(started), false, true,
		},
		"it started, and may not grow": {
			fixture.MiniCluster("x").Size(4).MaxSize(6).Launcher().Admitted(1, 4, "a,b,c,d").Status(growing),
			fixture.MiniCluster("x").Size(4).MaxSize(6).Launcher().Admitted(1, 4, "a,b,c,d").Status(growing).Status(started), false, false,
		},
		"it may grow now": {
			fixture.MiniCluster("x").Size(4).MaxSize(6).Launcher().Admitted(1, 4, "a,b,c,d").Status(growing),
			fixture.MiniCluster("x").Size(4).MaxSize(6).Launcher().Grow().Admitted(1, 4, "a,b,c,d").Status(growing), false, true,
		},
		"it started, and ends later than thought": {limited, ends, false, true},
		"its size was changed while it waits":     {queued, fixture.MiniCluster("x").Size(2).MinSize(1), false, false}, // its own pass tells
		"its size was changed while it runs":      {running, fixture.MiniCluster("x").Size(6).MinSize(1).Admitted(1, 4, "a,b,c,d").Status(started), false, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := New(nil, clock.RealClock{}, nil, nil)
			s.due.owed = tc.owed
			q := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			s.miniClusters().Update(t.Context(), event.UpdateEvent{ObjectOld: tc.before.Obj(), ObjectNew: tc.after.Obj()}, q)
			if s.due.changed != tc.want || (q.Len() > 0) != tc.want {
				t.Errorf("a cycle is asked for: %t, want %t", s.due.changed, tc.want)
			}
		})
	}
}

// A pod that cannot be bound gets another node, the lead's too, and ranks that gave theirs
// back none.
func TestSchedulerRepairs(t *testing.T) {
	for name, tc := range map[string]struct {
		mc    *fixture.MiniClusterWrapper
		stuck int
	}{
		"the lead":       {fixture.MiniCluster("x").Size(3).Admitted(1, 3, "a,d,e"), 0},
		"a follower":     {fixture.MiniCluster("x").Size(3).Admitted(1, 3, "a,d,e"), 1},
		"beside vacated": {fixture.MiniCluster("x").Size(4).MinSize(1).Admitted(1, 4, "a,b,d,e").Vacated("1"), 3},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t, "a", "b", "c", "d", "e")
			mc := tc.mc.Status(func(s *v1alpha2.MiniClusterStatus) {
				s.Admission.Requests = wholeNode.Spec.Containers[0].Resources.Requests
			}).Obj()
			q.seen.miniClusters = append(q.seen.miniClusters, mc)
			q.Order(mc, wholeNode, []int{tc.stuck})
			q.cycle()
			order, moves := q.Order(mc, wholeNode, []int{tc.stuck}).(elastic.Move)
			free := []string{"b", "c"}
			if !moves || len(order.Pods) != 1 || order.Pods[0].Rank != tc.stuck || !slices.Contains(free, order.Pods[0].Node) {
				t.Errorf("it is ordered %+v", order)
			}
		})
	}
}

// One that was deleted before it was forgotten is no trouble for the others.
func TestSchedulerOutlivesItsEntries(t *testing.T) {
	q := newQueue(t, "a", "b")
	gone := fixture.MiniCluster("gone").Size(2).Created(fixture.Noon.Add(-time.Minute))
	q.offer(gone)
	q.offer(first)
	q.seen.miniClusters = q.seen.miniClusters[1:]
	q.cycle()
	q.expect(first, elastic.Admitted, "a", "b")
}

// The pods of one that was deleted are on their way: nobody is evicted for what they hold.
func TestSchedulerKnowsThePodsOfTheDeleted(t *testing.T) {
	q := newQueue(t, "a", "b", "c", "d")
	urgent := wholeNode.DeepCopy()
	urgent.Spec.Priority = new(int32(1000))
	admit := func(name, nodes string) *v1alpha2.MiniCluster {
		return fixture.MiniCluster(name).Size(2).Admitted(1, 2, nodes).Status(func(s *v1alpha2.MiniClusterStatus) {
			s.Admission.Requests = wholeNode.Spec.Containers[0].Resources.Requests
		}).Obj()
	}
	deleted, other := admit("deleted", "a,b"), admit("other", "c,d")
	q.seen.miniClusters = append(q.seen.miniClusters, other, deleted)
	for rank, node := range []string{"a", "b"} {
		q.ledger.SetPod(fixture.BrokerPod("deleted", rank).CPU("8").On(node).Up().Leaving().Obj())
	}
	q.cycle()
	q.seen.miniClusters = q.seen.miniClusters[:1]
	head := fixture.MiniCluster("head").Size(2)
	q.seen.miniClusters = append(q.seen.miniClusters, head.Obj())
	q.Offer(head.Defaulted(), urgent, nil, nil)
	q.cycle()
	if order := q.Order(other, wholeNode, nil); order != nil {
		t.Errorf("other is ordered %+v", order)
	}
	for rank := range 2 {
		q.ledger.DeletePod(fixture.BrokerPod("deleted", rank).Obj().UID)
	}
	q.cycle()
	q.expect(head, elastic.Admitted, "a", "b")
	if len(q.catalog.known) != 2 {
		t.Errorf("%d MiniClusters are known", len(q.catalog.known))
	}
}

// A delete event is the only news of a MiniCluster that is deleted in the background. The cycle
// that follows frees the nodes of its promise.
func TestSchedulerForgetsTheDeleted(t *testing.T) {
	q := newQueue(t, "a", "b")
	runs := fixture.MiniCluster("runs").Size(2).Admitted(1, 2, "a,b").Status(func(s *v1alpha2.MiniClusterStatus) {
		s.Admission.Requests = wholeNode.Spec.Containers[0].Resources.Requests
	}).Obj()
	q.seen.miniClusters = append(q.seen.miniClusters, runs)
	q.offer(first)
	q.cycle()
	q.expect(first, elastic.NoRoom)
	due := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	q.miniClusters().Delete(t.Context(), event.DeleteEvent{Object: runs}, due)
	q.Forget(client.ObjectKeyFromObject(runs))
	if due.Len() == 0 || !q.due.changed {
		t.Fatal("no cycle is asked for")
	}
	q.seen.miniClusters = q.seen.miniClusters[1:]
	q.cycle()
	q.expect(first, elastic.Admitted, "a", "b")
}

// resourceQuota is the quota of a namespace for one resource, and what is used of it.
func resourceQuota(name corev1.ResourceName, hard, used string) []*corev1.ResourceQuota {
	quota := &corev1.ResourceQuota{}
	quota.Name, quota.Namespace = "two", fixture.Namespace
	quota.Spec.Hard = corev1.ResourceList{name: resource.MustParse(hard)}
	quota.Status.Hard = quota.Spec.Hard
	quota.Status.Used = corev1.ResourceList{name: resource.MustParse(used)}
	return []*corev1.ResourceQuota{quota}
}

// A quota that has room for one of two lets in one.
func TestSchedulerKeepsQuotas(t *testing.T) {
	q := newQueue(t, "a", "b", "c", "d")
	q.quotas = resourceQuota("pods", "2", "0")
	q.offer(first)
	q.offer(second)
	q.cycle()
	q.expect(first, elastic.Admitted, "a", "b")
	q.expect(second, elastic.QuotaExceeded)
}

// A quota counts a pod before the cache shows the pod, and the pod is kept for, too, until the cache shows it. Nothing else
// may tell of that, so the quota is looked at again.
func TestSchedulerLooksAtQuotasAgain(t *testing.T) {
	q := newQueue(t, "a", "b", "c", "d")
	q.quotas = resourceQuota("pods", "4", "0")
	q.offer(first)
	q.cycle()
	q.expect(first, elastic.Admitted, "a", "b")
	q.quotas = resourceQuota("pods", "4", "2")
	q.seen.made = map[types.UID]int{"uid-first": 1}
	q.offer(second)
	q.cycle()
	q.expect(second, elastic.QuotaExceeded)
	if want := q.now.Add(quotaInterval); !q.due.lookAgain.Equal(want) {
		t.Fatalf("the next look is at %s, want %s", q.due.lookAgain, want)
	}
	q.now, q.seen.made = q.due.lookAgain, map[types.UID]int{"uid-first": 2}
	q.cycle()
	q.expect(second, elastic.Admitted, "c", "d")
}

// special is a pod to which admission added a node selector and a toleration.
func special() *corev1.Pod {
	return fixture.Pod("x").CPU("8").Spec(func(s *corev1.PodSpec) {
		s.NodeSelector = map[string]string{"runtime": "special"}
		s.Tolerations = []corev1.Toleration{{Key: "special", Operator: corev1.TolerationOpExists}}
	}).Obj()
}

// newSpecialQueue is a cluster of which such pods can use b, c, d and e alone.
func newSpecialQueue(t *testing.T) *toy {
	t.Helper()
	q := newQueue(t, "a")
	for _, name := range []string{"b", "c", "d", "e"} {
		q.ledger.SetNode(fixture.Node(name).Label("runtime", "special").Taint("special", corev1.TaintEffectNoSchedule).Obj())
	}
	return q
}

// runsOn is a MiniCluster whose command runs on b and c, and grows onto idle nodes.
func runsOn(most int32) *fixture.MiniClusterWrapper {
	return fixture.MiniCluster("x").Size(2).MaxSize(most).Launcher().Grow().Admitted(1, 2, "b,c").Status(func(s *v1alpha2.MiniClusterStatus) {
		now := metav1.NewTime(fixture.Noon)
		s.StartTime, s.MaximumSize, s.Admission.Requests = &now, most, wholeNode.Spec.Containers[0].Resources.Requests
	})
}

// A MiniCluster grows and moves to nodes that its pods can use after admission by the API server,
// also after a restart.
func TestSchedulerKeepsWhatAdmissionAdded(t *testing.T) {
	for name, offered := range map[string]bool{"from its check": true, "after a restart": false} {
		t.Run(name, func(t *testing.T) {
			q := newSpecialQueue(t)
			waits := fixture.MiniCluster("x").Size(2).MaxSize(4).Launcher().Grow()
			pod := special()
			if offered {
				q.seen.miniClusters = append(q.seen.miniClusters, waits.Obj())
				q.Offer(waits.Defaulted(), pod, nil, nil)
				q.cycle()
				if got := q.Offer(waits.Defaulted(), pod, nil, nil).Nodes; !slices.Equal(got, []string{"b", "c"}) {
					t.Fatalf("it is offered %v", got)
				}
				q.Skip(runsOn(4).Obj()) // it took them, and its entry is gone before a cycle
				q.show(runsOn(4))
				pod = nil
			} else {
				q.seen.miniClusters = append(q.seen.miniClusters, runsOn(4).Obj())
				q.cycle()
				if order := q.Order(runsOn(4).Obj(), nil, nil); order != nil {
					t.Errorf("before a pod of it is known it is ordered %+v", order)
				}
				q.Order(runsOn(4).Obj(), pod, nil)
			}
			q.cycle()
			order, grows := q.Order(runsOn(4).Obj(), pod, nil).(elastic.Grow)
			if want := []elastic.Pod{{Rank: 2, Node: "d"}, {Rank: 3, Node: "e"}}; !grows || !slices.Equal(order.Pods, want) {
				t.Errorf("it is ordered %+v, want to grow by %v", order, want)
			}
		})
	}
}

// A MiniCluster with quota from Kueue grows as far as it may ask for quota. A lower limit, after Kueue
// refused that, takes the nodes back.
func TestSchedulerLimitsGrowth(t *testing.T) {
	q := newSpecialQueue(t)
	mc := runsOn(4).Status(func(s *v1alpha2.MiniClusterStatus) { s.Admission.Quota = &v1alpha2.Quota{Size: 2} })
	q.seen.miniClusters = append(q.seen.miniClusters, mc.Obj())
	q.Order(mc.Obj(), special(), nil)
	grows := func() int {
		q.cycle()
		order, _ := q.Order(mc.Obj(), special(), nil).(elastic.Grow)
		return len(order.Pods)
	}
	if n := grows(); n != 0 {
		t.Errorf("before its limit is known it grows by %d", n)
	}
	for _, step := range []struct{ limit, want int }{{2, 0}, {3, 1}, {2, 0}, {5, 2}} {
		q.Scheduler.Order(mc.Obj(), nil, nil, &step.limit)
		if n := grows(); n != step.want {
			t.Errorf("to at most %d it grows by %d, want %d", step.limit, n, step.want)
		}
	}
}

// A pod of such a MiniCluster that cannot be bound moves to a node that it can use.
func TestSchedulerRepairsWithWhatAdmissionAdded(t *testing.T) {
	q := newSpecialQueue(t)
	q.seen.miniClusters = append(q.seen.miniClusters, runsOn(2).Obj())
	q.Order(runsOn(2).Obj(), special(), []int{1})
	q.cycle()
	order, moves := q.Order(runsOn(2).Obj(), special(), []int{1}).(elastic.Move)
	if !moves || len(order.Pods) != 1 || order.Pods[0] != (elastic.Pod{Rank: 1, Node: "d"}) {
		t.Errorf("it is ordered %+v", order)
	}
}

// A MiniCluster that the API server refused because of a quota gets no nodes. It is checked again
// once the quotas may have room, and not before.
func TestSchedulerChecksRefusedAgain(t *testing.T) {
	const why = "the pods would be refused: exceeded quota: two"
	for name, tc := range map[string]struct {
		before, same, after []*corev1.ResourceQuota
	}{
		"pods have ended":                       {resourceQuota("pods", "2", "2"), resourceQuota("pods", "2", "1"), resourceQuota("pods", "2", "0")},
		"the quota has grown":                   {resourceQuota("pods", "2", "2"), resourceQuota("pods", "2", "2"), resourceQuota("pods", "4", "2")},
		"the quota is gone":                     {resourceQuota("pods", "2", "2"), resourceQuota("pods", "2", "2"), nil},
		"the quota of other objects has grown":  {resourceQuota("services", "0", "0"), resourceQuota("services", "0", "1"), resourceQuota("services", "1", "0")},
		"the quota of other objects is no more": {resourceQuota("services", "0", "0"), resourceQuota("services", "0", "1"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t, "a", "b")
			mc := first.Defaulted()
			q.seen.miniClusters = append(q.seen.miniClusters, first.Obj())
			refused := func(verdict elastic.Verdict) {
				t.Helper()
				if got := q.Refused(mc, wholeNode, why); got.Verdict != verdict || len(got.Nodes) > 0 || (verdict != "" && got.Message == "") {
					t.Errorf("the offer is %+v", got)
				}
			}
			q.quotas = tc.before
			refused("")
			for _, quotas := range [][]*corev1.ResourceQuota{tc.before, tc.same} {
				q.quotas = quotas
				q.cycle()
				refused(elastic.QuotaExceeded)
				if _, _, freed := q.Place(mc); !freed.IsZero() {
					t.Fatal("the check is repeated without need")
				}
			}
			q.quotas = tc.after
			if told := q.cycle(); !strings.HasPrefix(told, "first") {
				t.Errorf("told %q", told)
			}
			_, _, freed := q.Place(mc)
			refused(elastic.QuotaExceeded)
			told := q.cycle()
			if _, _, then := q.Place(mc); freed.IsZero() || then != freed {
				t.Errorf("freed at %s, and then at %s; told %q", freed, then, told)
			}
			q.offer(first) // the check passed
			q.cycle()
			q.expect(first, elastic.Admitted, "a", "b")
		})
	}
}
