// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// screening finds the gangs that cannot start whatever ends.
type screening struct {
	*cycle
	holds map[string][2]int   // by class: a size that fits, and one that does not
	most  map[string][2]int64 // by queue, class and resource: what there is in all, and what guarantees leave
}

// enqueue sorts out the gangs that cannot start whatever ends, so that they block nobody.
func (c *cycle) enqueue() {
	s := screening{c, map[string][2]int{}, map[string][2]int64{}}
	taken := map[string]bool{} // the singleton keys of gangs with nodes
	for _, r := range c.runs {
		taken[r.Singleton] = true
	}
	for _, q := range c.queues {
		for _, e := range q.all {
			s.sortOut(e)
		}
		c.takeTurns(q, taken)
		for _, e := range q.all {
			if e.place = len(q.waiting); e.verdict == "" && !e.BestEffort {
				q.waiting = append(q.waiting, e)
			}
		}
	}
}

func (s *screening) sortOut(e *entry) {
	refused := s.refusal(e)
	if refused.Verdict == "" && !s.couldHold(e) {
		refused = elastic.Refusal{Verdict: elastic.NeverFits, Message: s.base.Why(e.ID, []int{e.allowed.Least()}) + s.whyNoneCome(e)}
	}
	e.verdict, e.message = refused.Verdict, refused.Message
}

// refusal says why a gang may not start in its queue; empty if it may.
func (s *screening) refusal(e *entry) elastic.Refusal {
	switch q := e.queue; {
	case !q.known:
		return elastic.Refuse(elastic.NoSuchQueue, "there is no queue "+e.Queue)
	case e.Refused.Verdict != "":
		return e.Refused
	case q.Suspended:
		return elastic.Refuse(elastic.QueueSuspended, fmt.Sprintf("queue %s is suspended", q.Name))
	}
	return elastic.Refuse(elastic.TooLargeForQueue, cmp.Or(s.tooLarge(e), e.tooManyForUser(), s.tooMuchPromised(e)))
}

// tooLarge says which capacity of the queue is too small for a gang; "" if none is.
func (s *screening) tooLarge(e *entry) string {
	for _, name := range sorted(e.queue.Capacity) {
		need := times(e.Requests[name], e.allowed.Least())
		if may := e.queue.Capacity[name]; need > may {
			return fmt.Sprintf("needs %s%s, queue %s may have %s", s.amount(name, need), e.wholly(name), e.queue.Name, s.amount(name, may))
		}
	}
	return ""
}

// tooMuchPromised says which guarantees of other queues leave too little for a gang; "" if none
// do.
func (s *screening) tooMuchPromised(e *entry) string {
	for _, name := range s.state.guaranteed {
		need, kind := times(e.Requests[name], e.allowed.Least()), e.queue.Name+"/"+name+"/"+e.class
		if need == 0 {
			continue
		}
		known, asked := s.most[kind]
		if !asked {
			known[0], known[1] = s.mostOf(e, name)
			s.most[kind] = known
		}
		if all, left := known[0], known[1]; left < all && need > left && need <= all {
			return fmt.Sprintf("needs %s%s, of %s in all %s are guaranteed to other queues", s.amount(name, need), e.wholly(name), s.amount(name, all), s.amount(name, all-left))
		}
	}
	return ""
}

// couldHold asks the room once per class and size, and the room with the nodes that could come once per queue, too.
func (s *screening) couldHold(e *entry) bool {
	class := e.class
	if e.mayAsk() {
		class = e.queue.Name + "/" + class
	}
	return remembered(s.holds, class, e.allowed.Least(), func(least int) bool {
		return s.base.CouldHold(e.ID, []int{least}) || s.couldCome(e, least)
	})
}

// remembered is whether a size of a class is possible. It asks only if neither a larger size was found to be possible nor a
// smaller one not to be. seen has both, by class.
func remembered(seen map[string][2]int, class string, size int, ask func(size int) bool) bool {
	switch known := seen[class]; {
	case known[0] >= size:
		return true
	case known[1] > 0 && size >= known[1]:
		return false
	case ask(size):
		seen[class] = [2]int{size, known[1]}
		return true
	default:
		seen[class] = [2]int{known[0], size}
		return false
	}
}

// sorted are the names of resources in order.
func sorted(r Resources) []string {
	names := make([]string, 0, len(r))
	for name := range r {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
