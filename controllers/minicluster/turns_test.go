// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func request(namespace, name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: namespace, Name: name}}
}

func newTestQueue() (*turns, workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	t := newTurns()
	q := t.newQueue("", workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Millisecond, time.Second))
	return t, q
}

// drain takes all requests in their order.
func drain(q workqueue.TypedRateLimitingInterface[reconcile.Request]) []string {
	var names []string
	for q.Len() > 0 {
		request, _ := q.Get()
		q.Done(request)
		names = append(names, request.Namespace+"/"+request.Name)
	}
	return names
}

func TestNamespacesTakeTurns(t *testing.T) {
	turns, q := newTestQueue()
	defer q.ShutDown()
	for _, name := range []string{"1", "2", "3", "1", "4"} {
		q.Add(request("a", name))
	}
	for _, name := range []string{"1", "2"} {
		q.Add(request("b", name))
	}
	q.Add(request("c", "1"))
	turns.urge(request("a", "3")) // waits
	q.Add(request("a", "3"))
	turns.urge(request("d", "1")) // does not wait
	q.Add(request("d", "1"))
	turns.urge(request("d", "1"))
	q.Add(request("d", "1"))
	want := []string{"a/3", "d/1", "a/1", "b/1", "c/1", "a/2", "b/2", "a/4"}
	if got := drain(q); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	q.Add(request("d", "1")) // is urgent no longer
	q.Add(request("a", "3"))
	q.Add(request("d", "2"))
	if got := drain(q); !slices.Equal(got, []string{"d/1", "a/3", "d/2"}) {
		t.Errorf("later: %v", got)
	}
	if len(turns.waiting)+len(turns.namespaces)+len(turns.urged)+len(turns.urgent) > 0 {
		t.Errorf("left are %+v", turns)
	}
}

// Two thousand MiniClusters of one namespace change all the time. Those of another namespace have every
// second turn.
func TestNoisyNeighbour(t *testing.T) {
	const noisy, passes = 2000, 100
	_, q := newTestQueue()
	defer q.ShutDown()
	for i := range noisy {
		q.Add(request("noisy", strconv.Itoa(i)))
	}
	quiet := 0
	for i := range 2 * passes {
		if i%2 == 0 {
			q.Add(request("quiet", "x"))
		}
		next, _ := q.Get()
		if next.Namespace == "quiet" {
			quiet++
		}
		q.Done(next)
		if next.Namespace == "noisy" {
			q.Add(next)
		}
	}
	if quiet != passes {
		t.Errorf("%d of %d passes were for the quiet one, want %d", quiet, 2*passes, passes)
	}
}

// Whatever is added and taken, each request is taken once, before those of its namespace that came later.
func TestTurnsLoseNothing(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	turns, q := newTestQueue()
	defer q.ShutDown()
	waits, order, number := map[reconcile.Request]int{}, map[string]int{}, 0 // when they were added, and the last taken
	for range 20000 {
		one := request(strconv.Itoa(random.IntN(5)), strconv.Itoa(random.IntN(20)))
		if random.IntN(2) == 0 {
			number++
			if _, known := waits[one]; !known {
				waits[one] = number
			}
			if random.IntN(10) == 0 {
				turns.urge(one)
				waits[one] = 0 // its order does not matter
			}
			q.Add(one)
		} else if len(waits) > 0 {
			next, _ := q.Get()
			q.Done(next)
			at, known := waits[next]
			if !known || (at > 0 && at < order[next.Namespace]) {
				t.Fatalf("%v was taken: known %t, added at %d after %d", next, known, at, order[next.Namespace])
			}
			delete(waits, next)
			order[next.Namespace] = max(order[next.Namespace], at)
		}
		if q.Len() != len(waits) {
			t.Fatalf("%d wait, want %d", q.Len(), len(waits))
		}
	}
}
