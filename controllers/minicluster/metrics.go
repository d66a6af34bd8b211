// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

var (
	decisionsTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "flux_elastic_decisions_total",
		Help: "Decisions about MiniClusters that were written down, by step: Admit, Start, LowerQuorum, Lose, GiveUp, Withdraw, Finish, Evict, Drain, Vacate, Keep, Grow, Move.",
	}, []string{"step"})
	finishedTotal = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "flux_elastic_finished_total",
		Help: "MiniClusters that ended, by outcome.",
	}, []string{"outcome"})
)

func init() {
	metrics.Registry.MustRegister(decisionsTotal, finishedTotal)
}

// countDecision counts a recorded decision.
func countDecision(step life.Step) {
	if _, decides := step.(life.Decision); decides {
		decisionsTotal.WithLabelValues(life.Name(step)).Inc()
	}
	if finish, over := step.(life.Finish); over {
		finishedTotal.WithLabelValues(string(finish.Outcome)).Inc()
	}
}
