// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// verdicts are what a cycle has decided, and says of each gang and queue.
type verdicts struct {
	*cycle
	coming int // nodes that are not ready yet, and not counted for a gang
}

// result collects the decisions of the cycle.
func (v *verdicts) result() Result {
	gangs := 0
	for _, q := range v.queues {
		gangs += len(q.all)
	}
	out := Result{Decisions: make([]Decision, 0, gangs), Uses: v.uses()}
	for _, q := range v.queues {
		before := 0 // gangs ahead that can start
		for i, e := range q.all {
			d := v.decision(e, before)
			d.Position = i + 1
			if d.Verdict != elastic.Admitted && !d.Verdict.Refused() {
				before++
			}
			out.Decisions = append(out.Decisions, d)
			if e.ask != nil {
				out.Asks = append(out.Asks, *e.ask)
			}
		}
	}
	for _, r := range v.runs {
		switch {
		case r.evicted:
			out.Evictions = append(out.Evictions, Eviction{Gang: r.ID, Action: r.action, Taker: r.takerName(), Message: r.message(), Grace: r.queue.Grace})
		case len(r.drains) > 0:
			out.Drains = append(out.Drains, Drain{Gang: r.ID, Ranks: r.drains, Taker: r.takerName(), For: r.takes(), Action: r.action})
		}
	}
	return out
}

// Unmade is how many pods of gangs with nodes do not exist yet, by the priority of the gang.
type Unmade map[int32]int

// From is the sum from a priority on.
func (u Unmade) From(priority int32) int {
	sum := 0
	for p, pods := range u {
		if p >= priority {
			sum += pods
		}
	}
	return sum
}

// putOff puts the last gangs off that would start in this cycle, if too many pods are to be made. Nobody else gets their
// nodes in this cycle.
func (c *cycle) putOff(before Unmade, most int) {
	unmade := Unmade{}
	maps.Copy(unmade, before)
	for _, e := range c.admitted {
		if e.isPutOff = most > 0 && unmade.From(e.Priority) >= most && !e.Urgent; !e.isPutOff {
			unmade[e.Priority] += len(e.nodes)
		}
	}
}

// takes is what the nodes of a gang are taken for.
func (r *run) takes() string {
	if r.taker == nil {
		return "nodes that are about to go away"
	}
	return r.taker.toldTo(r.Name)
}

// takerName is the name of the gang that gets the nodes; "" if none does.
func (r *run) takerName() string {
	if r.taker == nil {
		return ""
	}
	return r.taker.Name
}

// toldTo is how a message to the gang of a name tells of this gang: by its name within the namespace, and otherwise by its
// queue alone, since tenants do not read what others run.
func (e *entry) toldTo(name string) string {
	who, namespace := "a MiniCluster", name[:strings.IndexByte(name, '/')+1]
	if strings.HasPrefix(e.Name, namespace) {
		who = e.Name
	}
	return who + " of queue " + e.Queue
}

func (r *run) message() string {
	switch r.action {
	case "clear":
		return "moves to other nodes: some of its own are about to go away"
	case "preempt":
		return fmt.Sprintf("gave its nodes to %s with priority %d", r.takes(), r.taker.Priority)
	}
	return fmt.Sprintf("gave its nodes to %s, which had less than its share of these nodes, or less than its guarantee", r.takes())
}

// promised is when a gang behind the heads starts at the latest; zero if this is not known.
func (e *entry) promised() time.Time {
	if !e.isSure {
		return time.Time{}
	}
	return e.reserved
}

// decision is the verdict on a gang; before is the number of gangs ahead of it.
func (v *verdicts) decision(e *entry, before int) Decision {
	d := Decision{Gang: e.ID, Verdict: e.verdict, Message: e.message, Memory: e.Memory}
	d.Promised = time.Time{}
	if !v.settles.After(v.now) { // otherwise this cycle has planned nothing
		d.Reserved = e.reserved
	}
	switch {
	case e.verdict != "":
		return d
	case e.isPutOff:
		d.Verdict, d.Message, d.PutOff = elastic.WaitingForTurn, "waits until the pods of those that start are made", true
		d.Promised = e.Promised
		return d
	case len(e.nodes) > 0:
		d.Verdict, d.Action, d.Nodes, d.Memory = elastic.Admitted, e.action, e.nodes, Memory{Held: e.Held}
		return d
	case e.ask != nil && v.decideAsk(e, &d):
	case e.isHead:
		v.decideHead(e, &d)
	case v.limitOf(e) != noLimit:
		d.Verdict, d.Message = elastic.UserLimit, e.userMessage(v.limitOf(e))
	case e.holdsOutNow(v.now):
		d.Verdict, d.Message = elastic.WaitingForSize, fmt.Sprintf("holds out for %d brokers, with which it ends sooner", e.Held.For)
	case e.BestEffort:
		d.Verdict, d.Message = v.why(e)
	default:
		d.Verdict, d.Message = elastic.WaitingForTurn, e.turnMessage(before)+expectedBy(e.promised(), v.now)
	}
	times := []time.Time{d.LookAgain, e.fullUntil, e.takesAt, e.Taken.Pause, e.promised(), v.asksUntil(e)}
	d.LookAgain = elastic.Earliest(slices.DeleteFunc(times, func(at time.Time) bool { return !at.After(v.now) })...)
	return d
}

func (e *entry) turnMessage(before int) string {
	message := "waits for its turn: " + strconv.Itoa(before) + " are before it in queue " + e.queue.Name
	if before == 1 {
		message = "waits for its turn: 1 is before it in queue " + e.queue.Name
	}
	if e.score != nil {
		message += fmt.Sprintf(" (%s)", e.score)
	}
	return message
}

// expectedBy is the end of a message that says when a gang starts at the latest; "" if this is not known.
func expectedBy(start, now time.Time) string {
	switch {
	case start.IsZero():
		return ""
	case !start.After(now):
		return "; it is the next to start"
	}
	return "; it is expected to start by " + start.UTC().Format(time.RFC3339)
}

// keepsPromise reports whether a gang was promised a start, and is put off.
func (e *entry) keepsPromise() bool { return e.isPutOff && !e.Promised.IsZero() }

// headLooksAt is when time alone may change what becomes of those behind a head; zero if it does not.
func (v *verdicts) headLooksAt(e *entry) (at time.Time) {
	if e.score != nil && len(e.queue.waiting) > 1 {
		at = v.now.Add(scoreLook)
	}
	if e.queue.next == len(e.queue.waiting) {
		return at
	}
	if v.settles.After(v.now) {
		at = elastic.Earliest(at, v.settles)
	}
	if patient := e.patient(); e.queue.Backfill == NoBackfill && patient.After(v.now) {
		at = elastic.Earliest(at, patient)
	}
	return at
}

// decideHead is the verdict on the head of a queue.
func (v *verdicts) decideHead(e *entry, d *Decision) {
	d.Head = true
	// It would fit at a smaller size, unless its queue is full at that size, too.
	d.Verdict, d.Message = v.why(e)
	if room := d.Verdict == elastic.NoRoom || d.Verdict == elastic.QueueFull && !e.overCapacity; e.holdsOut && room {
		d.Verdict, d.Message = elastic.WaitingForSize, "holds out for its full size: "+d.Message
	}
	d.LookAgain = v.headLooksAt(e)
	for _, r := range v.reservations {
		if r.head != e || !r.fits {
			continue
		}
		if v.heads()[0] == e && !slices.ContainsFunc(v.admitted, (*entry).keepsPromise) { // others may get the same nodes as the first
			d.Promised = r.promised(v.now)
		}
		d.Message += expectedBy(d.Promised, v.now)
		if at := r.looksAt(v.now); at.After(v.now) {
			d.LookAgain = elastic.Earliest(d.LookAgain, at)
		}
	}
	if pause := e.Taken.Pause; pause.After(v.now) {
		d.Message += fmt.Sprintf("; others got the nodes that were freed for it, %d times: no more are taken before %s", e.Taken.Lost, pause.UTC().Format(time.RFC3339))
	}
}

// wholly tells why a gang needs more of a resource than its pods request; "" if it does not.
func (e *entry) wholly(name string) string {
	if e.Exclusive && name != pods {
		return " in whole nodes"
	}
	return ""
}

// why says what keeps a gang from starting: its queue, guarantees of other queues, nodes, or a
// gang with a reservation.
func (v *verdicts) why(e *entry) (elastic.Verdict, string) {
	q, least := e.queue, e.least()
	used := v.state.all(q)
	for _, name := range sorted(q.Capacity) {
		if need := times(e.Requests[name], least); need > 0 && used[name]+need > q.Capacity[name] {
			return elastic.QueueFull, fmt.Sprintf("needs %s%s, and jobs of queue %s have %s of its %s", v.amount(name, need), e.wholly(name), q.Name, v.amount(name, used[name]), v.amount(name, q.Capacity[name]))
		}
	}
	for _, name := range v.state.guaranteed {
		need, free := times(e.Requests[name], least), v.state.free(&e.Gang, name)
		if kept := v.state.keptFrom(&e.Gang, q, name, free-need); need > 0 && need <= free && need > free-kept && v.state.withinGuarantees(&e.Gang, q, least) < least {
			return elastic.NoRoom, fmt.Sprintf("needs %s%s: %s free, of which %s are guaranteed to other queues", v.amount(name, need), e.wholly(name), v.amount(name, free), v.amount(name, min(kept, free)))
		}
	}
	if why := v.state.room.Why(e.ID, []int{least}); why != "" {
		return elastic.NoRoom, why
	}
	for _, r := range v.reservations {
		if r.head != e && r.binds(e) {
			return elastic.NoRoom, fmt.Sprintf("leaves room for %s, which waits longer", r.head.toldTo(e.Name))
		}
	}
	return elastic.NoRoom, "waits for gangs that go first"
}
