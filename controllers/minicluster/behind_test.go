// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"errors"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// The API server may know more of a lead than the cache. An attempt ends by what is so, and does not wait for the cache for
// ever.
func TestLookAtLead(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Size(2).Admitted(1, 2, "n[0-1]").Defaulted()
	owned := func(object client.Object) client.Object {
		object.SetNamespace(mc.Namespace)
		object.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(mc, v1alpha2.GroupVersion.WithKind(v1alpha2.MiniClusterKind))})
		return object
	}
	set := owned(fixture.JobSet("lmp", 1).Obj()).(*jobsetapi.JobSet)
	lead := func(change func(*fixture.PodWrapper)) *corev1.Pod {
		w := fixture.BrokerPod("lmp", 0).On("n0").Up()
		if change != nil {
			change(w)
		}
		return w.Obj()
	}
	job := func(status batchv1.JobStatus) *batchv1.Job {
		return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: mc.Namespace, Name: "lmp-0-0", UID: "job"}, Status: status}
	}
	ofSet := func(job *batchv1.Job) *batchv1.Job {
		job.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, jobsetapi.SchemeGroupVersion.WithKind("JobSet"))}
		return job
	}
	ofLater := func(job *batchv1.Job) *batchv1.Job {
		ofSet(job).OwnerReferences[0].UID = "later"
		return job
	}
	mc.Status.Admission.Lead = lead(nil).UID
	again := lead(nil)
	again.UID = "again"
	evict := life.Plan{Step: life.Evict{}}
	ends := map[string]bool{"it has ended": true, "its Job has counted": true, "its Job is not seen": true} // no time is enough
	for name, tc := range map[string]struct {
		plan   life.Plan
		view   state.View
		there  []client.Object
		behind bool
	}{
		"the lead runs":         {evict, viewOf(mc, set, nil, lead(nil)), []client.Object{set, lead(nil)}, false},
		"it has ended":          {evict, viewOf(mc, set, nil, lead(nil)), []client.Object{set, lead(func(w *fixture.PodWrapper) { w.Ended(0) })}, true},
		"it was annotated":      {evict, viewOf(mc, set, nil, lead(nil)), []client.Object{set, lead(func(w *fixture.PodWrapper) { w.Annotation("a", "b") })}, false},
		"it was told":           {life.Plan{Step: life.Prolong{}}, viewOf(mc, set, nil, lead(nil)), []client.Object{set, lead(func(w *fixture.PodWrapper) { w.Annotation(v1alpha2.RestartAnnotation, "1 0") })}, true},
		"it was not told":       {life.Plan{Step: life.Prolong{}}, viewOf(mc, set, nil, lead(nil)), []client.Object{set, lead(nil)}, false},
		"it is gone":            {evict, viewOf(mc, set, nil, lead(nil)), []client.Object{set}, true},
		"nothing ends":          {life.Plan{Step: life.Wait{}}, viewOf(mc, set, nil, lead(nil)), []client.Object{set}, false},
		"its Job has counted":   {evict, viewOf(mc, set, job(batchv1.JobStatus{})), []client.Object{set, job(batchv1.JobStatus{Succeeded: 1})}, true},
		"its Job has not":       {evict, viewOf(mc, set, job(batchv1.JobStatus{})), []client.Object{set, job(batchv1.JobStatus{Failed: 1})}, false},
		"its pod is not seen":   {evict, viewOf(mc, set, job(batchv1.JobStatus{})), []client.Object{set, job(batchv1.JobStatus{Active: 1})}, true},
		"it was made again":     {evict, viewOf(mc, set, job(batchv1.JobStatus{}), again), []client.Object{set, job(batchv1.JobStatus{Active: 1}), again}, false},
		"its Job is not seen":   {evict, viewOf(mc, set, nil), []client.Object{set, ofSet(job(batchv1.JobStatus{Succeeded: 1}))}, true},
		"a later JobSet has it": {evict, viewOf(mc, set, nil), []client.Object{set, ofLater(job(batchv1.JobStatus{Active: 1}))}, true},
		"it has no Job":         {evict, viewOf(mc, set, nil), []client.Object{set}, false},
		"only its pod is seen":  {evict, viewOf(mc, set, job(batchv1.JobStatus{Failed: 1})), []client.Object{set, lead(nil), job(batchv1.JobStatus{Failed: 1})}, true},
		"it may have begun":     {life.Plan{Step: life.Start{}}, viewOf(mc, set, job(batchv1.JobStatus{Failed: 1})), []client.Object{set, lead(nil), job(batchv1.JobStatus{Failed: 1})}, true},
		"it has begun":          {life.Plan{Step: life.Start{}}, viewOf(mc, set, nil, lead(nil)), []client.Object{set}, false},
		"its Job is another's":  {evict, viewOf(mc, set, nil), []client.Object{set, job(batchv1.JobStatus{Succeeded: 1})}, false},
		"its JobSet is not":     {evict, viewOf(mc, nil, nil), []client.Object{set}, true},
		"there is no JobSet":    {evict, viewOf(mc, nil, nil), nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			scheme := runtime.NewScheme()
			for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, jobsetapi.AddToScheme} {
				if err := add(scheme); err != nil {
					t.Fatal(err)
				}
			}
			ob := &observer{live: live{fake.NewClientBuilder().WithScheme(scheme).WithObjects(tc.there...).Build()}}
			seen := &observed{now: fixture.Noon, memory: &memory{}, view: tc.view}
			var err error
			if seen.observation, err = state.Observe(tc.view); err != nil {
				t.Fatal(err)
			}
			if err := ob.lookAtLead(t.Context(), seen, tc.plan); errors.Is(err, errBehind) != tc.behind || err != nil && !tc.behind {
				t.Errorf("got %v", err)
			}
			if tc.behind && !isPassing(errBehind) {
				t.Error("the pass is not repeated")
			}
			seen.now = seen.now.Add(time.Hour) // in which nobody could look
			if err := ob.lookAtLead(t.Context(), seen, tc.plan); (err != nil) != tc.behind {
				t.Errorf("an hour later: %v", err)
			}
			for range 3 {
				seen.now = seen.now.Add(behindFor / 4)
				if err := ob.lookAtLead(t.Context(), seen, tc.plan); (err != nil) != tc.behind {
					t.Errorf("before the time is up: %v", err)
				}
			}
			seen.now = seen.now.Add(behindFor / 4)
			if err := ob.lookAtLead(t.Context(), seen, tc.plan); (err != nil) != ends[name] {
				t.Errorf("once the time is up: %v", err)
			}
		})
	}
}

// viewOf is a view of a MiniCluster with these pods.
func viewOf(mc *v1alpha2.MiniCluster, set *jobsetapi.JobSet, job *batchv1.Job, pods ...*corev1.Pod) state.View {
	v := state.View{MiniCluster: mc, JobSet: set, LeadJob: job, Node: func(string) *corev1.Node { return nil }}
	for _, pod := range pods {
		v.Pods = append(v.Pods, protocol.Read(pod))
	}
	return v
}
