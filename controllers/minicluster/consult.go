// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// consult hears what the scheduler has for a MiniCluster, and enters it in its queue if it
// waits for nodes. It reports false while the scheduler has not said a first word, which
// comes at once: there is nothing to do or to say until then.
func (r *Reconciler) consult(seen *observed) (decided bool) {
	o, mc := seen.observation, seen.view.MiniCluster
	if o.Admission != nil && o.Outcome == "" {
		o.Order = r.Scheduler.Order(mc, o.Displaced(seen.now))
	}
	if !o.Waits(seen.now) {
		r.Scheduler.Skip(mc)
		return true
	}
	o.Offer = r.Scheduler.Offer(mc, seen.check.pod, madeAhead(seen))
	return o.Offer.Verdict != ""
}

// madeAhead is how far the objects are made of one that waits.
func madeAhead(seen *observed) elastic.Ahead {
	switch {
	case seen.observation.Workload != life.Ahead:
		return elastic.AheadNothing
	case seen.view.Made():
		return elastic.AheadMade
	}
	return elastic.AheadMaking
}
