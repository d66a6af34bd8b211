// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/broker"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/internal/status"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// tidyAgain is after which time pods that are still there are deleted once more.
const tidyAgain = time.Minute

// patchesAtOnce is how many pods of a MiniCluster are patched at once.
const patchesAtOnce = 16

// act carries out a step that changes objects. Decisions are carried out by
// reporting them.
func (r *MiniClusterReconciler) act(ctx context.Context, seen *observed, plan elastic.Plan) error {
	log := ctrl.LoggerFrom(ctx)
	switch plan.Step {
	case elastic.Make:
		log.Info("Making the objects of an attempt", "attempt", seen.observation.Attempt(), "ahead", seen.observation.Admission == nil)
		return r.standingInTheWay(seen.view.MiniCluster, r.makeObjects(ctx, seen))
	case elastic.Place:
		log.Info("Placing pods", "ranks", len(plan.Ranks))
		return r.place(ctx, seen, plan)
	case elastic.Publish:
		log.Info("Publishing the quorum and who leaves", "quorum", plan.Quorum, "leaving", plan.Ranks)
		return r.publish(ctx, seen, plan)
	case elastic.Stop:
		log.Info("Telling the lead to end the command", "reason", plan.Reason)
		return r.stop(ctx, seen, plan)
	case elastic.EvictRanks:
		log.Info("Evicting pods", "ranks", plan.Ranks)
		return r.evict(ctx, seen, plan)
	case elastic.Release:
		log.Info("Deleting the JobSet", "JobSet", klog.KObj(seen.view.JobSet), "reason", plan.Message)
		return r.release(ctx, seen)
	case elastic.Tidy:
		log.V(1).Info("Deleting pods that have ended", "pods", seen.observation.Done)
		return r.tidy(ctx, seen)
	case elastic.Remove:
		log.Info("Deleting the MiniCluster", "reason", plan.Message)
		return r.remove(ctx, seen)
	}
	return nil
}

// makeObjects makes what the attempt needs, the JobSet last. It asks the API server
// rather than the cache what is there: foreign objects are left alone, and a
// certificate that was made for the attempt stays, since brokers may have it. All else
// follows from the spec, which may have changed while the attempt was withdrawn.
func (r *MiniClusterReconciler) makeObjects(ctx context.Context, seen *observed) error {
	mc, attempt := seen.view.MiniCluster, int32(seen.observation.Attempt())
	objects, err := jobset.Objects(mc, attempt, func() (string, error) { return broker.Certificate(mc.Name, rand.Reader) })
	if err != nil {
		return fmt.Errorf("building the objects of MiniCluster %q: %w", mc.Name, err)
	}
	last := len(objects) - 1 // the JobSet, whose pods need the others
	switch set, err := r.existing(ctx, mc, objects[last]); {
	case err != nil:
		return err
	case set == nil:
	case jobset.Attempt(set) == attempt && jobset.Generation(set) == jobset.Generation(objects[last]):
		return nil // made, and not in the cache yet
	default:
		return errStillThere // not in the cache yet either, and of no use
	}
	if err := r.chooseBinder(ctx, seen, objects[last]); err != nil {
		return err
	}
	group, groupCtx := errgroup.WithContext(ctx)
	for _, object := range objects[:last] {
		group.Go(func() error { return r.makeObject(groupCtx, mc, object, attempt) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return r.makeObject(ctx, mc, objects[last], attempt)
}

func (r *MiniClusterReconciler) makeObject(ctx context.Context, mc *v1alpha2.MiniCluster, object client.Object, attempt int32) error {
	there, err := r.existing(ctx, mc, object)
	if err != nil {
		return err
	}
	_, isSecret := object.(*corev1.Secret)
	if isSecret && there != nil && jobset.Attempt(there) == attempt && mc.Spec.Flux.CurveCert == "" {
		return nil
	}
	return r.apply(ctx, object)
}

// standingInTheWay sorts out an error of making objects that the check did not foresee:
// somebody took a name, or the API server will not have an object. Then the next pass,
// which comes soon, says so and gives the nodes back.
func (r *MiniClusterReconciler) standingInTheWay(mc *v1alpha2.MiniCluster, err error) error {
	var clash *nameClashError
	switch {
	case errors.As(err, &clash):
		r.checks.put(mc, r.temporary(rejection(v1alpha2.ReasonNameClash, clash.Error()), recheckInterval))
	case refused(err):
		r.checks.put(mc, r.temporary(rejection(v1alpha2.ReasonObjectRejected, err.Error()), refusedInterval))
	default:
		return err
	}
	return errStillThere
}

// apply writes an object by server-side apply.
func (r *MiniClusterReconciler) apply(ctx context.Context, object client.Object, options ...client.ApplyOption) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		return err
	}
	delete(content, "status")
	desired := &unstructured.Unstructured{Object: content}
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	options = append(options, client.FieldOwner(FieldOwner), client.ForceOwnership)
	err = r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(desired), options...)
	if err != nil {
		return fmt.Errorf("applying %s %q: %w", desired.GetKind(), desired.GetName(), err)
	}
	return nil
}

// place pins pods to their nodes and lets them go, the lead's first.
func (r *MiniClusterReconciler) place(ctx context.Context, seen *observed, plan elastic.Plan) error {
	nodes, err := state.Nodes(seen.view.MiniCluster)
	if err != nil {
		return err
	}
	pods := state.BrokerPods(seen.view)
	placeRank := func(ctx context.Context, rank int) error {
		pod, quorum := pods[rank], 0
		if rank == 0 {
			quorum = plan.Quorum
		}
		if r.placed.has(seen.name(), pod) {
			return nil // the cache does not show it yet
		}
		if err := r.binderOf(pod).Bind(ctx, pod, nodes[rank], rank, quorum); err != nil {
			return err
		}
		r.placed.add(seen.name(), pod, seen.view.Pods)
		return nil
	}
	ranks := plan.Ranks
	if ranks[0] == 0 {
		if err := placeRank(ctx, 0); err != nil {
			return err
		}
		ranks = ranks[1:]
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(patchesAtOnce)
	for _, rank := range ranks {
		group.Go(func() error { return placeRank(groupCtx, rank) })
	}
	return group.Wait()
}

// publish tells the lead its quorum, and which ranks leave.
func (r *MiniClusterReconciler) publish(ctx context.Context, seen *observed, plan elastic.Plan) error {
	lead := state.BrokerPods(seen.view)[0]
	patch, err := jobset.PublishPatch(lead, plan.Quorum, status.Ranks(plan.Ranks))
	if err != nil {
		return err
	}
	return r.tell(ctx, lead, patch)
}

// stop tells the lead to end the command.
func (r *MiniClusterReconciler) stop(ctx context.Context, seen *observed, plan elastic.Plan) error {
	lead := state.BrokerPods(seen.view)[0]
	patch, err := jobset.StopPatch(lead, plan.Reason)
	if err != nil {
		return err
	}
	return r.tell(ctx, lead, patch)
}

// tell patches what the lead's pod is told.
func (r *MiniClusterReconciler) tell(ctx context.Context, lead *corev1.Pod, patch []byte) error {
	err := r.Client.Patch(ctx, lead.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.FieldOwner(FieldOwner))
	if err != nil {
		return fmt.Errorf("telling pod %q what to do: %w", lead.Name, err)
	}
	return nil
}

// evict removes pods by the Eviction API: their Job does not count them as failed, and
// makes them again, gated. Disruption budgets are kept to.
func (r *MiniClusterReconciler) evict(ctx context.Context, seen *observed, plan elastic.Plan) error {
	pods := state.BrokerPods(seen.view)
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(patchesAtOnce)
	for _, rank := range plan.Ranks {
		pod := pods[rank].DeepCopy()
		group.Go(func() error {
			eviction := &policyv1.Eviction{
				ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
				DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(pod.UID)}},
			}
			err := r.Client.SubResource("eviction").Create(groupCtx, pod, eviction)
			if client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("evicting pod %q: %w", pod.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// release deletes the JobSet. It stays, being deleted, until all of its pods are
// gone.
func (r *MiniClusterReconciler) release(ctx context.Context, seen *observed) error {
	set := seen.view.JobSet
	err := r.Client.Delete(ctx, set.DeepCopy(),
		client.Preconditions{UID: ptr.To(set.UID)}, client.PropagationPolicy(metav1.DeletePropagationForeground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting JobSet %q: %w", set.Name, err)
	}
	return nil
}

// tidy deletes the pods of followers that have ended, in one request. Their Job has ended
// too, or was deleted by JobSet, and makes no others.
func (r *MiniClusterReconciler) tidy(ctx context.Context, seen *observed) error {
	job, now := state.WorkersJob(seen.view), r.Clock.Now()
	if job == nil || r.tidied.wait(jobName(job), tidyAgain, now) > 0 {
		return nil // they go one by one
	}
	err := r.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(job.Namespace), client.MatchingLabels{batchv1.ControllerUidLabel: string(job.UID)})
	if err != nil {
		return fmt.Errorf("deleting the pods of Job %q: %w", job.Name, err)
	}
	r.tidied.wrote(jobName(job), now)
	return nil
}

// jobName is that of one Job, and of no other that is made under its name later.
func jobName(job *batchv1.Job) types.NamespacedName {
	return types.NamespacedName{Namespace: job.Namespace, Name: string(job.UID)}
}

// remove deletes the MiniCluster, and all that belongs to it with it.
func (r *MiniClusterReconciler) remove(ctx context.Context, seen *observed) error {
	mc := seen.stored
	err := r.Client.Delete(ctx, mc.DeepCopy(), client.Preconditions{UID: ptr.To(mc.UID)}, client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting MiniCluster %q: %w", mc.Name, err)
	}
	return nil
}
