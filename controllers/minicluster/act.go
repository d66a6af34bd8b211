// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/status"
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
		err = r.completeFiles(ctx, seen)
	}
	_, evicts := plan.Step.(life.EvictPods)
	if refused(err) || isUnanswered(err) || errors.Is(err, errNotDirect) || (evicts && isKept(err)) {
		// The refusal is shown, and the step is tried again until its time is up.
		return life.Plan{Step: life.Wait{}, State: plan.State, Message: err.Error(), LookAgain: seen.now.Add(recheckInterval)}, nil
	}
	return plan, err
}

// carryOut changes objects. Decisions change nothing here, except that the end gives up shared
// Services: report writes them.
func (r *Reconciler) carryOut(ctx context.Context, seen *observed, plan life.Plan) error {
	log := ctrl.LoggerFrom(ctx).WithValues("step", life.Name(plan.Step))
	switch step := plan.Step.(type) {
	case life.Make:
		log.Info("Making the objects of an attempt", "attempt", seen.observation.Attempt(), "ahead", seen.observation.Admission == nil)
		return r.unforeseen(seen, r.makeObjects(ctx, seen))
	case life.Place:
		log.Info("Placing pods", "ranks", len(step.Ranks))
		return r.place(ctx, seen, step)
	case life.ReleaseServices:
		log.Info("Letting the services pod go", "pod", seen.view.Services().Name)
		return r.releaseServices(ctx, seen)
	case life.Publish:
		log.Info("Publishing the quorum and who leaves", "quorum", step.Quorum, "leaving", step.Leaving)
		return r.tell(ctx, seen, func(lead *corev1.Pod) ([]byte, error) {
			return protocol.PublishPatch(lead, step.Quorum, status.Ranks(step.Leaving))
		})
	case life.Stop:
		log.Info("Telling the lead to end the command", "reason", step.Reason)
		return r.tell(ctx, seen, func(lead *corev1.Pod) ([]byte, error) { return protocol.StopPatch(lead, step.Reason) })
	case life.EvictPods:
		log.Info("Evicting pods", "ranks", step.Ranks, "deleted", step.Kept)
		return r.evict(ctx, seen, step)
	case life.Release:
		log.Info("Deleting the JobSet", "JobSet", klog.KObj(seen.view.JobSet), "reason", plan.Message)
		return r.release(ctx, seen)
	case life.Abandon:
		log.Info("Deleting the Jobs without their pods", "JobSet", klog.KObj(seen.view.JobSet), "pods", seen.observation.Stranded)
		return r.abandon(ctx, seen.view.JobSet)
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

// tell writes something for the lead on its pod.
func (r *Reconciler) tell(ctx context.Context, seen *observed, patch func(lead *corev1.Pod) ([]byte, error)) error {
	lead := seen.view.Brokers()[0].Pod
	what, err := patch(lead)
	if err != nil {
		return err
	}
	if err := r.patch(ctx, lead, types.MergePatchType, what); err != nil {
		return fmt.Errorf("telling pod %q what to do: %w", lead.Name, err)
	}
	return nil
}

// patch patches a pod without changing the cache.
func (r *Reconciler) patch(ctx context.Context, pod *corev1.Pod, kind types.PatchType, patch []byte) error {
	return r.Client.Patch(ctx, pod.DeepCopy(), client.RawPatch(kind, patch), client.FieldOwner(FieldOwner))
}

// release deletes the JobSet of a MiniCluster, if the MiniCluster and the pods are as they were seen. A manager that was
// halted and goes on may not lead any more, and its caches hear of another manager's work one after the other. To such a
// manager, that JobSet looks like one of an earlier attempt, or like one without pods.
func (r *Reconciler) release(ctx context.Context, seen *observed) error {
	there := &v1alpha2.MiniCluster{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(seen.stored), there); err != nil {
		return fmt.Errorf("reading MiniCluster %q: %w", seen.stored.Name, err)
	}
	set := seen.view.JobSet
	var pods corev1.PodList
	if err := r.Live.List(ctx, &pods, client.InNamespace(set.Namespace), client.MatchingLabels{jobsetapi.JobSetUIDKey: string(set.UID)}); err != nil {
		return fmt.Errorf("listing the pods of JobSet %q: %w", set.Name, err)
	}
	if there.ResourceVersion != seen.stored.ResourceVersion || !samePods(pods.Items, seen.view.Pods, set.UID) {
		resource := v1alpha2.GroupVersion.WithResource("miniclusters").GroupResource()
		return apierrors.NewConflict(resource, seen.stored.Name, errors.New("the MiniCluster or a pod has changed since it was seen"))
	}
	// The JobSet stays with a deletion timestamp until all of its pods are gone.
	return r.delete(ctx, "JobSet", set.DeepCopy(), metav1.DeletePropagationForeground)
}

// samePods reports whether the pods of a JobSet are those that were seen, and as far in their lives.
func samePods(there []corev1.Pod, seen []protocol.Pod, set types.UID) bool {
	phases := map[types.UID]corev1.PodPhase{}
	for _, pod := range seen {
		if pod.Labels[jobsetapi.JobSetUIDKey] == string(set) {
			phases[pod.UID] = pod.Status.Phase
		}
	}
	for i := range there {
		if phase, ok := phases[there[i].UID]; !ok || phase != there[i].Status.Phase {
			return false
		}
	}
	return len(there) == len(phases)
}

// delete deletes an object, unless another one was made under its name.
func (r *Reconciler) delete(ctx context.Context, kind string, object client.Object, policy metav1.DeletionPropagation) error {
	err := r.Client.Delete(ctx, object, client.Preconditions{UID: ptr.To(object.GetUID())}, client.PropagationPolicy(policy))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting %s %q: %w", kind, object.GetName(), err)
	}
	return nil
}

// abandon deletes the Jobs of a JobSet that is being deleted. The garbage collector deletes the
// JobSet once it has no Jobs.
func (r *Reconciler) abandon(ctx context.Context, set *jobsetapi.JobSet) error {
	err := r.Client.DeleteAllOf(ctx, &batchv1.Job{}, client.InNamespace(set.Namespace),
		client.MatchingLabels{jobsetapi.JobSetUIDKey: string(set.UID)}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if err != nil {
		return fmt.Errorf("deleting the Jobs of JobSet %q: %w", set.Name, err)
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
