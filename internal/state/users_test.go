// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

func TestUser(t *testing.T) {
	labelled := fixture.MiniCluster("x").Label("team", "alice").Obj()
	empty := fixture.MiniCluster("x").Label("team", "").Obj()
	byTeam := fixture.Queue("q").Users(v1alpha2.QueueUsers{Label: "team"}).Obj()
	for _, tc := range []struct {
		name  string
		mc    *v1alpha2.MiniCluster
		queue *v1alpha2.MiniClusterQueue
		want  string
	}{
		{"the label's value", labelled, byTeam, "alice"},
		{"an empty value", empty, byTeam, fixture.Namespace},
		{"without the label", fixture.MiniCluster("x").Obj(), byTeam, fixture.Namespace},
		{"without a label in the queue", labelled, fixture.Queue("q").Users(v1alpha2.QueueUsers{}).Obj(), fixture.Namespace},
		{"without users in the queue", labelled, fixture.Queue("q").Obj(), fixture.Namespace},
		{"without a queue", labelled, nil, fixture.Namespace},
	} {
		if got := User(tc.mc, tc.queue); got != tc.want {
			t.Errorf("%s: user %q, want %q", tc.name, got, tc.want)
		}
	}
}

// Usage counts in a queue that orders by it, or has users.
func TestUsersOfAQueue(t *testing.T) {
	for name, tc := range map[string]struct {
		made *fixture.QueueWrapper
		want queue.Users
	}{
		"neither":   {fixture.Queue("q"), queue.Users{}},
		"FairShare": {fixture.Queue("q").Ordering(v1alpha2.OrderFairShare), queue.Users{HalfLife: 168 * time.Hour}},
		"users":     {fixture.Queue("q").Users(v1alpha2.QueueUsers{MaxRunning: 4, MaxNodes: 9}), queue.Users{HalfLife: 168 * time.Hour, MaxRunning: 4, MaxNodes: 9}},
		"half-life": {fixture.Queue("q").Users(v1alpha2.QueueUsers{HalfLife: &metav1.Duration{Duration: time.Hour}}), queue.Users{HalfLife: time.Hour}},
	} {
		if diff := cmp.Diff(tc.want, Queue(tc.made.Obj()).Users); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := Queue(fixture.Queue("q").Ordering(v1alpha2.OrderFairShare).Obj()).Ordering; got != queue.ByUser {
		t.Errorf("the ordering is %q", got)
	}
}

func TestAccountOfAQueue(t *testing.T) {
	q := fixture.Queue("q").Obj()
	q.Status.Users = []v1alpha2.QueueUser{
		{Name: "alice", Usage: "99.000", ResourceSeconds: map[string]string{"cpu": "12.500", "pods": "3.000", "memory": "wrong"}},
		{Name: "earlier", Usage: "12.500"}, {Name: "bob", Usage: "0.000"}, {Name: "carol", Usage: "wrong"},
	}
	if got := Account(q); !got.At.IsZero() || len(got.Usage) != 0 {
		t.Errorf("without a time the record is %+v", got)
	}
	at := metav1.NewMicroTime(fixture.Noon)
	q.Status.UsageTime = &at
	want := map[string]queue.Spent{"alice": {"cpu": 12500, "pods": 3}, "earlier": {queue.WholeCluster: 12.5}}
	if diff := cmp.Diff(queue.Account{At: fixture.Noon, Usage: want}, Account(q)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFinished(t *testing.T) {
	finished := func(change func(*v1alpha2.MiniClusterStatus)) *v1alpha2.MiniCluster {
		return fixture.MiniCluster("x").Admitted(1, 4, "a,b,c,d").Vacated("2-3").Status(func(s *v1alpha2.MiniClusterStatus) {
			s.Queue, s.CompletionTime = "q", &metav1.Time{Time: fixture.Noon}
			s.Admission.Requests = fixture.Pod("x").CPU("8").Obj().Spec.Containers[0].Resources.Requests
			change(s)
		}).Condition(v1alpha2.ConditionFinished, metav1.ConditionTrue, v1alpha2.ReasonSucceeded).Obj()
	}
	q := fixture.Queue("q").Obj()
	r, ok := Finished(finished(func(*v1alpha2.MiniClusterStatus) {}), q)
	if !ok || r.ID != "uid-x" || r.User != fixture.Namespace || r.Queue != "q" || len(r.Ranks) != 2 || r.Requests["cpu"] != 8000 || r.Requests["pods"] != 1 || r.Admitted.IsZero() {
		t.Errorf("%t %+v", ok, r)
	}
	for name, change := range map[string]func(*v1alpha2.MiniClusterStatus){
		"of another queue": func(s *v1alpha2.MiniClusterStatus) { s.Queue = "other" },
		"without nodes":    func(s *v1alpha2.MiniClusterStatus) { s.Admission = nil },
		"without an end":   func(s *v1alpha2.MiniClusterStatus) { s.CompletionTime = nil },
		"unreadable":       func(s *v1alpha2.MiniClusterStatus) { s.Admission.Vacated = "x" },
	} {
		if _, ok := Finished(finished(change), q); ok {
			t.Errorf("%s: it counts", name)
		}
	}
}

// Only commands that ran to a good end at one size tell how long others take.
func TestLasted(t *testing.T) {
	lasted := func(reason string, change func(*fixture.MiniClusterWrapper)) bool {
		w := fixture.MiniCluster("x").Size(4).Admitted(1, 2, "a,b").Status(func(s *v1alpha2.MiniClusterStatus) {
			s.Queue, s.CompletionTime = "q", &metav1.Time{Time: fixture.Noon.Add(time.Minute)}
		}).Condition(v1alpha2.ConditionFinished, metav1.ConditionTrue, reason)
		change(w)
		r, ended, ok := Lasted(w.Obj(), fixture.Queue("q").Obj())
		if ok && (r.Sizing.Size != 4 || len(r.Ranks) != 2 || ended.Sub(r.Admitted) != time.Minute || r.User != fixture.Namespace) {
			t.Errorf("%+v until %s", r, ended)
		}
		return ok
	}
	same := func(*fixture.MiniClusterWrapper) {}
	if !lasted(v1alpha2.ReasonSucceeded, same) {
		t.Error("one that succeeded tells nothing")
	}
	if lasted(v1alpha2.ReasonCommandFailed, same) {
		t.Error("one that failed counts")
	}
	if lasted(v1alpha2.ReasonSucceeded, func(w *fixture.MiniClusterWrapper) { w.Launcher() }) {
		t.Error("a malleable one counts")
	}
	if lasted(v1alpha2.ReasonSucceeded, func(w *fixture.MiniClusterWrapper) {
		w.Status(func(s *v1alpha2.MiniClusterStatus) { s.CompletionTime = nil })
	}) {
		t.Error("one that runs counts")
	}
}
