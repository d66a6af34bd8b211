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
	"k8s.io/utils/clock"
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
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
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
	// held says why it is not queued yet: it waits for other MiniClusters, or for a time.
	held elastic.Refusal
	// met are the dependencies that are met, and meets is true if that is to be recorded.
	met   []v1alpha2.Dependency
	meets bool
	// quota is what Kueue grants.
	quota *kueue.Quota
}

// pause is a pause between requests for a MiniCluster whose brokers come up: half of the time since its admission, between two
// bounds. What takes long most often takes long because the API server is busy.
func (s *observed) pause(least, most time.Duration) time.Duration {
	if s.observation.Admission == nil {
		return least
	}
	return min(max(least, s.now.Sub(s.observation.Admission.At)/2), most)
}

// observer reads the objects of a MiniCluster, from the cache or the API server.
type observer struct {
	cache      client.Reader
	live       live
	clock      clock.PassiveClock
	defaultTTL time.Duration
	// began is when the manager had its first pass.
	began func() time.Time
}

// observe reads the objects of a MiniCluster.
func (ob *observer) observe(ctx context.Context, mc *v1alpha2.MiniCluster, memory *memory) (*observed, error) {
	ob.began()
	seen := &observed{now: ob.clock.Now(), memory: memory, stored: mc}
	seen.view.MiniCluster = mc.DeepCopy()
	seen.view.MiniCluster.Default()
	state.Resume(seen.view.MiniCluster, seen.now)
	ob.hold(ctx, seen)
	state.ScaleTasks(seen.view.MiniCluster)
	seen.view.Node = func(name string) *corev1.Node {
		return index.Named[corev1.Node](ctx, ob.cache, name, client.UnsafeDisableDeepCopy)
	}
	var set jobsetapi.JobSet
	err := ob.cache.Get(ctx, types.NamespacedName{Namespace: mc.Namespace, Name: jobset.Name(mc)}, &set)
	switch {
	case err == nil:
		seen.view.JobSet = &set
	case !apierrors.IsNotFound(err):
		return nil, fmt.Errorf("reading JobSet %q: %w", jobset.Name(mc), err)
	}
	if seen.view.Pods, err = ob.podsOf(ctx, mc); err != nil {
		return nil, err
	}
	if err := ob.readJobs(ctx, seen); err != nil {
		return nil, err
	}
	if mc.Status.Admission != nil {
		seen.view.Queue = index.Named[v1alpha2.MiniClusterQueue](ctx, ob.cache, state.QueueOf(mc))
	}
	memory.noteTroubles(seen.view.Pods, seen.now)
	lead := seen.view.Brokers()[0]
	memory.noteLead(lead, readySince(mc, lead), seen.now)
	seen.view.Troubles, seen.view.Kept, seen.view.LeadDown = memory.troubles, memory.kept, memory.lead.down
	if seen.observation, err = state.Observe(seen.view); err != nil {
		return nil, err
	}
	if seen.observation.Policy.TTL == nil && ob.defaultTTL > 0 {
		seen.observation.Policy.TTL = &ob.defaultTTL
	}
	ob.awaitOthers(ctx, seen)
	if seen.observation.Workload == life.Ahead && memory.hasPlacedAny(seen.view.Pods) {
		seen.observation.Workload = life.Stale // the cache does not show the placed pods yet
	}
	return seen, nil
}

// readJobs reads the Jobs of brokers whose pods are not there: a pod that has ended may be deleted before anybody has seen its
// end. Its Job counts it first.
func (ob *observer) readJobs(ctx context.Context, seen *observed) (err error) {
	v, set := &seen.view, seen.view.JobSet
	if v.MiniCluster.Status.Admission == nil || set == nil || !metav1.IsControlledBy(set, v.MiniCluster) {
		return nil
	}
	brokers := v.Brokers()
	if brokers[0] == nil {
		v.LeadJob, err = ob.jobOf(ctx, set, v1alpha2.LeadJob)
	}
	if err == nil && len(brokers) < state.Ranks(v.MiniCluster) {
		v.WorkersJob, err = ob.jobOf(ctx, set, v1alpha2.WorkersJob)
	}
	return err
}

// jobOf is a Job of a JobSet; nil if there is none.
func (ob *observer) jobOf(ctx context.Context, set *jobsetapi.JobSet, replicated string) (*batchv1.Job, error) {
	var job batchv1.Job
	switch err := ob.cache.Get(ctx, nameOf(set, replicated), &job, client.UnsafeDisableDeepCopy); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("reading a Job of brokers: %w", err)
	}
	return &job, nil
}

// nameOf names a Job of a JobSet.
func nameOf(set *jobsetapi.JobSet, replicated string) types.NamespacedName {
	return types.NamespacedName{Namespace: set.Namespace, Name: placement.GenJobName(set.Name, replicated, 0)}
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

func (ob *observer) podsOf(ctx context.Context, mc *v1alpha2.MiniCluster) ([]protocol.Pod, error) {
	var list corev1.PodList
	err := ob.cache.List(ctx, &list, client.InNamespace(mc.Namespace), index.PodsOf(mc.Name), client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("listing pods of MiniCluster %q: %w", mc.Name, err)
	}
	pods := make([]protocol.Pod, len(list.Items))
	for i := range list.Items {
		pods[i] = protocol.Read(&list.Items[i])
	}
	return pods, nil
}

// behindFor bounds how long the end of an attempt waits for the cache. Who changes the lead's pod or its labels all the time
// delays an eviction by no more. A lead that has ended is waited for until the cache shows the end: nobody undoes an end.
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
func (ob *observer) lookAtLead(ctx context.Context, seen *observed, plan life.Plan) error {
	_, starts := plan.Step.(life.Start)
	_, prolongs := plan.Step.(life.Prolong)
	doubts := plan.EndsUnseen() || prolongs || starts && !showsStart(seen.view.Brokers()[0])
	if !doubts || seen.view.MiniCluster.Status.Admission == nil {
		seen.memory.behind = lookedAt{}
		return nil
	}
	behind, ended, err := ob.isBehind(ctx, seen)
	switch {
	case err != nil:
		return fmt.Errorf("looking at the lead before its attempt ends: %w", err)
	case !behind:
		seen.memory.behind = lookedAt{}
		return nil
	case !ended && seen.memory.behind.isOver(seen.now):
		return nil
	}
	return errBehind
}

// showsStart reports whether a lead shows that its command has begun.
func showsStart(lead *protocol.Pod) bool {
	return lead != nil && (lead.Broker.Ready || lead.Broker.Started || lead.Began || lead.Broker.State == life.Succeeded)
}

// isBehind reports whether the API server knows more about the lead than the cache, and whether that is the lead's end.
func (ob *observer) isBehind(ctx context.Context, seen *observed) (behind, ended bool, err error) {
	v, lead := seen.view, seen.view.Brokers()[0]
	if v.JobSet == nil {
		if made, err := ob.isMade(ctx, seen); made || err != nil {
			return made, false, err
		}
	}
	switch {
	case lead != nil:
		var now corev1.Pod
		if err := ob.live.Get(ctx, client.ObjectKeyFromObject(lead.Pod), &now); err != nil {
			return apierrors.IsNotFound(err), false, client.IgnoreNotFound(err)
		}
		is := protocol.Read(&now).Broker.State
		return isNewer(lead.Pod, protocol.Strip(&now)), is == life.Succeeded || is == life.Failed, nil
	case v.JobSet == nil, seen.observation.SecondLead: // the cache shows what came after the lead
		return false, false, nil
	}
	if there, err := ob.isLeadThere(ctx, seen); there || err != nil {
		return there, false, err
	}
	var now batchv1.Job
	err = ob.live.Get(ctx, nameOf(v.JobSet, v1alpha2.LeadJob), &now)
	ended = now.Status.Succeeded > 0
	switch {
	case v.LeadJob == nil: // it may have been made, also by a later JobSet of the name, and not be in the cache
		return err == nil && isOf(&now, v.JobSet.Name), ended, client.IgnoreNotFound(err)
	case err != nil:
		return apierrors.IsNotFound(err), false, client.IgnoreNotFound(err)
	}
	return v.IsBehind(&now), ended, nil
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
func (ob *observer) isLeadThere(ctx context.Context, seen *observed) (bool, error) {
	var pods corev1.PodList
	err := ob.live.List(ctx, &pods, client.InNamespace(seen.view.JobSet.Namespace), client.MatchingLabels{
		jobsetapi.JobSetUIDKey: string(seen.view.JobSet.UID), jobsetapi.ReplicatedJobNameKey: v1alpha2.LeadJob,
	})
	admission := seen.view.MiniCluster.Status.Admission
	return slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool { return admission.MayBeLead(pod.UID) }), err
}

// isMade reports whether the MiniCluster has a JobSet that the cache does not show.
func (ob *observer) isMade(ctx context.Context, seen *observed) (bool, error) {
	mc, set := seen.view.MiniCluster, &metav1.PartialObjectMetadata{}
	set.SetGroupVersionKind(jobset.Kind.GroupVersionKind())
	if err := ob.live.Get(ctx, types.NamespacedName{Namespace: mc.Namespace, Name: jobset.Name(mc)}, set); err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return metav1.IsControlledBy(set, mc) && set.DeletionTimestamp == nil, nil
}
