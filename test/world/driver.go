// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package world

import (
	"fmt"
	"strings"
	"testing/synctest"
	"time"

	"github.com/flux-elastic/flux-elastic/test/world/apiserver"
	"github.com/flux-elastic/flux-elastic/test/world/models"
)

// action is one thing that may happen next.
type action struct {
	weight int
	// what is its name in the trace, the same in each run of a seed; "" if do says what happened.
	what string
	do   func()
}

// How often kinds of actions are drawn. Time passes slowly while anything else can happen, so that most things happen in
// their usual order, and some do not.
const (
	weightRequest = 20
	weightPass    = 20
	weightEvent   = 20
	weightModel   = 10
	// timePasses is the chance, of so many, that time passes although something else can happen.
	timePasses = 100
)

// longestWait is how long the world waits for something to happen at most.
const longestWait = 30 * time.Second

// run lets the world go on until a time.
func (w *World) run(until time.Time) {
	for time.Now().Before(until) && w.violation == nil {
		w.step(until)
	}
}

// step lets one thing happen: one that is due, one of those that may happen, or time passes.
func (w *World) step(until time.Time) {
	synctest.Wait()
	w.steps++
	w.writeNotes()
	w.buryDead()
	if w.check(); w.violation != nil {
		return
	}
	if w.doDue() {
		return
	}
	possible := w.possible()
	if len(possible) == 0 || w.draw.IntN(timePasses) == 0 {
		w.pass(until, len(possible) > 0)
		return
	}
	total := 0
	for _, a := range possible {
		total += a.weight
	}
	n := w.draw.IntN(total)
	for _, a := range possible {
		if n -= a.weight; n < 0 {
			if a.what != "" {
				w.trace(a.what)
			}
			a.do()
			return
		}
	}
}

// possible are all actions that may happen now, in an order that each run of the seed has.
func (w *World) possible() []action {
	var out []action
	for _, waiter := range w.turnstile.waiting() {
		if m := w.managers[waiter.manager]; m != nil && m.halted {
			continue
		}
		weight := weightRequest
		if waiter.pass {
			weight = weightPass
		}
		out = append(out, action{weight: weight, do: func() { w.let(waiter) }})
	}
	for _, stream := range w.server.Streams() {
		if stream.Pending() == 0 || w.isStale(stream) {
			continue
		}
		out = append(out, action{weight: weightEvent, what: "deliver " + w.nameOf(stream), do: stream.Deliver})
	}
	version, now := w.server.Version(), time.Now()
	for _, model := range w.models {
		if nap, naps := w.naps[model.Name()]; naps && nap.version == version && (nap.until.IsZero() || now.Before(nap.until)) {
			continue
		}
		out = append(out, action{weight: weightModel, do: func() { w.stepModel(model) }})
	}
	return out
}

// nameOf is the name of a stream in the trace.
func (w *World) nameOf(stream *apiserver.Stream) string {
	return w.turnstile.watcher(stream) + " " + stream.Kind()
}

// isStale reports whether the events of a stream are held back now.
func (w *World) isStale(stream *apiserver.Stream) bool {
	m := w.managers[w.turnstile.watcher(stream)]
	return m == nil || m.halted || time.Now().Before(w.staleUntil[w.nameOf(stream)])
}

// nap is until when a model has nothing to do, unless objects change; zero: for ever.
type nap struct {
	version uint64
	until   time.Time
}

// pausedFor is when a model is looked at again that did nothing.
const pausedFor = 10 * time.Millisecond

// stepModel lets a model do one thing. What it wrote is in the trace.
func (w *World) stepModel(model models.Model) {
	before := w.server.Version()
	if !model.Step(w.ctx) {
		w.steps--
		next := model.Next()
		if soon := time.Now().Add(pausedFor); !next.IsZero() && next.Before(soon) {
			next = soon // it is paused
		}
		w.naps[model.Name()] = nap{before, next}
		return
	}
	clear(w.naps) // models look at each other
	line := model.Name()
	for _, entry := range w.server.Log(w.seen) {
		line += fmt.Sprintf(" %s %s%s %s", entry.Verb, entry.Kind, entry.Subresource, entry.Key)
	}
	w.trace(line)
}

// let lets a request or a pass go on, unless a fault comes over it.
func (w *World) let(waiter *waiter) {
	v, why := goOn, ""
	if !waiter.pass {
		v, why = w.faultOf(waiter)
	}
	w.trace(strings.TrimSpace(waiter.manager + " " + waiter.what + why))
	w.turnstile.let(waiter, v)
}

// pass lets time pass: a little while other things can happen, or until something does.
func (w *World) pass(until time.Time, busy bool) {
	now := time.Now()
	limit := now.Add(longestWait)
	if busy {
		limit = now.Add(time.Duration(1 + w.draw.ExpFloat64()*float64(50*time.Millisecond)))
	}
	limit = earliest(limit, until, w.nextDeed())
	for _, model := range w.models {
		if nap, ok := w.naps[model.Name()]; ok {
			limit = earliest(limit, nap.until)
		}
	}
	for _, stale := range w.staleUntil {
		if stale.After(now) {
			limit = earliest(limit, stale)
		}
	}
	if !limit.After(now) {
		limit = now.Add(time.Millisecond)
	}
	select {
	case <-w.turnstile.arrived:
	default:
	}
	timer := time.NewTimer(limit.Sub(now))
	defer timer.Stop()
	select {
	case <-w.turnstile.arrived:
	case <-timer.C:
	}
}

// earliest returns the first of some times, without those that are zero.
func earliest(times ...time.Time) time.Time {
	var first time.Time
	for _, t := range times {
		if !t.IsZero() && (first.IsZero() || t.Before(first)) {
			first = t
		}
	}
	return first
}

// trace records what happens.
func (w *World) trace(line string) {
	w.result.Trace = append(w.result.Trace, fmt.Sprintf("%10.3f %s", time.Since(w.began).Seconds(), line))
}
