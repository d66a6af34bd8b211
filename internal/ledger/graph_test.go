// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// free are the nodes that have 8 CPUs left and are up.
func free(t *testing.T, graph *fluxion.Graph, nodes []*corev1.Node) []string {
	t.Helper()
	var out []string
	for _, node := range nodes {
		gang := fluxion.Gang{
			Pods: fluxion.Shape{
				Requests: fluxion.Resources{fluxion.CPU: 8000, fluxion.Pods: 1},
				Infeasible: graph.Exclusions(func(yield func(node, reason string) bool) {
					for _, other := range nodes {
						if other.Name != node.Name && !yield(other.Name, "another") {
							return
						}
					}
				}),
			},
			Sizes: []int{1},
		}
		if _, refusal := graph.MatchGang(gang); refusal == nil {
			out = append(out, node.Name)
		}
	}
	return out
}

// clusterOf is a ledger that was told of all this.
func clusterOf(nodes []*corev1.Node, pods []*corev1.Pod, promises map[types.UID]state.Promise) *Ledger {
	c := New(state.TopologyLevels, nil)
	for _, node := range nodes {
		c.SetNode(node)
	}
	for i, pod := range pods {
		pod.UID += types.UID(fmt.Sprintf("-%d", i))
		tell(c, pod)
	}
	know(c, "lmp", "x", "y", "0", "1", "2", "3", "4", "5")
	for uid, promise := range promises {
		c.Confirm(uid, &promise)
	}
	return c
}

func graphOf(t *testing.T, c *Ledger) *fluxion.Graph {
	t.Helper()
	graph, err := c.current()
	if err != nil {
		t.Fatal(err)
	}
	return graph
}

// requestOf is what a MiniCluster asks of a ledger.
func requestOf(l *Ledger, mc *v1alpha2.MiniCluster, pod *corev1.Pod) state.Ask {
	return state.Request(mc, pod, nil, l.levels)
}

// asked is what a MiniCluster with pods of 8 CPUs asks for.
func asked(c *Ledger, mc *fixture.MiniClusterWrapper, size int) fluxion.Gang {
	gang := requestOf(c, mc.Defaulted(), fixture.Pod("p").Obj()).Gang
	gang.Sizes = []int{size}
	return gang
}

func TestGraph(t *testing.T) {
	promise := func(name string, nodes ...string) map[types.UID]state.Promise {
		mc := fixture.MiniCluster(name).Obj()
		return map[types.UID]state.Promise{mc.UID: {Nodes: nodes, Requests: fluxion.Resources{fluxion.CPU: 8000, fluxion.Pods: 1}}}
	}
	cases := map[string]struct {
		nodes    []*corev1.Node
		pods     []*corev1.Pod
		promises map[types.UID]state.Promise
		want     []string // nodes that are free
	}{
		"an empty cluster is free": {nodes: fixture.Nodes("a", "b"), want: []string{"a", "b"}},
		"others' pods hold their nodes": {
			nodes: fixture.Nodes("a", "b"), pods: []*corev1.Pod{fixture.Pod("x").CPU("1").On("a").Obj()}, want: []string{"b"},
		},
		"pods that ended hold nothing": {
			nodes: fixture.Nodes("a", "b"),
			pods:  []*corev1.Pod{fixture.Pod("x").On("a").Ended(0).Obj(), fixture.Pod("y").On("b").Ended(1).Obj()},
			want:  []string{"a", "b"},
		},
		"pods that leave hold until they are gone": {
			nodes: fixture.Nodes("a"), pods: []*corev1.Pod{fixture.Pod("x").On("a").Up().Leaving().Obj()},
		},
		"pods of the node itself are none of its capacity": {
			nodes: []*corev1.Node{fixture.Node("a").Has("cpu", "9").Obj(), fixture.Node("b").Has("cpu", "9").Obj()},
			pods:  []*corev1.Pod{daemon("x", "1").On("a").Up().Obj(), fixture.Pod("y").CPU("2").Static("b").Up().Obj()},
			want:  []string{"a"},
		},
		"gated pods hold nothing": {
			nodes: fixture.Nodes("a"), pods: []*corev1.Pod{fixture.BrokerPod("lmp", 0).Obj()}, want: []string{"a"},
		},
		"a pin without a promise holds nothing": {
			nodes: fixture.Nodes("a", "b"), pods: []*corev1.Pod{fixture.BrokerPod("lmp", 0).Pinned("a").Obj()}, want: []string{"a", "b"},
		},
		"a promise holds without pods": {
			nodes: fixture.Nodes("a", "b", "c"), promises: promise("lmp", "a", "b"), want: []string{"c"},
		},
		"a pod and its promise count once": {
			nodes: []*corev1.Node{fixture.Node("a").Has("cpu", "16").Obj(), fixture.Node("b").Obj()},
			pods:  []*corev1.Pod{fixture.BrokerPod("lmp", 0).On("a").Up().Obj()}, promises: promise("lmp", "a"),
			want: []string{"a", "b"},
		},
		"two promises on one node count twice": {
			nodes:    []*corev1.Node{fixture.Node("a").Has("cpu", "16").Obj()},
			promises: promise("lmp", "a", "a"),
		},
		"the pod of an earlier MiniCluster does not stand for the promise of the next": {
			nodes: []*corev1.Node{fixture.Node("a").Has("cpu", "16").Obj()},
			pods:  []*corev1.Pod{fixture.BrokerPod("lmp", 0).Label(v1alpha2.UIDLabel, "uid-before").On("a").Up().Obj()}, promises: promise("lmp", "a"),
		},
		"of two pods of a rank one stands for the promise": {
			nodes: []*corev1.Node{fixture.Node("a").Has("cpu", "16").Obj(), fixture.Node("b").Has("cpu", "24").Obj()},
			pods: []*corev1.Pod{
				fixture.BrokerPod("lmp", 0).On("a").Up().Leaving().Obj(), fixture.BrokerPod("lmp", 0).Named("next").On("a").Obj(),
				fixture.BrokerPod("lmp", 1).On("b").Up().Leaving().Obj(), fixture.BrokerPod("lmp", 1).Named("next").On("b").Obj(),
			},
			promises: promise("lmp", "a", "b"), want: []string{"b"},
		},
		"a pod that takes more than was promised holds that, one that takes less all that was": {
			nodes: []*corev1.Node{fixture.Node("a").Has("cpu", "16").Obj(), fixture.Node("b").Has("cpu", "12").Obj()},
			pods: []*corev1.Pod{
				fixture.BrokerPod("lmp", 0).CPU("9").On("a").Up().Obj(), fixture.BrokerPod("lmp", 1).CPU("4").On("b").Up().Obj(),
			},
			promises: promise("lmp", "a", "b"),
		},
		"the pod of a rank that ended leaves its promise": {
			nodes: fixture.Nodes("a"), pods: []*corev1.Pod{fixture.BrokerPod("lmp", 1).On("a").Ended(1).Obj()}, promises: promise("lmp", "x", "a"),
		},
		"nodes that are not ready, cordoned, tainted by the cluster or leaving are down": {
			nodes: []*corev1.Node{
				fixture.Node("a").NotReady().Obj(), fixture.Node("b").Cordoned().Obj(),
				fixture.Node("c").Taint("node.kubernetes.io/disk-pressure", corev1.TaintEffectNoSchedule).Obj(),
				fixture.Node("d").Taint("node.kubernetes.io/x", corev1.TaintEffectPreferNoSchedule).Obj(),
			},
			want: []string{"d"},
		},
		"a services pod holds what it takes until it ends, its gang's promise aside": {
			nodes: []*corev1.Node{fixture.Node("a").Has("cpu", "16").Obj(), fixture.Node("b").Has("cpu", "16").Obj(), fixture.Node("c").Obj()},
			pods: []*corev1.Pod{
				fixture.ServicesPod("lmp").CPU("1").On("a").Obj(), fixture.BrokerPod("lmp", 0).On("a").Obj(),
				fixture.ServicesPod("two").CPU("1").On("b").Ended(1).Obj(), fixture.ServicesPod("three").CPU("1").Obj(),
			},
			promises: promise("lmp", "a", "b"), want: []string{"b", "c"},
		},
		"pods on nodes that are gone are nobody's": {
			nodes: fixture.Nodes("a"), pods: []*corev1.Pod{fixture.Pod("x").On("gone").Obj()}, promises: promise("lmp", "gone"), want: []string{"a"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			graph := graphOf(t, clusterOf(tc.nodes, tc.pods, tc.promises))
			if got := free(t, graph, tc.nodes); !slices.Equal(got, tc.want) {
				t.Errorf("free are %v, want %v", got, tc.want)
			}
		})
	}
}

// Labels of nodes tell where they are: a gang gets a rack of its own, if one does, and
// where they have no such labels a zone.
func TestGraphKnowsTopology(t *testing.T) {
	labelled := func(name string, labels ...string) *corev1.Node {
		node := fixture.Node(name)
		for i, value := range labels {
			node.Label(state.TopologyLevels[i].Label, value)
		}
		return node.Obj()
	}
	cases := map[string]struct {
		nodes []*corev1.Node
		want  []string
	}{
		"no labels": {fixture.Nodes("a", "b", "c", "d"), []string{"a", "b"}},
		"zones":     {[]*corev1.Node{labelled("a", "x"), labelled("b", "y"), labelled("c", "x"), labelled("d", "z")}, []string{"a", "c"}},
		"racks": {[]*corev1.Node{
			labelled("a", "x", "", "r0"), labelled("b", "x", "", "r1"), labelled("c", "x", "", "r2"), labelled("d", "x", "", "r1"),
		}, []string{"b", "d"}},
		"racks of the same name in two blocks": {[]*corev1.Node{
			labelled("a", "x", "b0", "r0"), labelled("b", "x", "b1", "r0"), labelled("c", "x", "b2", "r0"), labelled("d", "x", "b1", "r0"),
		}, []string{"b", "d"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := clusterOf(tc.nodes, nil, nil)
			got, refusal := graphOf(t, c).MatchGang(asked(c, fixture.MiniCluster("lmp"), 2))
			if !slices.Equal(got.Nodes, tc.want) {
				t.Errorf("got %v (%v), want %v", got.Nodes, refusal, tc.want)
			}
		})
	}
}

// Who waits is told when promises of known end make room.
func TestGraphKnowsWhenPromisesEnd(t *testing.T) {
	nodes := fixture.Nodes("a", "b")
	requests := fluxion.Resources{fluxion.CPU: 8000, fluxion.Pods: 1}
	c := clusterOf(nodes, []*corev1.Pod{fixture.BrokerPod("lmp", 0).On("a").Up().Obj()}, map[types.UID]state.Promise{
		"uid-lmp": {Nodes: []string{"a", "b"}, Requests: requests, End: fixture.Noon},
	})
	refusal := graphOf(t, c).Explain(asked(c, fixture.MiniCluster("next"), 2))
	if !refusal.Until.Equal(fixture.Noon) || !slices.Equal(refusal.Jobs, []string{"uid-lmp"}) {
		t.Errorf("it is told %v: %v until %s", refusal, refusal.Jobs, refusal.Until)
	}
}

// daemon is a pod that belongs to its node.
func daemon(name, cpu string) *fixture.PodWrapper {
	return fixture.Pod(name).CPU(cpu).OfDaemonSet("d")
}

// tell tells a ledger of a pod. Pods that say that they are of a DaemonSet are.
func tell(c *Ledger, pod *corev1.Pod) {
	if owner := metav1.GetControllerOf(pod); owner != nil && owner.Kind == "DaemonSet" {
		c.Set(pod.UID, PodOf(pod, true))
		return
	}
	c.SetPod(pod)
}

// know tells a ledger of a MiniCluster of 64 brokers.
func know(c *Ledger, names ...string) {
	for _, name := range names {
		c.SetMiniCluster(fixture.MiniCluster(name).Size(64).Obj())
	}
}

// Whole nodes of which a daemon takes a part are never free: that is said at once, and
// not waited for.
func TestDaemonsMakeItNeverFit(t *testing.T) {
	nodes := fixture.Nodes("a", "b")
	pods := []*corev1.Pod{daemon("x", "100m").On("a").Obj(), daemon("y", "100m").On("b").Obj()}
	c := clusterOf(nodes, pods, nil)
	refusal := graphOf(t, c).Explain(asked(c, fixture.MiniCluster("lmp"), 1))
	if refusal == nil || !refusal.Never || refusal.String() != "needs room for 1 broker of 8 cpu each; the whole cluster of 2 nodes has room for 0: 2 too little cpu" {
		t.Errorf("it is told %v", refusal)
	}
}

func TestExcluded(t *testing.T) {
	pod := func(change func(*corev1.PodSpec)) *corev1.Pod { return fixture.Pod("x").Spec(change).Obj() }
	cases := map[string]struct {
		node *corev1.Node
		pod  *corev1.Pod
		want string
	}{
		"any pod goes on a plain node": {fixture.Node("a").Obj(), pod(func(*corev1.PodSpec) {}), ""},
		"a taint keeps it off":         {fixture.Node("a").Taint("gpu", corev1.TaintEffectNoSchedule).Obj(), pod(func(*corev1.PodSpec) {}), "tainted gpu"},
		"unless it tolerates it": {fixture.Node("a").Taint("gpu", corev1.TaintEffectNoExecute).Obj(),
			pod(func(s *corev1.PodSpec) {
				s.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
			}), ""},
		"a wish is no taint":            {fixture.Node("a").Taint("gpu", corev1.TaintEffectPreferNoSchedule).Obj(), pod(func(*corev1.PodSpec) {}), ""},
		"a state that passes is none":   {fixture.Node("a").Taint("node.kubernetes.io/not-ready", corev1.TaintEffectNoExecute).Obj(), pod(func(*corev1.PodSpec) {}), ""},
		"a selector has to match":       {fixture.Node("a").Label("rack", "1").Obj(), pod(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"rack": "2"} }), "not selected by the pod's node labels"},
		"and matches":                   {fixture.Node("a").Label("rack", "2").Obj(), pod(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"rack": "2"} }), ""},
		"so does an affinity to a name": {fixture.Node("a").Obj(), fixture.Pod("x").Pinned("b").Obj(), "not selected by the pod's node labels"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got := ""
			for _, reason := range excluded(tc.pod, slices.Values([]*node{{Node: tc.node}})) {
				got = reason
			}
			if got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// What a pod takes is what kube-scheduler counts, and is the same after the pod was
// stripped for the cache.
