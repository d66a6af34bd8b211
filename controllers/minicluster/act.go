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
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

const (
	// tidyAgain is how long pods may take to go before they are deleted again.
	tidyAgain = time.Minute
	// tidyAtOnce is how many pods one request deletes at most. An API server deletes one after the other, and gives a
	// request up after a minute.
	tidyAtOnce = 250
)

var errNoSuchStep = errors.New("nothing carries out the step")

// act carries out the step of a plan and returns the plan to report. If the API server, a webhook or a
// disruption budget refuses the step for now, that is a plan that waits.
func (r *Reconciler) act(ctx context.Context, seen *observed, plan life.Plan) (life.Plan, error) {
	err := r.carryOut(ctx, seen, plan)
	if _, waits := plan.Step.(life.Wait); waits {
		var again time.Time
		again, err = r.repair(ctx, seen)
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
func (r *Reconciler) carryOut(ctx context.Context, seen *observed, plan life.Plan) error {
	log := ctrl.LoggerFrom(ctx).WithValues("step", life.Name(plan.Step))
	switch step := plan.Step.(type) {
	case life.Make:
		log.Info("Making the objects of an attempt", "attempt", seen.observation.Attempt(), "trial", seen.observation.Trial)
		return r.unforeseen(seen, r.makeObjects(ctx, seen))
	case life.Place:
		log.Info("Placing pods", "ranks", len(step.Ranks))
		return r.place(ctx, seen, step)
	case life.ReleaseServices:
		log.Info("Letting the services pod go", "pod", seen.view.Services().Name)
		return r.releaseServices(ctx, seen)
	case life.Publish, life.Stop, life.EndLead:
		return r.tell(ctx, seen, step)
	case life.EvictPods:
		log.Info("Evicting pods", "ranks", step.Ranks, "deleted", step.Kept)
		return r.evict(ctx, seen, step)
	case life.Release:
		log.Info("Deleting the JobSet", "JobSet", klog.KObj(seen.view.JobSet), "reason", plan.Message)
		// The JobSet stays with a deletion timestamp until all of its pods are gone.
		return r.delete(ctx, "JobSet", seen.view.JobSet.DeepCopy(), metav1.DeletePropagationForeground)
	case life.Abandon:
		log.Info("Deleting the Jobs of a JobSet", "stranded", seen.observation.Stranded, "orphans", seen.observation.Orphans)
		return r.abandon(ctx, seen)
	case life.Tidy:
		log.V(1).Info("Deleting pods that have ended", "pods", seen.observation.Done)
		return r.tidy(ctx, seen)
	case life.Remove:
		log.Info("Deleting the MiniCluster", "reason", plan.Message)
		// All objects that the MiniCluster owns go with it.
		return r.delete(ctx, v1alpha2.MiniClusterKind, seen.stored.DeepCopy(), metav1.DeletePropagationBackground)
	case life.Finish:
		return r.leaveServices(ctx, seen.view.MiniCluster)
	case life.Wait, life.Decision:
		return nil
	}
	return fmt.Errorf("%w: %s", errNoSuchStep, life.Name(plan.Step))
}

// tell writes something for the lead on its pod, or ends the pod.
func (r *Reconciler) tell(ctx context.Context, seen *observed, step life.Step) error {
	log, lead := ctrl.LoggerFrom(ctx).WithValues("step", life.Name(step)), seen.view.Brokers()[0].Pod
	var what []byte
	var err error
	waits := false // for brokers that do not come, unless it is told
	switch step := step.(type) {
	case life.Publish:
		waits = step.Quorum <= seen.observation.Published
		log.Info("Publishing the quorum, who leaves, and restarts", "quorum", step.Quorum, "leaving", step.Leaving, "restarts", step.Again.Number)
		what, err = protocol.PublishPatch(lead, protocol.Orders{Quorum: step.Quorum, Drain: step.Leaving, Again: step.Again})
	case life.Stop:
		log.Info("Telling the lead to end the command", "reason", step.Reason, "grace", step.Grace)
		what, err = protocol.StopPatch(lead, step.Reason, step.Grace)
	case life.EndLead:
		log.Info("Ending what still runs in the lead's pod")
		what, err = protocol.EndPatch(lead)
	}
	if err != nil {
		return err
	}
	err = r.patch(ctx, lead, types.MergePatchType, what)
	if err == nil {
		return nil
	}
	err = fmt.Errorf("telling pod %q what to do: %w", lead.Name, err)
	if waits && isDenied(err) {
		err = needed(err)
	}
	return err
}

// patch patches a pod without changing the cache.
func (r *Reconciler) patch(ctx context.Context, pod *corev1.Pod, kind types.PatchType, patch []byte) error {
	return r.Client.Patch(ctx, pod.DeepCopy(), client.RawPatch(kind, patch), client.FieldOwner(v1alpha2.FieldOwner))
}

// delete deletes an object, unless another one was made under its name.
func (r *Reconciler) delete(ctx context.Context, kind string, object client.Object, policy metav1.DeletionPropagation) error {
	err := r.Client.Delete(ctx, object, client.Preconditions{UID: ptr.To(object.GetUID())}, client.PropagationPolicy(policy))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s %q: %w", kind, object.GetName(), err)
	}
	return nil
}

// abandon deletes the Jobs of a JobSet that is being deleted, or was deleted without them. The garbage collector deletes
// the JobSet once it has no Jobs, and the pods of Jobs that are gone. Who may create pods may write any labels, so only
// Jobs with the label of the MiniCluster are deleted.
func (r *Reconciler) abandon(ctx context.Context, seen *observed) error {
	mc, sets := seen.view.MiniCluster, seen.view.Orphaned()
	if set := seen.view.JobSet; set != nil {
		sets = []string{string(set.UID)}
	} else if there, err := r.existing(ctx, mc, &jobsetapi.JobSet{
		TypeMeta: jobset.Kind, ObjectMeta: metav1.ObjectMeta{Namespace: mc.Namespace, Name: jobset.Name(mc)},
	}); there != nil || err != nil {
		return cmp.Or(err, errStillThere) // the cache does not show it yet
	}
	for _, set := range sets {
		err := r.Client.DeleteAllOf(ctx, &batchv1.Job{}, client.InNamespace(mc.Namespace),
			client.MatchingLabels{jobsetapi.JobSetUIDKey: set, v1alpha2.MiniClusterLabel: mc.Name}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		if err != nil {
			return fmt.Errorf("deleting the Jobs of JobSet %q: %w", jobset.Name(mc), err)
		}
	}
	return nil
}

// tidy deletes the pods of followers that have ended, in as few requests as possible; the next pass goes on. Their Job
// has ended or was deleted by JobSet, so it makes no new ones. Owners of pods say nothing: they may name another's Job.
func (r *Reconciler) tidy(ctx context.Context, seen *observed) error {
	set, memory := seen.view.JobSet, seen.memory
	if !metav1.IsControlledBy(set, seen.view.MiniCluster) || (memory.tidiedSet == set.UID && seen.now.Sub(memory.tidied) < tidyAgain) {
		return nil // the pods go one by one
	}
	followers := client.MatchingLabels{jobsetapi.JobSetUIDKey: string(set.UID), jobsetapi.ReplicatedJobNameKey: v1alpha2.WorkersJob}
	some := &client.DeleteAllOfOptions{ListOptions: client.ListOptions{Limit: tidyAtOnce}}
	if err := r.Client.DeleteAllOf(ctx, &corev1.Pod{}, some, client.InNamespace(set.Namespace), followers); err != nil {
		return fmt.Errorf("deleting the followers' pods of JobSet %q: %w", set.Name, err)
	}
	if len(seen.view.Pods) <= tidyAtOnce {
		memory.tidied, memory.tidiedSet = seen.now, set.UID
	}
	return nil
}
