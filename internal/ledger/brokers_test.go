// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"runtime"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// Of all pods with the labels of a broker, only those that a MiniCluster's Jobs have made are brokers. The
// others hold what they are bound to, as any pod does.
func TestOnlyBrokersCountAsBrokers(t *testing.T) {
	alone := func() *fixture.PodWrapper { return alonePod("lmp", 1).CPU("1") }
	for name, tc := range map[string]struct {
		pod    *fixture.PodWrapper
		broker bool
	}{
		"a broker":                 {alone(), true},
		"of another namespace":     {alone().In("elsewhere"), false},
		"without an owner":         {alone().Controller("", "", ""), false},
		"of another Job":           {alone().OfJob("lmp-0-0"), false},
		"of another kind":          {alone().Controller("batch/v1", "CronJob", "lmp-w-0"), false},
		"of another API":           {alone().Controller("example.com/v1", "Job", "lmp-w-0"), false},
		"of no known MiniCluster":  {alone().Label(v1alpha2.UIDLabel, "uid-gone"), false},
		"of another's name":        {alone().Label(v1alpha2.MiniClusterLabel, "x").OfJob("x-w-0"), false},
		"with the UID alone":       {fixture.Pod("p").CPU("1").Label(v1alpha2.UIDLabel, "uid-lmp").Label(v1alpha2.ExclusiveLabel, "true"), false},
		"of a rank above the size": {alonePod("lmp", 64).CPU("1"), false},
		"of the highest rank":      {alonePod("lmp", 63).CPU("1"), true},
	} {
		t.Run(name, func(t *testing.T) {
			c := clusterOf(fixture.Nodes("a"), nil, nil)
			check := func(what string, pod *corev1.Pod, broker bool, want fluxion.Resources) {
				t.Helper()
				c.SetPod(pod)
				if got := len(c.Holds("uid-lmp")) > 0; got != broker {
					t.Errorf("%s: the MiniCluster holds something: %t", what, got)
				}
				free, all := graphOf(t, c).Left("a"), fluxion.Resources{"cpu": 8000, "pods": 110}
				for resource, amount := range want {
					if free[resource] != all[resource]-amount {
						t.Errorf("%s: left are %d %s", what, free[resource], resource)
					}
				}
				isShared := graphOf(t, c).Fits(fluxion.Gang{Pods: fluxion.Shape{Requests: fluxion.Resources{"cpu": 1000}}}) > 0
				if isShared == broker {
					t.Errorf("%s: others may use the node: %t", what, isShared)
				}
			}
			check("pinned", tc.pod.Pinned("a").Obj(), false, fluxion.Resources{"cpu": 0, "pods": 0})
			bound := tc.pod.On("a").Obj()
			check("bound", bound, tc.broker, fluxion.Resources{"cpu": 1000, "pods": 1})
			if foreign := c.Foreign()["cpu"]; (foreign == 0) != tc.broker {
				t.Errorf("others hold %d", foreign)
			}
			c.DeleteMiniCluster("uid-lmp")
			check("its MiniCluster is gone", bound, false, fluxion.Resources{"cpu": 1000, "pods": 1})
			know(c, "lmp")
			check("it is there again", bound, tc.broker, fluxion.Resources{"cpu": 1000, "pods": 1})
			c.Gone(bound)
			if len(c.pods)+len(c.claims)+len(c.claimed)+len(c.accounts) > 0 {
				t.Error("something is left of a pod that is gone")
			}
		})
	}
}

// Memory does not depend on what labels say: neither on forged ranks, nor on true ones of large
// MiniClusters.
func TestRanksTakeNoMemory(t *testing.T) {
	const most, pods = 131071, 200
	heap := func() int64 {
		var stats runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&stats)
		return int64(stats.HeapAlloc)
	}
	for name, size := range map[string]int32{"forged": 2, "true": most + 1} {
		t.Run(name, func(t *testing.T) {
			c := clusterOf(fixture.Nodes("a"), nil, nil)
			before := heap()
			for i := range pods {
				gang := fmt.Sprint("g", i)
				c.SetMiniCluster(fixture.MiniCluster(gang).Size(size).Obj())
				c.SetPod(fixture.BrokerPod(gang, most).CPU("1m").On("a").Obj())
			}
			graphOf(t, c)
			if took := heap() - before; took > 4<<20 {
				t.Errorf("%d pods take %d KiB", pods, took>>10)
			}
			if left := graphOf(t, c).Left("a"); left["cpu"] != 8000-pods {
				t.Errorf("left is %v", left)
			}
			for i := range pods {
				if held := len(c.Holds(types.UID(fmt.Sprint("uid-g", i)))) > 0; held != (size > most) {
					t.Fatalf("g%d holds something: %t", i, held)
				}
			}
		})
	}
}

// A broker that is not bound yet holds what its rank was promised, also after the promise has ended, and no more. Who
// may create Jobs can make pods that look like the brokers of one's own MiniCluster.
func TestPinsOfBrokers(t *testing.T) {
	promise := &state.Promise{Nodes: []string{"a"}, Requests: fluxion.Resources{"cpu": 2000, "pods": 1}}
	broker := func(cpu string) *fixture.PodWrapper { return fixture.BrokerPod("lmp", 0).CPU(cpu) }
	for name, tc := range map[string]struct {
		pods        []*corev1.Pod
		left, after int64 // with the promise, and without
	}{
		"as promised":           {[]*corev1.Pod{broker("2").Pinned("a").Obj()}, 6000, 6000},
		"for another node":      {[]*corev1.Pod{broker("2").Pinned("b").Obj()}, 6000, 8000},
		"for another rank":      {[]*corev1.Pod{fixture.BrokerPod("lmp", 1).CPU("2").Pinned("a").Obj()}, 6000, 8000},
		"more than promised":    {[]*corev1.Pod{broker("1000").Pinned("a").Obj()}, 6000, 8000},
		"twice":                 {[]*corev1.Pod{broker("2").Pinned("a").Obj(), broker("2").Named("next").Pinned("a").Obj()}, 6000, 6000},
		"a whole node":          {[]*corev1.Pod{broker("2").Label(v1alpha2.ExclusiveLabel, "true").Pinned("a").Obj()}, 6000, 8000},
		"the services":          {[]*corev1.Pod{fixture.ServicesPod("lmp").CPU("1000").Pinned("a").Obj()}, 6000, 8000},
		"more, and it is bound": {[]*corev1.Pod{broker("3").On("a").Obj()}, 5000, 5000},
	} {
		t.Run(name, func(t *testing.T) {
			c := clusterOf(fixture.Nodes("a", "b"), nil, nil)
			c.Confirm("uid-lmp", promise)
			for i, pod := range tc.pods {
				pod.UID = types.UID(fmt.Sprint("uid-", i))
				c.SetPod(pod)
			}
			check := func(what string, a int64) {
				t.Helper()
				if graph := graphOf(t, c); graph.Left("a")["cpu"] != a || graph.Left("b")["cpu"] != 8000 {
					t.Errorf("%s: %v are left of a, and %v of b", what, graph.Left("a"), graph.Left("b"))
				}
			}
			check("promised", tc.left)
			c.Confirm("uid-lmp", nil)
			check("not promised any more", tc.after)
			for _, pod := range tc.pods {
				c.SetPod(pod) // as after a change of its status
			}
			check("seen again", tc.after)
			for _, pod := range tc.pods {
				c.Gone(pod)
			}
			check("gone", 8000)
		})
	}
}

// Pods that only say that they belong to their node take none of its capacity, and nothing before they
// are bound. Those that do belong to it give it no other kinds of resources.
func TestForgedDaemons(t *testing.T) {
	gpu := func(s *corev1.PodSpec) {
		s.Containers[0].Resources.Requests["gpu"] = s.Containers[0].Resources.Requests["cpu"]
	}
	for name, tc := range map[string]struct {
		tell                 func(*Ledger)
		total, foreign, left int64
	}{
		"pinned for a DaemonSet": {func(c *Ledger) { tell(c, daemon("d", "2").Pinned("a").Obj()) }, 6000, 0, 6000},
		"never to be bound":      {func(c *Ledger) { tell(c, daemon("d", "1000").Pinned("a").Obj()) }, 8000, 0, 8000},
		"no room for both": {func(c *Ledger) {
			tell(c, daemon("d", "5").Pinned("a").Obj())
			tell(c, daemon("e", "5").Pinned("a").Obj())
		}, 3000, 0, 3000},
		"no room beside what is bound": {func(c *Ledger) { tell(c, daemon("e", "5").On("a").Obj()); tell(c, daemon("d", "5").Pinned("a").Obj()) }, 3000, 0, 3000},
		"pinned for no DaemonSet":      {func(c *Ledger) { c.SetPod(daemon("d", "1000").Spec(gpu).Pinned("a").Obj()) }, 8000, 0, 8000},
		"bound for a DaemonSet":        {func(c *Ledger) { tell(c, daemon("d", "2").Spec(gpu).On("a").Obj()) }, 6000, 0, 6000},
		"bound for no DaemonSet":       {func(c *Ledger) { c.SetPod(daemon("d", "2").Spec(gpu).On("a").Obj()) }, 8000, 2000, 6000},
		"static":                       {func(c *Ledger) { c.SetPod(fixture.Pod("s").CPU("2").Static("a").Obj()) }, 6000, 0, 6000},
		"static, on another node":      {func(c *Ledger) { c.SetPod(fixture.Pod("s").CPU("2").Static("b").On("a").Obj()) }, 8000, 2000, 6000},
		"static, without the mirror":   {func(c *Ledger) { c.SetPod(fixture.Pod("s").CPU("2").On("a").Controller("v1", "Node", "a").Obj()) }, 8000, 2000, 6000},
		"a broker, by its labels": {func(c *Ledger) {
			c.SetPod(fixture.BrokerPod("lmp", 0).CPU("2").Static("a").Obj())
		}, 8000, 2000, 6000},
	} {
		t.Run(name, func(t *testing.T) {
			c := clusterOf(fixture.Nodes("a"), nil, nil)
			graph := graphOf(t, c)
			tc.tell(c)
			if graphOf(t, c) != graph {
				t.Error("the graph was made anew")
			}
			if total, foreign, left := c.Total()["cpu"], c.Foreign()["cpu"], graph.Left("a")["cpu"]; total != tc.total || foreign != tc.foreign || left != tc.left {
				t.Errorf("there are %d, others have %d, and %d are left", total, foreign, left)
			}
		})
	}
}

// A pod that is disowned holds its node as one of others, also when its MiniCluster changes, until the pod is gone.
func TestDisown(t *testing.T) {
	l := New(nil, nil)
	l.SetNode(fixture.Node("a").Obj())
	mc := fixture.MiniCluster("lmp").Size(2).Defaulted()
	l.SetMiniCluster(mc)
	pod := fixture.BrokerPod("lmp", 1).CPU("8").On("a").Obj()
	l.SetPod(pod)
	l.SetMaker(&state.Maker{UID: pod.OwnerReferences[0].UID, MiniCluster: mc.UID, Namespace: mc.Namespace, Name: mc.Name})
	l.Disown(mc.UID, []int{0})
	if l.HasDisowned(mc.UID) || len(l.Holds(mc.UID)) != 1 {
		t.Errorf("another rank: it holds %v", l.Holds(mc.UID))
	}
	l.Disown(mc.UID, []int{1})
	mc.Spec.MaxSize = 4
	l.SetMiniCluster(mc)
	l.SetPod(pod)
	if !l.HasDisowned(mc.UID) || len(l.Holds(mc.UID)) != 0 || l.pods[pod.UID] == nil {
		t.Errorf("it holds %v, and the pod is %+v", l.Holds(mc.UID), l.pods[pod.UID])
	}
	l.Gone(pod)
	if l.HasDisowned(mc.UID) || len(l.disowned) > 0 || l.pods[pod.UID] != nil {
		t.Errorf("gone, and %v are disowned", l.disowned)
	}
}
