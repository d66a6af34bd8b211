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
	// MatchAllocateWithSatisfiability fails with ErrUnsatisfiable if waiting would not help.
	MatchAllocateWithSatisfiability MatchOp = 2
	// MatchAllocateOrElseReserve reserves the first time at which there is room. If the job
	// wants more nodes than are up, the error is ErrBusy even where it can never be met.
	MatchAllocateOrElseReserve MatchOp = 3
	// MatchSatisfiability allocates nothing and returns nothing.
	MatchSatisfiability MatchOp = 4
	// MatchWithoutAllocating returns what MatchAllocate would.
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

// Allocation is the answer to a match.
type Allocation struct {
	// JobID is NoJob if the operation allocates nothing.
	JobID uint64
	// R is the resource set in the match_format. It is empty for MatchSatisfiability.
	R string
	// Reserved is true for a job that starts later, At seconds from the start of the graph.
	Reserved bool
	At       int64
}

// Match matches a jobspec (JSON), and gives the job the next free id, from 1. The library's own
// counter also gives ids of jobs that UpdateAllocate put back. Such a job is never freed.
//
// The error is ErrBusy, ErrUnsatisfiable, or ErrInvalid for a wrong jobspec or an unknown type.
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

// MatchWithJobid is Match with an id that the caller chooses, from 1 to 2⁶³−1. The error is
// ErrExists if the id is in use. Operations that allocate nothing ignore the id.
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

// match makes the call. mu is held, the jobspec is checked, and the id is free.
func (c *Client) match(call string, op MatchOp, jobspec string, jobid uint64) (Allocation, error) {
	var r *byte
	var overhead float64
	out := Allocation{JobID: jobid}
	c.lookedAhead = c.lookedAhead || op == MatchAllocateOrElseReserve || op == MatchWithoutAllocatingFuture
	err := c.run(call, func() int32 {
		return c.oracle.match(c.context, int32(op), jobspec, jobid, &out.Reserved, &r, &out.At, &overhead)
	})
	if err != nil {
		// The planner answers ENOENT if it finds no time.
		return Allocation{}, because(err, ErrNotFound, ErrUnsatisfiable)
	}
	out.R = c.oracle.take(r)
	switch {
	case !op.allocates():
		return out, nil
	case out.R == "":
		return Allocation{}, c.nothing(call, jobid)
	}
	c.jobs[jobid] = true
	return out, nil
}

// nothing cancels a job of which the writer has written nothing, and is the error of its match.
func (c *Client) nothing(call string, jobid uint64) error {
	if err := c.cancel(jobid, false); err != nil {
		return err
	}
	return refuse(call, ErrInvalid, "match_format "+strconv.Quote(c.format)+" writes only cores and GPUs below nodes")
}

// UpdateAllocate puts a job back on a graph that has the same vertices. R is the text that a
// match has returned: JGF, or RFC 20 with or without scheduling.
//
// The error is ErrExists if the id is in use, ErrNotFound if a vertex is missing, and
// ErrInvalid if a vertex is different or taken.
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
		return c.oracle.update(c.context, jobid, r, &out.At, &overhead, &text)
	})
	if err != nil {
		return Allocation{}, err
	}
	out.R = c.oracle.take(text)
	c.jobs[jobid] = true
	return out, nil
}

// Cancel ends a job or a reservation. The error is ErrNotFound if there is no such job, unless
// noentOK is true.
func (c *Client) Cancel(jobid uint64, noentOK bool) error {
	mu.Lock()
	defer mu.Unlock()
	return c.cancel(jobid, noentOK)
}

func (c *Client) cancel(jobid uint64, noentOK bool) error {
	err := c.run("cancel", func() int32 { return c.oracle.cancel(c.context, jobid, noentOK) })
	if err == nil {
		delete(c.jobs, jobid)
	}
	return err
}

// PartialCancel gives back a part of a job, and reports whether the part was the whole job.
// The part is an RFC 20 R. It names ranks (execution.R_lite), or has JGF in "scheduling" with
// vertices that the job holds exclusively ("exclusive": true).
//
// The error of a reservation is ErrNotFound. The error of a part that the job does not hold is
// ErrInvalid, and then the vertices before this part in R may be given back.
func (c *Client) PartialCancel(jobid uint64, r string, noentOK bool) (full bool, err error) {
	const call = "partial_cancel"
	if err := errors.Join(checkJobID(jobid), checkPart(r)); err != nil {
		return false, refuse(call, ErrInvalid, err.Error())
	}
	mu.Lock()
	defer mu.Unlock()
	err = c.run(call, func() int32 { return c.oracle.partial(c.context, jobid, r, noentOK, &full) })
	if err != nil || !full {
		return false, err
	}
	delete(c.jobs, jobid)
	return true, nil
}
