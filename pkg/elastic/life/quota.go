// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package life

import "time"

// QuotaState says how far another system is that grants quota to a MiniCluster.
type QuotaState int

// States of quota.
const (
	// QuotaUnneeded: nobody is asked for quota.
	QuotaUnneeded QuotaState = iota
	// QuotaMissing: there is no quota, or it was taken back.
	QuotaMissing
	// QuotaReserved: there is quota. The pods must not run before the quota system admits them.
	QuotaReserved
	// QuotaAdmitted: the pods may run.
	QuotaAdmitted
)

// ShrinkTo reports whether a MiniCluster with nodes can shrink to a number of brokers, and returns the
// ranks that have to be drained for that, rising.
func (o *Observation) ShrinkTo(size int, now time.Time) (ranks []int, can bool) {
	if size <= 0 {
		return nil, false
	}
	ranks = o.surplus(size)
	if len(ranks) == 0 {
		return nil, true // the others leave or have left
	}
	return ranks, size >= o.Policy.Sizing.Allowed().Least() && (o.Policy.Malleable || o.Policy.Restarts || !o.MayRun(now))
}

// unadmitted holds the nodes of a MiniCluster until the quota system admits its pods. Checks of
// others may take long, so the nodes are given back after the start timeout. If pods are placed, the
// quota was admitted, also if nobody can tell that now.
func unadmitted(o *Observation, now time.Time) *Plan {
	if o.Quota != QuotaReserved || o.begun() {
		return nil
	}
	if _, _, placed, _ := o.placement(); placed > 0 {
		return nil
	}
	until := o.Admission.At.Add(o.Policy.StartTimeout)
	if !now.Before(until) {
		return &Plan{Step: Withdraw{}, State: StateReleasing, Message: "gives its nodes back: its quota was not admitted in time"}
	}
	return &Plan{Step: Wait{}, State: StateStarting, Message: "has nodes, and waits until its quota is admitted", LookAgain: until}
}
