// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"slices"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// reservation keeps room for a gang that does not fit now, at the time at which it is expected to
// fit. Gangs that start meanwhile must not delay it.
type reservation struct {
	// head is the gang: the head of its queue, or one that waits for nodes that an autoscaler was asked for.
	head *entry
	// fits is true if the gang fits once running gangs have ended. If not, its nodes are down or
	// held by others, and waiting would not help.
	fits bool
	// atShadow is the cluster at the shadow time, when the gang is expected to fit. The nodes
	// that the gang does not need then are the spare nodes.
	atShadow *clusterState
	// shadow is the shadow time, as far as one can tell; zero if the gang waits for no end. If sure is true, the gang fits
	// then at the latest, and only gangs with a limit pass because they end by then.
	shadow time.Time
	sure   bool
	// promise is the reservation by the ends alone that are sure, if the gang fits after these and the shadow time is not
	// sure; nil otherwise.
	promise *reservation
	// impatient is true if the gang has been put off for longer than its queue's patience by gangs that passed it and took
	// longer than expected. Then only gangs with a limit pass because they end in time.
	impatient bool
	// keepsIdle is true if the free room for idle of its pods is kept for the gang, whatever ends.
	keepsIdle bool
	idle      int
	// ended are the gangs that have ended by the shadow time, by ID.
	ended map[string]bool
	// ahead are the gangs that wait for nodes and are before it in its queue, with their sizes. atShadow has them.
	ahead map[string]int
	// stale is true if a gang took nodes of the gang, and the reservation is to be made again.
	stale bool
	// delays is the smallest size that is known to delay the gang, by kind.
	delays map[string]int
}

// reserve makes the reservation of a gang that does not fit now.
func (c *cycle) reserve(e *entry) *reservation {
	r := &reservation{head: e, ended: map[string]bool{}, delays: map[string]int{}}
	if c.settles.After(c.now) && !e.fullUntil.IsZero() { // further nodes may become free in a moment
		r.fits, r.keepsIdle, r.idle = true, true, c.state.fits(e, e.least())
		r.sure, r.shadow = !e.Promised.IsZero(), e.Promised
		return r
	}
	if !r.at(c.ahead()) {
		return r
	}
	if !r.sure {
		promise := &reservation{head: e, ended: map[string]bool{}, delays: map[string]int{}}
		if promise.at(c.sureAhead(e)) {
			r.promise = promise
		}
		r.keepsIdle = e.holdsOutNow(c.now)
		r.idle = c.state.fits(e, e.least())
		r.impatient = e.impatient
	}
	return r
}

// at reserves for the gang at the time at which some ends have left enough for it, and reports whether they do.
func (r *reservation) at(f *forecast) bool {
	var n int
	if n, r.atShadow, r.fits = f.until(r.head); !r.fits {
		return false
	}
	ends := f.ends
	n, r.atShadow = withTies(ends, n, r.atShadow, r.head.queue.Patience/20)
	r.sure = n > 0
	for _, end := range ends[:n] {
		r.ended[end.id] = r.ended[end.id] || end.ranks == nil
		r.sure = r.sure && end.isSureFor(r.head)
		if end.at.After(r.shadow) {
			r.shadow = end.at
		}
	}
	return true
}

// endlessly is for how many times as long as a head had waited before it may be put off for the first time. The number has
// to be large: one estimate that was wrong may be wrong for long, and patience with it lets many small gangs run.
const endlessly = 30

// noteDelay finds out whether a head has been put off for longer than its queue's patience by others that took longer than
// expected. The patience begins when that happens for the second time: of many estimates, some are always wrong. It also
// begins if the first time does not end, because new ones are late before those before them have ended.
func (c *cycle) noteDelay(e *entry) {
	passed, outlived := c.passed(e)
	late := len(outlived) > 0 && !c.state.fitsAfter(passed, e)
	switch d := &e.Delay; {
	case late && d.Since.IsZero():
		d.Since = c.now
	case late && !d.Again && c.now.Sub(d.Since) >= max(endlessly*d.Since.Sub(e.Blocked), e.queue.Patience):
		*d = Delay{Since: c.now, Again: true}
	case !late && !d.Again && !d.Since.IsZero():
		*d = Delay{Again: true}
	}
	e.impatient = e.Delay.Again && !e.Delay.Since.IsZero() && !c.now.Before(e.Delay.Since.Add(e.queue.Patience)) &&
		c.state.fitsAfter(slices.Concat(passed, outlived), e)
}

// fitsAfter reports whether a gang fits after some ends.
func (s *clusterState) fitsAfter(ends []expectedEnd, e *entry) bool {
	return s.after(ends).fits(e, e.least()) >= e.least()
}

// passed are the ends of the gangs that passed a gang, or that leave. Those that have outlived their estimates are apart.
func (c *cycle) passed(e *entry) (passed, outlived []expectedEnd) {
	ends := c.expectedEnds()
	for i := range ends {
		switch end := &ends[i]; {
		case end.late && end.began.After(e.Blocked):
			outlived = append(outlived, *end)
		case end.leaving || end.began.After(e.Blocked):
			passed = append(passed, *end)
		}
	}
	return passed, outlived
}

// binds reports whether a gang has to respect the reservation.
func (r *reservation) binds(e *entry) bool { return r.fits && r.mayBind(e) }

// mayBind reports whether the gang has to respect the reservation if its head fits once gangs have ended.
func (r *reservation) mayBind(e *entry) bool {
	if len(r.head.nodes) > 0 || e.queue == r.head.queue && e.place <= r.head.place {
		return false
	}
	return e.queue == r.head.queue || !r.head.overCapacity && e.queue.Priority <= r.head.queue.Priority
}

// kind is the same for gangs of which all delay a gang, or none does, if they have the same size.
func (e *entry) kind() string {
	kind := e.queue.Name + "/" + e.class
	if may := &e.queue.Users; may.MaxRunning > 0 || may.MaxNodes > 0 {
		kind += "/" + e.user.name
	}
	return kind
}

// isDelayedBy reports whether another gang of this kind and size was found to delay the head.
func (r *reservation) isDelayedBy(e *entry, size int, now time.Time) bool {
	delays, known := r.delays[e.kind()]
	if known && size >= delays && len(e.nodes) == 0 && (r.keepsIdle || !r.endsInTime(e, size, now)) {
		return true
	}
	return r.promise != nil && r.promise.isDelayedBy(e, size, now)
}

// endsInTime reports whether a gang will have ended by the shadow time, as far as one can tell. One of which nothing is known
// never counts as if it had.
func (r *reservation) endsInTime(e *entry, size int, now time.Time) bool {
	if len(e.nodes) > 0 {
		return r.ended[e.ID]
	}
	runs, vague := e.estimate(size)
	if vague || e.Limit == 0 && (r.sure || r.impatient) {
		return false
	}
	return !now.Add(runs).After(r.shadow)
}

// allows reports whether a gang may start as in the trial without delaying the head. It adds to afters the cluster at the
// shadow time if the gang still runs then.
func (r *reservation) allows(e *entry, size int, trial *clusterState, now time.Time, afters map[*reservation]*clusterState) bool {
	least := r.head.least()
	ok := true
	switch {
	case !r.fits:
	case !r.keepsIdle && r.endsInTime(e, size, now):
	case r.keepsIdle || r.impatient:
		ok = trial.fits(r.head, least) >= r.idle
	default:
		atShadow := r.atShadow.snapshot()
		if n := max(len(e.nodes), r.ahead[e.ID]); n > 0 {
			atShadow.unplace(e, n)
		}
		ok = atShadow.place(e, size) != nil && atShadow.fits(r.head, least) >= least
		afters[r] = atShadow
	}
	if !ok {
		r.delays[e.kind()] = size
		return false
	}
	return r.promise == nil || r.promise.allows(e, size, trial, now, afters)
}

// accept records that a gang has started, with what allows has added, and the cluster now.
func (r *reservation) accept(e *entry, afters map[*reservation]*clusterState, now *clusterState) {
	switch atShadow := afters[r]; {
	case !r.fits:
	case atShadow != nil:
		r.atShadow = atShadow
		delete(r.ahead, e.ID)
	case r.impatient: // it may have passed onto free nodes of the head
		r.idle = now.fits(r.head, r.idle)
	case !r.keepsIdle:
		r.ended[e.ID] = true
	}
	if r.promise != nil {
		r.promise.accept(e, afters, now)
	}
}

// promised is when the head starts at the latest, as far as its user is told; zero if this is not known. A promise stays a while
// beyond its time: those that end then still end.
func (r *reservation) promised(now time.Time) time.Time {
	switch {
	case r.sure:
		return r.shadow
	case r.promise != nil:
		return r.promise.shadow
	case now.Before(r.head.Promised.Add(leavesLate)) && (!now.Before(r.head.Promised) || r.shadow.Before(r.head.Promised.Add(leavesLate))):
		return r.head.Promised
	}
	return time.Time{}
}

// guessLook is how often a cycle looks at most whether ends that are not sure are late.
const guessLook = 10 * time.Second

// looksAt is when time alone may change who passes the head.
func (r *reservation) looksAt(now time.Time) time.Time {
	if r.sure || r.shadow.IsZero() {
		return r.shadow
	}
	at := r.shadow
	if soonest := now.Add(guessLook); at.Before(soonest) {
		at = soonest
	}
	if patient := r.head.Delay.Since.Add(r.head.queue.Patience); r.head.Delay.Again && patient.After(now) {
		at = elastic.Earliest(at, patient)
	}
	return at
}
