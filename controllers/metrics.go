// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

var (
	stepsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "flux_elastic_decisions_total",
		Help: "Decisions about MiniClusters that were written down, by step: Admit, Start, LowerQuorum, GiveUp, Withdraw, Finish, Evict, Drain, Vacate, Keep, Grow, Move.",
	}, []string{"step"})
	finishedTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "flux_elastic_finished_total",
		Help: "MiniClusters that ended, by outcome.",
	}, []string{"outcome"})
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
	metrics.Registry.MustRegister(stepsTotal, finishedTotal, waiting, cycleSeconds)
}

// observeStep counts a decision that was written down.
func observeStep(plan elastic.Plan) {
	switch plan.Step {
	case elastic.Admit, elastic.Start, elastic.LowerQuorum, elastic.GiveUp, elastic.Withdraw,
		elastic.Evict, elastic.DrainRanks, elastic.Vacate, elastic.Keep, elastic.GrowRanks, elastic.MoveRanks:
		stepsTotal.WithLabelValues(string(plan.Step)).Inc()
	case elastic.Finish:
		stepsTotal.WithLabelValues(string(plan.Step)).Inc()
		finishedTotal.WithLabelValues(string(plan.Outcome)).Inc()
	}
}
