// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

// ours is how a pod is that is bound directly.
func ours(s *corev1.PodSpec) { s.SchedulingGates, s.SchedulerName = nil, v1alpha2.SchedulerName }

func TestWaiting(t *testing.T) {
	scheduler := func(s *corev1.PodSpec) { s.SchedulerName = v1alpha2.SchedulerName }
	for name, tc := range map[string]struct {
		pod   *corev1.Pod
		waits bool
		node  string
	}{
		"behind the gate":                        {fixture.BrokerPod("lmp", 0).Obj(), true, ""},
		"pinned for a scheduler":                 {fixture.BrokerPod("lmp", 0).Pinned("a").Obj(), false, "a"},
		"for our Binding":                        {fixture.BrokerPod("lmp", 0).Spec(ours).Obj(), true, ""},
		"for our Binding, with another's gate":   {fixture.BrokerPod("lmp", 0).Spec(ours).Spec(func(s *corev1.PodSpec) { s.SchedulingGates = []corev1.PodSchedulingGate{{Name: "other"}} }).Obj(), true, ""},
		"bound by us":                            {fixture.BrokerPod("lmp", 0).Spec(ours).Spec(func(s *corev1.PodSpec) { s.NodeName = "a" }).Obj(), false, "a"},
		"behind the gate, our name by its user":  {fixture.BrokerPod("lmp", 0).Spec(scheduler).Obj(), true, ""},
		"the gate is off, our name by its user":  {fixture.BrokerPod("lmp", 0).Pinned("a").Spec(scheduler).Obj(), true, ""},
		"bound by us, our name by its user":      {fixture.BrokerPod("lmp", 0).On("a").Spec(scheduler).Obj(), false, "a"},
		"for another scheduler, without a gate":  {fixture.Pod("x").Obj(), false, ""},
		"for another scheduler, with its gate":   {fixture.Pod("x").Spec(func(s *corev1.PodSpec) { s.SchedulingGates = []corev1.PodSchedulingGate{{Name: "other"}} }).Obj(), false, ""},
		"bound by the scheduler, and has failed": {fixture.BrokerPod("lmp", 0).On("a").Ended(1).Obj(), false, "a"},
	} {
		t.Run(name, func(t *testing.T) {
			if IsGated(tc.pod) != tc.waits || PinnedNode(tc.pod) != tc.node {
				t.Errorf("waits: %v, on %q; want %v, %q", IsGated(tc.pod), PinnedNode(tc.pod), tc.waits, tc.node)
			}
		})
	}
}

func TestRank(t *testing.T) {
	for rank := range 3 {
		if got, ok := Rank(fixture.BrokerPod("lmp", rank).Obj()); !ok || got != rank {
			t.Errorf("the pod of rank %d has rank %d, %v", rank, got, ok)
		}
	}
	for name, pod := range map[string]*corev1.Pod{
		"a pod of somebody else":   fixture.Pod("x").Obj(),
		"a pod of another JobSet":  fixture.BrokerPod("lmp", 1).Label(jobsetapi.ReplicatedJobNameKey, "other").Obj(),
		"a follower without index": fixture.BrokerPod("lmp", 1).Label(batchv1.JobCompletionIndexAnnotation, "x").Obj(),
	} {
		if rank, ok := Rank(pod); ok {
			t.Errorf("%s has rank %d", name, rank)
		}
	}
}

func TestPinnedNode(t *testing.T) {
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"gated":                   {fixture.BrokerPod("lmp", 0).Obj(), ""},
		"pinned":                  {fixture.BrokerPod("lmp", 0).Pinned("a").Obj(), "a"},
		"bound":                   {fixture.BrokerPod("lmp", 0).On("a").Obj(), "a"},
		"of somebody else, bound": {fixture.Pod("x").On("b").Obj(), "b"},
		"with another affinity":   {fixture.Pod("x").Spec(func(s *corev1.PodSpec) { s.Affinity = inZone("a") }).Obj(), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := PinnedNode(tc.pod); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// A broker that ran out of memory says so, and no other container of its pod does for it.
func TestOutOfMemory(t *testing.T) {
	end := func(reason string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: reason}}
	}
	for name, tc := range map[string]struct {
		broker, other corev1.ContainerState
		want          bool
	}{
		"the broker":          {end("OOMKilled"), end("Error"), true},
		"another container":   {end("Error"), end("OOMKilled"), false},
		"neither":             {end("Error"), end("Completed"), false},
		"a broker that began": {corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, end("OOMKilled"), false},
		"a broker that waits": {corev1.ContainerState{}, corev1.ContainerState{}, false},
	} {
		pod := fixture.BrokerPod("lmp", 1).On("n0").Ended(137).Obj()
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "other", State: tc.other}, {Name: "lmp", State: tc.broker}}
		if got := Read(pod).Broker.OutOfMemory; got != tc.want {
			t.Errorf("%s: out of memory is %v", name, got)
		}
	}
}

// The readiness of a pod is that of its broker, until another container is not ready, or was started again.
func TestShared(t *testing.T) {
	status := func(name string, ready bool, restarts int32) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, Ready: ready, RestartCount: restarts, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}
	}
	for name, tc := range map[string]struct {
		ready   corev1.ConditionStatus
		broker  bool
		other   corev1.ContainerStatus
		sidecar corev1.ContainerStatus
		want    bool
	}{
		"all are ready":              {ready: corev1.ConditionTrue, broker: true, other: status("other", true, 0), sidecar: status("sidecar", true, 0)},
		"only the broker is not":     {ready: corev1.ConditionFalse, other: status("other", true, 0), sidecar: status("sidecar", true, 0)},
		"another is not":             {ready: corev1.ConditionFalse, broker: true, other: status("other", false, 0), sidecar: status("sidecar", true, 0), want: true},
		"another was started again":  {ready: corev1.ConditionTrue, broker: true, other: status("other", true, 1), sidecar: status("sidecar", true, 0), want: true},
		"a sidecar is started again": {ready: corev1.ConditionFalse, other: status("other", true, 0), sidecar: status("sidecar", false, 2), want: true},
	} {
		pod := fixture.BrokerPod("lmp", 0).On("n0").Obj()
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: tc.ready}}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{tc.other, status("lmp", tc.broker, 0)}
		pod.Status.InitContainerStatuses = []corev1.ContainerStatus{tc.sidecar}
		if got := Read(pod).Shared; got != tc.want {
			t.Errorf("%s: shared is %v", name, got)
		}
	}
}
