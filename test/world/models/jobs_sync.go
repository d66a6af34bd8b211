// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"context"
	"fmt"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// jobSync is one pass for a Job (syncJob in pkg/controller/job/job_controller.go): it reads, decides, makes or deletes
// pods, and then counts those that have ended (jobs_track.go).
type jobSync struct {
	c     *JobController
	state *jobState
	job   *batchv1.Job // a copy, whose status is the one to write
	pods  []*corev1.Pod
	// active pods have neither ended nor been deleted; terminating ones were deleted and run on.
	active                         []*corev1.Pod
	activeNow, readyNow, terminate int32

	succeeded, failed        int32
	doneBefore, done, broken indexes // completed indexes before and now, and failed ones
	keptFailed               map[int]*corev1.Pod
	backoff                  jobBackoff
	end                      *batchv1.JobCondition // why the Job ends; nil if it goes on
	conditionsMoved          bool
	stops                    bool                             // the rest of todo is left out after an error
	todo                     []func(ctx context.Context) bool // false if the step made no write
	err                      error
}

// begin begins a sync: what has to be written goes to todo.
func (c *JobController) begin(state *jobState) *jobSync {
	if finished(state.job) || state.isFinished {
		state.backoff = jobBackoff{}
		return nil
	}
	s := &jobSync{c: c, state: state, job: state.job.DeepCopy(), pods: slices.Clone(state.pods)}
	if s.job.Status.UncountedTerminatedPods == nil {
		s.job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	}
	s.count()
	now := metav1.NewTime(time.Now())
	if s.job.Status.StartTime == nil && !suspended(s.job) {
		s.job.Status.StartTime = &now
	}
	s.decide()
	switch {
	case s.end != nil:
		s.deleteActive()
	case s.job.DeletionTimestamp == nil:
		s.manage()
		s.todo = append(s.todo, s.complete)
	default:
		s.todo = append(s.todo, s.complete)
	}
	s.todo = append(s.todo, s.track)
	return s
}

// count counts pods.
func (s *jobSync) count() {
	for _, pod := range s.pods {
		switch {
		case podEnded(pod):
		case pod.DeletionTimestamp != nil:
			s.terminate++
		default:
			s.active = append(s.active, pod)
			if podReady(pod) {
				s.readyNow++
			}
		}
	}
	uncounted := s.job.Status.UncountedTerminatedPods
	succeeded, failed := s.ended()
	s.activeNow = int32(len(s.active))
	s.succeeded = s.job.Status.Succeeded + int32(len(succeeded)+len(uncounted.Succeeded))
	s.failed = s.job.Status.Failed + int32(len(uncounted.Failed))
	for _, pod := range failed {
		if matchFailurePolicy(s.job, pod).counts {
			s.failed++
		}
	}
	s.backoff = s.state.backoff.after(succeeded, failed)
	if indexed(s.job) {
		s.countIndexes()
	}
}

// ended are the pods that have ended, and that the status does not count yet.
func (s *jobSync) ended() (succeeded, failed []*corev1.Pod) {
	uncounted := s.job.Status.UncountedTerminatedPods
	for _, pod := range s.pods {
		if !tracked(pod) || !s.valid(pod) {
			continue
		}
		if pod.Status.Phase == corev1.PodSucceeded && !slices.Contains(uncounted.Succeeded, pod.UID) {
			succeeded = append(succeeded, pod)
		}
		if s.isFailed(pod) && !slices.Contains(uncounted.Failed, pod.UID) {
			failed = append(failed, pod)
		}
	}
	return succeeded, failed
}

// valid reports whether a pod counts: in an Indexed Job, a pod with an index of the Job.
func (s *jobSync) valid(pod *corev1.Pod) bool {
	if !indexed(s.job) {
		return true
	}
	index := indexOf(pod)
	return index >= 0 && index < int(*s.job.Spec.Completions)
}

// isFailed reports whether a pod counts as failed: a pod that was deleted does at once, unless only pods that have
// failed are replaced.
func (s *jobSync) isFailed(pod *corev1.Pod) bool {
	if pod.Status.Phase == corev1.PodFailed {
		return true
	}
	return !replacesFailed(s.job) && pod.DeletionTimestamp != nil && pod.Status.Phase != corev1.PodSucceeded
}

// decide finds out whether the Job ends: first what an earlier sync decided, then failures, then success.
func (s *jobSync) decide() {
	conditions := s.job.Status.Conditions
	switch met, target := jobCondition(conditions, batchv1.JobSuccessCriteriaMet), jobCondition(conditions, batchv1.JobFailureTarget); {
	case met != nil && met.Status == corev1.ConditionTrue:
		s.end = met.DeepCopy()
		return
	case target != nil && target.Status == corev1.ConditionTrue:
		s.end = newJobCondition(batchv1.JobFailed, target.Reason, target.Message)
		return
	}
	if message := s.failsByPolicy(); message != "" {
		s.end = newJobCondition(batchv1.JobFailureTarget, batchv1.JobReasonPodFailurePolicy, message)
		return
	}
	if reason, message := s.exceeds(); reason != "" {
		s.end = newJobCondition(batchv1.JobFailureTarget, reason, message)
	}
}

// exceeds says which limit the Job exceeds; "" if it exceeds none.
func (s *jobSync) exceeds() (reason, message string) {
	spec := &s.job.Spec
	switch {
	case s.failed > *spec.BackoffLimit || s.restartedTooOften():
		return batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit"
	case s.pastDeadline():
		return batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline"
	case !perIndex(s.job):
	case spec.MaxFailedIndexes != nil && len(s.broken) > int(*spec.MaxFailedIndexes):
		return batchv1.JobReasonMaxFailedIndexesExceeded, "Job has exceeded the specified maximal number of failed indexes"
	case len(s.broken) > 0 && len(s.broken)+len(s.done) >= int(*spec.Completions):
		return batchv1.JobReasonFailedIndexes, "Job has failed indexes"
	}
	return "", ""
}

// pastDeadline reports whether the Job is over its time, and otherwise has it looked at then.
func (s *jobSync) pastDeadline() bool {
	seconds := s.job.Spec.ActiveDeadlineSeconds
	if seconds == nil || suspended(s.job) {
		return false
	}
	over := s.job.Status.StartTime.Add(time.Duration(*seconds) * time.Second)
	if !time.Now().Before(over) {
		return true
	}
	s.state.due = soonest(s.state.due, over)
	return false
}

// restartedTooOften reports whether containers were restarted too often, for pods that kubelets restart.
func (s *jobSync) restartedTooOften() bool {
	if s.job.Spec.Template.Spec.RestartPolicy != corev1.RestartPolicyOnFailure {
		return false
	}
	restarts := int32(0)
	for _, pod := range s.pods {
		if pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodPending {
			for _, status := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
				restarts += status.RestartCount
			}
		}
	}
	limit := *s.job.Spec.BackoffLimit
	return restarts > 0 && restarts >= limit
}

// failsByPolicy is why the failure policy ends the Job; "" if it does not.
func (s *jobSync) failsByPolicy() string {
	if s.job.Spec.PodFailurePolicy == nil {
		return ""
	}
	for _, pod := range s.pods {
		if s.isFailed(pod) {
			if match := matchFailurePolicy(s.job, pod); match.message != "" {
				return match.message
			}
		}
	}
	return ""
}

// deleteActive deletes the pods of a Job that ends. Their finalizers stay until they are counted.
func (s *jobSync) deleteActive() {
	for _, pod := range s.active {
		s.todo = append(s.todo, func(ctx context.Context) bool {
			if err := s.deletePod(ctx, pod); err != nil {
				s.err, s.end = err, nil
				return true
			}
			s.removed(pod)
			return true
		})
	}
}

// removed counts a pod that was deleted.
func (s *jobSync) removed(pod *corev1.Pod) {
	s.activeNow--
	s.terminate++
	if podReady(pod) {
		s.readyNow--
	}
}

// complete finds out, after pods were made or deleted, whether the Job is complete, and sets the condition Suspended.
func (s *jobSync) complete(context.Context) bool {
	complete := s.activeNow == 0 && s.succeeded > 0
	if completions := s.job.Spec.Completions; completions != nil {
		complete = s.activeNow == 0 && s.succeeded >= *completions
	}
	if complete {
		s.end = newJobCondition(batchv1.JobSuccessCriteriaMet, batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods")
		return false
	}
	if s.job.DeletionTimestamp != nil {
		return false
	}
	if suspended(s.job) {
		if s.setCondition(batchv1.JobSuspended, corev1.ConditionTrue, "JobSuspended", "Job suspended") {
			s.conditionsMoved, s.job.Status.StartTime = true, nil
		}
	} else if s.setCondition(batchv1.JobSuspended, corev1.ConditionFalse, "JobResumed", "Job resumed") {
		s.conditionsMoved = true
		s.job.Status.StartTime = ptr.To(metav1.NewTime(time.Now()))
	}
	return false
}

// setCondition sets a condition, and reports whether it changed. A condition that is not there is not set to false.
func (s *jobSync) setCondition(kind batchv1.JobConditionType, status corev1.ConditionStatus, reason, message string) bool {
	condition := newJobCondition(kind, reason, message)
	condition.Status = status
	has := jobCondition(s.job.Status.Conditions, kind)
	switch {
	case has == nil && status == corev1.ConditionFalse:
		return false
	case has == nil:
		s.job.Status.Conditions = append(s.job.Status.Conditions, *condition)
	case has.Status == status && has.Reason == reason && has.Message == message:
		return false
	default:
		*has = *condition
	}
	return true
}

func newJobCondition(kind batchv1.JobConditionType, reason, message string) *batchv1.JobCondition {
	now := metav1.NewTime(time.Now())
	return &batchv1.JobCondition{
		Type: kind, Status: corev1.ConditionTrue, LastProbeTime: now, LastTransitionTime: now, Reason: reason, Message: message,
	}
}

func jobCondition(conditions []batchv1.JobCondition, kind batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range conditions {
		if conditions[i].Type == kind {
			return &conditions[i]
		}
	}
	return nil
}

func suspended(job *batchv1.Job) bool { return ptr.Deref(job.Spec.Suspend, false) }

func indexed(job *batchv1.Job) bool {
	return ptr.Deref(job.Spec.CompletionMode, "") == batchv1.IndexedCompletion
}

func perIndex(job *batchv1.Job) bool { return job.Spec.BackoffLimitPerIndex != nil }

// replacesFailed reports whether pods are replaced only once they have failed, and not when they were deleted.
func replacesFailed(job *batchv1.Job) bool {
	return ptr.Deref(job.Spec.PodReplacementPolicy, "") == batchv1.Failed || job.Spec.PodFailurePolicy != nil
}

func podEnded(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func podReady(pod *corev1.Pod) bool {
	return podCondition(pod, corev1.PodReady).Status == corev1.ConditionTrue
}

// podCondition is a condition of a pod; without a status if the pod does not have it.
func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == kind {
			return condition
		}
	}
	return corev1.PodCondition{}
}

func (s *jobSync) String() string { return fmt.Sprintf("sync of Job %s", s.state.name) }
