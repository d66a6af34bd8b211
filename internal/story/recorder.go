// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package story

import (
	"time"
)

// Recorder writes the stories of gangs from changes that somebody sees. The times are those at which a change was seen. It
// is not safe for use by several goroutines.
type Recorder struct {
	gangs []*gang
	stays map[string]place // by the name that callers give to the pod
}

// gang is the story of a gang, and what is not part of it.
type gang struct {
	Story
	live int  // stays of the last attempt that have not ended
	over bool // the last attempt is over: the next stay begins another one
}

// place is where a stay is in the story of its gang.
type place struct {
	gang          *gang
	attempt, stay int
}

// NewRecorder begins a record.
func NewRecorder() *Recorder { return &Recorder{stays: map[string]place{}} }

// Seen records what a gang is now: its numbers and its state, whether its command has begun, and whether it has ended. It
// ignores the times and attempts of seen.
func (r *Recorder) Seen(seen Story, started, ended bool, now time.Time) {
	g := r.gang(seen.Name, now)
	g.Wanted, g.Size, g.Tasks, g.State = seen.Wanted, seen.Size, seen.Tasks, seen.State
	switch {
	case started && (g.over || len(g.Attempts) == 0): // before its pods are seen
		g.begin(now)
		fallthrough
	case started:
		if last := g.last(); last.Started.IsZero() {
			last.Started = now
		}
	case g.live == 0:
		g.over = true
	}
	if ended && g.Ended.IsZero() {
		g.Ended = now
		if !g.over && len(g.Attempts) > 0 {
			g.last().Ended = now
		}
	}
}

// Held records that a pod holds a node.
func (r *Recorder) Held(pod, gang string, rank int, node string, now time.Time) {
	if _, known := r.stays[pod]; known {
		return
	}
	g := r.gang(gang, now)
	if len(g.Attempts) == 0 || g.over || g.live == 0 && len(g.last().Stays) > 0 {
		g.begin(now)
	}
	last := g.last()
	r.stays[pod] = place{g, len(g.Attempts) - 1, len(last.Stays)}
	last.Stays = append(last.Stays, Stay{Rank: rank, Node: node, From: now})
	last.Size = max(last.Size, int32(len(last.Stays)))
	if g.live++; g.Ended.IsZero() {
		last.Ended = time.Time{}
	}
}

// Freed records that a pod has ended or is gone.
func (r *Recorder) Freed(pod string, now time.Time) {
	p, known := r.stays[pod]
	if !known {
		return
	}
	a := &p.gang.Attempts[p.attempt]
	if stay := &a.Stays[p.stay]; !stay.To.IsZero() {
		return
	}
	a.Stays[p.stay].To = now
	if p.gang.live--; p.gang.live == 0 && a.Ended.IsZero() {
		a.Ended = now
	}
}

// Stories returns the stories in the order in which the gangs were first seen.
func (r *Recorder) Stories() []Story {
	out := make([]Story, len(r.gangs))
	for i, g := range r.gangs {
		out[i] = g.Story
	}
	return out
}

func (r *Recorder) gang(name string, now time.Time) *gang {
	for _, g := range r.gangs {
		if g.Name == name {
			return g
		}
	}
	g := &gang{Story: Story{Name: name, Submitted: now}}
	r.gangs = append(r.gangs, g)
	return g
}

func (g *gang) begin(now time.Time) {
	g.Attempts = append(g.Attempts, Attempt{Number: int32(len(g.Attempts) + 1), Admitted: now})
	g.live, g.over = 0, false
}

func (g *gang) last() *Attempt { return &g.Attempts[len(g.Attempts)-1] }
