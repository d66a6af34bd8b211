// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	goruntime "runtime"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

// foreignOf is the source of foreign pods of a queue.
func foreignOf(q *toy) *foreignPods {
	return &foreignPods{
		scheduler: q.Scheduler, synced: make(chan struct{}),
		isDaemon: func(pod *corev1.Pod) bool { return isDaemon(context.Background(), q.Cache, pod) },
		queue:    workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]()),
	}
}

// decoded is a pod as a client gets it, which shares nothing with others.
func decoded(tb testing.TB, text string) *corev1.Pod {
	tb.Helper()
	pod := &corev1.Pod{}
	if err := json.Unmarshal([]byte(text), pod); err != nil {
		tb.Fatal(err)
	}
	return pod
}

const ordinaryPod = `{"metadata": {"name": "web-%[1]d", "namespace": "shop", "uid": "b9d0c1de-0000-4000-8000-%012[1]d",
	"labels": {"app": "web", "pod-template-hash": "5d4f8c7b9"}, "annotations": {"note": "a text that nobody reads"},
	"ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-5d4f8c7b9", "uid": "c0", "controller": true}]},
	"spec": {"nodeName": "node-%[2]d", "containers": [{"name": "web", "image": "registry.example.com/web:1",
	"resources": {"requests": {"cpu": "100m", "memory": "128Mi"}}}]}, "status": {"phase": "Running"}}`

// 300,000 pods of others take less than 300 MB: 1,000 bytes each.
func TestForeignPodsTakeLittleMemory(t *testing.T) {
	const pods = 5000
	q := newQueue(t)
	f := foreignOf(q)
	heap := func() int64 {
		var stats goruntime.MemStats
		goruntime.GC()
		goruntime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	before := heap()
	for i := range pods {
		if err := f.Add(decoded(t, fmt.Sprintf(ordinaryPod, i, i%1000))); err != nil {
			t.Fatal(err)
		}
	}
	each := (heap() - before) / pods
	t.Logf("%d bytes for each pod", each)
	if each > 1000 {
		t.Errorf("a foreign pod takes %d bytes", each)
	}
	goruntime.KeepAlive(q)
}

// The ledger follows the lists and events of foreign pods.
func TestForeignPods(t *testing.T) {
	q := newQueue(t, "a", "b")
	q.ledger.SetMiniCluster(fixture.MiniCluster("x").Size(1).Obj())
	f := foreignOf(q)
	pod := func(name, node string) *corev1.Pod { return fixture.Pod(name).CPU("8").On(node).Obj() }
	free := func(what string, want int) {
		t.Helper()
		room, err := q.ledger.Room(func(string) (state.Ask, bool) { return state.Request(first.Defaulted(), wholeNode, nil, nil), true })
		if err != nil {
			t.Fatal(err)
		}
		fits := room.Fits("one", 10)
		if fits != want {
			t.Errorf("%s: %d nodes are free, want %d", what, fits, want)
		}
	}
	select {
	case <-f.synced:
		t.Error("it is synced before the first list")
	default:
	}
	transformed, err := f.Transformer()(pod("p", "a"))
	if err != nil {
		t.Fatal(err)
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	check(f.Replace([]any{transformed, pod("r", "b")}, "1"))
	<-f.synced
	free("a list", 0)
	check(f.Update(fixture.Pod("r").CPU("8").On("b").Ended(0).Obj()))
	free("a pod ends", 1)
	check(f.Add(pod("s", "b")))
	free("a pod comes", 0)
	check(f.Delete(pod("s", "b")))
	free("a pod goes", 1)
	ours := fixture.BrokerPod("x", 0).CPU("8").On("b").Obj()
	q.ledger.SetPod(ours)
	check(f.Replace(nil, "2"))
	free("another list is without it, and ours stays", 1)

	// The label of a pod comes: one watch shows the pod, and the other one does not any more.
	check(f.Add(pod("p", "a")))
	labelled := pod("p", "a")
	labelled.Labels[v1alpha2.MiniClusterLabel], labelled.Labels[v1alpha2.UIDLabel] = "x", "uid-x"
	q.ledger.SetPod(labelled)
	check(f.Delete(pod("p", "a")))
	free("a pod that was labelled", 0)
	q.ledger.Gone(pod("p", "a"))
	q.ledger.Gone(labelled)
	free("it is gone", 1)
	if held := q.ledger.Holds(types.UID("uid-x")); len(held) != 1 {
		t.Errorf("x holds %v", held)
	}
}

// A pod belongs to a DaemonSet only if that one exists.
func TestIsDaemon(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	there := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: fixture.Namespace, Name: "there", UID: "uid-daemonset-there"}}
	cache := fake.NewClientBuilder().WithScheme(scheme).WithObjects(there).Build()
	replaced := fixture.Pod("p").OfDaemonSet("there").Obj()
	replaced.OwnerReferences[0].UID = "before"
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want bool
	}{
		"of a DaemonSet":                {fixture.Pod("p").OfDaemonSet("there").Obj(), true},
		"of one that does not exist":    {fixture.Pod("p").OfDaemonSet("missing").Obj(), false},
		"of one that was replaced":      {replaced, false},
		"of one in another namespace":   {fixture.Pod("p").OfDaemonSet("there").In("elsewhere").Obj(), false},
		"of another kind":               {fixture.Pod("p").Controller("apps/v1", "Deployment", "there").Obj(), false},
		"of a DaemonSet of others' API": {fixture.Pod("p").Controller("example.com/v1", "DaemonSet", "there").Obj(), false},
		"without an owner":              {fixture.Pod("p").Obj(), false},
	} {
		if got := isDaemon(t.Context(), cache, tc.pod); got != tc.want {
			t.Errorf("a pod %s is a daemon: %t", name, got)
		}
	}
}

// What pods of others free delays nobody and asks for no cycle at once, unless a gang that waits can use a
// node of those.
func TestOnlyUsefulNodesSettle(t *testing.T) {
	for name, tc := range map[string]struct {
		left, waits string // a pod that stays on the node, and the CPUs of the gang that waits
		want        bool
	}{
		"a whole node is free": {left: "1", waits: "7", want: true},
		"too little is left":   {left: "2", waits: "7"},
		"nobody waits":         {left: "1"},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t, "a", "b")
			f := foreignOf(q)
			t.Cleanup(f.queue.ShutDown)
			for pod, node := range map[string]string{"stays": "a", "full": "b"} {
				cpus := map[string]string{"stays": tc.left, "full": "8"}[pod]
				if err := f.Add(fixture.Pod(pod).CPU(cpus).On(node).Obj()); err != nil {
					t.Fatal(err)
				}
			}
			goes := fixture.Pod("goes").CPU("5").On("a").Obj()
			if err := f.Add(goes); err != nil {
				t.Fatal(err)
			}
			if tc.waits != "" {
				mc := fixture.MiniCluster("x").Size(2).MinSize(1)
				q.seen.miniClusters = append(q.seen.miniClusters, mc.Obj())
				q.Offer(mc.Defaulted(), fixture.Pod("x").CPU(tc.waits).Obj(), nil, nil)
			}
			q.cycle()
			freed := q.ledger.Freed()
			if err := f.Delete(goes); err != nil {
				t.Fatal(err)
			}
			if q.ledger.Freed() == freed {
				t.Error("nothing was freed")
			}
			if got := !q.due.settles.IsZero(); got != tc.want {
				t.Errorf("others are delayed: %t, want %t", got, tc.want)
			}
		})
	}
}

// asked are the times after which cycles were asked for.
type asked struct {
	requests
	after []time.Duration
}

func (a *asked) AddAfter(_ reconcile.Request, after time.Duration) { a.after = append(a.after, after) }

// However many pods of others free nodes that no gang can use, the cycles that they ask for are one, and later. The
// first node that a gang can use asks for a cycle at once.
func TestUselessNodesAskForNoCycleAtOnce(t *testing.T) {
	names := []string{"a", "b", "c", "d", "e", "f"}
	q := newQueue(t, names...)
	asks := &asked{}
	f := foreignOf(q)
	f.queue = asks
	pod := func(what, cpus, node string) *corev1.Pod {
		return fixture.Pod(what + "-" + node).CPU(cpus).On(node).Obj()
	}
	for _, node := range names {
		if err := errors.Join(f.Add(pod("stays", "2", node)), f.Add(pod("goes", "5", node))); err != nil {
			t.Fatal(err)
		}
	}
	q.offerOf(fixture.MiniCluster("x").Size(2).MinSize(1), fixture.Pod("x").CPU("7").Obj())
	q.cycle()
	asks.after, q.due.changed = nil, false
	for _, node := range names {
		if err := f.Delete(pod("goes", "5", node)); err != nil {
			t.Fatal(err)
		}
	}
	if want := slices.Repeat([]time.Duration{idleBatch}, len(names)); !slices.Equal(asks.after, want) || q.due.changed {
		t.Errorf("cycles are asked for after %v, want %v", asks.after, want)
	}
	if err := f.Delete(pod("stays", "2", "a")); err != nil {
		t.Fatal(err)
	}
	if soonest := slices.Min(asks.after); soonest != freedBatch {
		t.Errorf("a useful node asks for a cycle after %s, want %s", soonest, freedBatch)
	}
}
