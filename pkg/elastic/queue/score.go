// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"
)

// score is the place of a gang in a queue with the ordering Slowdown: of a priority, the largest goes first.
type score struct {
	// slowdown is the time from when the gang was queued until it would end, as a multiple of how long it runs. The longer a
	// gang waits, and the sooner it would end, the larger. (Largest expansion factor first: Srinivasan, Kettimuthu,
	// Subramani and Sadayappan 2002.)
	slowdown float64
	// fair is 1 for a user without usage, and is halved for each even share of the usage of all users of the queue. It is 1
	// if usage does not count. (The fair-share factor of Slurm's multifactor priority.)
	fair float64
}

func (s score) value() float64 { return s.slowdown * s.fair }

// String tells the parts of the score about, so that it rarely changes.
func (s score) String() string {
	if s.fair == 1 {
		return "slowdown about " + about(s.slowdown)
	}
	return "score about " + about(s.value()) + ": slowdown " + about(s.slowdown) + " × fair share " + about(s.fair)
}

// about is a number in steps of the square root of two, with two digits.
func about(x float64) string {
	if x < 0.01 {
		return "0"
	}
	x = math.Exp2(math.Round(2*math.Log2(x)) / 2)
	if x >= 10 {
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'g', 2, 64)
}

const (
	// shortestRun is the shortest run time that counts for a slowdown.
	shortestRun = 10 * time.Second
	// scoreLook is how often the order of a queue is looked at that changes with time alone.
	scoreLook = time.Minute
)

// rank sorts the gangs of a queue by their scores. Those go first that were promised a start, or for which nodes come.
func (c *cycle) rank(q *jobQueue) {
	fair := c.fairness(q)
	for _, e := range q.all {
		e.score = &score{slowdown: e.slowdown(c.now), fair: fair(e.User)}
	}
	slices.SortStableFunc(q.all, func(a, b *entry) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), compare(b.goesFirst(), a.goesFirst()), cmp.Compare(b.score.value(), a.score.value()))
	})
}

// fairness are the fair-share factors of the users of a queue who have nodes, or may have some.
func (c *cycle) fairness(q *jobQueue) func(user string) float64 {
	if q.Users.HalfLife == 0 {
		return func(string) float64 { return 1 }
	}
	may := map[string]bool{} // have some
	for _, e := range q.all {
		may[e.User] = may[e.User] || e.verdict == ""
	}
	holds, usage := c.holdings(q), map[string]float64{}
	users, sum := 0.0, 0.0
	for _, user := range slices.Sorted(maps.Keys(holds)) {
		usage[user] = q.users[user].past + c.state.share(holds[user])
		if may[user] || len(holds[user]) > 0 {
			users, sum = users+1, sum+usage[user]
		}
	}
	return func(user string) float64 {
		if sum == 0 {
			return 1
		}
		return math.Exp2(-users * usage[user] / sum)
	}
}

// slowdown counts no estimate of the user that is shorter than what is known otherwise: whoever estimates less would go first.
func (e *entry) slowdown(now time.Time) float64 {
	runs := unknownRun
	if e.Usual > 0 {
		runs = e.scaled(e.Usual, e.least())
	}
	switch {
	case e.Limit > 0:
		runs = e.Limit
	case e.Learned:
		runs = e.runs(e.least())
	case e.Expected > 0:
		runs = max(runs, e.runs(e.least()))
	}
	runs = max(runs, shortestRun)
	return (max(now.Sub(e.Created), 0) + runs).Seconds() / runs.Seconds()
}
