// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// roomGrace is how long a MiniCluster may hold quota while there is no room for it: nodes become
// free one after the other.
const roomGrace = 10 * time.Second

// setStatus makes the status of a Workload follow its MiniCluster. It reports whether it changed
// something.
func setStatus(wl *kueueapi.Workload, in Input, waits, free bool) bool {
	switch {
	case in.Finished != "" && !free:
		return setReclaimable(wl, neededBy(in.Ranks, in.Services))
	case in.Finished != "":
		return set(wl, in, kueueapi.WorkloadFinished, metav1.ConditionTrue, in.Finished, cmp.Or(in.Message, "The MiniCluster has finished"))
	case waits:
		return free && setWaiting(wl, in) // pods of the last attempt may still leave
	case !Holds(wl, in.MiniCluster.Status.Admission.Quota):
		return false // its nodes go first
	case isTrue(wl, kueueapi.WorkloadEvicted):
		return goOn(wl, in)
	}
	changed := answerChecks(wl, in, kueueapi.CheckStateReady, "The MiniCluster has nodes")
	changed = setReclaimable(wl, neededBy(in.Ranks, in.Services)) || changed
	if in.MiniCluster.Status.StartTime != nil {
		changed = set(wl, in, kueueapi.WorkloadPodsReady, metav1.ConditionTrue, kueueapi.WorkloadStarted, "The quorum is reached") || changed
	}
	return changed
}

// setWaiting is setStatus for a MiniCluster that waits for quota or nodes, and of which nothing runs.
func setWaiting(wl *kueueapi.Workload, in Input) bool {
	switch {
	case !isTrue(wl, kueueapi.WorkloadQuotaReserved):
		changed := endBackoff(wl, in)
		return forgetReclaimed(wl) || changed
	case isTrue(wl, kueueapi.WorkloadEvicted):
		return clearQuota(wl, in)
	}
	return answer(wl, in)
}

// forgetReclaimed makes a Workload without quota ask for all its pods again.
func forgetReclaimed(wl *kueueapi.Workload) bool {
	changed := len(wl.Status.ReclaimablePods) > 0
	wl.Status.ReclaimablePods = nil
	return changed
}

// clearQuota gives the quota of an evicted Workload back: its pods are gone.
func clearQuota(wl *kueueapi.Workload, in Input) bool {
	evicted := meta.FindStatusCondition(wl.Status.Conditions, kueueapi.WorkloadEvicted)
	requeued := metav1.ConditionFalse // Kueue requeues it itself, after its backoff or when it is activated
	if evicted.Reason == kueueapi.WorkloadEvictedByPreemption || evicted.Reason == kueueapi.WorkloadEvictedDueToNodeFailures {
		requeued = metav1.ConditionTrue
	}
	reason := evicted.Reason
	if strings.HasPrefix(reason, kueueapi.WorkloadDeactivated) {
		reason = kueueapi.WorkloadDeactivated // without its cause: once the Workload is active again, Kueue requeues it for this reason alone
	}
	set(wl, in, kueueapi.WorkloadRequeued, requeued, reason, evicted.Message)
	set(wl, in, kueueapi.WorkloadQuotaReserved, metav1.ConditionFalse, kueueapi.WorkloadPending, evicted.Message) //nolint:staticcheck // the finer reasons are an alpha feature
	set(wl, in, kueueapi.WorkloadAdmitted, metav1.ConditionFalse, kueueapi.WorkloadAdmittedReasonNoReservation, "The workload has no reservation")
	if isTrue(wl, kueueapi.WorkloadPodsReady) {
		set(wl, in, kueueapi.WorkloadPodsReady, metav1.ConditionFalse, kueueapi.WorkloadWaitForStart, "The MiniCluster has no nodes")
	}
	if evicted.Reason == kueueapi.WorkloadEvictedByAdmissionCheck {
		beginBackoff(wl, in)
	}
	wl.Status.Admission = nil
	forgetReclaimed(wl)
	return true
}

// answer says what comes of the quota of a MiniCluster that waits for nodes. Quota that it cannot
// use now goes back, by the admission check if the queue has ours, and else by an eviction. The count of
// the requeues is left to Kueue, which deactivates a Workload by it whose pods were often not ready.
func answer(wl *kueueapi.Workload, in Input) bool {
	why := unusable(wl, in)
	ours, _ := ownChecks(wl, in.Cluster)
	switch {
	case why == "":
		return false
	case len(ours) > 0:
		return answerChecks(wl, in, kueueapi.CheckStateRetry, why)
	}
	state := ptr.Deref(wl.Status.RequeueState, kueueapi.RequeueState{})
	age := in.Now.Sub(wl.CreationTimestamp.Time)
	state.RequeueAt = ptr.To(metav1.NewTime(in.Now.Add(pause(wl, in, max(retryAfter, age/retryShare)))))
	wl.Status.RequeueState = &state
	for i := range wl.Status.AdmissionChecks { // as Kueue does: others answer the next time, too
		check := &wl.Status.AdmissionChecks[i]
		*check = kueueapi.AdmissionCheckState{Name: check.Name, State: kueueapi.CheckStatePending, LastTransitionTime: metav1.NewTime(in.Now)}
	}
	return set(wl, in, kueueapi.WorkloadEvicted, metav1.ConditionTrue, kueueapi.WorkloadEvictedByPodsReadyTimeout, why)
}

// unusable says why a MiniCluster cannot use its quota for now; "" if it can, or if that is not known
// yet.
func unusable(wl *kueueapi.Workload, in Input) string {
	grant := Read(wl, in)
	ours, others := ownChecks(wl, in.Cluster)
	switch {
	case in.Now.Before(in.NotBefore):
		return "The last attempt was given up"
	case len(wl.Status.ReclaimablePods) > 0:
		return "The last attempt gave quota back"
	case grant.Placeable && in.Offer.Verdict.LostNodes():
		return in.Offer.Message
	case in.Now.Before(graceEnd(wl, in)):
		return ""
	case grant.Quota == nil:
		return grant.Message
	case awaitsTopology(wl) && len(ours) > 0 && len(others) == 0:
		return grant.Message // Kueue assigns domains once all checks are ready, and ours is ready once there are nodes
	case !grant.Placeable:
		return "" // checks of others take their time
	}
	switch verdict := in.Offer.Verdict; verdict {
	case elastic.NoRoom, elastic.QueueFull, elastic.WaitingForTurn, elastic.NotChecked:
		return in.Offer.Message
	default:
		if verdict.Refused() {
			return in.Offer.Message
		}
	}
	return ""
}

// graceEnd is when a MiniCluster has to have nodes, or gives its quota back.
func graceEnd(wl *kueueapi.Workload, in Input) time.Time {
	grace := in.MiniCluster.Spec.Elastic.StartTimeout.Duration
	if ours, _ := ownChecks(wl, in.Cluster); len(ours) > 0 {
		grace = roomGrace
	}
	return usableSince(wl).Add(grace)
}

// usableSince is since when no check of others holds a Workload with quota.
func usableSince(wl *kueueapi.Workload) time.Time {
	since := reservedAt(wl).Time
	if admitted := meta.FindStatusCondition(wl.Status.Conditions, kueueapi.WorkloadAdmitted); admitted != nil && admitted.LastTransitionTime.After(since) {
		since = admitted.LastTransitionTime.Time
	}
	for i := range wl.Status.AdmissionChecks {
		if check := &wl.Status.AdmissionChecks[i]; check.LastTransitionTime.After(since) {
			since = check.LastTransitionTime.Time
		}
	}
	return since
}

// LookAgain is when time alone may change what there is to say; zero if it never does.
func LookAgain(wl *kueueapi.Workload, in Input) time.Time {
	if wl == nil || in.MiniCluster.Status.Admission != nil || in.Finished != "" {
		return time.Time{}
	}
	if !isTrue(wl, kueueapi.WorkloadQuotaReserved) {
		at := restsUntil(wl)
		if requeue := ptr.Deref(wl.Status.RequeueState, kueueapi.RequeueState{}).RequeueAt; requeue != nil && in.Now.Before(requeue.Time) {
			at = requeue.Time
		}
		return after(at, in.Now)
	}
	if isTrue(wl, kueueapi.WorkloadEvicted) {
		return time.Time{}
	}
	return after(graceEnd(wl, in), in.Now)
}

// after is a time that is still to come; zero if it has come.
func after(at, now time.Time) time.Time {
	if now.Before(at) {
		return at
	}
	return time.Time{}
}

// answerChecks sets the state of the admission checks that this project answers.
func answerChecks(wl *kueueapi.Workload, in Input, state kueueapi.CheckState, message string) bool {
	changed := false
	ours, _ := ownChecks(wl, in.Cluster)
	for _, i := range ours {
		check := &wl.Status.AdmissionChecks[i]
		if check.State == state {
			continue
		}
		check.State, check.Message, check.LastTransitionTime, check.RequeueAfterSeconds = state, message, metav1.NewTime(in.Now), nil
		changed = true
	}
	return changed
}

// setReclaimable gives back the quota of brokers that hold no node, and never takes any. Kueue counts
// from the count in the spec, not from the admitted one.
func setReclaimable(wl *kueueapi.Workload, needed map[kueueapi.PodSetReference]int32) bool {
	before := map[kueueapi.PodSetReference]int32{}
	for _, r := range wl.Status.ReclaimablePods {
		before[r.Name] = r.Count
	}
	var reclaimable []kueueapi.ReclaimablePod
	changed := false
	for i := range wl.Spec.PodSets {
		set := &wl.Spec.PodSets[i]
		count := max(set.Count-needed[set.Name], before[set.Name])
		if count > 0 {
			reclaimable = append(reclaimable, kueueapi.ReclaimablePod{Name: set.Name, Count: count})
		}
		changed = changed || count != before[set.Name]
	}
	if changed {
		wl.Status.ReclaimablePods = reclaimable
	}
	return changed
}

// neededBy are the pods that need quota: those of some ranks, and the services pod if it does.
func neededBy(ranks []int, servicesToo bool) map[kueueapi.PodSetReference]int32 {
	needed := map[kueueapi.PodSetReference]int32{}
	if servicesToo {
		needed[services] = 1
	}
	for _, rank := range ranks {
		if rank == 0 {
			needed[lead]++
		} else {
			needed[workers]++
		}
	}
	return needed
}

// Size is the number of brokers for which a Workload holds quota.
func Size(wl *kueueapi.Workload) int {
	if wl == nil || wl.Status.Admission == nil {
		return 0
	}
	size := int32(0)
	for _, set := range wl.Status.Admission.PodSetAssignments {
		if set.Name == services {
			continue
		}
		most := countOf(wl, set.Name)
		for _, r := range wl.Status.ReclaimablePods {
			if r.Name == set.Name {
				most -= r.Count
			}
		}
		size += min(ptr.Deref(set.Count, most), most)
	}
	return int(size)
}

// set sets a condition, and reports whether that changed something.
func set(wl *kueueapi.Workload, in Input, kind string, value metav1.ConditionStatus, reason, message string) bool {
	const longest = 32 * 1024
	return meta.SetStatusCondition(&wl.Status.Conditions, metav1.Condition{
		Type: kind, Status: value, Reason: reason, Message: fmt.Sprintf("%.*s", longest, message),
		ObservedGeneration: wl.Generation, LastTransitionTime: metav1.NewTime(in.Now),
	})
}
