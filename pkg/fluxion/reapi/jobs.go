// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package reapi

import (
	"errors"
	"math"
	"strconv"
)

// MatchOp is a match operation.
type MatchOp int32

// These are the match operations. An allocation is always at time 0: the library has no
// clock. A job of duration 0 lasts as long as the graph.
const (
	// MatchAllocate allocates now, or fails with ErrBusy.
	MatchAllocate MatchOp = 1
	// MatchAllocateWithSatisfiability fails with ErrUnsatisfiable if waiting would not
	// help.
	MatchAllocateWithSatisfiability MatchOp = 2
	// MatchAllocateOrElseReserve reserves the first time at which there is room. For more
	// nodes than are up it fails with ErrBusy, even if ErrUnsatisfiable is right.
	MatchAllocateOrElseReserve MatchOp = 3
	// MatchSatisfiability allocates nothing and returns nothing.
	MatchSatisfiability MatchOp = 4
	// MatchWithoutAllocating returns what MatchAllocate would (flux-sched 0.54;
	// ErrInvalid before).
	MatchWithoutAllocating MatchOp = 5
	// MatchWithoutAllocatingFuture returns what MatchAllocateOrElseReserve would.
	MatchWithoutAllocatingFuture MatchOp = 6
)

// NoJob is the job id of a match that makes no job.
const NoJob = math.MaxUint64

// allocates reports whether a match makes a job.
func (op MatchOp) allocates() bool {
	return op >= MatchAllocate && op <= MatchAllocateOrElseReserve
}

// Allocation is the answer of a match.
type Allocation struct {
	// JobID is NoJob for operations that allocate nothing.
	JobID uint64
	// R is the resource set in the match_format; empty for MatchSatisfiability.
	R string
	// Reserved is true for a job that starts later, At seconds from the start of the graph.
	Reserved bool
	At       int64
}

// Match matches a jobspec (JSON), and gives the job the next free id, from 1. It fails with
// ErrBusy or ErrUnsatisfiable, or with ErrInvalid if the jobspec is wrong or names a type
// that the graph does not have.
func (c *Client) Match(op MatchOp, jobspec string) (Allocation, error) {
	const call = "match"
	if err := checkJobspec(jobspec); err != nil {
		return Allocation{}, refuse(call, ErrInvalid, err.Error())
	}
	mu.Lock()
	defer mu.Unlock()
	if !op.allocates() {
		return c.match(call, op, jobspec, NoJob)
	}
	next := c.last + 1
	for c.jobs[next] {
		next++
	}
	allocation, err := c.match(call, op, jobspec, next)
	if err == nil {
		c.last = next
	}
	return allocation, err
}

// MatchAllocate is Match with MatchAllocate or MatchAllocateOrElseReserve.
func (c *Client) MatchAllocate(orElseReserve bool, jobspec string) (Allocation, error) {
	if orElseReserve {
		return c.Match(MatchAllocateOrElseReserve, jobspec)
	}
	return c.Match(MatchAllocate, jobspec)
}

// MatchWithJobid is Match with an id that the caller chooses, from 1 to 2⁶³−1. An id in use
// is ErrExists. Operations that allocate nothing ignore the id.
func (c *Client) MatchWithJobid(op MatchOp, jobid uint64, jobspec string) (Allocation, error) {
	const call = "match_with_jobid"
	if err := errors.Join(checkJobID(jobid), checkJobspec(jobspec)); err != nil {
		return Allocation{}, refuse(call, ErrInvalid, err.Error())
	}
	mu.Lock()
	defer mu.Unlock()
	if !op.allocates() {
		return c.match(call, op, jobspec, NoJob)
	}
	if c.jobs[jobid] {
		return Allocation{}, refuse(call, ErrExists, "job "+strconv.FormatUint(jobid, 10))
	}
	return c.match(call, op, jobspec, jobid)
}

// match is called with mu held, a checked jobspec, and a free id.
func (c *Client) match(call string, op MatchOp, jobspec string, jobid uint64) (Allocation, error) {
	var r *byte
	var overhead float64
	out := Allocation{JobID: jobid}
	c.lookedAhead = c.lookedAhead || op == MatchAllocateOrElseReserve || op == MatchWithoutAllocatingFuture
	err := c.run(call, func() int32 {
		return c.library.match(c.context, int32(op), jobspec, jobid, &out.Reserved, &r, &out.At, &overhead)
	})
	if err != nil {
		// The planner answers ENOENT if it finds no point in time.
		return Allocation{}, because(err, ErrNotFound, ErrUnsatisfiable)
	}
	out.R = c.library.take(r)
	switch {
	case !op.allocates():
		return out, nil
	case out.R == "":
		return Allocation{}, c.nothing(call, jobid)
	}
	c.jobs[jobid] = true
	return out, nil
}

// nothing is the error of a match that succeeded and returned no resources. Before
// flux-sched 0.52 that meant "no room". Since then it means a job that the writer cannot
// describe, and the job is cancelled.
func (c *Client) nothing(call string, jobid uint64) error {
	if err := c.cancel(jobid, false); errors.Is(err, ErrNotFound) {
		return refuse(call, ErrBusy, "")
	} else if err != nil {
		return err
	}
	return refuse(call, ErrInvalid, "match_format "+strconv.Quote(c.format)+" says nothing of this job: it writes cores and GPUs below nodes only")
}

// UpdateAllocate puts an allocation back, after a restart: R as a match returned it
// (jgf, or RFC 20 with or without scheduling), on a graph that still has the same
// vertices, free. An id in use is ErrExists, a vertex that is not there ErrNotFound,
// one that is different or taken ErrInvalid. Before flux-sched 0.53 it is
// ErrUnsupported.
func (c *Client) UpdateAllocate(jobid uint64, r string) (Allocation, error) {
	const call = "update_allocate"
	if err := errors.Join(checkJobID(jobid), checkUpdate(r)); err != nil {
		return Allocation{}, refuse(call, ErrInvalid, err.Error())
	}
	mu.Lock()
	defer mu.Unlock()
	var text *byte
	var overhead float64
	out := Allocation{JobID: jobid}
	err := c.run(call, func() int32 {
		return c.library.update(c.context, jobid, r, &out.At, &overhead, &text)
	})
	if err != nil {
		return Allocation{}, err
	}
	out.R = c.library.take(text)
	c.jobs[jobid] = true
	return out, nil
}

// Cancel ends a job or a reservation. A job that is not there is ErrNotFound unless
// noentOK.
func (c *Client) Cancel(jobid uint64, noentOK bool) error {
	mu.Lock()
	defer mu.Unlock()
	return c.cancel(jobid, noentOK)
}

func (c *Client) cancel(jobid uint64, noentOK bool) error {
	err := c.run("cancel", func() int32 { return c.library.cancel(c.context, jobid, noentOK) })
	if err == nil {
		delete(c.jobs, jobid)
	}
	return err
}

// PartialCancel gives back a part of a job and says whether that was all of it. The
// part is RFC 20 R naming ranks (execution.R_lite), or with JGF of vertices in
// "scheduling", all of which the job holds exclusively and which say so
// ("exclusive": true, as in what Match returned). A reservation is
// ErrNotFound. A part that the job does not hold is ErrInvalid, and what stood
// before it in R may be given back.
func (c *Client) PartialCancel(jobid uint64, r string, noentOK bool) (full bool, err error) {
	const call = "partial_cancel"
	if err := errors.Join(checkJobID(jobid), checkPart(r)); err != nil {
		return false, refuse(call, ErrInvalid, err.Error())
	}
	mu.Lock()
	defer mu.Unlock()
	err = c.run(call, func() int32 { return c.library.partial(c.context, jobid, r, noentOK, &full) })
	if err != nil || !full {
		return false, err
	}
	delete(c.jobs, jobid)
	return true, nil
}
