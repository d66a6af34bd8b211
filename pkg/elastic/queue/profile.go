// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"maps"
	"math"
	"slices"
	"time"
)

// mostSteps bounds the number of ends that a profile tells apart. With more, neighbours count as the
// last of them.
const mostSteps = 100

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
	// unsure are the ends of the gangs with reservations whose ends are not sure.
	unsure map[*entry]time.Time
}

// profileStep is the cluster from one time until the next step.
type profileStep struct {
	// at is when the step comes, as far as one can tell. If sure is true, it comes then at the latest, but for unsure
	// gangs with reservations that end then.
	at     time.Time
	sure   bool
	unsure int
	// state is the cluster. Its room is without the gangs in held.
	state *clusterState
	// sizes are those of the gangs that were placed here, by ID.
	sizes map[string]int
	// held are gangs of one class that were placed here and have no nodes yet, because the number of nodes is
	// enough for gangs of this class. room is the room for pods of the class beside them.
	held  []*entry
	class string // "" if room is not known
	room  int
}

// own copies what the step shares with another.
func (s *profileStep) own() {
	s.state, s.sizes, s.held = s.state.snapshot(), maps.Clone(s.sizes), slices.Clone(s.held)
}

// fits is the number of pods of a gang that may run during the step, at most limit.
func (s *profileStep) fits(e *entry, limit int) int {
	if e.Confined {
		s.settle()
		return s.state.fits(e, limit)
	}
	limit = s.state.allowed(e.user, e.Requests, 1, limit)
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
	for _, e := range s.held {
		s.state.room.Place(e.ID, []int{s.sizes[e.ID]})
	}
	s.held, s.class = nil, ""
}

// place gives a gang nodes during the step at a size, and reports whether it fits.
func (s *profileStep) place(e *entry, size int) bool {
	if e.Confined {
		s.settle()
		if s.state.place(e, size) == nil {
			return false
		}
	} else {
		if s.roomFor(e) < size {
			return false
		}
		s.held, s.room = append(s.held, e), s.room-size
		s.state.add(e.user, e.Requests, 1, size)
	}
	s.sizes[e.ID] = size
	return true
}

// unplace takes the nodes of a gang back, if it was placed here.
func (s *profileStep) unplace(e *entry) {
	size := s.sizes[e.ID]
	if size == 0 {
		return
	}
	if i := slices.Index(s.held, e); i >= 0 {
		s.held, s.room = slices.Delete(s.held, i, i+1), s.room+size
		s.state.add(e.user, e.Requests, -1, -size)
	} else {
		s.settle()
		s.state.unplace(e, size)
	}
	delete(s.sizes, e.ID)
}

// newProfile is the profile without reservations, for the gangs of a queue from one on.
func (c *cycle) newProfile(from *entry) *profile {
	ends, sizes := c.expectedEnds(), map[string]int{}
	for _, e := range c.admitted {
		sizes[e.ID] = len(e.nodes)
	}
	p := &profile{
		steps:  []profileStep{{at: c.now, sure: true, state: c.state.snapshot(), sizes: sizes}},
		unsure: map[*entry]time.Time{},
	}
	stride := 1 + len(ends)/mostSteps
	for len(ends) > 0 {
		last := p.steps[len(p.steps)-1]
		next := profileStep{at: last.at, sure: true, sizes: maps.Clone(last.sizes)}
		n := 0
		for n < len(ends) && (n < stride || ends[n].at.Equal(next.at)) {
			next.at, next.sure = ends[n].at, next.sure && ends[n].isSureFor(from)
			delete(next.sizes, ends[n].id)
			n++
		}
		next.state = last.state.after(ends[:n])
		p.steps, ends = append(p.steps, next), ends[n:]
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
	return !slices.ContainsFunc(p.steps[:first+1], func(s profileStep) bool { return !s.isSure() })
}

// stepAt is the step that begins at a time, which is made; the first if the time is over.
func (p *profile) stepAt(at time.Time) int {
	if !at.After(p.steps[0].at) {
		return 0
	}
	i, found := slices.BinarySearchFunc(p.steps, at, func(s profileStep, at time.Time) int { return s.at.Compare(at) })
	if !found {
		before := p.steps[i-1]
		before.at, before.sure, before.unsure = at, true, 0
		before.own()
		p.steps = slices.Insert(p.steps, i, before)
	}
	return i
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
		if s := &p.steps[i]; (vague || p.holds(s, end, sure)) && s.fits(e, size) < size {
			return i
		}
	}
	return -1
}

// reserve gives a gang the earliest start from a step on, and returns that step; -1 if there is none.
func (p *profile) reserve(e *entry, first int) int {
	if first = p.earliest(e, first); first >= 0 && !p.place(e, e.least(), first) {
		p.remove(e)
		return -1
	}
	return first
}

// with is a copy of the profile in which a gang starts now at a size; nil if there is no room.
func (p *profile) with(e *entry, size int) *profile {
	p.catchUp()
	p = &profile{steps: slices.Clone(p.steps), promised: p.promised, unsure: maps.Clone(p.unsure)}
	for i := range p.steps {
		p.steps[i].own()
	}
	if !p.start(e, size) {
		return nil
	}
	return p
}

// started is a gang that has started at a size.
type started struct {
	*entry
	size int
}

// catchUp gives the missing gangs their nodes. A gang for which there is no room keeps what it had.
func (p *profile) catchUp() {
	for _, m := range p.missing {
		had := p.steps[0].sizes[m.ID]
		if had != m.size && !p.start(m.entry, m.size) && had > 0 && !p.place(m.entry, had, 0) {
			p.remove(m.entry)
		}
	}
	p.missing = nil
}

// start gives a gang that starts now its nodes, and none in place of what it had if there is no room.
func (p *profile) start(e *entry, size int) bool {
	p.remove(e)
	if p.blocked(e, size, 0) >= 0 {
		return false
	}
	if !p.place(e, size, 0) {
		p.remove(e)
		return false
	}
	return true
}

// place gives a gang that starts with a step its nodes. If place reports false, the gang has only some of them.
func (p *profile) place(e *entry, size, first int) bool {
	end, sure, _ := p.end(e, size, first)
	if last := p.stepAt(end); !sure {
		p.steps[last].unsure++
		p.unsure[e] = end
	}
	for i := first; i < len(p.steps); i++ {
		if s := &p.steps[i]; p.holds(s, end, sure) && !s.place(e, size) {
			return false
		}
	}
	return true
}

// remove takes back what was reserved for a gang.
func (p *profile) remove(e *entry) {
	for i := range p.steps {
		p.steps[i].unplace(e)
	}
	if end, ok := p.unsure[e]; ok {
		p.steps[p.stepAt(end)].unsure--
		delete(p.unsure, e)
	}
}

// promise notes a start that was promised.
func (p *profile) promise(start time.Time) {
	if start.After(p.promised) {
		p.promised = start
	}
}
