// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

// While enough pods are to be made, a MiniCluster gets no nodes although there is room, and nobody else gets them. It gets
// them once pods have come, or the first takes too long.
func TestStartsOneAfterTheOther(t *testing.T) {
	for name, tc := range map[string]struct {
		then func(q *toy, requests requests)
		due  bool // a cycle
		want elastic.Verdict
	}{
		"nothing comes": {func(*toy, requests) {}, false, elastic.WaitingForTurn},
		"a pod comes": {func(q *toy, requests requests) {
			q.tell(requests, freedBatch, func() { q.ledger.SetPod(fixture.BrokerPod("first", 0).CPU("8").On("a").Obj()) })
		}, true, elastic.Admitted},
		"time passes":    {func(q *toy, _ requests) { q.now = q.now.Add(firstPatience) }, false, elastic.Admitted},
		"the first runs": {func(q *toy, _ requests) { delete(q.starts.all, "uid-first") }, false, elastic.Admitted},
		"the first goes": {func(q *toy, _ requests) {
			q.seen.miniClusters = q.seen.miniClusters[1:]
			q.Skip(first.Obj())
		}, true, elastic.Admitted},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(t, "a", "b", "c", "d")
			q.StartingPods = 2
			third := fixture.MiniCluster("third").Size(1).Created(fixture.Noon.Add(2 * time.Minute))
			for _, w := range []*fixture.MiniClusterWrapper{first, second, third} {
				q.offer(w)
			}
			q.cycle()
			q.expect(first, elastic.Admitted, "a", "b")
			q.expect(second, elastic.WaitingForTurn)
			q.expect(third, elastic.NoRoom)
			if at := q.now.Add(firstPatience); !q.news.lookAgain.Equal(at) {
				t.Errorf("it looks again at %s, want %s", q.news.lookAgain, at)
			}
			requests := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
			defer requests.ShutDown()
			tc.then(q, requests)
			if q.due.changed != tc.due {
				t.Errorf("a cycle is due: %t", q.due.changed)
			}
			q.cycle()
			if offer := q.offer(second); offer.Verdict != tc.want {
				t.Errorf("%s (%s), want %s", offer.Verdict, offer.Message, tc.want)
			}
		})
	}
}

// A MiniCluster that knows why it waits is not told that it waits for pods of others, however long it has been waiting,
// unless it waits for these pods for long.
func TestStartsAreNoNews(t *testing.T) {
	q := newQueue(t, "a", "b")
	q.StartingPods = 1
	q.offer(first)
	q.offer(second)
	if told := q.cycle(); told != "first second" {
		t.Errorf("told: %q", told)
	}
	q.expect(second, elastic.NoRoom)

	q.now = q.now.Add(2 * newsInterval)
	for _, node := range fixture.Nodes("c", "d", "e", "f", "g") {
		q.ledger.SetNode(node)
	}
	earlier := func(name string, by time.Duration) {
		q.offer(fixture.MiniCluster(name).Size(1).Created(fixture.Noon.Add(-by)))
	}
	began := q.now
	for i, test := range []struct {
		name string
		at   time.Duration // since the first cycle in which it is put off
		told string
	}{
		{"one", 0, "one"},
		{"two", firstPatience, "two"},
		{"three", startsWithin, "second three"},
	} {
		q.now = began.Add(test.at)
		earlier(test.name, time.Duration(i+1)*time.Hour)
		if told := q.cycle(); told != test.told {
			t.Errorf("after %s told: %q", test.at, told)
		}
		q.expect(second, elastic.WaitingForTurn)
		if at := q.now.Add(q.starts.patience()); !q.news.lookAgain.Equal(at) {
			t.Errorf("after %s it looks again at %s, want %s", test.at, q.news.lookAgain, at)
		}
	}
	q.now = q.now.Add(firstPatience)
	if told := q.cycle(); told != "second" {
		t.Errorf("told: %q", told)
	}
	q.expect(second, elastic.Admitted, "f", "g")
}

// Those of which no pod comes keep the next from starting for a few seconds in all, however many they are.
func TestBrokenStartsHoldUpNobody(t *testing.T) {
	q := newQueue(t)
	q.StartingPods = 1
	last := fixture.MiniCluster("last").Size(1).Created(fixture.Noon.Add(time.Hour))
	q.offer(last)
	for i := range 20 {
		name := fmt.Sprintf("broken-%d", i)
		q.ledger.SetNode(fixture.Nodes(name)[0])
		q.offer(fixture.MiniCluster(name).Size(1))
	}
	q.ledger.SetNode(fixture.Nodes("last")[0])
	for began := q.now; !q.now.Before(began) && q.now.Sub(began) < 12*time.Second; q.now = q.news.lookAgain {
		q.cycle()
		if offer := q.offer(last); offer.Verdict == elastic.Admitted {
			return
		}
	}
	t.Error("it still waits after 12 s")
}

// Nobody waits for the pods of a slow one that come after others would have come.
func TestStarts(t *testing.T) {
	const slow, quick = types.UID("slow"), types.UID("quick")
	s := starts{all: map[types.UID]*start{}}
	lacks := map[types.UID]int{slow: 10, quick: 10}
	began := fixture.Noon
	come := func(uid types.UID, now time.Time) {
		lacks[uid]--
		s.came(uid, now)
	}
	for _, step := range []struct {
		at   time.Duration
		do   func(now time.Time)
		want queue.Unmade
		next time.Duration
	}{
		{0, func(now time.Time) { s.add(slow, 1, now); s.add(quick, 2, now) }, queue.Unmade{1: 10, 2: 10}, 3 * time.Second},
		{500 * time.Millisecond, func(now time.Time) { come(quick, now) }, queue.Unmade{1: 10, 2: 9}, 2 * time.Second},
		{2 * time.Second, func(now time.Time) { come(quick, now) }, queue.Unmade{2: 8}, 4 * time.Second},
		{3 * time.Second, func(now time.Time) { come(slow, now) }, queue.Unmade{2: 8}, 4 * time.Second},
		{4 * time.Second, func(time.Time) {}, queue.Unmade{}, 0},
		{5 * time.Second, func(now time.Time) { s.add("next", 0, now); lacks["next"] = 1 }, queue.Unmade{0: 1}, 6 * time.Second},
		{12 * time.Second, func(now time.Time) { come(quick, now) }, queue.Unmade{}, 0},
	} {
		now := began.Add(step.at)
		s.pass(func(uid types.UID) int { return lacks[uid] }, now)
		step.do(now)
		got, next := s.unmade(func(uid types.UID) int { return lacks[uid] })
		if diff := cmp.Diff(step.want, got); diff != "" || step.next > 0 && !next.Equal(began.Add(step.next)) || (step.next == 0) != next.IsZero() {
			t.Errorf("after %s, next %s, want %s (-want +got):\n%s", step.at, next.Sub(began), step.next, diff)
		}
	}
}

// Where the control plane makes all pods late, the next wait for longer.
func TestStartsWhileAllAreSlow(t *testing.T) {
	s := starts{all: map[types.UID]*start{}}
	now := fixture.Noon
	for i := range lastStarts + 1 {
		uid := types.UID(strconv.Itoa(i))
		s.add(uid, 0, now)
		now = now.Add(2 * time.Second)
		if i == 0 {
			now = now.Add(-1900 * time.Millisecond)
		}
		s.came(uid, now)
		want := 4 * 100 * time.Millisecond
		if want = max(want, quickly); i == lastStarts {
			want = 8 * time.Second
		}
		if got := s.patience(); got != want {
			t.Errorf("after %d starts: %s, want %s", i+1, got, want)
		}
	}
}

// One for which an autoscaler made nodes starts at once: others could take the nodes, and what was asked for it would end.
func TestStartsOnNodesThatWereMadeForIt(t *testing.T) {
	q, a := onDemand(t, 4, "a", "b", "c", "d")
	q.StartingPods = 1
	a.asked["second"] = &queue.Asked{Attempt: 1, Size: 2, At: q.now, Verdict: elastic.NodesProvisioned}
	q.offer(first)
	q.offer(second)
	q.cycle()
	q.expect(first, elastic.Admitted, "a", "b")
	q.expect(second, elastic.Admitted, "c", "d")
}
