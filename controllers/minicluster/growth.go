// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"slices"
	"time"

	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/internal/kueue"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// quotaToGrow is what a pass knows about quota for more brokers than a MiniCluster has.
type quotaToGrow struct {
	// workloads are the further Workloads, the oldest first, and size is the number of brokers for
	// which they hold quota.
	workloads []*kueueapi.Workload
	size      int
	// most is the largest size that the spec allows.
	most int
	// ask is for how many more brokers Kueue has to be asked.
	ask int
	// known is true if the cache shows the last writes, and Kueue has admitted the MiniCluster.
	known bool
}

// limitGrowth lets a MiniCluster with nodes have no more brokers than there is quota for.
func (r *Reconciler) limitGrowth(ctx context.Context, seen *observed) {
	o, growth, reader := seen.observation, &seen.growth, r.Kueue.Reader()
	growth.most, o.Policy.Max = o.Policy.Max, len(o.Admission.Members())
	if seen.view.MiniCluster.Status.Admission.Quota.Topology != nil {
		growth.most = o.Policy.Max // Kueue would choose the domains of more brokers, after the scheduler
	}
	if reader == nil {
		return
	}
	growth.size = kueue.Grown(seen.view.MiniCluster, growth.workloads, kueueCluster(ctx, reader))
	if growth.known = o.Quota == life.QuotaAdmitted && !seen.isOutdated(); growth.known {
		ranks, _ := seen.view.NeedsQuota(o)
		leaving := len(ranks) - len(o.Admission.Members()) // their pods hold nodes
		o.Policy.Max = min(growth.most, seen.held()-leaving)
	}
}

// isOutdated reports whether the cache does not show the last write of a Workload or of a growth yet.
func (s *observed) isOutdated() bool {
	outdated := func(wl *kueueapi.Workload) bool { return s.memory.isOutdated(wl) }
	return s.memory.isOutdated(s.stored) || (s.workload != nil && outdated(s.workload)) || slices.ContainsFunc(s.growth.workloads, outdated)
}

// held is the number of brokers for which Workloads hold quota.
func (s *observed) held() int { return kueue.Size(s.workload) + s.growth.size }

// growthLimit is the largest size at which the scheduler may see a MiniCluster: after a refusal
// Kueue is not asked for a while.
func growthLimit(seen *observed) int {
	if seen.growth.known && !seen.now.Before(seen.memory.growth.after) {
		return seen.growth.most
	}
	return seen.observation.Policy.Max
}

// lostGrowth reports whether Kueue took quota back that was given to grow, and ranks still use it.
func lostGrowth(seen *observed) bool {
	return seen.growth.known && len(seen.growth.workloads) > 0 && len(seen.observation.Admission.Members()) > seen.held()
}

// withinQuota is the part of an order to grow for which there is quota; nil if there is none. Kueue is
// asked for the rest.
func withinQuota(seen *observed, order elastic.Grow) elastic.Order {
	o := seen.observation
	var more []elastic.Pod
	for _, pod := range order.Pods {
		if pod.Rank >= len(o.Admission.Nodes) || !o.Admission.Has(pod.Rank) {
			more = append(more, pod)
		}
	}
	slices.SortFunc(more, func(a, b elastic.Pod) int { return a.Rank - b.Rank })
	members := len(o.Admission.Members())
	if size := members + len(more); seen.growth.known && size <= seen.growth.most {
		seen.growth.ask = max(size-seen.held(), 0)
	}
	size := min(members+len(more), o.Policy.Max)
	if size < o.Policy.Sizing.Size {
		size = o.Policy.Sizing.LargestWithin(size)
	}
	if size <= members {
		return nil
	}
	return elastic.Grow{Pods: more[:size-members]}
}

// noteRefusal records that quota to grow is let go that was never used.
func (m *memory) noteRefusal(seen *observed, write kueue.Write, wl *kueueapi.Workload) {
	if write == kueue.Patch && seen.growthBefore(wl) != nil && kueue.Refused(wl) {
		m.growth.refusals++
		m.growth.after = seen.now.Add(kueue.PauseAfter(m.growth.refusals))
	}
}

// lookAtGrowth is when Kueue may be asked for quota to grow; zero if that may be now, or is not wanted.
func (s *observed) lookAtGrowth() time.Time {
	for _, at := range []time.Time{s.memory.growth.after, s.memory.asked.Add(cacheDelay)} {
		if s.growth.known && s.now.Before(at) {
			return at
		}
	}
	return time.Time{}
}

// growthBefore is a further Workload as the cache has it; nil if it is none.
func (s *observed) growthBefore(wl *kueueapi.Workload) *kueueapi.Workload {
	for _, before := range s.growth.workloads {
		if before.UID == wl.UID {
			return before
		}
	}
	return nil
}
