// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import "slices"

// mostKinds is how many kinds of gangs of a queue tell on which nodes the guarantee of the queue is kept free.
const mostKinds = 16

// AnyGang is the ID of a gang whose pods select no nodes, tolerate no taints, and request nothing. A guarantee is always for such
// gangs, too: nobody knows which gangs come.
const AnyGang = "any gang"

// addKind notes on which nodes gangs of a class could run, unless these are some of the nodes of another kind.
func (q *jobQueue) addKind(room Room, id, class string) {
	if len(q.Guarantee) == 0 || q.classes[class] {
		return
	}
	q.classes[class] = true
	if slices.ContainsFunc(q.kinds, func(kind string) bool { return !room.Meet(id, id, kind) }) {
		return
	}
	q.kinds = slices.DeleteFunc(q.kinds, func(kind string) bool { return !room.Meet(kind, kind, id) })
	if len(q.kinds) < mostKinds {
		q.kinds = append(q.kinds, id)
	}
}

// withinGuarantees is the number of pods of a gang that the guarantees of other queues leave, at most limit.
func (s *clusterState) withinGuarantees(g *Gang, q *jobQueue, limit int) int {
	for _, name := range s.guaranteed {
		if amount := g.Requests[name]; amount > 0 && s.keptForOthers(q, name) > 0 {
			free := s.free(g, name)
			// A queue may always take its own guarantee, even if all guarantees exceed the
			// cluster.
			own := min(free, q.Guarantee[name]-s.has(q, name))
			free = max(free-s.keptFrom(g, q, name, free-times(amount, limit)), own)
			limit = min(limit, int(max(free, 0)/amount))
		}
	}
	return limit
}

// free is how much of a resource is free on the nodes that a gang could use.
func (s *clusterState) free(g *Gang, name string) int64 {
	free, _ := s.room.Amount(name, g.ID, "")
	return free - s.names.amount(s.unplaced, name)
}

// sparesGuarantees reports whether a gang at its smallest size leaves other queues what they are guaranteed, if the nodes that it
// could use hold all guarantees.
func (s *clusterState) sparesGuarantees(e *entry) bool {
	for _, name := range s.guaranteed {
		if e.Requests[name] == 0 || s.keptForOthers(e.queue, name) == 0 {
			continue
		}
		left := s.free(&e.Gang, name) - times(e.Requests[name], e.least())
		if left < s.keptFrom(&e.Gang, e.queue, name, left) {
			if _, all := s.room.Amount(name, e.ID, ""); s.promised(s.room, &e.Gang, name, nil) <= all {
				return false
			}
		}
	}
	return true
}

// keptForOthers is how much of a resource is guaranteed to other queues and not in use.
func (s *clusterState) keptForOthers(q *jobQueue, name string) (sum int64) {
	for _, other := range s.guarantors {
		sum = bounded(sum + s.keptFor(other, q, name))
	}
	return sum
}

// keptFor is how much of a resource is guaranteed to another queue than q and not in use.
func (s *clusterState) keptFor(other, q *jobQueue, name string) int64 {
	if other == q {
		return 0
	}
	return max(other.Guarantee[name]-s.has(other, name), 0)
}

// had is what a queue has of its guarantee on nodes that some gang could not use: those of a kind.
type had struct {
	kind   string
	amount int64
}

// keptFrom is how much of a resource a gang of a queue has to leave to other queues on the nodes that it could use: what is
// guaranteed to them and not in use, without what they can have on other nodes. If so much is left that this does not
// matter, it is not looked at.
func (s *clusterState) keptFrom(g *Gang, q *jobQueue, name string, left int64) (sum int64) {
	if all := s.keptForOthers(q, name); all <= left {
		return all
	}
	var before []had
	for _, other := range s.guarantors {
		if kept := s.keptFor(other, q, name); kept > 0 {
			elsewhere, meets := s.hadElsewhere(other, g, name, kept, before)
			if before = append(before, elsewhere); meets {
				sum = bounded(sum + kept - elsewhere.amount)
			}
		}
	}
	return sum
}

// hadElsewhere is how much of what is kept for a queue it can have on nodes that a gang could not use, beside what queues before
// it have there: the most that any kind of its gangs can, of those that could use some node of the gang. It reports false if no
// kind could.
func (s *clusterState) hadElsewhere(q *jobQueue, g *Gang, name string, kept int64, before []had) (most had, meets bool) {
	for i, kind := range q.kinds {
		free, _ := s.room.Amount(name, kind, g.ID)
		for _, h := range before {
			if h.amount > 0 && s.room.Meet(kind, h.kind, g.ID) {
				free -= h.amount
			}
		}
		this, meet := had{kind, min(max(free, 0), kept)}, s.room.Meet(kind, g.ID, "")
		if i == 0 || meet && !meets || meet == meets && this.amount > most.amount {
			most, meets = this, meet
		}
	}
	return most, meets
}

// promised is how much of a resource is guaranteed to all queues but one on the nodes that a gang could use.
func (s *clusterState) promised(room Room, g *Gang, name string, but *jobQueue) (sum int64) {
	for _, q := range s.guarantors {
		if q != but {
			sum = bounded(sum + q.part(room, g.ID, name))
		}
	}
	return sum
}

// part is how much of its guarantee a queue needs of the nodes that a gang could use, whatever is held: the least that any kind of
// its gangs does, which could have the rest on other nodes. If no kind could use these nodes, it is nothing.
func (q *jobQueue) part(room Room, id, name string) int64 {
	if !q.meets(room, id) {
		return 0
	}
	part := q.Guarantee[name]
	for _, kind := range q.kinds {
		_, elsewhere := room.Amount(name, kind, id)
		part = min(part, max(q.Guarantee[name]-elsewhere, 0))
	}
	return part
}

// meets reports whether a kind of the gangs of the queue could use some node that a gang could use.
func (q *jobQueue) meets(room Room, id string) bool {
	return slices.ContainsFunc(q.kinds, func(kind string) bool { return room.Meet(kind, id, "") })
}

// mostOf is how much of a resource there is in all for a gang on the nodes that it could use, with what may come, and how much of
// that the guarantees of other queues leave.
func (s *screening) mostOf(e *entry, name string) (all, left int64) {
	_, all = s.base.Amount(name, e.ID, "")
	all = bounded(all + e.mostToCome(name))
	return all, max(all-s.state.promised(s.base, &e.Gang, name, e.queue), e.queue.Guarantee[name])
}
