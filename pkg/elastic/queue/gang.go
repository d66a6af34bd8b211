// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// Resources are amounts by the name of the resource, in whatever unit the caller
// counts it; a pod itself is one of "pods".
type Resources map[string]int64

// Gang is a MiniCluster as the queue sees it.
type Gang struct {
	// ID tells it from all others, and breaks ties of age.
	ID string
	// Name is what people know it by.
	Name string
	// Queue is where it waits, or waited.
	Queue string
	// Priority is served before age: higher first.
	Priority int32
	// Created is its age: older first.
	Created time.Time
	// Since is when it began to wait for its size: its creation, or when it was queued
	// again.
	Since  time.Time
	Sizing elastic.Sizing
	// WaitForSize is how long after Since it holds out for its full size.
	WaitForSize time.Duration
	// Requests are what one pod takes.
	Requests Resources
	// BestEffort: its pods ask for nothing but to be there.
	BestEffort bool
	// Class is the same for gangs whose pods are alike, in what they take and in where
	// they can be: what one has no room for, the other has none for either.
	Class string
	// Limit is how long it runs at most; 0 if that is not known.
	Limit time.Duration
	// NotAllowed says why it cannot be admitted whatever is free (a quota, a queue that
	// does not exist); "" if it can.
	NotAllowed string
	// Blocked is when it was found to be the first of its queue and not to fit; zero if it
	// is not so. It comes from the Decision of the cycle before.
	Blocked time.Time
}

// Running is a gang that has nodes.
type Running struct {
	Gang
	// Ranks are those that hold a node, rising; the lead, 0, is the first.
	Ranks []int
	// Max is the size up to which it may grow.
	Max int
	// Admitted is when it got its nodes.
	Admitted time.Time
	// End is when it will be over, at the latest; zero if that is not known.
	End time.Time
	// Ending: it is over, or has to go, and its pods are on their way out.
	Ending bool
	// Malleable: ranks may join and leave without ending it: it has not started its
	// command yet, or the command bears it.
	Malleable bool
	// Draining are ranks that were asked to leave already, until DrainBy; zero if that is not
	// known.
	Draining []int
	DrainBy  time.Time
}

// Ordering is the order in which a queue is served.
type Ordering string

// Orderings.
const (
	ByPriority Ordering = "Priority" // then age
	ByAge      Ordering = "FIFO"
)

// Backfill says who may pass a gang that does not fit now.
type Backfill string

// Ways to backfill.
const (
	NoBackfill   Backfill = "None"
	EASY         Backfill = "EASY"
	Conservative Backfill = "Conservative"
)

// Queue is how one queue is served.
type Queue struct {
	Name string
	// Weight is its share of the cluster, beside those of other queues that want theirs.
	Weight int
	// Priority: queues of a higher one are served first.
	Priority int32
	// Capacity is a hard limit; a resource that is not in it has none.
	Capacity Resources
	// Guarantee is what others do not get.
	Guarantee Resources
	// Reclaimable: what it has above its share can be taken back for others.
	Reclaimable bool
	Ordering    Ordering
	Backfill    Backfill
	// Patience is how long others may use free nodes while its first gang waits for jobs
	// without a time limit.
	Patience  time.Duration
	Suspended bool
}

// Snapshot is all that a cycle decides on, but for where gangs fit (Room).
type Snapshot struct {
	Queues  []Queue
	Waiting []Gang
	Running []Running
	// Total is what the nodes that are up have together.
	Total Resources
	// Settles is until when more nodes may become free together with those that just did:
	// the pods of a gang end one by one. Before that time nobody is backfilled, since small
	// gangs would take the nodes bit by bit, and nobody starts at less than its full size.
	Settles time.Time
	// Amount writes an amount of a resource for people; nil: as a plain number.
	Amount func(name string, amount int64) string
}

// Room is what is free at one moment, and who holds the rest. Gangs are known to it by
// their ID, those that run as those that wait. What is done to it is done to no other
// snapshot of it.
type Room interface {
	// Place finds nodes for the largest of the sizes that fits, one per broker in the
	// order of ranks, and takes them; nil if none fits.
	Place(id string, sizes []int) []string
	// Fits is how many pods of a gang that waits there is room for, limit at most.
	Fits(id string, limit int) int
	// CouldHold reports whether the gang would fit at one of the sizes if nobody held
	// anything and every node were up.
	CouldHold(id string, sizes []int) bool
	// Why says in a sentence why the gang does not fit at one of the sizes, who holds the
	// nodes and what would have to end; "" if it fits. It costs more than the others.
	Why(id string, sizes []int) string
	// Grow gives a gang up to n more pods, and returns them: those of its lowest ranks
	// that have none.
	Grow(id string, n int) []elastic.Pod
	// Victims are n ranks of a gang, never the lead, that are best to leave, rising.
	Victims(id string, n int) []int
	// Shrink frees ranks of a gang.
	Shrink(id string, ranks []int)
	// Release frees all that a gang holds.
	Release(id string)
	// Snapshot is a copy to try things on. It is cheap.
	Snapshot() Room
}

// Decision is the verdict on one gang that waits.
type Decision struct {
	Gang    string
	Verdict elastic.Verdict
	// Action is what admitted it: "allocate" or "backfill".
	Action string
	// Nodes are the nodes by rank, for Admitted; as many as there are brokers.
	Nodes []string
	// Position is its place in its queue, from 1.
	Position int
	// Message says why, for the others.
	Message string
	// Blocked is for the next cycle's Gang.
	Blocked time.Time
	// LookAgain is when the verdict may change by time alone; zero if never.
	LookAgain time.Time
}

// Drain asks ranks of a gang that runs to leave.
type Drain struct {
	Gang  string
	Ranks []int
	// For is the gang that gets the room, by name, and Action is what takes it:
	// "preempt" or "reclaim".
	For, Action string
}

// Eviction takes all that a gang has. It is queued again.
type Eviction struct {
	Gang        string
	For, Action string
	Message     string
}

// Growth gives a gang that runs more ranks.
type Growth struct {
	Gang string
	Pods []elastic.Pod
}

// Use is what a queue has, for its status.
type Use struct {
	Queue string
	Used  Resources
	// Share and Deserved are parts of the cluster, from 0 to 1, by the resource of which
	// the most is used.
	Share, Deserved float64
}

// Result is what is decided in one cycle.
type Result struct {
	// Decisions are one for each gang that waits, by queue and position.
	Decisions []Decision
	Drains    []Drain
	Evictions []Eviction
	Growths   []Growth
	// Uses are by queue, with what was admitted in this cycle.
	Uses []Use
}
