// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
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

// clusterOf is a Cluster that was told of all this.
func clusterOf(nodes []*corev1.Node, pods []*corev1.Pod, promises map[types.UID]Promise) *Cluster {
	c := NewCluster(TopologyLevels)
	for _, node := range nodes {
		c.SetNode(node)
	}
	for i, pod := range pods {
		pod.UID += types.UID(fmt.Sprintf("-%d", i))
		c.SetPod(pod)
	}
	for uid, promise := range promises {
		c.SetPromise(uid, &promise)
	}
	return c
}

func graphOf(t *testing.T, c *Cluster) *fluxion.Graph {
	t.Helper()
	graph, err := c.Graph()
	if err != nil {
		t.Fatal(err)
	}
	return graph
}

// asked is what a MiniCluster with pods of 8 CPUs asks for.
func asked(c *Cluster, mc *fixture.MiniClusterWrapper, size int) fluxion.Gang {
	gang := Request(c, mc.Defaulted(), fixture.Pod("p").Obj()).Gang
	gang.Sizes = []int{size}
	return gang
}

func TestGraph(t *testing.T) {
	promise := func(name string, nodes ...string) map[types.UID]Promise {
		mc := fixture.MiniCluster(name).Obj()
		return map[types.UID]Promise{mc.UID: {Nodes: nodes, Requests: fluxion.Resources{fluxion.CPU: 8000, fluxion.Pods: 1}}}
	}
	cases := map[string]struct {
		nodes    []*corev1.Node
		pods     []*corev1.Pod
		promises map[types.UID]Promise
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
			pods:  []*corev1.Pod{daemon("x", "DaemonSet", "1").On("a").Up().Obj(), daemon("y", "Node", "2").On("b").Up().Obj()},
			want:  []string{"a"},
		},
		"gated pods hold nothing": {
			nodes: fixture.Nodes("a"), pods: []*corev1.Pod{fixture.BrokerPod("lmp", 0).Obj()}, want: []string{"a"},
		},
		"pinned pods hold their node before they are bound": {
			nodes: fixture.Nodes("a", "b"), pods: []*corev1.Pod{fixture.BrokerPod("lmp", 0).Pinned("a").Obj()}, want: []string{"b"},
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
				fixture.BrokerPod("lmp", 0).On("a").Up().Leaving().Obj(), fixture.BrokerPod("lmp", 0).Named("next").Pinned("a").Obj(),
				fixture.BrokerPod("lmp", 1).On("b").Up().Leaving().Obj(), fixture.BrokerPod("lmp", 1).Named("next").Pinned("b").Obj(),
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
			node.Label(TopologyLevels[i].Label, value)
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
	c := clusterOf(nodes, []*corev1.Pod{fixture.BrokerPod("lmp", 0).On("a").Up().Obj()}, map[types.UID]Promise{
		"uid-lmp": {Nodes: []string{"a", "b"}, Requests: requests, End: fixture.Noon},
	})
	refusal := graphOf(t, c).Explain(asked(c, fixture.MiniCluster("next"), 2))
	if !refusal.Until.Equal(fixture.Noon) || !slices.Equal(refusal.Jobs, []string{"uid-lmp"}) {
		t.Errorf("it is told %v: %v until %s", refusal, refusal.Jobs, refusal.Until)
	}
}

// daemon is a pod that belongs to its node.
func daemon(name, ownerKind, cpu string) *fixture.PodWrapper {
	return fixture.Pod(name).CPU(cpu).Owner(ownerKind)
}

// Whole nodes of which a daemon takes a part are never free: that is said at once, and
// not waited for.
func TestDaemonsMakeItNeverFit(t *testing.T) {
	nodes := fixture.Nodes("a", "b")
	pods := []*corev1.Pod{daemon("x", "DaemonSet", "100m").On("a").Obj(), daemon("y", "DaemonSet", "100m").On("b").Obj()}
	c := clusterOf(nodes, pods, nil)
	refusal := graphOf(t, c).Explain(asked(c, fixture.MiniCluster("lmp"), 1))
	if refusal == nil || !refusal.Never || refusal.String() != "needs room for 1 broker of 8 cpu each; the whole cluster of 2 nodes has room for 0: 2 too little cpu" {
		t.Errorf("it is told %v", refusal)
	}
}

func TestExitCode(t *testing.T) {
	initFailed := func(s *corev1.PodStatus) {
		s.ContainerStatuses = nil
		s.InitContainerStatuses = []corev1.ContainerStatus{
			{Name: "ok", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}},
			{Name: "view", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 4}}},
		}
	}
	for name, tc := range map[string]struct {
		change func(*corev1.PodStatus)
		want   string
	}{
		"of the command": {func(*corev1.PodStatus) {}, "3"},
		"of the command, whatever init containers said": {func(s *corev1.PodStatus) {
			command := s.ContainerStatuses
			initFailed(s)
			s.ContainerStatuses = command
		}, "3"},
		"of an init container": {initFailed, "4 in the lead's init container view"},
		"of a pod that was evicted, none": {func(s *corev1.PodStatus) {
			s.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue}}
		}, "none"},
		"of a pod that was not": {func(s *corev1.PodStatus) {
			s.Conditions = []corev1.PodCondition{{Type: corev1.DisruptionTarget, Status: corev1.ConditionFalse}}
		}, "3"},
		"of a pod that took too much, none, but why": {func(s *corev1.PodStatus) {
			s.Reason, s.Message = "Evicted", "Usage of EmptyDir volume \"scratch\" exceeds the limit \"1Mi\". "
		}, `none: Usage of EmptyDir volume "scratch" exceeds the limit "1Mi"`},
		"of a container that ended with its node, none": {func(s *corev1.PodStatus) {
			s.ContainerStatuses[0].State.Terminated.Reason = "Unknown"
		}, "none"},
		"of a container that the kubelet knows no more, none": {func(s *corev1.PodStatus) {
			s.ContainerStatuses[0].State.Terminated.Reason = "ContainerStatusUnknown"
		}, "none"},
		"of a pod whose node is gone, none": {func(s *corev1.PodStatus) { s.ContainerStatuses = nil }, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			pod := fixture.BrokerPod("lmp", 0).On("a").Ended(3).Obj()
			tc.change(&pod.Status)
			o, err := Observe(view(func(v *View) { v.Pods = []*corev1.Pod{pod} }))
			if err != nil {
				t.Fatal(err)
			}
			got := "none"
			if why := o.Brokers[0].Evicted; why != "" {
				got += ": " + why
			}
			if lead := o.Brokers[0]; lead.ExitCode != nil {
				got = fmt.Sprint(*lead.ExitCode)
				if lead.FailedIn != "" {
					got += " in " + lead.FailedIn
				}
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
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
			for _, reason := range Excluded(tc.pod, []*corev1.Node{tc.node}) {
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
func TestRequests(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	container := func(name, cpu string) corev1.Container {
		return corev1.Container{
			Name: name, Env: []corev1.EnvVar{{Name: "long", Value: strings.Repeat("x", 1000)}},
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
				corev1.ResourceCPU: resource.MustParse(cpu), "nvidia.com/gpu": resource.MustParse("1"),
			}},
		}
	}
	pod := fixture.Pod("x").Annotation(v1alpha2.QuorumAnnotation, "4").Annotation("other", "x").Spec(func(s *corev1.PodSpec) {
		sidecar := container("sidecar", "500m")
		sidecar.RestartPolicy = &always
		s.InitContainers = []corev1.Container{container("init", "4"), sidecar}
		s.Containers = []corev1.Container{container("app", "2"), container("b", "250m")}
		s.Overhead = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
		s.Volumes = []corev1.Volume{{Name: "v"}}
	}).Obj()
	want := fluxion.Resources{fluxion.CPU: 4000, fluxion.Memory: 64 << 20, "nvidia.com/gpu": 3, fluxion.Pods: 1}
	if diff := cmp.Diff(want, Requests(pod)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	stripped, err := StripPod(pod.DeepCopy())
	if err != nil {
		t.Fatal(err)
	}
	got := stripped.(*corev1.Pod)
	if diff := cmp.Diff(want, Requests(got)); diff != "" {
		t.Errorf("requests after stripping (-want +got):\n%s", diff)
	}
	if got.Spec.Volumes != nil || got.Spec.Containers[0].Env != nil || len(got.Annotations) != 1 {
		t.Errorf("left over: volumes %v, env %v, annotations %v", got.Spec.Volumes, got.Spec.Containers[0].Env, got.Annotations)
	}
}

// view is one of a MiniCluster of two brokers that was given the nodes a and b.
func view(change func(*View)) View {
	v := View{
		MiniCluster: fixture.MiniCluster("lmp").Size(2).Admitted(1, 2, "a,b").Defaulted(),
		JobSet:      fixture.JobSet("lmp", 1).Obj(),
		Node:        aNode,
	}
	if change != nil {
		change(&v)
	}
	return v
}

func states(brokers []elastic.Broker) []elastic.BrokerState {
	var out []elastic.BrokerState
	for _, b := range brokers {
		out = append(out, b.State)
	}
	return out
}

func TestObserveBrokers(t *testing.T) {
	later := fixture.Noon.Add(time.Minute)
	cases := map[string]struct {
		change func(*View)
		want   []elastic.BrokerState
	}{
		"no pods": {nil, []elastic.BrokerState{elastic.Missing, elastic.Missing}},
		"gated and pinned": {func(v *View) {
			v.Pods = []*corev1.Pod{fixture.BrokerPod("lmp", 1).Pinned("b").Obj(), fixture.BrokerPod("lmp", 0).Obj()}
		}, []elastic.BrokerState{elastic.Gated, elastic.Coming}},
		"running and ready": {func(v *View) {
			v.Pods = []*corev1.Pod{fixture.BrokerPod("lmp", 0).On("a").Up().Obj(), fixture.BrokerPod("lmp", 1).On("b").Obj()}
		}, []elastic.BrokerState{elastic.Up, elastic.Coming}},
		"ended": {func(v *View) {
			v.Pods = []*corev1.Pod{fixture.BrokerPod("lmp", 0).On("a").Ended(0).Obj(), fixture.BrokerPod("lmp", 1).On("b").Ended(2).Obj()}
		}, []elastic.BrokerState{elastic.Succeeded, elastic.Failed}},
		"leaving": {func(v *View) {
			v.Pods = []*corev1.Pod{fixture.BrokerPod("lmp", 0).On("a").Up().Leaving().Obj()}
		}, []elastic.BrokerState{elastic.Leaving, elastic.Missing}},
		"on a node that is gone": {func(v *View) {
			v.Node = func(name string) *corev1.Node {
				if name == "b" {
					return nil
				}
				return aNode(name)
			}
			v.Pods = []*corev1.Pod{fixture.BrokerPod("lmp", 0).On("a").Up().Obj(), fixture.BrokerPod("lmp", 1).On("b").Up().Obj()}
		}, []elastic.BrokerState{elastic.Up, elastic.Leaving}},
		"one that replaces one that failed": {func(v *View) {
			v.Pods = []*corev1.Pod{
				fixture.BrokerPod("lmp", 0).Named("new").Obj(),
				fixture.BrokerPod("lmp", 0).Named("old").On("a").Ended(1).Created(later).Obj(),
			}
		}, []elastic.BrokerState{elastic.Gated, elastic.Missing}},
		"the younger of two": {func(v *View) {
			v.Pods = []*corev1.Pod{
				fixture.BrokerPod("lmp", 0).Named("new").Created(later).Obj(),
				fixture.BrokerPod("lmp", 0).Named("old").On("a").Up().Obj(),
			}
		}, []elastic.BrokerState{elastic.Gated, elastic.Missing}},
		"pods of another JobSet do not count": {func(v *View) {
			v.Pods = []*corev1.Pod{fixture.BrokerPod("lmp", 0).Label(jobsetapi.JobSetUIDKey, "other").On("a").Up().Obj()}
		}, []elastic.BrokerState{elastic.Missing, elastic.Missing}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o, err := Observe(view(tc.change))
			if err != nil {
				t.Fatal(err)
			}
			if got := states(o.Brokers); !slices.Equal(got, tc.want) {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
}

func TestObserveWorkload(t *testing.T) {
	cases := map[string]struct {
		change func(*View)
		want   elastic.Workload
	}{
		"active":                {nil, elastic.Active},
		"absent":                {func(v *View) { v.JobSet = nil }, elastic.Absent},
		"completed":             {func(v *View) { v.JobSet = fixture.JobSet("lmp", 1).Condition(jobsetapi.JobSetCompleted).Obj() }, elastic.Completed},
		"broken":                {func(v *View) { v.JobSet = fixture.JobSet("lmp", 1).Condition(jobsetapi.JobSetFailed).Obj() }, elastic.Broken},
		"being deleted":         {func(v *View) { v.JobSet = fixture.JobSet("lmp", 1).Leaving().Obj() }, elastic.Deleting},
		"of another attempt":    {func(v *View) { v.JobSet = fixture.JobSet("lmp", 2).Obj() }, elastic.Stale},
		"of another generation": {func(v *View) { v.MiniCluster.Status.Admission.Generation = 2 }, elastic.Stale},
		"of an attempt that was ended": {func(v *View) {
			v.MiniCluster.Status.Admission = nil
			v.Pods = []*corev1.Pod{fixture.BrokerPod("lmp", 0).On("a").Up().Obj(), fixture.BrokerPod("lmp", 1).Obj()}
		}, elastic.Stale},
		"of one that ended, whose pods end": {func(v *View) {
			v.MiniCluster.Status.Admission = nil
			v.Pods = []*corev1.Pod{fixture.BrokerPod("lmp", 0).Leaving().Obj()}
		}, elastic.Stale},
		"made ahead": {func(v *View) {
			v.MiniCluster.Status.Admission = nil
			v.Pods = []*corev1.Pod{fixture.BrokerPod("lmp", 0).Obj()}
		}, elastic.Ahead},
		"made ahead, and ended by somebody": {func(v *View) {
			v.MiniCluster.Status.Admission = nil
			v.JobSet = fixture.JobSet("lmp", 1).Condition(jobsetapi.JobSetFailed).Obj()
		}, elastic.Stale},
		"made ahead for a spec that was changed": {func(v *View) {
			v.MiniCluster.Status.Admission, v.MiniCluster.Generation = nil, 2
		}, elastic.Stale},
		"made ahead for an attempt before": {func(v *View) {
			v.MiniCluster.Status.Admission, v.MiniCluster.Status.RequeueState = nil, &v1alpha2.RequeueState{Count: 1}
		}, elastic.Stale},
		"of nobody": {func(v *View) { v.JobSet = fixture.JobSet("lmp", 1).OwnedBy("", "").Obj() }, elastic.Absent},
		"of one of the same name that was deleted": {func(v *View) {
			v.JobSet = fixture.JobSet("lmp", 1).OwnedBy("lmp", "uid-before").Obj()
		}, elastic.Absent},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			o, err := Observe(view(tc.change))
			if err != nil {
				t.Fatal(err)
			}
			if o.Workload != tc.want {
				t.Errorf("got %d, want %d", o.Workload, tc.want)
			}
		})
	}
}

func TestObserveNumbers(t *testing.T) {
	v := view(func(v *View) {
		v.Pods = []*corev1.Pod{
			fixture.BrokerPod("lmp", 0).On("a").Ended(3).Annotation(v1alpha2.QuorumAnnotation, "2").Obj(),
			fixture.BrokerPod("lmp", 1).On("b").Up().Obj(),
			fixture.BrokerPod("lmp", 2).Obj(),
			fixture.BrokerPod("lmp", 1).Named("before").Label(jobsetapi.JobSetUIDKey, "before").On("b").Up().Leaving().Obj(),
			fixture.BrokerPod("lmp", 1).Named("namesake").Label(jobsetapi.JobSetUIDKey, "x").Label(v1alpha2.UIDLabel, "x").On("b").Up().Obj(),
		}
		started := metav1.NewTime(fixture.Noon)
		v.MiniCluster.Status.StartTime = &started
		v.MiniCluster.Status.RequeueState = &v1alpha2.RequeueState{Count: 2, RequeueAt: &started}
	})
	o, err := Observe(v)
	if err != nil {
		t.Fatal(err)
	}
	if o.Occupied != 2 || o.Leftover != 2 || o.Published != 2 || o.GivenUp != 2 || !o.Started.Equal(fixture.Noon) || !o.NotBefore.Equal(fixture.Noon) {
		t.Errorf("occupied %d, left over %d, published %d, given up %d, started %s, not before %s",
			o.Occupied, o.Leftover, o.Published, o.GivenUp, o.Started, o.NotBefore)
	}
	if nodes := OccupiedNodes(v); len(nodes) != 1 || !nodes["b"] {
		t.Errorf("occupied nodes %v", nodes)
	}
	if code := o.Brokers[0].ExitCode; code == nil || *code != 3 {
		t.Errorf("the lead's exit code is %v, want 3", code)
	}
}

func TestObserveRefusesAStatusThatIsNoStatus(t *testing.T) {
	for name, nodes := range map[string]string{"too few nodes": "a", "too many": "a,b,c", "no list": "a["} {
		t.Run(name, func(t *testing.T) {
			_, err := Observe(view(func(v *View) { v.MiniCluster.Status.Admission.Nodes = nodes }))
			if err == nil {
				t.Error("it was taken")
			}
		})
	}
}
