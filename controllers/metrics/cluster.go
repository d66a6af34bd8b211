// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// Cluster is what the gauges say now.
type Cluster struct {
	Queues map[string]Queue
	Nodes  Nodes
}

// Queue is what the gauges say about a queue.
type Queue struct {
	// Waiting are the MiniClusters that wait for nodes, by the verdict of the last cycle, and Admitted is how many have
	// nodes.
	Waiting  map[elastic.Verdict]int
	Admitted int
	// Starting and Running are the brokers that have nodes, before and after their command began.
	Starting, Running int
	// Blocked is since when its head has waited; zero if it has none. Patience is that of the queue.
	Blocked  time.Time
	Patience time.Duration
}

// Nodes is how many nodes have brokers whose command runs, brokers whose command did not begin yet, none though brokers
// can use them, or none and are down.
type Nodes struct{ Running, Starting, Idle, Down int }

// verdicts are the verdicts of the scheduler on MiniClusters that wait.
var verdicts = []elastic.Verdict{
	elastic.NeverFits, elastic.NoRoom, elastic.WaitingForSize, elastic.WaitingForTurn,
	elastic.NotAllowed, elastic.NoSuchQueue, elastic.QueueSuspended, elastic.DeadlineTooLong, elastic.TooLargeForQueue,
	elastic.UserLimit, elastic.QuotaExceeded, elastic.WaitingForVolume, elastic.QueueFull, elastic.Singleton,
	elastic.NodesRequested, elastic.NodesAccepted, elastic.NodesProvisioned,
	elastic.NodesTimedOut, elastic.NodesFailed, elastic.NodesExpired, elastic.NodesRevoked,
}

var (
	waitingDesc  = desc("waiting_miniclusters", "MiniClusters that wait for nodes, by verdict of the last cycle.", "queue", "verdict")
	admittedDesc = desc("admitted_miniclusters", "MiniClusters that have nodes.", "queue")
	brokersDesc  = desc("brokers", "Brokers that have nodes: starting until their command begins, then running.", "queue", "state")
	blockedDesc  = desc("head_blocked_timestamp_seconds", "Since when the head of a queue has waited for room; no series if none does.", "queue")
	patienceDesc = desc("queue_patience_seconds", "The patience of a queue.", "queue")
	nodesDesc    = desc("nodes", "Nodes for brokers: with running brokers, only with starting ones, idle, or down.", "state")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(prefix+name, help, labels, nil)
}

// gauges reads the cluster when somebody reads the metrics. So no series of a queue outlives the queue, and nothing is
// left of what was so before.
var gauges = &collector{}

type collector struct {
	read atomic.Pointer[func() *Cluster]
}

// Observe says what reads the cluster. The result is nil while this manager does not lead.
func Observe(read func() *Cluster) { gauges.read.Store(&read) }

// Describe implements prometheus.Collector.
func (*collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{waitingDesc, admittedDesc, brokersDesc, blockedDesc, patienceDesc, nodesDesc} {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	read := c.read.Load()
	if read == nil {
		return
	}
	seen := (*read)()
	if seen == nil {
		return
	}
	set := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	for name, q := range seen.Queues {
		for _, verdict := range verdicts {
			set(waitingDesc, float64(q.Waiting[verdict]), name, string(verdict))
		}
		set(admittedDesc, float64(q.Admitted), name)
		set(brokersDesc, float64(q.Starting), name, "starting")
		set(brokersDesc, float64(q.Running), name, "running")
		if name == "" {
			continue // these MiniClusters have no queue
		}
		set(patienceDesc, q.Patience.Seconds(), name)
		if !q.Blocked.IsZero() {
			set(blockedDesc, float64(q.Blocked.UnixMilli())/1000, name)
		}
	}
	for state, n := range map[string]int{"running": seen.Nodes.Running, "starting": seen.Nodes.Starting, "idle": seen.Nodes.Idle, "down": seen.Nodes.Down} {
		set(nodesDesc, float64(n), state)
	}
}
