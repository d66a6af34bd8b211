// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package life

import "time"

// Broker is what is observed of the pod of one rank.
type Broker struct {
	State BrokerState
	// ExitCode is the exit code of a broker that ended by itself; nil if the code is not known, or if the pod was evicted or
	// deleted before.
	ExitCode *int
	// Lingers is true if the broker has ended, and other containers of its pod still run.
	Lingers bool
	// Started is true while the broker runs and its startup probe has passed: on the lead, the command has begun. It stays
	// true on a node that is dead.
	Started bool
	// EndUnknown is true if the broker has run, and nobody knows how far it came.
	EndUnknown bool
	// NotStarted says, in the words of the container runtime, why it could not start a container of the pod; "" if it
	// could. For a rank whose pod was replaced since, it is that of the pod before on the same node.
	NotStarted string
	// Unresolved is a name of the cluster that did not resolve when the pod started; "" if none is known.
	Unresolved string
	// Replaces is true if the Job has made another pod of this rank before.
	Replaces bool
	// FailedIn names what ended with ExitCode; "" if the command did.
	FailedIn string
	// EndedAt is when the containers of a failed pod ended; zero if the time is not known.
	EndedAt time.Time
	// Evicted is the reason of the kubelet for evicting the pod; "" if the pod was not evicted.
	Evicted string
	// OutOfMemory is true if the pod ended, and its broker's container had reached its memory limit.
	OutOfMemory bool
	// Bound is true if the pod is bound to its node.
	Bound bool
	// Ready is the pod's readiness. A follower is ready once its broker is online and may get
	// work, and the lead once the command runs.
	Ready bool
	// ReadySince is when the pod became ready; zero if it is not ready, or the time is not known.
	ReadySince time.Time
	// Idle is true if the pod runs, was ready, and is not ready any more. A rank that is drained
	// has no work left then.
	Idle bool
	// Trouble says what keeps the pod's containers from starting, and TroubleSince since when, if
	// that is known; "" if nothing does.
	Trouble      string
	TroubleSince time.Time
	// GoneBy is when a pod that is being deleted should be gone; zero if nobody set a time.
	GoneBy time.Time
	// DeletedAt is when the deletion was requested.
	DeletedAt time.Time
	// KeptSince is since when the eviction of the pod has been refused, as by a disruption budget; zero if it was not.
	KeptSince time.Time
	// NodeGone is true if the node of the rank does not exist any more.
	NodeGone bool
	// NodeDown is true if the node of the rank exists and is not ready.
	NodeDown bool
	// NodeReturned is true if the broker had run before its node was away, and its pod became ready again since the node did.
	NodeReturned bool
	// Since is when the broker's container began to run; zero if it does not run.
	Since time.Time
	// Misplaced is true if the pod is bound to another node than its rank's.
	Misplaced bool
	// Unbindable is true if kube-scheduler cannot bind the pod to its node, or the kubelet there
	// rejected the pod.
	Unbindable bool
	// Taken is true if the pod is unbindable because its node has no room for it any more.
	Taken bool
	// Placed is when the pod's gate was removed; zero if the time is not known.
	Placed time.Time
}

// BrokerState is the state of the pod of one rank.
type BrokerState int

// States of a broker's pod.
const (
	// Missing: no pod exists.
	Missing BrokerState = iota
	// Gated: the pod waits behind its scheduling gate, and holds no node.
	Gated
	// Coming: the pod's gate is removed, and its broker is not up yet.
	Coming
	// Up: the broker is online. A follower is up once its pod is ready, and the lead once its pod
	// runs.
	Up
	// Leaving: the pod is being deleted.
	Leaving
	// Succeeded: the pod ended with exit code 0.
	Succeeded
	// Failed: the pod ended in any other way.
	Failed
)

const (
	// bindGrace is how long kube-scheduler may take to bind a pod: it may still count the pod
	// that was on the node before.
	bindGrace = 5 * time.Second
	// troubleGrace is how long a pod's trouble may last before its rank is moved: an image may be
	// pulled at the second try.
	troubleGrace = 15 * time.Second
	// goneGrace is how much longer than planned a deletion may take. A pod on a node without
	// power never goes.
	goneGrace = time.Minute
)

// holdsNode reports whether the broker is on its node, or may still come up there.
func (b Broker) holdsNode() bool { return b.State == Coming || b.State == Up || b.State == Leaving }

// mayBeOnline reports whether the lead may see the broker. The lead may see it before the pod is
// ready.
func (b Broker) mayBeOnline() bool { return b.State == Up || !b.Since.IsZero() }

// neverRan reports whether the broker has never run: its pod is its rank's first one, and its container has not started.
func (b Broker) neverRan() bool {
	return (b.State == Gated || b.State == Coming) && b.Since.IsZero() && !b.Replaces
}

// hadNoPart reports whether the command began without the broker: the broker has never run, has ended before, or was
// drained, as a lead that starts alone drains those above its size. After the command, brokers that had a part are gone or
// not ready.
func (b Broker) hadNoPart(lead Broker) bool {
	if b.State == Missing && lead.State == Up && (b.EndedAt.IsZero() || lead.ReadySince.IsZero()) {
		return true
	}
	endedBefore := (b.State == Failed || b.State == Missing) && !b.EndedAt.IsZero() && b.EndedAt.Before(lead.ReadySince)
	return lead.State == Up && b.Idle || b.neverRan() || endedBefore
}

// cameAfter reports whether a broker began to run after the command did. Clocks of nodes may differ.
func (b Broker) cameAfter(lead Broker) bool {
	return !b.Idle && !lead.ReadySince.IsZero() && b.Since.After(lead.ReadySince.Add(seenGrace))
}

// replaced reports whether a new pod stands in for the broker, or will.
func (b Broker) replaced() bool { return b.State == Missing || b.State == Gated }

// lost reports whether the broker's pod is gone, or was ended by the cluster, so that the exit
// code of its command is unknown.
func (b Broker) lost() bool {
	return b.replaced() || (b.State == Failed && b.ExitCode == nil)
}

// wasEvicted reports whether its kubelet evicted the broker, and no other has come in its place.
func (b Broker) wasEvicted() bool { return b.Evicted != "" && (b.State == Failed || b.replaced()) }

// endedWell reports whether the broker ended with exit code 0. A follower does so when the lead
// shuts the instance down, after the command.
func (b Broker) endedWell() bool {
	return b.State == Succeeded
}

// howLost says how the lead's pod was lost.
func (b Broker) howLost() string {
	switch {
	case b.Evicted != "":
		return "the lead's pod was evicted (" + b.Evicted + ")"
	case b.NotStarted != "":
		return "the lead's pod did not start: " + b.NotStarted
	case !b.DeletedAt.IsZero():
		return "the lead's pod was evicted or deleted"
	}
	return "the lead's pod was lost"
}

// failedBefore reports whether the broker's pod failed before the lead's did. Pods report whole
// seconds. A pod that ended in the same second failed first, unless its deletion was requested in
// that second: all followers are deleted after the lead's end.
func (b Broker) failedBefore(lead Broker) bool {
	if (b.State != Failed && b.State != Missing) || b.EndedAt.IsZero() {
		return false
	}
	byItself := b.DeletedAt.IsZero() || b.DeletedAt.After(b.EndedAt)
	return b.EndedAt.Before(lead.EndedAt) || (b.EndedAt.Equal(lead.EndedAt) && byItself)
}

// overdueAt is when a broker whose pod is being deleted counts as lost; zero if the pod is not
// being deleted.
func (b Broker) overdueAt() time.Time {
	if b.State != Leaving || b.GoneBy.IsZero() {
		return time.Time{}
	}
	return b.GoneBy.Add(goneGrace)
}

// stuck reports whether the broker's pod cannot get the node that it should have.
func (b Broker) stuck() bool { return b.Unbindable && !b.Misplaced }

// hasNoNode reports whether the broker's pod could not be bound to its node for a while, or the
// node does not exist.
func (b Broker) hasNoNode(now time.Time) bool {
	stuck := b.stuck() && (b.State == Failed || !now.Before(b.Placed.Add(bindGrace)))
	return stuck || (b.NodeGone && b.State == Gated)
}

// troubledAt is when a pod that does not start counts as failed where it is; zero if it has no
// trouble.
func (b Broker) troubledAt() time.Time {
	if b.NotStarted != "" {
		return b.TroubleSince
	}
	if b.Trouble == "" || b.Misplaced || b.State != Coming {
		return time.Time{}
	}
	return b.TroubleSince.Add(troubleGrace)
}
