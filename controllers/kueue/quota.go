// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/controllers/index"
	"github.com/flux-elastic/flux-elastic/internal/kueue"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// Read reads what Kueue grants to a MiniCluster, and collects what there is to say to Kueue.
func (k *Kueue) Read(ctx context.Context, facts kueue.Facts, memory *kueue.Memory) (*kueue.Quota, error) {
	mc, admission := facts.MiniCluster, facts.MiniCluster.Status.Admission
	reader, presence := k.objects()
	q := &kueue.Quota{Followed: reader != nil}
	if err := readWorkloads(ctx, reader, mc, q); err != nil {
		return nil, err
	}
	uses, err := k.uses(ctx, mc)
	if err != nil {
		return nil, err
	}
	if uses && admission == nil {
		q.Deadlines = state.Deadlines(index.Named[v1alpha2.MiniClusterQueue](ctx, k.cluster, v1alpha2.KueueQueue))
		q.TooLong = state.TooLong(mc, v1alpha2.KueueQueue, q.Deadlines)
	}
	k.fillInput(ctx, reader, facts, uses, q)
	q.Outdated = facts.Behind || memory.IsOutdated(q)
	switch {
	case !uses, facts.Observation.Outcome != "":
		return q, nil
	case reader == nil:
		q.Grant, err = withoutKueue(admission, presence)
		return q, err
	}
	q.Grant = kueue.Read(q.Workload, q.Input)
	if admission != nil {
		q.OfServices = kueue.ServicesQuota(q.Workload, q.Input.Cluster)
		if kueue.Holds(q.Workload, admission.Quota) {
			err = k.readPreemptor(ctx, q)
		}
	}
	return q, err
}

// withoutKueue is what a MiniCluster gets while nothing of Kueue is read. One with nodes keeps its quota if Kueue is not
// there: nobody takes the quota back. Otherwise Kueue may not have admitted it yet, and no pods of it are placed.
func withoutKueue(admission *v1alpha2.Admission, presence kueue.Presence) (kueue.Grant, error) {
	switch {
	case admission != nil && presence == kueue.Away:
		return kueue.Grant{State: life.QuotaAdmitted, Quota: admission.Quota}, nil
	case admission != nil:
		return kueue.Grant{State: life.QuotaReserved, Quota: admission.Quota}, nil
	case presence == kueue.Away:
		return kueue.Grant{State: life.QuotaMissing, Message: "waits for Kueue: the API server does not have its objects"}, nil
	case presence == kueue.Unread:
		return kueue.Grant{State: life.QuotaMissing, Message: "waits for Kueue: the manager cannot read its objects"}, nil
	}
	return kueue.Grant{}, kueue.ErrNotSought
}

// uses reports whether a MiniCluster gets its quota from Kueue.
func (k *Kueue) uses(ctx context.Context, mc *v1alpha2.MiniCluster) (bool, error) {
	if !kueue.Uses(mc) || mc.Status.Admission != nil {
		return kueue.Uses(mc), nil
	}
	return k.manages(ctx, mc.Namespace)
}

// readWorkloads reads the Workloads of all MiniClusters that have or had a name.
func readWorkloads(ctx context.Context, reader client.Reader, mc *v1alpha2.MiniCluster, q *kueue.Quota) error {
	if reader == nil {
		return nil
	}
	var wl kueueapi.Workload
	err := reader.Get(ctx, types.NamespacedName{Namespace: mc.Namespace, Name: kueue.Name(mc)}, &wl)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading Workload %q: %w", kueue.Name(mc), err)
	}
	if err == nil && metav1.IsControlledBy(&wl, mc) {
		q.Workload = &wl
	}
	list, err := workloadsOf(ctx, reader, client.ObjectKeyFromObject(mc))
	if err != nil {
		return err
	}
	for i := range list {
		if !metav1.IsControlledBy(&list[i], mc) {
			q.Left = append(q.Left, &list[i])
		}
	}
	if kueue.Uses(mc) || q.Workload != nil {
		q.Input.Growth = kueue.GrowthOf(mc, list)
	}
	return nil
}

// workloadsOf lists the Workloads of all MiniClusters that have or had a name. They are not to be changed.
func workloadsOf(ctx context.Context, reader client.Reader, name types.NamespacedName) ([]kueueapi.Workload, error) {
	if reader == nil {
		return nil, nil
	}
	var list kueueapi.WorkloadList
	err := reader.List(ctx, &list, client.InNamespace(name.Namespace), client.MatchingLabels{v1alpha2.MiniClusterLabel: name.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing Workloads of MiniCluster %q: %w", name.Name, err)
	}
	return list.Items, nil
}

// fillInput collects what there is to say to Kueue before the scheduler is asked.
func (k *Kueue) fillInput(ctx context.Context, reader client.Reader, facts kueue.Facts, uses bool, q *kueue.Quota) {
	mc, o, in := facts.MiniCluster, facts.Observation, &q.Input
	in.MiniCluster, in.Uses, in.Rejected, in.Now = mc, uses, o.Rejected != "" || q.TooLong != "" || facts.Held, facts.Now
	in.Ranks, in.Services, in.NotBefore = facts.Ranks, facts.Services, o.NotBefore
	switch o.Outcome {
	case "":
	case life.OutcomeSucceeded:
		in.Finished = kueueapi.WorkloadFinishedReasonSucceeded
	default:
		in.Finished = kueueapi.WorkloadFinishedReasonFailed
	}
	if reader == nil {
		return
	}
	in.Cluster = cluster(ctx, reader)
	if q.Workload != nil {
		in.Position = k.position(q.Workload)
	}
	if !in.Uses || in.Rejected || facts.Pod == nil || mc.Status.Admission != nil {
		return
	}
	in.Want, q.Problem = wanted(ctx, reader, facts, q)
}

// wanted is the Workload as it would be made now, or why Kueue cannot be asked.
func wanted(ctx context.Context, reader client.Reader, facts kueue.Facts, q *kueue.Quota) (*kueueapi.Workload, error) {
	mc := facts.MiniCluster
	var class *kueueapi.WorkloadPriorityClass
	if name := mc.Labels[v1alpha2.KueuePriorityLabel]; name != "" {
		if class = index.Named[kueueapi.WorkloadPriorityClass](ctx, reader, name); class == nil {
			return nil, fmt.Errorf("the label %s names the WorkloadPriorityClass %q, which does not exist", v1alpha2.KueuePriorityLabel, name)
		}
	}
	topology, err := kueue.TopologyRequest(mc, q.Input.Cluster)
	if errors.Is(err, kueue.ErrUnknown) && q.Workload != nil { // the rest of what it asks for may have changed
		topology, err = kueue.RequestOf(q.Workload), nil
	}
	if err != nil {
		return nil, err
	}
	wl := kueue.Workload(mc, facts.Pod, class, topology, q.Deadlines)
	kueue.CountServices(wl, facts.ServicesPod)
	return wl, nil
}

// cluster reads objects of Kueue from the cache.
func cluster(ctx context.Context, reader client.Reader) kueue.Cluster {
	return kueue.Cluster{
		Queue: func(namespace string, name kueueapi.LocalQueueName) *kueueapi.ClusterQueue {
			var local kueueapi.LocalQueue
			if reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: string(name)}, &local) != nil {
				return nil
			}
			return index.Named[kueueapi.ClusterQueue](ctx, reader, string(local.Spec.ClusterQueue))
		},
		Topology: func(name kueueapi.TopologyReference) *kueueapi.Topology {
			return index.Named[kueueapi.Topology](ctx, reader, string(name))
		},
		Flavor: func(name kueueapi.ResourceFlavorReference) *kueueapi.ResourceFlavor {
			return index.Named[kueueapi.ResourceFlavor](ctx, reader, string(name))
		},
		Check: func(name kueueapi.AdmissionCheckReference) *kueueapi.AdmissionCheck {
			return index.Named[kueueapi.AdmissionCheck](ctx, reader, string(name))
		},
	}
}

// readPreemptor reads for which Workload Kueue preempts a MiniCluster that has nodes, and thereby
// what it may keep.
func (k *Kueue) readPreemptor(ctx context.Context, q *kueue.Quota) error {
	uid := kueue.Preemptor(q.Workload)
	if uid == "" {
		return nil
	}
	name, err := k.find(ctx, uid)
	if err != nil {
		return fmt.Errorf("looking for the Workload that preempts %q: %w", q.Workload.Name, err)
	}
	var preemptor *kueueapi.Workload
	if name.Name != "" {
		preemptor = &kueueapi.Workload{}
		err := k.live.Get(ctx, name, preemptor)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading the Workload that preempts %q: %w", q.Workload.Name, err)
		}
		if err != nil || preemptor.UID != uid {
			preemptor = nil
		}
	}
	q.Yield = kueue.Keep(q.Workload, preemptor, q.Input.Cluster, q.Input.Now)
	return nil
}

// find finds a Workload by its UID; its name is empty if it does not exist. The cache has Workloads of MiniClusters alone, so all
// Workloads are listed, once for all MiniClusters that Kueue preempts for one.
func (k *Kueue) find(ctx context.Context, uid types.UID) (types.NamespacedName, error) {
	select {
	case k.finding <- struct{}{}:
		defer func() { <-k.finding }()
	case <-ctx.Done():
		return types.NamespacedName{}, ctx.Err()
	}
	if name, known := k.found[uid]; known {
		return name, nil
	}
	var list metav1.PartialObjectMetadataList
	list.SetGroupVersionKind(kueueapi.SchemeGroupVersion.WithKind("WorkloadList"))
	if err := k.live.List(ctx, &list); err != nil {
		return types.NamespacedName{}, err
	}
	found := map[types.UID]types.NamespacedName{uid: {}}
	for i := range list.Items {
		wl := &list.Items[i]
		if _, known := k.found[wl.UID]; known || wl.UID == uid {
			found[wl.UID] = client.ObjectKeyFromObject(wl)
		}
	}
	k.found = found
	return found[uid], nil
}

// Tell makes the Workloads of a MiniCluster follow it, by one write in a pass. They have to be followed, and
// not outdated.
func (k *Kueue) Tell(ctx context.Context, q *kueue.Quota, memory *kueue.Memory) error {
	write, wl, before := q.Next()
	if write == kueue.Nothing {
		return q.Problem
	}
	if err := k.write(ctx, q, memory, write, wl, before); err != nil {
		return fmt.Errorf("telling Kueue by Workload %q: %w", wl.Name, err)
	}
	return q.Problem
}

// write writes a Workload. The resource version makes sure that no write is based on an outdated one.
func (k *Kueue) write(ctx context.Context, q *kueue.Quota, memory *kueue.Memory, write kueue.Write, wl, before *kueueapi.Workload) error {
	log := ctrl.LoggerFrom(ctx).WithValues("Workload", wl.Name)
	patch := func() client.Patch { return client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}) }
	var err error
	switch write {
	case kueue.Create:
		if !memory.MayAsk(q.Input.Now) {
			return nil
		}
		log.Info("Asking Kueue for quota")
		memory.NoteAsked(q.Input.Now)
		return k.cluster.Create(ctx, wl)
	case kueue.Delete:
		log.Info("Deleting the Workload")
		err = k.cluster.Delete(ctx, wl, client.Preconditions{UID: ptr.To(wl.UID)}, client.PropagationPolicy(metav1.DeletePropagationBackground))
		return client.IgnoreNotFound(err)
	case kueue.Patch:
		log.V(1).Info("Changing the Workload")
		err = k.cluster.Patch(ctx, wl, patch())
	case kueue.PatchStatus:
		log.V(1).Info("Changing the status of the Workload")
		err = k.cluster.Status().Patch(ctx, wl, patch())
	}
	if err == nil {
		memory.NotePatch(q, write, before, wl)
	}
	return err
}

// Forget releases the Workloads of MiniClusters that had a name.
func (k *Kueue) Forget(ctx context.Context, name types.NamespacedName) error {
	reader, _ := k.objects()
	list, err := workloadsOf(ctx, reader, name)
	left := make([]*kueueapi.Workload, len(list))
	for i := range list {
		left[i] = &list[i]
	}
	return errors.Join(err, k.Release(ctx, left))
}

// Release lets Workloads of deleted MiniClusters go once their pods are gone.
func (k *Kueue) Release(ctx context.Context, left []*kueueapi.Workload) error {
	var errs []error
	for _, wl := range left {
		if wl.DeletionTimestamp == nil || k.holdsQuota(ctx, wl) {
			continue
		}
		if next := wl.DeepCopy(); kueue.DropFinalizer(next) {
			err := k.cluster.Patch(ctx, next, client.MergeFromWithOptions(wl, client.MergeFromWithOptimisticLock{}))
			errs = append(errs, client.IgnoreNotFound(err))
		}
	}
	return errors.Join(errs...)
}

// holdsQuota reports whether pods of the MiniCluster behind a Workload may still run.
func (k *Kueue) holdsQuota(ctx context.Context, wl *kueueapi.Workload) bool {
	owner := metav1.GetControllerOf(wl)
	var pods corev1.PodList
	err := k.cluster.List(ctx, &pods, client.InNamespace(wl.Namespace), index.PodsOf(wl.Labels[v1alpha2.MiniClusterLabel]), client.UnsafeDisableDeepCopy)
	if err != nil || owner == nil {
		return err != nil
	}
	view := state.View{MiniCluster: &v1alpha2.MiniCluster{ObjectMeta: metav1.ObjectMeta{UID: owner.UID}}}
	for i := range pods.Items {
		view.Pods = append(view.Pods, protocol.Read(&pods.Items[i]))
	}
	ranks, services := view.NeedsQuota(&life.Observation{})
	return len(ranks) > 0 || services
}
