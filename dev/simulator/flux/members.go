// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package flux

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

// leave reads which brokers are to leave. The lead always stays. A command that is not malleable
// keeps the brokers on which it began until its end.
func (l *Lead) leave(see Sight) {
	ranks, _ := idset.Parse(see.Told.Drain)
	before := l.busy
	l.busy = map[types.UID]time.Time{}
	for _, b := range ofRanks(see.Online, ranks) {
		if b.Pod == l.pod {
			continue
		}
		_, began := l.brokers[b.Pod]
		until, known := before[b.Pod]
		switch {
		case known, l.kind != malleable && began:
		case l.kind == malleable && !l.began.IsZero():
			until = see.Now.Add(see.Play.Busy)
		default: // the broker has no work
			until = see.Now
		}
		l.busy[b.Pod] = until
	}
}

// leaves reports whether a broker was asked to leave, and so gets no new work.
func (l *Lead) leaves(b Broker) bool {
	_, leaves := l.busy[b.Pod]
	return leaves
}

// isIdle reports whether a broker was asked to leave, and has no work any more.
func (l *Lead) isIdle(b Broker, now time.Time) bool {
	until, leaves := l.busy[b.Pod]
	return leaves && !until.IsZero() && !now.Before(until)
}

// followers makes the pods of followers ready, or not ready if the follower is idle.
func (l *Lead) followers(see Sight, m *Move) {
	for _, b := range see.Online {
		if b.Rank > 0 {
			m.set(b, !l.isIdle(b, see.Now))
		}
	}
}

// working returns how many brokers have a part in the command.
func (l *Lead) working(see Sight) int {
	n := 0
	for _, b := range see.Online {
		_, began := l.brokers[b.Pod]
		if l.kind == malleable && !l.isIdle(b, see.Now) || l.kind != malleable && began {
			n++
		}
	}
	return n
}

// missing returns the ranks of the brokers on which the command began and that are lost, as an idset.
func (l *Lead) missing(see Sight) string {
	there := map[types.UID]bool{}
	for _, b := range see.Online {
		there[b.Pod] = true
	}
	var ranks []int64
	for pod, rank := range l.brokers {
		if !there[pod] && !see.Left[pod] {
			ranks = append(ranks, int64(rank))
		}
	}
	slices.Sort(ranks)
	return idset.Encode(ranks)
}

// share lets a number of brokers share the rest of the work from now on.
func (l *Lead) share(hands int, runtime time.Duration, now time.Time) {
	l.done += time.Duration(l.hands) * now.Sub(l.at)
	l.hands, l.at = hands, now
	n, left := time.Duration(hands), max(0, l.work(runtime)-l.done)
	l.end = now.Add((left + n - 1) / n) // at least the lead works
}

// next returns the time until the next change that time alone causes, or 0 if there is none.
func (l *Lead) next(see Sight, hangs bool) time.Duration {
	var due []time.Time
	for _, until := range l.busy {
		due = append(due, until)
	}
	if !hangs {
		due = append(due, l.end)
	}
	if !l.lost && see.Play.Lose.Len() > 0 {
		due = append(due, l.began.Add(see.Play.LoseAfter))
	}
	if see.Play.Fails == Running {
		due = append(due, l.began.Add(see.Play.FailsAfter))
	}
	next := time.Duration(0)
	for _, at := range due {
		if wait := at.Sub(see.Now); wait > 0 && (next == 0 || wait < next) {
			next = wait
		}
	}
	return next
}

// ofRanks returns the brokers of some ranks.
func ofRanks(brokers []Broker, ranks idset.Set) []Broker {
	var out []Broker
	for _, b := range brokers {
		if ranks.Has(int64(b.Rank)) {
			out = append(out, b)
		}
	}
	return out
}
