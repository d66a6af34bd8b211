// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// score is the place of a gang in a queue with the ordering Slowdown: of a priority, the largest goes first.
type score struct {
	// slowdown is the time from when the gang was made until it would end, as a multiple of how long it runs. The longer a
	// gang waits, and the sooner it would end, the larger. (Largest expansion factor first: Srinivasan, Kettimuthu,
	// Subramani and Sadayappan 2002.)
	slowdown float64
	// fair is from 1, for a user without usage, down: 1/2 for an even share of what all users of the queue have. It is 1 if
	// usage does not count. (As the fair-share factor of Slurm's multifactor priority.)
	fair float64
}

func (s score) value() float64 { return s.slowdown * s.fair }

func (s score) String() string {
	if s.fair == 1 {
		return fmt.Sprintf("score %.2g: its slowdown", s.slowdown)
	}
	return fmt.Sprintf("score %.2g: slowdown %.2g × fair share %.2g", s.value(), s.slowdown, s.fair)
}

// shortestRun is the shortest run time that counts for a slowdown.
const shortestRun = 10 * time.Second

// rank sorts the gangs of a queue by their scores.
func (c *cycle) rank(q *jobQueue) {
	has := c.holdings(q)
	for _, e := range q.all {
		e.score = &score{slowdown: e.slowdown(c.now), fair: 1}
		if q.Users.HalfLife > 0 {
			e.score.fair = math.Exp2(-float64(len(q.users)) * (e.user.past + c.state.share(has[e.user.name])))
		}
	}
	slices.SortStableFunc(q.all, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), cmp.Compare(b.score.value(), a.score.value()))
	})
}

// slowdown counts no estimate of the user: whoever estimates less would go first.
func (e *entry) slowdown(now time.Time) float64 {
	runs := unknownRun
	switch {
	case e.Limit > 0:
		runs = e.Limit
	case e.Learned:
		runs = e.runs(e.least())
	case e.Usual > 0:
		runs = e.scaled(e.Usual, e.least())
	}
	runs = max(runs, shortestRun)
	return (max(now.Sub(e.Created), 0) + runs).Seconds() / runs.Seconds()
}
