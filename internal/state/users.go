// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

// User is the user of a queue to whom a MiniCluster belongs; queue may be nil.
func User(mc *v1alpha2.MiniCluster, queue *v1alpha2.MiniClusterQueue) string {
	if queue == nil || queue.Spec.Users == nil {
		return mc.Namespace
	}
	return cmp.Or(mc.Labels[queue.Spec.Users.Label], mc.Namespace)
}

// users are the limits of the users of a queue with its defaults. Their usage counts if the queue
// orders by it, or says something about users.
func users(s *v1alpha2.MiniClusterQueueSpec) queue.Users {
	switch {
	case s.Users != nil:
		return queue.Users{HalfLife: s.Users.HalfLife.Duration, MaxRunning: int(s.Users.MaxRunning), MaxNodes: int(s.Users.MaxNodes)}
	case s.Ordering == v1alpha2.OrderFairShare:
		return queue.Users{HalfLife: v1alpha2.DefaultHalfLife}
	}
	return queue.Users{}
}

// Account is what the status of a queue records of the usage of its users. Without a record its time is
// zero.
func Account(q *v1alpha2.MiniClusterQueue) queue.Account {
	account := queue.Account{Usage: map[string]queue.Spent{}}
	if q.Status.UsageTime == nil {
		return account
	}
	account.At = q.Status.UsageTime.Time
	for _, user := range q.Status.Users {
		if spent := spentOf(&user); len(spent) > 0 {
			account.Usage[user.Name] = spent
		}
	}
	return account
}

// spentOf reads what a user has used. An earlier manager recorded that in seconds of a whole cluster.
func spentOf(user *v1alpha2.QueueUser) queue.Spent {
	spent := queue.Spent{}
	add := func(name, text string, unit float64) {
		if used, err := strconv.ParseFloat(text, 64); err == nil && used > 0 {
			spent[name] = used * unit
		}
	}
	for name, text := range user.ResourceSeconds {
		add(name, text, queue.Unit(name))
	}
	if len(user.ResourceSeconds) == 0 {
		add(queue.WholeCluster, user.Usage, 1)
	}
	return spent
}

// Finished is what a MiniCluster held in a queue until it finished; false if it has not finished, or
// did so without nodes.
func Finished(mc *v1alpha2.MiniCluster, q *v1alpha2.MiniClusterQueue) (queue.Running, bool) {
	a := mc.Status.Admission
	if a == nil || mc.Status.CompletionTime == nil || mc.Status.Queue != q.Name || !meta.IsStatusConditionTrue(mc.Status.Conditions, v1alpha2.ConditionFinished) {
		return queue.Running{}, false
	}
	held, err := admissionOf(mc)
	if err != nil {
		return queue.Running{}, false
	}
	gang := queue.Gang{
		ID: string(mc.UID), Queue: q.Name, User: User(mc, q), Requests: queue.Resources(admitted(a)), Sizing: elastic.Sizing{Size: int(mc.Spec.Size)},
	}
	return queue.Running{Gang: gang, Ranks: held.Members(), Admitted: held.At}, true
}

// Lasted is what a MiniCluster held in a queue whose command succeeded, and when it ended; false for others. It is
// false for malleable ones, too: at which sizes these ran is not recorded. It is false for those that went on after a
// deadline: the last attempt is a part.
func Lasted(mc *v1alpha2.MiniCluster, q *v1alpha2.MiniClusterQueue) (r queue.Running, ended time.Time, ok bool) {
	goesOn := mc.Status.RequeueState != nil && mc.Status.RequeueState.Deadlines > 0
	if r, ok = Finished(mc, q); !ok || malleable(mc) || goesOn {
		return r, ended, false
	}
	finished := meta.FindStatusCondition(mc.Status.Conditions, v1alpha2.ConditionFinished)
	return r, mc.Status.CompletionTime.Time, finished.Reason == v1alpha2.ReasonSucceeded
}
