// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package life

import (
	"slices"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// Record is what is written down about a MiniCluster, and all that is remembered from one
// decision to the next.
type Record struct {
	// Admission is nil while the MiniCluster waits for nodes.
	Admission *Admission
	// GivenUp counts the attempts that did not start; NotBefore is when the next one may
	// begin, and Most the largest size that it may have (0: any).
	GivenUp   int
	NotBefore time.Time
	Most      int
	// Avoid are nodes on which brokers did not start, by name; they are avoided until
	// AvoidUntil.
	Avoid      []string
	AvoidUntil time.Time
	// Started is when the command began to run; zero before.
	Started time.Time
	// Outcome is how the MiniCluster ended, and Ended when; "" before. ExitCode is that of
	// the command; nil if it is not known.
	Outcome  Outcome
	Ended    time.Time
	ExitCode *int
}

// Admission is what a MiniCluster was given.
type Admission struct {
	Attempt, Quorum int
	At              time.Time
	// Nodes are by rank, those of vacated ranks too.
	Nodes []string
	// Vacated are the ranks that gave their node back, rising.
	Vacated []int
	// Moved are the ranks that got another node than at first, rising.
	Moved []int
	// Draining are ranks that are asked to leave; nil if none are.
	Draining *Draining
	// Loss are brokers that were lost while the command ran; nil if none were, or if
	// that does not matter.
	Loss *Loss
}

// Draining are ranks that are asked to leave.
type Draining struct {
	// Ranks are rising, and never the lead.
	Ranks []int
	// Deadline is when they leave at the latest. Zero: they leave if the command begins
	// without them, and else stay.
	Deadline time.Time
	// Reason says why, for people.
	Reason string
}

// Loss are brokers that were lost, and when that was seen.
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

// avoidFor is how long nodes are avoided on which brokers did not start.
const avoidFor = 10 * time.Minute

// Has reports whether a rank holds the node of the admission: it has not given it back.
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

// clone is a copy that shares nothing that apply changes.
func (r Record) clone() Record {
	if r.Admission != nil {
		a := *r.Admission
		a.Nodes = slices.Clone(a.Nodes)
		r.Admission = &a
	}
	return r
}

// end takes the admission back.
func (r *Record) end() { r.Admission, r.Started = nil, time.Time{} }

// avoid adds nodes to those that are avoided, once each and sorted by name. Nodes whose time is over are
// forgotten when others are added.
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

// drain asks ranks to leave.
func (a *Admission) drain(ranks []int, quorum int, deadline time.Time, why string) {
	a.Draining, a.Quorum = &Draining{Ranks: ranks, Deadline: deadline, Reason: why}, quorum
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

// vacate takes the nodes of ranks back.
func (a *Admission) vacate(ranks []int) { a.Vacated = union(a.Vacated, ranks) }

// seat gives ranks nodes; new ranks follow on those there are.
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

// union are the ranks of both, rising, once each.
func union(a, b []int) []int {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// less are the ranks of one without those of the other.
func less(a, b []int) []int {
	return slices.DeleteFunc(slices.Clone(a), func(rank int) bool { return slices.Contains(b, rank) })
}
