// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// setDeadlines changes the deadlines of the queue default.
func (q *toy) setDeadlines(byDefault, most time.Duration) {
	q.seen.queues[0] = fixture.Queue("default").Deadlines(byDefault, most).Obj()
}

// The first waits for jobs that end by their limits. With the deadlines of a queue, others are
// backfilled although their users set none.
func TestSchedulerBackfillsByTheDefaultDeadline(t *testing.T) {
	small := fixture.MiniCluster("small").Size(1).Created(fixture.Noon.Add(2 * time.Minute))
	for name, tc := range map[string]struct {
		byDefault, most time.Duration
		want            elastic.Verdict
	}{
		"no deadline":          {0, 0, elastic.WaitingForTurn},
		"a short default":      {10 * time.Minute, 0, elastic.Admitted},
		"a long default":       {2 * time.Hour, 0, elastic.WaitingForTurn},
		"a short longest":      {0, 30 * time.Minute, elastic.Admitted},
		"the default counts":   {10 * time.Minute, 4 * time.Hour, elastic.Admitted},
		"not the longest does": {2 * time.Hour, 4 * time.Hour, elastic.WaitingForTurn},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t, "a", "b", "c")
			q.setDeadlines(tc.byDefault, tc.most)
			runs := fixture.MiniCluster("runs").Size(2).Deadline(2*3600).Admitted(1, 2, "a,b").Status(func(s *v1alpha2.MiniClusterStatus) {
				s.Admission.Requests = wholeNode.Spec.Containers[0].Resources.Requests
			})
			q.seen.miniClusters = append(q.seen.miniClusters, runs.Obj()) // for an hour more
			q.offer(fixture.MiniCluster("large").Size(3).Created(fixture.Noon.Add(time.Minute)))
			q.offer(small)
			q.cycle()
			if got := q.offer(small); got.Verdict != tc.want {
				t.Errorf("small: %s (%s), want %s", got.Verdict, got.Message, tc.want)
			}
		})
	}
}

// A MiniCluster with too long a deadline blocks nobody, and comes back once its queue allows the deadline.
func TestSchedulerObeysTheLongestDeadline(t *testing.T) {
	q := newQueue(t, "a", "b")
	long := fixture.MiniCluster("long").Size(2).Deadline(7200).Created(fixture.Noon)
	after := fixture.MiniCluster("after").Size(1).Deadline(3600).Created(fixture.Noon.Add(time.Minute))
	q.ledger.SetNode(fixture.Node("b").NotReady().Obj())
	q.offer(long)
	q.cycle()
	q.expect(long, elastic.NoRoom)

	q.setDeadlines(0, time.Hour)
	q.offer(after)
	if told := q.cycle(); told != "after long" {
		t.Errorf("%q are told", told)
	}
	q.expect(long, elastic.DeadlineTooLong)
	if got, want := q.offer(long).Message, "deadlineSeconds 7200 is more than queue default allows (1h)"; got != want {
		t.Errorf("it is told %q, want %q", got, want)
	}
	q.expect(after, elastic.Admitted, "a")

	q.setDeadlines(0, 2*time.Hour)
	q.Skip(after.Obj())
	q.ledger.SetNode(fixture.Node("b").Obj())
	q.cycle()
	q.expect(long, elastic.Admitted, "a", "b")
}

// A MiniCluster is admitted with the deadlines of its queue at the decision, and ends by them from then on.
func TestSchedulerOffersDeadlines(t *testing.T) {
	q := newQueue(t, "a", "b")
	q.setDeadlines(10*time.Minute, time.Hour)
	q.offer(first)
	q.cycle()
	q.setDeadlines(time.Minute, time.Minute)
	q.cycle()
	if got, want := q.offer(first).Deadlines, (elastic.Deadlines{Default: 10 * time.Minute, Max: time.Hour, Grace: v1alpha2.DefaultMaxGrace}); got != want {
		t.Errorf("it is offered %+v, want %+v", got, want)
	}
	runs := q.runs()
	if len(runs) != 1 || runs[0].Limit != 10*time.Minute || !runs[0].End.Equal(q.now.Add(10*time.Minute)) {
		t.Errorf("%+v run", runs)
	}

	// The nodes are not taken: the next decision is by the deadlines of now.
	q.Forget(types.NamespacedName{Namespace: fixture.Namespace, Name: "first"})
	q.offer(first)
	q.cycle()
	if got, want := q.offer(first).Deadlines, (elastic.Deadlines{Default: time.Minute, Max: time.Minute, Grace: v1alpha2.DefaultMaxGrace}); got != want {
		t.Errorf("later it is offered %+v, want %+v", got, want)
	}
}
