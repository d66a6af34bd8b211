// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"maps"
	"slices"
	"time"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/internal/status"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

// recordInterval is how often the usage of users is recorded in the status of their queue.
const recordInterval = time.Minute

// account is the usage of the users of a queue. It goes on from cycle to cycle, because a cycle follows
// each change of what they hold.
type account struct {
	queue.Account
	// recorded is the part that the status of the queue shows. After a restart the account is recovered
	// from the record, and from what MiniClusters have held since then. MiniClusters that were deleted or
	// lost their nodes after the record are missing then.
	recorded queue.Account
	// total is what the queues shared when that was recorded.
	total queue.Resources
}

// usage is the accounts of the queues, by name.
type usage map[string]*account

// step says what the users of each queue have used until now.
func (u usage) step(out *cycle, now time.Time) {
	counted := map[string]bool{}
	for i := range out.Queues {
		q := &out.Queues[i]
		if q.Users.HalfLife == 0 {
			continue
		}
		counted[q.Name] = true
		if u[q.Name] == nil {
			u[q.Name] = recoverAccount(out, out.seen.byName[q.Name], q.Users.HalfLife, now)
		}
		q.Users.Usage = u[q.Name].Until(now, q.Users.HalfLife)
	}
	maps.DeleteFunc(u, func(name string, _ *account) bool { return !counted[name] })
}

// recoverAccount is the account of a queue after a restart.
func recoverAccount(c *cycle, q *v1alpha2.MiniClusterQueue, halfLife time.Duration, now time.Time) *account {
	recorded := state.Account(q)
	if recorded.At.IsZero() {
		return &account{Account: queue.Account{At: now}}
	}
	var stays []queue.Stay
	holds := map[string]bool{}
	for i := range c.Running {
		if r := &c.Running[i]; r.Queue == q.Name {
			stays, holds[r.ID] = append(stays, r.Stay(now)), true
		}
	}
	for _, mc := range c.seen.finished {
		if r, ok := state.Finished(mc, q); ok && !holds[r.ID] {
			stays = append(stays, r.Stay(mc.Status.CompletionTime.Time))
		}
	}
	return &account{Account: recorded.Recover(stays, now, halfLife), recorded: recorded, total: c.Shared()}
}

// settle reckons the usage until now, from when on the users have what the cycle gave them. It returns
// when the usage is to be recorded next; zero if nobody has anything.
func (u usage) settle(result *queue.Result, seen *queue.Snapshot, now time.Time) (recordAt time.Time) {
	uses := map[string]queue.Use{}
	for _, use := range result.Uses {
		uses[use.Queue] = use
	}
	total := seen.Shared()
	for i := range seen.Queues {
		q := &seen.Queues[i]
		a := u[q.Name]
		if a == nil {
			continue
		}
		a.Settle(now, q.Users.HalfLife, uses[q.Name].Users, total, v1alpha2.MostUsers)
		if a.recorded.At.IsZero() || now.Sub(a.recorded.At) >= recordInterval {
			a.recorded, a.total = queue.Account{At: now.Truncate(time.Microsecond), Usage: maps.Clone(a.Usage)}, total
		}
		if slices.ContainsFunc(uses[q.Name].Users, func(use queue.UserUse) bool { return use.Pods > 0 }) {
			recordAt = elastic.Earliest(recordAt, a.recorded.At.Add(recordInterval))
		}
	}
	return recordAt
}

// report adds the recorded usage to a report on a queue.
func (u usage) report(report *status.QueueReport) {
	if a := u[report.Use.Queue]; a != nil {
		report.Usage, report.UsageTime, report.Shared = a.recorded.Usage, a.recorded.At, a.total
	}
}

// mostLearned is how many users the scheduler knows by how long their MiniClusters take.
const mostLearned = 1000

// learning is how long MiniClusters have taken, and those that have ended and are still to be learned from.
type learning struct {
	*queue.Runtimes
	ended []*v1alpha2.MiniCluster
}

// note keeps a MiniCluster that has ended for the next cycle, which knows the queues.
func (l *learning) note(mc *v1alpha2.MiniCluster) {
	if mc.Status.CompletionTime != nil {
		l.ended = append(l.ended, mc)
	}
}

// step learns from the MiniClusters that have ended, the last of them last.
func (l *learning) step(queues map[string]*v1alpha2.MiniClusterQueue) {
	slices.SortStableFunc(l.ended, func(a, b *v1alpha2.MiniCluster) int {
		return a.Status.CompletionTime.Compare(b.Status.CompletionTime.Time)
	})
	for _, mc := range l.ended {
		if q := queues[mc.Status.Queue]; q != nil {
			if r, ended, ok := state.Lasted(mc, q); ok {
				l.Learn(&r, ended)
			}
		}
	}
	l.ended = nil
}
