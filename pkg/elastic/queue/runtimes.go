// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"math/bits"
	"slices"
	"time"
)

// Runtimes are how long the gangs of users have taken, so that the next ones are expected to take as long. (Tsafrir,
// Etsion and Feitelson 2007: the last run times of a user predict better than the user's own estimates.)
type Runtimes struct {
	most    int // users
	users   map[string]*history
	queues  map[string]*recent
	learned int // how often Learn has recorded something
}

// recent are the run times at the full size of the last gangs of a queue.
type recent struct {
	runs []time.Duration // at most mostRecent
	next int             // the oldest, if there are as many
	half time.Duration   // how long half of them took at most
}

// mostRecent is how many gangs of a queue tell how long the next ones run.
const mostRecent = 100

func (q *recent) add(runs time.Duration) {
	if len(q.runs) < mostRecent {
		q.runs = append(q.runs, runs)
	} else {
		q.runs[q.next] = runs
		q.next = (q.next + 1) % mostRecent
	}
	sorted := slices.Clone(q.runs)
	slices.Sort(sorted)
	q.half = sorted[(len(sorted)-1)/2]
}

// history is how long the gangs of one user have taken.
type history struct {
	// kinds are by the binary digits of the full size: from each power of two up to the next.
	kinds []average
	// last is Runtimes.learned when the last of them ended.
	last int
}

// average is the exponential average of run times at the full size, in which the last one counts half. deviation is
// that of how far each was off the average before.
type average struct {
	runtime, deviation time.Duration
	seen               int
}

// steadiness is the part of their average by which run times may be off, so that the average says something.
const steadiness = 0.25

// NewRuntimes makes Runtimes that know nothing yet. They remember as many users as given, at least one: those whose
// gangs ended last.
func NewRuntimes(most int) *Runtimes {
	return &Runtimes{most: max(most, 1), users: map[string]*history{}, queues: map[string]*recent{}}
}

// kindOf is the index of a gang in the kinds of its user.
func kindOf(g *Gang) int { return bits.Len(uint(max(g.Sizing.Size, 0))) }

// Learn records that a gang has ended. On half of its full size a gang takes twice as long.
func (r *Runtimes) Learn(gang *Running, ended time.Time) {
	ran, kind := ended.Sub(gang.Admitted), kindOf(&gang.Gang)
	if ran <= 0 || kind == 0 {
		return
	}
	h := r.users[gang.User]
	if h == nil {
		r.makePlace()
		h = &history{}
		r.users[gang.User] = h
	}
	r.learned++
	h.last = r.learned
	if kind >= len(h.kinds) {
		h.kinds = append(h.kinds, make([]average, kind+1-len(h.kinds))...)
	}
	runs := time.Duration(float64(ran) * float64(len(gang.Ranks)) / float64(gang.Sizing.Size))
	h.kinds[kind].add(runs)
	if r.queues[gang.Queue] == nil {
		r.queues[gang.Queue] = &recent{}
	}
	r.queues[gang.Queue].add(runs)
}

// makePlace forgets the user whose last gang ended first, if there are as many as may be.
func (r *Runtimes) makePlace() {
	if len(r.users) < r.most {
		return
	}
	var oldest string
	for user, h := range r.users {
		if first := r.users[oldest]; first == nil || h.last < first.last {
			oldest = user
		}
	}
	delete(r.users, oldest)
}

func (a *average) add(runtime time.Duration) {
	off := (runtime - a.runtime).Abs()
	switch a.seen++; a.seen {
	case 1:
		a.runtime = runtime
	case 2:
		a.runtime, a.deviation = (a.runtime+runtime)/2, off
	default:
		a.runtime, a.deviation = (a.runtime+runtime)/2, (a.deviation+off)/2
	}
}

// steady reports whether the run times are about the same. One run time does not tell.
func (a *average) steady() bool {
	return a.seen > 1 && float64(a.deviation) <= steadiness*float64(a.runtime)
}

// Expect sets how long a gang is expected to run, if neither a limit nor its user says that: as long as the user's
// gangs of the nearest size of which the run times are steady. It also sets how long gangs of the queue usually run.
func (r *Runtimes) Expect(g *Gang) {
	if q := r.queues[g.Queue]; q != nil {
		g.Usual = q.half
	}
	h := r.users[g.User]
	if h == nil || g.Expected > 0 || g.Limit > 0 {
		return
	}
	kind, nearest := kindOf(g), -1
	for i := range h.kinds {
		if h.kinds[i].steady() && (nearest < 0 || abs(i-kind) < abs(nearest-kind)) {
			nearest = i
		}
	}
	if nearest >= 0 {
		g.Expected, g.Learned = h.kinds[nearest].runtime, true
	}
}

func abs(n int) int { return max(n, -n) }
