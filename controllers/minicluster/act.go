// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

var errNoSuchStep = errors.New("nothing carries out the step")

// actor carries out the steps of plans.
type actor struct {
	client client.Client
	live   live
	maker  *maker
	pods   *podWriter
}

// act carries out the step of a plan and returns the plan to report. If the API server, a webhook or a
// disruption budget refuses the step for now, that is a plan that waits.
func (a *actor) act(ctx context.Context, seen *observed, plan life.Plan) (life.Plan, error) {
	if err := a.pods.shorten(ctx, seen); err != nil { // the rest does not wait for that
		ctrl.LoggerFrom(ctx).Info("Pods take long to go", "reason", err.Error())
	}
	err := a.carryOut(ctx, seen, plan)
	if _, waits := plan.Step.(life.Wait); waits {
		var again time.Time
		again, err = a.maker.repair(ctx, seen)
		err = needed(err)
		plan.LookAgain = elastic.Earliest(plan.LookAgain, again, seen.lookAgain)
	}
	var gone *goneError
	var clash *nameClashError
	_, evicts := plan.Step.(life.EvictPods)
	if refused(err) || isUnanswered(err) || errors.Is(err, errNotDirect) || errors.As(err, &gone) || errors.As(err, &clash) || (evicts && isKept(err)) {
		// The refusal is shown, and the step is tried again until its time is up.
		return life.Plan{Step: life.Wait{}, State: plan.State, Message: err.Error(), LookAgain: noteRefusal(seen, err)}, nil
	}
	return plan, err
}

// carryOut changes objects. Decisions change nothing here, except that the end gives up shared
// Services: report writes them.
func (a *actor) carryOut(ctx context.Context, seen *observed, plan life.Plan) error {
	log := ctrl.LoggerFrom(ctx).WithValues("step", life.Name(plan.Step))
	switch step := plan.Step.(type) {
	case life.Make:
		log.Info("Making the objects of an attempt", "attempt", seen.observation.Attempt(), "trial", seen.observation.Trial)
		return unforeseen(seen, a.maker.makeObjects(ctx, seen))
	case life.Place:
		log.Info("Placing pods", "ranks", len(step.Ranks))
		return a.pods.place(ctx, seen, step)
	case life.ReleaseServices:
		log.Info("Letting the services pod go", "pod", seen.view.Services().Name)
		return a.pods.releaseServices(ctx, seen)
	case life.Publish, life.Stop, life.EndLead:
		return a.pods.tell(ctx, seen, step)
	case life.EvictPods:
		log.Info("Evicting pods", "ranks", step.Ranks, "deleted", step.Kept)
		return a.pods.evict(ctx, seen, step)
	case life.Release:
		log.Info("Deleting the JobSet", "JobSet", klog.KObj(seen.view.JobSet), "reason", plan.Message)
		// The JobSet stays with a deletion timestamp until all of its pods are gone.
		return deleteObject(ctx, a.client, "JobSet", seen.view.JobSet.DeepCopy(), metav1.DeletePropagationForeground)
	case life.Abandon:
		log.Info("Deleting the Jobs of a JobSet", "stranded", seen.observation.Stranded, "orphans", seen.observation.Orphans)
		return a.abandon(ctx, seen)
	case life.Tidy:
		log.V(1).Info("Deleting pods that have ended", "pods", seen.observation.Done)
		return a.pods.tidy(ctx, seen)
	case life.Remove:
		log.Info("Deleting the MiniCluster", "reason", plan.Message)
		// All objects that the MiniCluster owns go with it.
		return deleteObject(ctx, a.client, v1alpha2.MiniClusterKind, seen.stored.DeepCopy(), metav1.DeletePropagationBackground)
	case life.Finish:
		return a.maker.leaveServices(ctx, seen.view.MiniCluster)
	case life.Wait, life.Decision:
		return nil
	}
	return fmt.Errorf("%w: %s", errNoSuchStep, life.Name(plan.Step))
}

// deleteObject deletes an object, unless another one was made under its name.
func deleteObject(ctx context.Context, c client.Client, kind string, object client.Object, policy metav1.DeletionPropagation) error {
	err := c.Delete(ctx, object, client.Preconditions{UID: ptr.To(object.GetUID())}, client.PropagationPolicy(policy))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s %q: %w", kind, object.GetName(), err)
	}
	return nil
}

// abandon deletes the Jobs of a JobSet that is being deleted, or was deleted without them. The garbage collector deletes
// the JobSet once it has no Jobs, and the pods of Jobs that are gone. Who may create pods may write any labels, so only
// Jobs with the label of the MiniCluster are deleted.
func (a *actor) abandon(ctx context.Context, seen *observed) error {
	mc, sets := seen.view.MiniCluster, seen.view.Orphaned()
	if set := seen.view.JobSet; set != nil {
		sets = []string{string(set.UID)}
	} else if there, err := a.live.existing(ctx, mc, &jobsetapi.JobSet{
		TypeMeta: jobset.Kind, ObjectMeta: metav1.ObjectMeta{Namespace: mc.Namespace, Name: jobset.Name(mc)},
	}); there != nil || err != nil {
		return cmp.Or(err, errStillThere) // the cache does not show it yet
	}
	for _, set := range sets {
		err := a.client.DeleteAllOf(ctx, &batchv1.Job{}, client.InNamespace(mc.Namespace),
			client.MatchingLabels{jobsetapi.JobSetUIDKey: set, v1alpha2.MiniClusterLabel: mc.Name}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if err != nil {
			return fmt.Errorf("deleting the Jobs of JobSet %q: %w", jobset.Name(mc), err)
		}
	}
	return nil
}
