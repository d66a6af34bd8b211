// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"cmp"
	"context"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
)

// track counts pods that have ended (trackJobStatusAndRemoveFinalizers). It notes them in the status, then removes
// their finalizers, and then counts those without a finalizer. The condition that ends the Job comes last, once
// no pod runs any more.
func (s *jobSync) track(context.Context) bool {
	if s.stops {
		return false
	}
	status := &s.job.Status
	counts := [3]int32{status.Active, ptr.Deref(status.Ready, -1), ptr.Deref(status.Terminating, -1)}
	flush := s.conditionsMoved || counts != [3]int32{s.activeNow, s.readyNow, s.terminate}
	status.Active, status.Ready, status.Terminating = s.activeNow, ptr.To(s.readyNow), ptr.To(s.terminate)
	held := map[types.UID]bool{}
	for _, pod := range s.pods {
		held[pod.UID] = tracked(pod)
	}
	flush = countReleased(status, held) || flush
	releasing, noted := s.note()
	flush = noted || flush
	flush = s.noteIndexes() || flush
	flush = s.noteEnd() || flush
	if flush {
		s.todo = append(s.todo, s.writeStatus)
	}
	for _, pod := range releasing {
		s.todo = append(s.todo, func(ctx context.Context) bool { return s.release(ctx, pod, held) })
	}
	s.todo = append(s.todo, func(ctx context.Context) bool {
		flush := countReleased(&s.job.Status, held)
		flush = s.finish() || flush
		return flush && s.writeStatus(ctx)
	})
	return false
}

// release removes the finalizer of a pod that the status counts.
func (s *jobSync) release(ctx context.Context, pod *corev1.Pod, held map[types.UID]bool) bool {
	err := s.c.release(ctx, pod)
	if err == nil || apierrors.IsNotFound(err) {
		held[pod.UID] = false
	} else {
		s.err, s.end = cmp.Or(s.err, err), nil
	}
	return true
}

// countReleased counts the noted pods whose finalizers are gone, and reports whether there were any.
func countReleased(status *batchv1.JobStatus, held map[types.UID]bool) bool {
	uncounted := status.UncountedTerminatedPods
	take := func(pods *[]types.UID) int32 {
		before := len(*pods)
		*pods = slices.DeleteFunc(*pods, func(uid types.UID) bool { return !held[uid] })
		if len(*pods) == 0 {
			*pods = nil
		}
		return int32(before - len(*pods))
	}
	succeeded, failed := take(&uncounted.Succeeded), take(&uncounted.Failed)
	status.Succeeded += succeeded
	status.Failed += failed
	return succeeded+failed > 0
}

// note notes the pods that have ended, and returns those whose finalizers may be removed.
func (s *jobSync) note() (releasing []*corev1.Pod, noted bool) {
	uncounted := s.job.Status.UncountedTerminatedPods
	over := s.end != nil && s.end.Type != batchv1.JobSuccessCriteriaMet
	for _, pod := range byIndex(s.pods) {
		failed := s.isFailed(pod)
		if !tracked(pod) || !s.releases(pod, failed) {
			continue
		}
		releasing = append(releasing, pod)
		isNoted := slices.Contains(uncounted.Failed, pod.UID) || slices.Contains(uncounted.Succeeded, pod.UID)
		switch {
		case isNoted:
		case pod.Status.Phase == corev1.PodSucceeded && indexed(s.job): // its index says it
		case pod.Status.Phase == corev1.PodSucceeded:
			uncounted.Succeeded = append(uncounted.Succeeded, pod.UID)
			noted = true
		case (failed || over) && s.countsAsFailed(pod):
			uncounted.Failed = append(uncounted.Failed, pod.UID)
			noted = true
		}
	}
	return releasing, noted
}

// countsAsFailed reports whether a pod that failed counts against the limit of the Job.
func (s *jobSync) countsAsFailed(pod *corev1.Pod) bool {
	return s.valid(pod) && matchFailurePolicy(s.job, pod).counts
}

// byIndex are pods in the order of their indexes.
func byIndex(pods []*corev1.Pod) []*corev1.Pod {
	return slices.SortedStableFunc(slices.Values(pods), func(a, b *corev1.Pod) int { return indexOf(a) - indexOf(b) })
}

// releases reports whether the finalizer of a pod may be removed.
func (s *jobSync) releases(pod *corev1.Pod, failed bool) bool {
	if s.job.DeletionTimestamp != nil || s.end != nil || pod.Status.Phase == corev1.PodSucceeded {
		return true
	}
	kept := s.keptFailed[indexOf(pod)]
	return failed && (kept == nil || kept.UID != pod.UID)
}

// noteIndexes notes the indexes that have completed or failed.
func (s *jobSync) noteIndexes() bool {
	if !indexed(s.job) {
		return false
	}
	status := &s.job.Status
	before, failedBefore := status.CompletedIndexes, status.FailedIndexes
	status.CompletedIndexes, status.Succeeded = s.done.String(), int32(len(s.done))
	status.FailedIndexes = nil
	if perIndex(s.job) {
		status.FailedIndexes = ptr.To(s.broken.String())
	}
	return before != status.CompletedIndexes || !ptr.Equal(failedBefore, status.FailedIndexes) || len(s.doneBefore) != len(s.done)
}

// noteEnd notes that the Job is to end, before finalizers are removed: by FailureTarget or SuccessCriteriaMet.
func (s *jobSync) noteEnd() (noted bool) {
	if s.end == nil {
		return false
	}
	kind := batchv1.JobFailed
	switch s.end.Type {
	case batchv1.JobFailureTarget:
	case batchv1.JobSuccessCriteriaMet:
		kind = batchv1.JobComplete
	default: // an earlier sync noted it
		return false
	}
	if jobCondition(s.job.Status.Conditions, s.end.Type) == nil {
		s.job.Status.Conditions = append(s.job.Status.Conditions, *s.end)
		noted = true
	}
	s.end = newJobCondition(kind, s.end.Reason, s.end.Message)
	return noted
}

// finish adds the last condition of a Job that ends, if all of its pods are counted and none runs.
func (s *jobSync) finish() bool {
	status := &s.job.Status
	uncounted := status.UncountedTerminatedPods
	if s.end == nil || uncounted != nil && len(uncounted.Succeeded)+len(uncounted.Failed) > 0 || s.terminate > 0 {
		return false
	}
	s.setCondition(s.end.Type, corev1.ConditionTrue, s.end.Reason, s.end.Message)
	if s.end.Type == batchv1.JobComplete {
		status.CompletionTime = ptr.To(s.end.LastTransitionTime)
	}
	return true
}

// writeStatus writes the status. The sync stops if another wrote the Job since it was read.
func (s *jobSync) writeStatus(ctx context.Context) bool {
	if err := s.c.cluster.Client.Status().Update(ctx, s.job); err != nil {
		s.err, s.stops = cmp.Or(err, s.err), true
		return true
	}
	if s.job.Status.UncountedTerminatedPods == nil {
		s.job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	s.state.backoff = s.backoff
	s.state.isFinished = finished(s.job)
	return true
}
