// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// next lets the scheduler choose whose pods are made ahead, and says whose; "" for nobody.
func (q *toy) next() string {
	q.t.Helper()
	q.starts.pass(q.ledger.Unmade, q.now)
	told, _ := q.lookAhead(q.now)
	switch len(told) {
	case 0:
		return ""
	case 1:
		return told[0].Name
	}
	q.t.Fatalf("%d are told", len(told))
	return ""
}

func TestLookAhead(t *testing.T) {
	third := fixture.MiniCluster("third").Size(1).Created(fixture.Noon.Add(2 * time.Minute))
	ready := func(w *fixture.MiniClusterWrapper) func(*toy) {
		return func(q *toy) { q.Offer(w.Defaulted(), wholeNode, nil, elastic.AheadMade) }
	}
	for name, tc := range map[string]struct {
		pods   int // at most
		change func(q *toy)
		want   string
	}{
		"the first that waits":           {pods: 10, want: "second"},
		"one after the other":            {pods: 10, change: func(q *toy) { q.next() }, want: ""},
		"in the order of the queue":      {pods: 10, change: ready(second), want: "third"},
		"not too many":                   {pods: 2, change: ready(second), want: ""},
		"none, where that is not wanted": {pods: 0, want: ""},
		"nobody while one starts":        {pods: 10, change: func(q *toy) { q.starts.add("uid-first", 0, q.now.Add(-time.Second)) }, want: ""},
		"but not for long": {pods: 10, change: func(q *toy) {
			q.starts.add("uid-first", 0, q.now)
			q.next()
			q.now = q.now.Add(aheadPatience)
		}, want: "second"},
		"one that takes long to start is no reason": {pods: 10, change: func(q *toy) { q.starts.add("uid-first", 0, q.now.Add(-time.Minute)) }, want: "second"},
		"nor one that takes long to make them": {pods: 10, change: func(q *toy) {
			q.next()
			q.now = q.now.Add(startsWithin)
		}, want: "third"},
		"nor is one that has started": {pods: 10, change: func(q *toy) {
			q.starts.add("uid-first", 0, q.now)
			q.started("uid-first")
		}, want: "second"},
		"nobody where a quota counts the pods": {pods: 10, change: func(q *toy) {
			q.quotas = []*corev1.ResourceQuota{{ObjectMeta: metav1.ObjectMeta{Namespace: fixture.Namespace}}}
			q.cycle()
		}, want: ""},
		"one that is too large lets others pass": {pods: 1, want: "third"},
		"what is not wanted any more does not count": {pods: 2, change: func(q *toy) {
			q.Offer(second.Defaulted(), wholeNode, nil, elastic.AheadMade)
			q.entries[client.ObjectKeyFromObject(second.Obj())].mayMakeAhead = false
		}, want: "third"},
		"nobody who does not want to": {pods: 10, change: func(q *toy) {
			q.Offer(second.Defaulted(), wholeNode, nil, elastic.AheadUnwanted)
		}, want: "third"},
		"one who wants to again": {pods: 10, change: func(q *toy) {
			q.Offer(second.Defaulted(), wholeNode, nil, elastic.AheadUnwanted)
			q.Offer(second.Defaulted(), wholeNode, nil, elastic.AheadNothing)
		}, want: "second"},
		"nobody who left": {pods: 10, change: func(q *toy) { q.Skip(second.Defaulted()) }, want: "third"},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t, "a", "b")
			q.AheadPods = tc.pods
			for _, w := range []*fixture.MiniClusterWrapper{first, second, third} {
				q.offer(w)
			}
			q.cycle()
			q.started("uid-first")
			if tc.change != nil {
				tc.change(q)
			}
			if got := q.next(); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// It is told once it was chosen, and what is there after a restart counts.
func TestMakeAhead(t *testing.T) {
	q := newQueue(t, "a", "b")
	q.AheadPods = 3
	for _, w := range []*fixture.MiniClusterWrapper{first, second} {
		q.offer(w)
	}
	if q.offer(second).MakeAhead {
		t.Error("it was not chosen yet")
	}
	q.cycle()
	q.started("uid-first")
	if q.next() != "second" || !q.offer(second).MakeAhead {
		t.Error("it was chosen, and not told")
	}
	again := newQueue(t, "a", "b")
	if !again.Offer(second.Defaulted(), wholeNode, nil, elastic.AheadMaking).MakeAhead || again.offer(first).MakeAhead {
		t.Error("what is there does not count")
	}
}

// Pods that were made ahead and wait for quota for too long are deleted, and are not made again for the same wait.
func TestPatienceForQuota(t *testing.T) {
	q := newQueue(t, "a", "b")
	q.AheadPods = 10
	await := func(ahead elastic.Ahead) bool { return q.AwaitQuota(first.Defaulted(), wholeNode, ahead) }
	q.seen.miniClusters = append(q.seen.miniClusters, first.Obj())
	await(elastic.AheadNothing)
	q.cycle()
	q.lookAhead(q.now)
	if !await(elastic.AheadNothing) {
		t.Fatal("it may not make its pods ahead")
	}
	q.cycle()
	if want := q.now.Add(quotaPatience); !q.lookAgain.Equal(want) {
		t.Errorf("the next look is at %s, want %s", q.lookAgain, want)
	}
	q.now = q.now.Add(quotaPatience)
	q.cycle()
	if await(elastic.AheadMaking) {
		t.Error("its pods wait for ever")
	}
	q.Postpone(first.Defaulted()) // until its pods are gone
	await(elastic.AheadNothing)
	q.cycle()
	if told, _ := q.lookAhead(q.now); len(told) > 0 || await(elastic.AheadNothing) {
		t.Error("its pods are made again")
	}
	q.Skip(first.Defaulted()) // it got its quota and nodes, and lost them
	await(elastic.AheadNothing)
	q.cycle()
	if told, _ := q.lookAhead(q.now); len(told) != 1 || !await(elastic.AheadNothing) {
		t.Error("its pods are not made ahead for a new wait")
	}
}
