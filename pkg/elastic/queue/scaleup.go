// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// ScaleUp says how the gangs of a queue ask an autoscaler for nodes that do not exist.
type ScaleUp struct {
	// Limit is how many nodes of the shapes there may be for the queue, and More how many further ones that leaves: nodes
	// that are idle, or that its gangs have, count.
	Limit, More int
	// Timeout is how long a gang waits for nodes. Cooldown is how long it asks for none after that, the first time. It
	// doubles each time.
	Timeout, Cooldown time.Duration
	// Arrival is how long nodes are expected to take.
	Arrival time.Duration
	// Shapes are the kinds of nodes that could come. The first that suits a gang counts.
	Shapes []Shape
	// Barred says why an autoscaler cannot be asked; "" if it can.
	Barred string
}

// Shape is a kind of nodes that could come.
type Shape struct {
	// Most is how many more nodes of the kind there could be.
	Most int
	// Holds is what one node has.
	Holds Resources
}

// Asked is what an autoscaler was asked for a gang.
type Asked struct {
	// Attempt counts from 1, and Pauses the pauses before it.
	Attempt, Pauses int
	// Size is the size at which the gang starts once the nodes are there.
	Size int
	// Apart is true if each pod gets a node of its own.
	Apart bool
	// At is when the autoscaler was asked.
	At time.Time
	// Until is zero while the autoscaler is asked. Then it is when the gang may ask again.
	Until time.Time
	// Verdict is what the autoscaler says, or why the gang does not ask any more; Message are the autoscaler's words.
	Verdict elastic.Verdict
	Message string
}

// Ask is what an autoscaler is to be asked for a gang.
type Ask struct {
	Gang string
	// Attempt, Size and Apart are as in Asked. A new attempt replaces an earlier one.
	Attempt, Pauses, Size int
	Apart                 bool
	// Nodes is how many nodes are missing, and Coming how many of them exist and cannot be used yet.
	Nodes, Coming int
	// Pause is zero, or how long the gang asks for nothing from now on, unless it does so already. Verdict and Message
	// say why.
	Pause   time.Duration
	Verdict elastic.Verdict
	Message string
}

// longestPause bounds the time in which a gang asks for nothing, or takes nothing from others.
const longestPause = time.Hour

// mayAsk reports whether nodes may be asked for that a gang lacks. Pods without requests need none.
func (e *entry) mayAsk() bool {
	s := e.queue.ScaleUp
	return s != nil && s.Limit > 0 && s.Barred == "" && !e.BestEffort
}

// awaitNodes lets a gang that waits for nodes start at the size for which they are enough, or a larger one.
func (e *entry) awaitNodes(now time.Time) {
	if e.mayAsk() && e.Asked != nil && e.Asked.Until.IsZero() && e.lost(now) == "" {
		e.awaits, e.apart, e.sizes = true, e.Asked.Apart, e.allowed.From(e.Asked.Size)
	}
	if e.apart {
		e.class, e.Confined = e.class+" apart", true // pods beside it count otherwise
	}
}

// lost says why the nodes for which a gang has asked will not come; "" if they may.
func (e *entry) lost(now time.Time) elastic.Verdict {
	switch {
	case e.Asked.Verdict.LostNodes():
		return e.Asked.Verdict
	case !e.Asked.At.Add(e.queue.ScaleUp.Timeout).After(now):
		return elastic.NodesTimedOut
	}
	return ""
}

// asksUntil is when time alone changes what is asked for a gang, or kept for it; zero if it does not.
func (v *verdicts) asksUntil(e *entry) time.Time {
	switch {
	case e.awaits:
		until := e.Asked.At.Add(e.queue.ScaleUp.Timeout)
		if overdue := v.overdue(e); overdue.After(v.now) {
			until = elastic.Earliest(until, overdue)
		}
		return until
	case e.mayAsk() && e.Asked != nil:
		return e.Asked.Until
	}
	return time.Time{}
}

// fitsIn is the number of pods of a gang for which there is room, at most limit.
func (e *entry) fitsIn(room Room, limit int) int {
	if e.apart {
		return room.FitsApart(e.ID, limit)
	}
	return room.Fits(e.ID, limit)
}

// with is the cluster with so many of the nodes that could come for a queue.
func (s *clusterState) with(q *jobQueue, nodes []int) *clusterState {
	after := s.snapshot()
	after.room, after.total = s.room.With(q.Name, nodes), Resources{}
	after.total.Add(s.total, 1)
	if after.came = maps.Clone(s.came); after.came == nil {
		after.came = map[*jobQueue][]int{}
	}
	for i, before := range s.cameFor(q) {
		after.total.Add(q.ScaleUp.Shapes[i].Holds, nodes[i]-before)
	}
	after.came[q] = nodes
	return after
}

// cameFor are the nodes that count as there for a queue, by shape.
func (s *clusterState) cameFor(q *jobQueue) []int {
	if came := s.came[q]; came != nil {
		return came
	}
	return make([]int, len(q.ScaleUp.Shapes))
}

// choices are the sets of shapes of which a gang may get nodes: one shape, or else all of them.
func (q *jobQueue) choices() [][]int {
	var all []int
	var choices [][]int
	for i := range q.ScaleUp.Shapes {
		all, choices = append(all, i), append(choices, []int{i})
	}
	if len(all) > 1 {
		choices = append(choices, all)
	}
	return choices
}

// withMost is the cluster with up to n more nodes of some shapes of a queue.
func (s *clusterState) withMost(q *jobQueue, n int, shapes []int) *clusterState {
	came := slices.Clone(s.cameFor(q))
	for _, i := range shapes {
		more := max(min(n, q.ScaleUp.Shapes[i].Most-came[i]), 0)
		came[i], n = came[i]+more, n-more
	}
	return s.with(q, came)
}

// bring is the cluster with the fewest nodes that could come with which a gang fits at a size, at most n, and how many
// these are; nil if the gang does not fit with them either.
func (s *clusterState) bring(e *entry, size, n int) (after *clusterState, nodes int) {
	if s.fits(e, size) >= size {
		return s, 0
	}
	for _, shapes := range e.queue.choices() {
		if s.withMost(e.queue, n, shapes).fits(e, size) < size {
			continue
		}
		nodes = sort.Search(n, func(n int) bool { return s.withMost(e.queue, n, shapes).fits(e, size) >= size })
		return s.withMost(e.queue, nodes, shapes), nodes
	}
	return nil, 0
}

// mostWith is the largest of the sizes of a gang that fits with up to n nodes that could come; 0 if none does.
func (s *clusterState) mostWith(e *entry, sizes elastic.Ladder, n int) int {
	most := 0
	for _, shapes := range e.queue.choices() {
		most = max(most, sizes.Within(s.withMost(e.queue, n, shapes).fits(e, sizes.Most())))
	}
	return most
}

// couldCome reports whether a gang would fit at a size if the cluster were empty and the nodes that could come were
// there.
func (s *screening) couldCome(e *entry, size int) bool {
	if !e.mayAsk() {
		return false
	}
	for _, shapes := range e.queue.choices() {
		if s.state.withMost(e.queue, e.queue.ScaleUp.More, shapes).room.CouldHold(e.ID, []int{size}) {
			return true
		}
	}
	return false
}

// mostToCome is how much of a resource the nodes have at most that a gang may ask for at once.
func (e *entry) mostToCome(name string) int64 {
	var most int64
	if e.mayAsk() {
		for _, shape := range e.queue.ScaleUp.Shapes {
			most = max(most, times(shape.Holds[name], min(shape.Most, e.queue.ScaleUp.More)))
		}
	}
	return most
}

// soon are the ends that are sure, and those of ranks that leave, before nodes would come that a queue asks for now.
func (c *cycle) soon(q *jobQueue) []expectedEnd {
	until := c.now.Add(q.ScaleUp.Arrival)
	return slices.DeleteFunc(slices.Clone(c.expectedEnds()), func(end expectedEnd) bool {
		return !end.sure && !end.leaving || end.at.After(until)
	})
}

// overdue is when the free nodes that a gang needs beside those for which it has asked are held for it no longer: other
// nodes have not come for twice as long as they are expected to take. A gang keeps waiting until its time is over.
func (c *cycle) overdue(e *entry) time.Time {
	since := e.Asked.At
	if c.cameLast.After(since) {
		since = c.cameLast
	}
	return since.Add(2 * e.queue.ScaleUp.Arrival)
}

// arrival is when a gang has the nodes for which it has asked, as far as one can tell.
func (c *cycle) arrival(e *entry) time.Time {
	if at := e.Asked.At.Add(e.queue.ScaleUp.Arrival); at.After(c.now) {
		return at
	}
	return c.overdue(e)
}

// reserveComing reserves for the gangs of a queue that wait for nodes what they will have once these are there. So
// gangs behind them do not take the nodes one by one as they come.
func (c *cycle) reserveComing(q *jobQueue) {
	var awaiting []*entry
	for _, e := range q.waiting[q.heads[0].place:] {
		if e.awaits && len(e.nodes) == 0 && c.limitOf(e) == noLimit && c.overdue(e).After(c.now) {
			awaiting = append(awaiting, e)
		}
	}
	if len(awaiting) == 0 {
		return
	}
	soon := c.soon(q)
	base := c.state.after(soon)
	then, left := base, q.ScaleUp.More
	for i, e := range awaiting {
		after, nodes := then.bring(e, e.least(), left)
		if after == nil {
			awaiting = awaiting[:i]
			break
		}
		then, left = after.placed(e, e.least()), left-nodes
	}
	at, ahead := base.with(q, then.cameFor(q)), map[string]int{}
	for _, e := range awaiting {
		r := &reservation{head: e, fits: true, atShadow: at, shadow: c.arrival(e), ended: map[string]bool{}, ahead: maps.Clone(ahead), delays: map[string]int{}}
		for _, end := range soon {
			r.ended[end.id] = r.ended[end.id] || end.ranks == nil
		}
		c.putReservation(r)
		at, ahead[e.ID] = at.placed(e, e.least()), e.least()
	}
}

// putReservation replaces the reservation of a gang, unless that of a head is for an earlier time.
func (c *cycle) putReservation(r *reservation) {
	i := slices.IndexFunc(c.reservations, func(other *reservation) bool { return other.head == r.head })
	switch {
	case i < 0:
		c.reservations = append(c.reservations, r)
	case !r.head.isHead || !c.reservations[i].fits || !c.reservations[i].sure || r.shadow.Before(c.reservations[i].shadow):
		*c.reservations[i] = *r
	}
}
