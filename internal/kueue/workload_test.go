// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/ptr"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

func queued(name string) *fixture.MiniClusterWrapper { return fixture.MiniCluster(name) }

// made is the Workload of a MiniCluster in the queue team.
func made(w *fixture.MiniClusterWrapper) *kueueapi.Workload {
	mc := w.Defaulted()
	mc.Labels = map[string]string{v1alpha2.KueueQueueLabel: "team"}
	return Workload(mc, fixture.Pod("x").Obj(), nil, nil, elastic.Deadlines{})
}

func TestPodSets(t *testing.T) {
	fixed := func(s *v1alpha2.MiniClusterSpec) { s.Elastic.Tasks.Scaling = v1alpha2.TasksFixed }
	for name, tc := range map[string]struct {
		mc   *fixture.MiniClusterWrapper
		want string
	}{
		"the lead alone":                       {queued("a"), "lead 1"},
		"two":                                  {queued("a").Size(2), "lead 1, workers 1"},
		"two, and one is enough":               {queued("a").Size(2).MinSize(1), "lead 1, workers 1"}, // a pod set has a pod at least
		"many":                                 {queued("a").Size(64), "lead 1, workers 63"},
		"fewer are enough":                     {queued("a").Size(64).MinSize(32), "lead 1, workers 63 (31)"},
		"the lead is enough":                   {queued("a").Size(64).MinSize(1), "lead 1, workers 63 (1)"},
		"the smallest size is above the least": {queued("a").Size(4).MinSize(1).Tasks(20).CPU("8").Spec(fixed), "lead 1, workers 3 (2)"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			sets := made(tc.mc).Spec.PodSets
			for _, set := range sets {
				text := fmt.Sprintf("%s %d", set.Name, set.Count)
				if set.MinCount != nil {
					text += fmt.Sprintf(" (%d)", *set.MinCount)
				}
				got = append(got, text)
			}
			if got := strings.Join(got, ", "); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if len(sets) > 1 && (*sets[0].TopologyRequest.PodSetGroupName != group || *sets[1].TopologyRequest.PodSetGroupName != group) {
				t.Error("the pod sets may get different flavors")
			}
		})
	}
}

// The template has what quota and flavors depend on, and nothing else: pod sets are large enough.
func TestTemplate(t *testing.T) {
	always := corev1.ContainerRestartPolicyAlways
	two := corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}}
	terms := &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "gpu", Operator: corev1.NodeSelectorOpExists}}}},
	}}
	pod := fixture.Pod("x").Spec(func(s *corev1.PodSpec) {
		s.Containers = []corev1.Container{{
			Name: "app", Image: "lammps", Command: []string{"sh"}, Args: []string{"-c"}, Env: []corev1.EnvVar{{Name: "A"}}, Resources: two,
			VolumeMounts: []corev1.VolumeMount{{Name: "v"}}, Lifecycle: &corev1.Lifecycle{}, Ports: []corev1.ContainerPort{{ContainerPort: 1}},
		}}
		s.InitContainers = []corev1.Container{
			{Name: "view", Image: "flux", Resources: two, Command: []string{"cp"}}, {Name: "sidecar", Resources: two, RestartPolicy: &always},
		}
		s.Volumes = []corev1.Volume{{Name: "v"}}
		s.Overhead = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("120Mi")}
		s.RuntimeClassName, s.PriorityClassName, s.NodeSelector = ptr.To("gvisor"), "urgent", map[string]string{"pool": "a"}
		s.Tolerations = []corev1.Toleration{{Key: "gpu", Operator: corev1.TolerationOpExists}}
		s.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: ptr.To("gpu")}}
		s.Affinity = &corev1.Affinity{NodeAffinity: terms, PodAntiAffinity: &corev1.PodAntiAffinity{}}
		s.ServiceAccountName, s.Hostname, s.SchedulerName = "me", "h", "flux"
		s.SchedulingGates = []corev1.PodSchedulingGate{{Name: "g"}}
	}).Obj()
	before := pod.DeepCopy()
	want := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		Containers: []corev1.Container{{Name: "app", Resources: two}},
		InitContainers: []corev1.Container{
			{Name: "view", Resources: two}, {Name: "sidecar", Resources: two, RestartPolicy: &always},
		},
		Overhead: before.Spec.Overhead, RuntimeClassName: before.Spec.RuntimeClassName, PriorityClassName: "urgent",
		NodeSelector: before.Spec.NodeSelector, Tolerations: before.Spec.Tolerations, ResourceClaims: before.Spec.ResourceClaims,
		Affinity: &corev1.Affinity{NodeAffinity: terms}, RestartPolicy: corev1.RestartPolicyNever,
	}}
	for _, set := range Workload(queued("a").Size(4).Defaulted(), pod, nil, nil, elastic.Deadlines{}).Spec.PodSets {
		if diff := cmp.Diff(want, set.Template); diff != "" {
			t.Errorf("%s (-want +got):\n%s", set.Name, diff)
		}
		set.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1")
		set.Template.Spec.NodeSelector["pool"] = "b"
	}
	if diff := cmp.Diff(before, pod); diff != "" {
		t.Errorf("the template shares objects with the pod (-before +after):\n%s", diff)
	}
}

func TestPriority(t *testing.T) {
	pod := fixture.Pod("x").Spec(func(s *corev1.PodSpec) { s.PriorityClassName, s.Priority = "urgent", ptr.To(int32(1000)) }).Obj()
	byDefault := fixture.Pod("x").Spec(func(s *corev1.PodSpec) { s.Priority = ptr.To(int32(5)) }).Obj()
	class := &kueueapi.WorkloadPriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "prod"}, Value: 77}
	for name, tc := range map[string]struct {
		pod   *corev1.Pod
		class *kueueapi.WorkloadPriorityClass
		want  int32
		ref   *kueueapi.PriorityClassRef
	}{
		"none":                       {fixture.Pod("x").Obj(), nil, 0, nil},
		"the default one of pods":    {byDefault, nil, 5, nil},
		"that of the pods":           {pod, nil, 1000, kueueapi.NewPodPriorityClassRef("urgent")},
		"that of Kueue":              {fixture.Pod("x").Obj(), class, 77, kueueapi.NewWorkloadPriorityClassRef("prod")},
		"that of Kueue comes first":  {pod, class, 77, kueueapi.NewWorkloadPriorityClassRef("prod")},
		"pods that have no priority": {fixture.Pod("x").Spec(func(s *corev1.PodSpec) { s.PriorityClassName = "urgent" }).Obj(), nil, 0, kueueapi.NewPodPriorityClassRef("urgent")},
	} {
		t.Run(name, func(t *testing.T) {
			spec := Workload(queued("a").Defaulted(), tc.pod, tc.class, nil, elastic.Deadlines{}).Spec
			if spec.Priority == nil || *spec.Priority != tc.want || !ptr.Equal(spec.PriorityClassRef, tc.ref) {
				t.Errorf("got %v %v", spec.Priority, spec.PriorityClassRef)
			}
		})
	}
}

func TestLongestExecution(t *testing.T) {
	hour := elastic.Deadlines{Default: time.Hour, Max: 2 * time.Hour}
	for name, tc := range map[string]struct {
		seconds *int64
		queue   elastic.Deadlines
		goesOn  v1alpha2.DeadlinePolicy
		want    *int32
	}{
		"the default":             {nil, elastic.Deadlines{}, "", nil},
		"none":                    {ptr.To(int64(0)), elastic.Deadlines{}, "", nil},
		"endless":                 {ptr.To(int64(31500000)), elastic.Deadlines{}, "", nil},
		"more than fits":          {ptr.To(int64(1) << 33), elastic.Deadlines{}, "", nil},
		"an hour, and the start":  {ptr.To(int64(3600)), elastic.Deadlines{}, v1alpha2.DeadlineFail, ptr.To(int32(3600 + 120 + 60))},
		"the default of a queue":  {nil, hour, "", ptr.To(int32(3600 + 120 + 60))},
		"its own, not a default":  {ptr.To(int64(60)), hour, "", ptr.To(int32(60 + 120 + 60))},
		"a queue with only a max": {nil, elastic.Deadlines{Max: time.Minute}, "", ptr.To(int32(60 + 120 + 60))},
		"it goes on after it":     {ptr.To(int64(3600)), elastic.Deadlines{}, v1alpha2.DeadlineRequeue, nil},
	} {
		t.Run(name, func(t *testing.T) {
			mc := queued("a").Spec(func(s *v1alpha2.MiniClusterSpec) {
				s.DeadlineSeconds, s.Elastic.OnDeadline, s.Elastic.StartTimeout = tc.seconds, tc.goesOn, &metav1.Duration{Duration: 2 * time.Minute}
			}).Defaulted()
			if got := Workload(mc, fixture.Pod("x").Obj(), nil, nil, tc.queue).Spec.MaximumExecutionTimeSeconds; !ptr.Equal(got, tc.want) {
				t.Errorf("got %v", ptr.Deref(got, -1))
			}
		})
	}
}

func TestName(t *testing.T) {
	long := queued(strings.Repeat("a", 253)).Obj()
	another := queued("a").Obj()
	another.UID = types.UID("another")
	names := map[string]bool{}
	for _, mc := range []*v1alpha2.MiniCluster{queued("a").Obj(), another, queued("b").Obj(), long} {
		name := Name(mc)
		if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 {
			t.Errorf("%q: %v", name, errs)
		}
		if names[name] || name != Name(mc.DeepCopy()) {
			t.Errorf("%q is not the MiniCluster's alone", name)
		}
		names[name] = true
	}
}

func TestMetadata(t *testing.T) {
	wl := made(queued("a").Size(4))
	want := metav1.ObjectMeta{
		Namespace: fixture.Namespace, Name: wl.Name, Finalizers: []string{"kueue.x-k8s.io/resource-in-use"},
		Labels:      map[string]string{v1alpha2.MiniClusterLabel: "a", "kueue.x-k8s.io/job-uid": "uid-a"},
		Annotations: wl.Annotations,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: "flux-framework.org/v1alpha2", Kind: "MiniCluster", Name: "a", UID: "uid-a", Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
		}},
	}
	if diff := cmp.Diff(want, wl.ObjectMeta); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if wl.Spec.QueueName != "team" || !*wl.Spec.Active {
		t.Errorf("got %+v", wl.Spec)
	}
}

// The shape is another one if what cannot be changed in a Workload is another, and only then.
func TestShape(t *testing.T) {
	base := func() *fixture.MiniClusterWrapper { return queued("a").Size(4).MinSize(2) }
	pod := func() *fixture.PodWrapper { return fixture.Pod("x") }
	class := &kueueapi.WorkloadPriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "prod"}, Value: 7}
	of := func(mc *v1alpha2.MiniCluster, pod *corev1.Pod, class *kueueapi.WorkloadPriorityClass) string {
		return Workload(mc, pod, class, nil, elastic.Deadlines{}).Annotations[shapeAnnotation]
	}
	inQueue := base().Defaulted()
	inQueue.Labels = map[string]string{v1alpha2.KueueQueueLabel: "other"}
	want := of(base().Defaulted(), pod().Obj(), nil)
	if known := "8e3258652f8bb1a8"; want != known {
		t.Errorf("the shape was %s and is %s: a manager of this version would make all Workloads that wait anew, at the end of their queues", known, want)
	}
	for name, tc := range map[string]struct {
		got  string
		same bool
	}{
		"the same":        {of(base().Defaulted(), pod().Obj(), nil), true},
		"another queue":   {of(inQueue, pod().Obj(), nil), true},
		"a priority":      {of(base().Defaulted(), pod().Obj(), class), true},
		"suspended":       {of(base().Spec(func(s *v1alpha2.MiniClusterSpec) { s.Suspend = true }).Defaulted(), pod().Obj(), nil), true},
		"another command": {of(base().Command("true").Defaulted(), pod().Obj(), nil), true},
		"another image":   {of(base().Defaulted(), pod().Spec(func(s *corev1.PodSpec) { s.Containers[0].Image = "b" }).Obj(), nil), true},
		"larger":          {of(base().Size(5).Defaulted(), pod().Obj(), nil), false},
		"a larger least":  {of(base().MinSize(3).Defaulted(), pod().Obj(), nil), false},
		"more cores":      {of(base().Defaulted(), pod().CPU("16").Obj(), nil), false},
		"a deadline":      {of(base().Deadline(60).Defaulted(), pod().Obj(), nil), true},
		"other nodes":     {of(base().Defaulted(), pod().Spec(func(s *corev1.PodSpec) { s.NodeSelector = map[string]string{"a": "b"} }).Obj(), nil), false},
	} {
		if same := tc.got == want; same != tc.same {
			t.Errorf("%s: of one shape: %t", name, same)
		}
	}
}

func TestUses(t *testing.T) {
	mc := queued("a").Obj()
	if Uses(mc) {
		t.Error("without the label")
	}
	mc.Labels = map[string]string{v1alpha2.KueueQueueLabel: "team"}
	if !Uses(mc) {
		t.Error("not with the label")
	}
	mc.Status.Admission = &v1alpha2.Admission{}
	if Uses(mc) {
		t.Error("with nodes of another queue, since when it has the label")
	}
	mc.Labels, mc.Status.Admission.Quota = nil, &v1alpha2.Quota{}
	if !Uses(mc) {
		t.Error("not with quota, since when it lost the label")
	}
}
