// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/controllers/index"
	"github.com/flux-elastic/flux-elastic/internal/kueue"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/internal/state"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// preemptorInterval is how often the Workload is read for which Kueue preempts a MiniCluster, until it
// says what it requests.
const preemptorInterval = 250 * time.Millisecond

// cacheDelay is how long the cache may take at most to show a new Workload.
const cacheDelay = 5 * time.Second

var errNotSought = errors.New("it is not known yet whether Kueue is there")

// readQuota reads what Kueue grants to a MiniCluster that gets its quota from it, and collects what
// there is to say to Kueue.
func (r *Reconciler) readQuota(ctx context.Context, seen *observed) error {
	mc, o, reader := seen.view.MiniCluster, seen.observation, r.Kueue.Reader()
	if err := r.readWorkload(ctx, reader, seen); err != nil {
		return err
	}
	uses, err := r.usesKueue(ctx, mc)
	if err != nil {
		return err
	}
	seen.deadlines = r.deadlines(ctx, mc, uses)
	if reader != nil {
		seen.kueueInput, seen.unasked = kueueInput(ctx, seen, reader, uses)
		if seen.workload != nil {
			seen.kueueInput.Position = r.Kueue.Position(seen.workload)
		}
	}
	admission := mc.Status.Admission
	switch {
	case !uses, o.Outcome != "":
		return nil
	case reader == nil:
		seen.grant, err = r.withoutKueue(admission)
	default:
		seen.grant = kueue.Read(seen.workload, seen.kueueInput)
		if admission != nil && kueue.Holds(seen.workload, admission.Quota) {
			err = r.readPreemptor(ctx, reader, seen)
		}
	}
	o.Quota = seen.grant.State
	if admission != nil {
		if reader != nil {
			seen.services = kueue.ServicesQuota(seen.workload, seen.kueueInput.Cluster)
		}
		o.ServicesGated = o.ServicesGated && seen.services != nil
		r.limitGrowth(ctx, seen)
	}
	return err
}

// withoutKueue is what a MiniCluster gets while nothing of Kueue is read. One with nodes keeps its quota if Kueue is not
// there: nobody takes the quota back. Otherwise Kueue may not have admitted it yet, and no pods of it are placed.
func (r *Reconciler) withoutKueue(admission *v1alpha2.Admission) (kueue.Grant, error) {
	switch presence := r.Kueue.Presence(); {
	case admission != nil && presence == kueue.Away:
		return kueue.Grant{State: life.QuotaAdmitted, Quota: admission.Quota}, nil
	case admission != nil:
		return kueue.Grant{State: life.QuotaReserved, Quota: admission.Quota}, nil
	case presence == kueue.Away:
		return kueue.Grant{State: life.QuotaMissing, Message: "waits for Kueue: the API server does not have its objects"}, nil
	case presence == kueue.Unread:
		return kueue.Grant{State: life.QuotaMissing, Message: "waits for Kueue: the manager cannot read its objects"}, nil
	}
	return kueue.Grant{}, errNotSought
}

// deadlines are those of the queue of all MiniClusters with quota, for one that waits for quota or, with
// quota, for nodes.
func (r *Reconciler) deadlines(ctx context.Context, mc *v1alpha2.MiniCluster, uses bool) elastic.Deadlines {
	if !uses || mc.Status.Admission != nil {
		return elastic.Deadlines{}
	}
	return state.Deadlines(named[v1alpha2.MiniClusterQueue](ctx, r.Client, v1alpha2.KueueQueue))
}

// tooLong says that a MiniCluster sets a longer deadline than the queue of all MiniClusters with quota
// allows; "" if not. Kueue is not asked for quota then.
func (seen *observed) tooLong() string {
	return state.TooLong(seen.view.MiniCluster, v1alpha2.KueueQueue, seen.deadlines)
}

// readPreemptor reads for which Workload Kueue preempts a MiniCluster that has nodes, and thereby
// what it may keep. The cache has Workloads of MiniClusters alone.
func (r *Reconciler) readPreemptor(ctx context.Context, reader client.Reader, seen *observed) error {
	uid := kueue.Preemptor(seen.workload)
	if uid == "" {
		return nil
	}
	if seen.memory.preemptor.UID != uid {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(kueueapi.SchemeGroupVersion.WithKind("WorkloadList"))
		if err := r.Live.List(ctx, &list); err != nil {
			return fmt.Errorf("looking for the Workload that preempts %q: %w", seen.workload.Name, err)
		}
		seen.memory.preemptor = metav1.ObjectMeta{UID: uid}
		for i := range list.Items {
			if list.Items[i].UID == uid {
				seen.memory.preemptor = list.Items[i].ObjectMeta
			}
		}
	}
	var preemptor *kueueapi.Workload
	if known := &seen.memory.preemptor; known.Name != "" {
		preemptor = &kueueapi.Workload{}
		err := r.Live.Get(ctx, types.NamespacedName{Namespace: known.Namespace, Name: known.Name}, preemptor)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("reading the Workload that preempts %q: %w", seen.workload.Name, err)
		}
		if err != nil || preemptor.UID != uid {
			preemptor = nil
		}
	}
	seen.grant.Yield = kueue.Keep(seen.workload, preemptor, kueueCluster(ctx, reader), seen.now)
	return nil
}

// readWorkload reads the Workloads of a MiniCluster, and lets those of earlier ones of its name go.
func (r *Reconciler) readWorkload(ctx context.Context, reader client.Reader, seen *observed) error {
	if reader == nil {
		return nil
	}
	mc := seen.view.MiniCluster
	var wl kueueapi.Workload
	err := reader.Get(ctx, types.NamespacedName{Namespace: mc.Namespace, Name: kueue.Name(mc)}, &wl)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("reading Workload %q: %w", kueue.Name(mc), err)
	}
	if err == nil && metav1.IsControlledBy(&wl, mc) {
		seen.workload = &wl
	}
	list, err := workloadsOf(ctx, reader, client.ObjectKeyFromObject(mc))
	if err != nil {
		return err
	}
	if kueue.Uses(mc) || seen.workload != nil {
		seen.growth.workloads = kueue.GrowthOf(mc, list)
	}
	seen.unreleased = r.releaseQuotas(ctx, list, mc)
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

// usesKueue reports whether a MiniCluster gets its quota from Kueue.
func (r *Reconciler) usesKueue(ctx context.Context, mc *v1alpha2.MiniCluster) (bool, error) {
	if !kueue.Uses(mc) || mc.Status.Admission != nil {
		return kueue.Uses(mc), nil
	}
	return r.Kueue.Manages(ctx, mc.Namespace)
}

// kueueCluster reads objects of Kueue from the cache.
func kueueCluster(ctx context.Context, reader client.Reader) kueue.Cluster {
	return kueue.Cluster{
		Queue: func(namespace string, name kueueapi.LocalQueueName) *kueueapi.ClusterQueue {
			var local kueueapi.LocalQueue
			if reader.Get(ctx, types.NamespacedName{Namespace: namespace, Name: string(name)}, &local) != nil {
				return nil
			}
			return named[kueueapi.ClusterQueue](ctx, reader, string(local.Spec.ClusterQueue))
		},
		Topology: func(name kueueapi.TopologyReference) *kueueapi.Topology {
			return named[kueueapi.Topology](ctx, reader, string(name))
		},
		Flavor: func(name kueueapi.ResourceFlavorReference) *kueueapi.ResourceFlavor {
			return named[kueueapi.ResourceFlavor](ctx, reader, string(name))
		},
		Check: func(name kueueapi.AdmissionCheckReference) *kueueapi.AdmissionCheck {
			return named[kueueapi.AdmissionCheck](ctx, reader, string(name))
		},
	}
}

// named is the object of a name, which is in no namespace; nil if there is none.
func named[T any, P interface {
	*T
	client.Object
}](ctx context.Context, reader client.Reader, name string) P {
	object := P(new(T))
	if reader.Get(ctx, types.NamespacedName{Name: name}, object) != nil {
		return nil
	}
	return object
}

// tellKueue makes the Workload of a MiniCluster follow it, by one write in a pass. If Kueue refuses
// the Workload of a MiniCluster that waits, the plan says so. An error keeps only steps from being taken that take quota.
func (r *Reconciler) tellKueue(ctx context.Context, seen *observed, plan life.Plan) (life.Plan, error) {
	in, problem := seen.kueueInput, seen.unasked
	if in.MiniCluster == nil || seen.isOutdated() { // Kueue is not there, or the cache is behind
		return plan, nil
	}
	in.Offer, in.Keep = seen.observation.Offer, seen.grant.Yield.Size
	if in.Pod = admittedPod(seen); in.Pod != nil {
		in.Ask = seen.growth.ask
	}
	if step, grows := plan.Step.(life.Grow); grows {
		for _, pod := range step.Pods {
			in.Ranks = append(in.Ranks, pod.Rank)
		}
		seen.memory.growth.refusals = 0
	}
	if err := r.writeNext(ctx, seen, in); err != nil {
		problem = err
	}
	plan.LookAgain = elastic.Earliest(plan.LookAgain, kueue.LookAtGrowth(in), seen.lookAtGrowth())
	if seen.workload != nil {
		plan.LookAgain = elastic.Earliest(plan.LookAgain, kueue.LookAgain(seen.workload, in))
	}
	if at := seen.memory.asked.Add(cacheDelay); seen.now.Before(at) { // until then it does not ask again
		plan.LookAgain = elastic.Earliest(plan.LookAgain, at)
	}
	if seen.grant.Yield.Undecided {
		plan.LookAgain = elastic.Earliest(plan.LookAgain, seen.now.Add(preemptorInterval))
	}
	if _, waits := plan.Step.(life.Wait); !waits || problem == nil || isPassing(problem) {
		return plan, problem
	}
	seen.observation.Offer.Message, plan.Message = problem.Error(), problem.Error()
	plan.LookAgain = elastic.Earliest(plan.LookAgain, seen.now.Add(recheckInterval))
	return plan, nil
}

// takesQuota reports whether a step takes what Kueue has to know before.
func takesQuota(step life.Step) bool {
	switch step.(type) {
	case life.Make, life.Admit, life.Appoint, life.Place, life.ReleaseServices, life.Grow, life.Move:
		return true
	}
	return false
}

// kueueInput is what there is to say to Kueue before the scheduler is asked.
func kueueInput(ctx context.Context, seen *observed, reader client.Reader, uses bool) (kueue.Input, error) {
	mc, o := seen.view.MiniCluster, seen.observation
	in := kueue.Input{
		MiniCluster: mc, Uses: uses, Rejected: o.Rejected != "" || seen.tooLong() != "",
		NotBefore: o.NotBefore, Growth: seen.growth.workloads, Cluster: kueueCluster(ctx, reader), Now: seen.now,
	}
	in.Ranks, in.Services = seen.view.NeedsQuota(o)
	switch o.Outcome {
	case "":
	case life.OutcomeSucceeded:
		in.Finished = kueueapi.WorkloadFinishedReasonSucceeded
	default:
		in.Finished = kueueapi.WorkloadFinishedReasonFailed
	}
	if !in.Uses || in.Rejected || seen.check == nil || !seen.check.passed() || mc.Status.Admission != nil {
		return in, nil
	}
	var class *kueueapi.WorkloadPriorityClass
	if name := mc.Labels[v1alpha2.KueuePriorityLabel]; name != "" {
		if class = named[kueueapi.WorkloadPriorityClass](ctx, reader, name); class == nil {
			return in, fmt.Errorf("the label %s names the WorkloadPriorityClass %q, which does not exist", v1alpha2.KueuePriorityLabel, name)
		}
	}
	topology, err := kueue.TopologyRequest(mc, in.Cluster)
	if err != nil {
		return in, err
	}
	in.Want = kueue.Workload(mc, seen.check.pod, class, topology, seen.deadlines)
	kueue.CountServices(in.Want, seen.check.services)
	return in, nil
}

// writeNext makes the next write to one of the Workloads. A request to grow comes last.
func (r *Reconciler) writeNext(ctx context.Context, seen *observed, in kueue.Input) error {
	write, wl := kueue.NextGrowth(seen.workload, in)
	if write == kueue.Nothing || write == kueue.Create {
		if w, next := kueue.Next(seen.workload, in); w != kueue.Nothing {
			write, wl = w, next
		}
	}
	if write == kueue.Nothing {
		return nil
	}
	before := seen.growthBefore(wl)
	if before == nil {
		before = seen.workload
	}
	if err := r.writeWorkload(ctx, seen, write, before, wl); err != nil {
		return err
	}
	seen.memory.noteRefusal(seen, write, wl)
	return nil
}

// writeWorkload writes a Workload. The resource version makes sure that no write is based on an
// outdated one.
func (r *Reconciler) writeWorkload(ctx context.Context, seen *observed, write kueue.Write, before, wl *kueueapi.Workload) error {
	log := ctrl.LoggerFrom(ctx).WithValues("Workload", wl.Name)
	var err error
	switch write {
	case kueue.Create:
		if seen.now.Sub(seen.memory.asked) < cacheDelay {
			return nil
		}
		log.Info("Asking Kueue for quota")
		seen.memory.asked = seen.now
		err = r.Client.Create(ctx, wl, client.FieldOwner(FieldOwner))
	case kueue.Delete:
		log.Info("Deleting the Workload")
		err = r.delete(ctx, "Workload", wl.DeepCopy(), metav1.DeletePropagationBackground)
	case kueue.Patch:
		log.V(1).Info("Changing the Workload")
		err = r.Client.Patch(ctx, wl, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(FieldOwner))
	case kueue.PatchStatus:
		log.V(1).Info("Changing the status of the Workload")
		err = r.Client.Status().Patch(ctx, wl, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}), client.FieldOwner(FieldOwner))
	}
	if err == nil && (write == kueue.Patch || write == kueue.PatchStatus) {
		seen.memory.noteWrite(before, wl)
	}
	if err != nil && !isPassing(err) {
		err = fmt.Errorf("telling Kueue by Workload %q: %w", wl.Name, err)
	}
	return err
}

// releaseQuotas lets Workloads of deleted MiniClusters go once their pods are gone. A MiniCluster that is there, or nil,
// releases its own otherwise.
func (r *Reconciler) releaseQuotas(ctx context.Context, list []kueueapi.Workload, there *v1alpha2.MiniCluster) error {
	var errs []error
	for i := range list {
		wl := &list[i]
		if wl.DeletionTimestamp == nil || there != nil && metav1.IsControlledBy(wl, there) || r.holdsQuota(ctx, wl) {
			continue
		}
		if next := wl.DeepCopy(); kueue.DropFinalizer(next) {
			err := r.Client.Patch(ctx, next, client.MergeFromWithOptions(wl, client.MergeFromWithOptimisticLock{}), client.FieldOwner(FieldOwner))
			errs = append(errs, client.IgnoreNotFound(err))
		}
	}
	return errors.Join(errs...)
}

// holdsQuota reports whether pods of the MiniCluster behind a Workload may still run.
func (r *Reconciler) holdsQuota(ctx context.Context, wl *kueueapi.Workload) bool {
	owner := metav1.GetControllerOf(wl)
	var pods corev1.PodList
	err := r.Client.List(ctx, &pods, client.InNamespace(wl.Namespace), index.PodsOf(wl.Labels[v1alpha2.MiniClusterLabel]), client.UnsafeDisableDeepCopy)
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
