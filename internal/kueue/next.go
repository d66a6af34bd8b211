// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
)

// Input is what there is to say to Kueue about a MiniCluster.
type Input struct {
	// MiniCluster has its defaults.
	MiniCluster *v1alpha2.MiniCluster
	// Uses is true if the MiniCluster gets its quota from Kueue.
	Uses bool
	// Want is the Workload as it would be made now; nil if the MiniCluster was not checked.
	Want *kueueapi.Workload
	// Rejected is true if the spec cannot be carried out, or not yet.
	Rejected bool
	// Offer is the scheduler's answer to a MiniCluster that waits for nodes.
	Offer elastic.Offer
	// Ranks are the ranks that hold a node, or have a pod on one, rising.
	Ranks []int
	// Services is true if the services pod needs quota.
	Services bool
	// Finished says how the MiniCluster ended: Succeeded or Failed; "" before. Message says why.
	Finished, Message string
	// Position is the place of the Workload in its queues.
	Position Position
	// NotBefore is when the next attempt may begin, after one that was given up.
	NotBefore time.Time
	// Keep is the number of brokers for which a preempted Workload keeps its quota; 0 if it is not
	// preempted, or keeps nothing.
	Keep int
	// Growth are the further Workloads, the oldest first. Ask is for how many more brokers to ask
	// Kueue; 0 for none. Pod is a pod of the MiniCluster after admission by the API server.
	Growth  []*kueueapi.Workload
	Ask     int
	Pod     *corev1.Pod
	Cluster Cluster
	Now     time.Time
}

// Write is what to do with a Workload.
type Write int

// The writes.
const (
	Nothing Write = iota
	Create
	Delete
	// Patch changes the metadata or the spec, and PatchStatus the status.
	Patch
	PatchStatus
)

// Next returns the next write to the Workload of a MiniCluster, and the Workload as it is to be. The
// Workload is nil if there is none. Writes follow from what is recorded and observed, so that each
// is repeated until its effect is seen.
func Next(wl *kueueapi.Workload, in Input) (Write, *kueueapi.Workload) {
	waits := in.MiniCluster.Status.Admission == nil && in.Finished == ""
	switch {
	case wl == nil && in.Want != nil && waits && !in.MiniCluster.IsSuspended() && in.MiniCluster.DeletionTimestamp == nil:
		return Create, in.Want
	case wl == nil:
		return Nothing, nil
	}
	return in.change(wl, waits)
}

// change is Next for a Workload that exists. waits is true if its MiniCluster waits for nodes.
func (in Input) change(wl *kueueapi.Workload, waits bool) (Write, *kueueapi.Workload) {
	next := wl.DeepCopy()
	free := in.unused() || in.nothingRuns() && (waits || in.Finished != "")
	over := isTrue(wl, kueueapi.WorkloadFinished)
	switch {
	case wl.DeletionTimestamp != nil, over && in.Finished != "":
		if free && DropFinalizer(next) {
			return Patch, next
		}
	case over, in.unused(), waits && outdated(wl, in):
		return Delete, wl // its finalizer keeps the quota until the first case
	case in.Finished == "" && setSpec(next, in, free):
		return Patch, next
	case setStatus(next, in, waits, free):
		return PatchStatus, next
	}
	return Nothing, wl
}

// nothingRuns reports whether no pod of a MiniCluster needs quota.
func (in Input) nothingRuns() bool { return len(in.Ranks) == 0 && !in.Services }

// unused reports whether a MiniCluster has nodes by a queue of this project.
func (in Input) unused() bool {
	admission := in.MiniCluster.Status.Admission
	return admission != nil && admission.Quota == nil
}

// DropFinalizer lets the Workload go, and with it the quota.
func DropFinalizer(wl *kueueapi.Workload) bool {
	before := len(wl.Finalizers)
	wl.Finalizers = slices.DeleteFunc(wl.Finalizers, func(name string) bool { return name == kueueapi.ResourceInUseFinalizerName })
	return len(wl.Finalizers) < before
}

// outdated reports whether a MiniCluster that waits asks for something else by now, or for nothing.
// The queue and the time limit of a Workload with quota cannot be changed. A limit that is too long
// does no harm: the MiniCluster ends before.
func outdated(wl *kueueapi.Workload, in Input) bool {
	if !in.Uses || in.Rejected || in.Want == nil {
		return !in.Uses || in.Rejected
	}
	other := in.Want.Spec.QueueName != wl.Spec.QueueName || endsTooEarly(wl, in.Want)
	stays := reserved(wl) || wl.Annotations[neverFitsAnnotation] != "" // it asks anew
	return in.Want.Annotations[shapeAnnotation] != wl.Annotations[shapeAnnotation] || stays && other
}

// endsTooEarly reports whether Kueue would end a Workload before its MiniCluster has to end.
func endsTooEarly(wl, want *kueueapi.Workload) bool {
	now, wanted := wl.Spec.MaximumExecutionTimeSeconds, want.Spec.MaximumExecutionTimeSeconds
	return now != nil && (wanted == nil || *wanted > *now)
}

// deactivate takes the quota of a Workload, and lets it ask for none.
func deactivate(wl *kueueapi.Workload, annotation, why string) {
	wl.Spec.Active = ptr.To(false)
	metav1.SetMetaDataAnnotation(&wl.ObjectMeta, annotation, why)
}

const (
	// restAfter is how often in a row a Workload gives quota back that the empty cluster could not use, before it rests: a manager that
	// has just started does not know the nodes that are away, and Kueue may grant another domain.
	restAfter = 5
	// restFor is how long a Workload is inactive whose pods the empty cluster could not hold. Nodes come and go, and each try
	// takes quota, perhaps from others.
	restFor = time.Hour
)

// restsUntil is when a Workload is to be active again that was deactivated because the empty cluster could not hold its pods;
// zero if there is none, or if Kueue has not taken the quota back yet.
func restsUntil(wl *kueueapi.Workload) time.Time {
	if wl.Annotations[neverFitsAnnotation] == "" || ptr.Deref(wl.Spec.Active, true) || reserved(wl) || !isTrue(wl, kueueapi.WorkloadEvicted) {
		return time.Time{}
	}
	return meta.FindStatusCondition(wl.Status.Conditions, kueueapi.WorkloadEvicted).LastTransitionTime.Add(restFor)
}

// countTries remembers from which try on the empty cluster could never use the quota of a Workload.
func countTries(wl *kueueapi.Workload, in Input) bool {
	ours, _ := ownChecks(wl, in.Cluster)
	if len(ours) == 0 || !isTrue(wl, kueueapi.WorkloadQuotaReserved) || in.Offer.Verdict == "" || in.Offer.Verdict == elastic.WaitingForQuota {
		return false
	}
	text, counts := wl.Annotations[triesAnnotation]
	before, err := strconv.Atoi(text)
	tries := int(triesOf(wl, in))
	switch never := in.Offer.Verdict == elastic.NeverFits; {
	case never && (err != nil || tries < before): // Kueue may begin to count anew
		metav1.SetMetaDataAnnotation(&wl.ObjectMeta, triesAnnotation, strconv.Itoa(tries))
	case !never && counts:
		delete(wl.Annotations, triesAnnotation)
	default:
		return false
	}
	return true
}

// neverFits reports whether a Workload is to rest: it has had quota for a while that the empty cluster could not use. Without
// this project's admission check, the while is the time to start, and no try is cheap; with it, the Workload has tried often.
func neverFits(wl *kueueapi.Workload, in Input) bool {
	if in.Offer.Verdict != elastic.NeverFits || !isTrue(wl, kueueapi.WorkloadQuotaReserved) || in.Now.Before(graceEnd(wl, in)) {
		return false
	}
	ours, _ := ownChecks(wl, in.Cluster)
	before, err := strconv.Atoi(wl.Annotations[triesAnnotation])
	return len(ours) == 0 || err == nil && int(triesOf(wl, in)) >= before+restAfter
}

// setActive deactivates a Workload that is not to ask for quota, and activates it again. A Workload that somebody else has
// deactivated stays so until its MiniCluster is suspended and resumed. free is true if no pod needs the quota.
func setActive(wl *kueueapi.Workload, in Input, free bool) bool {
	_, suspended := wl.Annotations[suspendedAnnotation]
	active, until := ptr.Deref(wl.Spec.Active, true), restsUntil(wl)
	switch suspend := in.MiniCluster.IsSuspended(); {
	case suspend && !suspended && free:
		deactivate(wl, suspendedAnnotation, "true")
		delete(wl.Annotations, neverFitsAnnotation)
	case !suspend && (suspended || !until.IsZero() && !in.Now.Before(until)):
		wl.Spec.Active = ptr.To(true)
		delete(wl.Annotations, suspendedAnnotation)
		delete(wl.Annotations, neverFitsAnnotation)
	case active && wl.Annotations[neverFitsAnnotation] != "": // somebody has activated it
		delete(wl.Annotations, neverFitsAnnotation)
	case active && free && neverFits(wl, in):
		deactivate(wl, neverFitsAnnotation, in.Offer.Message)
	default:
		return false
	}
	return true
}

// setSpec makes a Workload follow what can be changed in it.
func setSpec(wl *kueueapi.Workload, in Input, free bool) bool {
	if setActive(wl, in, free) || countTries(wl, in) {
		return true
	}
	if in.Want == nil || isTrue(wl, kueueapi.WorkloadQuotaReserved) {
		return false // Kueue allows no change
	}
	want, now := &in.Want.Spec, &wl.Spec
	same := now.QueueName == want.QueueName && ptr.Equal(now.Priority, want.Priority) && ptr.Equal(now.PriorityClassRef, want.PriorityClassRef) &&
		ptr.Equal(now.MaximumExecutionTimeSeconds, want.MaximumExecutionTimeSeconds)
	now.QueueName, now.Priority, now.PriorityClassRef = want.QueueName, want.Priority, want.PriorityClassRef
	now.MaximumExecutionTimeSeconds = want.MaximumExecutionTimeSeconds
	return !same
}
