// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/fixture"
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
