// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import "time"

// Pod is the pod of one rank, and the node that is meant for it.
type Pod struct {
	Rank int
	Node string
}

// Offer is what the queue says to a MiniCluster that waits for nodes.
type Offer struct {
	// Nodes are those that it gets, by rank; nil if it gets none now.
	Nodes []string
	// Verdict says why it gets none, and Message says so in a sentence. An empty verdict
	// means that no cycle has run since the MiniCluster came.
	Verdict Verdict
	Message string
	// MakeAhead: it is one of the next to start, so that its pods are worth making now.
	MakeAhead bool
}

// Ahead is how far the objects of a MiniCluster that waits are made.
type Ahead int

// Ways to be made ahead.
const (
	// AheadNothing: there is nothing.
	AheadNothing Ahead = iota
	// AheadMaking: it was told to make them.
	AheadMaking
	// AheadMade: its pods are there, and wait.
	AheadMade
)

// Verdict is what became of a waiting gang in one cycle of the queue.
type Verdict string

// Verdicts.
const (
	// Admitted: it gets nodes.
	Admitted Verdict = "Admitted"
	// NeverFits: not even the empty cluster could hold it.
	NeverFits Verdict = "NeverFits"
	// NotAllowed: its queue, or a quota, does not let it start.
	NotAllowed Verdict = "NotAllowed"
	// NoRoom: it would fit, but not now.
	NoRoom Verdict = "NoRoom"
	// WaitingForSize: it would fit at a smaller size, and holds out for its full size.
	WaitingForSize Verdict = "WaitingForSize"
	// WaitingForTurn: others of its queue go before it.
	WaitingForTurn Verdict = "WaitingForTurn"
)

// Order is what the queue wants of a gang that has nodes: Evict, Drain, Grow or Move.
type Order interface{ order() }

// Evict orders a gang to give all its nodes back. It is queued again.
type Evict struct {
	// Reason is the API's word for it: Preempted or Reclaimed.
	Reason string
	// Message says who gets the nodes.
	Message string
}

// Drain orders ranks of a gang to leave.
type Drain struct {
	Ranks []int
	// For is the name of the gang that gets their nodes.
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
