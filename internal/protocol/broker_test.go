// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package protocol

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// The container of the broker says how far the broker is, whatever other containers of its pod do.
func TestBrokersContainer(t *testing.T) {
	later := metav1.NewTime(fixture.Noon.Add(time.Minute))
	ended := func(code int32, reason string) corev1.ContainerState {
		return corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason, FinishedAt: metav1.NewTime(fixture.Noon)}}
	}
	told := func(code int32, message string) corev1.ContainerState {
		state := ended(code, "Error")
		state.Terminated.Message = message
		return state
	}
	running := corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	for name, tc := range map[string]struct {
		phase  corev1.PodPhase
		broker corev1.ContainerStatus
		mesh   corev1.ContainerState
		want   life.Broker
	}{
		"it has ended with 0, and a mesh's container never ends": {
			corev1.PodRunning, corev1.ContainerStatus{State: ended(0, "Completed")}, running,
			life.Broker{State: life.Succeeded, EndedAt: fixture.Noon, Lingers: true},
		},
		"it has failed, and that one never ends": {
			corev1.PodRunning, corev1.ContainerStatus{State: ended(3, "Error")}, running,
			life.Broker{State: life.Failed, ExitCode: new(3), EndedAt: fixture.Noon, Lingers: true},
		},
		"it has ended with 0, and that one failed": {
			corev1.PodFailed, corev1.ContainerStatus{State: ended(0, "Completed")}, ended(1, "Error"),
			life.Broker{State: life.Succeeded, EndedAt: fixture.Noon},
		},
		"the runtime could not start it": {
			corev1.PodFailed, corev1.ContainerStatus{State: ended(128, "StartError")}, ended(0, "Completed"),
			life.Broker{State: life.Failed, EndedAt: fixture.Noon, NotStarted: "StartError"},
		},
		"it has failed, and the runtime could not start that one": {
			corev1.PodFailed, corev1.ContainerStatus{State: ended(3, "Error")}, ended(128, "StartError"),
			life.Broker{State: life.Failed, ExitCode: new(3), EndedAt: fixture.Noon},
		},
		"nobody saw its end": {
			corev1.PodFailed, corev1.ContainerStatus{State: ended(137, "ContainerStatusUnknown"), ContainerID: "containerd://1"}, running,
			life.Broker{State: life.Failed, EndedAt: fixture.Noon, EndUnknown: true},
		},
		"its kubelet has lost it": {
			corev1.PodFailed, corev1.ContainerStatus{State: ended(137, "ContainerStatusUnknown"), LastTerminationState: ended(137, "ContainerStatusUnknown")}, running,
			life.Broker{State: life.Failed, EndedAt: fixture.Noon, EndUnknown: true},
		},
		"it has never run: its image was still pulled": {
			corev1.PodFailed, corev1.ContainerStatus{State: ended(137, "ContainerStatusUnknown")}, running,
			life.Broker{State: life.Failed, EndedAt: fixture.Noon},
		},
		"a signal ended it, and the command with it": {
			corev1.PodFailed, corev1.ContainerStatus{State: told(143, "the container was ended while the command ran\n")}, ended(143, "Error"),
			life.Broker{State: life.Failed, EndedAt: fixture.Noon},
		},
		"a signal ended it before": {
			corev1.PodFailed, corev1.ContainerStatus{State: told(143, "the container was ended\n")}, ended(143, "Error"),
			life.Broker{State: life.Failed, EndedAt: fixture.Noon},
		},
		"it ran when its node died": {
			corev1.PodFailed, corev1.ContainerStatus{State: running, Started: new(true)}, running,
			life.Broker{State: life.Failed, Started: true, EndUnknown: true},
		},
		"it runs, and that one is not ready": {
			corev1.PodRunning, corev1.ContainerStatus{State: running, Ready: true, Started: new(true)}, ended(1, "Error"),
			life.Broker{State: life.Up, Started: true, Ready: true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			pod := fixture.BrokerPod("lmp", 0).On("n0").Obj()
			tc.broker.Name = "lmp"
			pod.Status = corev1.PodStatus{Phase: tc.phase, ContainerStatuses: []corev1.ContainerStatus{tc.broker, {Name: "mesh", State: tc.mesh}}}
			if end := tc.mesh.Terminated; end != nil {
				end.FinishedAt = later
			}
			got := Read(Strip(pod)).Broker
			tc.want.Bound, tc.want.Placed = true, got.Placed
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("the broker is another (-want +got):\n%s", d)
			}
		})
	}
}

// The exit code of a broker whose pod was deleted before its end says nothing about the command, and 0 does.
func TestDeletedBroker(t *testing.T) {
	at := func(seconds int) metav1.Time {
		return metav1.NewTime(fixture.Noon.Add(time.Duration(seconds) * time.Second))
	}
	ended := func(code int32, seconds int) []corev1.ContainerStatus {
		return []corev1.ContainerStatus{{Name: "lmp", State: corev1.ContainerState{
			Terminated: &corev1.ContainerStateTerminated{ExitCode: code, FinishedAt: at(seconds)},
		}}}
	}
	for name, tc := range map[string]struct {
		status corev1.PodStatus
		state  life.BrokerState
		code   *int
	}{
		"it failed before":           {corev1.PodStatus{ContainerStatuses: ended(3, 9)}, life.Failed, new(3)},
		"it failed in that second":   {corev1.PodStatus{ContainerStatuses: ended(143, 10)}, life.Failed, nil},
		"it failed later":            {corev1.PodStatus{ContainerStatuses: ended(143, 40)}, life.Failed, nil},
		"it succeeded later":         {corev1.PodStatus{ContainerStatuses: ended(0, 40)}, life.Succeeded, nil},
		"it never ran":               {corev1.PodStatus{Phase: corev1.PodFailed}, life.Failed, nil},
		"its preparation failed":     {corev1.PodStatus{Phase: corev1.PodFailed, InitContainerStatuses: ended(1, 9)}, life.Failed, new(1)},
		"its preparation was killed": {corev1.PodStatus{Phase: corev1.PodFailed, InitContainerStatuses: ended(143, 10)}, life.Failed, nil},
	} {
		pod := fixture.BrokerPod("lmp", 0).On("n0").Obj()
		pod.Status, pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = tc.status, new(at(40)), new(int64(30)) // deleted at 10
		if got := Read(pod).Broker; got.State != tc.state || !cmp.Equal(got.ExitCode, tc.code) {
			t.Errorf("%s: %v with exit code %v", name, got.State, got.ExitCode)
		}
	}
}

// A pod that is being deleted tells since when its broker runs: on a node that is cut off, the command may have begun.
func TestLeavingBroker(t *testing.T) {
	pod := fixture.BrokerPod("lmp", 0).On("n0").Obj()
	pod.DeletionTimestamp = new(metav1.NewTime(fixture.Noon))
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "lmp", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(fixture.Noon)}},
	}}}
	if got := Read(Strip(pod)).Broker; got.State != life.Leaving || !got.Since.Equal(fixture.Noon) {
		t.Errorf("it is %v since %s", got.State, got.Since)
	}
}

// An init container tells of a name that does not resolve, in a pod that runs, too.
func TestUnresolved(t *testing.T) {
	for message, want := range map[string]string{
		"kubernetes.default.svc.example.org does not resolve\n": "kubernetes.default.svc.example.org",
		"a name of a user does not resolve":                     "",
		"done":                                                  "",
	} {
		pod := fixture.BrokerPod("lmp", 1).On("n0").Obj()
		pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, InitContainerStatuses: []corev1.ContainerStatus{
			{Name: "mesh", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
			{Name: "flux-view", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Message: message}}},
		}}
		if got := Read(Strip(pod)).Broker.Unresolved; got != want {
			t.Errorf("%q: %q does not resolve, want %q", message, got, want)
		}
	}
}

// A Job tells each pod how many pods of its index were there before.
func TestReplaces(t *testing.T) {
	for want, annotations := range map[bool]map[string]string{
		false: {batchv1.JobIndexFailureCountAnnotation: "0"},
		true:  {batchv1.JobIndexFailureCountAnnotation: "0", batchv1.JobIndexIgnoredFailureCountAnnotation: "1"},
	} {
		pod := fixture.BrokerPod("lmp", 1).Obj()
		pod.Annotations = annotations
		if got := Read(Strip(pod)).Broker.Replaces; got != want {
			t.Errorf("with %v it replaces another: %t", annotations, got)
		}
	}
}
