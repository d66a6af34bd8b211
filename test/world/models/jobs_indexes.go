// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// indexes is a set of completion indexes.
type indexes map[int]bool

// parseIndexes reads indexes of a Job's status that are less than a limit.
func parseIndexes(text string, limit int) indexes {
	set := indexes{}
	for part := range strings.SplitSeq(text, ",") {
		from, to, isRange := strings.Cut(part, "-")
		first, err := strconv.Atoi(from)
		if err != nil {
			continue
		}
		last := first
		if isRange {
			last, _ = strconv.Atoi(to)
		}
		for i := first; i <= last && i < limit; i++ {
			set[i] = true
		}
	}
	return set
}

// String is the set as the status of a Job has it: "0,2-4". Two neighbors are no range.
func (s indexes) String() string {
	var parts []string
	sorted := slices.Sorted(maps.Keys(s))
	for i := 0; i < len(sorted); {
		j := i
		for j+1 < len(sorted) && sorted[j+1] == sorted[j]+1 {
			j++
		}
		first, last := strconv.Itoa(sorted[i]), strconv.Itoa(sorted[j])
		switch j - i {
		case 0:
			parts = append(parts, first)
		case 1:
			parts = append(parts, first, last)
		default:
			parts = append(parts, first+"-"+last)
		}
		i = j + 1
	}
	return strings.Join(parts, ",")
}

// indexOf is the completion index of a pod; -1 if it has none.
func indexOf(pod *corev1.Pod) int {
	index, err := strconv.Atoi(pod.Annotations[batchv1.JobCompletionIndexAnnotation])
	if err != nil || index < 0 {
		return -1
	}
	return index
}

// countIndexes counts the indexes of an Indexed Job (pkg/controller/job/indexed_job_utils.go).
func (s *jobSync) countIndexes() {
	limit, status := int(*s.job.Spec.Completions), &s.job.Status
	s.doneBefore, s.done = parseIndexes(status.CompletedIndexes, limit), parseIndexes(status.CompletedIndexes, limit)
	for _, pod := range s.pods {
		if pod.Status.Phase == corev1.PodSucceeded && tracked(pod) && s.valid(pod) {
			s.done[indexOf(pod)] = true
		}
	}
	s.succeeded = int32(len(s.done))
	if !perIndex(s.job) {
		return
	}
	s.broken = indexes{}
	if status.FailedIndexes != nil {
		s.broken = parseIndexes(*status.FailedIndexes, limit)
	}
	for _, pod := range s.pods {
		if tracked(pod) && s.valid(pod) && s.failsIndex(pod) {
			s.broken[indexOf(pod)] = true
		}
	}
	s.keepFailed()
}

// failsIndex reports whether a pod was the last that its index may lose.
func (s *jobSync) failsIndex(pod *corev1.Pod) bool {
	if !s.isFailed(pod) {
		return false
	}
	match := matchFailurePolicy(s.job, pod)
	if match.action == batchv1.PodFailurePolicyActionFailIndex {
		return true
	}
	return match.counts && failureCount(pod, batchv1.JobIndexFailureCountAnnotation) >= int(*s.job.Spec.BackoffLimitPerIndex)
}

// keepFailed finds the failed pods that keep their finalizers until they are replaced: the replacements have their
// counts.
func (s *jobSync) keepFailed() {
	s.keptFailed = map[int]*corev1.Pod{}
	runs := indexes{}
	for _, pod := range s.active {
		runs[indexOf(pod)] = true
	}
	for _, pod := range s.pods {
		index := indexOf(pod)
		if !tracked(pod) || !s.valid(pod) || !s.isFailed(pod) || s.done[index] || s.broken[index] || runs[index] {
			continue
		}
		last := s.keptFailed[index]
		if last == nil || allFailures(last) <= allFailures(pod) && !endOf(pod).Before(endOf(last)) {
			s.keptFailed[index] = pod
		}
	}
}

// pendingIndexes are the first indexes that have no pod and need one.
func (s *jobSync) pendingIndexes(count int) []int {
	taken := indexes{}
	maps.Copy(taken, s.done)
	maps.Copy(taken, s.broken)
	for _, pod := range s.pods {
		if !podEnded(pod) && (pod.DeletionTimestamp == nil || replacesFailed(s.job)) {
			taken[indexOf(pod)] = true
		}
	}
	var pending []int
	for i := 0; i < int(*s.job.Spec.Completions) && len(pending) < count; i++ {
		if !taken[i] {
			pending = append(pending, i)
		}
	}
	return pending
}

// dueIndexes are those of indexes whose pods may be made now. If there are none, it returns when there are.
func (s *jobSync) dueIndexes(pending []int) (due []int, wait time.Duration) {
	for _, index := range pending {
		left := time.Duration(0)
		if failed := s.keptFailed[index]; failed != nil {
			left = pauseAfter(allFailures(failed)+1, endOf(failed))
		}
		if left == 0 {
			due = append(due, index)
		} else if wait == 0 || left < wait {
			wait = left
		}
	}
	if len(due) > 0 {
		return due, 0
	}
	return nil, wait
}

// failuresAfter are the failures of an index that the next pod is told, and those that the failure policy ignored.
func failuresAfter(job *batchv1.Job, failed *corev1.Pod) (count, ignored int) {
	if failed == nil {
		return 0, 0
	}
	count = failureCount(failed, batchv1.JobIndexFailureCountAnnotation)
	ignored = failureCount(failed, batchv1.JobIndexIgnoredFailureCountAnnotation)
	if matchFailurePolicy(job, failed).counts {
		return count + 1, ignored
	}
	return count, ignored + 1
}

func allFailures(pod *corev1.Pod) int {
	return failureCount(pod, batchv1.JobIndexFailureCountAnnotation) + failureCount(pod, batchv1.JobIndexIgnoredFailureCountAnnotation)
}

func failureCount(pod *corev1.Pod, annotation string) int {
	count, err := strconv.ParseInt(pod.Annotations[annotation], 10, 32)
	if err != nil || count < 0 {
		return 0
	}
	return int(count)
}
