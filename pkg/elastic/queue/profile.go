// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"sort"
	"time"
)

// profile is how the cluster will be from now on, as far as one can tell. Running gangs are there until
// they end, and gangs of one queue from their reserved starts on. In the order of the queue, each of them gets
// the earliest start that delays none ahead of it: conservative backfilling (Feitelson and Weil 1998).
type profile struct {
	steps []profileStep // rising by time; the first is now
	// promised is the latest start that was promised. Until then, a gang whose end is not sure counts as if it had none.
	promised time.Time
	// missing are gangs of other queues that have started since, or got another size. They get their places when the profile is
	// used again.
	missing []started
	// placed are the places of the gangs that start in this cycle or have reservations, by ID.
	placed map[string]place
}

// place is when a gang has nodes in a profile, and how many.
type place struct {
	size int
	// from is the first step, and until the step after the last; zero if there is none.
	from, until time.Time
	// unsure is the end of the gang if that is not sure; zero otherwise.
	unsure time.Time
}

// covers reports whether the gang has its nodes during a step.
func (p *place) covers(s *profileStep) bool {
	return !s.at.Before(p.from) && (p.until.IsZero() || s.at.Before(p.until))
}

// profileStep is the cluster from one time until the next step.
type profileStep struct {
	// at is when the step comes, as far as one can tell. If sure is true, it comes then at the latest, but for unsure
	// gangs with reservations that end then.
	at     time.Time
	sure   bool
	unsure int
	// ends are those of the gangs that have nodes now, at which the step begins.
	ends []expectedEnd
	// state is the cluster. Its room is without the gangs in held. If shared is true, other steps have the same.
	state  *clusterState
	shared bool
	// held are gangs of one class that were placed here and have no nodes yet, because the number of nodes is
	// enough for gangs of this class. room is the room for pods of the class beside them.
	held  []started
	class string // "" if room is not known
	room  int
}

// started is a gang that has started at a size.
type started struct {
	*entry
	size int
}

// own copies what the step shares with others, before a change.
func (s *profileStep) own() {
	if s.shared {
		s.state, s.held, s.shared = s.state.snapshot(), slices.Clone(s.held), false
	}
}

// fits is the number of pods of a gang that may run during the step, at most limit.
func (s *profileStep) fits(e *entry, limit int) int {
	if e.Confined {
		s.settle()
		return s.state.fits(e, limit)
	}
	if len(s.state.guarantors) > 0 {
		s.roomFor(e) // so that the held gangs are of its class
	}
	limit = s.state.allowed(&e.Gang, e.user, 1, limit)
	if limit == 0 || e.overCapacity {
		return limit
	}
	return min(limit, s.roomFor(e))
}

// roomFor is the number of pods of a gang for which there is room, unless the gang is confined.
func (s *profileStep) roomFor(e *entry) int {
	if s.class != e.class {
		s.settle()
		s.class, s.room = e.class, e.fitsIn(s.state.room, math.MaxInt)
	}
	return s.room
}

// settle gives the held gangs their nodes, in the order in which they were placed.
func (s *profileStep) settle() {
	if len(s.held) > 0 {
		s.own()
	}
	for _, h := range s.held {
		s.state.room.Place(h.ID, []int{h.size})
	}
	s.held, s.class, s.state.unplaced = nil, "", nil
}

// place gives a gang nodes during the step at a size, and reports whether it fits.
func (s *profileStep) place(e *entry, size int) bool {
	s.own()
	if e.Confined {
		s.settle()
		return s.state.place(e, size) != nil
	}
	if s.roomFor(e) < size {
		return false
	}
	s.held, s.room = append(s.held, started{e, size}), s.room-size
	s.hold(e, size)
	return true
}

// hold counts a gang that is held at a size, or no longer if the size is negative.
func (s *profileStep) hold(e *entry, size int) {
	if s.state.unplaced == nil {
		s.state.unplaced = make([]int64, len(s.state.names))
	}
	addTo(s.state.unplaced, e.needs, size)
	s.state.add(e.user, e.needs, cmp.Compare(size, 0), size)
}

// unplace takes the nodes of a gang back that was placed here at a size.
func (s *profileStep) unplace(e *entry, size int) {
	s.own()
	if i := slices.Index(s.held, started{e, size}); i >= 0 {
		s.held, s.room = slices.Delete(s.held, i, i+1), s.room+size
		s.hold(e, -size)
		return
	}
	if s.class == e.class && !e.Confined {
		s.room += size
	} else {
		s.settle()
	}
	s.state.unplace(e, size)
}

// newProfile is the profile without reservations, for the gangs of a queue from one on. All queues begin with the same steps.
func (c *cycle) newProfile(from *entry) *profile {
	if c.plain == nil {
		c.plain = c.plainProfile()
	}
	missing := c.plain.missing
	c.plain.catchUp()
	for _, m := range missing {
		end := m.end(m.size, c.now)
		s := &c.plain.steps[c.plain.stepAt(end.at)]
		s.ends = append(slices.Clip(s.ends), end)
	}
	p := c.plain.fork()
	for i := range p.steps {
		s := &p.steps[i]
		s.sure = !slices.ContainsFunc(s.ends, func(end expectedEnd) bool { return !end.isSureFor(from) })
	}
	return p
}

// plainProfile is the profile by the forecast alone.
func (c *cycle) plainProfile() *profile {
	f, p := c.ahead(), &profile{placed: map[string]place{}}
	for _, e := range c.admitted {
		p.placed[e.ID] = place{size: len(e.nodes), from: c.now}
	}
	at := c.now
	for i := 0; f.reach(i); i++ {
		s := profileStep{at: at, sure: true, state: f.steps[i].clusterState, shared: true}
		if i > 0 {
			s.ends = f.ends[f.steps[i-1].n:f.steps[i].n]
			s.at = s.ends[len(s.ends)-1].at
		}
		for _, end := range s.ends {
			if had, ok := p.placed[end.id]; ok {
				had.until = s.at
				p.placed[end.id] = had
			}
		}
		p.steps = append(p.steps, s)
	}
	return p
}

// end is when a gang ends that starts with a step at a size, as far as one can tell.
func (p *profile) end(e *entry, size, first int) (at time.Time, sure, vague bool) {
	step := &p.steps[first]
	runs, vague := e.estimate(size)
	return step.at.Add(runs), step.isSure() && e.Limit > 0, vague
}

func (s *profileStep) isSure() bool { return s.sure && s.unsure == 0 }

// isSure reports whether all that happens until a step happens then at the latest.
func (p *profile) isSure(first int) bool {
	for i := range p.steps[:first+1] {
		if !p.steps[i].isSure() {
			return false
		}
	}
	return true
}

// stepAt is the step that begins at a time, which is made; the first if the time is over.
func (p *profile) stepAt(at time.Time) int {
	i := p.stepFrom(at)
	if i == len(p.steps) || p.steps[i].at.After(at) && i > 0 {
		p.steps[i-1].shared = true
		before := p.steps[i-1]
		before.at, before.sure, before.unsure, before.ends = at, true, 0, nil
		p.steps = slices.Insert(p.steps, i, before)
	}
	return i
}

// stepFrom is the first step that does not begin before a time.
func (p *profile) stepFrom(at time.Time) int {
	return sort.Search(len(p.steps), func(i int) bool { return !p.steps[i].at.Before(at) })
}

// holds reports whether a gang with an end holds its nodes during a step.
func (p *profile) holds(s *profileStep, end time.Time, sure bool) bool {
	return s.at.Before(end) || !sure && !s.at.After(p.promised)
}

// earliest is the first step, from a given one on, with which a gang may start; -1 if there is none.
func (p *profile) earliest(e *entry, first int) int {
	for ; first < len(p.steps); first++ {
		blocked := p.blocked(e, e.least(), first)
		if blocked < 0 {
			return first
		}
		first = blocked
	}
	return -1
}

// blocked is the first step without room for a gang that starts with a given one; -1 if there is none. A gang
// of which nothing is known must fit for ever.
func (p *profile) blocked(e *entry, size, first int) int {
	end, sure, vague := p.end(e, size, first)
	for i := first; i < len(p.steps); i++ {
		if s := &p.steps[i]; !vague && !p.holds(s, end, sure) {
			return -1
		} else if s.fits(e, size) < size {
			return i
		}
	}
	return -1
}

// reserve gives a gang the earliest start from a step on, and returns that step; -1 if there is none.
func (p *profile) reserve(e *entry, first int) int {
	if first = p.earliest(e, first); first >= 0 && !p.place(e, e.least(), first) {
		return -1
	}
	return first
}

// with is a copy of the profile in which a gang starts now at a size; nil if there is no room.
func (p *profile) with(e *entry, size int) *profile {
	p.catchUp()
	if p = p.fork(); !p.start(e, size) {
		return nil
	}
	return p
}

// fork is a copy of the profile, which shares its steps until they change.
func (p *profile) fork() *profile {
	for i := range p.steps {
		p.steps[i].shared = true
	}
	return &profile{steps: slices.Clone(p.steps), promised: p.promised, placed: maps.Clone(p.placed)}
}

// startsNow is the size at which a gang starts now; 0 if it does not.
func (p *profile) startsNow(e *entry) int {
	if had, ok := p.placed[e.ID]; ok && had.covers(&p.steps[0]) {
		return had.size
	}
	return 0
}

// miss notes a gang that has started, or got another size, unless there is no profile yet.
func (p *profile) miss(e *entry, size int) {
	if p != nil {
		p.missing = append(p.missing, started{e, size})
	}
}

// catchUp gives the missing gangs their nodes. A gang for which there is no room keeps what it had.
func (p *profile) catchUp() {
	for _, m := range p.missing {
		if had := p.startsNow(m.entry); had != m.size && !p.start(m.entry, m.size) && had > 0 {
			p.place(m.entry, had, 0)
		}
	}
	p.missing = nil
}

// start gives a gang that starts now its nodes, and none in place of what it had if there is no room.
func (p *profile) start(e *entry, size int) bool {
	p.remove(e)
	return p.blocked(e, size, 0) < 0 && p.place(e, size, 0)
}

// place gives a gang that starts with a step its nodes, and none if place reports false.
func (p *profile) place(e *entry, size, first int) bool {
	end, sure, _ := p.end(e, size, first)
	had := place{size: size, from: p.steps[first].at}
	if last := p.stepAt(end); !sure {
		p.steps[last].unsure++
		had.unsure = end
	}
	fits := true
	for i := first; i < len(p.steps); i++ {
		s := &p.steps[i]
		if had.until = s.at; !p.holds(s, end, sure) {
			break
		}
		if fits = s.place(e, size); !fits {
			break
		}
		had.until = time.Time{}
	}
	if p.placed[e.ID] = had; !fits {
		p.remove(e)
	}
	return fits
}

// remove takes back what was reserved for a gang.
func (p *profile) remove(e *entry) {
	had, ok := p.placed[e.ID]
	if !ok {
		return
	}
	delete(p.placed, e.ID)
	for i := p.stepFrom(had.from); i < len(p.steps) && had.covers(&p.steps[i]); i++ {
		p.steps[i].unplace(e, had.size)
	}
	if !had.unsure.IsZero() {
		p.steps[p.stepAt(had.unsure)].unsure--
	}
}

// promise notes a start that was promised.
func (p *profile) promise(start time.Time) {
	if start.After(p.promised) {
		p.promised = start
	}
}
