// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	"sigs.k8s.io/jobset/pkg/util/placement"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/controllers/index"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/kueue"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// observed is what a pass has read.
type observed struct {
	now    time.Time
	memory *memory
	// lookAgain is when to look again for what no event of the cache tells; zero if nothing is.
	lookAgain time.Time
	// stored is the MiniCluster as the cache has it; patches are made against it.
	stored *v1alpha2.MiniCluster
	// view contains the MiniCluster with its defaults.
	view        state.View
	observation *life.Observation
	// check is the check of the spec; nil if it is not needed.
	check *check
	// quota is what Kueue grants.
	quota *kueue.Quota
}

// observe reads the objects of a MiniCluster.
func (r *Reconciler) observe(ctx context.Context, mc *v1alpha2.MiniCluster, memory *memory) (*observed, error) {
	seen := &observed{now: r.Clock.Now(), memory: memory, stored: mc}
	seen.view.MiniCluster = mc.DeepCopy()
	seen.view.MiniCluster.Default()
	state.Resume(seen.view.MiniCluster, seen.now)
	state.ScaleTasks(seen.view.MiniCluster)
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
	if err := r.readLeadJob(ctx, seen); err != nil {
		return nil, err
	}
	if mc.Status.Admission != nil {
		seen.view.Queue = index.Named[v1alpha2.MiniClusterQueue](ctx, r.Client, state.QueueOf(mc))
	}
	memory.noteTroubles(seen.view.Pods, seen.now)
	lead := seen.view.Brokers()[0]
	memory.noteLead(lead, readySince(mc, lead), seen.now)
	seen.view.Troubles, seen.view.Kept, seen.view.LeadDown = memory.troubles, memory.kept, memory.lead.down
	if seen.observation, err = state.Observe(seen.view); err != nil {
		return nil, err
	}
	if seen.observation.Policy.TTL == nil && r.DefaultTTL > 0 {
		seen.observation.Policy.TTL = &r.DefaultTTL
	}
	if seen.observation.Workload == life.Ahead && memory.hasPlacedAny(seen.view.Pods) {
		seen.observation.Workload = life.Stale // the cache does not show the placed pods yet
	}
	return seen, nil
}

// readLeadJob reads the Job of a lead whose pod is not there: a pod that has ended may be deleted before anybody has seen
// its end. Its Job counts it first.
func (r *Reconciler) readLeadJob(ctx context.Context, seen *observed) error {
	mc, set := seen.view.MiniCluster, seen.view.JobSet
	if mc.Status.Admission == nil || set == nil || !metav1.IsControlledBy(set, mc) || seen.view.Brokers()[0] != nil {
		return nil
	}
	var job batchv1.Job
	err := r.Client.Get(ctx, leadJobOf(set), &job)
	switch {
	case err == nil:
		seen.view.LeadJob = &job
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("reading the Job of the lead: %w", err)
	}
	return nil
}

// leadJobOf names the Job of the lead.
func leadJobOf(set *jobsetapi.JobSet) types.NamespacedName {
	return types.NamespacedName{Namespace: set.Namespace, Name: placement.GenJobName(set.Name, v1alpha2.LeadJob, 0)}
}

// readySince is since when the lead was ready at the last decision about the command; zero if there was none. A lead that
// became ready after it was told to restart the command has run it again.
func readySince(mc *v1alpha2.MiniCluster, lead *protocol.Pod) time.Time {
	a := mc.Status.Admission
	switch {
	case a == nil:
		return time.Time{}
	case a.Restart != nil && lead != nil && lead.Broker.ReadySince.After(a.Restart.Time.Time):
		return lead.Broker.ReadySince
	}
	return ptr.Deref(a.ReadySince, metav1.Time{}).Time
}

func (r *Reconciler) podsOf(ctx context.Context, mc *v1alpha2.MiniCluster) ([]protocol.Pod, error) {
	var list corev1.PodList
	err := r.Client.List(ctx, &list, client.InNamespace(mc.Namespace), index.PodsOf(mc.Name), client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing pods of MiniCluster %q: %w", mc.Name, err)
	}
	pods := make([]protocol.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = protocol.Read(&list.Items[i])
	}
	return pods, nil
}
