// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/status"
)

func at(seconds int) metav1.Time {
	return metav1.NewTime(fixture.Noon.Add(time.Duration(seconds) * time.Second))
}

// spender is a MiniCluster of a user, each of whose attempts was given up, at some seconds after noon. Each has used ten
// node-seconds.
func spender(name, user string, ended ...int) *v1alpha2.MiniCluster {
	return ofUser(name, user, 0).Status(func(s *v1alpha2.MiniClusterStatus) {
		s.Queue = "default"
		for _, second := range ended {
			s.Attempts = append(s.Attempts, v1alpha2.Attempt{Ended: at(second), NodeSeconds: 10})
			s.Usage = &v1alpha2.Usage{LostNodeSeconds: int64(10 * len(s.Attempts))}
		}
	}).Obj()
}

// A queue adds up what its MiniClusters used, and a new manager goes on from what the status has.
func TestAccounting(t *testing.T) {
	queue := fixture.Queue("default").Users(v1alpha2.QueueUsers{Label: "user"}).Obj()
	var q *toy
	begin := func() {
		q = newQueue(t, "a")
		q.seen.queues = []*v1alpha2.MiniClusterQueue{queue}
	}
	found := func(mc *v1alpha2.MiniCluster) {
		q.foundMiniCluster(t.Context(), event.CreateEvent{Object: mc}, nil)
	}
	has := func(what string, until int, users ...v1alpha2.UserUsage) {
		t.Helper()
		q.cycle()
		report, _ := q.report("default")
		queue.Status = status.Queue(queue, report)
		want := &v1alpha2.Accounting{Until: at(until), Users: users}
		for _, user := range users {
			want.Usage = sum(want.Usage, user.Usage)
		}
		if got := queue.Status.Accounting; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the queue has %+v, want %+v", what, got, want)
		}
	}
	lost := func(name string, seconds int64) v1alpha2.UserUsage {
		return v1alpha2.UserUsage{Name: name, Usage: v1alpha2.Usage{LostNodeSeconds: seconds}}
	}
	begin()
	found(spender("one", "alice"))
	q.accounting.note(spender("one", "alice"), spender("one", "alice", 5))
	has("an attempt ended", 5, lost("alice", 10))
	q.accounting.note(spender("one", "alice", 5), spender("one", "alice", 5))
	has("another version of it", 5, lost("alice", 10))
	q.accounting.note(spender("two", "bob"), spender("two", "bob", 7, 8))
	q.accounting.note(spender("one", "alice", 5), spender("one", "alice", 5, 6))
	q.accounting.note(spender("two", "bob", 7, 8), spender("two", "bob", 7, 8, 9))
	has("others ended", 9, lost("bob", 30), lost("alice", 20))

	begin()
	has("after a restart", 9, lost("bob", 30), lost("alice", 20))
	found(spender("one", "alice", 5, 6, 20))
	found(spender("two", "bob", 7, 8, 9))
	has("an attempt ended meanwhile", 20, lost("alice", 30), lost("bob", 30))
	succeeds := spender("one", "alice", 5, 6, 20)
	succeeds.Status.CompletionTime, succeeds.Status.Usage = new(at(30)), &v1alpha2.Usage{LostNodeSeconds: 34, UsefulNodeSeconds: 100}
	succeeds.Status.Admission = &v1alpha2.Admission{Usage: &v1alpha2.AttemptUsage{NodeSeconds: 104, StartingNodeSeconds: 4}}
	before := queue.DeepCopy()
	alice := v1alpha2.UserUsage{Name: "alice", Usage: v1alpha2.Usage{LostNodeSeconds: 34, UsefulNodeSeconds: 100}}
	q.accounting.note(spender("one", "alice", 5, 6, 20), succeeds)
	has("it succeeded", 30, alice, lost("bob", 30))

	queue = before
	begin()
	found(succeeds)
	has("a restart before that was recorded", 30, alice, lost("bob", 30))
	begin()
	found(succeeds)
	has("a restart later", 30, alice, lost("bob", 30))

	queue = fixture.Queue("default").Users(v1alpha2.QueueUsers{Label: "user"}).Obj()
	q.accounting.books = map[string]*books{}
	q.seen.queues = []*v1alpha2.MiniClusterQueue{queue}
	for i := range v1alpha2.MostUsers + 5 {
		q.accounting.note(spender(fmt.Sprint("mc-", i), fmt.Sprintf("user-%03d", i)), spender(fmt.Sprint("mc-", i), fmt.Sprintf("user-%03d", i), 40))
	}
	q.cycle()
	report, _ := q.report("default")
	if a := report.Accounting; len(a.Users) != v1alpha2.MostUsers || a.LostNodeSeconds != 10*(v1alpha2.MostUsers+5) || len(q.accounting.books["default"].users) != v1alpha2.MostUsers {
		t.Errorf("%d users are listed and %d kept, with %d node-seconds", len(a.Users), len(q.accounting.books["default"].users), a.LostNodeSeconds)
	}
}

// A MiniCluster that is deleted while it has nodes lost what it used until then. One that waits, or has finished, did not.
func TestAccountingOfDeleted(t *testing.T) {
	q := newQueue(t, "a")
	q.Clock, q.seen.queues = clocktesting.NewFakePassiveClock(at(21).Time), []*v1alpha2.MiniClusterQueue{fixture.Queue("default").Obj()}
	holds := func(name string) *v1alpha2.MiniCluster {
		mc := spender(name, "bob")
		mc.Status.Admission = &v1alpha2.Admission{Time: at(15), Size: 4, Nodes: "n[0-3]", Vacated: "3"}
		return mc
	}
	counted, finished, kept := holds("counted"), holds("finished"), holds("kept")
	counted.Status.Admission.Usage = &v1alpha2.AttemptUsage{NodeSeconds: 8, Until: at(17)}
	finished.Status.CompletionTime = new(at(18))
	kept.DeletionTimestamp = new(at(16)) // by a finalizer of somebody
	due := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
	for _, mc := range []*v1alpha2.MiniCluster{spender("waits", "alice"), holds("fresh"), counted, finished, kept} {
		q.miniClusters().Delete(t.Context(), event.DeleteEvent{Object: mc}, due)
	}
	q.cycle()
	report, _ := q.report("default")
	if want := int64(3*6 + (8 + 3*4) + 3*1); report.Accounting == nil || report.Accounting.LostNodeSeconds != want || due.Len() != 1 {
		t.Errorf("the queue has %+v, want %d node-seconds", report.Accounting, want)
	}
}

// What the metrics say about the cluster.
func TestMeasure(t *testing.T) {
	q := newQueue(t, "a", "b", "c", "d")
	if q.measure() != nil {
		t.Error("there is something to measure before the first cycle")
	}
	q.seen.miniClusters = append(q.seen.miniClusters, running("runs", "alice", "a", q.now).Obj(), running("starts", "alice", "b", q.now).Obj())
	q.offer(fixture.MiniCluster("head").Size(3).Queue("default"))
	q.offer(fixture.MiniCluster("lost").Size(1).Queue("not-there"))
	q.cycle()
	if got := q.reports.measured["default"]; got.Waiting["NoRoom"] != 1 || !got.Blocked.Equal(q.now) || got.Patience == 0 {
		t.Errorf("the queue has %+v", got)
	}
	if got := q.reports.measured[""]; got.Waiting["NoSuchQueue"] != 1 {
		t.Errorf("queues that do not exist have %+v", got)
	}
	nodes := nodesOf(map[string]bool{"a": true, "b": false, "c": true, "d": false}, map[string]bool{"a": true, "b": false})
	if nodes.Running != 1 || nodes.Starting != 1 || nodes.Idle != 1 || nodes.Down != 1 {
		t.Errorf("the nodes are %+v", nodes)
	}
	if usable := q.ledger.Usable(); len(usable) != 4 || !usable["a"] {
		t.Errorf("usable are %v", usable)
	}
}
