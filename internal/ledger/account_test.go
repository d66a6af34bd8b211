// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strconv"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

func onNodes(nodes ...string) *state.Promise {
	return &state.Promise{Nodes: nodes, Requests: fluxion.Resources{"cpu": 8000, "pods": 1}}
}

func drains(promise *state.Promise, ranks ...int) *state.Promise {
	promise.Draining = ranks
	return promise
}

func rigid(promise *state.Promise) *state.Promise {
	promise.Rigid = true
	return promise
}

// What is assumed counts until the status shows it, or it is forgotten.
func TestAssume(t *testing.T) {
	l := clusterOf(fixture.Nodes("a", "b", "c"), nil, nil)
	fits := func(want int) {
		t.Helper()
		if got := graphOf(t, l).Fits(fluxion.Gang{Pods: fluxion.Shape{Requests: fluxion.Resources{"cpu": 8000}}}); got != want {
			t.Errorf("there is room for %d, want %d", got, want)
		}
	}
	l.Assume("x", onNodes("a", "b"))
	fits(1)
	if !l.Assumed("x") || !slices.Equal(l.Promised("x").Ranks(), []int{0, 1}) {
		t.Error("it is not assumed")
	}
	l.Forget("x")
	fits(3)
	l.Assume("x", onNodes("a", "b"))
	l.Confirm("x", nil) // the status shows nothing yet
	fits(1)
	l.Confirm("x", onNodes("a", "c"))
	l.Forget("x")
	fits(1)
	if l.Assumed("x") || l.Promised("x").Nodes[1] != "c" {
		t.Errorf("what the status shows does not count: %v", l.Promised("x"))
	}
	l.Confirm("x", nil)
	fits(3)
	if l.Promised("x") != nil || l.Assumed("nobody") || l.Promised("nobody") != nil || len(l.accounts) > 0 {
		t.Error("an account is left in which there is nothing")
	}
}

// Pods count as made once they were seen after the admission, in which state ever.
func TestUnmade(t *testing.T) {
	l := clusterOf(fixture.Nodes("a", "b", "c"), nil, nil)
	expect := func(what string, unmade, came int) {
		t.Helper()
		got, of := l.Came()
		if l.Unmade("uid-x") != unmade || got != came || (of == "uid-x") != (came > 0) {
			t.Errorf("%s: %d are unmade, %d came, the last of %q, want %d, %d", what, l.Unmade("uid-x"), got, of, unmade, came)
		}
	}
	expect("no nodes", 0, 0)
	l.Assume("uid-x", onNodes("a", "b", "c"))
	expect("nodes", 3, 0)
	gated := fixture.BrokerPod("x", 0).CPU("8").Obj()
	l.SetPod(gated)
	l.SetPod(gated)
	expect("a pod without a node", 2, 1)
	l.Confirm("uid-x", onNodes("a", "b", "c"))
	l.SetPod(fixture.BrokerPod("x", 2).CPU("8").On("c").Obj())
	expect("a bound one", 1, 2)
	l.SetPod(fixture.BrokerPod("x", 3).CPU("8").Obj())
	expect("one for growth", 1, 2)
	l.Confirm("uid-x", nil)
	expect("given up", 0, 2)
	l.Assume("uid-x", onNodes("a"))
	expect("again", 1, 2)
}

func TestOrder(t *testing.T) {
	pods := func(rank int, node string) []elastic.Pod { return []elastic.Pod{{Rank: rank, Node: node}} }
	for name, tc := range map[string]struct {
		order   elastic.Order
		refused bool
		nodes   []string // that it holds then
		written *state.Promise
		done    bool
	}{
		"it grows":                              {elastic.Grow{Pods: pods(2, "c")}, false, []string{"a", "b", "c"}, onNodes("a", "b"), false},
		"and has":                               {elastic.Grow{Pods: pods(2, "c")}, false, []string{"a", "b", "c"}, onNodes("a", "b", "c"), true},
		"not onto a node that others have":      {elastic.Grow{Pods: pods(2, "d")}, true, []string{"a", "b"}, onNodes("a", "b"), true},
		"nor one that is not there":             {elastic.Grow{Pods: pods(2, "x")}, true, []string{"a", "b"}, onNodes("a", "b"), true},
		"a rank moves":                          {elastic.Move{Pods: pods(1, "c")}, false, []string{"a", "c"}, onNodes("a", "b"), false},
		"and has moved":                         {elastic.Move{Pods: pods(1, "c")}, false, []string{"a", "c"}, onNodes("a", "c"), true},
		"or has given its node back":            {elastic.Move{Pods: pods(1, "c")}, false, []string{"a", "c"}, onNodes("a", ""), true},
		"a rank is to leave":                    {elastic.Drain{Ranks: []int{1}}, false, []string{"a", "b"}, onNodes("a", "b"), false},
		"it is asked to":                        {elastic.Drain{Ranks: []int{1}}, false, []string{"a", "b"}, drains(onNodes("a", "b"), 1), true},
		"or has left":                           {elastic.Drain{Ranks: []int{1}}, false, []string{"a", "b"}, onNodes("a", ""), true},
		"or its command is rigid, and runs now": {elastic.Drain{Ranks: []int{1}}, false, []string{"a", "b"}, rigid(onNodes("a", "b")), true},
		"it is to give all back":                {elastic.Evict{}, false, []string{"a", "b"}, onNodes("a", "b"), false},
		"it has":                                {elastic.Evict{}, false, []string{"a", "b"}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := clusterOf(fixture.Nodes("a", "b", "c", "d"), nil, nil)
			l.Confirm("x", onNodes("a", "b"))
			l.Confirm("y", onNodes("d"))
			if given := l.Order("x", tc.order, fixture.Noon); given == tc.refused {
				t.Fatalf("the order is given: %t", given)
			}
			if got := l.Promised("x").Nodes; !slices.Equal(got, tc.nodes) {
				t.Errorf("it holds %v, want %v", got, tc.nodes)
			}
			if !tc.refused && l.Order("x", elastic.Evict{}, fixture.Noon) {
				t.Error("two orders are given at once")
			}
			l.Confirm("x", tc.written)
			if order, _ := l.OrderOf("x"); (order == nil) != tc.done {
				t.Errorf("it is still to %v", order)
			}
		})
	}
}

func TestOrdersLapse(t *testing.T) {
	l := clusterOf(fixture.Nodes("a", "b"), nil, nil)
	if l.Order("x", elastic.Evict{}, fixture.Noon) {
		t.Error("one that has nothing is ordered to give it back")
	}
	l.Confirm("x", onNodes("a"))
	l.Order("x", elastic.Grow{Pods: []elastic.Pod{{Rank: 1, Node: "b"}}}, fixture.Noon)
	if next := l.Lapse(fixture.Noon.Add(orderTimeout)); !next.Equal(fixture.Noon.Add(orderTimeout)) {
		t.Errorf("it lapses at %s", next)
	}
	if next := l.Lapse(fixture.Noon.Add(orderTimeout + time.Second)); !next.IsZero() || len(l.Promised("x").Nodes) != 1 {
		t.Errorf("it lapses at %s, and %v is held", next, l.Promised("x"))
	}
}

// books are what a ledger should have, kept in the simplest way.
type books struct {
	written, assumed map[types.UID]*state.Promise
	orders           map[types.UID]elastic.Order
}

// promised is what a MiniCluster holds.
func (b *books) promised(uid types.UID) *state.Promise {
	if b.written[uid] == nil {
		return b.assumed[uid]
	}
	switch o := b.orders[uid].(type) {
	case elastic.Grow:
		return b.written[uid].With(o.Pods)
	case elastic.Move:
		return b.written[uid].With(o.Pods)
	}
	return b.written[uid]
}

// do does something at random to a ledger and to the books, and says what.
func (b *books) do(l *Ledger, random *rand.Rand, now time.Time) string {
	uid := types.UID("uid-" + string(rune('x'+random.IntN(3))))
	node := func() string { return fmt.Sprint("n", random.IntN(9)) }
	switch n := random.IntN(8); {
	case n < 2:
		if b.written[uid] != nil || b.assumed[uid] != nil {
			return "nothing"
		}
		b.assumed[uid] = onNodes(node(), node())
		l.Assume(uid, b.assumed[uid])
		return fmt.Sprintf("%s is assumed to have %v", uid, b.assumed[uid].Nodes)
	case n == 2:
		delete(b.assumed, uid)
		l.Forget(uid)
		return fmt.Sprintf("%s does not take it", uid)
	case n < 5: // the status shows what is promised, or nothing
		b.written[uid] = b.promised(uid)
		if random.IntN(3) == 0 {
			b.written[uid] = nil
		}
		if b.written[uid] != nil {
			delete(b.assumed, uid)
		}
		delete(b.orders, uid) // it is carried out, or there is nothing to do it with
		l.Confirm(uid, b.written[uid])
		return fmt.Sprintf("the status of %s shows %v", uid, b.written[uid])
	case n == 5:
		clear(b.orders)
		l.Lapse(now.Add(time.Hour))
		return "all orders lapse"
	}
	if b.written[uid] == nil || b.orders[uid] != nil {
		if l.Order(uid, elastic.Evict{}, now) {
			return "an order is given that cannot be"
		}
		return "nothing"
	}
	ranks := len(b.written[uid].Nodes)
	var order elastic.Order = elastic.Grow{Pods: []elastic.Pod{{Rank: ranks, Node: node()}}}
	if random.IntN(2) == 0 {
		order = elastic.Move{Pods: []elastic.Pod{{Rank: random.IntN(ranks), Node: node()}}}
	}
	if l.Order(uid, order, now) {
		b.orders[uid] = order
	}
	return fmt.Sprintf("%s is to %v", uid, order)
}

// Whatever is assumed, ordered, confirmed and forgotten, in whatever order: what is free is
// what nodes have, less what the books say.
func TestBooks(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 1))
			names := []string{"n0", "n1", "n2", "n3", "n4", "n5", "n6", "n7", "n8"}
			l := clusterOf(fixture.Nodes(names...), nil, nil)
			b := &books{written: map[types.UID]*state.Promise{}, assumed: map[types.UID]*state.Promise{}, orders: map[types.UID]elastic.Order{}}
			for range 500 {
				what := b.do(l, random, fixture.Noon)
				left := map[string]int64{}
				for _, name := range names {
					left[name] = 8000
				}
				for _, uid := range []types.UID{"uid-x", "uid-y", "uid-z"} {
					promise := b.promised(uid)
					if got := l.Promised(uid); !got.Same(promise) {
						t.Fatalf("%s: %s holds %v, want %v", what, uid, got, promise)
					}
					if order, _ := l.OrderOf(uid); !reflect.DeepEqual(order, b.orders[uid]) {
						t.Fatalf("%s: %s is to %v, want %v", what, uid, order, b.orders[uid])
					}
					if l.Assumed(uid) != (b.assumed[uid] != nil) {
						t.Fatalf("%s: %s is assumed: %t", what, uid, l.Assumed(uid))
					}
					if promise != nil {
						for _, rank := range promise.Ranks() {
							left[promise.Nodes[rank]] -= 8000
						}
					}
				}
				for name, want := range left {
					if got := graphOf(t, l).Left(name)["cpu"]; got != want {
						t.Fatalf("%s: of %s there is %d left, want %d", what, name, got, want)
					}
				}
			}
		})
	}
}
