// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"

	"github.com/flux-elastic/flux-elastic/internal/kueue"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// readQuota reads what Kueue grants to a MiniCluster that gets its quota from it.
func (r *Reconciler) readQuota(ctx context.Context, seen *observed) error {
	o := seen.observation
	facts := kueue.Facts{MiniCluster: seen.view.MiniCluster, Observation: o, Behind: seen.memory.hasGrown(seen.stored), Now: seen.now}
	facts.Ranks, facts.Services = seen.view.NeedsQuota(o)
	if seen.check != nil && seen.check.passed() {
		facts.Pod, facts.ServicesPod = seen.check.pod, seen.check.services
	}
	var err error
	if seen.quota, err = r.Kueue.Read(ctx, facts, &seen.memory.quota); err != nil {
		return err
	}
	seen.quota.Limit(o)
	return nil
}

// tellKueue makes the Workload of a MiniCluster follow the plan. If Kueue refuses the Workload of a MiniCluster that waits,
// the plan says so. An error keeps only steps from being taken that take quota.
func (r *Reconciler) tellKueue(ctx context.Context, seen *observed, plan life.Plan) (life.Plan, error) {
	quota, memory := seen.quota, &seen.memory.quota
	if !quota.Followed || quota.Outdated {
		return plan, nil
	}
	quota.Decided(seen.observation, plan.Step, admittedPod(seen), memory)
	problem := r.Kueue.Tell(ctx, quota, memory)
	plan.LookAgain = elastic.Earliest(plan.LookAgain, quota.LookAgain(memory))
	if _, waits := plan.Step.(life.Wait); !waits || problem == nil || isPassing(problem) {
		return plan, problem
	}
	seen.observation.Offer.Message, plan.Message = problem.Error(), problem.Error()
	plan.LookAgain = elastic.Earliest(plan.LookAgain, seen.now.Add(recheckInterval))
	return plan, nil
}

// takesQuota reports whether a step takes what Kueue has to know before.
func takesQuota(step life.Step) bool {
	switch step.(type) {
	case life.Make, life.Admit, life.Appoint, life.Place, life.ReleaseServices, life.Grow, life.Move:
		return true
	}
	return false
}
