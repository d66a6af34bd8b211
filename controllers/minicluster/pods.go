// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package minicluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

const (
	// tidyAgain is how long pods may take to go before they are deleted again.
	tidyAgain = time.Minute
	// tidyAtOnce is how many pods one request deletes at most. An API server deletes one after the other, and gives a
	// request up after a minute.
	tidyAtOnce = 250
)

// podWriter places pods, tells the lead what to do, and removes pods.
type podWriter struct {
	client client.Client
	live   live
	clock  clock.PassiveClock
	maker  *maker
	// core evicts pods, by requests to the core API.
	core rest.Interface
}

// tell writes something for the lead on its pod, or ends the pod.
func (p *podWriter) tell(ctx context.Context, seen *observed, step life.Step) error {
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
	err = p.patch(ctx, lead, types.MergePatchType, what)
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
func (p *podWriter) patch(ctx context.Context, pod *corev1.Pod, kind types.PatchType, patch []byte) error {
	return p.client.Patch(ctx, pod.DeepCopy(), client.RawPatch(kind, patch))
}

// tidy deletes the pods of followers that have ended, in as few requests as possible; the next pass goes on. Their Job
// has ended or was deleted by JobSet, so it makes no new ones. Owners of pods say nothing: they may name another's Job.
func (p *podWriter) tidy(ctx context.Context, seen *observed) error {
	set, memory := seen.view.JobSet, seen.memory
	if !metav1.IsControlledBy(set, seen.view.MiniCluster) || (memory.tidiedSet == set.UID && seen.now.Sub(memory.tidied) < tidyAgain) {
		return nil // the pods go one by one
	}
	followers := client.MatchingLabels{jobsetapi.JobSetUIDKey: string(set.UID), jobsetapi.ReplicatedJobNameKey: v1alpha2.WorkersJob}
	some := &client.DeleteAllOfOptions{ListOptions: client.ListOptions{Limit: tidyAtOnce}}
	if err := p.client.DeleteAllOf(ctx, &corev1.Pod{}, some, client.InNamespace(set.Namespace), followers); err != nil {
		return fmt.Errorf("deleting the followers' pods of JobSet %q: %w", set.Name, err)
	}
	if len(seen.view.Pods) <= tidyAtOnce {
		memory.tidied, memory.tidiedSet = seen.now, set.UID
	}
	return nil
}

// evict removes pods by the Eviction API: their Job does not count them as failed, and makes new
// gated pods. A pod that disruption budgets have kept for too long is deleted: its Job counts it as failed.
func (p *podWriter) evict(ctx context.Context, seen *observed, step life.EvictPods) error {
	pods, errs := seen.view.Brokers(), make([]error, len(step.Ranks))
	var group errgroup.Group
	group.SetLimit(patchesAtOnce)
	for i, rank := range step.Ranks {
		pod := pods[rank].DeepCopy()
		group.Go(func() error {
			if slices.Contains(step.Kept, rank) {
				errs[i] = deleteObject(ctx, p.client, "pod", pod, metav1.DeletePropagationBackground)
			} else {
				errs[i] = p.evictPod(ctx, pod)
			}
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs
	var kept []types.UID
	for i, rank := range step.Ranks {
		if isKept(errs[i]) {
			kept = append(kept, pods[rank].UID)
		}
	}
	seen.memory.noteKept(kept, seen.now)
	return cmp.Or(errs...)
}

// shorten bounds how long pods take to go that somebody deletes with a grace period of years: they would keep their nodes, past
// each deadline and eviction.
func (p *podWriter) shorten(ctx context.Context, seen *observed) error {
	for i := range seen.view.Pods {
		pod := &seen.view.Pods[i]
		if pod.Ended || pod.DeletionGracePeriodSeconds == nil {
			continue
		}
		most := max(int64(cmp.Or(seen.observation.Policy.MaxGrace, v1alpha2.DefaultMaxGrace).Seconds()), ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, 0))
		if *pod.DeletionGracePeriodSeconds <= most {
			continue
		}
		err := p.client.Delete(ctx, pod.DeepCopy(), client.Preconditions{UID: ptr.To(pod.UID)}, client.GracePeriodSeconds(most))
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting pod %q sooner: %w", pod.Name, err)
		}
	}
	return nil
}

// evictPod evicts a pod by one request. A budget whose state is not known lets the API server name a time for
// another one: no pass waits for that.
func (p *podWriter) evictPod(ctx context.Context, pod *corev1.Pod) error {
	eviction := &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: ptr.To(pod.UID)}},
	}
	err := p.core.Post().MaxRetries(0).Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("eviction").
		Body(eviction).Do(ctx).Error()
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("evicting pod %q: %w", pod.Name, err)
	}
	return nil
}

// isKept reports whether disruption budgets refuse an eviction for now. A budget whose state is not known yet has the
// same cause as one that allows none. For a pod of several budgets the API server answers an error without a cause.
// Source: pkg/registry/core/pod/storage/eviction.go of Kubernetes.
func isKept(err error) bool {
	if apierrors.IsInternalError(err) {
		return strings.Contains(err.Error(), "more than one PodDisruptionBudget")
	}
	return apierrors.IsTooManyRequests(err) && apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause)
}

const (
	// patchesAtOnce is how many pods of a MiniCluster are patched at once.
	patchesAtOnce = 16
	// placesFor is how long a pass places pods: where webhooks are slow, the next pass goes on, and looks at orders before.
	placesFor = 10 * time.Second
)

// place pins pods to their nodes and removes their gates, the lead's first.
func (p *podWriter) place(ctx context.Context, seen *observed, step life.Place) error {
	if err := p.maker.makeFiles(ctx, seen, seen.view.JobSet); err != nil {
		return needed(err)
	}
	nodes, pods := seen.observation.Admission.Nodes, seen.view.Brokers()
	ranks := slices.DeleteFunc(slices.Clone(step.Ranks), func(rank int) bool { return seen.memory.hasPlaced(pods[rank]) })
	var mutex sync.Mutex
	placeRank := func(ctx context.Context, rank int, orders protocol.Orders) error {
		err := p.applyQuota(ctx, pods[rank].Pod, seen.view.MiniCluster.Status.Admission.Quota)
		if err == nil {
			err = p.bind(ctx, seen.view.JobSet, pods[rank].Pod, nodes[rank], rank, orders)
		}
		switch {
		case isDenied(err): // and not because of an old view of the pod
			return needed(err)
		case err != nil:
			return err
		}
		mutex.Lock()
		defer mutex.Unlock()
		seen.memory.notePlaced(pods[rank], seen.view.Pods)
		return nil
	}
	if len(ranks) > 0 && ranks[0] == 0 {
		if err := placeRank(ctx, 0, protocol.Orders{Quorum: step.Quorum, Again: step.Again}); err != nil {
			return err
		}
		ranks = ranks[1:]
	}
	group, groupCtx := errgroup.WithContext(ctx)
	group.SetLimit(patchesAtOnce)
	began := p.clock.Now()
	for _, rank := range ranks {
		if p.clock.Since(began) > placesFor { // the pods that were placed cause the next pass
			break
		}
		group.Go(func() error { return placeRank(groupCtx, rank, protocol.Orders{}) })
	}
	return group.Wait()
}

// applyQuota gives a pod what it needs on the nodes of a quota.
func (p *podWriter) applyQuota(ctx context.Context, pod *corev1.Pod, quota *v1alpha2.Quota) error {
	if quota == nil {
		return nil
	}
	patch, err := protocol.QuotaPatch(pod, quota)
	if err != nil || patch == nil {
		return err
	}
	if err := p.patch(ctx, pod, types.StrategicMergePatchType, patch); err != nil {
		return fmt.Errorf("applying the quota to pod %q: %w", pod.Name, err)
	}
	return nil
}

// releaseServices removes the gate of the services pod, and confines it to the nodes of its quota. Its
// Job may replace the pod with a new gated one.
func (p *podWriter) releaseServices(ctx context.Context, seen *observed) error {
	pod := seen.view.Services()
	if seen.memory.hasPlaced(pod) {
		return nil
	}
	if err := p.maker.makeFiles(ctx, seen, seen.view.JobSet); err != nil {
		return err
	}
	if err := p.applyQuota(ctx, pod.Pod, seen.quota.OfServices); err != nil {
		return err
	}
	patch, err := protocol.UngatePatch(pod.Pod, seen.quota.OfServices)
	if err != nil {
		return err
	}
	if err := p.patch(ctx, pod.Pod, types.StrategicMergePatchType, patch); err != nil {
		return fmt.Errorf("letting pod %q go: %w", pod.Name, err)
	}
	seen.memory.notePlaced(pod, seen.view.Pods)
	return nil
}

// errNotDirect says that a pod has the scheduler name of pods that this manager binds, and is none.
var errNotDirect = errors.New("it has the schedulerName " + v1alpha2.SchedulerName + ", but its JobSet was not made for that")

// bind places a gated pod of a JobSet, with orders for the lead. A pod that replaced it under the same name is not touched. A pod
// without our gate is of a JobSet that an older manager made with --binder=direct.
func (p *podWriter) bind(ctx context.Context, set *jobsetapi.JobSet, pod *corev1.Pod, node string, rank int, orders protocol.Orders) error {
	switch {
	case protocol.HasGate(pod):
		return p.ungate(ctx, pod, node, rank, orders)
	case !jobset.BoundDirectly(set):
		return fmt.Errorf("binding pod %q: %w", pod.Name, errNotDirect)
	}
	return p.bindDirectly(ctx, pod, node, rank, orders)
}

// ungate pins a pod to its node and removes the gate, and kube-scheduler checks and binds the
// pod: two writes.
func (p *podWriter) ungate(ctx context.Context, pod *corev1.Pod, node string, rank int, orders protocol.Orders) error {
	patch, err := protocol.PlacePatch(pod, node, rank, orders, p.clock.Now())
	if err != nil {
		return err
	}
	if err := p.patch(ctx, pod, types.StrategicMergePatchType, patch); err != nil {
		return fmt.Errorf("placing pod %q: %w", pod.Name, err)
	}
	return nil
}

// bindDirectly binds a pod in one write. Only the kubelet checks it again. Its rights are in config/direct.
func (p *podWriter) bindDirectly(ctx context.Context, pod *corev1.Pod, node string, rank int, orders protocol.Orders) error {
	err := p.client.SubResource("binding").Create(ctx, pod.DeepCopy(), protocol.Binding(pod, node, rank, orders))
	if err == nil || (apierrors.IsConflict(err) && p.isBound(ctx, pod, node)) {
		return nil
	}
	return fmt.Errorf("binding pod %q: %w", pod.Name, err)
}

// isBound reports whether a pod is on its node already, which the cache may not show yet.
func (p *podWriter) isBound(ctx context.Context, pod *corev1.Pod, node string) bool {
	var there corev1.Pod
	err := p.live.Get(ctx, client.ObjectKeyFromObject(pod), &there)
	return err == nil && there.UID == pod.UID && there.Spec.NodeName == node
}
