// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// consult asks the scheduler for the offer or order for a MiniCluster, and enters it in its queue
// if it waits for nodes. It returns false until the first cycle has decided about it, which is
// soon: until then there is nothing to report.
func (r *Reconciler) consult(seen *observed) (decided bool) {
	o, mc := seen.observation, seen.view.MiniCluster
	if o.Admission != nil && o.Outcome == "" {
		var most *int
		if seen.quota.Needed() && !seen.quota.Outdated {
			most = new(seen.quota.Most(&seen.memory.quota))
		}
		o.Order = seen.quota.Order(o, r.Scheduler.Order(mc, admittedPod(seen), o.Displaced(seen.now), most))
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
	o, quota := seen.observation, seen.quota
	switch {
	case !o.Wants(seen.now):
	case !o.Waits(seen.now):
		wants.Want = state.NodesLater
	case seen.check.unchecked != "":
		wants.Want, unasked = state.NodesLater, elastic.Offer{Verdict: elastic.NotChecked, Message: seen.check.unchecked}
	case seen.check.refused != "":
		wants = state.Wants{Want: state.NodesNow, Pod: seen.check.pod, Services: seen.check.services, Refused: seen.check.refused}
	case quota.TooLong != "":
		unasked = elastic.Offer{Verdict: elastic.DeadlineTooLong, Message: quota.TooLong}
	case quota.Needed() && !quota.Placeable:
		unasked = elastic.Offer{Verdict: elastic.WaitingForQuota, Message: quota.Message}
	case quota.Needed() && quota.Outdated: // the manager may have given the quota back
		wants.Want = state.NodesLater
	default:
		wants = state.Wants{Want: state.NodesNow, Pod: seen.check.pod, Services: seen.check.services, Quota: quota.Quota}
	}
	return wants, unasked
}

// admittedPod is a pod of a MiniCluster with nodes, after admission by the API server: one that
// exists, or else the pod of the check. It is nil if there is neither.
func admittedPod(seen *observed) *corev1.Pod {
	if pod := seen.view.Admitted(); pod != nil || seen.check == nil {
		return pod
	}
	return seen.check.pod
}
