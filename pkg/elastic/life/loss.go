// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Lose records that a running command lost brokers.
type Lose struct{ Ranks []int }

func (Lose) step() {}

func (s Lose) apply(r *Record, _ string, now time.Time) {
	r.Admission.Loss = &Loss{Ranks: s.Ranks, At: now}
}

// lossGrace is how long a command that lost brokers may take to end by itself. Flux makes it end,
// and then its own exit code is the result.
const lossGrace = 30 * time.Second

// downGrace is how long after a command failed the node of one of its brokers may be reported as
// down.
const downGrace = time.Minute

// brokersLost ends a rigid command that lost brokers, unless it ends by itself first. A follower
// whose pod succeeded is not lost: followers end before the lead does.
func brokersLost(o *Observation, now time.Time) *Plan {
	if !o.begun() || o.Policy.OnLoss == LossContinue {
		return nil
	}
	ranks, loss := o.lostRanks(), o.Admission.Loss
	if len(ranks) > 0 && o.Policy.OnLoss == LossRecreate {
		if plan := o.restartAfterLoss(ranks, now); plan != nil {
			return plan
		}
	}
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

// lose ends the attempt after the loss of the lead or of other brokers.
func (o *Observation) lose(message string, outcome Outcome, now time.Time) *Plan {
	if o.Policy.OnLoss == LossRecreate {
		return o.giveUp(message, outcome, now)
	}
	if plan := o.retry(message, now); plan != nil {
		return plan
	}
	return &Plan{Step: Finish{Outcome: outcome}, State: StateFailed, Message: message}
}

// lostRanks are the followers that a running command has lost: those that are lost now, and those
// recorded as lost that are not up again.
func (o *Observation) lostRanks() []int {
	return o.ranks(func(rank int, b Broker) bool {
		return rank > 0 && !b.endedWell() && !o.leaves(rank) && !o.joins(rank) && (o.isGone(b) || (o.wasLost(rank) && b.State != Up))
	})
}

// isGone reports whether a follower was there and is gone. A gated pod is a new pod after a loss,
// unless the command is malleable; a pod that never started was never there. A node that is down says
// nothing about a broker, unless the command has ended or was run again since.
func (o *Observation) isGone(b Broker) bool {
	lead := o.Brokers[0]
	switch {
	case b.Misplaced, b.Unbindable:
		return false
	case b.replaced():
		return !o.Policy.Malleable
	case o.Policy.Restarts && b.NodeDown && !lead.NodeReturned && (!lead.Ready || o.readyAgain()):
		return true
	}
	return b.State == Failed || b.State == Leaving || b.NodeGone
}

// wasLost reports whether the loss of a rank is recorded.
func (o *Observation) wasLost(rank int) bool {
	return o.Admission.Loss != nil && slices.Contains(o.Admission.Loss.Ranks, rank)
}

// lostBefore are the followers that were lost before the lead failed, by its termination message,
// the record, or the state of their pods and nodes. Followers that ended later ended with the
// lead, unless their kubelet evicted them: such a broker takes its leave first, and its pod may end after the lead.
func (o *Observation) lostBefore(lead Broker) []int {
	return o.ranks(func(rank int, b Broker) bool {
		lost := o.wasLost(rank) || b.NodeGone || b.NodeDown || b.wasEvicted() || b.failedBefore(lead)
		return rank > 0 && (slices.Contains(o.ToldLost, rank) || lost && !b.endedWell() && !o.leaves(rank))
	})
}

func (o *Observation) lossOf(ranks []int) string {
	return fmt.Sprintf("%d of %d brokers were lost while the command ran: %s", len(ranks), o.members(), o.where(ranks))
}

// where lists the first ranks with their nodes.
func (o *Observation) where(ranks []int) string {
	const most = 3
	var out []string
	for _, rank := range ranks[:min(len(ranks), most)] {
		place := fmt.Sprintf("rank %d on %s", rank, o.Admission.Nodes[rank])
		if b := o.Brokers[rank]; b.Evicted != "" {
			place += " (evicted: " + b.Evicted + ")"
		} else if b.OutOfMemory {
			place += " (OOMKilled: it reached its memory limit)"
		} else if why := cmp.Or(b.Trouble, b.NotStarted); why != "" {
			place += " (" + why + ")"
		}
		out = append(out, place)
	}
	if more := len(ranks) - most; more > 0 {
		out = append(out, fmt.Sprintf("%d more", more))
	}
	return strings.Join(out, ", ")
}
