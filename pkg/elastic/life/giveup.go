// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// GiveUp ends the attempt and queues the MiniCluster again after a pause.
type GiveUp struct {
	// NotBefore is when the next attempt may begin.
	NotBefore time.Time
	// Most is the largest size that the next attempt may have; 0 if the limit does not change.
	Most int
	// Avoid are nodes on which brokers did not start or were lost.
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

// Retry ends an attempt in which the command failed, and queues the MiniCluster again after a pause.
type Retry struct{ NotBefore time.Time }

func (Retry) step() {}

func (s Retry) apply(r *Record, _ string, _ time.Time) {
	r.end()
	r.Retried, r.NotBefore = r.Retried+1, s.NotBefore
}

const (
	// repairTimeout is how long a gang that has not started waits for other nodes after a pod could
	// not be bound.
	repairTimeout = 30 * time.Second
	// takenTimeout is the same if pods of others took the node. They do not leave soon.
	takenTimeout = 10 * time.Second
)

// startTimedOut ends an attempt that does not start in time. A lead that may begin just then has a moment more until it is
// seen: otherwise the attempt would end although its command runs. Few leads wait for that moment to begin.
func startTimedOut(o *Observation, now time.Time) *Plan {
	if o.begun() || now.Before(startDeadline(o, now)) {
		return nil
	}
	why := "too few to start" + o.unresolved()
	switch {
	case o.upToStay() >= o.Admission.Quorum:
		why = "and the command did not begin"
	case o.Brokers[0].State != Up:
		why = fmt.Sprintf("not the lead's on %s, which the others wait for", o.Admission.Nodes[0])
	}
	return o.giveUp(fmt.Sprintf("%d of %d brokers came up within %s, %s%s", o.Up(), o.members(), o.Policy.StartTimeout, why, o.trouble()), OutcomeStartLimit, now)
}

// startDeadline is how long the command is waited for.
func startDeadline(o *Observation, now time.Time) time.Time {
	deadline := o.Admission.At.Add(o.Policy.StartTimeout)
	if o.MayRun(now) {
		return deadline.Add(seenGrace)
	}
	return deadline
}

// unresolved says that a broker runs and has not joined the others, and that the DNS did not know the cluster's domain when
// its pod started.
func (o *Observation) unresolved() string {
	for rank, b := range o.Brokers {
		if b.Unresolved != "" && b.State == Coming && !b.Since.IsZero() && !o.leaves(rank) {
			return fmt.Sprintf("; %s did not resolve when the pod of rank %d started", b.Unresolved, rank)
		}
	}
	return ""
}

// unrepaired gives all nodes back if pods cannot be bound and no other nodes are free for them. A race
// that was lost to pods of others is no failed attempt. But if the nodes were avoided, and are the only
// ones, it is.
func unrepaired(o *Observation, now time.Time) *Plan {
	if o.begun() {
		return nil
	}
	for rank, broker := range o.Brokers {
		if !broker.stuck() || o.leaves(rank) || broker.Placed.IsZero() {
			continue
		}
		node, waited := o.Admission.Nodes[rank], now.Sub(broker.Placed)
		if broker.Taken && waited >= takenTimeout && !o.wasAvoided(rank) {
			taken := o.nodesOf(o.ranks(func(_ int, b Broker) bool { return b.stuck() && b.Taken }))
			return &Plan{Step: Withdraw{Avoid: taken}, State: StateReleasing, Message: fmt.Sprintf("other pods took %s, and there was no other node for rank %d", node, rank)}
		}
		if waited >= repairTimeout {
			return o.giveUp(fmt.Sprintf("the pod of rank %d could not get its node within %s, and there was no other", rank, repairTimeout), OutcomeStartLimit, now)
		}
	}
	return nil
}

// wasAvoided reports whether a rank got a node that the gang avoids, because there was no other.
func (o *Observation) wasAvoided(rank int) bool {
	return slices.Contains(o.Avoid, o.Admission.Nodes[rank])
}

// giveUp ends an attempt, and after the last attempt the MiniCluster.
func (o *Observation) giveUp(message string, outcome Outcome, now time.Time) *Plan {
	if o.GivenUp >= o.Policy.RecreateLimit {
		return &Plan{
			Step: Finish{Outcome: outcome}, State: StateFailed,
			Message: fmt.Sprintf("%s, in attempt %d of %d", message, o.GivenUp+1, o.Policy.RecreateLimit+1),
		}
	}
	step := GiveUp{NotBefore: now.Add(o.pause(o.GivenUp)), Avoid: o.badNodes()}
	if o.Policy.Shrink && !o.begun() {
		step.Most = max(o.Policy.Sizing.LargestWithin(len(o.Admission.Nodes)-1), o.Policy.Sizing.Min)
	}
	return &Plan{Step: step, State: StateReleasing, Message: message}
}

// retry runs a command that failed again, in a new attempt; nil if it has failed too often.
func (o *Observation) retry(message string, now time.Time) *Plan {
	if o.Retried >= o.Policy.Retries {
		return nil
	}
	return &Plan{Step: Retry{NotBefore: now.Add(o.pause(o.Retried))}, State: StateReleasing, Message: message}
}

// pause is the time before the next attempt: it doubles with each earlier attempt and is lengthened by up
// to a tenth.
func (o *Observation) pause(earlier int) time.Duration {
	pause := o.Policy.BackoffBase
	for range earlier {
		if pause >= o.Policy.BackoffMax/2 {
			pause = o.Policy.BackoffMax
			break
		}
		pause *= 2
	}
	return pause + time.Duration(o.Jitter*float64(pause)/10)
}

// badNodes are the nodes on which brokers did not come up or were lost. If most brokers failed, their nodes are not the
// cause. But if none has run, and some cannot start, other nodes may be better: the image may be for another architecture.
func (o *Observation) badNodes() []string {
	ranks := o.ranksNotUp()
	if o.begun() {
		ranks = o.Lost()
	}
	if o.few(len(ranks)) {
		return o.nodesOf(ranks)
	}
	ran := o.ranks(func(_ int, b Broker) bool { return b.State == Up || !b.Since.IsZero() })
	cannot := o.ranks(func(_ int, b Broker) bool { return b.NotStarted != "" || strings.Contains(b.Trouble, "ImagePull") })
	if len(ran) > 0 || len(cannot) == 0 {
		return nil
	}
	return o.nodesOf(o.ranks(func(rank int, _ Broker) bool { return !o.leaves(rank) }))
}

// ranksNotUp are the ranks that may be down because of their node. Followers come up only after
// the lead.
func (o *Observation) ranksNotUp() []int {
	lead := o.Brokers[0]
	return o.ranks(func(rank int, b Broker) bool {
		failed := b.stuck() || b.Trouble != "" || b.NotStarted != "" || b.NodeDown || (b.State == Failed && rank > 0 && !lead.NodeDown)
		late := b.State == Coming && (rank == 0 || lead.State == Up && !lead.NodeDown)
		return (failed || late) && !o.leaves(rank)
	})
}

// Lost are the ranks, the lead included, that were lost while the command ran, maybe because of their node.
// If the command failed, only ranks lost before that count.
func (o *Observation) Lost() []int {
	if o.Admission == nil || !o.begun() {
		return nil
	}
	lead := o.Brokers[0]
	if lead.State == Failed && lead.ExitCode != nil {
		return o.lostBefore(lead)
	}
	lost := o.lostRanks()
	return o.ranks(func(rank int, b Broker) bool {
		return (slices.Contains(lost, rank) || b.NodeDown || (rank == 0 && b.lost())) && !o.leaves(rank)
	})
}
