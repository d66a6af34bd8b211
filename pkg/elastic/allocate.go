// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package elastic

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Gang is a MiniCluster that waits for nodes.
type Gang struct {
	// ID tells it from all others.
	ID string
	// Name is what people know it by; it breaks ties of age.
	Name string
	// Queue is where it waits.
	Queue string
	// Priority is served before age: higher first.
	Priority int32
	// Created is its age: older first.
	Created time.Time
	// Since is when it began to wait for its size.
	Since  time.Time
	Sizing Sizing
	// WaitForSize is how long after Since it holds out for its full size.
	WaitForSize time.Duration
}

// Matcher knows where gangs fit. Its methods are asked of one gang after the
// other, and what Place has given away stays given.
type Matcher interface {
	// Place finds nodes for the largest of the sizes that fits, one per broker in
	// the order of ranks, and takes them; if none fits it says why.
	Place(gang string, sizes []int) (nodes []string, why string)
	// Never says why the gang would not fit even the empty cluster; "" if it would.
	Never(gang string, sizes []int) (why string)
}

// Verdict is what became of a gang in one cycle.
type Verdict string

// Verdicts.
const (
	// Admitted: it gets the nodes of the decision.
	Admitted Verdict = "Admitted"
	// NeverFits: not even the empty cluster could hold it.
	NeverFits Verdict = "NeverFits"
	// NoRoom: it would fit, but not now.
	NoRoom Verdict = "NoRoom"
	// WaitingForSize: it would fit smaller, and holds out for its size.
	WaitingForSize Verdict = "WaitingForSize"
	// WaitingForTurn: others of its queue are before it.
	WaitingForTurn Verdict = "WaitingForTurn"
)

// Decision is the verdict on one gang.
type Decision struct {
	Gang    string
	Verdict Verdict
	// Nodes are the nodes by rank, for Admitted; as many as there are brokers.
	Nodes []string
	// Message says why, for the others.
	Message string
	// LookAgain is when the verdict may change by time alone; zero if never.
	LookAgain time.Time
}

// Allocate serves every queue in its order: priority, then age, then name. A gang
// gets the largest of its sizes that fits, all of it or nothing. One that does
// not fit now holds up those behind it in its queue, so that small ones cannot
// starve it; one that would never fit holds up nobody.
func Allocate(gangs []Gang, matcher Matcher, now time.Time) []Decision {
	gangs = slices.Clone(gangs)
	slices.SortFunc(gangs, before)
	blocked := map[string]bool{}
	decisions := make([]Decision, 0, len(gangs))
	for _, gang := range gangs {
		decision := allocate(gang, matcher, blocked[gang.Queue], now)
		if decision.Verdict == NoRoom || decision.Verdict == WaitingForSize {
			blocked[gang.Queue] = true
		}
		decisions = append(decisions, decision)
	}
	return decisions
}

// before is the order of the queue.
func before(a, b Gang) int {
	return cmp.Or(
		-cmp.Compare(a.Priority, b.Priority),
		a.Created.Compare(b.Created),
		cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.ID, b.ID),
	)
}

func allocate(gang Gang, matcher Matcher, blocked bool, now time.Time) Decision {
	decision := Decision{Gang: gang.ID}
	sizes := gang.Sizing.Allowed()
	if why := matcher.Never(gang.ID, sizes); why != "" {
		decision.Verdict, decision.Message = NeverFits, why
		return decision
	}
	if blocked {
		decision.Verdict = WaitingForTurn
		decision.Message = fmt.Sprintf("waits for its turn: others of queue %s are before it", gang.Queue)
		return decision
	}
	holdsOutUntil := gang.Since.Add(gang.WaitForSize)
	holdsOut := len(sizes) > 1 && now.Before(holdsOutUntil)
	if holdsOut {
		sizes = sizes[len(sizes)-1:]
	}
	nodes, why := matcher.Place(gang.ID, sizes)
	switch {
	case len(nodes) > 0:
		decision.Verdict, decision.Nodes = Admitted, nodes
	case holdsOut:
		decision.Verdict, decision.Message, decision.LookAgain = WaitingForSize, "holds out for its full size: "+why, holdsOutUntil
	default:
		decision.Verdict, decision.Message = NoRoom, why
	}
	return decision
}
