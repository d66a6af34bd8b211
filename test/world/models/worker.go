// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package models

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/dev/simulator/flux"
)

// worker is a pod on its node (pkg/kubelet/pod_workers.go).
type worker struct {
	node *kubelet
	pod  *corev1.Pod // as the kubelet last saw it
	gone bool        // the API server does not have it any more

	stage  stage
	at     time.Time // when the sandbox is made, or its volumes are looked for again
	misses int       // how often a volume was missing
	// began is when the kubelet accepted the pod. ip is the address of the sandbox.
	began time.Time
	ip    string
	init  []*container
	main  []*container
	// killBy is when the last processes are killed; zero if nobody asked the pod to end.
	killBy time.Time
	// reason and message are those of a pod that the kubelet refused or evicted.
	reason, message string
	evicted         bool
	overdue         bool // it ran longer than activeDeadlineSeconds

	// files are the annotations as the containers see them. filesAt is when they see others; zero if these are the same.
	files   map[string]string
	filesAt time.Time

	settings *flux.Settings // of a pod with a broker, from its files

	isWritten bool // the API server has the status
	isOld     bool // the pod had ended before this kubelet saw it
	isDeleted bool // the kubelet has deleted it, but others keep it
}

// stage is how far a pod has come.
type stage int

const (
	arriving stage = iota // the kubelet has not looked at it
	creating              // volumes and sandbox
	running               // containers are started, run, or are started again
	ended                 // no container runs, and none will
)

func newWorker(n *kubelet, pod *corev1.Pod) *worker {
	w := &worker{node: n, pod: pod, files: maps.Clone(pod.Annotations)}
	for i := range pod.Spec.InitContainers {
		w.init = append(w.init, newContainer(w, &pod.Spec.InitContainers[i]))
	}
	for i := range pod.Spec.Containers {
		w.main = append(w.main, newContainer(w, &pod.Spec.Containers[i]))
	}
	if podEnded(pod) { // a kubelet that starts sees pods of before
		w.stage, w.isWritten, w.isOld = ended, true, true
	}
	return w
}

// update sees another version of the pod.
func (w *worker) update(pod *corev1.Pod) {
	w.pod = pod
	if !maps.Equal(w.files, pod.Annotations) && w.filesAt.IsZero() && w.stage == running {
		// The kubelet syncs the pod soon after a change, and sometimes only a minute later.
		delay := w.random().between(200*time.Millisecond, 2*time.Second)
		if w.random().chance(0.05) {
			delay = w.random().between(2*time.Second, 90*time.Second)
		}
		w.filesAt = time.Now().Add(delay)
	}
	w.isWritten = w.isWritten && !w.differs()
}

func (w *worker) random() *Cluster { return w.node.all.cluster }

// isForgotten reports whether nothing of the pod is left.
func (w *worker) isForgotten() bool { return w.stage == ended && w.gone }

// next is when something happens to the pod by time alone.
func (w *worker) next() time.Time {
	if w.node.off || w.stage == ended {
		return time.Time{}
	}
	next := time.Time{}
	for _, c := range w.containers() {
		next = soonest(next, c.next())
	}
	if !w.node.down.IsZero() { // only the processes go on
		return next
	}
	next = soonest(next, w.at)
	next = soonest(next, w.killBy)
	if w.killBy.IsZero() {
		next = soonest(next, w.deadline())
	}
	return soonest(next, w.filesAt)
}

func (w *worker) containers() []*container {
	return append(w.init[:len(w.init):len(w.init)], w.main...)
}

// advance lets happen what is due, and reports whether anything did.
func (w *worker) advance(ctx context.Context, now time.Time) (moved bool) {
	if w.node.off || w.stage == ended {
		return false
	}
	for _, c := range w.containers() {
		moved = c.exit(now) || moved
	}
	if !w.node.runs() {
		return moved
	}
	moved = w.sync(ctx, now) || moved
	if moved {
		w.isWritten = false
	}
	return moved
}

// sync lets the kubelet do what is due.
func (w *worker) sync(ctx context.Context, now time.Time) (moved bool) {
	if due(w.filesAt, now) {
		w.files, w.filesAt, moved = maps.Clone(w.pod.Annotations), time.Time{}, true
		w.node.all.wake(w)
	}
	if w.killBy.IsZero() && (w.gone || w.pod.DeletionTimestamp != nil) {
		w.kill(now, w.grace())
		moved = true
	}
	moved = w.expire(now) || moved
	switch {
	case !w.killBy.IsZero():
		moved = w.end(now) || moved
	case w.stage == arriving:
		w.admit(now)
		moved = true
	case w.stage == creating:
		moved = w.create(ctx, now) || moved
	case w.stage == running:
		moved = w.run(now) || moved
	}
	return moved
}

// expire ends a pod that has run for activeDeadlineSeconds (pkg/kubelet/active_deadline.go).
func (w *worker) expire(now time.Time) bool {
	if !w.killBy.IsZero() || !due(w.deadline(), now) {
		return false
	}
	w.overdue, w.reason, w.message = true, "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
	w.kill(now, w.grace())
	return true
}

// deadline is when the pod has run for activeDeadlineSeconds; zero if there is no such time.
func (w *worker) deadline() time.Time {
	if w.began.IsZero() || w.pod.Spec.ActiveDeadlineSeconds == nil {
		return time.Time{}
	}
	return w.began.Add(time.Duration(*w.pod.Spec.ActiveDeadlineSeconds) * time.Second)
}

// admit accepts the pod, or refuses it (pkg/kubelet/lifecycle/predicate.go).
func (w *worker) admit(now time.Time) {
	w.began = now
	if w.reason, w.message = w.refusal(); w.reason != "" {
		w.stage = ended
		return
	}
	w.stage, w.at = creating, now.Add(w.random().between(100*time.Millisecond, time.Second))
}

// create makes the sandbox once the ConfigMaps and Secrets of the volumes exist.
func (w *worker) create(ctx context.Context, now time.Time) bool {
	if now.Before(w.at) {
		return false
	}
	if w.node.cut || !w.hasVolumes(ctx) || instanceOf(w.pod) != "" && !w.readSettings(ctx) {
		wait := min(500*time.Millisecond<<min(w.misses, 10), 122*time.Second)
		w.misses++
		w.at = now.Add(wait)
		return false
	}
	w.stage, w.at = running, time.Time{}
	w.files = maps.Clone(w.pod.Annotations)
	w.ip = fmt.Sprintf("10.%d.%d.%d", w.random().Random.IntN(256), w.random().Random.IntN(256), 1+w.random().Random.IntN(254))
	return true
}

// run starts the containers in their order, and sees those that have ended.
func (w *worker) run(now time.Time) (moved bool) {
	for _, c := range w.init {
		moved = c.run(now) || moved
		switch {
		case c.failedForGood():
			w.kill(now, w.grace())
			return true
		case !c.isInitialized():
			return moved
		}
	}
	over := true
	for _, c := range w.main {
		moved = c.run(now) || moved
		over = over && c.isOver()
	}
	if over { // sidecars end after the others
		w.kill(now, w.grace())
		return true
	}
	return moved
}

// kill asks the processes of the pod to end, and kills them after the grace period.
func (w *worker) kill(now time.Time, grace time.Duration) {
	w.killBy = now.Add(grace)
	for _, c := range w.containers() {
		c.signal(now, w.killBy)
	}
}

// grace is how long the processes have to end: what the deletion says, or else the pod, and at least a second.
func (w *worker) grace() time.Duration {
	seconds := ptr.Deref(w.pod.Spec.TerminationGracePeriodSeconds, 30)
	if w.pod.DeletionGracePeriodSeconds != nil {
		seconds = *w.pod.DeletionGracePeriodSeconds
	}
	return time.Duration(max(seconds, 1)) * time.Second
}

// end ends the pod once no process of it runs.
func (w *worker) end(now time.Time) (moved bool) {
	if by := now.Add(w.grace()); w.pod.DeletionTimestamp != nil && by.Before(w.killBy) && w.shortened(by) {
		moved = true
	}
	for _, c := range w.containers() {
		if c.isRunning() {
			return moved
		}
	}
	w.stage = ended
	return true
}

// shortened takes a grace period that became shorter, for example by a forced deletion.
func (w *worker) shortened(by time.Time) bool {
	if ptr.Deref(w.pod.DeletionGracePeriodSeconds, 30) > 1 {
		return false
	}
	w.killBy = by
	for _, c := range w.containers() {
		c.killBy = by
	}
	return true
}

// playOf is what the annotations of the simulator say about the main process of a pod without Flux.
func playOf(pod *corev1.Pod) (runtime time.Duration, code int32, ends bool) {
	if _, ends = pod.Annotations[simulator.Runtime]; !ends {
		return 0, 0, false
	}
	play, err := simulator.ReadPlay(pod)
	if err != nil {
		return 0, 2, true
	}
	return play.Runtime, play.ExitCode, true
}
