// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/status"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

// newFairQueue is a scheduler with one queue, whose users are labelled.
func newFairQueue(t *testing.T, users v1alpha2.QueueUsers, nodes ...string) *toy {
	t.Helper()
	q := newQueue(t, nodes...)
	users.Label = "user"
	q.seen.queues = []*v1alpha2.MiniClusterQueue{fixture.Queue("default").Ordering(v1alpha2.OrderFairShare).Users(users).Obj()}
	return q
}

func ofUser(name, user string, second int) *fixture.MiniClusterWrapper {
	return fixture.MiniCluster(name).Size(1).Label("user", user).Queue("default").Created(fixture.Noon.Add(time.Duration(second) * time.Second))
}

// running is a MiniCluster of one whole node.
func running(name, user, node string, since time.Time) *fixture.MiniClusterWrapper {
	return ofUser(name, user, 0).Admitted(1, 1, node).Status(func(s *v1alpha2.MiniClusterStatus) {
		s.Queue, s.Admission.Time = "default", metav1.NewTime(since)
		s.Admission.Requests = wholeNode.Spec.Containers[0].Resources.Requests
	})
}

func TestSchedulerLetsUsersTakeTurns(t *testing.T) {
	q := newFairQueue(t, v1alpha2.QueueUsers{}, "a", "b")
	for i := range 4 {
		q.offer(ofUser(fmt.Sprint("alice-", i), "alice", i))
	}
	q.offer(ofUser("bob-0", "bob", 60))
	q.cycle()
	q.expect(ofUser("alice-0", "alice", 0), elastic.Admitted, "a")
	q.expect(ofUser("bob-0", "bob", 60), elastic.Admitted, "b")
	q.expect(ofUser("alice-1", "alice", 1), elastic.NoRoom)
}

// Who has used less goes first, as the status of the queue records it.
func TestSchedulerGoesByUsage(t *testing.T) {
	q := newFairQueue(t, v1alpha2.QueueUsers{}, "a")
	recorded := metav1.NewMicroTime(q.now.Add(-time.Hour))
	q.seen.queues[0].Status = v1alpha2.MiniClusterQueueStatus{UsageTime: &recorded, Users: []v1alpha2.QueueUser{{Name: "alice", Usage: "60.000"}}}
	q.offer(ofUser("alice-0", "alice", 0))
	q.offer(ofUser("bob-0", "bob", 60))
	q.cycle()
	q.expect(ofUser("alice-0", "alice", 0), elastic.NoRoom)
	q.expect(ofUser("bob-0", "bob", 60), elastic.Admitted, "a")
}

// Once a command runs again, its MiniCluster may grow and shrink again: somebody may wait for that.
func TestSchedulerFollowsRestarts(t *testing.T) {
	runs := running("runs", "alice", "a", fixture.Noon)
	before := runs.Obj()
	before.Status.Admission.Restart = &v1alpha2.Restart{To: 1}
	if after := runs.Obj(); !matters(before, after) || matters(after, before) || matters(before, before.DeepCopy()) {
		t.Error("a cycle follows the end of a restart alone")
	}
}

// A label may name another user at any time: the next cycle goes by it.
func TestSchedulerFollowsTheLabel(t *testing.T) {
	q := newFairQueue(t, v1alpha2.QueueUsers{MaxRunning: 1}, "a", "b")
	q.seen.miniClusters = append(q.seen.miniClusters, running("runs", "alice", "a", q.now).Obj())
	waits := ofUser("waits", "alice", 0)
	q.offer(waits)
	q.cycle()
	q.expect(waits, elastic.UserLimit)
	if got, want := q.offer(waits).Message, "queue default runs at most 1 of user alice's MiniClusters at once, and as many run or go first"; got != want {
		t.Errorf("it is told %q, want %q", got, want)
	}
	before, after := waits.Obj(), ofUser("waits", "bob", 0).Obj()
	if !matters(before, after) || matters(before, before.DeepCopy()) {
		t.Error("a cycle is asked for without another label, or not with one")
	}
	q.show(ofUser("waits", "bob", 0))
	q.cycle()
	q.expect(waits, elastic.Admitted, "b")
}

// Kueue orders the MiniClusters of its queue.
func TestKueuesQueueHasNoUsers(t *testing.T) {
	q := newQueue(t, "a")
	q.cycle()
	if report, ok := q.report(v1alpha2.KueueQueue); !ok || report.Use.Users != nil || !report.UsageTime.IsZero() {
		t.Errorf("the queue of Kueue reports %+v", report)
	}
}

// Usage is recorded once a minute at most, and only while somebody has nodes.
func TestUsageIsRecordedSeldom(t *testing.T) {
	q := newFairQueue(t, v1alpha2.QueueUsers{}, "a", "b")
	q.seen.miniClusters = append(q.seen.miniClusters, running("runs", "alice", "a", q.now).Obj())
	q.cycle()
	begin := q.now
	first, _ := q.report("default")
	if !first.UsageTime.Equal(begin) || !q.due.lookAgain.Equal(begin.Add(recordInterval)) {
		t.Errorf("recorded at %s, next look at %s", first.UsageTime, q.due.lookAgain)
	}
	q.now = begin.Add(recordInterval - time.Second)
	q.cycle()
	if again, _ := q.report("default"); !reflect.DeepEqual(again, first) {
		t.Errorf("before a minute is over there is a new report: %+v after %+v", again, first)
	}
	q.now = begin.Add(recordInterval)
	q.cycle()
	next, _ := q.report("default")
	if got := next.Usage["alice"].Share(next.Shared); !next.UsageTime.Equal(q.now) || math.Abs(got-30) > 0.01 {
		t.Errorf("half of the cluster for a minute is %g at %s", got, next.UsageTime)
	}
	q.seen.miniClusters = nil
	q.now = q.now.Add(time.Hour)
	q.cycle()
	q.now = q.now.Add(time.Second)
	q.cycle()
	if !q.due.lookAgain.IsZero() {
		t.Errorf("nobody has anything, and the next look is at %s", q.due.lookAgain)
	}
}

// After a restart the usage is what it would have been, whatever ended or began since the last record.
func TestUsageSurvivesARestart(t *testing.T) {
	q := newFairQueue(t, v1alpha2.QueueUsers{}, "a", "b", "c", "d")
	at := func(second int) time.Time { return fixture.Noon.Add(time.Duration(second) * time.Second) }
	cycle := func(q *toy, second int, runs ...*fixture.MiniClusterWrapper) {
		q.seen.miniClusters = nil
		for _, mc := range runs {
			q.seen.miniClusters = append(q.seen.miniClusters, mc.Obj())
		}
		q.now = at(second)
		q.cycle()
	}
	long, short, late := running("long", "alice", "a", at(0)), running("short", "bob", "b", at(10)), running("late", "carol", "c", at(75))
	cycle(q, 0, long)
	cycle(q, 10, long, short)
	cycle(q, 60, long, short)
	report, _ := q.report("default")
	made := q.seen.queues[0].DeepCopy()
	made.Status = status.Queue(made, report)
	cycle(q, 75, long, short, late)
	cycle(q, 90, long, late)
	cycle(q, 100, long, late)
	want := q.usage["default"].Until(at(130), v1alpha2.DefaultHalfLife)

	restarted := newFairQueue(t, v1alpha2.QueueUsers{}, "a", "b", "c", "d")
	restarted.seen.queues[0] = made
	restarted.seen.finished = append(restarted.seen.finished, short.Status(func(s *v1alpha2.MiniClusterStatus) {
		s.CompletionTime = &metav1.Time{Time: at(90)}
	}).Condition(v1alpha2.ConditionFinished, metav1.ConditionTrue, v1alpha2.ReasonSucceeded).Obj())
	cycle(restarted, 130, long, late)
	got := restarted.usage["default"].Usage
	if len(want) != 3 || len(got) != 3 {
		t.Errorf("the usage is %v, and after the restart %v", want, got)
	}
	for user, used := range want {
		for name, spent := range used {
			if math.Abs(got[user][name]-spent) > 0.001*queue.Unit(name) {
				t.Errorf("the usage of %s by %s is %g, and after the restart %g", name, user, spent, got[user][name])
			}
		}
	}
	if report, _ := restarted.report("default"); !report.UsageTime.Equal(at(130)) {
		t.Errorf("the record is of %s", report.UsageTime)
	}
}

// A queue that counts no usage any more forgets all.
func TestUsageIsForgotten(t *testing.T) {
	q := newFairQueue(t, v1alpha2.QueueUsers{}, "a")
	q.cycle()
	if len(q.usage) != 1 {
		t.Errorf("there are %d accounts", len(q.usage))
	}
	q.seen.queues[0] = strict("default")
	q.cycle()
	if len(q.usage) != 0 {
		t.Errorf("there are %d accounts", len(q.usage))
	}
}
