// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/queue"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion"
)

// end is the latest time at which a MiniCluster with nodes ends; zero if it is not known. While it
// starts, the time of the start is left out: a gang that is backfilled until then delays nobody.
func end(mc *v1alpha2.MiniCluster) time.Time {
	limit, a := Limit(mc, AdmittedDeadlines(mc)), mc.Status.Admission
	switch {
	case limit == 0 || a == nil:
		return time.Time{}
	case mc.Status.StartTime != nil:
		return mc.Status.StartTime.Add(limit)
	}
	return a.Time.Add(limit)
}

// Gang is a waiting MiniCluster, with its defaults, for the queue. Pod is one of its pods after
// admission by the API server. A MiniCluster with quota of Kueue waits since it has it, at a size
// for which the quota suffices. Kueue alone orders such MiniClusters by priority. The limit of one
// that waits is without the deadlines of its queue.
func Gang(mc *v1alpha2.MiniCluster, pod *corev1.Pod, quota *v1alpha2.Quota) queue.Gang {
	requests := Requests(pod)
	gang := queue.Gang{
		ID:          string(mc.UID),
		Name:        mc.Namespace + "/" + mc.Name,
		Queue:       QueueOf(mc),
		Priority:    ptr.Deref(pod.Spec.Priority, 0),
		Created:     mc.CreationTimestamp.Time,
		Since:       QueuedSince(mc),
		Singleton:   singleton(mc),
		Sizing:      nextSizing(mc),
		WaitForSize: mc.Spec.Elastic.WaitForSize.Duration,
		Requests:    queue.Resources(requests),
		Exclusive:   requests[fluxion.WholeNode] > 0,
		Confined:    isConfined(mc, quota),
		Distinct:    !mc.Spec.Network.DisableAffinity,
		BestEffort:  asksForNothing(requests),
		Class:       class(mc, pod, quota, requests),
		Limit:       Limit(mc, AdmittedDeadlines(mc)),
		Returns:     returns(mc),
		Estimate:    queue.Estimate{Expected: ptr.Deref(mc.Spec.Elastic.ExpectedRuntime, metav1.Duration{}).Duration},

		NeverPreempts: ptr.Deref(pod.Spec.PreemptionPolicy, corev1.PreemptLowerPriority) == corev1.PreemptNever,

		StartsAtOnce: quota != nil || mc.Spec.Malleable(), // others may wait for its quota
		Urgent:       quota != nil,
	}
	if quota != nil {
		gang.Priority, gang.Created = 0, quota.Time.Time
		if most := gang.Sizing.Most; most == 0 || most > int(quota.Size) {
			gang.Sizing.Most = int(quota.Size)
		}
	}
	return gang
}

// singleton is the key of a MiniCluster; namespaces share none.
func singleton(mc *v1alpha2.MiniCluster) string {
	if mc.Spec.Singleton == "" {
		return ""
	}
	return mc.Namespace + "/" + mc.Spec.Singleton
}

// returns reports whether a MiniCluster waits again after its deadline.
func returns(mc *v1alpha2.MiniCluster) bool {
	return mc.Spec.Elastic.Checkpoint != nil && int(ptr.Deref(mc.Status.RequeueState, v1alpha2.RequeueState{}).Deadlines) < requeues(mc)
}

// QueueOf is the queue of a MiniCluster, as far as the MiniCluster says.
func QueueOf(mc *v1alpha2.MiniCluster) string {
	return cmp.Or(mc.Status.Queue, mc.Spec.Queue, v1alpha2.DefaultQueue)
}

// Age is since when a gang counts as waiting in its queue; made may be nil. For a slowdown, the time in which it had nodes is no
// wait.
func Age(gang *queue.Gang, made *v1alpha2.MiniClusterQueue) time.Time {
	if made != nil && (made.Spec.Requeue == v1alpha2.RequeueLast || made.Spec.Ordering == v1alpha2.OrderSlowdown) {
		return gang.Since
	}
	return gang.Created
}

// QueuedSince is since when a MiniCluster has waited, and holds out for its size: its creation, or when it
// was queued again.
func QueuedSince(mc *v1alpha2.MiniCluster) time.Time {
	created := mc.CreationTimestamp.Time
	if requeue := mc.Status.RequeueState; requeue != nil && requeue.RequeueAt != nil && requeue.RequeueAt.After(created) {
		return requeue.RequeueAt.Time
	}
	return created
}

// Resume has a MiniCluster wait from now on that was suspended, and is not any more. Status says that it was, until the
// next write.
func Resume(mc *v1alpha2.MiniCluster, now time.Time) {
	ready := meta.FindStatusCondition(mc.Status.Conditions, v1alpha2.ConditionReady)
	if !mc.IsSuspended() && ready != nil && ready.Reason == v1alpha2.StateSuspended {
		waitsFrom(mc, now)
	}
}

// waitsFrom records since when a MiniCluster waits. One that had nodes before has such a time.
func waitsFrom(mc *v1alpha2.MiniCluster, now time.Time) {
	if mc.Status.RequeueState == nil {
		mc.Status.RequeueState = &v1alpha2.RequeueState{RequeueAt: new(metav1.NewTime(now))}
	}
}

// ScaleTasks gives a MiniCluster, with its defaults, the number of tasks for its size, if the size alone has changed since the
// number was set: a user or an autoscaler that sets a size knows no tasks. A number below that of the brokers belongs to no
// broker, and stays. Status says for which size the number was set.
func ScaleTasks(mc *v1alpha2.MiniCluster) {
	s, set := &mc.Spec, mc.Status.TasksFor
	if meta.IsStatusConditionTrue(mc.Status.Conditions, v1alpha2.ConditionFinished) {
		return
	}
	if a := mc.Status.Admission; set == nil && a != nil && a.Wanted > 0 && a.Traits != nil { // by a manager that recorded no more
		set = &v1alpha2.TasksFor{Size: a.Wanted, Tasks: a.Traits.Tasks}
	}
	if set == nil || set.Tasks != *s.Tasks {
		set = &v1alpha2.TasksFor{Size: s.Size, Tasks: *s.Tasks}
	}
	mc.Status.TasksFor = set
	if tasks := sizing(Traits(s), set.Size).TasksAt(int(s.Size)); tasks > 0 && set.Tasks >= set.Size {
		s.Tasks = new(int32(min(tasks, v1alpha2.MostTasks)))
	}
}

// isConfined reports whether the pods have to be in one domain of the topology, or where Kueue counts them.
func isConfined(mc *v1alpha2.MiniCluster, quota *v1alpha2.Quota) bool {
	return topology(mc, nil).Required || quota != nil && quota.Topology != nil
}

// asksForNothing reports whether a pod requests nothing but its place.
func asksForNothing(requests fluxion.Resources) bool {
	for name, amount := range requests {
		if name != fluxion.Pods && amount > 0 {
			return false
		}
	}
	return true
}

// class is the same for MiniClusters whose pods request the same and can use the same nodes.
func class(mc *v1alpha2.MiniCluster, pod *corev1.Pod, quota *v1alpha2.Quota, requests fluxion.Resources) string {
	var domains *v1alpha2.QuotaTopology
	if quota != nil {
		domains = quota.Topology
	}
	var least int32 // which nodes a gang avoids depends on whether the others could hold it
	if mc.Status.Avoid != nil {
		least = mc.Spec.LeastSize()
	}
	return cmp.Or(digest(struct {
		Requests  fluxion.Resources
		Places    string
		Distinct  bool
		Placement v1alpha2.PlacementSpec
		Avoid     *v1alpha2.Avoid
		Least     int32
		Domains   *v1alpha2.QuotaTopology
	}{requests, placesOf(pod).Key, !mc.Spec.Network.DisableAffinity, mc.Spec.Placement, mc.Status.Avoid, least, domains}), string(mc.UID))
}

// digest is the same for equal values, and short however long they are; "" if there is none.
func digest(value any) string {
	text, err := json.Marshal(value)
	if err != nil { // it never is
		return ""
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// Running is a MiniCluster with nodes, with its defaults. Pod is one of its pods after admission
// by the API server. A MiniCluster without a promise is ending.
func Running(mc *v1alpha2.MiniCluster, pod *corev1.Pod, promise *Promise) queue.Running {
	r := queue.Running{Gang: Gang(mc, pod, nil), Malleable: mayShrink(mc)}
	r.Sizing, r.Least = sizing(traitsOf(mc), mc.Spec.Size), admittedSizing(mc).Allowed().Least()
	r.Ending = promise == nil
	if at := mc.DeletionTimestamp; at != nil {
		grace := ptr.Deref(pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds)
		r.Ending, r.EndBy = true, at.Add(time.Duration(grace)*time.Second)
	}
	addCheckpoints(&r, mc)
	if admission := mc.Status.Admission; admission != nil {
		r.Admitted, r.Priority = admission.Time.Time, admission.Priority
		r.Requests = queue.Resources(admitted(admission))
		r.Exclusive, r.BestEffort = admission.Exclusive, asksForNothing(fluxion.Resources(r.Requests))
		if promise != nil && len(promise.Draining) > 0 && admission.Drain.Deadline != nil {
			r.DrainBy = admission.Drain.Deadline.Time
		}
	}
	if promise != nil {
		r.Ranks, r.Draining, r.End = promise.Ranks(), promise.Draining, promise.End
	}
	r.Max = len(r.Ranks)
	if malleable(mc) && !r.Ending && mc.Status.StartTime != nil {
		r.Max = mostBrokers(mc)
	}
	if admission := mc.Status.Admission; admission != nil && admission.Quota != nil {
		r.Priority = 0
	}
	return r
}

// addCheckpoints adds what restarts and evictions cost, and what is under way.
func addCheckpoints(r *queue.Running, mc *v1alpha2.MiniCluster) {
	s, traits := &mc.Status, traitsOf(mc)
	if s.StartTime != nil {
		r.Began = s.StartTime.Time
	}
	if s.CheckpointTime != nil {
		r.Saved = s.CheckpointTime.Time
	}
	wait := ptr.Deref(traits.CheckpointWait, metav1.Duration{}).Duration
	if traits.AsksForCheckpoint {
		r.SaveCost = wait
	}
	if traits.Resize == v1alpha2.ResizeRestart && s.StartTime != nil {
		r.RestartCost = wait + restartTime
		if n := len(s.Restarts); n > 0 && s.Restarts[n-1].Seconds != nil {
			r.RestartCost = max(time.Duration(*s.Restarts[n-1].Seconds)*time.Second, time.Second)
		}
	}
	addChanges(r, s.Admission)
}

// addChanges adds whether a restart or an eviction is under way.
func addChanges(r *queue.Running, a *v1alpha2.Admission) {
	if a != nil {
		r.Sought = a.Resized
		r.Changing = r.Malleable && a.Restart != nil && a.Losses == 0 // after a loss, restarts may follow each other
		r.Malleable = r.Malleable && a.Restart == nil && a.Eviction == nil
		if a.Eviction != nil {
			r.Ending, r.EndBy = true, a.Eviction.Deadline.Time
		}
	}
}

// restartTime is how long a command takes to run again after its checkpoint.
const restartTime = 5 * time.Second

// mayShrink reports whether ranks may leave: the command has not begun, or it is malleable.
func mayShrink(mc *v1alpha2.MiniCluster) bool { return mc.Status.StartTime == nil || malleable(mc) }

// malleable reports whether the command goes on when ranks join and leave, because it submits
// jobs of its own or users do. A single MPI job does not.
func malleable(mc *v1alpha2.MiniCluster) bool {
	if recorded := recordedTraits(mc); recorded != nil {
		return recorded.Malleable
	}
	return mc.Spec.Malleable()
}

// MayGrow reports whether a running MiniCluster can take more nodes.
func MayGrow(mc *v1alpha2.MiniCluster) bool {
	return malleable(mc) && mc.Status.Admission != nil && mostBrokers(mc) > int(mc.Status.Admission.Size)
}

// Barred says why a queue does not serve the MiniClusters of a namespace with these labels; "" if it
// does.
func Barred(q *v1alpha2.MiniClusterQueue, namespace string, labelled map[string]string) string {
	if q.Spec.NamespaceSelector == nil {
		return ""
	}
	selector, err := metav1.LabelSelectorAsSelector(q.Spec.NamespaceSelector)
	switch {
	case err != nil:
		return fmt.Sprintf("the namespaceSelector of queue %s is wrong: %v", q.Name, err)
	case !selector.Matches(labels.Set(labelled)):
		return fmt.Sprintf("queue %s is not for namespace %s: %s", q.Name, namespace, metav1.FormatLabelSelector(q.Spec.NamespaceSelector))
	}
	return ""
}

// Queue is the policy of a queue.
func Queue(made *v1alpha2.MiniClusterQueue) queue.Queue {
	q := made.DeepCopy()
	q.Default()
	s := &q.Spec
	return queue.Queue{
		Users:       users(s),
		Name:        q.Name,
		Weight:      int(s.Weight),
		Priority:    s.Priority,
		Capacity:    queue.Resources(Amounts(s.Capacity)),
		Guarantee:   queue.Resources(Amounts(s.Guarantee)),
		Reclaimable: *s.Reclaimable,
		Ordering:    queue.Ordering(s.Ordering),
		Backfill:    queue.Backfill(s.Backfill),
		Patience:    s.Patience.Duration,
		Grace:       s.Grace.Duration,
		MinRuntime:  ptr.Deref(s.MinRuntime, metav1.Duration{}).Duration,
		Suspended:   s.Suspended,

		RequeuesLast: s.Requeue == v1alpha2.RequeueLast,

		ScaleUp: scaleUp(s.ScaleUp),
	}
}

// scaleUp is how a queue asks for nodes, as far as its spec says; nil if it does not.
func scaleUp(s *v1alpha2.ScaleUp) *queue.ScaleUp {
	if s == nil {
		return nil
	}
	return &queue.ScaleUp{Limit: int(s.MaxNodes), Timeout: s.Timeout.Duration, Cooldown: s.Cooldown.Duration}
}
