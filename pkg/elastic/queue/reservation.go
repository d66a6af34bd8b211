// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import "time"

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
	// shadow is the shadow time; zero if it is not known.
	shadow time.Time
	// keepsIdle is true if the gang has waited for unknown ends for long enough. Then the free
	// room for idle of its pods is kept for it.
	keepsIdle bool
	idle      int
	// ended are the gangs that have ended by the shadow time, by ID.
	ended map[string]bool
	// ahead are the gangs that wait for nodes and are before it in its queue, with their sizes. atShadow has them.
	ahead map[string]int
	// delays is the smallest size that is known to delay the gang, by kind.
	delays map[string]int
}

// reserve makes the reservation of a gang that does not fit now.
func (c *cycle) reserve(e *entry) *reservation {
	r := &reservation{head: e, ended: map[string]bool{}, delays: map[string]int{}}
	if c.settles.After(c.now) && !e.fullUntil.IsZero() { // further nodes may become free in a moment
		r.fits, r.keepsIdle, r.idle = true, true, c.state.fits(e, e.least())
		return r
	}
	ends := c.endsFor(e)
	var n int
	n, r.atShadow, r.fits = c.state.fitsAfter(e, ends)
	if !r.fits {
		ends = c.expectedEnds()
		n, r.atShadow, r.fits = c.state.fitsAfter(e, ends)
	}
	if !r.fits {
		return r
	}
	patient := e.Blocked.Add(e.queue.Patience)
	if !e.fullUntil.IsZero() { // it holds out in vain if its nodes come later
		patient = time.Time{}
	}
	n, r.atShadow = withTies(ends, n, r.atShadow, e.queue.Patience/20, patient)
	unknown := false
	for _, end := range ends[:n] {
		r.ended[end.id] = r.ended[end.id] || end.ranks == nil
		unknown = unknown || end.at.IsZero()
		if end.at.After(r.shadow) {
			r.shadow = end.at
		}
	}
	if unknown {
		r.shadow = time.Time{}
		r.keepsIdle = e.holdsOutNow(c.now) || !e.Blocked.IsZero() && c.now.Sub(e.Blocked) >= e.queue.Patience
		r.idle = c.state.fits(e, e.least())
	}
	return r
}

// binds reports whether a gang has to respect the reservation.
func (r *reservation) binds(e *entry) bool {
	if !r.fits || len(r.head.nodes) > 0 || e.queue == r.head.queue && e.place <= r.head.place {
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
	return known && size >= delays && len(e.nodes) == 0 && (r.keepsIdle || !r.endsInTime(e, now))
}

// endsInTime reports whether a gang will have ended by the shadow time.
func (r *reservation) endsInTime(e *entry, now time.Time) bool {
	if len(e.nodes) > 0 {
		return r.ended[e.ID]
	}
	return e.Limit > 0 && !now.Add(e.Limit).After(r.shadow)
}

// allows reports whether a gang may start as in the trial without delaying the head. It returns
// the cluster at the shadow time if the gang still runs then.
func (r *reservation) allows(e *entry, size int, trial *clusterState, now time.Time) (atShadow *clusterState, ok bool) {
	least := r.head.least()
	switch {
	case !r.fits:
		return nil, true
	case r.keepsIdle:
		if ok = trial.fits(r.head, least) >= r.idle; !ok {
			r.delays[e.kind()] = size
		}
		return nil, ok
	case r.endsInTime(e, now):
		return nil, true
	}
	atShadow = r.atShadow.snapshot()
	if n := max(len(e.nodes), r.ahead[e.ID]); n > 0 {
		atShadow.unplace(e, n)
	}
	if atShadow.place(e, size) == nil || atShadow.fits(r.head, least) < least {
		r.delays[e.kind()] = size
		return nil, false
	}
	return atShadow, true
}

// accept records that a gang has started.
func (r *reservation) accept(e *entry, atShadow *clusterState) {
	switch {
	case !r.fits || r.keepsIdle:
	case atShadow != nil:
		r.atShadow = atShadow
		delete(r.ahead, e.ID)
	default:
		r.ended[e.ID] = true
	}
}
