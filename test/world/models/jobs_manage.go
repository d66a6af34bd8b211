// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// manage makes the pods that are missing, or deletes those that are too many, but never both in one sync (manageJob).
func (s *jobSync) manage() {
	if suspended(s.job) {
		s.deleteSurplus(len(s.active))
		return
	}
	spec := &s.job.Spec
	want := *spec.Parallelism
	switch {
	case spec.Completions != nil:
		want = max(0, min(want, *spec.Completions-s.succeeded))
	case s.succeeded > 0:
		want = s.activeNow
	}
	if s.deleteSurplus(max(0, int(s.activeNow-want))) {
		return
	}
	missing := want - s.activeNow
	if replacesFailed(s.job) {
		missing -= s.terminate
	}
	if missing <= 0 {
		return
	}
	if !perIndex(s.job) {
		if wait := s.backoff.remaining(); wait > 0 {
			s.later(wait)
			return
		}
	}
	missing = min(missing, jobPodsAtOnce)
	if !indexed(s.job) {
		s.create(slices.Repeat([]int{-1}, int(missing)))
		return
	}
	pending := s.pendingIndexes(int(missing))
	if perIndex(s.job) {
		var wait time.Duration
		if pending, wait = s.dueIndexes(pending); wait > 0 {
			s.later(wait)
			return
		}
	}
	s.create(pending)
}

// later has the Job looked at again.
func (s *jobSync) later(wait time.Duration) {
	s.state.due = soonest(s.state.due, time.Now().Add(max(wait, jobBatchPeriod)))
}

// deleteSurplus deletes at least a number of pods, and those of an Indexed Job whose index another pod has, too.
func (s *jobSync) deleteSurplus(least int) bool {
	left := slices.Clone(s.active)
	var surplus []*corev1.Pod
	if indexed(s.job) {
		surplus, left = s.duplicates(left)
	}
	if more := least - len(surplus); more > 0 {
		slices.SortStableFunc(left, lessWorth)
		surplus = append(surplus, left[:more]...)
	}
	surplus = surplus[:min(len(surplus), jobPodsAtOnce)]
	for _, pod := range surplus {
		released := !tracked(pod)
		if !released {
			s.todo = append(s.todo, func(ctx context.Context) bool {
				err := s.c.release(ctx, pod)
				released = err == nil
				s.fails(err)
				return true
			})
		}
		s.todo = append(s.todo, func(ctx context.Context) bool {
			if !released {
				return false
			}
			if err := s.deletePod(ctx, pod); err != nil {
				s.fails(err)
				return true
			}
			s.removed(pod)
			return true
		})
	}
	return len(surplus) > 0
}

// fails keeps the first error of a sync that goes on, except that an object is gone.
func (s *jobSync) fails(err error) {
	if s.err == nil && err != nil && !apierrors.IsNotFound(err) {
		s.err = err
	}
}

// deletePod deletes a pod by its name. It is no error if the pod is gone.
func (s *jobSync) deletePod(ctx context.Context, pod *corev1.Pod) error {
	err := s.c.cluster.Client.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// duplicates splits pods into those without a valid index of their own and the others. Of pods with the same index the
// one that is worth most stays.
func (s *jobSync) duplicates(pods []*corev1.Pod) (surplus, left []*corev1.Pod) {
	byIndex := map[int][]*corev1.Pod{}
	for _, pod := range pods {
		if s.valid(pod) {
			byIndex[indexOf(pod)] = append(byIndex[indexOf(pod)], pod)
		} else {
			surplus = append(surplus, pod)
		}
	}
	for _, index := range slices.Sorted(maps.Keys(byIndex)) {
		same := byIndex[index]
		slices.SortStableFunc(same, lessWorth)
		surplus = append(surplus, same[:len(same)-1]...)
		left = append(left, same[len(same)-1])
	}
	return surplus, left
}

// lessWorth orders pods by which of them is deleted first (ActivePods in pkg/controller/controller_utils.go).
func lessWorth(a, b *corev1.Pod) int {
	boolean := func(x bool) int {
		if x {
			return 1
		}
		return 0
	}
	order := map[corev1.PodPhase]int{corev1.PodPending: 0, corev1.PodUnknown: 1, corev1.PodRunning: 2}
	restarts := func(pod *corev1.Pod) int32 {
		most := int32(0)
		for _, status := range pod.Status.ContainerStatuses {
			most = max(most, status.RestartCount)
		}
		return most
	}
	readySince := func(pod *corev1.Pod) time.Time { return podCondition(pod, corev1.PodReady).LastTransitionTime.Time }
	if c := cmp.Or(
		boolean(a.Spec.NodeName != "")-boolean(b.Spec.NodeName != ""),
		order[a.Status.Phase]-order[b.Status.Phase],
		boolean(podReady(a))-boolean(podReady(b)),
	); c != 0 {
		return c
	}
	if podReady(a) {
		if c := readySince(b).Compare(readySince(a)); c != 0 {
			return c
		}
	}
	return cmp.Or(cmp.Compare(restarts(b), restarts(a)), b.CreationTimestamp.Compare(a.CreationTimestamp.Time))
}

// create creates pods of indexes (-1 for none): first one, then twice as many as before, until one creation fails.
func (s *jobSync) create(pending []int) {
	failed := false
	for batch := slowStartAtFirst; len(pending) > 0; batch *= 2 {
		now := pending[:min(batch, len(pending))]
		pending = pending[len(now):]
		var stop bool
		for i, index := range now {
			s.todo = append(s.todo, func(ctx context.Context) bool {
				if i == 0 {
					stop = failed
				}
				if stop {
					return false
				}
				err := s.c.cluster.Client.Create(ctx, s.podOf(index))
				switch {
				case err == nil, apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
					s.activeNow++
				default:
					failed = true
					s.fails(err)
				}
				return true
			})
		}
	}
}

// podOf is a new pod of the Job.
func (s *jobSync) podOf(index int) *corev1.Pod {
	template := s.job.Spec.Template.DeepCopy()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.job.Namespace, GenerateName: s.job.Name + "-", Labels: template.Labels, Annotations: template.Annotations,
		Finalizers:      template.Finalizers,
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s.job, batchv1.SchemeGroupVersion.WithKind("Job"))},
	}, Spec: template.Spec}
	if !slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer) {
		pod.Finalizers = append(pod.Finalizers, batchv1.JobTrackingFinalizer)
	}
	if index < 0 {
		return pod
	}
	suffix := "-" + strconv.Itoa(index) + "-"
	const longest = 58 // five characters follow
	pod.GenerateName = s.job.Name[:min(len(s.job.Name), longest-len(suffix))] + suffix
	metav1.SetMetaDataAnnotation(&pod.ObjectMeta, batchv1.JobCompletionIndexAnnotation, strconv.Itoa(index))
	metav1.SetMetaDataLabel(&pod.ObjectMeta, batchv1.JobCompletionIndexAnnotation, strconv.Itoa(index))
	pod.Spec.Hostname = fmt.Sprintf("%s-%d", s.job.Name, index)
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		setIndexVariable(containers)
	}
	if perIndex(s.job) {
		count, ignored := failuresAfter(s.job, s.keptFailed[index])
		pod.Annotations[batchv1.JobIndexFailureCountAnnotation] = strconv.Itoa(count)
		if ignored > 0 {
			pod.Annotations[batchv1.JobIndexIgnoredFailureCountAnnotation] = strconv.Itoa(ignored)
		}
	}
	return pod
}

// setIndexVariable tells containers their index, unless they have this variable.
func setIndexVariable(containers []corev1.Container) {
	const name = "JOB_COMPLETION_INDEX"
	for i := range containers {
		if slices.ContainsFunc(containers[i].Env, func(v corev1.EnvVar) bool { return v.Name == name }) {
			continue
		}
		containers[i].Env = append(containers[i].Env, corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{
			FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['" + batchv1.JobCompletionIndexAnnotation + "']"},
		}})
	}
}
