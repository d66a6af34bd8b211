// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"fmt"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
)

// gangStage has the gang of one Job in a fake cluster.
type gangStage struct {
	*testing.T
	client.Client
	clock     *clocktesting.FakePassiveClock
	simulator *simulator
}

func newGangStage(t *testing.T) *gangStage {
	t.Helper()
	s := &gangStage{T: t, clock: clocktesting.NewFakePassiveClock(fixture.Noon)}
	s.Client = fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithStatusSubresource(&corev1.Pod{}).
		WithIndex(&corev1.Pod{}, instanceIndex, instanceOf).Build()
	s.simulator = &simulator{client: s, live: s, clock: s.clock, runs: map[types.UID]*run{}, written: map[types.UID]uint64{}, saved: map[string]float64{}}
	return s
}

// play sets the phases of the pods, which it makes first, and calls Reconcile. It returns when
// Reconcile wants to run again.
func (s *gangStage) play(after time.Duration, phases ...corev1.PodPhase) time.Duration {
	s.Helper()
	s.clock.SetTime(fixture.Noon.Add(after))
	for i, phase := range phases {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: fixture.Namespace, Name: fmt.Sprint("pod-", i), UID: types.UID(fmt.Sprint("uid-", i)),
			Labels:      map[string]string{batchv1.ControllerUidLabel: "job"},
			Annotations: map[string]string{GangSize: "3", Runtime: "10s"},
		}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "pause"}}}}
		if err := client.IgnoreAlreadyExists(s.Create(s.Context(), pod)); err != nil {
			s.Fatal(err)
		}
		if err := s.Get(s.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
			s.Fatal(err)
		}
		pod.Status.Phase = phase
		if err := s.Status().Update(s.Context(), pod); err != nil {
			s.Fatal(err)
		}
	}
	result, err := s.simulator.Reconcile(s.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: fixture.Namespace, Name: "job"}})
	if err != nil {
		s.Fatal(err)
	}
	return result.RequeueAfter
}

func (s *gangStage) succeeded() int {
	s.Helper()
	var pods corev1.PodList
	if err := s.List(s.Context(), &pods); err != nil {
		s.Fatal(err)
	}
	n := 0
	for _, pod := range pods.Items {
		if pod.Status.Phase == corev1.PodSucceeded {
			n++
		}
	}
	return n
}

func TestGang(t *testing.T) {
	const up, waits = corev1.PodRunning, corev1.PodPending
	s := newGangStage(t)
	if again := s.play(0, up, up, waits); again != 0 {
		t.Errorf("with a pod missing, the gang ends in %s", again)
	}
	if s.play(time.Hour); s.succeeded() != 0 {
		t.Error("a gang without all of its pods ended")
	}
	if again := s.play(time.Hour, up, up, up); again != 10*time.Second {
		t.Errorf("the gang ends in %s", again)
	}
	s.play(time.Hour+5*time.Second, up, corev1.PodFailed, up)
	if s.play(time.Hour + 20*time.Second); s.succeeded() != 0 {
		t.Error("a gang that lost a pod ended")
	}
	if again := s.play(2*time.Hour, up, up, up); again != 10*time.Second {
		t.Errorf("the gang that was whole again ends in %s", again)
	}
	if s.play(2*time.Hour + 10*time.Second); s.succeeded() != 3 {
		t.Errorf("%d of 3 pods succeeded", s.succeeded())
	}
	if s.play(3 * time.Hour); len(s.simulator.runs) != 0 {
		t.Error("a gang that is over is not forgotten")
	}
}

func TestGangOf(t *testing.T) {
	pod := func(size string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Labels: map[string]string{batchv1.ControllerUidLabel: "job"}, Annotations: map[string]string{GangSize: size},
		}}
	}
	for text, want := range map[string]int{"3": 3, "": 0, "0": 0, "many": 0} {
		if job, size := GangOf(pod(text)); size != want || (job == "job") != (want > 0) {
			t.Errorf("%q: %d pods of Job %q", text, size, job)
		}
	}
}
