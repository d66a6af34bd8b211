// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/quota"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// toy is a scheduler with a cluster that the cache shows.
type toy struct {
	*Scheduler
	t       *testing.T
	seen    clusterState
	quotas  []*corev1.ResourceQuota
	now     time.Time
	version int
	news    news // of the last cycle
}

func newQueue(t *testing.T, nodes ...string) *toy {
	t.Helper()
	q := &toy{Scheduler: New(nil, clock.RealClock{}, nil, nil), t: t, now: fixture.Noon.Add(time.Hour)}
	for _, node := range fixture.Nodes(nodes...) {
		q.ledger.SetNode(node)
	}
	q.seen.queues = []*v1alpha2.MiniClusterQueue{strict("default"), strict("other")}
	return q
}

// strict is a queue in which nobody passes another.
func strict(name string) *v1alpha2.MiniClusterQueue {
	queue := &v1alpha2.MiniClusterQueue{}
	queue.Name, queue.Spec.Backfill = name, v1alpha2.BackfillNone
	return queue
}

// pod is what one of the pods takes: a whole node.
var wholeNode = fixture.Pod("x").CPU("8").Obj()

// offer enters a MiniCluster, which the cache shows too.
func (q *toy) offer(w *fixture.MiniClusterWrapper) elastic.Offer { return q.offerOf(w, wholeNode) }

// offerOf enters a MiniCluster of such pods.
func (q *toy) offerOf(w *fixture.MiniClusterWrapper, pod *corev1.Pod) elastic.Offer {
	mc := w.Defaulted()
	known := slices.ContainsFunc(q.seen.miniClusters, func(other *v1alpha2.MiniCluster) bool { return other.Name == mc.Name })
	if !known {
		q.seen.miniClusters = append(q.seen.miniClusters, w.Obj())
	}
	return q.Offer(mc, pod, nil, nil)
}

// cycle runs one, and says which MiniClusters have a new decision.
func (q *toy) cycle() string {
	q.t.Helper()
	for i, mc := range q.seen.miniClusters { // each look is at another version
		q.seen.miniClusters[i] = mc.DeepCopy()
		q.version++
		q.seen.miniClusters[i].ResourceVersion = strconv.Itoa(q.version)
	}
	q.seen.quotas = quota.New(q.quotas)
	q.starts.pass(q.ledger.Unmade, q.now)
	news, err := q.Scheduler.cycle(q.t.Context(), &q.seen, q.now)
	if err != nil {
		q.t.Fatal(err)
	}
	q.news = news
	var names []string
	for _, name := range news.decided {
		names = append(names, name.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

func (q *toy) Offer(mc *v1alpha2.MiniCluster, pod, services *corev1.Pod, quota *v1alpha2.Quota) elastic.Offer {
	return q.Report(mc, state.Wants{Want: state.NodesNow, Pod: pod, Services: services, Quota: quota})
}

func (q *toy) Skip(mc *v1alpha2.MiniCluster) { q.Report(mc, state.Wants{}) }

func (q *toy) Refused(mc *v1alpha2.MiniCluster, pod *corev1.Pod, why string) elastic.Offer {
	return q.Report(mc, state.Wants{Want: state.NodesNow, Pod: pod, Refused: why})
}

func (q *toy) Forget(name types.NamespacedName) {
	q.Report(&v1alpha2.MiniCluster{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}, state.Wants{Want: state.Gone})
}

func (q *toy) Order(mc *v1alpha2.MiniCluster, pod *corev1.Pod, displaced []int) elastic.Order {
	return q.Scheduler.Order(mc, pod, displaced, nil)
}

// runs are the gangs with nodes, as the queue sees them.
func (q *toy) runs() []queue.Running {
	c := newCycle(q.parts, &q.seen, q.now)
	c.running()
	return c.Running
}

// show lets the cache show what is in a status.
func (q *toy) show(w *fixture.MiniClusterWrapper) {
	mc := w.Obj()
	for i, other := range q.seen.miniClusters {
		if other.Name == mc.Name {
			q.seen.miniClusters[i] = mc
		}
	}
}

func (q *toy) expect(w *fixture.MiniClusterWrapper, verdict elastic.Verdict, nodes ...string) {
	q.t.Helper()
	got := q.offer(w)
	if got.Verdict != verdict || !slices.Equal(got.Nodes, nodes) {
		q.t.Errorf("%s: %s %v (%s), want %s %v", w.Obj().Name, got.Verdict, got.Nodes, got.Message, verdict, nodes)
	}
}

var (
	first  = fixture.MiniCluster("first").Size(2).Created(fixture.Noon)
	second = fixture.MiniCluster("second").Size(2).Created(fixture.Noon.Add(time.Minute))
)

func TestSchedulerDecides(t *testing.T) {
	q := newQueue(t, "a", "b", "c")
	q.expect(second, "")
	q.expect(first, "")
	if changed := q.cycle(); changed != "first second" {
		t.Errorf("new decisions about %q", changed)
	}
	q.expect(first, elastic.Admitted, "a", "b")
	q.expect(second, elastic.NoRoom)
	if changed := q.cycle(); changed != "" {
		t.Errorf("new decisions about %q, though nothing happened", changed)
	}
}

func TestSchedulerAssumesItsDecisions(t *testing.T) {
	q := newQueue(t, "a", "b", "c", "d")
	q.offer(first)
	q.cycle()
	q.expect(first, elastic.Admitted, "a", "b")

	// The cache does not show it yet: its nodes are taken nevertheless, and the
	// decision stays.
	q.offer(second)
	q.cycle()
	q.expect(second, elastic.Admitted, "c", "d")
	q.expect(first, elastic.Admitted, "a", "b")

	// Shown in status, it is not assumed any more, but holds.
	q.show(fixture.MiniCluster("first").Size(2).Admitted(1, 2, "a,b"))
	q.Skip(second.Obj())
	third := fixture.MiniCluster("third").Size(3).Created(fixture.Noon.Add(time.Hour))
	q.offer(third)
	q.cycle()
	q.expect(third, elastic.NoRoom)
}

func TestSchedulerForgets(t *testing.T) {
	q := newQueue(t, "a", "b")
	q.offer(first)
	q.cycle()
	q.offer(second)
	q.cycle()
	q.expect(second, elastic.NoRoom)

	q.seen.miniClusters = q.seen.miniClusters[1:] // first was deleted
	q.Forget(client.ObjectKeyFromObject(first.Obj()))
	q.cycle()
	q.expect(second, elastic.Admitted, "a", "b")
}

func TestSchedulerDecidesAnewAboutAnotherSpec(t *testing.T) {
	q := newQueue(t, "a", "b", "c")
	q.offer(first)
	q.cycle()
	larger := fixture.MiniCluster("first").Size(3).Obj()
	larger.Generation = 2
	larger.Default()
	if got := q.Offer(larger, wholeNode, nil, nil); got.Verdict != "" {
		t.Errorf("the decision about the old spec is taken for the new one: %+v", got)
	}
	q.cycle()
	if got := q.Offer(larger, wholeNode, nil, nil); !slices.Equal(got.Nodes, []string{"a", "b", "c"}) {
		t.Errorf("got %+v", got)
	}
}

// How long it has been blocked is not forgotten by a restart or for another spec, but in another
// queue.
func TestSchedulerRemembersTheBlocked(t *testing.T) {
	large := fixture.MiniCluster("large").Size(2).Created(fixture.Noon)
	since := fixture.Noon.Add(10 * time.Minute)
	for _, tc := range []struct {
		queue string
		want  time.Time
	}{{"default", since}, {"other", fixture.Noon.Add(time.Hour)}} {
		restarted := newQueue(t, "a", "b")
		restarted.ledger.SetPod(fixture.Pod("foreign").CPU("8").On("a").Obj())
		restarted.offer(fixture.MiniCluster("large").Size(2).Created(fixture.Noon).Status(func(s *v1alpha2.MiniClusterStatus) {
			s.Queue, s.BlockedSince = tc.queue, &metav1.Time{Time: since}
		}))
		restarted.cycle()
		if got := restarted.offer(large); got.Verdict != elastic.NoRoom || !got.Blocked.Equal(tc.want) {
			t.Errorf("in queue %s it was blocked, and is blocked since %s in queue default (%s)", tc.queue, got.Blocked, got.Verdict)
		}
	}
}

// After a restart MiniClusters are checked in any order: none is passed by a
// younger one before.
func TestSchedulerWaitsForOlderOnes(t *testing.T) {
	suspended := fixture.MiniCluster("z-suspended").Spec(func(s *v1alpha2.MiniClusterSpec) { s.Suspend = true })
	finished := fixture.MiniCluster("z-finished").Condition(v1alpha2.ConditionFinished, metav1.ConditionTrue, v1alpha2.ReasonSucceeded)
	for name, tc := range map[string]struct {
		older *fixture.MiniClusterWrapper
		want  elastic.Verdict
	}{
		"one that may come":     {first, ""},
		"one of another queue":  {fixture.MiniCluster("other").Queue("other"), elastic.Admitted},
		"one that is suspended": {suspended, elastic.Admitted},
		"one that is done":      {finished, elastic.Admitted},
		"one that runs":         {fixture.MiniCluster("runs").Admitted(1, 1, "c"), elastic.Admitted},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t, "a", "b", "c")
			older := tc.older.Obj()
			if older.Spec.Queue == "" {
				older.Spec.Queue = v1alpha2.DefaultQueue
			}
			q.seen.miniClusters = append(q.seen.miniClusters, older)
			q.offer(second)
			q.cycle()
			if got := q.offer(second); got.Verdict != tc.want {
				t.Errorf("got %+v, want %q", got, tc.want)
			}
		})
	}
}

// Nobody waits for long for one that nobody can look at, and not at all in a queue that is not for its namespace.
func TestSchedulerWaitsForNoSlowCheck(t *testing.T) {
	q := newQueue(t, "a", "b", "c")
	q.seen.miniClusters = append(q.seen.miniClusters, fixture.MiniCluster("a-older").Queue(v1alpha2.DefaultQueue).Obj())
	q.offer(second)
	q.cycle()
	q.expect(second, "")
	if until := q.now.Add(checkedWithin); !q.news.lookAgain.Equal(until) {
		t.Errorf("the next look is at %s, want %s", q.news.lookAgain, until)
	}
	q.now = q.now.Add(checkedWithin - time.Second)
	q.cycle()
	q.expect(second, "")
	q.now = q.now.Add(time.Second)
	q.cycle()
	q.expect(second, elastic.Admitted, "a", "b")

	q = newQueue(t, "a", "b", "c")
	q.seen.queues[0].Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "physics"}}
	q.ledger.NamespaceLabels = func(namespace string) labels.Set {
		return map[string]labels.Set{fixture.Namespace: {"team": "physics"}}[namespace]
	}
	stranger := fixture.MiniCluster("a-older").Queue(v1alpha2.DefaultQueue).Obj()
	stranger.Namespace = "stranger"
	q.seen.miniClusters = append(q.seen.miniClusters, stranger)
	q.offer(second)
	q.cycle()
	q.expect(second, elastic.Admitted, "a", "b")
}

// One that was looked at and does not wait (it is refused, it gives nodes back, it
// could not be checked) holds up nobody, and those behind it hear of it.
func TestSchedulerSkips(t *testing.T) {
	q := newQueue(t, "a", "b", "c")
	older := fixture.MiniCluster("a-older").Queue(v1alpha2.DefaultQueue).Obj()
	q.seen.miniClusters = append(q.seen.miniClusters, older)
	q.offer(second)
	q.cycle()
	q.expect(second, "")
	<-q.due.kick
	q.Skip(older)
	select {
	case <-q.due.kick:
	default:
		t.Error("nobody hears of it")
	}
	q.cycle()
	q.expect(second, elastic.Admitted, "a", "b")
	q.Skip(older)
	if len(q.due.kick) > 0 {
		t.Error("it is news a second time")
	}
	// Another of the name has to be looked at anew.
	again := older.DeepCopy()
	again.UID = "another"
	q.seen.miniClusters[len(q.seen.miniClusters)-1] = again
	third := fixture.MiniCluster("third").Size(1).Created(fixture.Noon.Add(time.Hour))
	q.offer(third)
	q.cycle()
	q.expect(third, "")
}

func TestSchedulerSeesPodsOfOthers(t *testing.T) {
	q := newQueue(t, "a", "b", "c")
	q.ledger.SetPod(fixture.Pod("other").CPU("1").On("a").Up().Obj())
	q.offer(first)
	q.cycle()
	q.expect(first, elastic.Admitted, "b", "c")
}

// fromTheEnd gives gangs the last nodes that have room.
func fromTheEnd(graph *fluxion.Graph, gang fluxion.Gang) (fluxion.Placement, *fluxion.Refusal) {
	placement, refusal := graph.MatchGang(gang)
	rooms := graph.Rooms(gang)
	for i := range placement.Nodes {
		placement.Nodes[i] = graph.Name(rooms[len(rooms)-len(placement.Nodes)+i].Node)
	}
	return placement, refusal
}

func TestSchedulerAsksItsMatcher(t *testing.T) {
	q := newQueue(t)
	q.Scheduler = New(nil, clock.RealClock{}, nil, fromTheEnd)
	for _, node := range fixture.Nodes("a", "b", "c") {
		q.ledger.SetNode(node)
	}
	q.offer(first)
	q.offer(second)
	q.cycle()
	q.expect(first, elastic.Admitted, "b", "c")
	q.expect(second, elastic.NoRoom)
	if got, want := q.offer(second).Message, "needs room for 2 brokers of 8 cpu each; 1 of 3 nodes has room now for 1: 2 in use; it fits once 1 job has ended"; got != want {
		t.Errorf("it is told %q, want %q", got, want)
	}
}

// A kick is not lost, and never blocks.
func TestSchedulerWakes(t *testing.T) {
	q := newQueue(t, "a")
	for range 100 {
		q.offer(first)
		q.Forget(types.NamespacedName{Namespace: fixture.Namespace, Name: "first"})
	}
	if len(q.due.kick) != 1 {
		t.Errorf("%d kicks are waiting, want 1", len(q.due.kick))
	}
}

// A MiniCluster is deleted, is suspended or fails before its pods were made: nobody gets its nodes until the Job is gone that
// may still make them, if the API server would bind them. One whose pods were seen gives its nodes back at once.
func TestSchedulerExpectsPods(t *testing.T) {
	gone := func(q *toy) { q.seen.miniClusters = nil }
	finished := func(q *toy) {
		q.show(fixture.MiniCluster("first").Size(2).Condition(v1alpha2.ConditionFinished, metav1.ConditionTrue, v1alpha2.ReasonSucceeded))
	}
	lead := &state.Maker{
		UID: "uid-job-first-0-0", MiniCluster: "uid-first", Namespace: fixture.Namespace, Name: "first",
		Pods: []elastic.Pod{{Rank: 0, Node: "a"}}, Requests: state.Requests(wholeNode),
	}
	for name, tc := range map[string]struct {
		mayBind bool
		end     func(q *toy)
		waits   bool
	}{
		"deleted": {true, gone, true},
		"suspended": {true, func(q *toy) {
			q.show(fixture.MiniCluster("first").Size(2).Spec(func(s *v1alpha2.MiniClusterSpec) { s.Suspend = true }))
		}, true},
		"finished": {true, finished, true},
		"finished, and its pod was there": {true, func(q *toy) {
			pod := fixture.BrokerPod("first", 0).CPU("8").On("a").Obj()
			pod.OwnerReferences[0].UID = lead.UID
			q.ledger.SetPod(pod)
			pod.Status.Phase = corev1.PodSucceeded
			q.ledger.SetPod(pod)
			finished(q)
		}, false},
		"with pods that wait": {false, gone, false},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t, "a", "b")
			q.MayBind = func() bool { return tc.mayBind }
			q.seen.miniClusters = append(q.seen.miniClusters, fixture.MiniCluster("first").Size(2).Admitted(1, 2, "a,b").Obj())
			q.ledger.SetMaker(lead)
			q.cycle()
			tc.end(q)
			q.offer(second)
			q.cycle()
			if tc.waits {
				q.expect(second, elastic.NoRoom)
				q.ledger.DeleteMaker(lead.UID)
				q.due.changed = true
				q.cycle()
				q.expect(second, elastic.NoRoom) // pods may come after the news of their Job's end
				q.now = q.now.Add(time.Minute)
				q.cycle()
			}
			q.expect(second, elastic.Admitted, "a", "b")
		})
	}
}
