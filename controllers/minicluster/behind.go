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
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// behindFor bounds how long the end of an attempt waits for the cache. Who changes the lead's pod or its labels all the time
// delays an eviction by no more.
const behindFor = 30 * time.Second

// errBehind says that the cache does not show yet what happened to a lead.
var errBehind = errors.New("the cache is behind the lead's pod, its Job or its JobSet")

// lookAtLead makes sure that no attempt ends by an old view of its lead, as that of a manager which stood still: the
// command may have succeeded meanwhile.
func (r *Reconciler) lookAtLead(ctx context.Context, seen *observed, plan life.Plan) error {
	if !plan.EndsUnseen() || seen.view.MiniCluster.Status.Admission == nil {
		seen.memory.behind = time.Time{}
		return nil
	}
	behind, err := r.isBehind(ctx, seen)
	switch {
	case err != nil:
		return fmt.Errorf("looking at the lead before its attempt ends: %w", err)
	case !behind:
		seen.memory.behind = time.Time{}
		return nil
	case seen.memory.behind.IsZero():
		seen.memory.behind = seen.now
	case !seen.now.Before(seen.memory.behind.Add(behindFor)):
		return nil
	}
	return errBehind
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
		return now.UID != lead.UID || protocol.Moved(lead.Pod, protocol.Strip(&now)), nil
	case v.LeadJob != nil:
		var now batchv1.Job
		if err := r.Live.Get(ctx, client.ObjectKeyFromObject(v.LeadJob), &now); err != nil {
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		}
		return v.IsBehind(&now), nil
	case v.JobSet != nil: // its Job may have been made, and not be in the cache
		var now batchv1.Job
		err := r.Live.Get(ctx, leadJobOf(v.JobSet), &now)
		return err == nil && metav1.IsControlledBy(&now, v.JobSet), client.IgnoreNotFound(err)
	}
	return false, nil
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
