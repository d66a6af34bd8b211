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
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

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
			o, err := Observe(view(func(v *View) { v.Pods = read(pod) }))
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
		s.Volumes = []corev1.Volume{{Name: "v"}, {Name: "claim"}, {Name: "scratch"}}
		s.Volumes[1].PersistentVolumeClaim = &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}
		s.Volumes[2].Ephemeral = ephemeral(new("fast"))
		s.Volumes[2].Ephemeral.VolumeClaimTemplate.Labels = map[string]string{"long": "text"}
	}).Obj()
	want := fluxion.Resources{fluxion.CPU: 4000, fluxion.Memory: 64 << 20, "nvidia.com/gpu": 3, fluxion.Pods: 1}
	if diff := cmp.Diff(want, Requests(pod)); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	got := protocol.Strip(pod.DeepCopy())
	if diff := cmp.Diff(want, Requests(got)); diff != "" {
		t.Errorf("requests after stripping (-want +got):\n%s", diff)
	}
	kept := []corev1.Volume{{Name: "claim", VolumeSource: pod.Spec.Volumes[1].VolumeSource}, {Name: "scratch"}}
	kept[1].Ephemeral = ephemeral(new("fast"))
	if diff := cmp.Diff(kept, got.Spec.Volumes); diff != "" {
		t.Errorf("volumes after stripping (-want +got):\n%s", diff)
	}
	if got.Spec.Containers[0].Env != nil || len(got.Annotations) != 1 {
		t.Errorf("left over: env %v, annotations %v", got.Spec.Containers[0].Env, got.Annotations)
	}
}

// A pod that is resized in place takes the larger of what it wants and what it has.
func TestRequestsOfAResizedPod(t *testing.T) {
	cpu := func(text string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(text)}
	}
	for name, tc := range map[string]struct {
		wants, has, allocated string
		want                  int64
	}{
		"as it wants":           {"2", "2", "2", 2000},
		"it grows":              {"4", "2", "2", 4000},
		"it grows, and was let": {"4", "2", "4", 4000},
		"it shrinks":            {"1", "3", "1", 3000},
	} {
		pod := fixture.Pod("x").CPU(tc.wants).Obj()
		pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: pod.Spec.Containers[0].Name, AllocatedResources: cpu(tc.allocated), Resources: &corev1.ResourceRequirements{Requests: cpu(tc.has)},
		}}
		if got := Requests(pod)[fluxion.CPU]; got != tc.want {
			t.Errorf("%s: got %d, want %d", name, got, tc.want)
		}
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

func read(pods ...*corev1.Pod) []protocol.Pod {
	var out []protocol.Pod
	for _, pod := range pods {
		out = append(out, protocol.Read(pod))
	}
	return out
}

func states(brokers []life.Broker) []life.BrokerState {
	var out []life.BrokerState
	for _, b := range brokers {
		out = append(out, b.State)
	}
	return out
}

func TestObserveBrokers(t *testing.T) {
	later := fixture.Noon.Add(time.Minute)
	cases := map[string]struct {
		change func(*View)
		want   []life.BrokerState
	}{
		"no pods": {nil, []life.BrokerState{life.Missing, life.Missing}},
		"gated and pinned": {func(v *View) {
			v.Pods = read(fixture.BrokerPod("lmp", 1).Pinned("b").Obj(), fixture.BrokerPod("lmp", 0).Obj())
		}, []life.BrokerState{life.Gated, life.Coming}},
		"running and ready": {func(v *View) {
			v.Pods = read(fixture.BrokerPod("lmp", 0).On("a").Up().Obj(), fixture.BrokerPod("lmp", 1).On("b").Obj())
		}, []life.BrokerState{life.Up, life.Coming}},
		"ended": {func(v *View) {
			v.Pods = read(fixture.BrokerPod("lmp", 0).On("a").Ended(0).Obj(), fixture.BrokerPod("lmp", 1).On("b").Ended(2).Obj())
		}, []life.BrokerState{life.Succeeded, life.Failed}},
		"leaving": {func(v *View) {
			v.Pods = read(fixture.BrokerPod("lmp", 0).On("a").Up().Leaving().Obj())
		}, []life.BrokerState{life.Leaving, life.Missing}},
		"on a node that is gone": {func(v *View) {
			v.Node = func(name string) *corev1.Node {
				if name == "b" {
					return nil
				}
				return aNode(name)
			}
			v.Pods = read(fixture.BrokerPod("lmp", 0).On("a").Up().Obj(), fixture.BrokerPod("lmp", 1).On("b").Up().Obj())
		}, []life.BrokerState{life.Up, life.Leaving}},
		"one that replaces one that failed": {func(v *View) {
			v.Pods = read(
				fixture.BrokerPod("lmp", 0).Named("new").Obj(),
				fixture.BrokerPod("lmp", 0).Named("old").On("a").Ended(1).Created(later).Obj(),
			)
		}, []life.BrokerState{life.Gated, life.Missing}},
		"the younger of two": {func(v *View) {
			v.Pods = read(
				fixture.BrokerPod("lmp", 1).Named("new").Created(later).Obj(),
				fixture.BrokerPod("lmp", 1).Named("old").On("b").Up().Obj(),
			)
		}, []life.BrokerState{life.Missing, life.Gated}},
		"but the first of two leads": {func(v *View) {
			v.Pods = read(
				fixture.BrokerPod("lmp", 0).Named("new").Created(later).Obj(),
				fixture.BrokerPod("lmp", 0).Named("old").On("a").Ended(1).Obj(),
			)
		}, []life.BrokerState{life.Failed, life.Missing}},
		"pods of another JobSet do not count": {func(v *View) {
			v.Pods = read(fixture.BrokerPod("lmp", 0).Label(jobsetapi.JobSetUIDKey, "other").On("a").Up().Obj())
		}, []life.BrokerState{life.Missing, life.Missing}},
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

// The lead of an attempt is the pod that is recorded, or else the first of rank 0. All others are second leads, also if the
// lead is gone.
func TestObserveLead(t *testing.T) {
	first, second := fixture.BrokerPod("lmp", 0).Named("first").On("a").Up().Obj(), fixture.BrokerPod("lmp", 0).Named("second").Created(fixture.Noon.Add(time.Minute)).Obj()
	bound := fixture.BrokerPod("lmp", 0).Named("bound").On("b").Created(fixture.Noon.Add(time.Minute)).Obj()
	first.UID, second.UID, bound.UID = "first", "second", "bound"
	for name, tc := range map[string]struct {
		recorded types.UID
		pods     []*corev1.Pod
		lead     string
		state    life.BrokerState
		gone     bool
		second   bool
	}{
		"nothing is recorded":     {"", []*corev1.Pod{bound, first}, "first", life.Up, false, true},
		"it is alone":             {"first", []*corev1.Pod{first}, "first", life.Up, false, false},
		"there is a second one":   {"first", []*corev1.Pod{bound, first}, "first", life.Up, false, true},
		"another one has a gate":  {"first", []*corev1.Pod{second, first}, "first", life.Up, false, false},
		"it is gone":              {"first", nil, "", life.Missing, true, false},
		"a second one is left":    {"first", []*corev1.Pod{second}, "", life.Missing, true, true},
		"nobody knows that it is": {"", []*corev1.Pod{second}, "second", life.Gated, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := Observe(view(func(v *View) {
				v.MiniCluster.Status.Admission.Lead = tc.recorded
				v.Pods = read(tc.pods...)
			}))
			if err != nil {
				t.Fatal(err)
			}
			if o.Lead != tc.lead || o.Brokers[0].State != tc.state || o.LeadGone != tc.gone || o.SecondLead != tc.second || o.Admission.Lead != string(tc.recorded) {
				t.Errorf("the lead is %q and %v, and gone: %t; there is a second one: %t, recorded is %q", o.Lead, o.Brokers[0].State, o.LeadGone, o.SecondLead, o.Admission.Lead)
			}
		})
	}
}

// A lead that the API server bound when its Job made it, and that is gone before the manager saw it, has been on its node.
func TestLeadIsGone(t *testing.T) {
	for name, tc := range map[string]struct {
		bound bool
		job   batchv1.JobStatus
		want  bool
	}{
		"its Job counts it as failed":   {true, batchv1.JobStatus{Failed: 1}, true},
		"its Job is about to":           {true, batchv1.JobStatus{UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{Failed: []types.UID{"first"}}}, true},
		"its Job has not made it yet":   {true, batchv1.JobStatus{}, false},
		"it waited behind its gate":     {false, batchv1.JobStatus{Failed: 1}, false},
		"its Job says that it is there": {true, batchv1.JobStatus{Active: 1}, false},
	} {
		t.Run(name, func(t *testing.T) {
			o, err := Observe(view(func(v *View) {
				if tc.bound {
					jobset.BindAtAdmission(v.JobSet, []string{"a", "b"}, 2, v.MiniCluster.Status.Admission.Time.Time)
				}
				v.LeadJob = &batchv1.Job{Status: tc.job}
				v.LeadJob.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(v.JobSet, jobsetapi.SchemeGroupVersion.WithKind("JobSet"))}
			}))
			if err != nil {
				t.Fatal(err)
			}
			if o.LeadGone != tc.want {
				t.Errorf("it is gone: %t", o.LeadGone)
			}
		})
	}
}

// A follower whose pod is gone ended well if its Job says so: somebody may delete pods that have ended.
func TestObserveFollowerThatIsGone(t *testing.T) {
	for completed, want := range map[string]life.BrokerState{"": life.Missing, "0": life.Succeeded, "0-3": life.Succeeded, "1": life.Missing, "all": life.Missing} {
		o, err := Observe(view(func(v *View) {
			v.Pods = read(fixture.BrokerPod("lmp", 0).On("a").Up().Obj())
			v.WorkersJob = &batchv1.Job{Status: batchv1.JobStatus{CompletedIndexes: completed}}
			v.WorkersJob.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(v.JobSet, jobsetapi.SchemeGroupVersion.WithKind("JobSet"))}
		}))
		if err != nil {
			t.Fatal(err)
		}
		if got := o.Brokers[1].State; got != want {
			t.Errorf("with the indexes %q, the follower is %v", completed, got)
		}
	}
}

// A broker that has ended tells its exit code before its pod ends: a sidecar may still run.
func TestObserveBrokerThatEndedBeforeItsPod(t *testing.T) {
	o, err := Observe(view(func(v *View) {
		v.MiniCluster.Status.StartTime = &metav1.Time{Time: fixture.Noon}
		ended := fixture.BrokerPod("lmp", 1).On("b").Up().Ended(0).Obj()
		ended.Status.Phase = corev1.PodRunning
		v.Pods = read(fixture.BrokerPod("lmp", 0).On("a").Up().Obj(), ended)
	}))
	if err != nil {
		t.Fatal(err)
	}
	if b := o.Brokers[1]; b.State != life.Succeeded || !b.Lingers || o.Up() != 2 {
		t.Errorf("the broker is %+v, and %d are up", b, o.Up())
	}
}

// A command that succeeded although its attempt had been ended is not run again.
func TestObserveLateSuccess(t *testing.T) {
	o, err := Observe(view(func(v *View) {
		v.MiniCluster.Status.Admission, v.MiniCluster.Status.Attempts = nil, []v1alpha2.Attempt{{Attempt: 1}}
		v.Pods = read(fixture.BrokerPod("lmp", 0).On("a").Up().Ended(0).Obj())
	}))
	if err != nil {
		t.Fatal(err)
	}
	if plan := life.Decide(o, fixture.Noon); plan.State != life.StateSucceeded {
		t.Errorf("it decides %+v", plan)
	}
}

func TestObserveWorkload(t *testing.T) {
	cases := map[string]struct {
		change func(*View)
		want   life.Workload
	}{
		"active":                {nil, life.Active},
		"absent":                {func(v *View) { v.JobSet = nil }, life.Absent},
		"completed":             {func(v *View) { v.JobSet = fixture.JobSet("lmp", 1).Condition(jobsetapi.JobSetCompleted).Obj() }, life.Completed},
		"broken":                {func(v *View) { v.JobSet = fixture.JobSet("lmp", 1).Condition(jobsetapi.JobSetFailed).Obj() }, life.Broken},
		"being deleted":         {func(v *View) { v.JobSet = fixture.JobSet("lmp", 1).Leaving().Obj() }, life.Deleting},
		"of another attempt":    {func(v *View) { v.JobSet = fixture.JobSet("lmp", 2).Obj() }, life.Stale},
		"of another generation": {func(v *View) { v.MiniCluster.Status.Admission.Generation = 2 }, life.Stale},
		"of an attempt that was ended": {func(v *View) {
			v.MiniCluster.Status.Admission = nil
			v.Pods = read(fixture.BrokerPod("lmp", 0).On("a").Up().Obj(), fixture.BrokerPod("lmp", 1).Obj())
		}, life.Stale},
		"of one that was ended, and has succeeded before anybody was told": {func(v *View) {
			v.MiniCluster.Status.Admission, v.MiniCluster.Status.Attempts = nil, []v1alpha2.Attempt{{Attempt: 1}}
			v.Pods = read(fixture.BrokerPod("lmp", 0).On("a").Up().Ended(0).Obj())
		}, life.Completed},
		"of one that was ended, and whose JobSet says so": {func(v *View) {
			v.MiniCluster.Status.Admission, v.MiniCluster.Status.Attempts = nil, []v1alpha2.Attempt{{Attempt: 1}}
			v.JobSet = fixture.JobSet("lmp", 1).Condition(jobsetapi.JobSetCompleted).Obj()
		}, life.Completed},
		"of one that was ended, and has failed since": {func(v *View) {
			v.MiniCluster.Status.Admission, v.MiniCluster.Status.Attempts = nil, []v1alpha2.Attempt{{Attempt: 1}}
			v.Pods = read(fixture.BrokerPod("lmp", 0).On("a").Up().Ended(1).Obj())
		}, life.Stale},
		"of one that ended, whose pods end": {func(v *View) {
			v.MiniCluster.Status.Admission = nil
			v.Pods = read(fixture.BrokerPod("lmp", 0).Leaving().Obj())
		}, life.Stale},
		"made for a trial": {func(v *View) {
			v.MiniCluster.Status.Admission = nil
			v.Pods = read(fixture.BrokerPod("lmp", 0).Obj())
		}, life.Ahead},
		"with the nodes of the admission": {func(v *View) {
			v.JobSet = fixture.JobSet("lmp", 1).Annotation(v1alpha2.AdmittedAnnotation, jobset.AdmittedAt(fixture.Noon)).Obj()
		}, life.Active},
		"with the nodes of another admission": {func(v *View) {
			v.JobSet = fixture.JobSet("lmp", 1).Annotation(v1alpha2.AdmittedAnnotation, jobset.AdmittedAt(fixture.Noon.Add(time.Second))).Obj()
		}, life.Stale},
		"with the nodes of an admission that ended before a pod was made": {func(v *View) {
			v.MiniCluster.Status.Admission, v.Pods = nil, nil
			v.JobSet = fixture.JobSet("lmp", 1).Annotation(v1alpha2.AdmittedAnnotation, jobset.AdmittedAt(fixture.Noon)).Obj()
		}, life.Stale},
		"made for a trial, and ended by somebody": {func(v *View) {
			v.MiniCluster.Status.Admission = nil
			v.JobSet = fixture.JobSet("lmp", 1).Condition(jobsetapi.JobSetFailed).Obj()
		}, life.Stale},
		"made for a trial of a spec that was changed": {func(v *View) {
			v.MiniCluster.Status.Admission, v.MiniCluster.Generation = nil, 2
		}, life.Stale},
		"made for a trial of an attempt before": {func(v *View) {
			v.MiniCluster.Status.Admission, v.MiniCluster.Status.Attempts = nil, []v1alpha2.Attempt{{Attempt: 1}}
		}, life.Stale},
		"of nobody": {func(v *View) { v.JobSet = fixture.JobSet("lmp", 1).OwnedBy("", "").Obj() }, life.Absent},
		"of one of the same name that was deleted": {func(v *View) {
			v.JobSet = fixture.JobSet("lmp", 1).OwnedBy("lmp", "uid-before").Obj()
		}, life.Absent},
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
		v.Pods = read(
			fixture.BrokerPod("lmp", 0).On("a").Ended(3).Annotation(v1alpha2.QuorumAnnotation, "2").Obj(),
			fixture.BrokerPod("lmp", 1).On("b").Up().Obj(),
			fixture.BrokerPod("lmp", 2).Obj(),
			fixture.BrokerPod("lmp", 1).Named("before").Label(jobsetapi.JobSetUIDKey, "before").On("b").Up().Leaving().Obj(),
			fixture.BrokerPod("lmp", 1).Named("namesake").Label(jobsetapi.JobSetUIDKey, "x").Label(v1alpha2.UIDLabel, "x").On("b").Up().Obj(),
		)
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
	if nodes := v.OccupiedNodes(); len(nodes) != 1 || !nodes["b"] {
		t.Errorf("occupied nodes %v", nodes)
	}
	if code := o.Brokers[0].ExitCode; code == nil || *code != 3 {
		t.Errorf("the lead's exit code is %v, want 3", code)
	}
}

// Pods that are being deleted are stranded where no kubelet ends them.
func TestObserveStrandedPods(t *testing.T) {
	node := func(name string) *corev1.Node {
		switch name {
		case "gone":
			return nil
		case "down":
			return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		}
		return aNode(name)
	}
	leaving := func(name, node string, by time.Time) *corev1.Pod {
		pod := fixture.BrokerPod("lmp", 1).Named(name).On(node).Up().Leaving().Obj()
		pod.DeletionTimestamp = &metav1.Time{Time: by}
		return pod
	}
	by := fixture.Noon.Add(time.Minute)
	o, err := Observe(view(func(v *View) {
		v.JobSet, v.Node = nil, node
		v.Pods = read(
			leaving("on-down", "down", fixture.Noon), leaving("on-gone", "gone", by), leaving("ends", "a", by.Add(time.Minute)),
			fixture.BrokerPod("lmp", 1).Named("runs").On("down").Up().Obj(), fixture.BrokerPod("lmp", 1).Named("gated").Leaving().Obj(),
		)
	}))
	if err != nil {
		t.Fatal(err)
	}
	if o.Existing != 5 || o.Stranded != 2 || !o.StrandedBy.Equal(by) || o.Leftover != 3 || o.Occupied != 4 {
		t.Errorf("existing %d, stranded %d until %s, left over %d, occupied %d", o.Existing, o.Stranded, o.StrandedBy, o.Leftover, o.Occupied)
	}
}

// Pods are kept that the garbage collector has to delete with their JobSet. A pod of others that it deletes does not matter.
func TestObservePodsOfAKeptJobSet(t *testing.T) {
	o, err := Observe(view(func(v *View) {
		v.JobSet.DeletionTimestamp = &metav1.Time{Time: fixture.Noon}
		v.Pods = read(fixture.BrokerPod("lmp", 0).On("a").Up().Obj(), fixture.BrokerPod("lmp", 1).On("a").Up().Leaving().Obj())
	}))
	if err != nil {
		t.Fatal(err)
	}
	if by := fixture.Noon.Add(collectedWithin); o.Workload != life.Deleting || o.Kept != 1 || !o.KeptBy.Equal(by) || o.Stranded != 0 {
		t.Errorf("workload %v, %d kept until %s, %d stranded", o.Workload, o.Kept, o.KeptBy, o.Stranded)
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

// A pod of a rank that the MiniCluster cannot have is none of its brokers.
func TestBrokersHaveRanksBelowTheSize(t *testing.T) {
	v := View{MiniCluster: fixture.MiniCluster("lmp").Size(2).Defaulted(), JobSet: fixture.JobSet("lmp", 1).Obj()}
	v.Pods = read(fixture.BrokerPod("lmp", 0).Obj(), fixture.BrokerPod("lmp", 2).Obj(), fixture.BrokerPod("lmp", 131071).Obj())
	if brokers := v.Brokers(); len(brokers) != 1 || brokers[0] == nil {
		t.Errorf("brokers are %v", brokers)
	}
	v.MiniCluster.Status.Admission = &v1alpha2.Admission{Size: 3}
	if brokers := v.Brokers(); len(brokers) != 2 || brokers[2] == nil {
		t.Errorf("since a larger admission brokers are %v", brokers)
	}
}

// The Job of the lead counts how the lead's pod has ended. So the end is known although somebody deleted the pod.
func TestLeadDeletedAfterItsEnd(t *testing.T) {
	for name, tc := range map[string]struct {
		status   batchv1.JobStatus
		of       types.UID
		state    life.BrokerState
		isBehind bool
	}{
		"the Job has counted it":          {status: batchv1.JobStatus{Succeeded: 1}, state: life.Succeeded},
		"it is about to":                  {status: batchv1.JobStatus{Active: 1, UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{Succeeded: []types.UID{"a"}}}, state: life.Succeeded},
		"it does not know yet":            {status: batchv1.JobStatus{Active: 1}, state: life.Missing, isBehind: true},
		"the pod did not end":             {status: batchv1.JobStatus{Failed: 1}, state: life.Missing},
		"it is the Job of another JobSet": {status: batchv1.JobStatus{Succeeded: 1}, of: "another", state: life.Missing},
	} {
		set := fixture.JobSet("lmp", 1).Obj()
		job := &batchv1.Job{Status: tc.status}
		job.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, jobsetapi.GroupVersion.WithKind("JobSet"))}
		if tc.of != "" {
			job.OwnerReferences[0].UID = tc.of
		}
		v := View{MiniCluster: fixture.MiniCluster("lmp").Size(2).Admitted(1, 2, "n[0-1]").Defaulted(), JobSet: set, LeadJob: job, Node: aNode}
		o, err := Observe(v)
		if err != nil {
			t.Fatal(err)
		}
		if o.Brokers[0].State != tc.state || v.IsBehind(job) != tc.isBehind {
			t.Errorf("%s: the lead is %v; the Job is behind: %t", name, o.Brokers[0].State, v.IsBehind(job))
		}
	}
}

// The end of a lead counts although somebody deleted its JobSet without the pods. Pods of an earlier admission do not
// count.
func TestOrphans(t *testing.T) {
	later, before := fixture.Noon.Add(time.Minute), fixture.Noon.Add(-time.Minute)
	for name, tc := range map[string]struct {
		lead     *fixture.PodWrapper
		made     time.Time
		workload life.Workload
		orphans  int
		state    life.BrokerState
	}{
		"a lead that runs":          {fixture.BrokerPod("lmp", 0).On("n0").Up(), later, life.Absent, 2, life.Up},
		"one that succeeded":        {fixture.BrokerPod("lmp", 0).On("n0").Ended(0), later, life.Orphaned, 2, life.Succeeded},
		"one of before":             {fixture.BrokerPod("lmp", 0).On("n0").Ended(0), before, life.Absent, 2, life.Missing},
		"one that somebody killed":  {fixture.BrokerPod("lmp", 0).On("n0").Ended(143).Leaving(), later, life.Orphaned, 1, life.Failed},
		"one that failed by itself": {fixture.BrokerPod("lmp", 0).On("n0").Ended(143), later, life.Orphaned, 2, life.Failed},
		"one that somebody ended":   {fixture.BrokerPod("lmp", 0).On("n0").Ended(0).Leaving(), later, life.Orphaned, 1, life.Succeeded},
	} {
		mc := fixture.MiniCluster("lmp").Size(2).Admitted(1, 2, "n[0-1]").Defaulted()
		lead, follower := tc.lead.Created(tc.made).Obj(), fixture.BrokerPod("lmp", 1).On("n1").Up().Created(tc.made).Obj()
		lead.Status.Conditions, follower.Status.Conditions = nil, nil
		o, err := Observe(View{MiniCluster: mc, Node: aNode, Pods: []protocol.Pod{protocol.Read(lead), protocol.Read(follower)}})
		if err != nil {
			t.Fatal(err)
		}
		if o.Workload != tc.workload || o.Orphans != tc.orphans || o.Leftover != 2 || o.Brokers[0].State != tc.state {
			t.Errorf("%s: workload %v, %d orphans, %d left over, the lead is %v", name, o.Workload, o.Orphans, o.Leftover, o.Brokers[0].State)
		}
	}
}
