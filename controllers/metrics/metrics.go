// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

// Package metrics has the metrics of the manager. docs/monitoring.md describes them, and a test compares it with the code.
//
// No label names a MiniCluster, a namespace or a user. A queue is named only while it exists, so users cannot make
// series. Counters begin at 0 when the manager starts, and count only what this manager has decided and written.
// Gauges are computed when they are read.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"
	ctrlmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

const prefix = "flux_elastic_"

// byQueue are the metrics with the label queue.
var byQueue []interface {
	DeletePartialMatch(prometheus.Labels) int
}

var (
	decisions       = counter("decisions_total", "Recorded decisions about MiniClusters, by step.", "step")
	rejections      = counter("rejections_total", "MiniClusters that were not accepted, by reason; again when the reason changes.", "reason")
	admissions      = counter("admissions_total", "Attempts that got nodes.", "queue")
	attemptsEnded   = counter("attempts_ended_total", "Attempts that ended while their MiniCluster goes on, by reason.", "queue", "reason")
	finished        = counter("finished_total", "MiniClusters that finished, by outcome.", "queue", "outcome")
	resizes         = counter("resizes_total", "Changes of the number of brokers of an attempt, by direction.", "queue", "direction")
	brokersLost     = counter("brokers_lost_total", "Brokers that were lost while the command ran.", "queue")
	quorumShortfall = counter("quorum_shortfall_brokers_total", "Brokers that had nodes and were not up when the command began.", "queue")
	nodeSeconds     = counter("node_seconds_total", "What attempts used that have ended, in node-seconds, by whether it was useful.", "queue", "use")
	apiWrites       = counter("api_writes_total", "Requests of the manager that change objects, by verb, resource and HTTP status.", "verb", "resource", "code")

	waits = histogram("wait_duration_seconds", "How long MiniClusters waited in their queue, by how the wait ended.",
		[]float64{0.5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 12 * 3600, 24 * 3600, 3 * 24 * 3600}, "queue", "outcome")
	starts = histogram("start_duration_seconds", "How long attempts had nodes until their command began.",
		[]float64{0.5, 1, 2, 3, 5, 7.5, 10, 15, 20, 30, 60, 120, 300, 600}, "queue")
	cycles = histogram("cycle_duration_seconds", "How long cycles of the scheduler took.", prometheus.ExponentialBuckets(0.0001, 2, 14))
)

func init() {
	ctrlmetrics.Registry.MustRegister(gauges)
	// From 0 on, so that alerts see the first ones.
	for _, reason := range []string{v1alpha2.ReasonUnsupported, v1alpha2.ReasonPodRejected, v1alpha2.ReasonObjectRejected, v1alpha2.ReasonNameClash} {
		rejections.WithLabelValues(reason)
	}
}

func counter(name, help string, labels ...string) *prometheus.CounterVec {
	vec := prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: help}, labels)
	ctrlmetrics.Registry.MustRegister(vec)
	if len(labels) > 0 && labels[0] == "queue" {
		byQueue = append(byQueue, vec)
	}
	return vec
}

func histogram(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	vec := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + name, Help: help, Buckets: buckets}, labels)
	ctrlmetrics.Registry.MustRegister(vec)
	if len(labels) > 0 && labels[0] == "queue" {
		byQueue = append(byQueue, vec)
	}
	return vec
}
