// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// consult asks the scheduler for the offer or order for a MiniCluster, and enters it in its queue
// if it waits for nodes. It returns false until the first cycle has decided about it, which is
// soon: until then there is nothing to report.
func (r *Reconciler) consult(seen *observed) (decided bool) {
	o, mc := seen.observation, seen.view.MiniCluster
	if o.Admission != nil && o.Outcome == "" {
		var most *int
		if o.Quota != life.QuotaUnneeded && !seen.isOutdated() {
			most = new(growthLimit(seen))
		}
		o.Order = r.Scheduler.Order(mc, admittedPod(seen), o.Displaced(seen.now), most)
		if order, grows := o.Order.(elastic.Grow); grows && o.Quota != life.QuotaUnneeded {
			o.Order = withinQuota(seen, order)
		}
		if o.Quota == life.QuotaMissing || lostGrowth(seen) {
			o.Order = withoutQuota(seen)
		}
	}
	o.OrderedSince = seen.memory.orderedSince(o, seen.now)
	wants, unasked := wantsOf(seen)
	if o.Offer = r.Scheduler.Report(mc, wants); wants.Want != state.NodesNow {
		o.Offer = unasked
	}
	return o.Offer.Verdict != "" || !o.Waits(seen.now)
}

// wantsOf is what a MiniCluster wants of the scheduler. If these are no nodes now, unasked says why.
func wantsOf(seen *observed) (wants state.Wants, unasked elastic.Offer) {
	o := seen.observation
	switch {
	case !o.Wants(seen.now):
	case !o.Waits(seen.now):
		wants.Want = state.NodesLater
	case seen.check.unchecked != "":
		wants.Want, unasked = state.NodesLater, elastic.Offer{Verdict: elastic.NotChecked, Message: seen.check.unchecked}
	case seen.check.refused != "":
		wants = state.Wants{Want: state.NodesNow, Pod: seen.check.pod, Services: seen.check.services, Refused: seen.check.refused}
	case seen.tooLong() != "":
		unasked = elastic.Offer{Verdict: elastic.NotAllowed, Message: seen.tooLong()}
	case o.Quota != life.QuotaUnneeded && !seen.grant.Placeable:
		unasked = elastic.Offer{Verdict: elastic.WaitingForQuota, Message: seen.grant.Message}
	case o.Quota != life.QuotaUnneeded && seen.isOutdated(): // the manager may have given the quota back
		wants.Want = state.NodesLater
	default:
		wants = state.Wants{Want: state.NodesNow, Pod: seen.check.pod, Services: seen.check.services, Quota: seen.grant.Quota}
	}
	return wants, unasked
}

// withoutQuota is the order for a MiniCluster that is to give quota back: its surplus, if that is
// enough, or else all.
func withoutQuota(seen *observed) elastic.Order {
	yield, size, message := seen.grant.Yield, 0, seen.grant.Message
	switch {
	case yield.Undecided:
		return nil
	case seen.observation.Quota == life.QuotaAdmitted:
		size, message = seen.held(), "Kueue took quota back that was given to grow"
	case yield.Size > 0:
		size = yield.Size + seen.growth.size
	}
	if ranks, can := seen.observation.ShrinkTo(size, seen.now); can {
		return elastic.Drain{Ranks: ranks, Reason: v1alpha2.ReasonQuotaWithdrawn, For: yield.For}
	}
	return elastic.Evict{Reason: v1alpha2.ReasonQuotaWithdrawn, Message: message, Grace: v1alpha2.DefaultGrace}
}

// admittedPod is a pod of a MiniCluster with nodes, after admission by the API server: one that
// exists, or else the pod of the check. It is nil if there is neither.
func admittedPod(seen *observed) *corev1.Pod {
	if pod := seen.view.Admitted(); pod != nil || seen.check == nil {
		return pod
	}
	return seen.check.pod
}
