// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package controllers

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// observed is what a pass knows.
type observed struct {
	// stored is the MiniCluster as it is in the cache; a patch is made against it.
	stored *v1alpha2.MiniCluster
	// view is with the MiniCluster's defaults.
	view        state.View
	observation *elastic.Observation
	// check is that of the spec; nil where it is not needed.
	check *check
	// undecided is true while it waits for the scheduler's first word, which comes
	// at once: there is nothing to do or to say until then.
	undecided bool
}

func (s *observed) name() types.NamespacedName { return client.ObjectKeyFromObject(s.stored) }

// observe reads what there is of a MiniCluster, and enters it in the queue if it
// waits for nodes.
func (r *MiniClusterReconciler) observe(ctx context.Context, mc *v1alpha2.MiniCluster) (*observed, error) {
	seen := &observed{stored: mc}
	seen.view.MiniCluster = mc.DeepCopy()
	seen.view.MiniCluster.Default()
	seen.view.Node = func(name string) *corev1.Node {
		var node corev1.Node
		if r.Client.Get(ctx, types.NamespacedName{Name: name}, &node, client.UnsafeDisableDeepCopy) != nil {
			return nil
		}
		return &node
	}
	var set jobsetapi.JobSet
	err := r.Client.Get(ctx, types.NamespacedName{Namespace: mc.Namespace, Name: jobset.Name(mc)}, &set)
	switch {
	case err == nil:
		seen.view.JobSet = &set
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("reading JobSet %q: %w", jobset.Name(mc), err)
	}
	if seen.view.Pods, err = r.podsOf(ctx, mc); err != nil {
		return nil, err
	}
	seen.view.Troubles = r.troubles.note(seen.name(), seen.view.Pods, r.Clock.Now())
	if seen.observation, err = state.Observe(seen.view); err != nil {
		return nil, err
	}
	if seen.observation.Workload == elastic.Ahead && r.placed.any(seen.name(), seen.view.Pods) {
		seen.observation.Workload = elastic.Stale // the cache does not show it yet
	}
	return seen, r.consult(ctx, seen)
}

// consult asks for what elastic needs to know besides: whether the spec can be
// carried out, and what the scheduler has for it.
func (r *MiniClusterReconciler) consult(ctx context.Context, seen *observed) error {
	o, mc := seen.observation, seen.view.MiniCluster
	if o.Admission != nil && o.Outcome == "" {
		r.Scheduler.Repair(mc, o.Homeless(r.Clock.Now()))
		o.Order = r.Scheduler.OrderFor(mc)
	}
	if !o.Unplaced() || o.Policy.Suspend {
		r.Scheduler.Skip(mc)
		return nil
	}
	check, err := r.check(ctx, seen)
	if err != nil {
		r.Scheduler.Skip(mc) // the others do not wait until it can be checked
		return err
	}
	seen.check, o.Rejected = check, check.Message
	waits := o.Admission == nil && o.Leftover == 0 && o.Rejected == "" && !r.Clock.Now().Before(o.NotBefore)
	if !waits {
		r.Scheduler.Skip(mc)
		return nil
	}
	decision := r.Scheduler.Offer(mc, check.pod)
	o.Offer, o.Verdict, o.Why = decision.Nodes, decision.Verdict, decision.Message
	o.Soon = r.Scheduler.Soon(mc, madeAhead(seen))
	seen.undecided = decision.Verdict == ""
	return nil
}

// madeAhead is how far the objects are made of one that waits.
func madeAhead(seen *observed) ahead {
	switch {
	case seen.observation.Workload != elastic.Ahead:
		return aheadNot
	case state.Made(seen.view):
		return aheadMade
	}
	return aheadMaking
}

// podIndex finds the pods of a MiniCluster by its name.
const podIndex = "miniCluster"

// SetupIndexes registers the indexes of the cache that reconciling needs.
func SetupIndexes(ctx context.Context, mgr ctrl.Manager) error {
	return mgr.GetFieldIndexer().IndexField(ctx, &corev1.Pod{}, podIndex, func(pod client.Object) []string {
		if name := pod.GetLabels()[v1alpha2.MiniClusterLabel]; name != "" {
			return []string{name}
		}
		return nil
	})
}

func (r *MiniClusterReconciler) podsOf(ctx context.Context, mc *v1alpha2.MiniCluster) ([]*corev1.Pod, error) {
	var list corev1.PodList
	err := r.Client.List(ctx, &list, client.InNamespace(mc.Namespace), client.MatchingFields{podIndex: mc.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing pods of MiniCluster %q: %w", mc.Name, err)
	}
	return pointers(list.Items), nil
}

// pointers are those to the elements of a list, which are only read.
func pointers[T any](items []T) []*T {
	out := make([]*T, len(items))
	for i := range items {
		out[i] = &items[i]
	}
	return out
}
