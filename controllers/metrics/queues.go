// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// existing are the queues that exist. While nothing is known of them, any queue of a MiniCluster counts as one.
var existing struct {
	sync.Mutex
	names map[string]bool
}

// Ends of a wait.
const (
	WaitAdmitted  = "Admitted"
	WaitDeleted   = "Deleted"
	WaitSuspended = "Suspended"
)

var outcomes = []life.Outcome{
	life.OutcomeSucceeded, life.OutcomeCommandFailed, life.OutcomeLeadLost, life.OutcomeWorkersFailed,
	life.OutcomeBrokersLost, life.OutcomeDeadlineExceeded, life.OutcomeStartLimit,
}

// SetQueues says which queues exist. The series of others go. Those of new ones begin at 0, because Prometheus sees no
// increase in the first value of a series.
func SetQueues(names map[string]bool) {
	existing.Lock()
	defer existing.Unlock()
	for name := range existing.names {
		if !names[name] {
			drop(name)
		}
	}
	for name := range names {
		if existing.names[name] {
			continue
		}
		for _, vec := range []*prometheus.CounterVec{admissions, brokersLost, quorumShortfall} {
			vec.WithLabelValues(name)
		}
		starts.WithLabelValues(name)
		for _, outcome := range outcomes {
			finished.WithLabelValues(name, string(outcome))
		}
		for _, reason := range []string{notStarted, lost} {
			attemptsEnded.WithLabelValues(name, reason)
		}
		for _, use := range []string{useful, wasted} {
			nodeSeconds.WithLabelValues(name, use)
		}
	}
	existing.names = names
}

func drop(queue string) {
	for _, vec := range byQueue {
		vec.DeletePartialMatch(prometheus.Labels{"queue": queue})
	}
}

// labelOf is the label of a queue: its name while it exists, and else "".
func labelOf(queue string) string {
	if existing.names != nil && !existing.names[queue] {
		return ""
	}
	return queue
}
