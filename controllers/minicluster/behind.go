// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// behindFor bounds how long the end of an attempt waits for the cache. Who changes the lead's pod or its labels all the time
// delays an eviction by no more.
const behindFor = time.Minute

// lookedAt is a look at a lead of which the API server knows more than the cache. since is the first of several looks, and
// last the last one. While the API server does not answer, the cache cannot catch up.
type lookedAt struct{ since, last time.Time }

// isOver reports whether the cache had all of its time, and notes another look.
func (l *lookedAt) isOver(now time.Time) bool {
	if now.Sub(l.last) > behindFor/4 {
		l.since = now
	}
	l.last = now
	return !now.Before(l.since.Add(behindFor))
}

// errBehind says that the cache does not show yet what happened to a lead.
var errBehind = errors.New("the cache is behind the lead's pod, its Job or its JobSet")

// lookAtLead makes sure that no attempt ends, no command counts as begun that may have begun, and no time is given again, by an
// old view of the lead, as that of a manager which stood still: the command may have succeeded meanwhile.
func (r *Reconciler) lookAtLead(ctx context.Context, seen *observed, plan life.Plan) error {
	_, starts := plan.Step.(life.Start)
	_, prolongs := plan.Step.(life.Prolong)
	doubts := plan.EndsUnseen() || prolongs || starts && !showsStart(seen.view.Brokers()[0])
	if !doubts || seen.view.MiniCluster.Status.Admission == nil {
		seen.memory.behind = lookedAt{}
		return nil
	}
	behind, err := r.isBehind(ctx, seen)
	switch {
	case err != nil:
		return fmt.Errorf("looking at the lead before its attempt ends: %w", err)
	case !behind:
		seen.memory.behind = lookedAt{}
		return nil
	case seen.memory.behind.isOver(seen.now):
		return nil
	}
	return errBehind
}

// showsStart reports whether a lead shows that its command has begun.
func showsStart(lead *protocol.Pod) bool {
	return lead != nil && (lead.Broker.Ready || lead.Broker.Started || lead.Began || lead.Broker.State == life.Succeeded)
}

// isBehind reports whether the API server knows more about the lead than the cache.
func (r *Reconciler) isBehind(ctx context.Context, seen *observed) (bool, error) {
	v, lead := seen.view, seen.view.Brokers()[0]
	if v.JobSet == nil {
		if made, err := r.isMade(ctx, seen); made || err != nil {
			return made, err
		}
	}
	switch {
	case lead != nil:
		var now corev1.Pod
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(lead.Pod), &now); err != nil {
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		}
		return isNewer(lead.Pod, protocol.Strip(&now)), nil
	case v.JobSet == nil, seen.observation.SecondLead: // the cache shows what came after the lead
		return false, nil
	}
	if there, err := r.isLeadThere(ctx, seen); there || err != nil {
		return there, err
	}
	var now batchv1.Job
	err := r.Live.Get(ctx, leadJobOf(v.JobSet), &now)
	switch {
	case v.LeadJob == nil: // it may have been made, also by a later JobSet of the name, and not be in the cache
		return err == nil && isOf(&now, v.JobSet.Name), client.IgnoreNotFound(err)
	case err != nil:
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	}
	return v.IsBehind(&now), nil
}

// isNewer reports whether a pod is another than in the cache, in another state of its life, or was told something else.
func isNewer(cached, now *corev1.Pod) bool {
	return now.UID != cached.UID || protocol.Moved(cached, now) || !maps.Equal(cached.Annotations, now.Annotations)
}

// isOf reports whether a JobSet of some name has a Job.
func isOf(job *batchv1.Job, set string) bool {
	owner := metav1.GetControllerOf(job)
	return owner != nil && owner.Kind == jobset.Kind.Kind && owner.Name == set
}

// isLeadThere reports whether there is a pod of the lead that the cache does not show.
func (r *Reconciler) isLeadThere(ctx context.Context, seen *observed) (bool, error) {
	var pods corev1.PodList
	err := r.Live.List(ctx, &pods, client.InNamespace(seen.view.JobSet.Namespace), client.MatchingLabels{
		jobsetapi.JobSetUIDKey: string(seen.view.JobSet.UID), jobsetapi.ReplicatedJobNameKey: v1alpha2.LeadJob,
	})
	admission := seen.view.MiniCluster.Status.Admission
	return slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool { return admission.MayBeLead(pod.UID) }), err
}

// isMade reports whether the MiniCluster has a JobSet that the cache does not show.
func (r *Reconciler) isMade(ctx context.Context, seen *observed) (bool, error) {
	mc, set := seen.view.MiniCluster, &metav1.PartialObjectMetadata{}
	set.SetGroupVersionKind(jobset.Kind.GroupVersionKind())
	if err := r.Live.Get(ctx, types.NamespacedName{Namespace: mc.Namespace, Name: jobset.Name(mc)}, set); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return metav1.IsControlledBy(set, mc) && set.DeletionTimestamp == nil, nil
}
