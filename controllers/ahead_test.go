// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/internal/fixture"
)

// next lets the scheduler choose whose pods are made ahead, and says whose; "" for nobody.
func (q *queue) next() string {
	q.t.Helper()
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
	ready := func(w *fixture.MiniClusterWrapper) func(*queue) {
		return func(q *queue) { q.Soon(w.Defaulted(), aheadMade) }
	}
	for name, tc := range map[string]struct {
		pods   int // at most
		change func(q *queue)
		want   string
	}{
		"the first that waits":           {pods: 10, want: "second"},
		"one after the other":            {pods: 10, change: func(q *queue) { q.next() }, want: ""},
		"in the order of the queue":      {pods: 10, change: ready(second), want: "third"},
		"not too many":                   {pods: 2, change: ready(second), want: ""},
		"none, where that is not wanted": {pods: 0, want: ""},
		"nobody while one starts":        {pods: 10, change: func(q *queue) { q.starting["uid-first"] = q.now.Add(-time.Second) }, want: ""},
		"but not for long": {pods: 10, change: func(q *queue) {
			q.starting["uid-first"] = q.now
			q.next()
			q.now = q.now.Add(aheadPatience)
		}, want: "second"},
		"one that takes long to start is no reason": {pods: 10, change: func(q *queue) { q.starting["uid-first"] = q.now.Add(-time.Minute) }, want: "second"},
		"nor one that takes long to make them": {pods: 10, change: func(q *queue) {
			q.next()
			q.now = q.now.Add(startsWithin)
		}, want: "third"},
		"nor is one that has started": {pods: 10, change: func(q *queue) {
			q.starting["uid-first"] = q.now
			q.started("uid-first")
		}, want: "second"},
		"nobody where a quota counts the pods": {pods: 10, change: func(q *queue) {
			q.seen.quotas = map[string][]*corev1.ResourceQuota{fixture.Namespace: {{}}}
			q.cycle()
		}, want: ""},
		"one that is too large lets others pass": {pods: 1, want: "third"},
		"what is not wanted any more does not count": {pods: 2, change: func(q *queue) {
			q.Soon(second.Defaulted(), aheadMade)
			q.entries[client.ObjectKeyFromObject(second.Obj())].mayMakeAhead = false
		}, want: "third"},
		"nobody who left": {pods: 10, change: func(q *queue) { q.Skip(second.Defaulted()) }, want: "third"},
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
func TestSoon(t *testing.T) {
	q := newQueue(t, "a", "b")
	q.AheadPods = 3
	for _, w := range []*fixture.MiniClusterWrapper{first, second} {
		q.offer(w)
	}
	if q.Soon(second.Defaulted(), aheadNot) {
		t.Error("it was not chosen yet")
	}
	q.cycle()
	q.started("uid-first")
	if q.next() != "second" || !q.Soon(second.Defaulted(), aheadNot) {
		t.Error("it was chosen, and not told")
	}
	again := newQueue(t, "a", "b")
	again.offer(second)
	if !again.Soon(second.Defaulted(), aheadMaking) || again.Soon(first.Defaulted(), aheadNot) {
		t.Error("what is there does not count")
	}
}
