// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"maps"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// Resources are amounts by resource name, in any unit that the caller chooses. A pod itself is
// one of "pods".
type Resources map[string]int64

// Gang is a MiniCluster as the queue sees it.
type Gang struct {
	// ID identifies the gang, and breaks ties of age.
	ID string
	// Name is the name that users see.
	Name string
	// Queue is the queue in which the gang waits, or waited before it ran.
	Queue string
	// User is the user of the queue to whom the gang belongs.
	User string
	// Singleton is a key; "" is none. Of the gangs with the same key, one at a time has nodes.
	Singleton string
	// Priority goes before age: higher first.
	Priority int32
	// NeverPreempts is true if the gang takes no nodes from gangs of lower priority.
	NeverPreempts bool
	// Created sets the gang's age: older first.
	Created time.Time
	// Since is when the gang began to hold out for its full size: its creation, or when it was
	// last queued again.
	Since  time.Time
	Sizing elastic.Sizing
	// WaitForSize is how long after Since the gang holds out for its full size.
	WaitForSize time.Duration
	// Requests are the resources of one pod.
	Requests Resources
	// Exclusive is true if each pod has its node alone. Then Requests are those of a whole node.
	Exclusive bool
	// Confined is true if the pods have to be in one domain of the topology, or in some domains. Another gang of
	// its class with n pods leaves room for exactly n pods less, unless it is true.
	Confined bool
	// BestEffort is true if the pods request nothing but a pod's place.
	BestEffort bool
	// Class is the same for gangs whose pods request the same and may run on the same nodes. If
	// one gang of a class finds no room, no other does.
	Class string
	// Limit is the time limit of the command; 0 if there is none.
	Limit time.Duration
	Estimate
	// Returns is true if the gang waits again, to go on, once its Limit is over.
	Returns bool
	// Refused says why the gang cannot be admitted whatever is free, for example because of a quota; empty if it can.
	Refused elastic.Refusal
	// StartsAtOnce is true if the gang does not hold out for more nodes: it can take them later, or others wait for
	// what it has.
	StartsAtOnce bool
	// Urgent is true if the gang must not be put off: quota or nodes are kept for it, or it may not start later.
	Urgent bool
	// Distinct is true if each pod gets a node of its own while there are nodes with room.
	Distinct bool
	// Asked is what an autoscaler was asked for the gang; nil if nothing.
	Asked *Asked
	// AskProblem says why the autoscaler cannot be asked for it; "" if it can.
	AskProblem string
	Memory
}

// Estimate is how long a gang may run.
type Estimate struct {
	// Expected is how long the command is expected to run at the full size, which the limit bounds; 0 if
	// this is not known.
	Expected time.Duration
	// Learned is true if Expected is how long such gangs have run (Runtimes), and not an estimate of the user.
	Learned bool
	// Usual is how long half of the last gangs of the queue have run at most, at their full size; 0 if none has ended.
	Usual time.Duration
}

// Memory is what cycles find out about a gang that waits. It goes from the gang's Decision to the next cycle's Gang.
type Memory struct {
	// Blocked is since when the gang has waited after it was the head of its queue first; zero if
	// it never was.
	Blocked time.Time
	// Promised is when the gang starts at the latest, as the cycle before told its user; zero if it told nothing.
	Promised time.Time
	// Reserved is when the gang was to start by the last cycle, in a Conservative queue; zero if it was not known.
	Reserved time.Time
	// Delay is how others put the gang off, Held how it holds out, or held out last, and Taken what others gave up for it.
	Delay Delay
	Held  Hold
	Taken Taken
}

// Delay is how a gang with a reservation was put off by gangs that passed it and took longer than expected.
type Delay struct {
	// Since is when the gang was put off first; zero if it never was.
	Since time.Time
	// Again is true if that was over once. Then Since is when the gang was put off for the second time.
	Again bool
}

// Running is a gang that has nodes.
type Running struct {
	Gang
	// Ranks are the ranks that hold a node, rising. Rank 0 is the lead.
	Ranks []int
	// Outside are those of the ranks whose nodes Total leaves out. They count for the queue's capacity and the limits of its
	// users, and for nothing else: what is free of the total, shares and guarantees are of the other nodes.
	Outside []int
	// Max is the largest size to which the gang may grow.
	Max int
	// Admitted is when the gang got its nodes.
	Admitted time.Time
	// End is the latest time at which the gang ends; zero if it is not known.
	End time.Time
	// Ending is true if the gang is over or evicted, and its command or its pods are ending: at the latest
	// by EndBy, which is zero if this is not known.
	Ending bool
	EndBy  time.Time
	// Malleable is true if ranks may join and leave: the command has not started yet, or it goes
	// on with other ranks, or is run again.
	Malleable bool
	// Changing is true if ranks join or leave just now, so that the gang is not malleable until that is done. If it is
	// evicted meanwhile, it goes once that is done.
	Changing bool
	// Began is when the command began; zero before. Saved is when it last wrote a checkpoint; zero if it has not.
	Began, Saved time.Time
	// RestartCost is how long the command stands still when ranks join or leave; 0 if it does not. SaveCost is
	// how long it takes to write a checkpoint before it is evicted; 0 if it does not, and loses its work.
	RestartCost, SaveCost time.Duration
	// Least is how many ranks stay at least as long as the gang stays, as its pods were told; 0 if that is the smallest size of
	// Sizing, which has the size that the user wants now.
	Least int
	// Sought is true if the user has set another size since the gang got its nodes.
	Sought bool
	// Going are ranks whose nodes are about to go away.
	Going []int
	// Draining are ranks that leave already, by DrainBy; the time is zero if it is not known.
	Draining []int
	DrainBy  time.Time
}

// Ordering is the order of the gangs in a queue.
type Ordering string

// Orderings.
const (
	ByPriority Ordering = "Priority" // then age
	ByAge      Ordering = "FIFO"
	ByUser     Ordering = "FairShare" // by priority, then in turn by the usage of users, then age
	BySlowdown Ordering = "Slowdown"  // by priority, then by score
)

// Backfill says which gangs may pass a gang that does not fit now.
type Backfill string

// Kinds of backfill.
const (
	NoBackfill   Backfill = "None"
	EASY         Backfill = "EASY"
	Conservative Backfill = "Conservative"
)

// Queue is the policy of one queue.
type Queue struct {
	Name string
	// Weight is the queue's share of the cluster relative to the other queues that want theirs.
	Weight int
	// Priority orders the queues: higher first.
	Priority int32
	// Capacity is a hard limit; a resource that is not listed has none.
	Capacity Resources
	// Guarantee is kept free of other queues.
	Guarantee Resources
	// Reclaimable is true if other queues may reclaim what the queue has above its share.
	Reclaimable bool
	Ordering    Ordering
	Backfill    Backfill
	// Patience is how long gangs without a time limit may pass its first gang while others that passed it take longer than
	// expected, once that has happened before (Delay).
	Patience time.Duration
	// Grace is how long a command may take to end when its gang is evicted.
	Grace time.Duration
	// MinRuntime is how long a gang of the queue has to have its nodes before it may be evicted for
	// another gang.
	MinRuntime time.Duration
	Suspended  bool
	// RequeuesLast is true if gangs that wait again do so behind the others.
	RequeuesLast bool
	Users        Users
	// ScaleUp says how the queue asks for nodes that do not exist; nil if it does not.
	ScaleUp *ScaleUp
}

// Snapshot is all that a cycle decides on, except where gangs fit (Room).
type Snapshot struct {
	Queues  []Queue
	Waiting []Gang
	Running []Running
	// Total is what all nodes hold together that are up and that gangs may use, and Foreign is how much of that others
	// than gangs use. Foreign is not shared among the queues.
	Total, Foreign Resources
	// Settles is until when further nodes may become free, because the pods of a gang end one
	// after the other. Until then nobody is backfilled and nobody starts below its full size:
	// small gangs would take the nodes bit by bit.
	Settles time.Time
	// Coming are the nodes that were made since nodes were asked for, and are not ready yet. CameLast is when the last
	// node was made.
	Coming   int
	CameLast time.Time
	// Unmade are the pods that the control plane has to make. A gang starts only while they are less than MostUnmade from its
	// priority on: the pods of all would come later, and nodes be held for longer. 0 is no limit.
	Unmade     Unmade
	MostUnmade int
	// Amount formats an amount of a resource for users; nil formats a plain number.
	Amount func(name string, amount int64) string
}

// Shared is what the queues share.
func (s *Snapshot) Shared() Resources {
	shared := maps.Clone(s.Total)
	for name := range shared {
		shared[name] = max(shared[name]-s.Foreign[name], 0)
	}
	return shared
}

// Stay is the time in which a gang has had nodes, until a time.
func (r *Running) Stay(until time.Time) Stay {
	held := Resources{}
	held.Add(withPod(r.Requests), len(r.Ranks))
	return Stay{User: r.User, Holds: held, From: r.Admitted, To: until}
}

// Room is what is free at one moment, and who holds the rest. It knows running and waiting gangs
// by their ID. A change to one snapshot changes no other.
type Room interface {
	Capacity
	Kinds
	Changes
	// With is a copy that also has nodes that could come for the gangs of a queue, up and empty: so many
	// of each of the queue's shapes. It replaces what an earlier With added for the queue, which has no more of any
	// shape.
	With(queue string, nodes []int) Room
	// Victims are the n ranks of a gang that are best to leave for another gang, the taker, rising: first those on nodes that
	// are up and that the taker could use now. The lead never leaves.
	Victims(id string, n int, taker string) []int
	// Snapshot is a copy for trials. A copy is cheap.
	Snapshot() Room
}

// Capacity is for how many pods of waiting gangs there is room.
type Capacity interface {
	// Fits is the number of pods of a waiting gang for which there is room, at most limit.
	Fits(id string, limit int) int
	// CouldHold reports whether the gang would fit at one of the sizes if the cluster were empty, every
	// node were up, and those were back that went away in the last hour.
	CouldHold(id string, sizes []int) bool
	// CouldHoldBeside is CouldHold without the nodes that some other waiting gangs could use, and those that went away.
	CouldHoldBeside(id string, sizes []int, others []string) bool
	// FitsApart is Fits with no more than one pod of the gang on each node.
	FitsApart(id string, limit int) int
	// Why says in a sentence why the gang does not fit at one of the sizes, who holds the nodes
	// and what would have to end; "" if it fits. Why is slower than the other methods.
	Why(id string, sizes []int) string
}

// Kinds are on which nodes gangs could run if nothing was held. Nodes count that are down, closed to a gang for now, or avoided by
// the gang, and those of all architectures of which the gang may get one: what a gang could use is the same in all snapshots.
type Kinds interface {
	// Amount is how much of a resource is free on the nodes that a gang could use, and how much of it they have in all, of those
	// that are up, without the nodes that another gang could use; "" is no other. The Room also knows AnyGang.
	Amount(resource, id, other string) (free, all int64)
	// Elsewhere are the ranks of another gang on nodes that a gang could not use, rising.
	Elsewhere(id, other string) []int
	// Meet reports whether two gangs could use the same node, without the nodes that a third gang could use; "" is none.
	Meet(id, other, without string) bool
}

// Changes are what gangs get and leave.
type Changes interface {
	// Place takes nodes for the largest of the sizes that fits, and returns one per broker by
	// rank; nil if none fits.
	Place(id string, sizes []int) []string
	// Grow gives a gang up to n more pods and returns them: first its lowest ranks without a
	// node, then new ranks.
	Grow(id string, n int) []elastic.Pod
	// Keep keeps Grow off the nodes that could hold a pod of a waiting gang if every node were up
	// and empty.
	Keep(id string)
	// Shrink frees the nodes of some ranks of a gang.
	Shrink(id string, ranks []int)
	// Release frees all nodes of a gang.
	Release(id string)
}

// Decision is the verdict on one waiting gang.
type Decision struct {
	Gang    string
	Verdict elastic.Verdict
	// Action is the action that admitted the gang: "allocate" or "backfill".
	Action string
	// Nodes are the nodes by rank, one per broker; nil unless the gang is admitted.
	Nodes []string
	// Position is the place in the queue, from 1.
	Position int
	// Message says why the gang is not admitted.
	Message string
	// Head is true if the gang is a head of its queue: it does not fit now, and goes before those behind it.
	Head bool
	// PutOff is true if the gang has room, and waits until fewer pods are to be made.
	PutOff bool
	Memory
	// LookAgain is when time alone may change the verdict; zero if it never does.
	LookAgain time.Time
}

// Drain asks ranks of a running gang to leave.
type Drain struct {
	Gang  string
	Ranks []int
	// Taker is the name of the gang that gets the nodes; "" if none does. For is what the gang is told of that.
	Taker, For string
	// Action is "preempt", "reclaim" or "clear".
	Action string
}

// Eviction takes all nodes of a gang. The gang is queued again.
type Eviction struct {
	Gang string
	// Action is "preempt", "reclaim" or "clear".
	Action string
	// Taker is the name of the gang that gets the nodes; "" if none does. Message is what the gang is told.
	Taker, Message string
	// Grace is how long the command may take to end.
	Grace time.Duration
}

// Growth gives more ranks to a running gang.
type Growth struct {
	Gang string
	Pods []elastic.Pod
}

// Use is what a queue uses, for its status.
type Use struct {
	Queue string
	Used  Resources
	// Share and Deserved are parts of the cluster, from 0 to 1, by the dominant resource.
	Share, Deserved float64
	// Users are what the users have, by name; nil if their usage does not count.
	Users []UserUse
}

// Result is the outcome of one cycle.
type Result struct {
	// Decisions are one per waiting gang, by queue and position.
	Decisions []Decision
	Drains    []Drain
	Evictions []Eviction
	Growths   []Growth
	// Asks are what an autoscaler is to be asked for waiting gangs, by queue and position. For other gangs it is
	// asked nothing.
	Asks []Ask
	// Uses are by queue, and include what was admitted in this cycle.
	Uses []Use
	// LookAgain is when time alone may let a running gang grow; zero if it never does.
	LookAgain time.Time
}
