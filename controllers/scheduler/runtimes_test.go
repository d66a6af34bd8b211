// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// A MiniCluster holds out for nodes with which it ends sooner, because others of its user took half an hour before, also
// if they had ended before a restart. Nothing is learned from those that failed, or of others.
func TestSchedulerLearnsRuntimes(t *testing.T) {
	ran := func(name, reason string) *fixture.MiniClusterWrapper {
		return fixture.MiniCluster(name).Size(4).Admitted(1, 2, "a,b").Status(func(s *v1alpha2.MiniClusterStatus) {
			s.Queue, s.CompletionTime = "default", &metav1.Time{Time: fixture.Noon.Add(time.Hour)}
		}).Condition(v1alpha2.ConditionFinished, metav1.ConditionTrue, reason)
	}
	began := func(name string) *v1alpha2.MiniCluster {
		return fixture.MiniCluster(name).Size(4).Admitted(1, 2, "a,b").Obj()
	}
	due := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	for name, tc := range map[string]struct {
		show func(q *toy)
		want elastic.Verdict
	}{
		"nothing has ended": {func(*toy) {}, elastic.Admitted},
		"two had ended": {func(q *toy) {
			for _, name := range []string{"x", "y"} {
				q.miniClusters().Create(t.Context(), event.CreateEvent{Object: ran(name, v1alpha2.ReasonSucceeded).Obj()}, nil)
			}
		}, elastic.WaitingForSize},
		"two end": {func(q *toy) {
			for _, name := range []string{"x", "y"} {
				ended := ran(name, v1alpha2.ReasonSucceeded).Obj()
				q.followMiniCluster(t.Context(), event.UpdateEvent{ObjectOld: began(name), ObjectNew: ended}, due)
			}
		}, elastic.WaitingForSize},
		"one ends, and is seen twice": {func(q *toy) {
			ended := ran("x", v1alpha2.ReasonSucceeded).Obj()
			q.followMiniCluster(t.Context(), event.UpdateEvent{ObjectOld: began("x"), ObjectNew: ended}, due)
			q.followMiniCluster(t.Context(), event.UpdateEvent{ObjectOld: ended, ObjectNew: ended}, due)
		}, elastic.Admitted},
		"two fail": {func(q *toy) {
			for _, name := range []string{"x", "y"} {
				q.miniClusters().Create(t.Context(), event.CreateEvent{Object: ran(name, v1alpha2.ReasonCommandFailed).Obj()}, nil)
			}
		}, elastic.Admitted},
		"two of another namespace": {func(q *toy) {
			for _, name := range []string{"x", "y"} {
				other := ran(name, v1alpha2.ReasonSucceeded).Obj()
				other.Namespace = "other"
				q.miniClusters().Create(t.Context(), event.CreateEvent{Object: other}, nil)
			}
		}, elastic.Admitted},
	} {
		q := newQueue(t, "a", "b", "c", "d")
		since := metav1.NewTime(q.now.Add(-25 * time.Minute))
		q.seen.miniClusters = append(q.seen.miniClusters, lasting("r", 30).Size(2).Admitted(1, 2, "a,b").Status(func(s *v1alpha2.MiniClusterStatus) {
			s.Admission.Time, s.StartTime = since, &since
		}).Obj())
		tc.show(q)
		w := fixture.MiniCluster("w").Size(4).MinSize(2)
		q.offer(w)
		q.cycle()
		if got := q.offer(w); got.Verdict != tc.want {
			t.Errorf("%s: %s (%s)", name, got.Verdict, got.Message)
		}
	}
}
