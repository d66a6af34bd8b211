// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"cmp"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/state"
)

// books are what the attempts of a queue used that have ended. Each MiniCluster records its usage (status.usage), and the
// books add this up.
type books struct {
	// shown is what the status of the queue is to show; nil if nothing was used. It is made anew for each change.
	shown *v1alpha2.Accounting
	users map[string]v1alpha2.Usage
	// recorded is until when the status of the queue had counted attempts when this manager began. Attempts that ended
	// later and before the manager began are counted if their MiniClusters still exist.
	recorded time.Time
}

// spending is what a MiniCluster used: since the version before, or as far as its queue has not recorded it if it was
// found.
type spending struct {
	miniCluster *v1alpha2.MiniCluster
	spent       state.Spent
	found       bool
}

// accounting is the books of the queues, by name, and what is still to be added to them.
type accounting struct {
	books     map[string]*books
	spendings []spending
}

// note keeps what a MiniCluster has used since the version before, which is nil if the cache has not shown it before. The
// next cycle knows the queues.
func (a *accounting) note(before, mc *v1alpha2.MiniCluster) {
	if before == nil {
		if mc.Status.Usage != nil {
			a.spendings = append(a.spendings, spending{miniCluster: mc, found: true})
		}
	} else if spent, ok := state.SpentSince(before, mc); ok {
		a.add(mc, spent)
	}
}

// add keeps what a MiniCluster has used.
func (a *accounting) add(mc *v1alpha2.MiniCluster, spent state.Spent) {
	a.spendings = append(a.spendings, spending{miniCluster: mc, spent: spent})
}

// step adds what MiniClusters used to the books of their queues.
func (a *accounting) step(queues map[string]*v1alpha2.MiniClusterQueue) {
	maps.DeleteFunc(a.books, func(name string, _ *books) bool { return queues[name] == nil })
	for name, q := range queues {
		if a.books[name] == nil {
			a.books[name] = openBooks(q.Status.Accounting)
		}
	}
	changed := map[*books]bool{}
	for i := range a.spendings {
		mc, spent := a.spendings[i].miniCluster, a.spendings[i].spent
		b := a.books[mc.Status.Queue]
		if b == nil {
			continue // its queue is gone
		}
		if a.spendings[i].found {
			spent = state.SpentAfter(mc, b.recorded)
		}
		if spent.Usage == (v1alpha2.Usage{}) {
			continue
		}
		if !changed[b] {
			changed[b], b.shown = true, b.shown.DeepCopy()
		}
		b.add(state.User(mc, queues[mc.Status.Queue]), spent)
	}
	for b := range changed {
		b.list()
	}
	a.spendings = nil
}

// openBooks are the books of a queue, from its status.
func openBooks(recorded *v1alpha2.Accounting) *books {
	b := &books{users: map[string]v1alpha2.Usage{}}
	if recorded == nil {
		return b
	}
	b.shown, b.recorded = recorded.DeepCopy(), recorded.Until.Time
	for _, user := range recorded.Users {
		b.users[user.Name] = user.Usage
	}
	return b
}

// add adds what a user used.
func (b *books) add(user string, spent state.Spent) {
	if b.shown == nil {
		b.shown = &v1alpha2.Accounting{}
	}
	b.shown.Usage = sum(b.shown.Usage, spent.Usage)
	b.users[user] = sum(b.users[user], spent.Usage)
	if spent.Until.After(b.shown.Until.Time) {
		b.shown.Until = metav1.NewTime(spent.Until)
	}
}

// list lists the users who used most. The others are forgotten, so that the number of users is bounded.
func (b *books) list() {
	total := func(u v1alpha2.Usage) int64 { return u.UsefulNodeSeconds + u.LostNodeSeconds }
	names := slices.SortedFunc(maps.Keys(b.users), func(x, y string) int {
		return cmp.Or(cmp.Compare(total(b.users[y]), total(b.users[x])), cmp.Compare(x, y))
	})
	b.shown.Users = nil
	for i, name := range names {
		if i >= v1alpha2.MostUsers {
			delete(b.users, name)
			continue
		}
		b.shown.Users = append(b.shown.Users, v1alpha2.UserUsage{Name: name, Usage: b.users[name]})
	}
}

func sum(a, b v1alpha2.Usage) v1alpha2.Usage {
	return v1alpha2.Usage{UsefulNodeSeconds: a.UsefulNodeSeconds + b.UsefulNodeSeconds, LostNodeSeconds: a.LostNodeSeconds + b.LostNodeSeconds}
}
