// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package queue

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// Users are the limits and the usage of the users of a queue.
type Users struct {
	// MaxRunning is how many gangs of a user may have nodes at once, and MaxNodes how many pods; 0 is no
	// limit.
	MaxRunning, MaxNodes int
	// HalfLife is the time after which usage counts half. 0: usage does not count.
	HalfLife time.Duration
	// Usage is the usage by user until now (Account.Until). It matters for the orderings FairShare and Slowdown.
	Usage map[string]Spent
}

// UserUse is what a user of a queue has, for the queue's status.
type UserUse struct {
	User string
	// Gangs and Pods are those with nodes, and Pending is how many gangs wait.
	Gangs, Pods, Pending int
	// Holds is what they hold.
	Holds Resources
}

// user is a user of a queue.
type user struct {
	name  string
	queue *jobQueue
	index int // in clusterState.users
	// past is the average part of the cluster that the user had. Past time counts less, by the half-life.
	past float64
}

// tally is how many gangs and pods of a user have nodes.
type tally struct{ gangs, pods int }

// userOf is the user of a gang, which is made if it is new.
func (c *cycle) userOf(gang *Gang, q *jobQueue) *user {
	if u := q.users[gang.User]; u != nil {
		return u
	}
	u := &user{name: gang.User, queue: q, index: len(c.state.users)}
	if q.users == nil {
		q.users = map[string]*user{}
	}
	if q.Users.HalfLife > 0 {
		u.past = q.Users.Usage[u.name].Share(c.state.total) / lifetime(q.Users.HalfLife)
	}
	q.users[u.name] = u
	c.state.users = append(c.state.users, tally{})
	return u
}

// takeTurns finds the gangs that their users may not have beside those that go first, or whose singleton key is taken by those,
// and sorts the gangs of a FairShare queue. Its users take turns: the next gang is one of the user with the least
// usage. This counts what the user has had on average, has now, and gets by the gangs that go first at
// their smallest sizes. (This is start-time fair queueing, Goyal et al. 1996, by dominant resource.)
func (c *cycle) takeTurns(q *jobQueue, taken map[string]bool) {
	byTurn := func(a, b *entry) int {
		return cmp.Or(q.byPriority(&a.Gang, &b.Gang), compare(b.goesFirst(), a.goesFirst()), cmp.Compare(a.turn, b.turn))
	}
	if q.Ordering == BySlowdown {
		c.rank(q)
	} else {
		slices.SortStableFunc(q.all, byTurn)
	}
	var has map[string]Resources
	if q.Ordering == ByUser {
		has = c.holdings(q)
	}
	tallies := slices.Clone(c.state.users)
	for _, e := range q.all {
		if q.Ordering == ByUser {
			e.turn = e.user.past + c.state.share(has[e.user.name])
		}
		t := &tallies[e.user.index]
		if e.beyond = e.exceeds(*t); q.Ordering != ByUser {
			e.takeKey(taken)
		}
		if e.verdict != "" || e.beyond != noLimit {
			continue
		}
		t.gangs, t.pods = t.gangs+1, t.pods+e.least()
		if q.Ordering == ByUser {
			has[e.user.name].Add(e.Requests, e.least())
		}
	}
	if q.Ordering == ByUser {
		slices.SortStableFunc(q.all, byTurn)
		for _, e := range q.all {
			e.takeKey(taken)
		}
	}
}

// takeKey takes the singleton key of a gang that may start. The message names no gang: many may have the message, and each
// change is written to all of them.
func (e *entry) takeKey(taken map[string]bool) {
	switch {
	case e.verdict != "" || e.Singleton == "" || e.beyond != noLimit:
	case taken[e.Singleton]:
		e.verdict, e.message = elastic.Singleton, "waits until no other MiniCluster with its singleton key runs or goes first"
	default:
		taken[e.Singleton] = true
	}
}

// goesFirst reports whether a gang goes before others of its priority: it was promised a start or, in a queue whose order changes,
// nodes come for it.
func (e *entry) goesFirst() bool {
	return !e.Promised.IsZero() || !e.queue.isSteady() && (e.Taken.waits() || e.awaits)
}

// holdings are what the running gangs of each user of a queue hold.
func (c *cycle) holdings(q *jobQueue) map[string]Resources {
	has := make(map[string]Resources, len(q.users))
	for name := range q.users {
		has[name] = Resources{}
	}
	for _, r := range c.runs {
		if r.queue == q {
			has[r.User].Add(r.Requests, len(r.Ranks)+r.grows)
		}
	}
	return has
}

// userLimit is a limit of a user that a gang would exceed.
type userLimit int

const (
	noLimit userLimit = iota
	maxRunning
	maxNodes
)

// exceeds is the limit that a gang would exceed if its user has so much.
func (e *entry) exceeds(has tally) userLimit {
	switch may := &e.queue.Users; {
	case may.MaxRunning > 0 && has.gangs >= may.MaxRunning:
		return maxRunning
	case may.MaxNodes > 0 && has.pods+e.least() > may.MaxNodes:
		return maxNodes
	}
	return noLimit
}

// waitsForUser is the limit because of which a gang waits until other gangs of its user have ended.
// Such a gang blocks nobody.
func (c *cycle) waitsForUser(e *entry) userLimit {
	if len(e.nodes) > 0 {
		return noLimit
	}
	return e.exceeds(c.state.users[e.user.index])
}

// limitOf is the limit of its user because of which a gang waits, now or behind the gangs that go first.
func (c *cycle) limitOf(e *entry) userLimit { return max(c.waitsForUser(e), e.beyond) }

// userMessage explains a limit. The message has no number that changes with other gangs: many gangs of a
// user may have the message, and each change is written to all of them.
func (e *entry) userMessage(limit userLimit) string {
	q := e.queue
	if limit == maxRunning {
		return fmt.Sprintf("queue %s runs at most %d of user %s's MiniClusters at once, and as many run or go first", q.Name, q.Users.MaxRunning, e.user.name)
	}
	return fmt.Sprintf("%s, with what runs or goes first of this user", e.tooManyNodes())
}

func (e *entry) tooManyNodes() string {
	return fmt.Sprintf("needs %s, queue %s allows user %s %d at once", elastic.Several(e.least(), "broker"), e.queue.Name, e.user.name, e.queue.Users.MaxNodes)
}

// tooManyForUser says that a gang exceeds the limit of its user by itself; "" if it does not.
func (e *entry) tooManyForUser() string {
	if most := e.queue.Users.MaxNodes; most > 0 && e.allowed.Least() > most {
		return e.tooManyNodes()
	}
	return ""
}

// userUses are what the users of a queue have after the cycle, by name.
func (v *verdicts) userUses(q *jobQueue, after *clusterState) []UserUse {
	has, pending := v.holdings(q), map[string]int{}
	for _, e := range q.all {
		if len(e.nodes) == 0 || e.isPutOff {
			pending[e.User]++
			continue
		}
		has[e.User].Add(e.Requests, len(e.nodes))
	}
	uses := make([]UserUse, 0, len(has))
	for _, name := range slices.Sorted(maps.Keys(has)) {
		t := after.users[q.users[name].index]
		uses = append(uses, UserUse{User: name, Gangs: t.gangs, Pods: t.pods, Pending: pending[name], Holds: has[name]})
	}
	return uses
}
