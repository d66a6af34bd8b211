// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

// Brokers are the pods of the JobSet by rank, or those of the admission that a JobSet has left. Of several leads the one
// that is recorded counts, or else the first, and of several pods of another rank the newest that has not ended.
func (v View) Brokers() map[int]*protocol.Pod {
	pods, ranks := map[int]*protocol.Pod{}, Ranks(v.MiniCluster)
	for i := range v.Pods {
		pod := &v.Pods[i]
		if pod.Rank < 0 || pod.Rank >= ranks || !v.current(pod) && !v.bereft(pod) {
			continue
		}
		if pod.Rank == 0 && !v.MiniCluster.Status.Admission.MayBeLead(pod.UID) {
			continue
		}
		replaces := newer
		if pod.Rank == 0 {
			replaces = first
		}
		if replaces(pod, pods[pod.Rank]) {
			pods[pod.Rank] = pod
		}
	}
	return pods
}

// newer reports whether a pod replaces another of its rank: one that has not ended replaces one
// that has, and then a younger one an older one.
func newer(pod, other *protocol.Pod) bool {
	switch {
	case other == nil:
		return true
	case pod.Ended != other.Ended:
		return other.Ended
	}
	return older(other, pod)
}

// first reports whether a pod is the first of some pods.
func first(pod, other *protocol.Pod) bool { return other == nil || older(pod, other) }

// older reports whether a pod was created before another.
func older(pod, other *protocol.Pod) bool {
	return cmp.Or(pod.CreationTimestamp.Compare(other.CreationTimestamp.Time), cmp.Compare(pod.Name, other.Name)) < 0
}

// owns reports whether a pod is of the MiniCluster, and not of an earlier one of its name.
func (v View) owns(pod *protocol.Pod) bool {
	return pod.Labels[v1alpha2.UIDLabel] == string(v.MiniCluster.UID)
}

// current reports whether a pod belongs to the JobSet.
func (v View) current(pod *protocol.Pod) bool {
	return v.JobSet != nil && pod.Labels[jobsetapi.JobSetUIDKey] == string(v.JobSet.UID)
}

// leadIsGone reports whether the lead's pod is gone that may have run: it is recorded, or the API server bound the pod when
// its Job made it, and its Job counts it as failed.
func (v View) leadIsGone(lead *protocol.Pod) bool {
	bound := v.LeadJob != nil && v.JobSet != nil && jobset.Admitted(v.JobSet) != "" && metav1.IsControlledBy(v.LeadJob, v.JobSet)
	return lead == nil && (v.MiniCluster.Status.Admission.Lead != "" || bound && failed(v.LeadJob))
}

// hasSecondLead reports whether the JobSet has a pod of rank 0 in place of a lead that is gone, or one beside the lead that
// may run. A pod with a gate does no harm beside the lead: a Job controller that takes over may make a pod too many, and
// removes the pod again.
func (v View) hasSecondLead(lead *protocol.Pod) bool {
	return slices.ContainsFunc(v.Pods, func(pod protocol.Pod) bool {
		return pod.Rank == 0 && v.current(&pod) && (lead == nil || pod.UID != lead.UID && !pod.Gated)
	})
}

// kept reports whether a pod is not being deleted although its JobSet is: a finalizer may keep the JobSet.
func (v View) kept(pod *protocol.Pod) bool {
	return v.current(pod) && v.JobSet.DeletionTimestamp != nil && pod.DeletionTimestamp == nil
}

// outlives reports whether a pod of the MiniCluster is there although its JobSet was deleted.
func (v View) outlives(pod *protocol.Pod) bool { return v.JobSet == nil && v.owns(pod) }

// orphaned reports whether nobody deletes a pod although its JobSet was deleted: its Job was kept (--cascade=orphan).
func (v View) orphaned(pod *protocol.Pod) bool {
	return v.outlives(pod) && pod.DeletionTimestamp == nil
}

// Orphaned are the UIDs of JobSets whose pods are orphaned, sorted.
func (v View) Orphaned() []string {
	var sets []string
	for i := range v.Pods {
		if set := v.Pods[i].Labels[jobsetapi.JobSetUIDKey]; set != "" && v.orphaned(&v.Pods[i]) {
			sets = append(sets, set)
		}
	}
	slices.Sort(sets)
	return slices.Compact(sets)
}

// readRefusal adds that the container runtime of a rank's node could not start the last pod of the rank there: the node
// will not start the next one either.
func (v View) readRefusal(b *life.Broker, rank int, node string) {
	if b.State != life.Missing && b.State != life.Gated && b.State != life.Failed {
		return
	}
	for i := range v.Pods {
		pod := &v.Pods[i]
		if why := pod.Broker.NotStarted; why != "" && pod.Rank == rank && pod.Node == node && v.current(pod) {
			b.NotStarted, b.TroubleSince = why, pod.Broker.EndedAt
		}
	}
}

// readLoss adds why the last pod of a follower was lost, as long as the pod that replaces it has not started.
func (v View) readLoss(b *life.Broker, rank int) {
	if rank == 0 || !b.Since.IsZero() || b.State != life.Missing && b.State != life.Gated && b.State != life.Coming {
		return
	}
	var last *protocol.Pod
	for i := range v.Pods {
		if pod := &v.Pods[i]; pod.Rank == rank && pod.Ended && v.current(pod) && (last == nil || older(last, pod)) {
			last = pod
		}
	}
	if last != nil {
		b.Evicted, b.OutOfMemory = last.Broker.Evicted, last.Broker.OutOfMemory
	}
}

// bereft reports whether the JobSet of a pod was deleted during the admission by which the pod was placed or made.
func (v View) bereft(pod *protocol.Pod) bool {
	a := v.MiniCluster.Status.Admission
	return v.outlives(pod) && a != nil && (pod.UID == a.Lead || !pod.Broker.Placed.Before(a.Time.Time) || !pod.CreationTimestamp.Time.Before(a.Time.Time))
}

// leadHasEnded reports whether the lead's pod has ended.
func leadHasEnded(v View) bool {
	lead := v.Brokers()[0]
	return lead != nil && lead.Ended
}

// leadSucceeded reports whether the lead's pod shows that its broker ended with exit code 0, or, if the pod is not there, the
// lead's Job says so.
func (v View) leadSucceeded() bool {
	if lead := v.Brokers()[0]; lead != nil {
		return lead.Broker.State == life.Succeeded
	}
	return v.LeadJob != nil && metav1.IsControlledBy(v.LeadJob, v.JobSet) && succeeded(v.LeadJob)
}

// completed are the completion indexes of followers whose pods ended with exit code 0 and may be gone: of rank 1, 0.
func (v View) completed() idset.Set {
	if v.WorkersJob == nil || !metav1.IsControlledBy(v.WorkersJob, v.JobSet) {
		return idset.Set{}
	}
	indexes, _ := idset.Parse(v.WorkersJob.Status.CompletedIndexes) // unreadable: none
	return indexes
}

func succeeded(job *batchv1.Job) bool {
	uncounted := job.Status.UncountedTerminatedPods
	return job.Status.Succeeded > 0 || uncounted != nil && len(uncounted.Succeeded) > 0
}

func failed(job *batchv1.Job) bool {
	uncounted := job.Status.UncountedTerminatedPods
	return job.Status.Failed > 0 || uncounted != nil && len(uncounted.Failed) > 0
}

// IsBehind reports whether more will be known of the lead whose pod is not there: its Job, as it is now, says more than
// LeadJob, or does not know yet that the pod is gone.
func (v View) IsBehind(now *batchv1.Job) bool {
	return now.UID != v.LeadJob.UID || succeeded(now) != succeeded(v.LeadJob) || now.Status.Active > 0 && !succeeded(now)
}
