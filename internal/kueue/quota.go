// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"errors"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// ErrNotSought says that the manager does not know yet whether Kueue is there.
var ErrNotSought = errors.New("it is not known yet whether Kueue is there")

// preemptorInterval is how often the Workload is read for which Kueue preempts a MiniCluster, until it
// says what it requests.
const preemptorInterval = 250 * time.Millisecond

// Facts are what a pass of a MiniCluster has read, beside objects of Kueue.
type Facts struct {
	// MiniCluster has its defaults.
	MiniCluster *v1alpha2.MiniCluster
	Observation *life.Observation
	// Ranks are those that hold a node, or have a pod on one, rising. Services is true if the services pod needs quota.
	Ranks    []int
	Services bool
	// Pod and ServicesPod are pods of a check that passed, after admission by the API server; nil if there are none.
	Pod, ServicesPod *corev1.Pod
	// Behind is true if the cache does not show yet that the MiniCluster has grown.
	Behind bool
	// Held is true if the MiniCluster is not to be queued yet.
	Held bool
	Now  time.Time
}

// Quota is what a pass knows about the quota of a MiniCluster. It is empty for a MiniCluster that needs none.
type Quota struct {
	Grant
	// OfServices is the quota of the services pod; nil if there is none.
	OfServices *v1alpha2.Quota
	// Deadlines are those of the queue of all MiniClusters with quota, for a MiniCluster that waits. TooLong says that the
	// MiniCluster sets a longer one, so that Kueue is not asked; "" if not.
	Deadlines elastic.Deadlines
	TooLong   string
	// Workload is that of the MiniCluster; nil if there is none. Left are those of earlier MiniClusters of its name that
	// are being deleted.
	Workload *kueueapi.Workload
	Left     []*kueueapi.Workload
	// Followed is true if objects of Kueue are read. Input is what there is to say to Kueue, and Problem why Kueue cannot be
	// asked for quota.
	Followed bool
	Input    Input
	Problem  error
	// Outdated is true if the cache does not show the last write of a Workload or of a growth yet.
	Outdated bool

	// most is the number of brokers for which there is quota now, of at most limit, which the spec allows.
	most, limit int
	// further is the number of brokers for which the Workloads of Input.Growth hold quota.
	further int
	// known is true if the cache shows the last writes, and Kueue has admitted the MiniCluster.
	known bool
}

// Needed reports whether the MiniCluster gets its quota from Kueue.
func (q *Quota) Needed() bool { return q.State != life.QuotaUnneeded }

// Held is the number of brokers for which Workloads hold quota.
func (q *Quota) Held() int { return Size(q.Workload) + q.further }

// Limit lets a MiniCluster have no more brokers than there is quota for, and a services pod only with quota.
func (q *Quota) Limit(o *life.Observation) {
	if o.Quota = q.State; !q.Needed() || o.Admission == nil {
		return
	}
	o.ServicesGated = o.ServicesGated && q.OfServices != nil
	members := len(o.Admission.Members())
	q.most, q.limit = members, o.Policy.Max
	if q.Input.MiniCluster.Status.Admission.Quota.Topology != nil {
		q.limit = members // Kueue would choose the domains of more brokers, after the scheduler
	}
	if q.Followed {
		q.further = Grown(q.Input.MiniCluster, q.Input.Growth, q.Input.Cluster)
		q.known = q.State == life.QuotaAdmitted && !q.Outdated
	}
	if q.known {
		leaving := len(q.Input.Ranks) - members // their pods hold nodes
		q.most = min(q.limit, q.Held()-leaving)
	}
	o.Policy.Max = q.most
}

// Most is the largest size at which the scheduler may see a MiniCluster with nodes: after a refusal Kueue is not asked for a
// while.
func (q *Quota) Most(m *Memory) int {
	if q.known && !q.Input.Now.Before(m.pausedUntil) {
		return q.limit
	}
	return q.most
}

// Order is what becomes of an order for a MiniCluster with nodes: it grows only as far as there is quota, and gives nodes
// back whose quota Kueue took.
func (q *Quota) Order(o *life.Observation, order elastic.Order) elastic.Order {
	lost := q.known && len(q.Input.Growth) > 0 && len(o.Admission.Members()) > q.Held()
	if lost || q.State == life.QuotaMissing {
		return q.yield(o)
	}
	if grow, grows := order.(elastic.Grow); grows && q.Needed() {
		return q.within(o, grow)
	}
	return order
}

// yield is the order for a MiniCluster that is to give quota back: its surplus, if that is enough, or else all.
func (q *Quota) yield(o *life.Observation) elastic.Order {
	size, message := 0, q.Message
	switch {
	case q.Yield.Undecided:
		return nil
	case q.State == life.QuotaAdmitted:
		size, message = q.Held(), "Kueue took quota back that was given to grow"
	case q.Yield.Size > 0:
		size = q.Yield.Size + q.further
	}
	if ranks, can := o.ShrinkTo(size, q.Input.Now); can {
		return elastic.Drain{Ranks: ranks, Reason: v1alpha2.ReasonQuotaWithdrawn, For: q.Yield.For}
	}
	return elastic.Evict{Reason: v1alpha2.ReasonQuotaWithdrawn, Message: message, Grace: v1alpha2.DefaultGrace}
}

// within is the part of an order to grow for which there is quota; nil if there is none. Kueue is asked for the rest.
func (q *Quota) within(o *life.Observation, order elastic.Grow) elastic.Order {
	var more []elastic.Pod
	for _, pod := range order.Pods {
		if pod.Rank >= len(o.Admission.Nodes) || !o.Admission.Has(pod.Rank) {
			more = append(more, pod)
		}
	}
	slices.SortFunc(more, func(a, b elastic.Pod) int { return a.Rank - b.Rank })
	members := len(o.Admission.Members())
	if size := members + len(more); q.known && size <= q.limit {
		q.Input.Ask = max(size-q.Held(), 0)
	}
	size := min(members+len(more), q.most)
	if size < o.Policy.Sizing.Size {
		size = o.Policy.Sizing.LargestWithin(size)
	}
	if size <= members {
		return nil
	}
	return elastic.Grow{Pods: more[:size-members]}
}

// Decided adds what a pass has decided to what there is to say. pod is a pod of a MiniCluster with nodes, after admission by
// the API server; nil if there is none.
func (q *Quota) Decided(o *life.Observation, step life.Step, pod *corev1.Pod, m *Memory) {
	in := &q.Input
	in.Offer, in.Keep = o.Offer, q.Yield.Size
	if in.Pod = pod; pod == nil {
		in.Ask = 0
	}
	if grow, grows := step.(life.Grow); grows {
		for _, p := range grow.Pods {
			in.Ranks = append(in.Ranks, p.Rank)
		}
		m.refusals = 0
	}
}

// Next is the next write to one of the Workloads, the Workload as it is to be, and as it is. A request to grow comes last.
func (q *Quota) Next() (write Write, wl, before *kueueapi.Workload) {
	write, wl = NextGrowth(q.Workload, q.Input)
	if write == Nothing || write == Create {
		if w, next := Next(q.Workload, q.Input); w != Nothing {
			return w, next, q.Workload
		}
	}
	for _, further := range q.Input.Growth {
		if wl != nil && further.UID == wl.UID {
			return write, wl, further
		}
	}
	return write, wl, q.Workload
}

// LookAgain is when time alone may change what there is to say to Kueue; zero if it never does.
func (q *Quota) LookAgain(m *Memory) time.Time {
	at := LookAtGrowth(q.Input)
	if q.Workload != nil {
		at = elastic.Earliest(at, LookAgain(q.Workload, q.Input))
	}
	if q.Yield.Undecided {
		at = elastic.Earliest(at, q.Input.Now.Add(preemptorInterval))
	}
	times := []time.Time{m.asked.Add(cacheDelay)} // until then it does not ask again
	if q.known {
		times = append(times, m.pausedUntil)
	}
	for _, t := range times {
		if q.Input.Now.Before(t) {
			at = elastic.Earliest(at, t)
		}
	}
	return at
}
