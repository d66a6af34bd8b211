// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
)

// Foreign objects under the names that are needed are left as they are.
func TestNameClash(t *testing.T) {
	t.Parallel()
	foreign := map[string]client.Object{
		"Service": &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: "clash"}, Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"theirs": "1"},
		}},
		"JobSet":    &jobsetapi.JobSet{ObjectMeta: metav1.ObjectMeta{Name: "clash"}, Spec: jobsetapi.JobSetSpec{Suspend: new(true)}},
		"ConfigMap": &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: scripts(t).Name}, Data: map[string]string{"wait-0.sh": "theirs"}},
	}
	for kind, object := range foreign {
		t.Run(kind, func(t *testing.T) {
			s := newSite(t, 1)
			object.SetNamespace(s.namespace)
			if err := env.client.Create(s.ctx, object); err != nil {
				t.Fatal(err)
			}
			before := object.GetResourceVersion()
			mc := s.create(s.miniCluster("clash"))
			s.awaitState(mc, v1alpha2.StateRejected)
			accepted := condition(mc, v1alpha2.ConditionAccepted)
			if accepted.Reason != v1alpha2.ReasonNameClash || !strings.Contains(accepted.Message, fmt.Sprintf("%s %q exists", kind, object.GetName())) {
				t.Errorf("it was told %s: %s", accepted.Reason, accepted.Message)
			}
			if err := env.client.Get(s.ctx, client.ObjectKeyFromObject(object), object); err != nil {
				t.Fatal(err)
			}
			if object.GetResourceVersion() != before {
				t.Errorf("the foreign %s was changed: %+v", kind, object)
			}
			// With the name free, it goes on.
			s.delete(object)
			s.awaitSuccess(mc)
		})
	}
}

// A foreign object that was made after the check is left as it is, too.
func TestNameClashAfterCheck(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	s.patchQueue(`{"spec":{"suspended":true}}`)
	mc := s.create(s.miniCluster("clash"))
	s.await(mc, "waiting", func(mc *v1alpha2.MiniCluster) bool {
		return condition(mc, v1alpha2.ConditionAdmitted).Reason == v1alpha2.ReasonQueueSuspended
	})
	foreign := &jobsetapi.JobSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "clash"}, Spec: jobsetapi.JobSetSpec{Suspend: new(true)}}
	if err := env.client.Create(s.ctx, foreign); err != nil {
		t.Fatal(err)
	}
	s.patch(queueOf(s), `{"spec":{"suspended":false}}`)
	s.awaitState(mc, v1alpha2.StateRejected)
	if accepted := condition(mc, v1alpha2.ConditionAccepted); accepted.Reason != v1alpha2.ReasonNameClash {
		t.Errorf("it was told %s: %s", accepted.Reason, accepted.Message)
	}
	if err := env.client.Get(s.ctx, client.ObjectKeyFromObject(foreign), foreign); err != nil {
		t.Fatal(err)
	}
	if len(foreign.OwnerReferences) > 0 || len(foreign.Labels) > 0 {
		t.Errorf("the foreign JobSet was changed: %+v", foreign.ObjectMeta)
	}
	s.delete(foreign)
	s.awaitSuccess(mc)
}

// A pod of somebody else holds its node until it is gone, also for the next manager.
func TestForeignPods(t *testing.T) {
	s := newSite(t, 2)
	foreign := fixture.Pod("foreign").CPU("8").On(s.nodes[0]).Obj()
	foreign.Namespace, foreign.UID, foreign.Spec.Affinity, foreign.Spec.Containers[0].Image = s.namespace, "", nil, "registry.example.com/app:1"
	if err := env.client.Create(s.ctx, foreign); err != nil {
		t.Fatal(err)
	}
	mc := s.create(s.miniCluster("waits").Size(2))
	s.await(mc, "waiting for room", func(mc *v1alpha2.MiniCluster) bool {
		return condition(mc, v1alpha2.ConditionAdmitted).Reason == v1alpha2.ReasonNoRoom
	})
	env.manager.Stop()
	restartManager(t)
	next := s.create(s.miniCluster("one").Size(1))
	s.await(next, "waiting for its turn", func(mc *v1alpha2.MiniCluster) bool {
		return condition(mc, v1alpha2.ConditionAdmitted).Reason == v1alpha2.ReasonWaitingForTurn
	})
	s.delete(foreign, client.GracePeriodSeconds(0))
	s.awaitSuccess(mc)
	s.awaitSuccess(next)
}

// Names that begin with one another do not touch each other.
func TestNamesThatBeginAlike(t *testing.T) {
	t.Parallel()
	s := newSite(t, 8)
	var all []*v1alpha2.MiniCluster
	for _, name := range []string{"foo", "foo-0", "foo-0-0", "foo-w"} {
		all = append(all, s.create(s.miniCluster(name).Size(2).PodAnnotation(simulator.Runtime, "1h")))
	}
	for _, mc := range all {
		s.awaitState(mc, v1alpha2.StateRunning)
	}
	for i, mc := range all {
		s.delete(mc)
		s.awaitGone(mc)
		eventually(t, func() error {
			if n := len(s.pods(mc)); n > 0 {
				return fmt.Errorf("%s has %d pods", mc.Name, n)
			}
			return nil
		})
		for _, other := range all[i+1:] {
			if state(s.get(other)) != v1alpha2.StateRunning || len(s.pods(other)) != 2 {
				t.Errorf("with %s gone, %s is %s, with %d pods", mc.Name, other.Name, state(other), len(s.pods(other)))
			}
		}
	}
}

// What only the API server can know to be nonsense is said in the condition, and
// mended by mending it.
func TestPodsThatAreRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	later := &nodev1.RuntimeClass{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}, Handler: "runc"}
	comes := func(object client.Object) {
		t.Helper()
		if err := env.client.Create(s.ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	cases := map[string]struct {
		change func(*v1alpha2.MiniClusterSpec)
		want   string
	}{
		"a priority class that is not there":  {func(spec *v1alpha2.MiniClusterSpec) { spec.PriorityClassName = "e2e-later" }, "no PriorityClass with name e2e-later"},
		"a service account that is not there": {func(spec *v1alpha2.MiniClusterSpec) { spec.Pod.ServiceAccountName = "nobody" }, `serviceaccount "nobody" not found`},
		"a runtime class that is not there":   {func(spec *v1alpha2.MiniClusterSpec) { spec.Pod.RuntimeClassName = later.Name }, fmt.Sprintf("RuntimeClass %q not found", later.Name)},
		"a mount that is taken": {func(spec *v1alpha2.MiniClusterSpec) {
			spec.Containers[0].Volumes = map[string]v1alpha2.ContainerVolume{"x": {Path: "/mnt/flux"}}
		}, "must be unique"},
		"a request above its limit": {func(spec *v1alpha2.MiniClusterSpec) {
			spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *spec.Containers[0].Resources.Limits.Cpu()}
			spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = *quantity("9")
		}, "must be less than or equal to cpu limit"},
		"a volume name that is none": {func(spec *v1alpha2.MiniClusterSpec) {
			spec.Containers[0].Volumes = map[string]v1alpha2.ContainerVolume{"Not_A_Name": {Path: "/x"}}
		}, "spec.volumes[4].name"},
		"a services pod that is none": {func(spec *v1alpha2.MiniClusterSpec) {
			spec.Services = []v1alpha2.MiniClusterContainer{{Name: "db"}, {Name: "db"}}
		}, "the services pod would be refused"},
		"more tasks than cores": {func(spec *v1alpha2.MiniClusterSpec) { spec.Tasks = new(int32(9)) },
			"spec.tasks is 9, more than the 8 for which Flux has cores (brokers: 1, cores of each: 8, cores per task: 1); raise the CPU in resources of the Flux container, or set flux.resources: Local"},
		"a topology that is none":            {func(spec *v1alpha2.MiniClusterSpec) { spec.Placement.TopologyKey = "shelf" }, `topologyKey "shelf" is no label`},
		"a label of the JobSet that is none": {func(spec *v1alpha2.MiniClusterSpec) { spec.JobLabels = map[string]string{"a": "b c"} }, "a valid label"},
		"files that are too large for a ConfigMap": {func(spec *v1alpha2.MiniClusterSpec) {
			spec.Flux.Environment = map[string]string{}
			for i := range 32 { // each as long as it may be
				spec.Flux.Environment[fmt.Sprint("X", i)] = strings.Repeat("x", 1<<15)
			}
		}, "ConfigMap"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			mc := s.create(s.miniCluster("refused").Spec(tc.change))
			s.awaitState(mc, v1alpha2.StateRejected)
			accepted := condition(mc, v1alpha2.ConditionAccepted)
			if accepted.Status != metav1.ConditionFalse || !strings.Contains(accepted.Message, tc.want) {
				t.Errorf("it was told %s: %s", accepted.Reason, accepted.Message)
			}
			eventually(t, func() error {
				if s.events(mc)[accepted.Reason] == 0 {
					return fmt.Errorf("no event %s: %v", accepted.Reason, s.events(mc))
				}
				return nil
			})
			switch name {
			case "a priority class that is not there":
				s.priorityClass("e2e-later", 7)
				s.awaitSuccess(mc)
			case "a service account that is not there":
				comes(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "nobody"}})
				s.awaitSuccess(mc)
			case "a runtime class that is not there":
				comes(later)
				defer s.delete(later)
				s.awaitSuccess(mc)
			case "more tasks than cores":
				s.patch(mc, `{"spec":{"flux":{"resources":"Local"}}}`)
				s.awaitSuccess(mc)
			}
			s.delete(mc)
			s.awaitGone(mc)
		})
	}
}

// priorityClass makes one for as long as the test runs.
func (s *site) priorityClass(name string, value int32) {
	s.t.Helper()
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
	if err := env.client.Create(s.ctx, class); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := env.client.Delete(s.ctx, class); err != nil {
			s.t.Error(err)
		}
	})
}

// quorumTimesOut ends the quorumTimeout of a MiniCluster that starts.
func quorumTimesOut(s *site, mc *v1alpha2.MiniCluster) {
	s.t.Helper()
	s.patch(mc, `{"spec":{"elastic":{"quorumTimeout":"1s"}}}`)
}

// A node that goes under a running MPI job takes it with it.
func TestNodeVanishesWhileRunning(t *testing.T) {
	t.Parallel()
	for rank, want := range []string{v1alpha2.ReasonLeadLost, v1alpha2.ReasonCommandFailed} {
		t.Run(fmt.Sprint("of rank ", rank), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, 3)
			mc := s.create(s.miniCluster("loses").Size(3).PodAnnotation(simulator.Runtime, "1h"))
			s.awaitState(mc, v1alpha2.StateRunning)
			vanish(s, nodeOfRank(s, mc, rank))
			s.awaitState(mc, v1alpha2.StateFailed)
			if reason := condition(mc, v1alpha2.ConditionFinished).Reason; reason != want {
				t.Errorf("it failed with %s, want %s", reason, want)
			}
		})
	}
}

// Others' pods and cordoned nodes are reckoned with.
func TestOthersOnTheNodes(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	other := s.occupy(s.nodes[0])
	cordon(s, s.nodes[1], true)
	t.Cleanup(func() { cordon(s, s.nodes[1], false) })
	mc := s.create(s.miniCluster("waits").Size(3))
	s.await(mc, "told why it waits", func(mc *v1alpha2.MiniCluster) bool {
		message := condition(mc, v1alpha2.ConditionAdmitted).Message
		return strings.Contains(message, "1 cordoned") && strings.Contains(message, "1 in use")
	})
	cordon(s, s.nodes[1], false)
	s.delete(other, client.GracePeriodSeconds(0))
	s.awaitSuccess(mc)
}

// occupy makes a pod of somebody else on a node.
func (s *site) occupy(node string) *corev1.Pod {
	s.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "other-" + node},
		Spec: corev1.PodSpec{
			NodeName:   node,
			Containers: []corev1.Container{{Name: "x", Image: "x", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: *quantity("1")}}}},
		},
	}
	if err := env.client.Create(s.ctx, pod); err != nil {
		s.t.Fatal(err)
	}
	return pod
}

// Many gangs at once: each is wholly made before a pod of it is bound, no node is
// held twice, and all run, once.
func TestManyGangs(t *testing.T) {
	t.Parallel()
	s := newSite(t, 24)
	sizes := []int32{16, 1, 8, 3, 24, 2, 12, 5, 4, 20, 6, 1, 9, 16, 2, 3, 7, 11, 4, 1}
	var all []*v1alpha2.MiniCluster
	for i, size := range sizes {
		all = append(all, s.create(s.miniCluster(fmt.Sprintf("gang-%02d", i)).Size(size).PodAnnotation(simulator.Runtime, "500ms")))
	}
	for i, mc := range all {
		s.awaitSuccess(mc)
		var set jobsetapi.JobSet
		if err := env.client.Get(s.ctx, client.ObjectKeyFromObject(mc), &set); err != nil {
			t.Fatal(err)
		}
		// Pods that the API server binds are bound as they are made.
		if made := env.watch.madeBeforeBound(set.UID); made != int(sizes[i]) && jobset.Admitted(&set) == "" {
			t.Errorf("%s: %d of %d pods were there when the first was bound", mc.Name, made, sizes[i])
		}
		if n := s.leadsOf(mc); n != 1 {
			t.Errorf("%s ran %d times", mc.Name, n)
		}
	}
}

// nodeOfRank is where a broker runs, once its pod is bound.
func nodeOfRank(s *site, mc *v1alpha2.MiniCluster, rank int) (node string) {
	s.t.Helper()
	eventually(s.t, func() error {
		for _, pod := range s.pods(mc) {
			if pod.Labels["job-index"] == fmt.Sprint(rank) && pod.Spec.NodeName != "" {
				node = pod.Spec.NodeName
				return nil
			}
		}
		return fmt.Errorf("rank %d is nowhere", rank)
	})
	return node
}

// vanish lets a node be no more until the test has ended.
func vanish(s *site, name string) {
	s.t.Helper()
	bring := s.takeNode(name)
	s.t.Cleanup(func() {
		s.t.Helper()
		bring()
		s.awaitReady(name)
	})
}

// takeNode deletes a node, which the returned function makes again.
func (s *site) takeNode(name string) (bring func()) {
	s.t.Helper()
	var node corev1.Node
	if err := env.client.Get(s.ctx, client.ObjectKey{Name: name}, &node); err != nil {
		s.t.Fatal(err)
	}
	s.delete(&node)
	return func() {
		s.t.Helper()
		eventually(s.t, func() error {
			err := env.client.Create(s.ctx, &corev1.Node{
				ObjectMeta: metav1.ObjectMeta{Name: name, Labels: node.Labels},
				Status:     corev1.NodeStatus{Capacity: node.Status.Capacity, Allocatable: node.Status.Allocatable},
			})
			if apierrors.IsAlreadyExists(err) {
				return nil
			}
			return err
		})
	}
}

// awaitReady waits until a node that was made is ready: Kubernetes taints it until then.
func (s *site) awaitReady(name string) {
	s.t.Helper()
	eventually(s.t, func() error {
		var node corev1.Node
		if err := env.client.Get(s.ctx, client.ObjectKey{Name: name}, &node); err != nil {
			return err
		}
		if len(node.Spec.Taints) > 0 {
			return fmt.Errorf("node %s is tainted: %v", name, node.Spec.Taints)
		}
		return nil
	})
}

func cordon(s *site, name string, value bool) {
	s.t.Helper()
	s.patch(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, `{"spec":{"unschedulable":%v}}`, value)
}
