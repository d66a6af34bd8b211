// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// asking asks an autoscaler for nodes.
type asking struct {
	*cycle
	then *clusterState // the cluster once gangs have started for which nodes were asked for
	left int           // how many further nodes the queue may ask for
}

// askForNodes asks for nodes for the gangs of each queue that do not fit now, and would not soon by known ends: from
// the head on, as many as the queue may wait for.
func (c *cycle) askForNodes() {
	queues := slices.Clone(c.queues)
	slices.SortFunc(queues, c.goesBefore)
	a := asking{cycle: c, then: c.state}
	for _, q := range queues {
		if q.ScaleUp != nil && len(q.heads) > 0 {
			a.then, a.left = a.then.after(c.soon(q)), q.ScaleUp.More
			a.askIn(q)
		}
	}
}

// askIn asks for nodes for the gangs of a queue. A gang for which all that could come is too little now, because others
// have to end as well, keeps none from asking. One for which it is too little beside what was asked for gangs before it
// does, so that it is not passed for ever.
func (a *asking) askIn(q *jobQueue) {
	tooLarge := map[string]int{} // the smallest size, by class
	for _, e := range q.waiting {
		if least, known := tooLarge[e.class]; known && e.least() >= least || !a.lacksOnlyNodes(e) {
			continue
		}
		ask, sizes := a.nextAsk(e)
		switch {
		case ask.Pause > 0:
			e.ask = ask
			continue
		case !e.awaits && a.then.fits(e, e.least()) >= e.least(): // it waits for its turn, or for known ends
			a.then = a.then.placed(e, e.least())
			continue
		case !e.awaits:
			ask.Size, e.apart = a.sizeToAsk(e, sizes)
		}
		after, nodes := a.then.bring(e, ask.Size, a.left)
		if ask.Size == 0 || after == nil {
			if a.left < q.ScaleUp.More {
				return
			}
			tooLarge[e.class] = e.least()
			continue
		}
		ask.Apart, ask.Nodes, e.ask = e.apart, nodes, ask
		a.then, a.left = after.placed(e, ask.Size), a.left-nodes
	}
}

// lacksOnlyNodes reports whether a gang waits for nothing but nodes, which were asked for, or of which so many are left to
// ask for.
func (a *asking) lacksOnlyNodes(e *entry) bool {
	least := e.allowed.Least()
	return (a.left > 0 || e.awaits) && len(e.nodes) == 0 && e.mayAsk() && a.limitOf(e) == noLimit && a.then.withinCapacity(e.queue, e.Requests, a.then.withinUser(e.user, 1, least)) >= least
}

// placed is the cluster with a gang at a size.
func (s *clusterState) placed(e *entry, size int) *clusterState {
	after := s.snapshot()
	after.place(e, size)
	return after
}

// nextAsk is what is asked for a gang that lacks nodes, as far as it follows from what was asked before, and the sizes
// for which to ask. If the nodes did not come, the gang asks for half, and after its smallest size for nothing for some
// time.
func (a *asking) nextAsk(e *entry) (*Ask, elastic.Ladder) {
	was := e.Asked
	if was == nil {
		return &Ask{Gang: e.ID, Attempt: 1}, e.allowed
	}
	same := &Ask{Gang: e.ID, Attempt: was.Attempt, Pauses: was.Pauses, Size: was.Size, Apart: was.Apart, Verdict: was.Verdict, Message: was.Message}
	switch {
	case e.awaits:
		return same, e.sizes
	case was.Until.After(a.now):
		same.Pause = was.Until.Sub(a.now)
		return same, e.sizes
	case !was.Until.IsZero():
		return &Ask{Gang: e.ID, Attempt: was.Attempt + 1, Pauses: was.Pauses + 1}, e.allowed.UpTo(was.Size)
	case was.Size > e.allowed.Least():
		return &Ask{Gang: e.ID, Attempt: was.Attempt + 1, Pauses: was.Pauses}, e.allowed.UpTo(was.Size / 2)
	}
	same.Verdict, same.Pause = e.lost(a.now), longestPause
	if was.Pauses < 16 {
		same.Pause = min(e.queue.ScaleUp.Cooldown<<was.Pauses, longestPause)
	}
	return same, e.sizes
}

// sizeToAsk is the largest of some sizes of a gang that fits with the nodes that could come; 0 if none does. If the pods
// want a node each, apart is true unless that is at the cost of the size.
func (a *asking) sizeToAsk(e *entry, sizes elastic.Ladder) (size int, apart bool) {
	size = a.then.mostWith(e, sizes, a.left)
	if size == 0 || !e.Distinct && !e.Exclusive {
		return size, false
	}
	e.apart = true
	return size, a.then.mostWith(e, sizes, a.left) >= size
}

// decideAsk is the verdict on a gang for which nodes are asked for. It reports false if the gang lacks none.
func (v *verdicts) decideAsk(e *entry, d *Decision) bool {
	ask := e.ask
	switch {
	case ask.Pause > 0:
		d.Verdict, d.Message, d.LookAgain = ask.Verdict, v.lostMessage(e), v.now.Add(ask.Pause)
		if e.Asked.Until.IsZero() && e.AskProblem == "" { // the pause is recorded first: a gang without quota would have none
			d.Verdict = elastic.NodesRequested
		}
	case ask.Nodes == 0:
		return false
	default:
		ask.Coming = min(v.coming, ask.Nodes)
		v.coming -= ask.Coming
		d.Verdict, d.Message, d.LookAgain = elastic.NodesRequested, v.askMessage(e), v.nextAge(e)
		if e.awaits && e.Asked.Verdict.AwaitsNodes() {
			d.Verdict = e.Asked.Verdict
		}
	}
	d.Head = e.isHead
	return true
}

// askMessage says for how many nodes a gang waits.
func (v *verdicts) askMessage(e *entry) string {
	message := "waits for " + elastic.Several(e.ask.Nodes, "more node")
	if e.ask.Size < e.Sizing.Size {
		message += fmt.Sprintf(", to start with %d of %d brokers", e.ask.Size, e.Sizing.Size)
	}
	if e.AskProblem != "" {
		return message + ", for which the autoscaler cannot be asked: " + e.AskProblem
	}
	if !e.awaits {
		return message
	}
	asked := "asked " + ago(v.now.Sub(e.Asked.At))
	switch {
	case e.ask.Coming == 1:
		asked += ", 1 is coming"
	case e.ask.Coming > 1:
		asked += fmt.Sprintf(", %d are coming", e.ask.Coming)
	}
	return message + " (" + asked + ")"
}

// ages are how exactly a message tells how long ago something was: an age is a multiple of the unit, up to the next.
var ages = []struct {
	unit time.Duration
	text string
}{{10 * time.Second, "%d0 s ago"}, {time.Minute, "%d min ago"}, {time.Hour, "%d h ago"}}

// ago tells an age in a few words that rarely change.
func ago(age time.Duration) string {
	for i := len(ages) - 1; i >= 0; i-- {
		if n := age / ages[i].unit; n > 0 {
			return fmt.Sprintf(ages[i].text, n)
		}
	}
	return "just now"
}

// nextAge is when the age of what was asked for a gang is told in other words; zero if nothing was.
func (v *verdicts) nextAge(e *entry) time.Time {
	if !e.awaits {
		return time.Time{}
	}
	age, unit := v.now.Sub(e.Asked.At), ages[0].unit
	for _, a := range ages {
		if age >= a.unit {
			unit = a.unit
		}
	}
	return e.Asked.At.Add(age.Truncate(unit) + unit)
}

// lostMessages say why nodes did not come.
var lostMessages = map[elastic.Verdict]string{
	elastic.NodesTimedOut: "nodes for %s did not come in time",
	elastic.NodesFailed:   "the autoscaler cannot provide nodes for %s",
	elastic.NodesExpired:  "the autoscaler holds nodes for %s no longer",
	elastic.NodesRevoked:  "the autoscaler took the nodes for %s back",
}

// lostMessage says why a gang asks for no nodes, and until when.
func (v *verdicts) lostMessage(e *entry) string {
	message := fmt.Sprintf(lostMessages[e.ask.Verdict], elastic.Several(e.ask.Size, "broker"))
	if e.ask.Message != "" {
		message += ": " + e.ask.Message
	}
	return message + "; it asks again at " + v.now.Add(e.ask.Pause).UTC().Format(time.RFC3339)
}

// whyNoneCome says that not even the nodes that could come are enough for a gang that never fits; "" if its queue asks
// for none.
func (s *screening) whyNoneCome(e *entry) string {
	up := e.queue.ScaleUp
	switch {
	case up == nil || e.BestEffort:
		return ""
	case up.Barred != "":
		return "; queue " + e.queue.Name + " asks for no nodes: " + up.Barred
	}
	least := e.allowed.Least()
	now := sort.Search(least, func(n int) bool { return !s.base.CouldHold(e.ID, []int{n + 1}) })
	if now < least && s.couldCome(e, now+1) {
		most := 0
		for _, shape := range up.Shapes {
			most += min(shape.Most, up.More)
		}
		if most < up.More {
			return fmt.Sprintf("; no more than %d further nodes could come for queue %s, by the limits of their shapes", most, e.queue.Name)
		}
		return fmt.Sprintf("; queue %s may ask for no more than %d nodes (scaleUp.maxNodes)", e.queue.Name, up.Limit)
	}
	return fmt.Sprintf("; none of the nodes for which queue %s may ask could hold a broker", e.queue.Name)
}
