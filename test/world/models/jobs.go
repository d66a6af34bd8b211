// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"context"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Delays of the Job controller (pkg/controller/job/job_controller.go).
const (
	jobBatchPeriod   = time.Second // from a change of a pod or a status to the sync of its Job
	jobErrorLeast    = time.Second // until a sync that failed is repeated, doubled with each failure
	jobErrorMost     = time.Minute
	podFailureLeast  = 10 * time.Second // until a pod that failed is replaced, doubled with each failure
	podFailureMost   = 10 * time.Minute
	jobPodsAtOnce    = 500
	slowStartAtFirst = 1 // pods that are created before the first answer
)

// JobController is the Job controller of kube-controller-manager (pkg/controller/job). It does not adopt pods, since
// no other Job has the selector of a Job, and does not send events. What it has read is fresh when a sync
// begins, so that it needs no expectations. It is stale in the rest of the sync, whose writes are one Step each.
type JobController struct {
	cluster *Cluster
	paused  bool
	jobs    []*jobState // in the order in which they were first seen
	seen    map[types.UID]*jobState
	readAt  [2]int // the readings of Jobs and pods that were looked at
}

// jobState is what the controller keeps of a Job.
type jobState struct {
	uid        types.UID
	name       types.NamespacedName
	job        *batchv1.Job
	pods       []*corev1.Pod
	mark       uint64 // of the versions of its pods
	due        time.Time
	failures   int // syncs in a row that failed
	backoff    jobBackoff
	sync       *jobSync
	isFinished bool // its status says so, or is about to
}

// NewJobController makes a Job controller that has seen nothing.
func NewJobController(c *Cluster) *JobController {
	return &JobController{cluster: c, seen: map[types.UID]*jobState{}}
}

// Name is the name of the model.
func (c *JobController) Name() string { return "job-controller" }

// Pause lets the controller do nothing until Resume.
func (c *JobController) Pause() { c.paused = true }

// Resume lets the controller go on.
func (c *JobController) Resume() { c.paused = false }

// Restart replaces the controller by one that has seen nothing. Its counts of failures are lost.
func (c *JobController) Restart() {
	c.jobs, c.seen, c.readAt = nil, map[types.UID]*jobState{}, [2]int{}
}

// Step goes on with a sync, begins one, or removes the finalizer of an orphan.
func (c *JobController) Step(ctx context.Context) bool {
	if c.paused {
		return false
	}
	c.look(ctx)
	for ready := c.ready(); len(ready) > 0; ready = c.ready() {
		for _, s := range ready {
			if s.sync == nil {
				s.due = time.Time{}
				s.sync = c.begin(s)
			}
			if c.goOn(ctx, s) {
				return true
			}
		}
	}
	return c.releaseOrphan(ctx)
}

// ready are the Jobs that are synced, or due, in any order.
func (c *JobController) ready() []*jobState {
	var ready []*jobState
	now := time.Now()
	for _, s := range c.jobs {
		if s.sync != nil || due(s.due, now) {
			ready = append(ready, s)
		}
	}
	c.cluster.Random.Shuffle(len(ready), func(i, j int) { ready[i], ready[j] = ready[j], ready[i] })
	return ready
}

// Next is when the next Job is due.
func (c *JobController) Next() time.Time {
	var next time.Time
	if c.paused {
		return next
	}
	for _, s := range c.jobs {
		next = soonest(next, s.due)
	}
	return next
}

// goOn does the next write of a sync; false if the sync ended without one.
func (c *JobController) goOn(ctx context.Context, s *jobState) bool {
	for s.sync != nil {
		sync := s.sync
		if sync.err != nil && sync.stops || len(sync.todo) == 0 {
			s.sync = nil
			c.ended(s, sync)
			return false
		}
		do := sync.todo[0]
		sync.todo = sync.todo[1:]
		if do(ctx) {
			return true
		}
	}
	return false
}

// ended notes when the Job of a sync that is over is looked at again.
func (c *JobController) ended(s *jobState, sync *jobSync) {
	if sync.err == nil {
		s.failures = 0
		return
	}
	wait := jobErrorLeast << min(s.failures, 6)
	s.failures++
	s.due = soonest(s.due, time.Now().Add(min(wait, jobErrorMost)))
}

// look notes which Jobs have changed, or have pods that have.
func (c *JobController) look(ctx context.Context) {
	jobs, pods := c.cluster.Jobs(ctx), c.cluster.Pods(ctx)
	readAt := [2]int{c.cluster.jobs.count, c.cluster.pods.count}
	if readAt == c.readAt {
		return
	}
	c.readAt = readAt
	now, there := time.Now(), map[types.UID]bool{}
	for _, job := range jobs {
		if by := job.Spec.ManagedBy; by == nil || *by == batchv1.JobControllerName {
			there[job.UID] = true
			c.lookAt(job, now)
		}
	}
	c.jobs = slices.DeleteFunc(c.jobs, func(s *jobState) bool {
		if !there[s.uid] {
			delete(c.seen, s.uid)
		}
		return !there[s.uid]
	})
	for _, pod := range pods {
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && c.seen[owner.UID] != nil {
			s := c.seen[owner.UID]
			s.pods = append(s.pods, pod)
		}
	}
	for _, s := range c.jobs {
		if mark := markOf(s.pods); mark != s.mark {
			s.mark, s.due = mark, soonest(s.due, now.Add(jobBatchPeriod))
		}
	}
}

// lookAt notes whether a Job has changed: at once a change of its spec, and a moment later one of its status.
func (c *JobController) lookAt(job *batchv1.Job, now time.Time) {
	s := c.seen[job.UID]
	switch {
	case s == nil:
		s = &jobState{uid: job.UID, name: nameOf(job), due: now}
		c.seen[job.UID], c.jobs = s, append(c.jobs, s)
	case s.job.Generation != job.Generation || s.job.DeletionTimestamp.IsZero() != job.DeletionTimestamp.IsZero():
		s.due = soonest(s.due, now)
	case s.job.ResourceVersion != job.ResourceVersion:
		s.due = soonest(s.due, now.Add(jobBatchPeriod))
	}
	s.job, s.pods = job, nil
}

// markOf is another number after any change of pods.
func markOf(pods []*corev1.Pod) uint64 {
	mark := uint64(len(pods))
	for _, pod := range pods {
		for _, text := range []string{string(pod.UID), pod.ResourceVersion} {
			for i := range len(text) {
				mark = (mark ^ uint64(text[i])) * 1099511628211
			}
		}
	}
	return mark
}

// releaseOrphan removes the finalizer of a pod whose Job is gone, is another one, or has finished.
func (c *JobController) releaseOrphan(ctx context.Context) bool {
	for _, pod := range c.cluster.Pods(ctx) {
		if !tracked(pod) {
			continue
		}
		if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
			s := c.seen[owner.UID]
			if owner.Kind != "Job" || owner.APIVersion != batchv1.SchemeGroupVersion.String() || s != nil && !finished(s.job) {
				continue
			}
		}
		if err := c.release(ctx, pod); err == nil || !apierrors.IsNotFound(err) {
			return true
		}
	}
	return false
}

// release removes the finalizer by which the controller counts a pod.
func (c *JobController) release(ctx context.Context, pod *corev1.Pod) error {
	patch := client.RawPatch(types.StrategicMergePatchType,
		[]byte(`{"metadata":{"$deleteFromPrimitiveList/finalizers":["`+batchv1.JobTrackingFinalizer+`"]}}`))
	return c.cluster.Client.Patch(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}}, patch)
}

func tracked(pod *corev1.Pod) bool {
	return slices.Contains(pod.Finalizers, batchv1.JobTrackingFinalizer)
}

func finished(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
}
