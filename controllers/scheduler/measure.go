// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/controllers/index"
	"github.com/flux-elastic/flux-elastic/controllers/metrics"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
)

// measured is what the metrics say about the queues after a cycle. Queues that do not exist count together,
// without a name.
func measured(c *cycle, result *queue.Result) map[string]metrics.Queue {
	out := make(map[string]metrics.Queue, len(c.Queues))
	names := make(map[string]bool, len(c.Queues))
	for i := range c.Queues {
		q := &c.Queues[i]
		names[q.Name] = true
		out[q.Name] = metrics.Queue{Waiting: map[elastic.Verdict]int{}, Patience: q.Patience}
	}
	metrics.SetQueues(names)
	for i := range result.Decisions {
		d, name := &result.Decisions[i], c.decidedOn[i].queue
		if !names[name] {
			name = ""
		}
		q := out[name]
		if q.Waiting == nil {
			q.Waiting = map[elastic.Verdict]int{}
		}
		q.Waiting[d.Verdict]++
		if d.Head && d.Verdict != elastic.Admitted {
			q.Blocked = elastic.Earliest(q.Blocked, d.Blocked)
		}
		out[name] = q
	}
	return out
}

// measure is what the metrics say about the cluster; nil before the first cycle, as in a manager that does not lead.
// What MiniClusters hold comes from the cache, because no cycle follows the start of a command.
func (s *Scheduler) measure() *metrics.Cluster {
	out := &metrics.Cluster{Queues: map[string]metrics.Queue{}}
	s.mutex.Lock()
	measured, nodes := s.reports.measured, s.ledger.Usable()
	s.mutex.Unlock()
	var list v1alpha2.MiniClusterList
	if measured == nil || s.Cache.List(context.Background(), &list, index.Live, client.UnsafeDisableDeepCopy) != nil {
		return nil
	}
	for name, q := range measured {
		out.Queues[name] = q
	}
	holds := map[string]bool{} // by node; true if a command runs there
	for i := range list.Items {
		mc := &list.Items[i]
		promise, err := state.PromiseOf(mc)
		if promise == nil || err != nil {
			continue
		}
		name := mc.Status.Queue
		if _, exists := measured[name]; !exists {
			name = ""
		}
		q, runs := out.Queues[name], mc.Status.StartTime != nil
		q.Admitted++
		if brokers := len(promise.Ranks()); runs {
			q.Running += brokers
		} else {
			q.Starting += brokers
		}
		out.Queues[name] = q
		for _, node := range promise.Nodes {
			if node != "" {
				holds[node] = holds[node] || runs
			}
		}
	}
	out.Nodes = nodesOf(nodes, holds)
	return out
}

// nodesOf counts nodes: by whether brokers can use them now, and whether a command runs on those that are held.
func nodesOf(usable, holds map[string]bool) (n metrics.Nodes) {
	for node, up := range usable {
		switch runs, held := holds[node]; {
		case runs:
			n.Running++
		case held:
			n.Starting++
		case up:
			n.Idle++
		default:
			n.Down++
		}
	}
	return n
}
