// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package flux

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

// again is the state of a command that writes checkpoints, and is run again.
type again struct {
	// restarts counts how often the command was run again, and told is the last of these that the lead was told.
	restarts, told int
	// writes is until when the command writes the checkpoint after which it ends; zero if it does not. It does no work
	// meanwhile.
	writes time.Time
	// isDown is true while the command has ended and does not run again yet. down is since when the pod of the lead has
	// been seen not ready; zero before.
	isDown bool
	down   time.Time
}

// LookAgain is how long the lead's pod is not ready at least, and how often the lead looks for its brokers. Times of
// conditions are in seconds, and the pod has to become ready at another time.
const LookAgain = 1100 * time.Millisecond

// playAgain plays a command that is to run again with other brokers, or has lost some. It returns when to go on; 0 if
// the command runs.
func (l *Lead) playAgain(see Sight, m *Move) time.Duration {
	if !l.Settings.restarts {
		return 0
	}
	l.leave(see)
	l.followers(see, m)
	if !l.isDown && !l.rescue(see) {
		if see.Told.Restarts <= l.told {
			return 0
		}
		if see.Told.Restarts != l.restarts || see.Told.Ranks != l.ranks() { // otherwise it was run again with these ranks before
			if wait := l.write(see.Play.Checkpoint, see.Now); wait > 0 {
				return wait
			}
			l.save(m, &see)
		}
		l.isDown = true
	}
	return l.runAgain(see, m)
}

// rescue lets a command that has lost brokers run again with the others, from its last checkpoint, if these are enough.
func (l *Lead) rescue(see Sight) bool {
	here := slices.DeleteFunc(slices.Clone(see.Online), func(b Broker) bool { _, has := l.brokers[b.Pod]; return !has })
	size := l.Settings.Sizing.LargestWithin(len(here))
	if len(here) == len(l.brokers) || !l.Settings.rescued || size == 0 {
		return false
	}
	l.runOn(here[:size], see.Now)
	l.resume(see.Saved, see.Play.Runtime)
	l.isDown, l.writes = true, time.Time{}
	l.restarts++
	return true
}

// write lets the command write a checkpoint, and returns how long that will take; 0 if the checkpoint is written.
func (l *Lead) write(takes time.Duration, now time.Time) time.Duration {
	if l.writes.IsZero() {
		l.stand(now)
		l.writes = now.Add(takes)
	}
	return max(l.writes.Sub(now), 0)
}

// runAgain runs the command on the ranks that the lead was told, once all of these are there.
func (l *Lead) runAgain(see Sight, m *Move) time.Duration {
	switch own := l.own(see); {
	case own.Ready:
		m.set(own, false)
		return LookAgain
	case l.down.IsZero():
		l.down = see.Now
	}
	if wait := l.down.Add(LookAgain).Sub(see.Now); wait > 0 {
		return wait
	}
	if told := see.Told; told.Restarts > l.told && (told.Restarts != l.restarts || told.Ranks != l.ranks()) {
		ranks, _ := idset.Parse(told.Ranks)
		brokers := ofRanks(see.Online, ranks)
		if len(brokers) < int(ranks.Len()) || len(brokers) == 0 {
			return LookAgain
		}
		l.runOn(brokers, see.Now)
		l.resume(see.Saved, see.Play.Runtime)
		l.restarts, l.told = told.Restarts, told.Restarts
	} else {
		l.told = told.Restarts
	}
	l.isDown, l.down, l.writes = false, time.Time{}, time.Time{}
	return 0
}

// ranks are those of the command, an idset.
func (l *Lead) ranks() string {
	var ranks []int
	for _, rank := range l.brokers {
		ranks = append(ranks, rank)
	}
	slices.Sort(ranks)
	return idset.Encode(ranks)
}

// stand lets the command do no work from now on.
func (l *Lead) stand(now time.Time) {
	l.done += time.Duration(l.hands) * now.Sub(l.at)
	l.hands, l.at = 0, now
}

// resume lets the command go on from a part of its work.
func (l *Lead) resume(saved float64, runtime time.Duration) {
	l.done = time.Duration(saved * float64(l.work(runtime)))
}

// save keeps the work of the command as its last checkpoint.
func (l *Lead) save(m *Move, see *Sight) {
	see.Saved = min(float64(l.done)/float64(max(l.work(see.Play.Runtime), 1)), 1)
	m.Saved = &see.Saved
}

// stop ends the command, after a checkpoint if it is asked for one and has the time.
func (l *Lead) stop(see Sight, m *Move) {
	_, text, _ := strings.Cut(see.Told.Stop, " ")
	seconds, _ := strconv.Atoi(text)
	if l.began.IsZero() || !l.Settings.asks || seconds <= 15 {
		m.End = &End{ExitStopped, protocol.AskedMessage(false)}
		return
	}
	if m.Again = l.write(see.Play.Checkpoint, see.Now); m.Again > 0 {
		return
	}
	l.save(m, &see)
	m.End = &End{ExitStopped, protocol.AskedMessage(true)}
}
