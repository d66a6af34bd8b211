// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"regexp"
	"sort"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"
)

const (
	// surplusGivenBack is the reason of the conditions Evicted and Preempted of a Workload that
	// keeps a part of its quota.
	surplusGivenBack = "SurplusGivenBack"
	// requestsGrace is how long after a preemption Kueue may take to write what the Workload
	// requests for which it preempted.
	requestsGrace = 10 * time.Second
)

// Yield is what a preempted MiniCluster may keep.
type Yield struct {
	// Size is the number of brokers whose quota the preempting Workload does not need; 0 if it
	// needs all, or if that is not known.
	Size int
	// For says which Workload preempts: its namespace and name, if it is in the same namespace.
	For string
	// Undecided is true for a moment in which Size is not known yet.
	Undecided bool
}

// preemptorUID finds the UID of the preempting Workload in Kueue's message.
var preemptorUID = regexp.MustCompile(`^Preempted to accommodate a workload \(UID: ([0-9A-Za-z-]+)[,)]`)

// Preemptor is the UID of the Workload for which Kueue preempts a Workload that has its quota; "" if
// it does not, or if the message does not say that.
func Preemptor(wl *kueueapi.Workload) types.UID {
	if wl == nil || wl.DeletionTimestamp != nil || !isTrue(wl, kueueapi.WorkloadQuotaReserved) {
		return ""
	}
	evicted := meta.FindStatusCondition(wl.Status.Conditions, kueueapi.WorkloadEvicted)
	if evicted == nil || evicted.Status != metav1.ConditionTrue || evicted.Reason != kueueapi.WorkloadEvictedByPreemption {
		return ""
	}
	if found := preemptorUID.FindStringSubmatch(evicted.Message); found != nil {
		return types.UID(found[1])
	}
	return ""
}

// Keep is what a preempted Workload may keep if it gives back no less than its preemptor requests. A
// preemptor that has quota, or does not wait any more (nil), needs nothing. Checks of others would
// have to answer again, so a Workload with such checks keeps nothing. A Workload with a topology
// assignment gives all or nothing: Kueue counts its domains as used until all of its quota is back.
func Keep(wl, preemptor *kueueapi.Workload, in Cluster, now time.Time) Yield {
	if _, others := ownChecks(wl, in); len(others) > 0 {
		return Yield{}
	}
	held := Size(wl)
	if preemptor == nil {
		return Yield{Size: held}
	}
	yield := Yield{For: "a Workload of another namespace"}
	if preemptor.Namespace == wl.Namespace {
		yield.For = preemptor.Namespace + "/" + preemptor.Name
	}
	switch {
	case preemptor.DeletionTimestamp != nil, isTrue(preemptor, kueueapi.WorkloadQuotaReserved),
		isTrue(preemptor, kueueapi.WorkloadFinished), !ptr.Deref(preemptor.Spec.Active, true):
		yield.Size = held
	case hasTopology(wl):
	case len(preemptor.Status.ResourceRequests) == 0:
		evicted := meta.FindStatusCondition(wl.Status.Conditions, kueueapi.WorkloadEvicted)
		yield.Undecided = now.Before(evicted.LastTransitionTime.Add(requestsGrace))
	default:
		yield.Size = max(held-brokersWith(wl, requestsOf(preemptor), held), 0)
	}
	return yield
}

// requestsOf is what a Workload requests that Kueue has looked at.
func requestsOf(wl *kueueapi.Workload) corev1.ResourceList {
	sum := corev1.ResourceList{}
	for _, set := range wl.Status.ResourceRequests {
		for name, amount := range set.Resources {
			total := sum[name]
			total.Add(amount)
			sum[name] = total
		}
	}
	return sum
}

// brokersWith is the smallest number of workers of a Workload whose quota is at least some amounts;
// most if there is none below.
func brokersWith(wl *kueueapi.Workload, amounts corev1.ResourceList, most int) int {
	for _, set := range wl.Status.Admission.PodSetAssignments {
		if set.Name != workers {
			continue
		}
		count := int64(ptr.Deref(set.Count, countOf(wl, set.Name)))
		return sort.Search(most, func(n int) bool {
			for name, amount := range amounts {
				all, need := set.ResourceUsage[name].DeepCopy(), amount.DeepCopy()
				all.Mul(int64(n))
				need.Mul(count)
				if all.Cmp(need) < 0 {
					return false
				}
			}
			return true
		})
	}
	return most
}

// goOn ends the eviction of a Workload that keeps a part of its quota, once its surplus is given back.
// If that is not enough, Kueue preempts the Workload again.
func goOn(wl *kueueapi.Workload, in Input) bool {
	if in.Keep == 0 || len(in.Ranks) > in.Keep+Grown(in.MiniCluster, in.Growth, in.Cluster) {
		return false
	}
	const message = "The surplus is given back, and the rest of the quota is kept"
	setReclaimable(wl, neededBy(in.Ranks[:min(len(in.Ranks), in.Keep)], in.Services))
	answerChecks(wl, in, kueueapi.CheckStateReady, "The MiniCluster has nodes")
	set(wl, in, kueueapi.WorkloadPreempted, metav1.ConditionFalse, surplusGivenBack, message)
	return set(wl, in, kueueapi.WorkloadEvicted, metav1.ConditionFalse, surplusGivenBack, message)
}
