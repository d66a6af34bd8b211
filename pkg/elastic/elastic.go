// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import (
	"fmt"
	"time"
)

// Pod is the pod of one rank and the node that is chosen for that rank.
type Pod struct {
	Rank int
	Node string
}

// Offer is the queue's answer to a MiniCluster that waits for nodes.
type Offer struct {
	// Nodes are the nodes that it gets, by rank; nil if it gets none now.
	Nodes []string
	// Verdict says why it gets no nodes, and Message says the same in a sentence. An empty
	// verdict means that no cycle has run since the MiniCluster was queued.
	Verdict Verdict
	Message string
	// Blocked is since when the MiniCluster has waited after it was the first of its queue; zero if
	// it never was.
	Blocked time.Time
	// Deadlines are what the queue said about deadlines when it gave the nodes.
	Deadlines Deadlines
}

// Verdict is the result of one cycle of the queue for a waiting gang.
type Verdict string

// Verdicts.
const (
	// Admitted: the gang gets nodes.
	Admitted Verdict = "Admitted"
	// NeverFits: not even the empty cluster could hold the gang, with the nodes that went away in the last
	// hour.
	NeverFits Verdict = "NeverFits"
	// NotAllowed: its queue does not serve its namespace.
	NotAllowed Verdict = "NotAllowed"
	// NoSuchQueue: its queue does not exist.
	NoSuchQueue Verdict = "NoSuchQueue"
	// QueueSuspended: its queue starts nothing.
	QueueSuspended Verdict = "QueueSuspended"
	// DeadlineTooLong: the gang wants more time than its queue allows.
	DeadlineTooLong Verdict = "DeadlineTooLong"
	// TooLargeForQueue: the gang needs more than its queue, or its user in the queue, may ever have.
	TooLargeForQueue Verdict = "TooLargeForQueue"
	// UserLimit: the user may not have the gang in its queue beside the user's other gangs.
	UserLimit Verdict = "UserLimit"
	// QuotaExceeded: a quota of the namespace does not allow the gang.
	QuotaExceeded Verdict = "QuotaExceeded"
	// WaitingForVolume: a volume of the gang is missing.
	WaitingForVolume Verdict = "WaitingForVolume"
	// QueueFull: others have what its queue may have.
	QueueFull Verdict = "QueueFull"
	// Dependency: the gang waits until other gangs have started or finished.
	Dependency Verdict = "Dependency"
	// Singleton: a gang with the same key has nodes or goes first.
	Singleton Verdict = "Singleton"
	// Later: the gang is not queued before a time.
	Later Verdict = "Later"
	// NotChecked: it is not known whether the gang's pods would be accepted.
	NotChecked Verdict = "NotChecked"
	// WaitingForQuota: another system, which has the quota, does not let the gang start yet.
	WaitingForQuota Verdict = "WaitingForQuota"
	// NoRoom: the gang would fit, but not now.
	NoRoom Verdict = "NoRoom"
	// WaitingForSize: the gang would fit at a smaller size, and holds out for its full size.
	WaitingForSize Verdict = "WaitingForSize"
	// WaitingForTurn: other gangs of its queue go first.
	WaitingForTurn Verdict = "WaitingForTurn"
	// NodesRequested: an autoscaler was asked for the nodes that the gang lacks.
	NodesRequested Verdict = "NodesRequested"
	// NodesAccepted: the autoscaler tries to provide them.
	NodesAccepted Verdict = "NodesAccepted"
	// NodesProvisioned: the autoscaler has provided them, as it says, and not all are ready yet.
	NodesProvisioned Verdict = "NodesProvisioned"
	// NodesTimedOut: the nodes did not come in time. The gang asks again later.
	NodesTimedOut Verdict = "NodesTimedOut"
	// NodesFailed: the autoscaler cannot provide the nodes. The gang asks again later.
	NodesFailed Verdict = "NodesFailed"
	// NodesExpired: the autoscaler does not hold the nodes for the gang any more, which asks again later.
	NodesExpired Verdict = "NodesExpired"
	// NodesRevoked: the autoscaler took the nodes back. The gang asks again later.
	NodesRevoked Verdict = "NodesRevoked"
)

// Refusal says why a gang may not start, whatever is free: by a verdict that Refused reports, and in a sentence. The empty
// Refusal refuses nothing.
type Refusal struct {
	Verdict Verdict
	Message string
}

// Refuse is the refusal with a message; the empty one without a message.
func Refuse(verdict Verdict, message string) Refusal {
	if message == "" {
		return Refusal{}
	}
	return Refusal{verdict, message}
}

// Refused reports whether the gang may not start whatever is free. Such a gang blocks no other.
func (v Verdict) Refused() bool {
	switch v {
	case NeverFits, NotAllowed, NoSuchQueue, QueueSuspended, DeadlineTooLong, TooLargeForQueue, UserLimit, QuotaExceeded, WaitingForVolume, Dependency, Singleton, Later:
		return true
	}
	return false
}

// AwaitsNodes reports whether the gang waits for nodes for which an autoscaler was asked.
func (v Verdict) AwaitsNodes() bool {
	return v == NodesRequested || v == NodesAccepted || v == NodesProvisioned
}

// LostNodes reports whether an autoscaler did not provide the nodes for which it was asked.
func (v Verdict) LostNodes() bool {
	return v == NodesTimedOut || v == NodesFailed || v == NodesExpired || v == NodesRevoked
}

// Order is what the queue orders of a gang that has nodes: Evict, Drain, Grow or Move.
type Order interface{ order() }

// Evict orders a gang to give all its nodes back. The gang is queued again.
type Evict struct {
	// Reason is the API's reason: Preempted, Reclaimed, NodesGo or QuotaWithdrawn.
	Reason string
	// Message says who gets the nodes.
	Message string
	// Grace is how long a command without checkpoints may take to end; 0: its pods are deleted at once.
	Grace time.Duration
}

// Drain orders ranks of a gang to leave.
type Drain struct {
	Ranks []int
	// Reason is the API's reason, as of Evict.
	Reason string
	// For says who gets their nodes.
	For string
}

// Grow gives a gang nodes for new ranks, or for ranks that had given theirs back.
type Grow struct{ Pods []Pod }

// Move gives other nodes to ranks whose pods cannot run where they are.
type Move struct{ Pods []Pod }

func (Evict) order() {}
func (Drain) order() {}
func (Grow) order()  {}
func (Move) order()  {}

// Earliest is the first of some times; zero times do not count.
func Earliest(times ...time.Time) time.Time {
	var first time.Time
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// Several is a number of things, for users: "1 broker", "2 brokers".
func Several(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
