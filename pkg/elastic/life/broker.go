// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"time"
)

// Broker is the pod of one rank.
type Broker struct {
	State BrokerState
	// ExitCode is that of a pod that ended; nil if it is not known.
	ExitCode *int
	// FailedIn is what ended with that code, where it was not the command.
	FailedIn string
	// EndedAt is when the containers of a pod that failed ended; zero if that is not known.
	EndedAt time.Time
	// Evicted is why the kubelet evicted the pod; "" if it did not.
	Evicted string
	// Bound: the pod is bound to its node.
	Bound bool
	// Ready is what the pod says: a follower's broker is online and may get work, the
	// lead runs the command.
	Ready bool
	// ReadySince is since when; zero if it is not, or that is not known.
	ReadySince time.Time
	// Idle: the pod runs and was ready, and is so no more. A rank that is asked to leave
	// has no work left then.
	Idle bool
	// Trouble is what keeps the pod's containers from starting, and TroubleSince since when
	// that is known; "" if nothing does.
	Trouble      string
	TroubleSince time.Time
	// GoneBy is when a pod that is leaving should be gone; zero if nobody said.
	GoneBy time.Time
	// DeletedAt is when that was asked for.
	DeletedAt time.Time
	// NodeGone is true where the node that was chosen for the rank is no more.
	NodeGone bool
	// NodeDown is true where the node is there, and not ready.
	NodeDown bool
	// Since is since when the broker's container runs; zero if it does not.
	Since time.Time
	// Misplaced: the pod is bound for another node than the admission says.
	Misplaced bool
	// Unbindable: kube-scheduler cannot bind the pod to its node, or the kubelet there
	// did not take it.
	Unbindable bool
	// Placed is when the pod was let go to its node; zero if that is not known.
	Placed time.Time
}

// BrokerState is how the pod of one rank is.
type BrokerState int

// States of a broker's pod.
const (
	// Missing: there is no pod.
	Missing BrokerState = iota
	// Gated: the pod waits to be placed, and holds nothing.
	Gated
	// Coming: the pod is placed, and not up yet.
	Coming
	// Up: the broker is online. That is so once the pod of a follower is ready, and the
	// lead's runs.
	Up
	// Leaving: the pod is being deleted.
	Leaving
	// Succeeded: the pod ended with exit code 0.
	Succeeded
	// Failed: the pod ended otherwise.
	Failed
)

const (
	// bindGrace is how long kube-scheduler is left alone with a pod: it may only not
	// have seen yet that the pod before has gone.
	bindGrace = 5 * time.Second
	// troubleGrace is how long a pod's trouble may take to pass by itself: an image may come
	// with the second try.
	troubleGrace = 15 * time.Second
	// goneGrace is how much longer than it should a pod may take to go. A pod whose node has
	// no power never goes.
	goneGrace = time.Minute
)

// holdsNode reports whether the pod takes room on its node.
func (b Broker) holdsNode() bool { return b.State == Coming || b.State == Up || b.State == Leaving }

// mayBeOnline reports whether the lead may see the broker: it may before the pod is ready.
func (b Broker) mayBeOnline() bool { return b.State == Up || !b.Since.IsZero() }

// replaced reports whether there is a new pod for the broker, or is to be one: the
// workload goes on as if nothing had ended.
func (b Broker) replaced() bool { return b.State == Missing || b.State == Gated }

// lost reports whether the broker's pod is no more, or was ended by the cluster, so
// that nobody knows how its command ended.
func (b Broker) lost() bool {
	return b.replaced() || (b.State == Failed && b.ExitCode == nil)
}

// howLost says how the lead's pod was lost.
func (b Broker) howLost() string {
	if b.Evicted != "" {
		return "the lead's pod was evicted (" + b.Evicted + ")"
	}
	return "the lead's pod was lost"
}

// failedBefore reports whether the broker's pod failed before the lead's did. Pods tell
// whole seconds: of two that ended in the same one, the other was there first, unless it
// was deleted in it, as all are after the lead's end.
func (b Broker) failedBefore(lead Broker) bool {
	if (b.State != Failed && b.State != Missing) || b.EndedAt.IsZero() {
		return false
	}
	byItself := b.DeletedAt.IsZero() || b.DeletedAt.After(b.EndedAt)
	return b.EndedAt.Before(lead.EndedAt) || (b.EndedAt.Equal(lead.EndedAt) && byItself)
}

// overdueAt is when the broker's pod counts as lost though it is still there; zero if
// it is not leaving.
func (b Broker) overdueAt() time.Time {
	if b.State != Leaving || b.GoneBy.IsZero() {
		return time.Time{}
	}
	return b.GoneBy.Add(goneGrace)
}

// stuck reports whether the broker's pod cannot get the node that it should have.
func (b Broker) stuck() bool { return b.Unbindable && !b.Misplaced }

// hasNoNode reports whether the broker's pod cannot get its node, and did not for a while,
// or there is no such node.
func (b Broker) hasNoNode(now time.Time) bool {
	stuck := b.stuck() && (b.State == Failed || !now.Before(b.Placed.Add(bindGrace)))
	return stuck || (b.NodeGone && b.State == Gated)
}

// troubledAt is when a pod counts as one that does not start where it is; zero if it may
// start.
func (b Broker) troubledAt() time.Time {
	if b.Trouble == "" || b.Misplaced || b.State != Coming {
		return time.Time{}
	}
	return b.TroubleSince.Add(troubleGrace)
}
