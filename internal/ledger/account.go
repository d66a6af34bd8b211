// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"iter"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// orderTimeout is how long an order waits until the status shows it. An order that never shows
// was overtaken by events.
const orderTimeout = time.Minute

// account is what one MiniCluster holds: its promise and its pods.
type account struct {
	// written is what its status shows; nil if nothing.
	written *state.Promise
	// assumed is what it was given at its admission, and order what it was ordered since, until
	// the status shows them.
	assumed *state.Promise
	order   elastic.Order
	ordered time.Time
	// promise is written, assumed and order together; nil if nothing.
	promise *state.Promise
	pods    map[types.UID]*Pod
	// came are the ranks whose pods were seen since the admission.
	came map[int]bool
	holdings
}

// Assume gives nodes to a MiniCluster that has none. The nodes count as taken until the status
// shows them (Confirm) or the MiniCluster rejects them (Forget).
func (l *Ledger) Assume(uid types.UID, promise *state.Promise) {
	l.change(uid, func(a *account) { a.assumed, a.came = promise, map[int]bool{} })
}

// Confirm takes over what the status of a MiniCluster shows; nil if it shows no nodes, or the
// MiniCluster needs them no longer. Once the status shows nodes, nothing is assumed any more, and
// an order that was carried out or overtaken is dropped. Pods keep what they hold.
func (l *Ledger) Confirm(uid types.UID, written *state.Promise) {
	if a := l.accounts[uid]; written == nil && a != nil && a.written != nil {
		l.expectUnseen(uid, a)
	}
	l.change(uid, func(a *account) {
		a.written = written
		if written != nil {
			a.assumed = nil
		}
		if isDone(a.order, written) {
			a.order = nil
		}
	})
}

// Unmade is how many ranks of a MiniCluster have a node, and no pod was seen since the admission.
func (l accounts) Unmade(uid types.UID) int {
	a := l[uid]
	if a == nil || a.written == nil && a.assumed == nil {
		return 0
	}
	unmade := 0
	for _, rank := range a.promise.Ranks() {
		if !a.came[rank] {
			unmade++
		}
	}
	return unmade
}

// Came counts the ranks with a node whose pods were seen since their admission. of is the MiniCluster of the last.
func (l *releases) Came() (count int, of types.UID) { return l.came, l.cameOf }

// Forget drops what was assumed of a MiniCluster that rejects it.
func (l *Ledger) Forget(uid types.UID) {
	l.change(uid, func(a *account) { a.assumed = nil })
}

// Order records an order for a MiniCluster that has nodes. Nodes that the order gives count as
// taken. Order returns false if the status does not show an earlier promise or order yet, or if
// others took the nodes.
func (l *Ledger) Order(uid types.UID, order elastic.Order, now time.Time) bool {
	a := l.accounts[uid]
	if a == nil || a.written == nil || a.order != nil || !l.hasRoom(a.written, podsOf(order)) {
		return false
	}
	l.change(uid, func(a *account) { a.order, a.ordered = order, now })
	return true
}

// Cancel drops the order for a MiniCluster.
func (l *Ledger) Cancel(uid types.UID) {
	l.change(uid, func(a *account) { a.order = nil })
}

// OrderOf is the order of a MiniCluster, and since when; nil if there is none.
func (l accounts) OrderOf(uid types.UID) (elastic.Order, time.Time) {
	if a := l[uid]; a != nil && a.order != nil {
		return a.order, a.ordered
	}
	return nil, time.Time{}
}

// Lapse drops the orders that were not carried out in time, and the pods that nobody makes any more. It returns when the
// next of these will be dropped; zero if there is none.
func (l *Ledger) Lapse(now time.Time) (next time.Time) {
	for uid, a := range l.accounts {
		if a.order != nil {
			lapses := a.ordered.Add(orderTimeout)
			if now.After(lapses) {
				l.change(uid, func(a *account) { a.order = nil })
			} else {
				next = elastic.Earliest(next, lapses)
			}
		}
	}
	return elastic.Earliest(next, l.lapseAway(now), l.lapseMakers(now))
}

// Promised is all that a MiniCluster was promised; nil if nothing.
func (l accounts) Promised(uid types.UID) *state.Promise {
	if a := l[uid]; a != nil {
		return a.promise
	}
	return nil
}

// Assumed reports whether a MiniCluster was given nodes that its status does not show yet.
func (l accounts) Assumed(uid types.UID) bool {
	a := l[uid]
	return a != nil && a.assumed != nil
}

// Holders are the MiniClusters that hold something, were promised something, or have an order, by UID.
func (l accounts) Holders() []types.UID { return slices.Sorted(maps.Keys(l)) }

// Holds are the ranks of a MiniCluster that hold an existing node, rising, by promise or by a
// pod.
func (l *Ledger) Holds(uid types.UID) []int {
	var out []int
	for rank, node := range l.held(uid) {
		if l.nodes[node] != nil {
			out = append(out, rank)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// held are the ranks of a MiniCluster with the nodes that they hold, by promise and by their pods.
func (l accounts) held(uid types.UID) iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		a := l[uid]
		if a == nil {
			return
		}
		if a.promise != nil {
			for _, rank := range a.promise.Ranks() {
				if !yield(rank, a.promise.Nodes[rank]) {
					return
				}
			}
		}
		for _, pod := range a.pods {
			if pod.rank >= 0 && !yield(pod.rank, pod.node) {
				return
			}
		}
	}
}

// Outside are the ranks of a MiniCluster that hold only nodes which Total leaves out, or which do not exist any more, rising.
func (l *Ledger) Outside(uid types.UID) []int {
	counts := map[int]bool{}
	for rank, node := range l.held(uid) {
		n := l.nodes[node]
		counts[rank] = counts[rank] || n != nil && n.counts()
	}
	maps.DeleteFunc(counts, func(_ int, counts bool) bool { return counts })
	return slices.Sorted(maps.Keys(counts))
}

// Going are the ranks of a MiniCluster whose nodes are about to go, rising: they will be removed, or are reserved for
// nobody from a time that is no later than notice from now. next is when a reservation counts that does not yet; zero if
// none will.
func (l *Ledger) Going(uid types.UID, ask *state.Ask, notice time.Duration, now time.Time) (ranks []int, next time.Time) {
	promise := l.Promised(uid)
	if promise == nil {
		return nil, time.Time{}
	}
	for rank, name := range promise.Nodes {
		from, reserved := l.reservedForNobody(name, ask)
		counts := from.Add(-notice)
		if n := l.nodes[name]; n != nil && l.Goes(n.Node) || reserved && !now.Before(counts) {
			ranks = append(ranks, rank)
		} else if reserved {
			next = elastic.Earliest(next, counts)
		}
	}
	return ranks, next
}

// Goes reports whether a node is about to go.
func (l *Ledger) Goes(node *corev1.Node) bool {
	return state.Going(node) != "" || l.LeaveCordoned && node.Spec.Unschedulable
}

// change changes an account and updates the graph.
func (l *Ledger) change(uid types.UID, do func(*account)) {
	a := l.account(uid)
	do(a)
	before := a.promise
	a.promise = a.total() // also if only drained ranks differ
	if !a.promise.Same(before) {
		l.sync(uid, a)
	}
	l.close(uid, a)
}

func (l accounts) account(uid types.UID) *account {
	if l[uid] == nil {
		l[uid] = &account{pods: map[types.UID]*Pod{}, came: map[int]bool{}}
	}
	return l[uid]
}

// close drops an empty account.
func (l accounts) close(uid types.UID, a *account) {
	if a.promise == nil && a.order == nil && len(a.pods) == 0 {
		delete(l, uid)
	}
}

// total is written, assumed and order together.
func (a *account) total() *state.Promise {
	switch pods := podsOf(a.order); {
	case a.written == nil && a.assumed == nil:
		return nil
	case a.written == nil:
		return a.assumed
	case len(pods) > 0:
		return a.written.With(pods)
	}
	return a.written
}

// podsOf are the ranks to which an order gives nodes.
func podsOf(order elastic.Order) []elastic.Pod {
	switch o := order.(type) {
	case elastic.Grow:
		return o.Pods
	case elastic.Move:
		return o.Pods
	}
	return nil
}

// isDone reports whether the status shows what an order asked for, or the order is pointless: the
// command became rigid before ranks left, or a rank to move gave its node back.
func isDone(order elastic.Order, written *state.Promise) bool {
	if order == nil || written == nil {
		return true
	}
	has := func(pod elastic.Pod) bool { return written.Has(pod) }
	switch o := order.(type) {
	case elastic.Drain:
		return written.Rigid || !slices.ContainsFunc(o.Ranks, func(rank int) bool {
			return written.Holds(rank) && !slices.Contains(written.Draining, rank)
		})
	case elastic.Grow:
		return all(o.Pods, has)
	case elastic.Evict:
		return written.Leaves
	case elastic.Move:
		return all(o.Pods, has) || !all(o.Pods, func(pod elastic.Pod) bool { return written.Holds(pod.Rank) })
	}
	return false
}

func all(pods []elastic.Pod, are func(elastic.Pod) bool) bool {
	return !slices.ContainsFunc(pods, func(pod elastic.Pod) bool { return !are(pod) })
}

// setBroker records a pod of a MiniCluster.
func (l *Ledger) setBroker(p *Pod) {
	a := l.account(p.owner)
	_, known := a.pods[p.uid]
	a.pods[p.uid] = p
	if !known && a.promises(p) {
		p.requests = a.promise.Requests // share one map among many pods
		if _, twice := a.stand[p.rank]; !twice {
			a.stand[p.rank] = p.uid // the account holds as much as before
			return
		}
	}
	l.sync(p.owner, a)
}

// deleteBroker forgets a pod of a MiniCluster.
func (l *Ledger) deleteBroker(p *Pod) {
	a := l.accounts[p.owner]
	delete(a.pods, p.uid)
	if a.promises(p) && len(a.extras) == 0 {
		delete(a.stand, p.rank) // the account holds as much as before
		return
	}
	l.sync(p.owner, a)
	l.close(p.owner, a)
}

// promises reports whether a pod takes exactly what its rank was promised.
func (a *account) promises(p *Pod) bool {
	return a.promise != nil && p.isAt(a.promise) && maps.Equal(p.requests, a.promise.Requests)
}
