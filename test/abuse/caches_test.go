// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package abuse

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"sort"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/ledger"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/internal/weight"
)

// A tenant has as many objects as the quota in SECURITY.md allows, and each is as large as the caches keep it. The manager
// has 512 MiB.
func TestMemoryOfCaches(t *testing.T) {
	const miniClusters, pods, budget = 100, 1000, 256 * mebibyte
	mc, set, checked := largest(t)
	lead, workers, services, pod := jobOf(set, 0), jobOf(set, 1), jobOf(set, 1), checked.DeepCopy()
	pad(t, set, weight.Object, annotate)
	pad(t, lead, weight.Object, annotate)
	pad(t, workers, weight.Object, annotate)
	pad(t, services, weight.Object, annotate)
	pad(t, pod, weight.Pod, annotate)
	sum := uint64(0)
	for name, one := range map[string]struct {
		object    any
		transform func(any) (any, error)
		count     uint64
	}{
		"MiniCluster":    {mc, weight.MiniCluster, miniClusters},
		"JobSet":         {set, weight.Object, miniClusters},
		"Job of a lead":  {lead, weight.Object, miniClusters},
		"Job of workers": {workers, weight.Object, miniClusters},
		"services' Job":  {services, weight.Object, miniClusters},
		"checked pods":   {checked, func(pod any) (any, error) { return pod, nil }, 2 * miniClusters}, // with that of the services
		"pod":            {pod, weight.Pod, pods},
		"pod of others":  {foreign(), weight.Pod, pods},
	} {
		each := keeps(t, one.object, one.transform)
		t.Logf("%s: %d KiB", name, each>>10)
		if name != "pod of others" { // instead of the tenant's brokers, and less than these
			sum += each * one.count
		} else if each > weight.MostPod {
			t.Errorf("a pod of others has %d bytes", each)
		}
	}
	t.Logf("%d MiniClusters and %d pods take %d MiB", miniClusters, pods, sum/mebibyte)
	if sum > budget {
		t.Errorf("they take %d MiB, more than %d", sum/mebibyte, budget/mebibyte)
	}
}

// pad makes an object as large as a cache keeps it whole. grow gives the object so many more parts.
func pad[T client.Object](t *testing.T, object T, transform func(any) (any, error), grow func(object T, n int)) {
	t.Helper()
	object.SetAnnotations(map[string]string{v1alpha2.QuorumAnnotation: "x"})
	cuts := func(n int) bool {
		more := object.DeepCopyObject().(T)
		grow(more, n)
		kept, err := transform(decoded(t, encoded(t, more), more))
		if err != nil {
			t.Fatal(err)
		}
		return kept.(client.Object).GetAnnotations()[v1alpha2.QuorumAnnotation] == ""
	}
	n := sort.Search(mebibyte-1, func(n int) bool { return cuts(n + 1) })
	if n == 0 || n == mebibyte-1 {
		t.Fatalf("%T has no bound: %d parts are kept", object, n)
	}
	grow(object, n)
}

// annotate gives an object an annotation of so many bytes.
func annotate[T client.Object](object T, n int) {
	object.SetAnnotations(map[string]string{v1alpha2.QuorumAnnotation: strings.Repeat("x", n)})
}

// A tenant has as many objects as in TestMemoryOfCaches, and these have very many parts, each of which is stored as few bytes and
// takes many in memory.
func TestMemoryOfParts(t *testing.T) {
	const miniClusters, pods, budget = 100, 1000, 256 * mebibyte
	mc := fixture.MiniCluster("lmp").Defaulted()
	set, _ := objects(t, mc)
	job, tolerant, labelled := jobOf(set, 0).DeepCopy(), fixture.BrokerPod("lmp", 1).Obj(), fixture.BrokerPod("lmp", 1).Obj()
	mc.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{}}
	pad(t, mc, weight.MiniCluster, func(mc *v1alpha2.MiniCluster, n int) {
		mc.Spec.Containers[0].SecurityContext.Capabilities.Add = make([]corev1.Capability, n)
	})
	pad(t, set, weight.Object, func(set *jobsetapi.JobSet, n int) {
		set.Spec.ReplicatedJobs[0].Template.Spec.Template.Spec.Containers[0].Args = make([]string, n)
	})
	pad(t, job, weight.Object, func(job *batchv1.Job, n int) { job.Spec.Template.Spec.Containers[0].Args = make([]string, n) })
	pad(t, tolerant, weight.Pod, func(pod *corev1.Pod, n int) { pod.Spec.Tolerations = make([]corev1.Toleration, n) })
	pad(t, labelled, weight.Pod, func(pod *corev1.Pod, n int) {
		for i := range n {
			pod.Labels[fmt.Sprint(i)] = ""
		}
	})
	sum := uint64(0)
	for name, one := range map[string]struct {
		object    any
		transform func(any) (any, error)
		count     uint64
	}{
		"MiniCluster": {mc, weight.MiniCluster, miniClusters},
		"JobSet":      {set, weight.Object, miniClusters},
		"Job":         {job, weight.Object, 3 * miniClusters},
		"tolerations": {tolerant, weight.Pod, pods / 2},
		"labels":      {labelled, weight.Pod, pods / 2},
	} {
		each := keeps(t, one.object, one.transform)
		t.Logf("%s: %d KiB", name, each>>10)
		sum += each * one.count
	}
	t.Logf("%d MiniClusters and %d pods take %d MiB", miniClusters, pods, sum/mebibyte)
	if sum > budget {
		t.Errorf("they take %d MiB, more than %d", sum/mebibyte, budget/mebibyte)
	}
}

// keeps is how many bytes a cache keeps of an object.
func keeps(t *testing.T, object any, transform func(any) (any, error)) uint64 {
	t.Helper()
	const n = 50
	text, cache := encoded(t, object), make([]any, n)
	before := live()
	for i := range cache {
		var err error
		if cache[i], err = transform(decoded(t, text, object)); err != nil {
			t.Fatal(err)
		}
	}
	after := live()
	runtime.KeepAlive([]any{cache, object, text})
	return (after - before) / n
}

func encoded(t *testing.T, object any) []byte {
	t.Helper()
	text, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// decoded is an object as the cache gets it, of the type of another.
func decoded(t *testing.T, text []byte, like any) any {
	t.Helper()
	object := reflect.New(reflect.TypeOf(like).Elem()).Interface()
	if err := json.Unmarshal(text, object); err != nil {
		t.Fatal(err)
	}
	return object
}

// live is how many bytes are in use.
func live() uint64 {
	runtime.GC()
	runtime.GC() // what has a finalizer is freed by the second
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}

// largest is a MiniCluster that has no more than may be, with its JobSet and a pod.
func largest(t *testing.T) (mc *v1alpha2.MiniCluster, set *jobsetapi.JobSet, pod *corev1.Pod) {
	t.Helper()
	for variables := 10; ; variables++ {
		more := fat(variables)
		kept, err := weight.MiniCluster(more.DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		moreSet, morePod := objects(t, more)
		if excess := weight.Excess(kept.(*v1alpha2.MiniCluster)) + weight.ExcessOfPod(morePod); excess != "" {
			t.Fatal(excess)
		}
		if weight.ExcessOfJobSet(more, moreSet) != "" {
			return mc, set, pod
		}
		mc, set, pod = more, moreSet, morePod
	}
}

// fat is a MiniCluster of 234 KiB in memory, of which variables of so many KiB are in the JobSet. Nothing makes its script shorter.
func fat(variables int) *v1alpha2.MiniCluster {
	random := rand.New(rand.NewPCG(1, 2))
	return fixture.MiniCluster("lmp").Size(1).MaxSize(256).Launcher().Spec(func(s *v1alpha2.MiniClusterSpec) {
		s.Containers[0].Environment, s.Pod.NodeAffinity = map[string]string{}, map[string][]string{}
		for i := range variables {
			s.Containers[0].Environment[fmt.Sprintf("E%d", i)] = strings.Repeat("x", 1000)
		}
		for i := range 16 {
			s.Pod.NodeAffinity[fmt.Sprintf("label-%d", i)] = strings.Split(strings.Repeat("some-text,", 25), ",")
		}
		script := make([]byte, 60<<10)
		for i := range script {
			script[i] = byte('a' + random.IntN(26))
		}
		s.Containers[0].Commands.Pre = string(script)
		s.Flux.BrokerConfig = strings.Repeat("x", 234<<10-len(script)-20_000-1100*variables)
	}).Defaulted()
}

// objects are the JobSet of a MiniCluster, and a pod.
func objects(t *testing.T, mc *v1alpha2.MiniCluster) (*jobsetapi.JobSet, *corev1.Pod) {
	t.Helper()
	set, err := jobset.JobSet(mc, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := jobset.Remember(mc, set); err != nil {
		t.Fatal(err)
	}
	pod, err := jobset.Pod(mc)
	if err != nil {
		t.Fatal(err)
	}
	return set, pod
}

// jobOf is a Job of a JobSet.
func jobOf(set *jobsetapi.JobSet, i int) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: set.Spec.ReplicatedJobs[i].Template.ObjectMeta, Spec: set.Spec.ReplicatedJobs[i].Template.Spec}
}

// foreign is the largest pod that the API server takes.
func foreign() *corev1.Pod {
	pod := fixture.BrokerPod("lmp", 1).Obj()
	for i := range 10_000 {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Image: strings.Repeat("x", 100)})
	}
	return pod
}

// A tenant has as many Jobs and JobSets as that quota allows, and each names nodes for its pods, as only the manager may where the
// API server has the policies of config/admission.
func TestMemoryOfNodeLists(t *testing.T) {
	const jobs, budget = 400, 64 * mebibyte
	lists := map[string]string{
		"a long name, many times": strings.Repeat("n", 120<<10) + "//" + strings.Repeat("0,", 60<<10),
		"many names":              "//" + strings.Repeat("n,", 120<<10),
		"as many as are read":     strings.Repeat("n", 251) + "//" + strings.Repeat("0,", 1<<14-1) + "0",
	}
	for name, list := range lists {
		t.Run(name, func(t *testing.T) {
			l := ledger.New(nil, nil)
			l.Expect(true)
			before := live()
			for i := range jobs {
				job := fixture.BrokerPod("lmp", 0).Obj()
				made := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: job.Namespace, UID: types.UID(fmt.Sprint("job-", i)), Labels: job.Labels}}
				made.Spec.Template = corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: job.Labels, Annotations: map[string]string{v1alpha2.NodesAnnotation: list}}, Spec: job.Spec}
				if used := allocated(func() { l.SetMaker(state.MakerOfJob(made)) }); used > budget {
					t.Fatalf("a Job takes %d MiB", used/mebibyte)
				}
			}
			used := live() - before
			runtime.KeepAlive(l)
			t.Logf("%d Jobs take %d KiB", jobs, used>>10)
			if used > budget {
				t.Errorf("%d Jobs take %d MiB, more than %d", jobs, used/mebibyte, budget/mebibyte)
			}
		})
	}
}
