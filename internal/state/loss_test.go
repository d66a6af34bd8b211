// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// runs makes a pod's container run since a time; it is ready, or not any more, since another.
func runs(pod *fixture.PodWrapper, since time.Time, ready corev1.ConditionStatus, turned time.Time) *corev1.Pod {
	p := pod.Up().Obj()
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "lmp", Ready: ready == corev1.ConditionTrue, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(since)}},
	}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: ready, LastTransitionTime: metav1.NewTime(turned)}}
	return p
}

func waits(pod *fixture.PodWrapper, init bool, reason string) *corev1.Pod {
	p := pod.Obj()
	statuses := []corev1.ContainerStatus{{Name: "lmp", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}}}
	if init {
		p.Status.InitContainerStatuses = statuses
	} else {
		p.Status.ContainerStatuses = statuses
	}
	return p
}

// ended has a container that ended, in a pod that was not said to have.
func ended(pod *fixture.PodWrapper) *corev1.Pod {
	p := pod.Up().Obj()
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "lmp", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137}},
	}}
	return p
}

func aNode(name string) *corev1.Node { return fixture.Node(name).Obj() }

// What pods say by their readiness, and what keeps them from starting.
func TestObserveReadiness(t *testing.T) {
	noon, later := fixture.Noon, fixture.Noon.Add(time.Minute)
	lead := func() *fixture.PodWrapper { return fixture.BrokerPod("lmp", 0).On("a") }
	follower := func() *fixture.PodWrapper { return fixture.BrokerPod("lmp", 1).On("b") }
	for name, tc := range map[string]struct {
		pod  *corev1.Pod
		want string
	}{
		"a lead that runs is up":                 {runs(lead(), noon, corev1.ConditionFalse, noon), "up false, ready false, idle false, \"\""},
		"ready it runs the command":              {runs(lead(), noon, corev1.ConditionTrue, later), "up true, ready true, idle false, \"\""},
		"a follower is up when it is ready":      {runs(follower(), noon, corev1.ConditionTrue, later), "up true, ready true, idle false, \"\""},
		"not before":                             {runs(follower(), noon, corev1.ConditionFalse, noon), "up false, ready false, idle false, \"\""},
		"one that is ready no more is idle":      {runs(follower(), noon, corev1.ConditionFalse, later), "up false, ready false, idle true, \"\""},
		"a lead that has ended is not":           {ended(lead()), "up false, ready false, idle false, \"\""},
		"nor is a follower":                      {ended(follower()), "up false, ready false, idle false, \"\""},
		"an image that does not come":            {waits(follower(), false, "ImagePullBackOff"), "up false, ready false, idle false, \"ImagePullBackOff\""},
		"also that of an init container":         {waits(lead(), true, "ErrImagePull"), "up false, ready false, idle false, \"ErrImagePull\""},
		"a container that is made is no trouble": {waits(follower(), false, "ContainerCreating"), "up false, ready false, idle false, \"\""},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := Observe(view(func(v *View) { v.Pods = read(protocol.Strip(tc.pod)) }))
			if err != nil {
				t.Fatal(err)
			}
			i := slices.IndexFunc(o.Brokers, func(b life.Broker) bool { return b.State != life.Missing })
			b := o.Brokers[i]
			up := b.State == life.Up && (i > 0 || b.Ready)
			if got := fmt.Sprintf("up %v, ready %v, idle %v, %q", up, b.Ready, b.Idle, b.Trouble); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if statuses := tc.pod.Status.ContainerStatuses; i == 0 && len(statuses) > 0 && statuses[0].State.Running != nil && b.State != life.Up {
				t.Error("a lead that runs is not up")
			}
		})
	}
}

// What the lead's pod was told is seen in the cache.
func TestObserveWhatWasTold(t *testing.T) {
	told := fixture.BrokerPod("lmp", 0).On("a").Up().Annotation(v1alpha2.QuorumAnnotation, "2").Annotation(v1alpha2.DrainAnnotation, "1").
		Annotation(v1alpha2.StopAnnotation, "DeadlineExceeded")
	o, err := Observe(view(func(v *View) { v.Pods = read(protocol.Strip(told.Obj())) }))
	if err != nil {
		t.Fatal(err)
	}
	if o.Published != 2 || !slices.Equal(o.PublishedDrain, []int{1}) || !o.Stopped {
		t.Errorf("it was told a quorum of %d, that %v leave, and to stop: %v", o.Published, o.PublishedDrain, o.Stopped)
	}
}

// What the lead tells at its end is seen in the cache; of what cannot be read nothing is.
func TestObserveWhatTheLeadTold(t *testing.T) {
	for message, lost := range map[string][]int{
		"the command began\n": nil, "lost ranks 1\n": {1}, "lost ranks 0-99": nil, "lost ranks all": nil, "the command failed after its checkpoint\n": nil, "out of memory": nil, "": nil,
		"the container was ended while the command ran\n": nil, "the container was ended\n": nil,
	} {
		lead := fixture.BrokerPod("lmp", 0).On("a").Ended(1).Obj()
		lead.Status.ContainerStatuses[0].Name = "lmp"
		lead.Status.ContainerStatuses[0].State.Terminated.Message = message
		o, err := Observe(view(func(v *View) { v.Pods = read(protocol.Strip(lead)) }))
		if err != nil {
			t.Fatal(err)
		}
		began := !slices.Contains([]string{"out of memory", "", "the container was ended\n"}, message)
		if o.ToldBegan != began || !slices.Equal(o.ToldLost, lost) {
			t.Errorf("%q: it began: %v, and has lost %v, want %v and %v", message, o.ToldBegan, o.ToldLost, began, lost)
		}
	}
}

// Where a pod was bound without a scheduler, its binding tells when.
func TestPlacedByBinding(t *testing.T) {
	pod := fixture.BrokerPod("lmp", 0).On("a").Obj()
	if at := protocol.Read(pod).Broker.Placed; !at.IsZero() {
		t.Errorf("it was placed at %s", at)
	}
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(fixture.Noon)}}
	if at := protocol.Read(pod).Broker.Placed; !at.Equal(fixture.Noon) {
		t.Errorf("it was placed at %s", at)
	}
}

// A size that was changed since the admission is wanted, and what the pods were told stays.
func TestObserveAnotherSize(t *testing.T) {
	running := func(size int32) *v1alpha2.MiniCluster {
		mc := fixture.MiniCluster("lmp").Size(4).MinSize(3).MaxSize(8).Tasks(16).Launcher().Admitted(1, 4, "n[0-3]").Status(func(s *v1alpha2.MiniClusterStatus) {
			s.Admission.Wanted, s.MaximumSize, s.StartTime = 4, 8, &metav1.Time{Time: fixture.Noon}
			s.Admission.Moved, s.Admission.Loss = "2", &v1alpha2.Loss{Ranks: "1,3", Time: metav1.NewTime(fixture.Noon)}
		}).Obj()
		mc.Spec.Size = size
		mc.Default()
		return mc
	}
	for name, tc := range map[string]struct {
		size int32
		grow bool
		want string
	}{
		"as it was":               {4, false, "want 4, at most 4, sizes 3 to 4, 16 tasks at 4"},
		"smaller":                 {2, false, "want 2, at most 2, sizes 3 to 4, 16 tasks at 4"},
		"larger":                  {6, false, "want 6, at most 6, sizes 3 to 4, 16 tasks at 4"},
		"larger than it has pods": {9, false, "want 9, at most 8, sizes 3 to 4, 16 tasks at 4"},
		"as it was, and grows":    {4, true, "want 0, at most 8, sizes 3 to 4, 16 tasks at 4"},
		"smaller binds growth":    {2, true, "want 2, at most 2, sizes 3 to 4, 16 tasks at 4"},
		"larger binds growth":     {6, true, "want 6, at most 6, sizes 3 to 4, 16 tasks at 4"},
	} {
		mc := running(tc.size)
		mc.Spec.Elastic.Grow = tc.grow
		o, err := Observe(View{MiniCluster: mc, Node: aNode})
		if err != nil {
			t.Fatal(err)
		}
		p := o.Policy
		if got := fmt.Sprintf("want %d, at most %d, sizes %d to %d, %d tasks at 4", p.Want, p.Max, p.Sizing.Min, p.Sizing.Size, p.Sizing.TasksAt(4)); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
		if loss := o.Admission.Loss; !slices.Equal(o.Admission.Moved, []int{2}) || loss == nil || !slices.Equal(loss.Ranks, []int{1, 3}) {
			t.Errorf("moved %v, lost %v", o.Admission.Moved, loss)
		}
		promise, err := PromiseOf(mc)
		if r := Running(mc, fixture.Pod("p").Obj(), promise); err != nil || r.Max != p.Max {
			t.Errorf("to the queue it grows to %d (%v)", r.Max, err)
		}
	}
	back := running(4)
	back.Spec.Elastic.Grow, back.Status.Admission.Resized = true, true
	if p := Policy(back); p.Want != 4 || p.Max != 4 {
		t.Errorf("with the size that it had at first: want %d, at most %d", p.Want, p.Max)
	}
}

// A pod that is made in place of an evicted one does not hide why the rank was lost.
func TestObserveWhyARankWasLost(t *testing.T) {
	evicted := fixture.BrokerPod("lmp", 1).On("b").Obj()
	evicted.Status.Phase, evicted.Status.Reason, evicted.Status.Message = corev1.PodFailed, "Evicted", "the disk is full"
	again := func(pod *corev1.Pod) *corev1.Pod {
		pod.Name, pod.UID, pod.CreationTimestamp = "again", "again", metav1.NewTime(fixture.Noon.Add(time.Hour))
		return pod
	}
	follower := fixture.BrokerPod("lmp", 1).On("b")
	for name, tc := range map[string]struct {
		after *corev1.Pod
		want  string
	}{
		"a pod that waits": {again(follower.Obj()), "the disk is full"},
		"a pod that runs":  {again(runs(follower, fixture.Noon, corev1.ConditionTrue, fixture.Noon)), ""},
		"a pod that goes":  {again(fixture.BrokerPod("lmp", 1).On("b").Up().Leaving().Obj()), ""},
		"a pod that ended": {again(fixture.BrokerPod("lmp", 1).On("b").Up().Ended(0).Obj()), ""},
	} {
		o, err := Observe(view(func(v *View) { v.Pods = slices.Concat(read(evicted), read(tc.after)) }))
		if err != nil {
			t.Fatal(err)
		}
		if got := o.Brokers[1].Evicted; !strings.Contains(got, tc.want) || (got == "") != (tc.want == "") {
			t.Errorf("%s: evicted for %q, want %q", name, got, tc.want)
		}
	}
}
