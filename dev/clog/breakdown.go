// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package clog

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/flux-elastic/flux-elastic/internal/story"
)

// The phases in the life of a gang, in this order. The comments say when each phase ends.
const (
	PhaseRoom     = "room"     // the gang is submitted, its nodes are free, and gangs before it had room
	PhaseDecision = "decision" // its admission is written
	PhaseObjects  = "objects"  // its last pod exists
	PhasePinning  = "pinning"  // its last pod is pinned and ungated
	PhaseBinding  = "binding"  // its last pod is bound
	PhaseStart    = "start"    // its last pod is up
	PhaseRun      = "run"      // the lead has ended
	PhaseEnd      = "end"      // the last pod has ended
	// PhaseIdle is the time of nodes that were idle while no gang waited. PhaseOther is the
	// rest of the nodes' time, such as failed tries and gangs that have not finished.
	PhaseIdle  = "nothing waits"
	PhaseOther = "other"
)

var phases = []string{PhaseRoom, PhaseDecision, PhaseObjects, PhasePinning, PhaseBinding, PhaseStart, PhaseRun, PhaseEnd}

// Spread has statistics of many durations, in seconds.
type Spread struct {
	Count int     `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P95   float64 `json:"p95"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// Phase is one phase of all finished gangs.
type Phase struct {
	Name string `json:"name"`
	// Gangs is how long the phase took the gangs.
	Gangs Spread `json:"gangs"`
	// NodeSeconds is the time that nodes spent in the phase, and Share its part of the time
	// of all nodes. In the phases room and decision, nodes are idle. This idle time belongs to
	// the gang that gets the node next, until that gang has room or is admitted.
	NodeSeconds float64 `json:"nodeSeconds"`
	Share       float64 `json:"share"`
}

// Life has the times of a gang that finished, in seconds since the first submission.
type Life struct {
	Name      string             `json:"name"`
	Size      int                `json:"size"`
	Ran       int                `json:"ran"`
	Submitted float64            `json:"submitted"`
	Until     map[string]float64 `json:"until"` // the end of each phase
	// Started is when the observer saw status.startTime, and Finished when it saw the
	// condition Finished.
	Started  float64 `json:"started"`
	Finished float64 `json:"finished"`
}

// Breakdown says how the time of gangs and nodes was spent.
type Breakdown struct {
	Makespan float64 `json:"makespan"`
	Phases   []Phase `json:"phases"`
	// Gap is how long a node was idle before the next pod was pinned to it, while a gang
	// waited.
	Gap Spread `json:"gap"`
	// Waking is the time from the start of the last pod until status.startTime was seen.
	Waking Spread `json:"waking"`
	Gangs  []Life `json:"gangs"`
}

// course has the times at which the phases of a gang ended, and its pods by node.
type course struct {
	*life
	until map[string]time.Time
	nodes map[string]*podLife
}

// Breakdown computes the breakdown of the record.
func (r *Record) Breakdown() Breakdown {
	first, last := r.bounds()
	out := Breakdown{Makespan: last.Sub(first).Seconds()}
	courses := r.courses()
	times := map[string][]float64{}
	spent := map[string]float64{}
	var waking []float64
	for _, c := range courses {
		out.Gangs = append(out.Gangs, c.describe(first))
		before := c.submitted
		for _, name := range phases {
			took := c.until[name].Sub(before).Seconds()
			times[name] = append(times[name], took)
			if name != PhaseRoom && name != PhaseDecision && name != PhaseEnd {
				spent[name] += took * float64(len(c.nodes))
			}
			before = c.until[name]
		}
		for _, pod := range c.nodes {
			spent[PhaseEnd] += max(0, pod.ended.Sub(c.until[PhaseRun]).Seconds())
		}
		waking = append(waking, c.started.Sub(c.until[PhaseStart]).Seconds())
	}
	gaps := r.idle(courses, first, last, spent)
	out.Gap, out.Waking = NewSpread(gaps), NewSpread(waking)
	total := out.Makespan * float64(r.nodes)
	spent[PhaseOther] = total
	for _, name := range append(slices.Clone(phases), PhaseIdle) {
		spent[PhaseOther] -= spent[name]
	}
	spent[PhaseOther] = math.Round(spent[PhaseOther]*1000)/1000 + 0 // no -0
	for _, name := range append(slices.Clone(phases), PhaseIdle, PhaseOther) {
		p := Phase{Name: name, Gangs: NewSpread(times[name]), NodeSeconds: spent[name]}
		if total > 0 {
			p.Share = p.NodeSeconds / total
		}
		out.Phases = append(out.Phases, p)
	}
	return out
}

// bounds returns the first submission and the last end of a pod, except pods of hopeless gangs. If not
// all gangs are over, last is at least the time at which the record was closed.
func (r *Record) bounds() (first, last time.Time) {
	for _, l := range r.lives {
		if first.IsZero() || l.submitted.Before(first) {
			first = l.submitted
		}
		if l.Hopeless() {
			continue
		}
		for _, t := range l.tries {
			for _, pod := range t.pods {
				last = story.Later(last, pod.ended)
			}
		}
	}
	if !r.Over() {
		last = story.Later(last, r.closed)
	}
	return first, story.Later(first, last)
}

// courses returns the courses of the gangs that finished, in the order of their admissions.
func (r *Record) courses() []*course {
	freed := map[string][]time.Time{}
	for _, l := range r.lives {
		for _, t := range l.tries {
			for _, pod := range t.pods {
				if !pod.pinned.IsZero() && !pod.ended.IsZero() {
					freed[pod.node] = append(freed[pod.node], pod.ended)
				}
			}
		}
	}
	var out []*course
	for _, l := range r.lives {
		if c := l.course(); c != nil {
			out = append(out, c)
		}
	}
	slices.SortFunc(out, func(a, b *course) int {
		return cmp.Or(a.until[PhaseDecision].Compare(b.until[PhaseDecision]), cmp.Compare(a.Name, b.Name))
	})
	for _, c := range out {
		c.until[PhaseRoom] = c.room(freed)
	}
	// A gang that is later in the queue waits for the room of the gangs before it.
	for i, c := range out {
		for _, other := range out[:i] {
			if cmp.Or(other.created.Compare(c.created), cmp.Compare(other.Name, c.Name)) < 0 {
				c.until[PhaseRoom] = story.Later(c.until[PhaseRoom], other.until[PhaseRoom])
			}
		}
	}
	return out
}

// course returns the course of a gang's last try, or nil if the gang did not succeed.
func (l *life) course() *course {
	if !l.succeeded || len(l.admissions) == 0 || len(l.tries) == 0 {
		return nil
	}
	c := &course{life: l, until: map[string]time.Time{}, nodes: map[string]*podLife{}}
	for _, pod := range l.tries[len(l.tries)-1].pods {
		if pod.pinned.IsZero() {
			continue
		}
		c.nodes[pod.node] = pod
		for name, at := range map[string]time.Time{
			PhaseObjects: pod.made, PhasePinning: pod.pinned, PhaseBinding: pod.bound, PhaseStart: pod.up, PhaseEnd: pod.ended,
		} {
			c.until[name] = story.Later(c.until[name], at)
		}
		if pod.rank == 0 {
			c.until[PhaseRun] = pod.ended
		}
	}
	// Pods and MiniClusters have different watches, so a later change may be seen first.
	at := l.admissions[len(l.admissions)-1].at
	for _, name := range phases[1:] {
		at = story.Later(at, c.until[name])
		c.until[name] = at
	}
	return c
}

// room returns when the gang had been submitted and the last of its nodes was free.
func (c *course) room(freed map[string][]time.Time) time.Time {
	room, admitted := c.submitted, c.until[PhaseDecision]
	for node := range c.nodes {
		for _, at := range freed[node] {
			if !at.After(admitted) {
				room = story.Later(room, at)
			}
		}
	}
	return room
}

func (c *course) describe(first time.Time) Life {
	since := func(at time.Time) float64 { return math.Round(at.Sub(first).Seconds()*1000) / 1000 }
	out := Life{Name: c.Name, Size: c.Size, Ran: len(c.nodes), Submitted: since(c.submitted),
		Started: since(c.started), Finished: since(c.finished), Until: map[string]float64{}}
	for name, at := range c.until {
		out.Until[name] = since(at)
	}
	return out
}

// idle adds the times at which nodes were idle to the phases in spent. It returns the gaps between
// two pods of a node during which a gang waited.
func (r *Record) idle(courses []*course, first, last time.Time, spent map[string]float64) (gaps []float64) {
	var waits [][2]time.Time
	byNode := map[string][]*course{}
	for _, l := range r.lives {
		until := last
		if len(l.admissions) > 0 {
			until = l.admissions[len(l.admissions)-1].at
		}
		waits = append(waits, [2]time.Time{l.submitted, until})
	}
	waits = story.Union(waits)
	for _, c := range courses {
		for node := range c.nodes {
			byNode[node] = append(byNode[node], c)
		}
	}
	lost := r.lost(courses, last)
	for node, list := range byNode {
		rest := func(from, to time.Time) {
			wanted, held := overlap(waits, from, to), overlap(lost[node], from, to)
			for _, l := range lost[node] {
				wanted -= overlap(waits, story.Later(from, l[0]), story.Earliest(to, l[1]))
			}
			spent[PhaseRoom] += wanted
			spent[PhaseIdle] += max(0, to.Sub(from).Seconds()) - held - wanted
		}
		from := first
		for i, c := range list {
			admitted, room := c.until[PhaseDecision], c.until[PhaseRoom]
			rest(from, room)
			spent[PhaseDecision] += max(0, admitted.Sub(story.Later(from, room)).Seconds())
			if i > 0 && overlap(waits, from, admitted) > 0 {
				gaps = append(gaps, c.nodes[node].pinned.Sub(from).Seconds())
			}
			from = story.Later(from, c.nodes[node].ended)
		}
		rest(from, last)
	}
	unused := float64(r.nodes - len(byNode))
	wanted := overlap(waits, first, last)
	spent[PhaseRoom] += unused * wanted
	spent[PhaseIdle] += unused * (last.Sub(first).Seconds() - wanted)
	return gaps
}

// lost returns, by node, the times at which pods held the node whose gang did not finish with them.
func (r *Record) lost(courses []*course, last time.Time) map[string][][2]time.Time {
	counted := map[*podLife]bool{}
	for _, c := range courses {
		for _, pod := range c.nodes {
			counted[pod] = true
		}
	}
	out := map[string][][2]time.Time{}
	for _, l := range r.lives {
		for _, t := range l.tries {
			for _, pod := range t.pods {
				if counted[pod] || pod.pinned.IsZero() {
					continue
				}
				until := pod.ended
				if until.IsZero() {
					until = last
				}
				out[pod.node] = append(out[pod.node], [2]time.Time{pod.pinned, until})
			}
		}
	}
	for node, times := range out {
		out[node] = story.Union(times)
	}
	return out
}

// overlap returns how many seconds between two moments are in the intervals.
func overlap(times [][2]time.Time, from, to time.Time) float64 {
	total := 0.0
	for _, t := range times {
		total += max(0, story.Earliest(to, t[1]).Sub(story.Later(from, t[0])).Seconds())
	}
	return total
}

// NewSpread computes the statistics of some durations.
func NewSpread(seconds []float64) Spread {
	n := len(seconds)
	if n == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(seconds))
	sum := 0.0
	for _, s := range sorted {
		sum += s
	}
	rank := func(q float64) float64 { return sorted[max(0, int(math.Ceil(q*float64(n)))-1)] }
	return Spread{Count: n, Mean: sum / float64(n), P50: rank(0.5), P95: rank(0.95), P99: rank(0.99), Max: sorted[n-1]}
}

// sortedKeys returns the keys of a map in order.
func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
