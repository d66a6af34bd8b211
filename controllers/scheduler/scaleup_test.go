// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/scaleup"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/internal/status"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

// autoscaler is asked by a test.
type autoscaler struct {
	barred  string
	problem string
	asked   map[string]*queue.Asked // by MiniCluster
	shapes  []state.Shape
}

func (a *autoscaler) Barred(v1alpha2.ScaleUpProvider) string { return a.barred }
func (a *autoscaler) Shapes() []state.Shape                  { return a.shapes }

func (a *autoscaler) Asked(name types.NamespacedName, _ types.UID) (*queue.Asked, string) {
	return a.asked[name.Name], a.problem
}

// onDemand is a scheduler whose default queue may have some nodes, and wait for others.
func onDemand(t *testing.T, maxNodes int32, nodes ...string) (*toy, *autoscaler) {
	t.Helper()
	q, a := newQueue(t, nodes...), &autoscaler{asked: map[string]*queue.Asked{}}
	q.Autoscaler = a
	q.seen.queues[0].Spec.Backfill = v1alpha2.BackfillConservative
	q.seen.queues[0].Spec.ScaleUp = &v1alpha2.ScaleUp{Provider: v1alpha2.ProvideByBuffer, MaxNodes: maxNodes}
	return q, a
}

// wishOf is what is to be asked for a MiniCluster; it is compared without its pod.
func (q *toy) wishOf(w *fixture.MiniClusterWrapper) (wish scaleup.Wish, placed, known bool) {
	mc := w.Obj()
	found, placed, known := q.Wish(client.ObjectKeyFromObject(mc), mc.UID)
	if found == nil {
		return wish, placed, known
	}
	return *found, placed, known
}

// A cycle asks for the nodes that a gang lacks, tells the autoscaler's controller and the status of the queue, and uses the
// nodes as soon as they are ready.
func TestSchedulerAsksForNodes(t *testing.T) {
	q, a := onDemand(t, 4, "a")
	if _, _, known := q.wishOf(first); known {
		t.Error("it is known what to ask before a cycle")
	}
	three := fixture.MiniCluster("first").Size(3).Created(fixture.Noon)
	q.offer(three)
	q.cycle()
	wish, placed, known := q.wishOf(three)
	if !known || placed || wish.Size != 3 || wish.Nodes != 2 || wish.Attempt != 1 || wish.Provider != v1alpha2.ProvideByBuffer || wish.MaxNodes != 4 || wish.Timeout != 10*time.Minute || wish.Pod == nil {
		t.Errorf("asked is %+v, %t, %t", wish, placed, known)
	}
	if len(q.news.asked) != 1 {
		t.Errorf("it is news for %v", q.news.asked)
	}
	report, _ := q.report("default")
	if got := status.Queue(q.seen.queues[0], report).ScaleUp; got == nil || *got != (v1alpha2.QueueScaleUp{MiniClusters: 1, Nodes: 2}) {
		t.Errorf("the status of the queue has %+v", got)
	}
	q.cycle()
	if len(q.news.asked) != 0 {
		t.Errorf("the same is news for %v", q.news.asked)
	}
	q.Wake(true)
	if q.cycle(); len(q.news.asked) != 1 {
		t.Errorf("when all is asked again, it is news for %v", q.news.asked)
	}

	a.asked["first"] = &queue.Asked{Attempt: 1, Size: 3, At: q.now, Verdict: elastic.NodesProvisioned}
	q.now = q.now.Add(40 * time.Second)
	late := fixture.Node("b").NotReady().Obj()
	late.CreationTimestamp = metav1.NewTime(q.now)
	q.ledger.SetNode(late)
	q.cycle()
	q.expect(three, elastic.NodesProvisioned)
	if message := q.offer(three).Message; message != "waits for 2 more nodes (asked 40 s ago, 1 is coming)" {
		t.Errorf("it %s", message)
	}
	for _, name := range []string{"b", "c"} {
		node := fixture.Node(name).Obj()
		node.CreationTimestamp = metav1.NewTime(q.now)
		q.ledger.SetNode(node)
	}
	q.cycle()
	q.expect(three, elastic.Admitted, "a", "b", "c")
	if _, placed, known = q.wishOf(three); !placed || !known {
		t.Errorf("with its nodes it is placed: %t, %t", placed, known)
	}
	if took := q.scaling.arrivals["default"]; took != 40*time.Second {
		t.Errorf("the nodes took %s", took)
	}
	if report, _ = q.report("default"); report.ScaleUp != nil {
		t.Errorf("the status of the queue still has %+v", report.ScaleUp)
	}
}

// A queue asks for nodes of its architecture. A change counts for a gang that waits. Pods that name one get that.
func TestSchedulerAsksForAnArchitecture(t *testing.T) {
	q, _ := onDemand(t, 4)
	own := fixture.Pod("x").CPU("8").Spec(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{corev1.LabelArchStable: "amd64"} }).Obj()
	for _, tc := range []struct {
		arch, want string
		mc         *fixture.MiniClusterWrapper
		pod        *corev1.Pod
	}{{"", "", first, wholeNode}, {"arm64", corev1.LabelArchStable + "=arm64", first, wholeNode}, {"arm64", "", second, own}} {
		q.seen.queues[0].Spec.Architecture = tc.arch
		q.offerOf(tc.mc, tc.pod)
		q.cycle()
		if wish, _, _ := q.wishOf(tc.mc); wish.Batch == nil || wish.Batch.String() != tc.want {
			t.Errorf("with %q it asks for nodes of %v, want %q", tc.arch, wish.Batch, tc.want)
		}
	}
}

// Nodes with a taint of their start are coming, and no room, also if the queue may have no others.
func TestSchedulerAwaitsStartupTaints(t *testing.T) {
	q, a := onDemand(t, 2)
	q.offer(first)
	q.cycle()
	a.asked["first"] = &queue.Asked{Attempt: 1, Size: 2, At: q.now, Verdict: elastic.NodesProvisioned}
	starting := func(name string) *fixture.NodeWrapper {
		return fixture.Node(name).Taint("example.com/driver", corev1.TaintEffectNoSchedule)
	}
	for _, name := range []string{"a", "b"} {
		node := starting(name).Obj()
		node.CreationTimestamp = metav1.NewTime(q.now)
		q.ledger.SetNode(node)
	}
	q.cycle()
	q.expect(first, elastic.NodesProvisioned)
	if message := q.offer(first).Message; message != "waits for 2 more nodes (asked just now, 2 are coming)" {
		t.Errorf("it %s", message)
	}
	if wish, _, _ := q.wishOf(first); wish.Size != 2 || wish.Coming != 2 {
		t.Errorf("asked is %+v", wish)
	}
	for _, name := range []string{"a", "b"} {
		q.ledger.SetNode(fixture.Node(name).Obj())
	}
	q.cycle()
	q.expect(first, elastic.Admitted, "a", "b")
}

// The average of how long nodes took follows the last ones, and the timeout bounds it.
func TestSchedulerLearnsArrivals(t *testing.T) {
	q, _ := onDemand(t, 4)
	of := &queue.Queue{Name: "default", ScaleUp: &queue.ScaleUp{Timeout: 3 * time.Minute}}
	if got := q.scaling.arrival(of); got != 90*time.Second {
		t.Errorf("with a short timeout nodes are expected after %s at first", got)
	}
	for _, took := range []time.Duration{time.Minute, 3 * time.Minute, 10 * time.Minute} {
		e := &entry{asked: &queue.Asked{At: q.now.Add(-took)}}
		e.queue = "default"
		q.scaling.noteArrival(e, q.now)
		e.asked.Until = q.now // it has given up, and got others' nodes
		q.scaling.noteArrival(e, q.now.Add(time.Hour))
	}
	if got := q.scaling.arrivals["default"]; got != 6*time.Minute {
		t.Errorf("nodes took %s", got)
	}
	if got := q.scaling.arrival(of); got != 3*time.Minute {
		t.Errorf("nodes are expected after %s, longer than one waits for them", got)
	}
}

// Nodes that gangs of other queues have do not count for maxNodes. Idle ones do, and so do the queue's own, also those that
// are shared with others.
func TestMaxNodesIsOfTheQueue(t *testing.T) {
	for name, tc := range map[string]struct {
		queue string // of the gang that runs on a and b
		want  elastic.Verdict
		nodes int
	}{
		"others have two nodes": {"other", elastic.NodesRequested, 1},
		"it has them itself":    {"default", elastic.NoRoom, 0},
	} {
		t.Run(name, func(t *testing.T) {
			q, _ := onDemand(t, 3, "a", "b", "c")
			runs := fixture.MiniCluster("runs").Size(2).Queue(tc.queue).Admitted(1, 2, "a,b").Status(func(s *v1alpha2.MiniClusterStatus) {
				s.Queue, s.Admission.Requests = tc.queue, wholeNode.Spec.Containers[0].Resources.Requests
			})
			q.seen.miniClusters = append(q.seen.miniClusters, runs.Obj())
			q.offer(second)
			q.cycle()
			if got := q.offer(second); got.Verdict != tc.want {
				t.Errorf("%s (%s)", got.Verdict, got.Message)
			}
			if wish, _, _ := q.wishOf(second); wish.Nodes != tc.nodes {
				t.Errorf("it asks for %d nodes", wish.Nodes)
			}
		})
	}
}

// The limit of a queue is named. Without an autoscaler the reason is, and nothing is asked.
func TestSchedulerNamesLimits(t *testing.T) {
	five := fixture.MiniCluster("five").Size(5)
	for name, tc := range map[string]struct {
		change func(*toy, *autoscaler)
		want   elastic.Verdict
		says   string
	}{
		"more than maxNodes":         {func(*toy, *autoscaler) {}, elastic.NeverFits, "queue default may ask for no more than 4 nodes (scaleUp.maxNodes)"},
		"a queue that asks for none": {func(q *toy, _ *autoscaler) { q.seen.queues[0].Spec.ScaleUp = nil }, elastic.NeverFits, "the whole cluster of 1 node has room for 1"},
		"an API that is not there":   {func(_ *toy, a *autoscaler) { a.barred = "the API server has no CapacityBuffers" }, elastic.NeverFits, "no CapacityBuffers"},
		"no autoscaler":              {func(q *toy, _ *autoscaler) { q.Autoscaler = nil }, elastic.NeverFits, "there is no autoscaler"},
		"a NodePool that is too small": {func(_ *toy, a *autoscaler) {
			a.shapes = []state.Shape{{Name: "small", Left: map[string]int64{"cpu": 16000}}}
		}, elastic.NeverFits, "node"},
		"a NodePool whose nodes brokers do not tolerate": {func(_ *toy, a *autoscaler) {
			a.shapes = []state.Shape{{Name: "gpu", Taints: fixture.Node("x").Taint("gpu", "NoSchedule").Obj().Spec.Taints}}
		}, elastic.NeverFits, "could hold a broker"},
	} {
		t.Run(name, func(t *testing.T) {
			q, a := onDemand(t, 4, "a")
			tc.change(q, a)
			q.offer(five)
			q.cycle()
			if got := q.offer(five); got.Verdict != tc.want || !strings.Contains(got.Message, tc.says) {
				t.Errorf("%s: %s", got.Verdict, got.Message)
			}
			if wish, _, _ := q.wishOf(five); wish.Size != 0 {
				t.Errorf("it asks for %+v", wish)
			}
		})
	}
}

// What was asked for a MiniCluster that lacks nothing any more is news, so that the object goes.
func TestSchedulerTellsOfWhatIsNotNeeded(t *testing.T) {
	q, a := onDemand(t, 4, "a", "b")
	a.asked["first"] = &queue.Asked{Attempt: 1, Size: 2, At: q.now}
	q.seen.queues[0].Spec.ScaleUp.MaxNodes = 1
	three := fixture.MiniCluster("first").Size(3).Created(fixture.Noon)
	q.offer(three)
	q.cycle()
	if !slices.Contains(q.news.asked, client.ObjectKeyFromObject(three.Obj())) {
		t.Errorf("it is news for %v", q.news.asked)
	}
	if wish, placed, known := q.wishOf(three); wish.Size != 0 || placed || !known {
		t.Errorf("it asks for %+v, %t, %t", wish, placed, known)
	}
}

// A problem with the API server is in the verdict of the MiniCluster.
func TestSchedulerTellsWhyAskingFails(t *testing.T) {
	q, a := onDemand(t, 4)
	a.problem = "creating PodTemplate: forbidden"
	q.offer(first)
	q.cycle()
	if got := q.offer(first); !strings.Contains(got.Message, a.problem) {
		t.Errorf("%s: %s", got.Verdict, got.Message)
	}
}

// What was asked for a MiniCluster stays while the MiniCluster cannot be decided on, and goes once it does not wait.
func TestSchedulerPostponesWishes(t *testing.T) {
	q, _ := onDemand(t, 4, "a")
	three := fixture.MiniCluster("first").Size(3).Created(fixture.Noon)
	for _, before := range []string{"as after a restart", "after a cycle"} {
		q.Report(three.Defaulted(), state.Wants{Want: state.NodesLater})
		if _, _, known := q.wishOf(three); known {
			t.Errorf("%s it is known what to ask for one that is postponed", before)
		}
		q.Skip(three.Defaulted())
		if wish, placed, known := q.wishOf(three); !known || placed || wish.Size != 0 {
			t.Errorf("%s one that does not wait asks for %+v, %t, %t", before, wish, placed, known)
		}
		q.offer(three)
		q.cycle()
		if wish, _, known := q.wishOf(three); !known || wish.Size != 3 {
			t.Errorf("%s it asks for %+v, %t", before, wish, known)
		}
	}
}
