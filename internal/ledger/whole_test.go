// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// exclusive is a promise of whole nodes.
func exclusive(cpu int64, nodes ...string) *state.Promise {
	return &state.Promise{Nodes: nodes, Requests: fluxion.Resources{"cpu": cpu, "pods": 1, fluxion.WholeNode: 1}}
}

// alonePod is the pod of an exclusive broker.
func alonePod(miniCluster string, rank int) *fixture.PodWrapper {
	return fixture.BrokerPod(miniCluster, rank).Label(v1alpha2.ExclusiveLabel, "true")
}

// Who is on a node decides whether others may come. Each node has 8 CPUs.
func TestWholeNodes(t *testing.T) {
	small := fixture.Pod("q").CPU("1")
	for name, tc := range map[string]struct {
		pods     []*corev1.Pod
		promises map[types.UID]state.Promise
		// alone and shared are how many of "a" and "b" an exclusive gang gets, and how many pods of 1 CPU
		// other gangs get.
		alone, shared int
		why           string
	}{
		"an empty cluster": {alone: 2, shared: 16},
		"a broker": {
			pods: []*corev1.Pod{fixture.BrokerPod("x", 0).CPU("1").On("a").Up().Obj()}, alone: 1, shared: 15,
			why: "1 of 2 nodes has room now for 1: 1 in use; it fits once 1 job has ended",
		},
		"a broker that only says where it goes": {
			pods: []*corev1.Pod{fixture.BrokerPod("x", 0).CPU("1").Pinned("a").Obj()}, alone: 2, shared: 16,
		},
		"a promise":                   {promises: map[types.UID]state.Promise{"uid-x": {Nodes: []string{"a"}, Requests: fluxion.Resources{"pods": 1}}}, alone: 1, shared: 16},
		"a pod of somebody else":      {pods: []*corev1.Pod{fixture.Pod("p").CPU("1").On("a").Up().Obj()}, alone: 1, shared: 15},
		"the services of another":     {pods: []*corev1.Pod{fixture.ServicesPod("x").CPU("1").On("a").Up().Obj()}, alone: 1, shared: 15},
		"a DaemonSet's pod":           {pods: []*corev1.Pod{daemon("d", "1").On("a").Up().Obj()}, alone: 2, shared: 15},
		"a static pod":                {pods: []*corev1.Pod{fixture.Pod("d").CPU("1").Static("a").Up().Obj()}, alone: 2, shared: 15},
		"a pod that ended":            {pods: []*corev1.Pod{fixture.Pod("p").On("a").Ended(0).Obj()}, alone: 2, shared: 16},
		"an exclusive broker":         {pods: []*corev1.Pod{alonePod("x", 0).CPU("1").On("a").Up().Obj()}, alone: 1, shared: 8},
		"one that leaves":             {pods: []*corev1.Pod{alonePod("x", 0).CPU("1").On("a").Up().Leaving().Obj()}, alone: 1, shared: 8},
		"its gated pod":               {pods: []*corev1.Pod{alonePod("x", 0).CPU("1").Obj()}, alone: 2, shared: 16},
		"an exclusive promise":        {promises: map[types.UID]state.Promise{"uid-x": *exclusive(0, "a")}, alone: 1, shared: 8},
		"an exclusive promise, moved": {pods: []*corev1.Pod{alonePod("x", 0).CPU("1").On("a").Up().Leaving().Obj()}, promises: map[types.UID]state.Promise{"uid-x": *exclusive(1000, "b")}},
		"a label of somebody else":    {pods: []*corev1.Pod{fixture.Pod("p").Label(v1alpha2.ExclusiveLabel, "true").CPU("1").On("a").Up().Obj()}, alone: 1, shared: 15},
	} {
		t.Run(name, func(t *testing.T) {
			l := clusterOf(fixture.Nodes("a", "b"), tc.pods, tc.promises)
			mine, others := requestOf(l, fixture.MiniCluster("mine").Defaulted(), alonePod("mine", 0).CPU("1").Obj()), requestOf(l, fixture.MiniCluster("q").Defaulted(), small.Obj())
			r, err := l.Room(asks{"mine": mine, "q": others}.of)
			if err != nil {
				t.Fatal(err)
			}
			if alone, shared := r.Fits("mine", 99), r.Fits("q", 99); alone != tc.alone || shared != tc.shared {
				t.Errorf("there is room for %d alone and %d others, want %d and %d", alone, shared, tc.alone, tc.shared)
			}
			if !r.CouldHold("mine", []int{2}) || r.CouldHold("mine", []int{3}) {
				t.Error("the empty cluster has two nodes")
			}
			if want := "needs room for 2 brokers of 1 cpu, a whole node each; " + tc.why; tc.why != "" && r.Why("mine", []int{2}) != want {
				t.Errorf("got %q, want %q", r.Why("mine", []int{2}), want)
			}
		})
	}
}

// A gang that has whole nodes grows and moves by whole nodes, whatever its spec says since.
func TestWholeNodesStay(t *testing.T) {
	l := clusterOf(fixture.Nodes("a", "b", "c", "d"), []*corev1.Pod{fixture.Pod("p").CPU("1").On("c").Up().Obj()}, nil)
	l.Confirm("uid-lmp", exclusive(1000, "a"))
	ask := requestOf(l, fixture.MiniCluster("lmp").Defaulted(), fixture.Pod("p").CPU("1").Obj())
	r, err := l.Room(asks{"uid-lmp": ask}.of)
	if err != nil {
		t.Fatal(err)
	}
	if pods := r.Grow("uid-lmp", 9); !slices.Equal(pods, []elastic.Pod{{Rank: 1, Node: "b"}, {Rank: 2, Node: "d"}}) {
		t.Errorf("it grew by %v", pods)
	}
	move := func(node string) bool {
		return l.Order("uid-lmp", elastic.Move{Pods: []elastic.Pod{{Rank: 0, Node: node}}}, fixture.Noon)
	}
	if move("c") || !move("d") {
		t.Error("it moves to a node that is not free, or not to one that is")
	}
}

// The whole node counts in the queue: an average one of those that it may be, or that it is.
func TestCounts(t *testing.T) {
	nodes := []*corev1.Node{
		fixture.Node("a").Has("cpu", "8").Label("kind", "small").Obj(), fixture.Node("b").Has("cpu", "10").Label("kind", "small").Obj(),
		fixture.Node("c").Has("cpu", "64").Has("gpu", "4").Obj(),
	}
	of := func(cpu int64) queue.Resources { return queue.Resources{"cpu": cpu, "pods": 1} }
	for name, tc := range map[string]struct {
		pod  *fixture.PodWrapper
		want queue.Resources
	}{
		"what a pod requests":                     {fixture.BrokerPod("q", 0).CPU("2"), of(2000)},
		"the nodes that it can use":               {alonePod("q", 0).CPU("2").Spec(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"kind": "small"} }), of((7000 + 10000) / 2)},
		"the nodes that can hold it":              {alonePod("q", 0).CPU("9"), queue.Resources{"cpu": (10000 + 64000) / 2, "gpu": 2, "pods": 1}},
		"no less than it requests, if no node is": {alonePod("q", 0).CPU("99"), of(99000)},
	} {
		t.Run(name, func(t *testing.T) {
			l := clusterOf(nodes, []*corev1.Pod{daemon("d", "1").On("a").Up().Obj()}, nil)
			got := l.Counts(requestOf(l, fixture.MiniCluster("q").Defaulted(), tc.pod.Obj()))
			maps.DeleteFunc(got, func(name string, _ int64) bool {
				return name != "cpu" && name != "gpu" && name != "pods" && name != fluxion.WholeNode
			})
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	l := clusterOf(nodes, nil, map[types.UID]state.Promise{"x": *exclusive(1000, "c", "gone", "b"), "y": *onNodes("a")})
	if got := l.CountsNow("x", queue.Resources(exclusive(1000).Requests)); got["cpu"] != 37000 || got["gpu"] != 2 || got["pods"] != 1 || got[fluxion.WholeNode] != 0 {
		t.Errorf("whole nodes count as %v", got)
	}
	if got := l.CountsNow("y", queue.Resources(onNodes().Requests)); !maps.Equal(got, of(8000)) {
		t.Errorf("other pods count as %v", got)
	}
}

// tenants are MiniClusters that live on a few nodes. Those with an even number are exclusive.
type tenants struct {
	t        *testing.T
	random   *rand.Rand
	l        *Ledger
	promises map[types.UID]*state.Promise
	pods     map[types.UID]*corev1.Pod
	made     int
	admitted map[bool]int // by whether they are exclusive
}

const tenantNodes = 7

func (w *tenants) anew() {
	var nodes []*corev1.Node
	for i := range tenantNodes {
		nodes = append(nodes, fixture.Node(fmt.Sprint("n", i)).Obj())
	}
	w.l = clusterOf(nodes, nil, nil)
	for _, uid := range slices.Sorted(maps.Keys(w.pods)) {
		w.l.SetPod(w.pods[uid])
	}
	for _, uid := range slices.Sorted(maps.Keys(w.promises)) {
		w.l.Confirm(uid, w.promises[uid])
	}
}

func isAlone(i int) bool { return i%2 == 0 }

// pod is a pod of a MiniCluster, which may request nothing.
func (w *tenants) pod(i, rank int) *fixture.PodWrapper {
	pod := fixture.BrokerPod(fmt.Sprint(i), rank)
	if isAlone(i) {
		pod = alonePod(fmt.Sprint(i), rank)
	}
	return pod.CPU(strconv.Itoa(i % 3))
}

// room is what is free for a MiniCluster.
func (w *tenants) room(i int) queue.Room {
	mc := fixture.MiniCluster(fmt.Sprint(i)).Defaulted()
	r, err := w.l.Room(asks{string(mc.UID): requestOf(w.l, mc, w.pod(i, 0).Obj())}.of)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// step lets one thing happen, and says what.
func (w *tenants) step() string {
	i := w.random.IntN(6)
	uid := types.UID(fmt.Sprint("uid-", i))
	promise := w.promises[uid]
	switch n := w.random.IntN(10); {
	case n == 0:
		w.anew()
		return "the manager is started again"
	case n < 3 && promise == nil:
		nodes := w.room(i).Place(string(uid), []int{1, 2, 3})
		if len(nodes) == 0 {
			return "nothing"
		}
		w.admitted[isAlone(i)]++
		promise := &state.Promise{Nodes: nodes, Requests: state.Requests(w.pod(i, 0).Obj())}
		w.l.Assume(uid, promise)
		w.confirm(uid, promise)
		return fmt.Sprintf("%s gets %v", uid, nodes)
	case n == 3 && promise != nil:
		grown := w.room(i).Grow(string(uid), 1+w.random.IntN(2))
		var order elastic.Order = elastic.Grow{Pods: grown}
		if ranks := promise.Ranks(); w.random.IntN(2) == 0 && len(grown) == 1 && len(ranks) > 0 { // its old pod may exist
			grown[0].Rank = ranks[w.random.IntN(len(ranks))]
			order = elastic.Move{Pods: grown}
		}
		if len(grown) == 0 || !w.l.Order(uid, order, fixture.Noon) {
			return "nothing"
		}
		w.check("an order is given")
		w.confirm(uid, promise.With(grown))
		return fmt.Sprintf("%s has %v by %T", uid, grown, order)
	case n == 4 && promise != nil && len(promise.Ranks()) > 0:
		less := promise.With([]elastic.Pod{{Rank: promise.Ranks()[w.random.IntN(len(promise.Ranks()))]}})
		w.confirm(uid, less)
		return fmt.Sprintf("%s keeps %v", uid, less.Nodes)
	case n == 5 && promise != nil:
		delete(w.promises, uid)
		w.l.Confirm(uid, nil)
		return fmt.Sprintf("%s ends", uid)
	case n < 8 && promise != nil:
		for _, rank := range promise.Ranks() {
			w.made++
			pod := w.pod(i, rank).On(promise.Nodes[rank]).Up().Obj()
			pod.UID = types.UID(fmt.Sprintf("%s-%d", uid, w.made))
			w.pods[pod.UID] = pod
			w.l.SetPod(pod)
		}
		return fmt.Sprintf("the pods of %s come up", uid)
	}
	for _, uid := range slices.Sorted(maps.Keys(w.pods)) {
		if w.promises[types.UID(w.pods[uid].Labels[v1alpha2.UIDLabel])] == nil || w.random.IntN(2) == 0 {
			delete(w.pods, uid)
			w.l.DeletePod(uid)
		}
	}
	return "pods go"
}

func (w *tenants) confirm(uid types.UID, promise *state.Promise) {
	w.promises[uid] = promise
	w.l.Confirm(uid, promise)
}

// check checks that no exclusive broker has company, by promise or pod.
func (w *tenants) check(what string) {
	on := map[string]map[string]bool{} // MiniCluster and rank, by node
	add := func(node string, uid types.UID, rank int) {
		if on[node] == nil {
			on[node] = map[string]bool{}
		}
		on[node][fmt.Sprintf("%s/%d", uid, rank)] = true
	}
	for uid, promise := range w.promises {
		for _, rank := range promise.Ranks() {
			add(promise.Nodes[rank], uid, rank)
		}
	}
	for _, pod := range w.pods {
		rank, _ := protocol.Rank(pod)
		add(pod.Spec.NodeName, types.UID(pod.Labels[v1alpha2.UIDLabel]), rank)
	}
	for node, brokers := range on {
		for broker := range brokers {
			if i, _ := strconv.Atoi(broker[len("uid-") : len("uid-")+1]); isAlone(i) && len(brokers) > 1 {
				w.t.Fatalf("%s: on %s are %v", what, node, slices.Sorted(maps.Keys(brokers)))
			}
		}
	}
}

// Whatever starts, grows, shrinks, ends and is started again: no broker is beside one that has its node
// alone.
func TestNobodyIsBesideAnExclusiveBroker(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			w := &tenants{t: t, random: rand.New(rand.NewPCG(seed, 3)), promises: map[types.UID]*state.Promise{}, pods: map[types.UID]*corev1.Pod{}, admitted: map[bool]int{}}
			w.anew()
			for range 600 {
				w.check(w.step())
			}
			if w.admitted[true] < 5 || w.admitted[false] < 5 {
				t.Errorf("%v were admitted: that tests little", w.admitted)
			}
		})
	}
}
