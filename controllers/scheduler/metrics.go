// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
)

var (
	waiting = prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "flux_elastic_waiting",
		Help: "MiniClusters that wait for nodes, by verdict of the last cycle.",
	}, []string{"verdict"})
	cycleSeconds = prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "flux_elastic_cycle_duration_seconds",
		Help:    "Time that a decision over the whole queue takes.",
		Buckets: prometheus.ExponentialBuckets(0.0001, 2, 14),
	})
)

func init() {
	metrics.Registry.MustRegister(waiting, cycleSeconds)
}
