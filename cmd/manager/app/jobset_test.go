// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	jobsetmetrics "sigs.k8s.io/jobset/pkg/metrics"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
)

// A JobSet is reconciled after each change but those of its counts, which its controller writes.
func TestMoreThanCounts(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*jobsetapi.JobSet)
		passes bool
	}{
		"nothing":   {func(*jobsetapi.JobSet) {}, false},
		"counts":    {func(s *jobsetapi.JobSet) { s.Status.ReplicatedJobsStatus[0].Ready = 1 }, false},
		"the spec":  {func(s *jobsetapi.JobSet) { s.Generation++ }, true},
		"a restart": {func(s *jobsetapi.JobSet) { s.Status.Restarts++ }, true},
		"its end": {func(s *jobsetapi.JobSet) {
			s.Status.Conditions = []metav1.Condition{{Type: string(jobsetapi.JobSetCompleted), Status: metav1.ConditionTrue}}
		}, true},
		"a deletion": {func(s *jobsetapi.JobSet) { s.DeletionTimestamp = &metav1.Time{} }, true},
	} {
		before := &jobsetapi.JobSet{Status: jobsetapi.JobSetStatus{ReplicatedJobsStatus: []jobsetapi.ReplicatedJobStatus{{Name: "w"}}}}
		after := before.DeepCopy()
		tc.change(after)
		if got := moreThanCounts.Update(event.UpdateEvent{ObjectOld: before, ObjectNew: after}); got != tc.passes {
			t.Errorf("%s: passes: %v, want %v", name, got, tc.passes)
		}
	}
}

// Jobs that end, or are deleted, are seen sooner than those whose counts change.
func TestEndedJobs(t *testing.T) {
	for name, tc := range map[string]struct {
		job   batchv1.Job
		ended bool
	}{
		"running":   {batchv1.Job{Status: batchv1.JobStatus{Active: 1}}, false},
		"succeeded": {batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete}}}}, true},
		"deleted":   {batchv1.Job{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &metav1.Time{}}}, true},
	} {
		if got := ended.Update(event.UpdateEvent{ObjectOld: &batchv1.Job{}, ObjectNew: &tc.job}); got != tc.ended {
			t.Errorf("%s: an update: %v, want %v", name, got, tc.ended)
		}
		if got := ended.Create(event.CreateEvent{Object: &tc.job}); got != tc.ended {
			t.Errorf("%s: a start of the manager: %v, want %v", name, got, tc.ended)
		}
		if !ended.Delete(event.DeleteEvent{Object: &tc.job}) {
			t.Errorf("%s: its deletion is not seen", name)
		}
	}
}

// JobSet's counters, which have one value for each name, do not keep the names for ever.
func TestForgetCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go func() {
			if err := forgetCounts(time.Hour).Start(ctx); err != nil {
				t.Error(err)
			}
		}()
		for range 2 {
			synctest.Wait()
			jobsetmetrics.JobSetCompleted("one", "default")
			jobsetmetrics.JobSetFailed("another", "default")
			<-time.After(time.Hour + time.Second) // of the clock of synctest
			for _, counter := range []*prometheus.CounterVec{jobsetmetrics.CompletedTotal, jobsetmetrics.FailedTotal} {
				left := make(chan prometheus.Metric, 1)
				counter.Collect(left)
				if len(left) != 0 {
					t.Error("a counter has a name after an hour")
				}
			}
		}
	})
}

// Whoever may make JobSets gets no Jobs from this manager: it reconciles those that MiniClusters have.
func TestOwnJobSets(t *testing.T) {
	mc := fixture.MiniCluster("lmp").Size(2).Obj()
	for name, tc := range map[string]struct {
		change func(*jobsetapi.JobSet)
		ours   bool
	}{
		"that of a MiniCluster":              {func(*jobsetapi.JobSet) {}, true},
		"without an owner":                   {func(s *jobsetapi.JobSet) { s.OwnerReferences = nil }, false},
		"of another kind of owner":           {func(s *jobsetapi.JobSet) { s.OwnerReferences[0].Kind = "ConfigMap" }, false},
		"of one that is gone":                {func(s *jobsetapi.JobSet) { s.OwnerReferences[0].Name = "gone" }, false},
		"of an earlier one":                  {func(s *jobsetapi.JobSet) { s.OwnerReferences[0].UID = "earlier" }, false},
		"a second one":                       {func(s *jobsetapi.JobSet) { s.Name = "second" }, false},
		"one that has many Jobs of a kind":   {func(s *jobsetapi.JobSet) { s.Spec.ReplicatedJobs[1].Replicas = 2000000000 }, false},
		"one that has another Job":           {func(s *jobsetapi.JobSet) { s.Spec.ReplicatedJobs[1].Name = "other" }, false},
		"one of which the cache has no more": {func(s *jobsetapi.JobSet) { s.Spec = jobsetapi.JobSetSpec{} }, false},
		"one that is gone before it is met":  {func(s *jobsetapi.JobSet) { s.Namespace = "elsewhere" }, false},
	} {
		set, err := jobset.JobSet(fixture.MiniCluster("lmp").Size(2).Defaulted(), 1)
		if err != nil {
			t.Fatal(err)
		}
		tc.change(set)
		met := false
		inner := reconcile.Func(func(context.Context, reconcile.Request) (reconcile.Result, error) {
			met = true
			return reconcile.Result{}, nil
		})
		request := reconcile.Request{NamespacedName: types.NamespacedName{Namespace: mc.Namespace, Name: set.Name}}
		c := fake.NewClientBuilder().WithScheme(scheme()).WithObjects(mc, set).Build()
		if _, err := (ownJobSets{inner, c}).Reconcile(t.Context(), request); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if met != tc.ours {
			t.Errorf("%s: reconciled: %v", name, met)
		}
	}
}
