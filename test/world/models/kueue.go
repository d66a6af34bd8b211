// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

// Kueue is Kueue 0.19 as far as the Workloads of MiniClusters see it (pkg/scheduler, pkg/controller/core): it reserves
// quota of a ClusterQueue without a cohort, also for fewer pods than wanted, follows admission checks, admits, and evicts
// for a higher priority, a check, a deactivation, a ClusterQueue that is stopped, or when it is told to. A Workload that is evicted keeps its quota until
// its owner gives it back. Of the flavors of a resource it knows the first.
type Kueue struct {
	cluster   *Cluster
	workloads reading[*kueueapi.Workload]
	locals    reading[*kueueapi.LocalQueue]
	clusters  reading[*kueueapi.ClusterQueue]
	evict     map[types.UID]string // Workloads to evict, and why
	// preempting are the Workloads that wait for those that are evicted for them.
	preempting map[types.UID]bool
	due        time.Time
}

// NewKueue makes Kueue. The client has to know Kueue's kinds, and the API server has to have them.
func NewKueue(c *Cluster) *Kueue {
	return &Kueue{cluster: c, evict: map[types.UID]string{}, preempting: map[types.UID]bool{}}
}

// Name is the name of the model.
func (k *Kueue) Name() string { return "kueue" }

// Next is when a Workload may be reserved again.
func (k *Kueue) Next() time.Time { return k.due }

// Evict evicts a Workload that has quota, for example for kueueapi.WorkloadEvictedByPreemption.
func (k *Kueue) Evict(workload types.UID, reason string) {
	k.evict[workload], k.due = reason, time.Now()
}

// Step writes one Workload.
func (k *Kueue) Step(ctx context.Context) bool {
	all := read(k.cluster, &k.workloads, "Workload", func() []*kueueapi.Workload {
		var list kueueapi.WorkloadList
		k.cluster.list(ctx, &list)
		return pointers(list.Items)
	})
	k.due = time.Time{}
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b *kueueapi.Workload) int {
		return cmp.Or(cmp.Compare(ptr.Deref(b.Spec.Priority, 0), ptr.Deref(a.Spec.Priority, 0)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time))
	})
	queues := k.queues(ctx)
	for _, workload := range all {
		if isTrue(workload, kueueapi.WorkloadFinished) || workload.DeletionTimestamp != nil && !holdsQuota(workload) {
			continue
		}
		next := workload.DeepCopy()
		if spec, moved := k.act(next, queues, all); moved {
			if spec {
				_ = k.cluster.Client.Update(ctx, next) // it is looked at again, also after a conflict
			} else {
				_ = k.cluster.Client.Status().Update(ctx, next)
			}
			return true
		}
	}
	return false
}

// clusterQueues are the ClusterQueues by LocalQueue.
type clusterQueues map[types.NamespacedName]*kueueapi.ClusterQueue

func (k *Kueue) queues(ctx context.Context) clusterQueues {
	locals := read(k.cluster, &k.locals, "LocalQueue", func() []*kueueapi.LocalQueue {
		var list kueueapi.LocalQueueList
		k.cluster.list(ctx, &list)
		return pointers(list.Items)
	})
	clusters := read(k.cluster, &k.clusters, "ClusterQueue", func() []*kueueapi.ClusterQueue {
		var list kueueapi.ClusterQueueList
		k.cluster.list(ctx, &list)
		return pointers(list.Items)
	})
	out := clusterQueues{}
	for _, local := range locals {
		for _, cluster := range clusters {
			if string(local.Spec.ClusterQueue) == cluster.Name {
				out[nameOf(local)] = cluster
			}
		}
	}
	return out
}

// act changes a Workload: its spec, or its status.
func (k *Kueue) act(w *kueueapi.Workload, queues clusterQueues, all []*kueueapi.Workload) (spec, moved bool) {
	queue := queues[types.NamespacedName{Namespace: w.Namespace, Name: string(w.Spec.QueueName)}]
	active, evicted := ptr.Deref(w.Spec.Active, true), isTrue(w, kueueapi.WorkloadEvicted)
	switch {
	case !active && !evicted:
		evictWorkload(w, kueueapi.WorkloadDeactivated, "The workload is deactivated")
		w.Status.RequeueState = nil
		return false, true
	case queue == nil || !active:
		return false, false
	case addChecks(w, queue):
		return false, true
	case inState(w, kueueapi.CheckStateRejected):
		w.Spec.Active = ptr.To(false)
		return true, true
	case isTrue(w, kueueapi.WorkloadQuotaReserved):
		return false, !evicted && k.reserved(w, queue) // the owner of one that is evicted has to give the quota back
	}
	return false, k.pending(w, queue, all)
}

// reserved changes a Workload that has quota.
func (k *Kueue) reserved(w *kueueapi.Workload, queue *kueueapi.ClusterQueue) bool {
	switch {
	case ptr.Deref(queue.Spec.StopPolicy, kueueapi.None) == kueueapi.HoldAndDrain:
		evictWorkload(w, kueueapi.WorkloadEvictedByClusterQueueStopped, "The ClusterQueue is stopped")
	case k.evict[w.UID] != "":
		evictWorkload(w, k.evict[w.UID], "Evicted for another workload")
		delete(k.evict, w.UID)
	case inState(w, kueueapi.CheckStateRetry):
		k.retry(w)
	case !isTrue(w, kueueapi.WorkloadAdmitted) && allReady(w):
		setWorkload(w, kueueapi.WorkloadAdmitted, metav1.ConditionTrue, "Admitted", "The workload is admitted")
	default:
		return false
	}
	return true
}

// retry evicts a Workload whose admission check wants to be asked again later.
func (k *Kueue) retry(w *kueueapi.Workload) {
	wait := time.Second
	for i := range w.Status.AdmissionChecks {
		check := &w.Status.AdmissionChecks[i]
		if check.State == kueueapi.CheckStateRetry {
			check.RetryCount = ptr.To(ptr.Deref(check.RetryCount, 0) + 1)
			wait = max(wait, time.Duration(ptr.Deref(check.RequeueAfterSeconds, 0))*time.Second)
		}
	}
	state := ptr.Deref(w.Status.RequeueState, kueueapi.RequeueState{})
	state.RequeueAt = ptr.To(metav1.NewTime(time.Now().Add(wait).Truncate(time.Second)))
	w.Status.RequeueState = &state
	setWorkload(w, kueueapi.WorkloadRequeued, metav1.ConditionFalse, kueueapi.WorkloadEvictedByAdmissionCheck, "An admission check wants to be asked again")
	evictWorkload(w, kueueapi.WorkloadEvictedByAdmissionCheck, "An admission check wants to be asked again")
}

// pending reserves quota for a Workload, or says why it has none.
func (k *Kueue) pending(w *kueueapi.Workload, queue *kueueapi.ClusterQueue, all []*kueueapi.Workload) bool {
	delete(k.preempting, w.UID)
	if at := w.Status.RequeueState; at != nil && at.RequeueAt != nil && at.RequeueAt.After(time.Now()) {
		k.due = soonest(k.due, at.RequeueAt.Time)
		return false
	}
	if requeued := meta.FindStatusCondition(w.Status.Conditions, kueueapi.WorkloadRequeued); requeued != nil && requeued.Status == metav1.ConditionFalse {
		if state := w.Status.RequeueState; state != nil {
			state.RequeueAt = nil
		}
		setWorkload(w, kueueapi.WorkloadRequeued, metav1.ConditionTrue, kueueapi.WorkloadBackoffFinished, "The workload backoff was finished")
		return true
	}
	if ptr.Deref(queue.Spec.StopPolicy, kueueapi.None) != kueueapi.None {
		return setWorkload(w, kueueapi.WorkloadQuotaReserved, metav1.ConditionFalse, kueueapi.WorkloadInadmissible, fmt.Sprintf("ClusterQueue %s is inactive", queue.Name))
	}
	admission, why := fitWorkload(w, queue, k.freeFor(w, queue, all))
	if admission == nil {
		k.preempting[w.UID] = k.preempt(w, queue, all)
		return setWorkload(w, kueueapi.WorkloadQuotaReserved, metav1.ConditionFalse, "Pending", why)
	}
	w.Status.Admission = admission
	setWorkload(w, kueueapi.WorkloadQuotaReserved, metav1.ConditionTrue, "QuotaReserved", "Quota reserved in ClusterQueue "+queue.Name)
	if isTrue(w, kueueapi.WorkloadEvicted) {
		setWorkload(w, kueueapi.WorkloadEvicted, metav1.ConditionFalse, "QuotaReserved", "Previously: evicted")
	}
	return true
}

// freeFor is the quota that is free for a Workload. What preempted Workloads leave is for those that wait for it.
func (k *Kueue) freeFor(w *kueueapi.Workload, queue *kueueapi.ClusterQueue, all []*kueueapi.Workload) corev1.ResourceList {
	free := freeQuota(queue, all)
	for _, before := range all {
		if before.UID == w.UID {
			break
		}
		if k.preempting[before.UID] && !holdsQuota(before) && ptr.Deref(before.Spec.Active, true) {
			for i := range before.Spec.PodSets {
				take(free, &before.Spec.PodSets[i], before.Spec.PodSets[i].Count)
			}
		}
	}
	return free
}

// preempt has Workloads of lower priority evicted, if quota that they hold is enough for a Workload. It reports whether the
// Workload waits for them.
func (k *Kueue) preempt(w *kueueapi.Workload, queue *kueueapi.ClusterQueue, all []*kueueapi.Workload) bool {
	if queue.Spec.Preemption == nil || queue.Spec.Preemption.WithinClusterQueue != kueueapi.PreemptionPolicyLowerPriority {
		return false
	}
	var victims []*kueueapi.Workload
	left := slices.Clone(all)
	for i := len(all) - 1; i >= 0; i-- { // the lowest priority comes last
		other := all[i]
		lower := ptr.Deref(other.Spec.Priority, 0) < ptr.Deref(w.Spec.Priority, 0)
		if !holdsQuota(other) || string(other.Status.Admission.ClusterQueue) != queue.Name || !lower && !isTrue(other, kueueapi.WorkloadEvicted) {
			continue
		}
		left = slices.DeleteFunc(left, func(l *kueueapi.Workload) bool { return l == other })
		if !isTrue(other, kueueapi.WorkloadEvicted) {
			victims = append(victims, other)
		}
		if admission, _ := fitWorkload(w, queue, freeQuota(queue, left)); admission != nil {
			for _, victim := range victims {
				k.evict[victim.UID] = kueueapi.WorkloadEvictedByPreemption
			}
			return true
		}
	}
	return false
}

func evictWorkload(w *kueueapi.Workload, reason, message string) {
	setWorkload(w, kueueapi.WorkloadEvicted, metav1.ConditionTrue, reason, message)
	for i := range w.Status.AdmissionChecks {
		check := &w.Status.AdmissionChecks[i]
		check.State, check.LastTransitionTime = kueueapi.CheckStatePending, metav1.NewTime(time.Now().Truncate(time.Second))
	}
}

// addChecks adds the admission checks of a queue to a Workload.
func addChecks(w *kueueapi.Workload, queue *kueueapi.ClusterQueue) (moved bool) {
	if queue.Spec.AdmissionChecksStrategy == nil {
		return false
	}
	for _, rule := range queue.Spec.AdmissionChecksStrategy.AdmissionChecks {
		if slices.ContainsFunc(w.Status.AdmissionChecks, func(c kueueapi.AdmissionCheckState) bool { return c.Name == rule.Name }) {
			continue
		}
		w.Status.AdmissionChecks = append(w.Status.AdmissionChecks, kueueapi.AdmissionCheckState{
			Name: rule.Name, State: kueueapi.CheckStatePending, LastTransitionTime: metav1.NewTime(time.Now().Truncate(time.Second)),
		})
		moved = true
	}
	return moved
}

func inState(w *kueueapi.Workload, state kueueapi.CheckState) bool {
	return slices.ContainsFunc(w.Status.AdmissionChecks, func(c kueueapi.AdmissionCheckState) bool { return c.State == state })
}

func allReady(w *kueueapi.Workload) bool {
	return !slices.ContainsFunc(w.Status.AdmissionChecks, func(c kueueapi.AdmissionCheckState) bool { return c.State != kueueapi.CheckStateReady })
}

func isTrue(w *kueueapi.Workload, kind string) bool {
	return meta.IsStatusConditionTrue(w.Status.Conditions, kind)
}

// holdsQuota reports whether a Workload counts against its queue. One that is not active does not.
func holdsQuota(w *kueueapi.Workload) bool {
	return isTrue(w, kueueapi.WorkloadQuotaReserved) && !isTrue(w, kueueapi.WorkloadFinished) && ptr.Deref(w.Spec.Active, true) && w.Status.Admission != nil
}

func setWorkload(w *kueueapi.Workload, kind string, status metav1.ConditionStatus, reason, message string) bool {
	return meta.SetStatusCondition(&w.Status.Conditions, metav1.Condition{
		Type: kind, Status: status, Reason: reason, Message: message, ObservedGeneration: w.Generation,
		LastTransitionTime: metav1.NewTime(time.Now().Truncate(time.Second)),
	})
}

func reclaimedOf(w *kueueapi.Workload, set kueueapi.PodSetReference) int32 {
	for _, r := range w.Status.ReclaimablePods {
		if r.Name == set {
			return r.Count
		}
	}
	return 0
}

// podOfSet is a pod of a pod set, for its requests.
func podOfSet(set *kueueapi.PodSet) *corev1.Pod { return &corev1.Pod{Spec: set.Template.Spec} }
