// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package simulator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/broker"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
)

const filesName = "lmp-files"

// stage has one instance in a fake cluster. The tests call Reconcile themselves.
type stage struct {
	*testing.T
	client      client.Client
	clock       *clocktesting.FakePassiveClock
	simulator   *simulator
	annotations map[string]string
	// cached is the content of a cache that lags; nil if the cache does not lag.
	cached *corev1.PodList
	writes int
}

// newStage makes a stage with the files of a MiniCluster of four brokers, whose command takes 10 s. The
// pods of the given ranks run.
func newStage(t *testing.T, change func(*v1alpha2.MiniClusterSpec), annotations map[string]string, ranks ...int) *stage {
	t.Helper()
	mc := fixture.MiniCluster("lmp").Size(4).Spec(change).Defaulted()
	files, err := broker.Files(mc, 1)
	if err != nil {
		t.Fatal(err)
	}
	s := &stage{T: t, clock: clocktesting.NewFakePassiveClock(fixture.Noon), annotations: annotations}
	s.client = fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).
		WithObjects(fixture.Node("node").Obj(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: fixture.Namespace, Name: filesName}, Data: files,
		}).
		WithStatusSubresource(&corev1.Pod{}).
		WithIndex(&corev1.Pod{}, instanceIndex, instanceOf).
		WithInterceptorFuncs(interceptor.Funcs{List: s.list, SubResourcePatch: s.patch}).Build()
	s.simulator = &simulator{client: s.client, live: s.client, clock: s.clock, runs: map[types.UID]*run{}, written: map[types.UID]uint64{}, saved: map[string]float64{}}
	s.start(ranks...)
	return s
}

func (s *stage) list(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
	if s.cached != nil {
		s.cached.DeepCopyInto(list.(*corev1.PodList))
		return nil
	}
	return c.List(ctx, list, options...)
}

func (s *stage) patch(ctx context.Context, c client.Client, resource string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	s.writes++
	return c.SubResource(resource).Patch(ctx, object, patch, options...)
}

// start starts pods as kwok does: the lead's pod is not ready.
func (s *stage) start(ranks ...int) {
	s.Helper()
	for _, rank := range ranks {
		pod := fixture.BrokerPod("lmp", rank).On("node").Up().Spec(func(spec *corev1.PodSpec) {
			spec.Volumes = []corev1.Volume{{Name: "files", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{
				Sources: []corev1.VolumeProjection{{ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: filesName}}}},
			}}}}
		}).Obj()
		pod.Annotations = maps.Clone(s.annotations)
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.ContainersReady, Status: corev1.ConditionTrue}}
		if rank == 0 {
			for i := range pod.Status.Conditions {
				pod.Status.Conditions[i].Status, pod.Status.Conditions[i].Reason = corev1.ConditionFalse, "ContainersNotReady"
			}
		}
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "lmp", Ready: rank > 0, Started: new(rank > 0), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}
		if err := s.client.Create(s.Context(), pod); err != nil {
			s.Fatal(err)
		}
	}
}

func (s *stage) pod(rank int) *corev1.Pod {
	s.Helper()
	var pod corev1.Pod
	if err := s.client.Get(s.Context(), types.NamespacedName{Namespace: fixture.Namespace, Name: fmt.Sprintf("lmp-%d", rank)}, &pod); err != nil {
		s.Fatal(err)
	}
	return &pod
}

// tell annotates the lead's pod as the controller does. The value "" removes the annotation.
func (s *stage) tell(key, value string) {
	s.Helper()
	lead := s.pod(0)
	metav1.SetMetaDataAnnotation(&lead.ObjectMeta, key, value)
	if value == "" {
		delete(lead.Annotations, key)
	}
	if err := s.client.Update(s.Context(), lead); err != nil {
		s.Fatal(err)
	}
}

// lose makes a pod fail, as a kubelet does.
func (s *stage) lose(rank int) {
	s.Helper()
	pod := s.pod(rank)
	pod.Status.Phase = corev1.PodFailed
	if err := s.client.Status().Update(s.Context(), pod); err != nil {
		s.Fatal(err)
	}
}

// at calls Reconcile some time after noon, and returns when Reconcile wants to run again.
func (s *stage) at(after time.Duration) time.Duration {
	s.Helper()
	s.clock.SetTime(fixture.Noon.Add(after))
	result, err := s.simulator.Reconcile(s.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Namespace: fixture.Namespace, Name: "uid-jobset-lmp"}})
	if err != nil {
		s.Fatal(err)
	}
	return result.RequeueAfter
}

// want checks the states of the pods, in the order of ranks: "up" (runs, and is not ready), "ready",
// "lost", or the exit code.
func (s *stage) want(want string) {
	s.Helper()
	var list corev1.PodList
	if err := s.client.List(s.Context(), &list); err != nil {
		s.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	var got []string
	for i := range list.Items {
		got = append(got, s.says(&list.Items[i]))
	}
	if text := strings.Join(got, " "); text != want {
		s.Errorf("after %s the pods say %q, want %q", s.clock.Since(fixture.Noon), text, want)
	}
}

func (s *stage) says(pod *corev1.Pod) string {
	container := pod.Status.ContainerStatuses[0]
	switch {
	case pod.Status.Phase == corev1.PodFailed && container.State.Terminated == nil:
		return "lost"
	case pod.Status.Phase != corev1.PodRunning:
		if isReady(pod) {
			s.Errorf("%s has ended and is ready", pod.Name)
		}
		return fmt.Sprint(container.State.Terminated.ExitCode)
	case container.State.Running == nil || container.Ready != isReady(pod) || (container.Ready && !*container.Started):
		s.Errorf("%s contradicts itself: %+v", pod.Name, pod.Status)
	case isReady(pod):
		return "ready"
	}
	return "up"
}

func rigidJob(spec *v1alpha2.MiniClusterSpec) { spec.Containers[0].Command = "lmp" }

func batchJob(spec *v1alpha2.MiniClusterSpec) {
	rigidJob(spec)
	spec.Containers[0].Batch = true
}

func launcher(spec *v1alpha2.MiniClusterSpec) {
	rigidJob(spec)
	spec.Containers[0].Launcher = true
}

func interactive(spec *v1alpha2.MiniClusterSpec) { spec.Interactive = true }

// The followers of a lead that has never been up wait for the next lead.
func TestFollowersOutliveALeadThatNeverWasUp(t *testing.T) {
	s := newStage(t, rigidJob, nil, 0, 1, 2, 3)
	s.lose(0)
	s.at(0)
	s.want("lost ready ready ready")
}

// The lead is ready as soon as the command runs.
func TestLeadIsReadyWithTheCommand(t *testing.T) {
	for name, kind := range map[string]func(*v1alpha2.MiniClusterSpec){"an MPI job": rigidJob, "a batch": batchJob, "a launcher": launcher, "interactive": interactive} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, kind, nil, 0, 1, 2)
			s.at(0)
			s.want("up ready ready")
			s.start(3)
			s.at(3 * time.Second)
			s.want("ready ready ready ready")
			for _, condition := range s.pod(0).Status.Conditions {
				if condition.Status != corev1.ConditionTrue || condition.Reason != "" || !condition.LastTransitionTime.Equal(new(metav1.NewTime(fixture.Noon.Add(3*time.Second)))) {
					t.Errorf("condition %+v", condition)
				}
			}
			if again := s.at(5 * time.Second); again != 8*time.Second {
				t.Errorf("it looks again after %s", again)
			}
			if s.writes != 1 {
				t.Errorf("%d writes", s.writes)
			}
			s.at(13 * time.Second)
			s.want("0 ready ready ready")
			s.at(13 * time.Second)
			s.want("0 0 0 0")
		})
	}
}

// behind calls look twice, the second time with the cache as it was before the first call. The second
// call must write nothing.
func (s *stage) behind(look func()) {
	s.Helper()
	var before corev1.PodList
	if err := s.client.List(s.Context(), &before); err != nil {
		s.Fatal(err)
	}
	look()
	writes := s.writes
	s.cached = &before
	look()
	if s.cached = nil; s.writes != writes {
		s.Errorf("after %s %d writes were repeated", s.clock.Since(fixture.Noon), s.writes-writes)
	}
}

// The simulator writes nothing twice if the cache lags.
func TestBehind(t *testing.T) {
	s := newStage(t, launcher, nil, 0, 1, 2, 3)
	s.behind(func() { s.at(0) })
	s.want("ready ready ready ready")
	s.tell(v1alpha2.DrainAnnotation, "2")
	s.behind(func() { s.at(time.Second) })
	s.want("ready ready up ready")
	s.behind(func() { s.at(time.Minute) })
	s.want("0 ready up ready")
	s.behind(func() { s.at(time.Minute) })
	s.want("0 0 0 0")
	if s.writes != 6 {
		t.Errorf("%d writes", s.writes)
	}
	s.at(time.Minute)
	if len(s.simulator.written) > 0 {
		t.Errorf("it remembers %v", s.simulator.written)
	}
}

// A status that somebody overwrites is written again. The simulator does not overwrite a status that it
// has not seen.
func TestOverwritten(t *testing.T) {
	s := newStage(t, rigidJob, nil, 0, 1, 2, 3)
	before := s.pod(0).Status
	s.at(0)
	s.want("ready ready ready ready")
	lead := s.pod(0) // a kwok whose cache lags starts the pod again
	lead.Status = before
	if err := s.client.Status().Update(t.Context(), lead); err != nil {
		t.Fatal(err)
	}
	s.at(2 * time.Second)
	s.want("ready ready ready ready")

	s = newStage(t, rigidJob, nil, 0, 1, 2, 3)
	var cached corev1.PodList
	if err := s.client.List(t.Context(), &cached); err != nil {
		t.Fatal(err)
	}
	s.tell("other", "x")
	s.cached = &cached
	s.at(0)
	s.want("up ready ready ready")
	s.cached = nil
	s.at(time.Second)
	s.want("ready ready ready ready")
	s.at(10 * time.Second) // since the first look
	s.want("0 ready ready ready")
}

// A rank that is to leave works, and is ready, as long as it has work.
func TestDrain(t *testing.T) {
	s := newStage(t, launcher, map[string]string{Busy: "2s"}, 0, 1, 2, 3)
	s.at(0)
	s.tell(v1alpha2.DrainAnnotation, "2-3")
	if again := s.at(time.Second); again != 2*time.Second {
		t.Errorf("it looks again after %s", again)
	}
	s.want("ready ready ready ready")
	if again := s.at(3 * time.Second); again != 14*time.Second { // 28 s of work for two
		t.Errorf("it looks again after %s", again)
	}
	s.want("ready ready up up")
	idle := s.pod(3)
	for _, condition := range idle.Status.Conditions {
		if condition.Reason != "ContainersNotReady" || !condition.LastTransitionTime.Equal(new(metav1.NewTime(fixture.Noon.Add(3*time.Second)))) {
			t.Errorf("condition %+v", condition)
		}
	}
	if container := idle.Status.ContainerStatuses[0]; !*container.Started || container.Ready {
		t.Errorf("container %+v", container)
	}
	s.tell(v1alpha2.DrainAnnotation, "3")
	if again := s.at(5 * time.Second); again != 8*time.Second { // 24 s of work for three
		t.Errorf("it looks again after %s", again)
	}
	s.want("ready ready ready up")
	s.tell(v1alpha2.DrainAnnotation, "2-3") // rank 2 has new work to end
	s.at(6 * time.Second)
	s.want("ready ready ready up")
	s.at(8 * time.Second)
	s.want("ready ready up up")
	s.tell(v1alpha2.DrainAnnotation, "")
	s.at(9 * time.Second)
	s.want("ready ready ready ready")
	if s.writes != 7 {
		t.Errorf("%d writes", s.writes)
	}
}

// A rank without work is idle at once. The lead stays, and so do ranks with a part in an MPI job.
func TestDrainAtOnce(t *testing.T) {
	s := newStage(t, interactive, nil, 0, 1, 2, 3)
	s.tell(v1alpha2.DrainAnnotation, "0-1")
	s.tell(v1alpha2.QuorumAnnotation, "3")
	if again := s.at(0).Round(time.Second); again != 13*time.Second { // 40 s of work for three
		t.Errorf("it looks again after %s", again)
	}
	s.want("ready up ready ready")

	s = newStage(t, rigidJob, nil, 0, 1, 2, 3)
	s.tell(v1alpha2.DrainAnnotation, "1")
	s.at(0)
	s.want("up up ready ready") // and the lead waits for four
	s.tell(v1alpha2.QuorumAnnotation, "3")
	s.at(time.Second)
	s.want("ready up ready ready")
	s.tell(v1alpha2.DrainAnnotation, "1-2")
	s.at(time.Hour)
	s.want("0 up ready ready") // the job had rank 2 to its end
}

// A lead that is asked to stop ends in every phase, and its followers end after it.
func TestStop(t *testing.T) {
	for name, tc := range map[string]struct {
		annotations map[string]string
		phase       func(*stage)
		want        string
	}{
		"waits for the quorum": {nil, func(*stage) {}, "up ready"},
		"runs":                 {nil, func(s *stage) { s.start(2, 3) }, "ready ready ready ready"},
		"hangs": {map[string]string{HangsOnLoss: "true"}, func(s *stage) {
			s.start(2, 3)
			s.at(0)
			s.lose(3)
		}, "ready ready ready lost"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, rigidJob, tc.annotations, 0, 1)
			tc.phase(s)
			s.at(time.Second)
			s.want(tc.want)
			s.tell(v1alpha2.StopAnnotation, "Deadline")
			s.at(2 * time.Second)
			s.at(2 * time.Second)
			ended := strings.ReplaceAll(strings.ReplaceAll(tc.want, "ready", "0"), "up", "0")
			s.want("143" + ended[1:])
			if phase := s.pod(0).Status.Phase; phase != corev1.PodFailed {
				t.Errorf("the lead is %s", phase)
			}
		})
	}
}

func TestLeadFails(t *testing.T) {
	s := newStage(t, rigidJob, map[string]string{LeadFails: PhaseWaiting}, 0, 1, 2, 3)
	s.at(0)
	s.want("1 ready ready ready")

	s = newStage(t, rigidJob, map[string]string{LeadFails: PhaseRunning}, 0, 1, 2, 3)
	if again := s.at(0); again != time.Second {
		t.Errorf("it looks again after %s", again)
	}
	s.want("ready ready ready ready")
	s.at(time.Second)
	s.want("1 ready ready ready")
	s.at(time.Second)
	s.want("1 0 0 0")

	s = newStage(t, rigidJob, map[string]string{LeadFails: PhaseRunning, FailsAfter: "20s"}, 0, 1, 2, 3)
	s.at(0)
	s.at(10 * time.Second)
	s.want("0 ready ready ready") // the command ended before it was to fail
}

// Followers wait for a lead that has never been up.
func TestLeadNeverWasUp(t *testing.T) {
	s := newStage(t, rigidJob, nil, 0, 1, 2)
	s.lose(0) // before the first Reconcile
	s.at(0)
	s.want("lost ready ready")
}

// Ranks of LoseRanks are lost once, and the command reacts as to any other loss.
func TestLoseRanks(t *testing.T) {
	lose := map[string]string{LoseRanks: "1,3", LoseAfter: "2s"}
	s := newStage(t, rigidJob, lose, 0, 1, 2, 3)
	if again := s.at(0); again != 2*time.Second {
		t.Errorf("it looks again after %s", again)
	}
	s.at(2 * time.Second)
	s.want("ready 1 ready 1")
	s.at(2 * time.Second)
	s.want("1 1 ready 1")
	if lost := protocol.Read(s.pod(0)).Lost; lost != "1,3" {
		t.Errorf("the lead tells that it lost %q", lost)
	}

	s = newStage(t, launcher, lose, 0, 1, 2, 3)
	s.at(0)
	s.at(2 * time.Second)
	s.want("ready 1 ready 1")
	if again := s.at(2 * time.Second); again != 16*time.Second { // 32 s of work for two
		t.Errorf("it looks again after %s", again)
	}
	for _, rank := range []int{1, 3} { // new pods replace them
		if err := s.client.Delete(t.Context(), s.pod(rank), client.GracePeriodSeconds(0)); err != nil {
			t.Fatal(err)
		}
	}
	s.start(1, 3)
	if again := s.at(4 * time.Second); again != 7*time.Second { // 28 s of work for four
		t.Errorf("it looks again after %s", again)
	}
	s.want("ready ready ready ready")
}

// A pod whose annotations change follows them from the next Reconcile on.
func TestToldLater(t *testing.T) {
	tell := func(s *stage, annotation, value string) {
		t.Helper()
		if err := Tell(t.Context(), s.client, s.pod(0), annotation, value); err != nil {
			t.Fatal(err)
		}
	}
	const hour = "1h"
	s := newStage(t, rigidJob, map[string]string{Runtime: hour, ExitCode: "3"}, 0, 1, 2, 3)
	s.at(0)
	tell(s, Runtime, "10s")
	if again := s.at(4 * time.Second); again != 6*time.Second {
		t.Errorf("it looks again after %s", again)
	}
	s.want("ready ready ready ready")
	tell(s, Runtime, "0s")
	s.at(5 * time.Second)
	s.want("3 ready ready ready")

	s = newStage(t, launcher, map[string]string{Runtime: hour, LoseRanks: "1", LoseAfter: hour}, 0, 1, 2, 3)
	s.at(0)
	tell(s, LoseAfter, "0s")
	s.at(time.Second)
	s.want("ready 1 ready ready")
	tell(s, Runtime, "5s") // 4 s of work are done, and 16 s are left for three
	if again := s.at(time.Second).Truncate(time.Second); again != 5*time.Second {
		t.Errorf("it looks again after %s", again)
	}

	s = newStage(t, rigidJob, map[string]string{Runtime: hour, LeadFails: PhaseRunning, FailsAfter: hour}, 0, 1, 2, 3)
	s.at(0)
	tell(s, FailsAfter, "0s")
	s.at(time.Second)
	s.want("1 ready ready ready")
}

// With HangsOnLoss, an MPI job hangs after a loss, and never ends by itself.
func TestHangsOnLoss(t *testing.T) {
	s := newStage(t, rigidJob, map[string]string{HangsOnLoss: "true", LoseRanks: "2"}, 0, 1, 2, 3)
	s.at(0)
	s.at(time.Second)
	for _, at := range []time.Duration{time.Second, 10 * time.Second, time.Hour} {
		if again := s.at(at); again != 0 {
			t.Errorf("it looks again after %s", again)
		}
		s.want("ready ready 1 ready")
	}
}

// A batch goes on with the remaining brokers, and does not use brokers that join.
func TestBatch(t *testing.T) {
	s := newStage(t, batchJob, map[string]string{HangsOnLoss: "true"}, 0, 1, 2, 3)
	s.at(0)
	s.lose(3)
	s.lose(2)
	if again := s.at(2 * time.Second); again != 16*time.Second { // 32 s of work for two
		t.Errorf("it looks again after %s", again)
	}
	s.start(4, 5)
	if again := s.at(8 * time.Second); again != 10*time.Second {
		t.Errorf("with two that joined it looks again after %s", again)
	}
	s.at(18 * time.Second)
	s.want("0 ready lost lost ready ready")
}

// Invalid annotations end the lead.
func TestUnreadable(t *testing.T) {
	s := newStage(t, rigidJob, map[string]string{LoseRanks: "some"}, 0)
	s.at(0)
	s.want("2")
}

// The simulator does not write pods that are no brokers.
func TestOthersAreLeftAlone(t *testing.T) {
	s := newStage(t, rigidJob, nil, 0, 1, 2, 3)
	services := fixture.ServicesPod("lmp").On("node").Up().Obj()
	if err := s.client.Create(t.Context(), services); err != nil {
		t.Fatal(err)
	}
	for _, pod := range []*corev1.Pod{services, fixture.Pod("other").On("node").Up().Obj()} {
		if got := requestOf(t.Context(), pod); !slices.Equal(got, []reconcile.Request(nil)) {
			t.Errorf("%s makes it look at %v", pod.Name, got)
		}
	}
	s.at(0)
	s.at(10 * time.Second)
	s.at(10 * time.Second)
	var after corev1.Pod
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(services), &after); err != nil {
		t.Fatal(err)
	}
	if after.ResourceVersion != services.ResourceVersion {
		t.Error("the services pod was written")
	}
}
