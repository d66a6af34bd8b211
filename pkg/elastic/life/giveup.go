// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"
	"slices"
	"time"
)

// GiveUp ends the attempt and queues the MiniCluster again after a pause.
type GiveUp struct {
	// NotBefore is when the next attempt may begin.
	NotBefore time.Time
	// Most is the largest size that the next attempt may have; 0: as before.
	Most int
	// Avoid are nodes on which brokers did not start, or from which they were lost.
	Avoid []string
}

func (GiveUp) step() {}

func (s GiveUp) apply(r *Record, _ string, now time.Time) {
	r.end()
	r.GivenUp, r.NotBefore = r.GivenUp+1, s.NotBefore
	if s.Most > 0 {
		r.Most = s.Most
	}
	r.avoid(s.Avoid, now)
}

// repairTimeout is how long a gang that has not started waits for other nodes for
// pods that cannot be bound.
const repairTimeout = 30 * time.Second

func startTimedOut(o *Observation, now time.Time) *Plan {
	if now.Before(o.Admission.At.Add(o.Policy.StartTimeout)) {
		return nil
	}
	why := "too few to start"
	switch {
	case o.upToStay() >= o.Admission.Quorum:
		why = "and the command did not begin"
	case o.Brokers[0].State != Up:
		why = fmt.Sprintf("not the lead's on %s, which the others wait for", o.Admission.Nodes[0])
	}
	return o.giveUp(fmt.Sprintf("%d of %d brokers came up within %s, %s%s", o.up(), o.members(), o.Policy.StartTimeout, why, o.trouble()), OutcomeStartLimit, now)
}

// unrepaired gives everything back where pods cannot be bound and there are no other
// nodes for them.
func unrepaired(o *Observation, now time.Time) *Plan {
	if o.begun() {
		return nil
	}
	for rank, broker := range o.Brokers {
		if broker.stuck() && !o.leaves(rank) && !broker.Placed.IsZero() && !now.Before(broker.Placed.Add(repairTimeout)) {
			return o.giveUp(fmt.Sprintf("the pod of rank %d could not get its node within %s, and there was no other", rank, repairTimeout), OutcomeStartLimit, now)
		}
	}
	return nil
}

// giveUp ends an attempt, and with the last of them the MiniCluster.
func (o *Observation) giveUp(message string, outcome Outcome, now time.Time) *Plan {
	if o.GivenUp >= o.Policy.RecreateLimit {
		return &Plan{
			Step: Finish{Outcome: outcome}, State: StateFailed,
			Message: fmt.Sprintf("%s, in attempt %d of %d", message, o.GivenUp+1, o.Policy.RecreateLimit+1),
		}
	}
	step := GiveUp{NotBefore: now.Add(o.pause()), Avoid: o.badNodes()}
	if o.Policy.Shrink && !o.begun() {
		step.Most = max(o.Policy.Sizing.LargestWithin(len(o.Admission.Nodes)-1), o.Policy.Sizing.Min)
	}
	return &Plan{Step: step, State: StateReleasing, Message: message}
}

// pause is the time before the next attempt: it doubles with each one, and is
// lengthened by up to a tenth.
func (o *Observation) pause() time.Duration {
	pause := o.Policy.BackoffBase
	for range o.GivenUp {
		if pause >= o.Policy.BackoffMax/2 {
			pause = o.Policy.BackoffMax
			break
		}
		pause *= 2
	}
	return pause + time.Duration(o.Jitter*float64(pause)/10)
}

// badNodes are the nodes on which brokers did not come up, or from which they were lost.
// Where that is so of most brokers, the nodes are not to blame.
func (o *Observation) badNodes() []string {
	ranks := o.ranksNotUp()
	if o.begun() {
		ranks = o.ranksLost()
	}
	if !o.few(len(ranks)) {
		return nil
	}
	return o.nodesOf(ranks)
}

// ranksNotUp are those that may not be up for their node's fault. Followers come up only
// once the lead is there.
func (o *Observation) ranksNotUp() []int {
	return o.ranks(func(rank int, b Broker) bool {
		failed := b.stuck() || b.Trouble != "" || (b.State == Failed && rank > 0)
		late := b.State == Coming && (rank == 0 || o.Brokers[0].State == Up)
		return (failed || late) && !o.leaves(rank)
	})
}

// ranksLost are those, the lead too, that may be lost for their node's fault. When the
// command has failed, those that ended with it were not.
func (o *Observation) ranksLost() []int {
	lead := o.Brokers[0]
	if lead.State == Failed && lead.ExitCode != nil {
		return o.lostBefore(lead)
	}
	lost := o.lostRanks()
	return o.ranks(func(rank int, b Broker) bool {
		return (slices.Contains(lost, rank) || b.NodeDown || (rank == 0 && b.lost())) && !o.leaves(rank)
	})
}
