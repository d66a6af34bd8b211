// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
)

// The API server and Kueue, as far as they decide about the Workload of a world.

// store is a write at the API server. The writer has read the given version.
func (w *world) store(next *kueueapi.Workload) {
	if next != nil {
		w.version++
		next.ResourceVersion = fmt.Sprint(w.version)
		if next.DeletionTimestamp != nil && len(next.Finalizers) == 0 {
			next = nil
		}
	}
	w.wl = next
}

// usage is what Kueue counts for a pod set.
func usage(wl *kueueapi.Workload, name kueueapi.PodSetReference) int {
	if wl == nil || !reserved(wl) || isTrue(wl, kueueapi.WorkloadFinished) {
		return 0
	}
	for _, set := range wl.Status.Admission.PodSetAssignments {
		if set.Name == name {
			return int(min(*set.Count, countOf(wl, name)-reclaimed(wl, name)))
		}
	}
	return 0
}

// holdsAny reports whether a Workload holds quota, which need not be for any pod.
func holdsAny(wl *kueueapi.Workload) bool {
	return wl != nil && reserved(wl) && !isTrue(wl, kueueapi.WorkloadFinished) && ptr.Deref(wl.Spec.Active, true)
}

func reclaimed(wl *kueueapi.Workload, name kueueapi.PodSetReference) int32 {
	for _, r := range wl.Status.ReclaimablePods {
		if r.Name == name {
			return r.Count
		}
	}
	return 0
}

// validate are the rules of Kueue's webhook and of its CRD.
func (w *world) validate(old, next *kueueapi.Workload) {
	w.t.Helper()
	for _, r := range next.Status.ReclaimablePods {
		if r.Count < 0 || r.Count > countOf(next, r.Name) {
			w.fail("%d reclaimable pods of %s", r.Count, r.Name)
		}
	}
	for i := range next.Spec.PodSets {
		if set := &next.Spec.PodSets[i]; set.MinCount != nil && (*set.MinCount < 1 || *set.MinCount > set.Count) {
			w.fail("minCount %d of %d", *set.MinCount, set.Count)
		}
	}
	for _, c := range next.Status.Conditions {
		if c.Reason == "" || c.LastTransitionTime.IsZero() {
			w.fail("condition %+v", c)
		}
	}
	if isTrue(next, kueueapi.WorkloadQuotaReserved) != (next.Status.Admission != nil) {
		w.fail("QuotaReserved, or an admission, without the other")
	}
	if old == nil || !reserved(old) {
		return
	}
	if !equality.Semantic.DeepEqual(old.Spec.PodSets, next.Spec.PodSets) {
		w.fail("pod sets were changed while quota is reserved")
	}
	if !reserved(next) {
		return
	}
	if old.Spec.QueueName != next.Spec.QueueName || !ptr.Equal(old.Spec.PriorityClassRef, next.Spec.PriorityClassRef) {
		w.fail("the queue or the priority class was changed while quota is reserved")
	}
	if isTrue(old, kueueapi.WorkloadAdmitted) && isTrue(next, kueueapi.WorkloadAdmitted) &&
		!ptr.Equal(old.Spec.MaximumExecutionTimeSeconds, next.Spec.MaximumExecutionTimeSeconds) {
		w.fail("the longest execution was changed while it is admitted")
	}
	if !equality.Semantic.DeepEqual(old.Status.Admission, next.Status.Admission) {
		w.fail("the admission was changed")
	}
	for _, r := range old.Status.ReclaimablePods {
		if reclaimed(next, r.Name) < r.Count {
			w.fail("fewer reclaimable pods of %s than %d", r.Name, r.Count)
		}
	}
}

// write does what the API server does with a write of the controller.
func (w *world) write(seen *kueueapi.Workload, write Write, next *kueueapi.Workload) (done bool) {
	w.t.Helper()
	if (seen == nil) != (w.wl == nil) || seen != nil && seen.ResourceVersion != w.wl.ResourceVersion {
		w.counts["conflict"]++
		return false
	}
	held := holdsAny(w.wl)
	stored := w.wl.DeepCopy()
	switch write {
	case Create:
		stored = next.DeepCopy()
		stored.UID, stored.Generation, stored.Status = types.UID(fmt.Sprint("wl-", w.version)), 1, kueueapi.WorkloadStatus{}
	case Delete:
		stored.DeletionTimestamp = &metav1.Time{Time: w.now}
	case Patch:
		stored.Labels, stored.Annotations, stored.Finalizers, stored.Spec = next.Labels, next.Annotations, next.Finalizers, next.Spec
	case PatchStatus:
		stored.Status = next.Status
	}
	w.validate(w.wl, stored)
	if w.wl != nil && equality.Semantic.DeepEqual(w.wl, stored) {
		w.fail("write %d changed nothing", write)
	}
	w.says("write %d", write)
	w.counts[fmt.Sprint("write ", write)]++
	w.store(stored)
	w.written = w.version
	if held && !holdsAny(w.wl) && len(w.placed) > 0 {
		w.fail("quota was given back with %d pods on nodes", len(w.placed))
	}
	return true
}

// kueue lets Kueue do one thing.
func (w *world) kueue() {
	if w.fault(40) {
		w.down = !w.down
	}
	if w.quiet {
		w.down, w.stopped = false, false
	}
	if w.wl == nil || w.down {
		return
	}
	wl := w.wl.DeepCopy()
	if w.kueueActs(wl) && !equality.Semantic.DeepEqual(wl, w.wl) {
		w.validate(w.wl, wl)
		w.store(wl)
	}
}

func (w *world) kueueActs(wl *kueueapi.Workload) bool {
	active, evicted := ptr.Deref(wl.Spec.Active, true), isTrue(wl, kueueapi.WorkloadEvicted)
	checks := wl.Status.AdmissionChecks
	inState := func(state kueueapi.CheckState) bool {
		return slices.ContainsFunc(checks, func(c kueueapi.AdmissionCheckState) bool { return c.State == state })
	}
	switch {
	case isTrue(wl, kueueapi.WorkloadFinished):
		return false
	case len(checks) == 0 && (w.ours || w.others):
		for name, there := range map[kueueapi.AdmissionCheckReference]bool{"placement": w.ours, "provisioning": w.others} {
			if there {
				wl.Status.AdmissionChecks = append(wl.Status.AdmissionChecks, kueueapi.AdmissionCheckState{Name: name, State: kueueapi.CheckStatePending, LastTransitionTime: metav1.NewTime(w.now)})
			}
		}
		slices.SortFunc(wl.Status.AdmissionChecks, func(a, b kueueapi.AdmissionCheckState) int { return len(a.Name) - len(b.Name) })
	case !active && !evicted:
		w.evict(wl, kueueapi.WorkloadDeactivated)
		wl.Status.RequeueState = nil
	case isTrue(wl, kueueapi.WorkloadQuotaReserved):
		w.kueueReserved(wl, inState)
	case active:
		w.kueuePending(wl, Input{Now: w.now})
	}
	return true
}

// kueueReserved is what Kueue does with a Workload that has quota.
func (w *world) kueueReserved(wl *kueueapi.Workload, in func(kueueapi.CheckState) bool) {
	admitted := isTrue(wl, kueueapi.WorkloadAdmitted)
	switch {
	case isTrue(wl, kueueapi.WorkloadEvicted):
	case in(kueueapi.CheckStateRetry):
		w.evict(wl, kueueapi.WorkloadEvictedByAdmissionCheck)
	case !admitted && !in(kueueapi.CheckStatePending):
		set(wl, Input{Now: w.now}, kueueapi.WorkloadAdmitted, metav1.ConditionTrue, "Admitted", "")
		w.counts["admitted"]++
	case w.fault(30):
		w.evict(wl, kueueapi.WorkloadEvictedByPreemption)
	case w.fault(60), !admitted && w.fault(15):
		w.stopped = true
		w.stop(wl, admitted)
	case w.fault(200): // by its maximum execution time, or a user
		wl.Spec.Active = ptr.To(false)
	}
	for i := range wl.Status.AdmissionChecks { // other controllers
		if check := &wl.Status.AdmissionChecks[i]; check.Name == "provisioning" && check.State == kueueapi.CheckStatePending && w.chance(6) {
			check.State, check.LastTransitionTime = kueueapi.CheckStateReady, metav1.NewTime(w.now)
		}
	}
}

// stop is what becomes of a Workload when its queue is stopped: one that is not admitted loses its
// quota at once.
func (w *world) stop(wl *kueueapi.Workload, admitted bool) {
	if admitted {
		w.evict(wl, kueueapi.WorkloadEvictedByLocalQueueStopped)
		return
	}
	w.says("Kueue takes the quota back")
	w.counts["taken"]++
	set(wl, Input{Now: w.now}, kueueapi.WorkloadQuotaReserved, metav1.ConditionFalse, kueueapi.WorkloadInadmissible, "stopped")
	wl.Status.Admission = nil
}

// kueuePending is what Kueue does with a Workload without quota.
func (w *world) kueuePending(wl *kueueapi.Workload, in Input) {
	if requeued := meta.FindStatusCondition(wl.Status.Conditions, kueueapi.WorkloadRequeued); requeued != nil && requeued.Status == metav1.ConditionFalse {
		if state := wl.Status.RequeueState; state != nil && state.RequeueAt != nil || w.stopped {
			return // Kueue does not remove a time that it did not write
		}
		set(wl, in, kueueapi.WorkloadRequeued, metav1.ConditionTrue, kueueapi.WorkloadBackoffFinished, "")
		return
	}
	if w.stopped = w.stopped && !w.chance(5); w.stopped || w.chance(2) {
		return
	}
	admission := &kueueapi.Admission{ClusterQueue: "cq"}
	for i := range wl.Spec.PodSets {
		set := &wl.Spec.PodSets[i]
		count := set.Count - reclaimed(wl, set.Name)
		if least := ptr.Deref(set.MinCount, count); least < count && w.chance(2) {
			count = least + int32(w.random.IntN(int(count-least)))
			w.counts["partial"]++
		}
		admission.PodSetAssignments = append(admission.PodSetAssignments, kueueapi.PodSetAssignment{
			Name: set.Name, Count: &count, Flavors: map[corev1.ResourceName]kueueapi.ResourceFlavorReference{"cpu": "flavor"},
		})
	}
	w.says("Kueue reserves quota for %d of %d", quotaSize(admission), w.mc.Spec.Size)
	wl.Status.Admission = admission
	set(wl, in, kueueapi.WorkloadQuotaReserved, metav1.ConditionTrue, "QuotaReserved", "")
	if isTrue(wl, kueueapi.WorkloadEvicted) {
		set(wl, in, kueueapi.WorkloadEvicted, metav1.ConditionFalse, "QuotaReserved", "")
	}
}

func quotaSize(admission *kueueapi.Admission) (size int32) {
	for _, set := range admission.PodSetAssignments {
		size += *set.Count
	}
	return size
}

func (w *world) evict(wl *kueueapi.Workload, reason string) {
	w.says("Kueue evicts: %s", reason)
	w.counts[reason]++
	set(wl, Input{Now: w.now}, kueueapi.WorkloadEvicted, metav1.ConditionTrue, reason, "evicted")
	for i := range wl.Status.AdmissionChecks {
		check := &wl.Status.AdmissionChecks[i]
		if check.State == kueueapi.CheckStateRetry {
			check.RetryCount = ptr.To(ptr.Deref(check.RetryCount, 0) + 1)
		}
		check.State, check.LastTransitionTime = kueueapi.CheckStatePending, metav1.NewTime(w.now)
	}
}

// cluster has a flavor, and the checks of the simulated Kueue.
var cluster = Cluster{
	Flavor: func(name kueueapi.ResourceFlavorReference) *kueueapi.ResourceFlavor {
		if name != "flavor" {
			return nil
		}
		return &kueueapi.ResourceFlavor{Spec: kueueapi.ResourceFlavorSpec{NodeLabels: map[string]string{"pool": "a"}}}
	},
	Check: func(name kueueapi.AdmissionCheckReference) *kueueapi.AdmissionCheck {
		check := &kueueapi.AdmissionCheck{Spec: kueueapi.AdmissionCheckSpec{ControllerName: "example.com/provisioning"}}
		if name == "placement" {
			check.Spec.ControllerName = v1alpha2.PlacementCheck
		}
		return check
	},
}
