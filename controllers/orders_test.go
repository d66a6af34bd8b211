// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// A queue below its share gets it back: surplus first, and then whole gangs.
func TestSchedulerReclaims(t *testing.T) {
	q := newQueue(t, "a", "b", "c", "d", "e", "f", "g", "h")
	ours, theirs := strict("ours"), strict("theirs")
	ours.Spec.Weight = 3
	q.seen.queues = append(q.seen.queues, ours, theirs)
	started := func(s *v1alpha2.MiniClusterStatus) {
		now := metav1.NewTime(fixture.Noon)
		s.StartTime, s.Queue = &now, "theirs"
		s.Admission.Requests = wholeNode.Spec.Containers[0].Resources.Requests
	}
	sweep := fixture.MiniCluster("sweep").Size(4).MinSize(2).Launcher().Queue("theirs").Admitted(1, 4, "a,b,c,d").Status(started)
	job := fixture.MiniCluster("job").Size(4).Queue("theirs").Admitted(1, 4, "e,f,g,h").Status(started)
	q.offer(fixture.MiniCluster("head").Size(6).Queue("ours"))
	q.seen.miniClusters = append(q.seen.miniClusters, sweep.Obj(), job.Obj())
	q.cycle()
	if order := q.OrderFor(sweep.Obj()); order == nil || len(order.Drain) != 2 {
		t.Errorf("sweep is ordered %+v", order)
	}
	if order := q.OrderFor(job.Obj()); order == nil || order.EvictReason != v1alpha2.ReasonReclaimed {
		t.Errorf("job is ordered %+v", order)
	}
}

// Nodes that were given back are on their way as long as pods are on them: nobody is
// evicted for somebody who gets these.
func TestSchedulerAwaitsPodsThatLeave(t *testing.T) {
	q := newQueue(t, "a", "b", "c", "d")
	urgent := wholeNode.DeepCopy()
	urgent.Spec.Priority = new(int32(1000))
	sweep := fixture.MiniCluster("sweep").Size(4).MinSize(2).Launcher().Admitted(1, 4, "a,b,c,d").Vacated("2-3").Status(func(s *v1alpha2.MiniClusterStatus) {
		now := metav1.NewTime(fixture.Noon)
		s.StartTime, s.Admission.Requests = &now, wholeNode.Spec.Containers[0].Resources.Requests
	})
	leaves := fixture.BrokerPod("sweep", 2).CPU("8").On("c").Up().Leaving().Obj()
	head := fixture.MiniCluster("head").Size(2)
	q.seen.miniClusters = append(q.seen.miniClusters, sweep.Obj(), head.Obj())
	q.cluster.SetPod(leaves)
	q.Offer(head.Defaulted(), urgent)
	q.cycle()
	if order := q.OrderFor(sweep.Obj()); order != nil {
		t.Errorf("sweep is ordered %+v", order)
	}
	q.expect(head, elastic.NoRoom)
	before := q.cluster.Freed()
	q.cluster.DeletePod(leaves.UID)
	if q.cluster.Freed() == before {
		t.Error("nothing was freed")
	}
	q.cycle()
	q.expect(head, elastic.Admitted, "c", "d")
}

// Cycles are for what may change a decision.
func TestWhatMatters(t *testing.T) {
	queued := fixture.MiniCluster("x").Size(4).MinSize(1)
	admitted := fixture.MiniCluster("x").Size(4).MinSize(1).Admitted(1, 4, "a,b,c,d")
	leaving := fixture.MiniCluster("x").Size(4).MinSize(1).Admitted(1, 4, "a,b,c,d").Draining("3", fixture.Noon)
	shrunk := fixture.MiniCluster("x").Size(4).MinSize(1).Admitted(1, 4, "a,b,c,d").Vacated("3")
	started := func(w *v1alpha2.MiniClusterStatus) {
		now := metav1.NewTime(fixture.Noon)
		w.StartTime = &now
	}
	running := fixture.MiniCluster("x").Size(4).MinSize(1).Admitted(1, 4, "a,b,c,d").Status(started)
	limited := fixture.MiniCluster("x").Size(4).MinSize(1).Deadline(60).Admitted(1, 4, "a,b,c,d")
	ends := fixture.MiniCluster("x").Size(4).MinSize(1).Deadline(60).Admitted(1, 4, "a,b,c,d").Status(started)
	for name, tc := range map[string]struct {
		before, after *fixture.MiniClusterWrapper
		owed, want    bool
	}{
		"it wrote down what it was given":        {queued, admitted, false, false},
		"and there is an order for it":           {queued, admitted, true, true},
		"it gave its nodes back":                 {admitted, queued, false, true},
		"ranks were asked to leave":              {admitted, leaving, false, false},
		"ranks gave theirs back":                 {leaving, shrunk, false, true},
		"it grew":                                {shrunk, admitted, false, true},
		"it started":                             {admitted, running, false, false},
		"it started, and one knows when it ends": {limited, ends, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := &Scheduler{owed: tc.owed}
			if got := s.matters(event.UpdateEvent{ObjectOld: tc.before.Obj(), ObjectNew: tc.after.Obj()}); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
