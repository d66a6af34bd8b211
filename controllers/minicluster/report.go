// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/controllers/metrics"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/internal/status"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

const (
	// countsInterval is the shortest time between writes of mere counts.
	countsInterval, rarestCounts = 3 * time.Second, 10 * time.Second
	// queuedInterval is the shortest time between writes of why a MiniCluster waits: the gangs
	// ahead of it change often.
	queuedInterval = 30 * time.Second
)

// errOldDefinition says that no pod can be placed: the API server drops a field of the status that has to be recorded first.
var errOldDefinition = errors.New("the cluster has an old definition of MiniClusters, without status.admission.lead: apply that of this version (config/crd)")

// reporter writes the status, and has events sent.
type reporter struct {
	client    client.Client
	events    events.EventRecorder
	scheduler Scheduler
	announcer *announcer
}

// report writes the status if it changed, then has the events sent. It returns when to reconcile
// again.
func (r *reporter) report(ctx context.Context, seen *observed, plan life.Plan) (ctrl.Result, error) {
	if _, removed := plan.Step.(life.Remove); removed {
		return ctrl.Result{}, nil
	}
	in := r.statusInput(seen, plan)
	desired := status.Compute(in)
	lookAgain := plan.LookAgain
	if seen.check != nil {
		lookAgain = elastic.Earliest(lookAgain, seen.check.until)
	}
	if equality.Semantic.DeepEqual(&seen.stored.Status, &desired) {
		return requeueAt(lookAgain, seen.now), nil
	}
	next := seen.memory.status.written.Add(seen.pace(plan))
	if seen.now.Before(next) && onlyCounts(&seen.stored.Status, &desired) {
		return requeueAt(elastic.Earliest(lookAgain, next), seen.now), nil
	}
	updated, err := r.write(ctx, seen, desired)
	if err != nil {
		return ctrl.Result{}, err
	}
	if !keepsLead(plan, updated) {
		return ctrl.Result{}, errOldDefinition
	}
	if _, grows := plan.Step.(life.Grow); grows {
		seen.memory.noteGrowth(seen.stored, updated)
	}
	for _, event := range status.Events(in, &desired) {
		r.events.Eventf(updated, nil, event.Type, event.Reason, life.Name(plan.Step), "%s", event.Note)
	}
	metrics.Count(metrics.Written{
		Step: plan.Step, Before: &seen.stored.Status, After: &desired, Record: seen.observation.Record,
		Next: plan.Apply(seen.observation.Record, seen.now), Lost: seen.observation.Lost(), Queued: state.QueuedSince(seen.view.MiniCluster), Now: seen.now,
	})
	if _, over := plan.Step.(life.Finish); over {
		clear(seen.memory.placed)
	}
	r.announcer.announce(updated, seen.memory)
	ctrl.LoggerFrom(ctx).V(1).Info("Wrote the status", "step", life.Name(plan.Step), "state", plan.State, "reason", plan.Message)
	return requeueAt(lookAgain, seen.now), nil
}

// write writes a status. The resource version makes sure that no decision is based on an outdated status.
func (r *reporter) write(ctx context.Context, seen *observed, desired v1alpha2.MiniClusterStatus) (*v1alpha2.MiniCluster, error) {
	updated := withStatus(seen.stored, desired)
	patch := client.MergeFromWithOptions(withStatus(seen.stored, seen.stored.Status), client.MergeFromWithOptimisticLock{})
	if err := r.client.Status().Patch(ctx, updated, patch); err != nil {
		if apierrors.IsNotFound(err) {
			seen.memory.status.gone = seen.now
		}
		return nil, fmt.Errorf("writing the status of MiniCluster %q: %w", seen.stored.Name, err)
	}
	seen.memory.status.written = seen.now
	return updated, nil
}

// recordMet records which dependencies are met.
func (r *reporter) recordMet(ctx context.Context, seen *observed) error {
	desired := *seen.stored.Status.DeepCopy()
	desired.MetDependencies = seen.met
	_, err := r.write(ctx, seen, desired)
	return err
}

// keepsLead reports whether the lead is recorded in a status that was written, if the plan records it.
func keepsLead(plan life.Plan, written *v1alpha2.MiniCluster) bool {
	_, appoints := plan.Step.(life.Appoint)
	return !appoints || written.Status.Admission != nil && written.Status.Admission.Lead != ""
}

// withStatus is a MiniCluster without its spec, whose status alone is written: the comparison that makes the patch need not
// read the spec. The answer has all fields.
func withStatus(mc *v1alpha2.MiniCluster, status v1alpha2.MiniClusterStatus) *v1alpha2.MiniCluster {
	return &v1alpha2.MiniCluster{TypeMeta: mc.TypeMeta, ObjectMeta: *mc.ObjectMeta.DeepCopy(), Status: status}
}

// statusInput is the input for the status.
func (r *reporter) statusInput(seen *observed, plan life.Plan) status.Input {
	in := status.Input{
		MiniCluster: seen.view.MiniCluster, Observation: seen.observation, Plan: plan, OccupiedNodes: seen.view.OccupiedNodes(),
		Untold: r.announcer.untold(seen.stored.UID), Now: seen.now,
		Traits: state.Traits(&seen.view.MiniCluster.Spec),
	}
	if in.Deadlines = seen.observation.Offer.Deadlines; in.MiniCluster.Status.Admission != nil {
		in.Deadlines = state.AdmittedDeadlines(in.MiniCluster)
	}
	in.Deadline = state.Deadline(in.MiniCluster, in.Deadlines)
	in.Quota = seen.quota.Quota
	switch {
	case seen.observation.Outcome != "":
	case seen.quota.Needed():
		in.Queue = v1alpha2.KueueQueue
	default:
		in.Queue, _, _ = r.scheduler.Place(seen.view.MiniCluster)
	}
	if seen.check != nil {
		in.Check = seen.check.Check
		switch {
		case seen.check.refused != "":
			in.Check = status.Check{Reason: v1alpha2.ReasonQuotaExceeded, Message: seen.check.refused}
		case seen.check.unchecked != "":
			in.Check = status.Check{Reason: v1alpha2.ReasonNotChecked, Message: seen.check.unchecked}
		}
		if seen.check.pod != nil {
			in.Requests, in.Priority = state.PodRequests(seen.check.pod), ptr.Deref(seen.check.pod.Spec.Priority, 0)
		}
	}
	return in
}

// onlyCounts reports whether two statuses differ only in numbers that change often, and in the
// message that contains them.
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

// pace is the shortest time after a write until counts and messages alone cause another. The
// status of the queue has them for waiting MiniClusters.
func (s *observed) pace(plan life.Plan) time.Duration {
	switch plan.State {
	case life.StateQueued:
		return queuedInterval
	case life.StateStarting:
		return s.pause(countsInterval, rarestCounts)
	}
	return countsInterval
}
