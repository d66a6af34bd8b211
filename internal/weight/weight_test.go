// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package weight

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
)

// large is a text of so many KiB.
func large(kib int) string { return strings.Repeat("x", kib<<10) }

// environment is one of so many KiB.
func environment(kib int) map[string]string {
	env := map[string]string{}
	for i := range kib {
		env[fmt.Sprintf("E%04d", i)] = strings.Repeat("x", 1000)
	}
	return env
}

// cached is a MiniCluster as the cache has it.
func cached(t *testing.T, mc *v1alpha2.MiniCluster) *v1alpha2.MiniCluster {
	t.Helper()
	kept, err := MiniCluster(mc)
	if err != nil {
		t.Fatal(err)
	}
	again, err := MiniCluster(kept.(*v1alpha2.MiniCluster).DeepCopy()) // as a cache may do
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(kept, again); diff != "" {
		t.Errorf("the second time it is another (-first +second):\n%s", diff)
	}
	return kept.(*v1alpha2.MiniCluster)
}

// halve gives a MiniCluster a spec of 130 KiB, and metadata that weigh the same.
func halve(mc *v1alpha2.MiniCluster) {
	mc.Spec.Containers[0].Environment = environment(64)
	mc.Annotations = map[string]string{"note": ""}
	for i := range 64 {
		mc.Annotations[fmt.Sprintf("n%04d", i)] = strings.Repeat("x", 1000)
	}
	mc.Spec.Containers[0].Command = strings.Repeat("x", 130<<10-storedSize(mc.Spec))
	mc.Annotations["note"] = strings.Repeat("x", storedSize(mc.Spec)-storedSize(mc.ObjectMeta))
}

// A MiniCluster that weighs too much is cut in the cache, goes on with its run, and the status says which part is so large.
func TestMiniCluster(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(mc *v1alpha2.MiniCluster)
		want   string // "" if it is kept as it is
	}{
		"usual":   {change: func(*v1alpha2.MiniCluster) {}},
		"scripts": {change: func(mc *v1alpha2.MiniCluster) { mc.Spec.Containers[0].Commands.Pre = large(64) }},
		"applied": {change: func(mc *v1alpha2.MiniCluster) {
			mc.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: large(250)}
			mc.Spec.Containers[0].Environment = environment(200)
		}},
		"environment": {
			change: func(mc *v1alpha2.MiniCluster) { mc.Spec.Containers[0].Environment = environment(600) },
			want:   "the MiniCluster has 630 KiB, most of them in spec.containers[0].environment, and may have 240 KiB. " + instead,
		},
		"annotations": {
			change: func(mc *v1alpha2.MiniCluster) { mc.Annotations = map[string]string{"note": large(300)} },
			want:   "the MiniCluster has 302 KiB, most of them in metadata.annotations.note, and may have 240 KiB. " + instead,
		},
		"very many labels": { // none of which is large
			change: func(mc *v1alpha2.MiniCluster) {
				mc.Labels = map[string]string{}
				for i := range 70_000 {
					mc.Labels[fmt.Sprintf("l%05d", i)] = ""
				}
			},
			want: "the MiniCluster has 4924 KiB, most of them in metadata.labels, and may have 240 KiB. " + instead,
		},
		"many things": {
			change: func(mc *v1alpha2.MiniCluster) {
				mc.Labels, mc.Annotations, mc.Spec.Pod.Labels = environment(100), environment(100), environment(100)
			},
			want: "the MiniCluster has 316 KiB, most of them in metadata, and may have 240 KiB. " + instead,
		},
		"two halves": {change: halve, want: "the MiniCluster has 269 KiB, most of them in metadata and spec, and may have 240 KiB. " + instead},
	} {
		t.Run(name, func(t *testing.T) {
			mc := fixture.MiniCluster("lmp").Size(4).MinSize(2).Queue("gold").Deadline(60).Defaulted()
			tc.change(mc)
			was := mc.DeepCopy()
			kept := cached(t, mc)
			if diff := cmp.Diff(tc.want, Excess(kept)); diff != "" {
				t.Errorf("excess (-want +got):\n%s", diff)
			}
			if tc.want == "" {
				delete(was.Annotations, corev1.LastAppliedConfigAnnotation)
				if diff := cmp.Diff(was, kept); diff != "" {
					t.Errorf("the cache has another (-want +got):\n%s", diff)
				}
				return
			}
			if size := sizeOf(kept); size > 8<<10 {
				t.Errorf("the cache keeps %d bytes", size)
			}
			if kept.UID != was.UID || kept.Spec.Size != 4 || kept.Spec.Queue != "gold" || *kept.Spec.DeadlineSeconds != 60 {
				t.Errorf("the cache keeps %v", kept)
			}
			kept.Default() // as each pass does
		})
	}
}

// A MiniCluster is refused whose JobSet or pods would be cut, so that none is.
func TestExcessOfObjects(t *testing.T) {
	for name, tc := range map[string]struct {
		change   func(s *v1alpha2.MiniClusterSpec)
		set, pod string
	}{
		"usual":       {change: func(*v1alpha2.MiniClusterSpec) {}},
		"environment": {change: func(s *v1alpha2.MiniClusterSpec) { s.Containers[0].Environment = environment(100) }},
		"large environment": {
			change: func(s *v1alpha2.MiniClusterSpec) { s.Containers[0].Environment = environment(200) },
			set:    "Most of the MiniCluster is spec.containers[0].environment. " + instead,
		},
		"security context": {change: func(s *v1alpha2.MiniClusterSpec) {
			s.Pod.SecurityContext = &corev1.PodSecurityContext{SELinuxOptions: &corev1.SELinuxOptions{Level: large(50)}}
		}},
		"affinity": {
			change: func(s *v1alpha2.MiniClusterSpec) {
				s.Pod.NodeAffinity = map[string][]string{"pool": strings.Split(strings.Repeat("some-pool-of-nodes,", 2000), ",")}
			},
			pod: "a pod would have 39 KiB of labels, selectors, tolerations, claims and requests, and may have 8 KiB",
		},
	} {
		t.Run(name, func(t *testing.T) {
			mc := fixture.MiniCluster("lmp").Size(4).Spec(tc.change).Defaulted()
			set, err := jobset.JobSet(mc, 1)
			if err != nil {
				t.Fatal(err)
			}
			if got := ExcessOfJobSet(mc, set); !strings.HasSuffix(got, tc.set) || (got == "") != (tc.set == "") {
				t.Errorf("excess of the JobSet %q, want %q", got, tc.set)
			}
			pod, err := jobset.Pod(mc)
			if err != nil {
				t.Fatal(err)
			}
			if got := ExcessOfPod(pod); got != tc.pod {
				t.Errorf("excess of a pod %q, want %q", got, tc.pod)
			}
		})
	}
}

// The names of as many brokers as are in one EndpointSlice, which have many small parts, are not cut.
func TestEndpointSlices(t *testing.T) {
	mc := fixture.MiniCluster(strings.Repeat("m", 40)).In(strings.Repeat("n", 63)).Defaulted()
	var hosts []jobset.Host
	for rank := range 250 {
		pod := fmt.Sprintf("%s-w-0-%d-xxxxx", mc.Name, rank)
		hosts = append(hosts, jobset.Host{Rank: rank, Pod: pod, Service: mc.Name, IPs: []string{fmt.Sprintf("2001:db8:1111:2222:3333:4444:5555:%x", 0x1000+rank)}})
	}
	for _, slice := range jobset.Slices(mc, hosts) {
		kept, err := Object(slice.DeepCopy())
		if diff := cmp.Diff(client.Object(slice), kept); diff != "" || err != nil || len(slice.Endpoints) != 500 {
			t.Errorf("%d endpoints, error %v (-want +got):\n%s", len(slice.Endpoints), err, diff)
		}
	}
}

// What a spec of a MiniCluster has in memory counts, also if it is stored as little.
func TestMemoryOf(t *testing.T) {
	for name, tc := range map[string]struct {
		object any
		want   int
	}{
		"nothing":             {struct{}{}, 0},
		"a text":              {"123456789", 16 + 16},
		"texts without bytes": {make([]string, 1000), 24 + 16*1000},
		"numbers":             {make([]int64, 1000), 24 + 8*1000},
		"a pointer":           {new("x"), 8 + 16 + 8},
		"no pointer":          {(*string)(nil), 8},
		"a small map":         {map[string]string{"a": "b"}, 8 + 8*32 + 2*8},
		"a map":               {map[int64]int64{1: 1, 2: 2, 3: 3, 4: 4, 5: 5, 6: 6, 7: 7, 8: 8, 9: 9}, 8 + 18*16},
		"a nil map":           {map[string]string(nil), 8},
		"anything":            {[]any{nil, "1", map[string]any{}}, 24 + 3*16 + 16 + 8 + 8 + 8*32},
		"a time":              {fixture.Noon, 24},
		"an array":            {[2]string{"a", ""}, 32 + 8},
	} {
		if got := memoryOf(tc.object); got != tc.want {
			t.Errorf("%s has %d bytes, want %d", name, got, tc.want)
		}
	}
}

// What tenants make with our labels is cut to its identity, and pods go on to hold their nodes.
func TestOthers(t *testing.T) {
	meta := metav1.ObjectMeta{
		Name: "fat", Namespace: "lab", UID: "u1", Labels: environment(400), Finalizers: []string{large(10)},
		OwnerReferences: []metav1.OwnerReference{{Kind: "Other", Name: large(10)}, {Kind: "Job", Name: "job", Controller: new(true)}},
	}
	meta.Labels[v1alpha2.MiniClusterLabel] = "lmp"
	identity := metav1.ObjectMeta{
		Name: "fat", Namespace: "lab", UID: "u1", Labels: map[string]string{v1alpha2.MiniClusterLabel: "lmp"},
		OwnerReferences: meta.OwnerReferences[1:],
	}
	buffer := func(meta metav1.ObjectMeta) *unstructured.Unstructured {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&meta)
		if err != nil {
			t.Fatal(err)
		}
		delete(content, "creationTimestamp")
		return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "autoscaling.x-k8s.io/v1beta1", "kind": "CapacityBuffer", "metadata": content}}
	}
	daemons := metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"}
	named := metav1.ObjectMeta{Name: "fat", Namespace: "lab", UID: "u1"}
	for _, tc := range []struct {
		transform  func(any) (any, error)
		from, want client.Object
	}{
		{Object, buffer(meta), buffer(identity)},
		{Named, &metav1.PartialObjectMetadata{TypeMeta: daemons, ObjectMeta: meta}, &metav1.PartialObjectMetadata{TypeMeta: daemons, ObjectMeta: named}},
		{Object, &jobsetapi.JobSet{ObjectMeta: meta}, &jobsetapi.JobSet{ObjectMeta: identity}},
		{Object, &batchv1.Job{ObjectMeta: meta}, &batchv1.Job{ObjectMeta: identity}},
		{Pod, fatPod(meta), &corev1.Pod{ObjectMeta: identity, Status: corev1.PodStatus{Phase: corev1.PodRunning}, Spec: corev1.PodSpec{
			NodeName:   "node-1",
			Containers: []corev1.Container{{Name: "all", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("200")}}}},
		}}},
	} {
		got, err := tc.transform(tc.from)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, got.(client.Object)); diff != "" {
			t.Errorf("%T (-want +got):\n%s", tc.from, diff)
		}
	}
}

// fatPod is a pod of many containers on a node.
func fatPod(meta metav1.ObjectMeta) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{NodeName: "node-1"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	nothing := corev1.ResourceList{}
	for i := range 100 {
		nothing[corev1.ResourceName(fmt.Sprintf("a.example.com/%d", i))] = resource.MustParse("0")
	}
	pod.Spec.Containers = []corev1.Container{{Name: "hides", Resources: corev1.ResourceRequirements{Requests: nothing, Limits: nothing}}}
	for range 100 {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: large(1), Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")},
		}})
	}
	return pod
}
