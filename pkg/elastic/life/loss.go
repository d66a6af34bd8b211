// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Lose records that brokers were lost while the command ran.
type Lose struct{ Ranks []int }

func (Lose) step() {}

func (s Lose) apply(r *Record, _ string, now time.Time) {
	r.Admission.Loss = &Loss{Ranks: s.Ranks, At: now}
}

// lossGrace is how long a command that lost brokers has to end by itself, which Flux makes
// it do: then its own exit code is the result.
const lossGrace = 30 * time.Second

// downGrace is how long after a command that failed a node may be found to be down, on
// which one of its brokers was.
const downGrace = time.Minute

// brokersLost ends a rigid command that lost brokers, unless the command ends by itself. Followers whose pods succeed have not been lost: they end before the lead does.
func brokersLost(o *Observation, now time.Time) *Plan {
	if !o.begun() || o.Policy.OnLoss == LossContinue {
		return nil
	}
	ranks, loss := o.lostRanks(), o.Admission.Loss
	switch {
	case len(ranks) == 0:
		return nil
	case loss == nil || len(less(ranks, loss.Ranks)) > 0:
		return &Plan{Step: Lose{Ranks: ranks}, State: StateRunning, LookAgain: now.Add(lossGrace), Message: o.lossOf(ranks)}
	case now.Before(loss.At.Add(lossGrace)):
		return nil
	}
	return o.lose(o.lossOf(ranks), OutcomeBrokersLost, now)
}

// lose ends the attempt whose lead, or another broker, was lost.
func (o *Observation) lose(message string, outcome Outcome, now time.Time) *Plan {
	if o.Policy.OnLoss == LossRecreate {
		return o.giveUp(message, outcome, now)
	}
	return &Plan{Step: Finish{Outcome: outcome}, State: StateFailed, Message: message}
}

// lostRanks are the followers that a command which runs has lost: those that are, and
// those that were and are not back.
func (o *Observation) lostRanks() []int {
	return o.ranks(func(rank int, b Broker) bool {
		return rank > 0 && !o.leaves(rank) && (o.isGone(b) || (o.wasLost(rank) && b.State != Up))
	})
}

// isGone reports whether a follower was there and is not. A pod behind its gate is one that
// was made anew, unless ranks may join; one that does not start where it is was never there.
func (o *Observation) isGone(b Broker) bool {
	switch {
	case b.Misplaced, b.Unbindable:
		return false
	case b.replaced():
		return !o.Policy.Malleable
	}
	return b.State == Failed || b.State == Leaving || b.NodeGone
}

// wasLost reports whether the loss of a rank is written down.
func (o *Observation) wasLost(rank int) bool {
	return o.Admission.Loss != nil && slices.Contains(o.Admission.Loss.Ranks, rank)
}

// lostBefore are the followers that were lost before the lead failed, whether it says so or
// their pods or nodes still tell; those that ended since ended with it.
func (o *Observation) lostBefore(lead Broker) []int {
	return o.ranks(func(rank int, b Broker) bool {
		lost := o.wasLost(rank) || slices.Contains(o.ToldLost, rank) || b.NodeGone || b.NodeDown || b.failedBefore(lead)
		return rank > 0 && lost && !o.leaves(rank)
	})
}

func (o *Observation) lossOf(ranks []int) string {
	return fmt.Sprintf("%d of %d brokers were lost while the command ran: %s", len(ranks), o.members(), o.where(ranks))
}

// where names ranks with their nodes, the first of them.
func (o *Observation) where(ranks []int) string {
	const most = 3
	var out []string
	for _, rank := range ranks[:min(len(ranks), most)] {
		place := fmt.Sprintf("rank %d on %s", rank, o.Admission.Nodes[rank])
		if why := o.Brokers[rank].Evicted; why != "" {
			place += " (evicted: " + why + ")"
		}
		out = append(out, place)
	}
	if more := len(ranks) - most; more > 0 {
		out = append(out, fmt.Sprintf("%d more", more))
	}
	return strings.Join(out, ", ")
}
