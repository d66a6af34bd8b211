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
	// Record is what is written down. The rules read it; only decisions change it.
	Record
	// Outdated: the spec was changed since the admission.
	Outdated bool
	// Rejected says why the MiniCluster cannot be carried out; "" if it can.
	Rejected string
	// Offer is what the queue says to one that waits.
	Offer elastic.Offer
	// Order is what the queue wants of one that has nodes; nil if nothing.
	Order elastic.Order

	Workload Workload
	// Brokers are the pods of the admission's ranks.
	Brokers []Broker
	// Published is the quorum that the lead's pod says; 0 if it says none.
	Published int
	// PublishedDrain are the ranks that the lead's pod says are to leave or have left.
	PublishedDrain []int
	// ToldLost are the ranks that the lead's broker says it had lost when the command failed.
	ToldLost []int
	// Stopped: the lead's pod was told to end the command.
	Stopped bool
	// ServicesGated: the services pod waits behind its scheduling gate.
	ServicesGated bool
	// Occupied is the number of pods of the MiniCluster, of whatever admission,
	// that hold a node.
	Occupied int
	// Leftover is the number of pods of earlier owners that still exist.
	Leftover int
	// Done is the number of pods of followers that have ended and still exist.
	Done int
	// Jitter, from 0 to 1, lengthens a pause by up to a tenth.
	Jitter float64
}

// Policy is what the user said about the life of a MiniCluster.
type Policy struct {
	Sizing                      elastic.Sizing
	QuorumTimeout, StartTimeout time.Duration
	// Max is the number of brokers up to which it may grow.
	Max int
	// Want is the size that is wanted of it now, where that was changed since its
	// admission; else 0.
	Want int
	// Malleable: its command goes on when ranks join and leave.
	Malleable bool
	// Deadline is how long the command may run; 0 without end.
	Deadline time.Duration
	// RecreateLimit is how often one that did not start is tried again.
	RecreateLimit           int
	BackoffBase, BackoffMax time.Duration
	// Shrink: the next attempt is smaller than the one that did not start.
	Shrink bool
	OnLoss LossPolicy
	// Retries is how often a lead that failed is started again.
	Retries int
	Suspend bool
	// TTL is how long the MiniCluster stays once it is done; nil: for ever.
	TTL *time.Duration
}

// LossPolicy says what happens to one that loses a broker while its command runs.
type LossPolicy string

// Policies for losses.
const (
	LossFail     LossPolicy = "Fail"
	LossContinue LossPolicy = "Continue"
	LossRecreate LossPolicy = "Recreate"
)

// Workload is how the pods' owner (a JobSet) is.
type Workload int

// States of the owner.
const (
	// Absent: there is none.
	Absent Workload = iota
	// Ahead: it was made for the admission that comes, and its pods wait.
	Ahead
	// Active: it makes and keeps the pods of the admission.
	Active
	// Completed: the lead ended with exit code 0.
	Completed
	// Broken: the lead failed for good, or followers failed too often.
	Broken
	// Stale: it belongs to an admission that is no more.
	Stale
	// Deleting: it is being deleted.
	Deleting
)

// Unplaced reports whether it has no pods, or only those made ahead.
func (o *Observation) Unplaced() bool {
	return o.Outcome == "" && o.Started.IsZero() && (o.Workload == Absent || o.Workload == Ahead)
}

// Waits reports whether it may take nodes now, if the queue has any for it.
func (o *Observation) Waits(now time.Time) bool {
	return o.Unplaced() && !o.Policy.Suspend && o.Admission == nil && o.Leftover == 0 && o.Rejected == "" && !now.Before(o.NotBefore)
}

// Attempt is the number of the attempt that is made, or comes.
func (o *Observation) Attempt() int {
	if o.Admission != nil {
		return o.Admission.Attempt
	}
	return o.GivenUp + 1
}

// begun reports whether it is written down that the command runs.
func (o *Observation) begun() bool { return !o.Started.IsZero() }

// state is that of a MiniCluster that has nodes.
func (o *Observation) state() State {
	if o.begun() {
		return StateRunning
	}
	return StateStarting
}

// members is the number of ranks that have a node.
func (o *Observation) members() int { return len(o.Admission.Nodes) - len(o.Admission.Vacated) }

// leaves reports whether a rank has given its node back, or is asked to.
func (o *Observation) leaves(rank int) bool {
	d := o.Admission.Draining
	return !o.Admission.Has(rank) || (d != nil && slices.Contains(d.Ranks, rank))
}

// leaving are the ranks that leave or have left, rising.
func (o *Observation) leaving() []int {
	return o.ranks(func(rank int, _ Broker) bool { return o.leaves(rank) })
}

// up is the number of brokers that are up on nodes of theirs.
func (o *Observation) up() int {
	return len(o.ranks(func(rank int, b Broker) bool { return b.State == Up && o.Admission.Has(rank) }))
}

// upToStay is the number of brokers that are up, and not asked to leave.
func (o *Observation) upToStay() int {
	return len(o.ranks(func(rank int, b Broker) bool { return b.State == Up && !o.leaves(rank) }))
}

// ranks are those whose brokers are so, rising.
func (o *Observation) ranks(are func(rank int, b Broker) bool) []int {
	var ranks []int
	for rank, b := range o.Brokers {
		if are(rank, b) {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// few reports whether so many of the brokers are no more than half of them.
func (o *Observation) few(n int) bool { return n <= max(1, o.members()/2) }

// nodesOf are the nodes of ranks, in their order.
func (o *Observation) nodesOf(ranks []int) []string {
	var nodes []string
	for _, rank := range ranks {
		nodes = append(nodes, o.Admission.Nodes[rank])
	}
	return nodes
}
