// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"slices"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// Record is all that is remembered of a MiniCluster from one decision to the next. The status
// holds it.
type Record struct {
	// Admission is nil while the MiniCluster waits for nodes.
	Admission *Admission
	// GivenUp counts the failed attempts. NotBefore is when the next one may begin, and Most is
	// the largest size that it may have (0: no limit).
	GivenUp   int
	NotBefore time.Time
	Most      int
	// Retried counts the attempts whose command failed and is run again by the next attempt. They are not in GivenUp.
	Retried int
	// Requeued counts the attempts that ended at their deadline and go on in the next attempt. They are not in GivenUp.
	Requeued int
	// Attempts is the number of the last attempt. It never falls: a program with the number of an earlier attempt is
	// one that must not write any more.
	Attempts int
	// Avoid are nodes on which brokers did not start, sorted. They are avoided until AvoidUntil.
	Avoid      []string
	AvoidUntil time.Time
	// Runs is how often the command was begun, in all attempts.
	Runs int
	// Checkpointed is when the command was last known to have written a checkpoint; zero if it never was.
	Checkpointed time.Time
	// Started is when the command began to run; zero before.
	Started time.Time
	// Outcome is how the MiniCluster ended; "" before. Ended is when. ExitCode is the exit code
	// of the command; nil if it is not known.
	Outcome  Outcome
	Ended    time.Time
	ExitCode *int
}

// Admission is what the queue gave to a MiniCluster.
type Admission struct {
	Attempt, Quorum int
	At              time.Time
	// Lead is the UID of the pod that is the lead of the attempt. It is recorded before the pod is placed, so that a lead that
	// is made later is never taken for it; "" before, and until the start if the API server bound the pod.
	Lead string
	// Nodes are by rank, and include the nodes of vacated ranks.
	Nodes []string
	// Vacated are the ranks that gave their node back, rising.
	Vacated []int
	// Moved are the ranks that were moved to another node, rising.
	Moved []int
	// Draining are the drained ranks that have not left; nil if there are none.
	Draining *Draining
	// Loss are the brokers that were lost while the command ran; nil if none were, or if the loss
	// does not matter.
	Loss *Loss
	// Joining are the ranks that have no part in the command yet, rising: it is run again with them.
	Joining []int
	// Restarts counts how often the command was told to run again in this admission, and Losses how often that was
	// since brokers were lost. Restart is nil unless the command is being run again.
	Restarts, Losses int
	Restart          *Restarting
	// Eviction is nil unless the command has time to end, because all nodes have to be given back.
	Eviction *Eviction
	// ReadySince is since when the lead had been ready at the last decision about the command; zero if that was
	// not known.
	ReadySince time.Time
}

// Restarting is a restart of the command that was told to the lead.
type Restarting struct {
	// From is the number of brokers with which the command ran before.
	From   int
	At     time.Time
	Reason string
	// Again is true if the restart got its time a second time, since the lead had not been told in the first.
	Again bool
}

// Eviction is why all nodes have to be given back, and until when the command has time to end.
type Eviction struct {
	Reason, Message string
	Deadline        time.Time
	// Again is true if the command got its time a second time, since the lead had not been told in the first.
	Again bool
}

// Draining are ranks that are asked to leave.
type Draining struct {
	// Ranks are rising and never include the lead.
	Ranks []int
	// At is since when; zero if that is not known.
	At time.Time
	// Deadline is the latest time to leave. Zero: the ranks leave if the command begins without
	// them, and stay otherwise. A command that does not begin in Policy.MaxGrace is not waited for.
	Deadline time.Time
	// Reason says why, for users.
	Reason string
	// Again is true if the ranks got their time a second time, since the lead had not been told in the first.
	Again bool
}

// Loss are brokers that were lost, and when the loss was seen.
type Loss struct {
	Ranks []int
	At    time.Time
}

// Outcome is how a MiniCluster ended.
type Outcome string

// Outcomes.
const (
	OutcomeSucceeded        Outcome = "Succeeded"
	OutcomeCommandFailed    Outcome = "CommandFailed"
	OutcomeLeadLost         Outcome = "LeadLost"
	OutcomeWorkersFailed    Outcome = "WorkersFailed"
	OutcomeBrokersLost      Outcome = "BrokersLost"
	OutcomeDeadlineExceeded Outcome = "DeadlineExceeded"
	OutcomeStartLimit       Outcome = "StartLimitExceeded"
)

// avoidFor is how long nodes on which brokers did not start are avoided.
const avoidFor = 10 * time.Minute

// Has reports whether a rank holds its node: the rank has not given it back.
func (a *Admission) Has(rank int) bool {
	_, vacated := slices.BinarySearch(a.Vacated, rank)
	return !vacated
}

// Members are the ranks that hold their node, rising.
func (a *Admission) Members() []int {
	var ranks []int
	for rank := range a.Nodes {
		if a.Has(rank) {
			ranks = append(ranks, rank)
		}
	}
	return ranks
}

// clone returns a copy that shares nothing that apply changes.
func (r Record) clone() Record {
	if r.Admission != nil {
		a := *r.Admission
		a.Nodes = slices.Clone(a.Nodes)
		r.Admission = &a
	}
	return r
}

// end ends the admission.
func (r *Record) end() { r.Admission, r.Started = nil, time.Time{} }

// avoid adds nodes to those that are avoided, sorted and without duplicates. Nodes whose time is
// over are forgotten then.
func (r *Record) avoid(nodes []string, now time.Time) {
	if len(nodes) == 0 {
		return
	}
	r.forgetAvoided(now)
	r.Avoid = slices.Compact(slices.Sorted(slices.Values(slices.Concat(nodes, r.Avoid))))
	r.AvoidUntil = now.Add(avoidFor)
}

func (r *Record) forgetAvoided(now time.Time) {
	if !now.Before(r.AvoidUntil) {
		r.Avoid, r.AvoidUntil = nil, time.Time{}
	}
}

// drain records ranks as drained.
func (a *Admission) drain(ranks []int, quorum int, deadline time.Time, why string, at time.Time) {
	a.Draining, a.Quorum = &Draining{Ranks: ranks, At: at, Deadline: deadline, Reason: why}, quorum
}

// drained ends the draining of ranks: they have left, or they stay.
func (a *Admission) drained(ranks []int) {
	if a.Draining == nil {
		return
	}
	d := *a.Draining
	d.Ranks, a.Draining = less(d.Ranks, ranks), nil
	if len(d.Ranks) > 0 {
		a.Draining = &d
	}
}

// vacate records that ranks gave their nodes back.
func (a *Admission) vacate(ranks []int) {
	a.Vacated, a.Joining = union(a.Vacated, ranks), less(a.Joining, ranks)
}

// seat gives nodes to ranks. New ranks follow the last rank.
func (a *Admission) seat(pods []elastic.Pod) {
	ranks := ranksOf(pods)
	for _, pod := range pods {
		if pod.Rank == len(a.Nodes) {
			a.Nodes = append(a.Nodes, "")
		}
		a.Nodes[pod.Rank] = pod.Node
	}
	a.Vacated, a.Moved = less(a.Vacated, ranks), less(a.Moved, ranks)
}

func ranksOf(pods []elastic.Pod) []int {
	var ranks []int
	for _, pod := range pods {
		ranks = append(ranks, pod.Rank)
	}
	return ranks
}

// union are the ranks of a and b, rising, without duplicates.
func union(a, b []int) []int {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// less are the ranks of a that are not in b.
func less(a, b []int) []int {
	return slices.DeleteFunc(slices.Clone(a), func(rank int) bool { return slices.Contains(b, rank) })
}
