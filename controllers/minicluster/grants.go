// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/kueue"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// grants asks the scheduler for nodes, and Kueue for quota.
type grants struct {
	scheduler Scheduler
	kueue     Kueue
}

// anyPods is the number of pods up to which maxSize alone counts: nodes may still come.
const anyPods = 256

// boundPods sets the number of pods of a MiniCluster without nodes: no more than the nodes could hold. Pods without a
// node hold nothing, but all parts of the cluster keep them in memory. The pods of a trial define the number, and
// so does an admission.
func (g *grants) boundPods(seen *observed) {
	mc := seen.view.MiniCluster
	if mc.Status.Admission != nil && mc.Status.MaximumSize > 0 {
		return
	}
	most := mc.Spec.MostSize()
	switch {
	case seen.observation.Workload == life.Ahead:
		most = min(most, jobset.Brokers(seen.view.JobSet))
	case most > max(mc.Spec.Size, anyPods) && seen.check != nil && seen.check.pod != nil:
		most = max(mc.Spec.Size, anyPods, int32(min(g.scheduler.MostPods(seen.check.pod), int(most))))
	}
	mc.Status.MaximumSize = most
}

// readQuota reads what Kueue grants to a MiniCluster that gets its quota from it.
func (g *grants) readQuota(ctx context.Context, seen *observed) error {
	o := seen.observation
	facts := kueue.Facts{MiniCluster: seen.view.MiniCluster, Observation: o, Behind: seen.memory.hasGrown(seen.stored), Held: seen.held.Verdict != "", Now: seen.now}
	facts.Ranks, facts.Services = seen.view.NeedsQuota(o)
	if seen.check != nil && seen.check.passed() {
		facts.Pod, facts.ServicesPod = seen.check.pod, seen.check.services
	}
	var err error
	if seen.quota, err = g.kueue.Read(ctx, facts, &seen.memory.quota); err != nil {
		return err
	}
	seen.quota.Limit(o)
	return nil
}

// consult asks the scheduler for the offer or order for a MiniCluster, and enters it in its queue
// if it waits for nodes. It returns false until the first cycle has decided about it, which is
// soon: until then there is nothing to report.
func (g *grants) consult(seen *observed) (decided bool) {
	o, mc := seen.observation, seen.view.MiniCluster
	if o.Admission != nil && o.Outcome == "" {
		var most *int
		if seen.quota.Needed() && !seen.quota.Outdated {
			most = new(seen.quota.Most(&seen.memory.quota))
		}
		o.Order = seen.quota.Order(o, g.scheduler.Order(mc, admittedPod(seen), o.Displaced(seen.now), most))
	}
	o.OrderedSince = seen.memory.orderedSince(o, seen.now)
	wants, unasked := wantsOf(seen)
	if o.Offer = g.scheduler.Report(mc, wants); wants.Want != state.NodesNow {
		o.Offer = unasked
	}
	return o.Offer.Verdict != "" || !o.Waits(seen.now)
}

// wantsOf is what a MiniCluster wants of the scheduler. If these are no nodes now, unasked says why.
func wantsOf(seen *observed) (wants state.Wants, unasked elastic.Offer) {
	o, quota := seen.observation, seen.quota
	switch {
	case !o.Wants(seen.now):
	case seen.held.Verdict != "":
		unasked = elastic.Offer{Verdict: seen.held.Verdict, Message: seen.held.Message}
	case !o.Waits(seen.now):
		wants.Want = state.NodesLater
	case seen.check.unchecked != "":
		wants.Want, unasked = state.NodesLater, elastic.Offer{Verdict: elastic.NotChecked, Message: seen.check.unchecked}
	case seen.check.refused != "":
		wants = state.Wants{Want: state.NodesNow, Pod: seen.check.pod, Services: seen.check.services, Refused: seen.check.refused}
	case quota.TooLong != "":
		unasked = elastic.Offer{Verdict: elastic.DeadlineTooLong, Message: quota.TooLong}
	case quota.Needed() && !quota.Placeable:
		unasked = elastic.Offer{Verdict: elastic.WaitingForQuota, Message: quota.Message}
	case quota.Needed() && quota.Outdated: // the manager may have given the quota back
		wants.Want = state.NodesLater
	default:
		wants = state.Wants{Want: state.NodesNow, Pod: seen.check.pod, Services: seen.check.services, Quota: quota.Quota}
	}
	return wants, unasked
}

// admittedPod is a pod of a MiniCluster with nodes, after admission by the API server: one that
// exists, or else the pod of the check. It is nil if there is neither.
func admittedPod(seen *observed) *corev1.Pod {
	if pod := seen.view.Admitted(); pod != nil || seen.check == nil {
		return pod
	}
	return seen.check.pod
}

// tellKueue makes the Workload of a MiniCluster follow the plan. If Kueue refuses the Workload of a MiniCluster that waits,
// the plan says so. An error keeps only steps from being taken that take quota.
func (g *grants) tellKueue(ctx context.Context, seen *observed, plan life.Plan) (life.Plan, error) {
	quota, memory := seen.quota, &seen.memory.quota
	if !quota.Followed || quota.Outdated {
		return plan, nil
	}
	quota.Decided(seen.observation, plan.Step, admittedPod(seen), memory)
	problem := g.kueue.Tell(ctx, quota, memory)
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
