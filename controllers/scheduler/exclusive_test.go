// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"slices"
	"testing"
	"time"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

// Pods without requests: on any node, and alone on their nodes.
var (
	anywhere = fixture.BrokerPod("x", 0).CPU("0").Obj()
	alone    = fixture.BrokerPod("x", 0).CPU("0").Label(v1alpha2.ExclusiveLabel, "true").Obj()
)

// busyQueue has a pod of somebody else on node b.
func busyQueue(t *testing.T) *toy {
	t.Helper()
	q := newQueue(t, "a", "b", "c", "d")
	q.ledger.SetPod(fixture.Pod("foreign").CPU("1").On("b").Obj())
	small := strict("small")
	small.Spec.Capacity = fixture.Queue("small").Capacity("cpu", "16").Obj().Spec.Capacity
	q.seen.queues = append(q.seen.queues, small)
	return q
}

// A MiniCluster without requests that has whole nodes is not best effort. It waits in the order of its
// queue with a reservation, counts with whole nodes, and nobody is placed beside it, also after a restart.
func TestSchedulerGivesWholeNodes(t *testing.T) {
	guest := fixture.MiniCluster("guest").Size(4).Created(fixture.Noon.Add(2 * time.Minute))
	q := busyQueue(t)
	q.offerOf(first, alone)
	waits := fixture.MiniCluster("waits").Size(2).Queue("small").Created(fixture.Noon.Add(time.Minute))
	q.offerOf(waits, alone)
	q.offerOf(guest, anywhere)
	huge := fixture.MiniCluster("huge").Size(3).Queue("small")
	q.offerOf(huge, alone)
	q.cycle()
	q.expect(first, elastic.Admitted, "a", "c")
	q.expect(waits, elastic.NoRoom)
	if got := q.offer(guest); got.Verdict != elastic.NoRoom || got.Message != "leaves room for default/waits of queue small, which waits longer" {
		t.Errorf("a guest: %s %s", got.Verdict, got.Message)
	}
	if got := q.offer(huge); got.Verdict != elastic.TooLargeForQueue || got.Message != "needs 24 cpu in whole nodes, queue small may have 16 cpu" {
		t.Errorf("it waits as %s: %s", got.Verdict, got.Message)
	}
	q.Skip(waits.Obj()) // it was suspended, for example
	q.cycle()
	q.expect(guest, elastic.Admitted, "b", "b", "d", "d")

	restarted := busyQueue(t)
	shown := fixture.MiniCluster("first").Size(2).Admitted(1, 2, "a,c").Status(func(s *v1alpha2.MiniClusterStatus) {
		s.Admission.Requests, s.Admission.Exclusive = nil, true
	})
	restarted.seen.miniClusters = append(restarted.seen.miniClusters, shown.Obj())
	restarted.offerOf(guest, anywhere)
	restarted.cycle()
	restarted.expect(guest, elastic.Admitted, "b", "b", "d", "d")
	snapshot := newCycle(restarted.parts, &restarted.seen, restarted.now)
	if _, err := snapshot.look(); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(snapshot.Running, func(r queue.Running) bool { return r.ID == "uid-first" })
	if requests := snapshot.Running[i].Requests; requests["cpu"] != 8000 || requests["pods"] != 1 {
		t.Errorf("each broker counts as %v", requests)
	}
}
