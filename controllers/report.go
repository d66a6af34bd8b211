// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/internal/status"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// report writes the status, if it changed, and then tells people. It returns when
// to look again.
func (r *MiniClusterReconciler) report(ctx context.Context, seen *observed, plan elastic.Plan, now time.Time) (ctrl.Result, error) {
	if plan.Step == elastic.Remove {
		return ctrl.Result{}, nil
	}
	in := status.Input{MiniCluster: seen.view.MiniCluster, Observation: seen.observation, Plan: plan, OccupiedNodes: state.OccupiedNodes(seen.view), Now: now}
	if seen.observation.Outcome == "" {
		in.Queue = r.Scheduler.QueueOf(seen.view.MiniCluster)
	}
	if seen.check != nil {
		in.Check = seen.check.Check
		if seen.check.pod != nil {
			in.Requests, in.Priority = state.PodRequests(seen.check.pod), ptr.Deref(seen.check.pod.Spec.Priority, 0)
		}
	}
	desired := status.Compute(in)
	if equality.Semantic.DeepEqual(&seen.stored.Status, &desired) {
		return r.lookAgain(seen, plan, now), nil
	}
	if wait := r.paces.wait(seen.name(), pace(plan), now); wait > 0 && onlyCounts(&seen.stored.Status, &desired) {
		result := r.lookAgain(seen, plan, now)
		if result.RequeueAfter == 0 || wait < result.RequeueAfter {
			result.RequeueAfter = wait
		}
		return result, nil
	}
	updated := seen.stored.DeepCopy()
	updated.Status = desired
	// The lock makes sure that nothing is decided on a status that is no more.
	patch := client.MergeFromWithOptions(seen.stored, client.MergeFromWithOptimisticLock{})
	if err := r.Client.Status().Patch(ctx, updated, patch); err != nil {
		return ctrl.Result{}, fmt.Errorf("writing the status of MiniCluster %q: %w", seen.stored.Name, err)
	}
	r.paces.wrote(seen.name(), now)
	for _, event := range status.Events(in, &desired) {
		r.Events.Eventf(updated, nil, event.Type, event.Reason, string(plan.Step), "%s", event.Note)
	}
	observeStep(plan)
	if err := r.announce(ctx, updated); err != nil {
		return ctrl.Result{}, err
	}
	ctrl.LoggerFrom(ctx).V(1).Info("Wrote the status", "step", plan.Step, "state", plan.State, "reason", plan.Message)
	return r.lookAgain(seen, plan, now), nil
}

// lookAgain is when time alone may change what is to do.
func (r *MiniClusterReconciler) lookAgain(seen *observed, plan elastic.Plan, now time.Time) ctrl.Result {
	next := plan.LookAgain
	if seen.check != nil {
		next = elastic.Earliest(next, seen.check.until)
	}
	if next.IsZero() {
		return ctrl.Result{}
	}
	if !next.After(now) { // there is nothing to look at, or it would have been
		return ctrl.Result{RequeueAfter: time.Second}
	}
	return ctrl.Result{RequeueAfter: next.Sub(now)}
}

// onlyCounts reports whether two statuses differ in numbers that change often, and
// in the sentence that has them, alone.
func onlyCounts(old, desired *v1alpha2.MiniClusterStatus) bool {
	same := desired.DeepCopy()
	same.Size, same.Nodes = old.Size, old.Nodes
	for i := range same.Conditions {
		if before := meta.FindStatusCondition(old.Conditions, same.Conditions[i].Type); before != nil {
			same.Conditions[i].Message = before.Message
		}
	}
	return equality.Semantic.DeepEqual(old, same)
}

// pace is how long after one write counts and sentences alone make another. Of one that
// waits the queue's status has them.
func pace(plan elastic.Plan) time.Duration {
	if plan.State == elastic.StateQueued {
		return queuedInterval
	}
	return countsInterval
}

// paces keep when something was last done for a MiniCluster that is not done with every
// pod that changes: to write counts, say.
type paces struct {
	mutex   sync.Mutex
	written map[types.NamespacedName]time.Time
	pruned  time.Time
}

// longestPace is longer than any: what was done before then does not matter.
const longestPace = 2 * time.Minute

// wait is how long it is not to be done yet.
func (p *paces) wait(name types.NamespacedName, pace time.Duration, now time.Time) time.Duration {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return pace - now.Sub(p.written[name])
}

func (p *paces) wrote(name types.NamespacedName, now time.Time) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.written == nil {
		p.written = map[types.NamespacedName]time.Time{}
	}
	p.written[name] = now
	if now.Sub(p.pruned) > longestPace {
		maps.DeleteFunc(p.written, func(_ types.NamespacedName, at time.Time) bool { return now.Sub(at) > longestPace })
		p.pruned = now
	}
}
