// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"slices"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// Observation is all that a decision about one MiniCluster is made from.
type Observation struct {
	Policy Policy
	// Record is what the status has recorded. Rules read it; only decisions change it.
	Record
	// Outdated is true if the spec was changed after the admission.
	Outdated bool
	// Rejected says why the MiniCluster cannot be carried out; "" if it can. Refused says why pods of the attempt, which was
	// to be carried out, are not made; "" if they are, or if that is not known.
	Rejected, Refused string
	// Trial is true if only the pods themselves can tell whether Rejected is right. They are made, and hold no nodes.
	Trial bool
	// Offer is the queue's answer to a waiting MiniCluster.
	Offer elastic.Offer
	// Order is what the queue orders of a MiniCluster that has nodes; nil if nothing.
	Order elastic.Order

	// Quota is what another system says that grants quota.
	Quota QuotaState

	Workload Workload
	// Brokers are the pods of the admission's ranks, by rank.
	Brokers []Broker
	// Lead is the UID of the lead's pod; "" if there is none.
	Lead string
	// LeadGone is true if the lead's pod has been on its node, or was to be placed there, and is gone.
	LeadGone bool
	// SecondLead is true if the attempt has a pod of rank 0 that is not its lead: somebody has deleted the lead's Job, and
	// JobSet has made it again.
	SecondLead bool
	// Published is the quorum that is written on the lead's pod; 0 if none is.
	Published int
	// PublishedDrain are the drained ranks that are written on the lead's pod.
	PublishedDrain []int
	// PublishedRestarts is the number of restarts of the command that is written on the lead's pod.
	PublishedRestarts int
	// LeadDownSince is since when the lead's pod was seen not ready, or when it last began to be so; zero if it
	// never was.
	LeadDownSince time.Time
	// ToldBegan is true if the lead's termination message says that the command began.
	ToldBegan bool
	// ToldLost are the ranks that the lead's termination message lists as lost before the command
	// failed.
	ToldLost []int
	// ToldAsked is true if the lead's termination message says that the command ended since it was asked to, and
	// ToldCheckpointed if it says that there is a checkpoint.
	ToldAsked, ToldCheckpointed bool
	// ToldRetried is true if it says that the command failed, and its run before had failed while it wrote a checkpoint.
	ToldRetried bool
	// Stopped is true if the lead was told to end the command.
	Stopped bool
	// ServicesGated is true if the services pod waits behind its scheduling gate.
	ServicesGated bool
	// Occupied is the number of pods of the MiniCluster, of any admission, that hold a node.
	Occupied int
	// Existing is the number of pods of the MiniCluster's name, of any owner.
	Existing int
	// Leftover is the number of pods of earlier owners that still exist and are not stranded.
	Leftover int
	// Stranded is the number of pods that are being deleted on nodes that are down or gone, and
	// StrandedBy when all of them should be gone. After that time only their nodes wait for them.
	Stranded   int
	StrandedBy time.Time
	// Kept is the number of pods that are not being deleted although their JobSet is, and KeptBy when the garbage collector
	// should have deleted them. After that time nobody but the manager does: a finalizer keeps the JobSet.
	Kept   int
	KeptBy time.Time
	// OrderedSince is since when some brokers, or all, are ordered to leave that have not; zero if none are.
	OrderedSince time.Time
	// Bereft is the number of pods of the admission whose JobSet is gone. Orphans is the number of pods whose JobSet was
	// deleted without them: nobody deletes them.
	Bereft, Orphans int
	// Done is the number of pods of followers that have ended and still exist.
	Done int
	// Jitter, from 0 to 1, lengthens a pause by up to a tenth.
	Jitter float64
}

// Policy is what the spec says about the life of a MiniCluster.
type Policy struct {
	Sizing                      elastic.Sizing
	QuorumTimeout, StartTimeout time.Duration
	// Max is the largest number of brokers to which the MiniCluster may grow.
	Max int
	// Want is the size that the MiniCluster follows: brokers above it leave. 0 if the scheduler may
	// grow the MiniCluster above the size that the user wants.
	Want int
	// Malleable is true if the command goes on when ranks join and leave, and Restarts if it is run again then.
	Malleable, Restarts bool
	// CheckpointWait is how long the command has to write a checkpoint before it is ended; 0 if it writes none.
	// AsksForCheckpoint is true if it is asked for one, and TellsCheckpoints if it may tell that it has written one.
	CheckpointWait                      time.Duration
	AsksForCheckpoint, TellsCheckpoints bool
	// MaxGrace bounds CheckpointWait where others want the nodes; 0 if nothing does. Ranks that leave wait for so long, and
	// drainGrace, for a command that has not begun.
	MaxGrace time.Duration
	// Deadline is how long the command may run; 0 if there is no limit.
	Deadline time.Duration
	// RecreateLimit is how often a failed attempt is repeated.
	RecreateLimit           int
	BackoffBase, BackoffMax time.Duration
	// Shrink is true if the next attempt is smaller than the one that did not start.
	Shrink bool
	OnLoss LossPolicy
	// Retries is how many attempts may follow in which the command failed, and Requeues how many of which the deadline is over.
	Retries, Requeues int
	// Suspend is true if the MiniCluster is to hold nothing, and Deleted if that is so because it is being deleted.
	Suspend, Deleted bool
	// TTL is how long a finished MiniCluster stays; nil if it stays for ever.
	TTL *time.Duration
}

// LossPolicy says what happens when a broker is lost while the command runs.
type LossPolicy string

// Loss policies.
const (
	LossFail     LossPolicy = "Fail"
	LossContinue LossPolicy = "Continue"
	LossRecreate LossPolicy = "Recreate"
)

// Workload is the state of the JobSet that owns the pods.
type Workload int

// States of the JobSet.
const (
	// Absent: there is no JobSet.
	Absent Workload = iota
	// Ahead: the JobSet was made without an admission, for a trial, and its pods wait behind their gates.
	Ahead
	// Active: the JobSet makes and keeps the pods of the admission.
	Active
	// Completed: the lead ended with exit code 0; without an admission, after its attempt had been ended, and before its
	// pods were deleted.
	Completed
	// Broken: the lead failed for good, or followers failed too often.
	Broken
	// Stale: the JobSet belongs to an earlier admission.
	Stale
	// Deleting: the JobSet is being deleted.
	Deleting
	// Orphaned: the JobSet was deleted without its pods, and the lead has ended.
	Orphaned
)

// Unplaced reports whether the MiniCluster has no pods, or only pods without an admission.
func (o *Observation) Unplaced() bool {
	return o.Outcome == "" && o.Started.IsZero() && (o.Workload == Absent || o.Workload == Ahead)
}

// Wants reports whether the MiniCluster is to get nodes, now or once pods of before are gone.
func (o *Observation) Wants(now time.Time) bool {
	return o.Outcome == "" && !o.Policy.Suspend && o.Admission == nil && o.Rejected == "" && !now.Before(o.NotBefore)
}

// Waits reports whether the MiniCluster would take nodes now.
func (o *Observation) Waits(now time.Time) bool {
	return o.Wants(now) && o.Unplaced() && !o.leftBehind(now)
}

// leftBehind reports whether a new attempt has to wait for pods of an earlier one.
func (o *Observation) leftBehind(now time.Time) bool {
	return o.Leftover > 0 || now.Before(o.StrandedBy)
}

// Attempt is the number of the current attempt, or of the next one while the MiniCluster waits.
func (o *Observation) Attempt() int {
	if o.Admission != nil {
		return o.Admission.Attempt
	}
	return o.Attempts + 1
}

// begun reports whether the start of the command is recorded.
func (o *Observation) begun() bool { return !o.Started.IsZero() }

// state is the state of a MiniCluster that has nodes.
func (o *Observation) state() State {
	if o.begun() {
		return StateRunning
	}
	return StateStarting
}

// members is the number of ranks that hold a node.
func (o *Observation) members() int { return len(o.Admission.Nodes) - len(o.Admission.Vacated) }

// leaves reports whether a rank has given its node back or is drained.
func (o *Observation) leaves(rank int) bool {
	d := o.Admission.Draining
	return !o.Admission.Has(rank) || (d != nil && slices.Contains(d.Ranks, rank))
}

// leaving are the ranks that have given their node back or are drained, rising.
func (o *Observation) leaving() []int {
	return o.ranks(func(rank int, _ Broker) bool { return o.leaves(rank) })
}

// Up is the number of brokers that are up and whose ranks hold their nodes. A follower that ended
// well after the start was up to the end: the command has ended, and the lead's pod will, too.
func (o *Observation) Up() int {
	return len(o.ranks(func(rank int, b Broker) bool {
		return o.Admission.Has(rank) && (b.State == Up || (o.begun() && b.endedWell()))
	}))
}

// upToStay is the number of brokers that are up and not drained.
func (o *Observation) upToStay() int {
	return len(o.ranks(func(rank int, b Broker) bool { return b.State == Up && !o.leaves(rank) }))
}

// ranks are the ranks for which a predicate holds, rising.
func (o *Observation) ranks(are func(rank int, b Broker) bool) []int {
	var ranks []int
	for rank, b := range o.Brokers {
		if are(rank, b) {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// few reports whether n is at most half of the brokers, or one.
func (o *Observation) few(n int) bool { return n <= max(1, o.members()/2) }

// nodesOf are the nodes of some ranks, in the order of the ranks.
func (o *Observation) nodesOf(ranks []int) []string {
	var nodes []string
	for _, rank := range ranks {
		nodes = append(nodes, o.Admission.Nodes[rank])
	}
	return nodes
}
