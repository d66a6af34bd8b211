// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

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

// findFinished reads the finished MiniClusters that are needed to recover the usage of a queue.
func (s *Scheduler) findFinished(ctx context.Context, seen *clusterState) error {
	if !slices.ContainsFunc(seen.queues, func(q *v1alpha2.MiniClusterQueue) bool {
		return s.accounts[q.Name] == nil && q.Status.UsageTime != nil
	}) {
		return nil
	}
	var all v1alpha2.MiniClusterList
	if err := s.Cache.List(ctx, &all, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("listing finished MiniClusters: %w", err)
	}
	for i := range all.Items {
		if all.Items[i].Status.CompletionTime != nil {
			seen.finished = append(seen.finished, &all.Items[i])
		}
	}
	return nil
}

// reckon says who the users of all gangs are, how long their gangs are expected to run, and what they have used until
// now.
func (s *Scheduler) reckon(out *snapshot, queues map[string]*v1alpha2.MiniClusterQueue, now time.Time) {
	for i, e := range out.waiting {
		out.Waiting[i].User = state.User(e.known.miniCluster, queues[e.queue])
		s.runtimes.Expect(&out.Waiting[i])
	}
	for i := range out.Running {
		gang := &out.Running[i].Gang
		gang.User = state.User(s.known[types.UID(gang.ID)].miniCluster, queues[gang.Queue])
		s.runtimes.Expect(gang)
	}
	counted := map[string]bool{}
	for i := range out.Queues {
		q := &out.Queues[i]
		if q.Users.HalfLife == 0 {
			continue
		}
		counted[q.Name] = true
		if s.accounts[q.Name] == nil {
			s.accounts[q.Name] = recoverAccount(out, queues[q.Name], q.Users.HalfLife, now)
		}
		q.Users.Usage = s.accounts[q.Name].Until(now, q.Users.HalfLife)
	}
	maps.DeleteFunc(s.accounts, func(name string, _ *account) bool { return !counted[name] })
}

// recoverAccount is the account of a queue after a restart.
func recoverAccount(seen *snapshot, q *v1alpha2.MiniClusterQueue, halfLife time.Duration, now time.Time) *account {
	recorded := state.Account(q)
	if recorded.At.IsZero() {
		return &account{Account: queue.Account{At: now}}
	}
	var stays []queue.Stay
	holds := map[string]bool{}
	for i := range seen.Running {
		if r := &seen.Running[i]; r.Queue == q.Name {
			stays, holds[r.ID] = append(stays, r.Stay(now)), true
		}
	}
	for _, mc := range seen.finished {
		if r, ok := state.Finished(mc, q); ok && !holds[r.ID] {
			stays = append(stays, r.Stay(mc.Status.CompletionTime.Time))
		}
	}
	return &account{Account: recorded.Recover(stays, now, halfLife), recorded: recorded, total: seen.Shared()}
}

// settleUsers reckons the usage until now, from when on the users have what the cycle gave them. It returns
// when the usage is to be recorded next; zero if nobody has anything.
func (s *Scheduler) settleUsers(result queue.Result, seen *snapshot, now time.Time) (recordAt time.Time) {
	uses := map[string]queue.Use{}
	for _, use := range result.Uses {
		uses[use.Queue] = use
	}
	total := seen.Shared()
	for i := range seen.Queues {
		q := &seen.Queues[i]
		a := s.accounts[q.Name]
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

// reportUsage adds the recorded usage to a report on a queue.
func (s *Scheduler) reportUsage(report *status.QueueReport) {
	if a := s.accounts[report.Use.Queue]; a != nil {
		report.Usage, report.UsageTime, report.Shared = a.recorded.Usage, a.recorded.At, a.total
	}
}
