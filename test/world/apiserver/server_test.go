// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kjson "sigs.k8s.io/json"
)

func random() *rand.Rand { return rand.New(rand.NewPCG(1, 2)) }

func newServer(t *testing.T, folders ...string) (*Server, client.Client) {
	t.Helper()
	s := New(random(), Options{})
	if err := s.InstallConfig(folders...); err != nil {
		t.Fatal(err)
	}
	c := s.Client(Admin)
	return s, c
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func newPod(name string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	pod.Spec.Containers = []corev1.Container{{Name: "a", Image: "a", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}
	for _, f := range change {
		f(pod)
	}
	return pod
}

func gate(name string) corev1.PodSchedulingGate { return corev1.PodSchedulingGate{Name: name} }

func unmarshal(text string, into *map[string]any) error {
	return kjson.UnmarshalCaseSensitivePreserveInts([]byte(text), into)
}

func ownedBy(owner *batchv1.Job, blocks bool) func(*corev1.Pod) {
	return func(pod *corev1.Pod) {
		pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: owner.Name, UID: owner.UID, BlockOwnerDeletion: &blocks}}
	}
}

func newJob(name string) *batchv1.Job {
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
	job.Spec.Template.Spec = corev1.PodSpec{RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "a", Image: "a"}}}
	return job
}

// run steps a model until it has nothing to do.
func run(model interface{ Step(context.Context) bool }) {
	for model.Step(context.Background()) {
		continue
	}
}

func TestGarbageCollector(t *testing.T) {
	for name, c := range map[string]struct {
		policy metav1.DeletionPropagation
		blocks bool
		// what is left, without and with the garbage collector
		before, after string
	}{
		"background":                       {metav1.DeletePropagationBackground, true, "pod", ""},
		"foreground":                       {metav1.DeletePropagationForeground, true, "job pod", ""},
		"foreground, not blocked":          {metav1.DeletePropagationForeground, false, "job pod", ""},
		"orphan":                           {metav1.DeletePropagationOrphan, true, "job pod", "pod"},
		"the default of Jobs is to orphan": {"", true, "job pod", "pod"},
	} {
		t.Run(name, func(t *testing.T) {
			s, c1 := newServer(t)
			ctx := t.Context()
			collector := NewGarbageCollector(s)
			job := newJob("job")
			must(t, c1.Create(ctx, job))
			must(t, c1.Create(ctx, newPod("pod", ownedBy(job, c.blocks))))
			run(collector)
			var options []client.DeleteOption
			if c.policy != "" {
				options = append(options, client.PropagationPolicy(c.policy))
			}
			must(t, c1.Delete(ctx, job, options...))
			if got := left(t, c1); got != c.before {
				t.Errorf("before the garbage collector acts there is %q, want %q", got, c.before)
			}
			run(collector)
			if got := left(t, c1); got != c.after {
				t.Errorf("after the garbage collector acted there is %q, want %q", got, c.after)
			}
		})
	}
}

// left names the Jobs and pods that there are.
func left(t *testing.T, c client.Client) string {
	t.Helper()
	var jobs batchv1.JobList
	var pods corev1.PodList
	must(t, c.List(t.Context(), &jobs))
	must(t, c.List(t.Context(), &pods))
	var names []string
	for i := range jobs.Items {
		names = append(names, jobs.Items[i].Name)
	}
	for i := range pods.Items {
		names = append(names, pods.Items[i].Name)
	}
	return strings.Join(names, " ")
}

// An object whose owner is another one of the same name is collected, and one with a second owner is kept.
func TestOwnersByUID(t *testing.T) {
	s, c := newServer(t)
	ctx, collector := t.Context(), NewGarbageCollector(s)
	first, second := newJob("first"), newJob("second")
	must(t, c.Create(ctx, first))
	must(t, c.Create(ctx, second))
	both := newPod("both", ownedBy(first, false))
	both.OwnerReferences = append(both.OwnerReferences, metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: "second", UID: second.UID})
	must(t, c.Create(ctx, both))
	stale := newPod("stale", ownedBy(first, false))
	stale.OwnerReferences[0].UID = "another"
	must(t, c.Create(ctx, stale))
	must(t, c.Delete(ctx, first, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	run(collector)
	if got := left(t, c); got != "second both" {
		t.Errorf("there is %q", got)
	}
	must(t, c.Get(ctx, client.ObjectKeyFromObject(both), both))
	if len(both.OwnerReferences) != 1 || both.OwnerReferences[0].UID != second.UID {
		t.Errorf("owners: %v", both.OwnerReferences)
	}
}

func TestNamespaceDeletion(t *testing.T) {
	s, c := newServer(t, Definitions)
	ctx, controller := t.Context(), NewNamespaceController(s)
	must(t, c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "user"}}))
	pod := newPod("pod", func(p *corev1.Pod) { p.Namespace, p.Spec.NodeName = "user", "n1" })
	must(t, c.Create(ctx, pod))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "s", Namespace: "user"}}
	must(t, c.Create(ctx, secret))
	must(t, c.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "user"}}))
	run(controller)
	err := c.Create(ctx, newPod("late", func(p *corev1.Pod) { p.Namespace = "user" }))
	if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		t.Errorf("a pod for a namespace that goes: %v", err)
	}
	must(t, c.Get(ctx, client.ObjectKeyFromObject(pod), pod))
	must(t, c.Get(ctx, client.ObjectKeyFromObject(secret), secret))
	if pod.DeletionTimestamp == nil || secret.DeletionTimestamp != nil {
		t.Errorf("the pod goes first, and its kubelet ends it: %v, %v", pod.DeletionTimestamp, secret.DeletionTimestamp)
	}
	must(t, c.Delete(ctx, pod, client.GracePeriodSeconds(0)))
	run(controller)
	if err := c.Get(ctx, types.NamespacedName{Name: "user"}, &corev1.Namespace{}); !apierrors.IsNotFound(err) {
		t.Errorf("the namespace: %v", err)
	}
	if err := c.Get(ctx, client.ObjectKeyFromObject(secret), secret); !apierrors.IsNotFound(err) {
		t.Errorf("the secret: %v", err)
	}
}

func TestQuota(t *testing.T) {
	s, c := newServer(t)
	ctx, controller := t.Context(), NewQuotaController(s)
	q := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "q", Namespace: "default"}}
	q.Spec.Hard = corev1.ResourceList{"pods": resource.MustParse("2"), "requests.cpu": resource.MustParse("3")}
	must(t, c.Create(ctx, q))
	run(controller)
	for i := range 2 {
		must(t, c.Create(ctx, newPod(fmt.Sprint("p", i))))
	}
	err := c.Create(ctx, newPod("p2"))
	if want := `pods "p2" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2`; err == nil || err.Error() != want || !apierrors.IsForbidden(err) {
		t.Errorf("got %v, want %s", err, want)
	}
	if err := c.Create(ctx, newPod("p2"), client.DryRunAll); !apierrors.IsForbidden(err) {
		t.Errorf("a dry run: %v", err)
	}
	must(t, c.Delete(ctx, newPod("p0")))
	run(controller)
	must(t, c.Create(ctx, newPod("p2")))
	err = c.Create(ctx, newPod("bare", func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = nil }))
	if want := `pods "bare" is forbidden: failed quota: q: must specify requests.cpu for: a`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestGrace(t *testing.T) {
	_, c := newServer(t)
	ctx := t.Context()
	bound := func(p *corev1.Pod) { p.Spec.NodeName = "n1" }
	must(t, c.Create(ctx, newPod("pod", bound)))
	pod := &corev1.Pod{}
	at := types.NamespacedName{Namespace: "default", Name: "pod"}
	must(t, c.Delete(ctx, newPod("pod")))
	must(t, c.Get(ctx, at, pod))
	if pod.DeletionTimestamp == nil || *pod.DeletionGracePeriodSeconds != 30 || pod.Generation != 2 {
		t.Fatalf("after a deletion: %v", pod.ObjectMeta)
	}
	deadline := pod.DeletionTimestamp.Time
	must(t, c.Delete(ctx, newPod("pod"), client.GracePeriodSeconds(100)))
	must(t, c.Get(ctx, at, pod))
	if !pod.DeletionTimestamp.Time.Equal(deadline) {
		t.Errorf("a longer grace changed the deadline to %v", pod.DeletionTimestamp)
	}
	must(t, c.Delete(ctx, newPod("pod"), client.GracePeriodSeconds(5)))
	must(t, c.Get(ctx, at, pod))
	if got := deadline.Sub(pod.DeletionTimestamp.Time); got != 25*time.Second {
		t.Errorf("a shorter grace moved the deadline by %v", got)
	}
	must(t, c.Delete(ctx, newPod("pod"), client.GracePeriodSeconds(0)))
	if err := c.Get(ctx, at, pod); !apierrors.IsNotFound(err) {
		t.Errorf("without grace: %v", err)
	}
}
