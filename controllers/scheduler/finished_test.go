// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// Of a finished MiniCluster nothing is kept once its pods hold no nodes. Another one of its name
// is new.
func TestSchedulerKeepsNothingOfTheFinished(t *testing.T) {
	q := newQueue(t, "a", "b")
	q.offer(first)
	q.cycle()
	q.expect(first, elastic.Admitted, "a", "b")
	runs := fixture.MiniCluster("first").Size(2).Admitted(1, 2, "a,b").Status(func(s *v1alpha2.MiniClusterStatus) {
		s.Admission.Requests = wholeNode.Spec.Containers[0].Resources.Requests
	})
	q.show(runs)
	q.Order(runs.Obj(), wholeNode, []int{1})
	q.Skip(runs.Obj())
	for rank, node := range []string{"a", "b"} {
		q.ledger.SetPod(fixture.BrokerPod("first", rank).CPU("8").On(node).Up().Obj())
	}
	q.cycle()

	done := runs.Condition(v1alpha2.ConditionFinished, metav1.ConditionTrue, v1alpha2.StateSucceeded)
	q.due.changed = false
	q.Skip(done.Obj())
	if !q.due.changed {
		t.Error("no cycle is asked for when it has finished")
	}
	q.due.changed = false
	q.Skip(done.Obj())
	if q.due.changed {
		t.Error("another look at it asks for a cycle")
	}
	q.seen.miniClusters = nil // the index of live MiniClusters does not show it
	q.cycle()
	if len(q.catalog.known) != 1 || len(q.runs()) != 1 {
		t.Errorf("%d are known while its pods hold nodes", len(q.catalog.known))
	}
	for rank := range 2 {
		q.ledger.SetPod(fixture.BrokerPod("first", rank).CPU("8").Ended(0).Obj())
	}
	q.cycle()
	if n := len(q.catalog.known) + len(q.line.checked) + len(q.line.entries) + len(q.catalog.pods) + len(q.catalog.repairs); n != 0 {
		t.Errorf("%d things are kept of it: known %v, checked %v, entries %v, repairs %v", n, q.catalog.known, q.line.checked, q.line.entries, q.catalog.repairs)
	}

	again := first.Defaulted()
	again.UID = "uid-again"
	q.seen.miniClusters = append(q.seen.miniClusters, again)
	q.Forget(client.ObjectKeyFromObject(again))
	if offer := q.Offer(again, wholeNode, nil, nil); offer.Verdict != "" {
		t.Errorf("the new one is offered %+v before a cycle", offer)
	}
	q.cycle()
	if offer := q.Offer(again, wholeNode, nil, nil); offer.Verdict != elastic.Admitted {
		t.Errorf("the new one is offered %+v", offer)
	}
}
