// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package life

import "time"

// Usage is for how long a MiniCluster had nodes, in node-seconds: a rank that has its node for one second is one of
// these. Only whole seconds count, so that nothing is lost or counted twice when times are recorded in seconds.
type Usage struct {
	// Useful is what the successful attempt used while the command ran, and Lost is what else the attempts used that have
	// ended.
	Useful, Lost int64
	// Held is what the current attempt used until At, and Starting is the part of this before its command began. At is
	// zero if nothing was counted yet.
	Held, Starting int64
	At             time.Time
}

// After is the usage after a decision: what the record before has held until then counts. If the decision ends the
// attempt, it says whether the attempt was useful.
func (u Usage) After(before, after Record, now time.Time) Usage {
	if before.Admission == nil || before.Outcome != "" {
		return Usage{Useful: u.Useful, Lost: u.Lost}
	}
	u.hold(before, now)
	switch {
	case after.Outcome == OutcomeSucceeded:
		u.Useful, u.Lost = u.Useful+u.Held-u.Starting, u.Lost+u.Starting
	case after.Outcome != "" || after.Admission == nil:
		u.Lost += u.Held
	}
	return u
}

// hold counts what a record holds until a time.
func (u *Usage) hold(r Record, until time.Time) {
	if u.At.IsZero() {
		u.At = r.Admission.At.Truncate(time.Second)
	}
	if until = until.Truncate(time.Second); until.Before(u.At) { // by another clock
		return
	}
	held := int64(len(r.Admission.Members())) * int64(until.Sub(u.At)/time.Second)
	u.Held, u.At = u.Held+held, until
	if r.Started.IsZero() {
		u.Starting += held
	}
}
