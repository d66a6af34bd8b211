// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	jobsetapi "sigs.k8s.io/jobset/api/jobset/v1alpha2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/jobset"
	"github.com/flux-elastic/flux-elastic/pkg/elastic"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// View is what there is of one MiniCluster.
type View struct {
	// MiniCluster has its defaults.
	MiniCluster *v1alpha2.MiniCluster
	// JobSet is the one of its name, whoever owns it; nil if there is none.
	JobSet *jobsetapi.JobSet
	// Pods are those with its name in their label MiniClusterLabel, also those of
	// an earlier MiniCluster of the name.
	Pods []*corev1.Pod
	// Node finds a node; nil if there is none.
	Node func(name string) *corev1.Node
	// Troubles are since when pods, by UID, are known to be in Trouble.
	Troubles map[types.UID]time.Time
}

// Observe makes the observation that elastic.Decide needs. What the scheduler and
// the check of the spec have to say is left to the caller.
func Observe(v View) (*elastic.Observation, error) {
	mc := v.MiniCluster
	o := &elastic.Observation{Policy: policy(mc), Jitter: jitter(mc)}
	if finished := meta.FindStatusCondition(mc.Status.Conditions, v1alpha2.ConditionFinished); finished != nil && finished.Status == metav1.ConditionTrue {
		o.Outcome = elastic.Outcome(finished.Reason)
		o.Ended = finished.LastTransitionTime.Time
	}
	if requeue := mc.Status.RequeueState; requeue != nil {
		o.GivenUp = int(requeue.Count)
		o.NotBefore = ptr.Deref(requeue.RequeueAt, metav1.Time{}).Time
	}
	if mc.Status.StartTime != nil {
		o.Started = mc.Status.StartTime.Time
	}
	if mc.Status.Admission != nil {
		var err error
		if o.Admission, err = admission(mc); err != nil {
			return nil, err
		}
		o.Outdated = mc.Status.Admission.Generation != 0 && mc.Status.Admission.Generation != mc.Generation
	}
	o.Workload = workload(v, int32(o.Attempt()))
	return o, observePods(o, v)
}

// admission is that of the status.
func admission(mc *v1alpha2.MiniCluster) (*elastic.Admission, error) {
	a := mc.Status.Admission
	nodes, err := Nodes(mc)
	if err != nil {
		return nil, err
	}
	out := &elastic.Admission{Attempt: int(a.Attempt), Size: int(a.Size), Quorum: int(a.Quorum), At: a.Time.Time, Nodes: nodes}
	if a.Drain != nil {
		out.Draining = &elastic.Draining{}
		if a.Drain.Deadline != nil {
			out.Draining.Deadline = a.Drain.Deadline.Time
		}
		if out.Draining.Ranks, err = ranks("drain.ranks", a.Drain.Ranks, out.Size); err != nil {
			return nil, err
		}
	}
	if a.Loss != nil {
		out.Loss = &elastic.Loss{At: a.Loss.Time.Time}
		if out.Loss.Ranks, err = ranks("loss.ranks", a.Loss.Ranks, out.Size); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// observePods fills in what pods tell.
func observePods(o *elastic.Observation, v View) error {
	if v.JobSet != nil && !metav1.IsControlledBy(v.JobSet, v.MiniCluster) && madeForName(v.JobSet, v.MiniCluster.Name) {
		o.Leftover++ // of an earlier MiniCluster of the name
	}
	for _, pod := range v.Pods {
		countPod(o, v, pod)
	}
	if o.Admission == nil {
		return nil
	}
	pods := BrokerPods(v)
	o.Brokers = make([]elastic.Broker, o.Admission.Size)
	for rank, node := range o.Admission.Nodes {
		there := v.Node(node)
		o.Brokers[rank] = brokerOf(pods[rank], rank, v.MiniCluster.Name, there == nil)
		o.Brokers[rank].NodeDown = there != nil && !Ready(there)
		if pod := pods[rank]; pod != nil {
			observePlace(&o.Brokers[rank], pod, node)
			o.Brokers[rank].TroubleSince = v.Troubles[pod.UID]
		}
	}
	if err := observeRanks(o, v.MiniCluster.Status.Admission); err != nil {
		return err
	}
	if lead := pods[0]; lead != nil {
		o.Published = jobset.Quorum(lead)
		o.Stopped = jobset.Stop(lead) != ""
		o.PublishedDrain, _ = ranks("drain.ranks", jobset.Drain(lead), o.Admission.Size) // what cannot be read is written anew
		o.ToldLost, _ = ranks("lost", jobset.Lost(lead), o.Admission.Size)               // what cannot be read tells nothing
	}
	return nil
}

// observeRanks fills in which ranks have left or were moved.
func observeRanks(o *elastic.Observation, admission *v1alpha2.Admission) error {
	vacated, err := ranks("vacated", admission.Vacated, o.Admission.Size)
	if err != nil {
		return err
	}
	for _, rank := range vacated {
		o.Brokers[rank].Vacated = true
	}
	moved, err := ranks("moved", admission.Moved, o.Admission.Size)
	for _, rank := range moved {
		o.Brokers[rank].Moved = true
	}
	return err
}

// observePlace fills in how a pod and the node that is meant for it get along.
func observePlace(b *elastic.Broker, pod *corev1.Pod, node string) {
	pinned := jobset.PinnedNode(pod)
	b.Placed = placedAt(pod)
	b.Misplaced = pinned != "" && pinned != node
	b.Unbindable = pinned != "" && (Unschedulable(pod) || turnedAway(pod))
}

// placedAt is when a pod was placed: where it was not written down with it, when it was
// bound; zero if that is not known.
func placedAt(pod *corev1.Pod) time.Time {
	if at := jobset.PlacedAt(pod); !at.IsZero() {
		return at
	}
	if scheduled := podCondition(pod, corev1.PodScheduled); scheduled.Status == corev1.ConditionTrue {
		return scheduled.LastTransitionTime.Time
	}
	return time.Time{}
}

// podCondition is a condition of a pod; empty if the pod has none of the kind.
func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) corev1.PodCondition {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == kind {
			return condition
		}
	}
	return corev1.PodCondition{}
}

// Unschedulable reports whether kube-scheduler finds no node for a pod that waits for
// nothing else.
func Unschedulable(pod *corev1.Pod) bool {
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || Ended(pod) || jobset.IsGated(pod) {
		return false
	}
	scheduled := podCondition(pod, corev1.PodScheduled)
	return scheduled.Status == corev1.ConditionFalse && scheduled.Reason == corev1.PodReasonUnschedulable
}

// turnedAway reports whether the kubelet of its node did not take a pod, so that nothing
// of it ever ran.
func turnedAway(pod *corev1.Pod) bool {
	if pod.Status.Phase != corev1.PodFailed || slices.ContainsFunc(pod.Status.InitContainerStatuses, ran) || slices.ContainsFunc(pod.Status.ContainerStatuses, ran) {
		return false
	}
	return strings.HasPrefix(pod.Status.Reason, "OutOf") || slices.Contains(refusals, pod.Status.Reason)
}

// refusals are kubelets' reasons not to take a pod, beside "OutOfcpu" and its like.
var refusals = []string{"NodeAffinity", "NodeName", "NodePorts", "TaintToleration", "TopologyAffinityError", "UnexpectedAdmissionError"}

func ran(status corev1.ContainerStatus) bool {
	return status.State.Running != nil || status.State.Terminated != nil
}

func countPod(o *elastic.Observation, v View, pod *corev1.Pod) {
	if !v.current(pod) {
		o.Leftover++
	} else if rank, ok := jobset.Rank(pod); ok && rank > 0 && Ended(pod) {
		o.Done++
	}
	if v.occupies(pod) != "" {
		o.Occupied++
	}
}

// occupies is the node that a pod of the MiniCluster holds; "" if it holds none.
func (v View) occupies(pod *corev1.Pod) string {
	if pod.Labels[v1alpha2.UIDLabel] != string(v.MiniCluster.UID) || Ended(pod) {
		return ""
	}
	return jobset.PinnedNode(pod)
}

// OccupiedNodes are the nodes that pods of the MiniCluster hold, each once.
func OccupiedNodes(v View) map[string]bool {
	nodes := map[string]bool{}
	for _, pod := range v.Pods {
		if node := v.occupies(pod); node != "" {
			nodes[node] = true
		}
	}
	return nodes
}

// current reports whether a pod is of the JobSet that there is.
func (v View) current(pod *corev1.Pod) bool {
	return v.JobSet != nil && pod.Labels[jobsetapi.JobSetUIDKey] == string(v.JobSet.UID)
}

// Nodes are the nodes of the MiniCluster's admission, by rank.
func Nodes(mc *v1alpha2.MiniCluster) ([]string, error) {
	if mc.Status.Admission == nil {
		return nil, nil
	}
	size := int(mc.Status.Admission.Size)
	nodes, err := hostlist.Decode(mc.Status.Admission.Nodes, size)
	if err == nil && len(nodes) != size {
		err = fmt.Errorf("%d nodes for %d brokers", len(nodes), size)
	}
	if err != nil {
		return nil, fmt.Errorf("reading status.admission.nodes: %w", err)
	}
	return nodes, nil
}

// BrokerPods are the pods of the current JobSet by rank, the one that counts where
// a rank has several.
func BrokerPods(v View) map[int]*corev1.Pod {
	pods := map[int]*corev1.Pod{}
	for _, pod := range v.Pods {
		if rank, ok := jobset.Rank(pod); ok && v.current(pod) && newer(pod, pods[rank]) {
			pods[rank] = pod
		}
	}
	return pods
}

// WorkersJob is the Job of the current followers, by what their pods say; nil if
// there are none.
func WorkersJob(v View) *batchv1.Job {
	for rank, pod := range BrokerPods(v) {
		if owner := metav1.GetControllerOf(pod); rank > 0 && owner != nil && owner.Kind == "Job" {
			return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: owner.Name, UID: owner.UID}}
		}
	}
	return nil
}

// evicted is a kubelet's reason for a pod that took more than it may.
const evicted = "Evicted"

// whyEvicted is what a kubelet says of a pod that it evicted; "" for others.
func whyEvicted(pod *corev1.Pod) string {
	if pod == nil || pod.Status.Reason != evicted {
		return ""
	}
	return strings.TrimRight(strings.TrimSpace(pod.Status.Message), ".")
}

// newer reports whether a pod replaces another one of its rank: one that has not
// ended one that has, and then a younger one an older.
func newer(pod, other *corev1.Pod) bool {
	switch {
	case other == nil:
		return true
	case Ended(pod) != Ended(other):
		return Ended(other)
	}
	return cmp.Or(
		pod.CreationTimestamp.Compare(other.CreationTimestamp.Time),
		cmp.Compare(pod.Name, other.Name),
	) > 0
}

func brokerOf(pod *corev1.Pod, rank int, container string, nodeGone bool) elastic.Broker {
	b := elastic.Broker{NodeGone: nodeGone, Evicted: whyEvicted(pod)}
	if pod != nil && pod.DeletionTimestamp != nil {
		b.GoneBy = pod.DeletionTimestamp.Time // its grace period included
		b.DeletedAt = b.GoneBy.Add(-time.Duration(ptr.Deref(pod.DeletionGracePeriodSeconds, 0)) * time.Second)
	}
	switch {
	case pod == nil:
		b.State = elastic.Missing
	case pod.DeletionTimestamp != nil && pod.Status.Phase == corev1.PodFailed && rank > 0:
		b.State, b.EndedAt = elastic.Missing, endedAt(pod) // its Job keeps it until it makes the next one
	case pod.Status.Phase == corev1.PodSucceeded:
		b.State, b.EndedAt = elastic.Succeeded, endedAt(pod)
	case pod.Status.Phase == corev1.PodFailed:
		b.State = elastic.Failed
		b.ExitCode, b.FailedIn = exitCode(pod, container)
		b.EndedAt = endedAt(pod)
	case pod.DeletionTimestamp != nil || (nodeGone && !jobset.IsGated(pod)):
		b.State = elastic.Leaving
	case jobset.IsGated(pod):
		b.State = elastic.Gated
	default:
		observeContainers(&b, pod, rank)
	}
	return b
}

// observeContainers fills in what the containers of a pod that was placed tell.
func observeContainers(b *elastic.Broker, pod *corev1.Pod, rank int) {
	b.Ready, b.Idle = BrokerReady(pod), idle(pod)
	if ready := podCondition(pod, corev1.PodReady); b.Ready && ready.Status == corev1.ConditionTrue {
		b.ReadySince = ready.LastTransitionTime.Time
	}
	b.State, b.Trouble = elastic.Coming, Trouble(pod)
	flux := jobset.FluxStatus(pod)
	if since := runningSince(flux); since != nil {
		b.Since, b.Trouble = since.Time, "" // what is the matter with others is not the broker's
	}
	// That a container ended is told a moment before its pod is said to have ended.
	if b.Ready || (rank == 0 && flux != nil && ran(*flux)) {
		b.State = elastic.Up
	}
}

// idle reports whether the broker's container runs, and was ready and is so no more.
func idle(pod *corev1.Pod) bool {
	since, ready := runningSince(jobset.FluxStatus(pod)), podCondition(pod, corev1.PodReady)
	return since != nil && !BrokerReady(pod) && ready.Status == corev1.ConditionFalse && ready.LastTransitionTime.After(since.Time)
}

// runningSince is since when a container runs; nil if it does not.
func runningSince(status *corev1.ContainerStatus) *metav1.Time {
	if status == nil || status.State.Running == nil {
		return nil
	}
	return &status.State.Running.StartedAt
}

// troubles are kubelets' reasons why a container waits that may not pass by themselves.
var troubles = []string{
	"ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull", "ImageInspectError", "RegistryUnavailable", "SignatureValidationFailed",
	"CreateContainerConfigError", "CreateContainerError", "PreCreateHookError", "PreStartHookError", "PostStartHookError", "RunContainerError",
	"ResourceAllocationFailed", "CrashLoopBackOff",
}

// Trouble is what keeps a container of a pod from starting; "" if nothing does.
func Trouble(pod *corev1.Pod) string {
	for _, statuses := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range statuses {
			if waiting := statuses[i].State.Waiting; waiting != nil && slices.Contains(troubles, waiting.Reason) {
				return waiting.Reason
			}
		}
	}
	return ""
}

// endedAt is when the last container of a pod ended; zero if none tells.
func endedAt(pod *corev1.Pod) time.Time {
	var last time.Time
	for _, status := range pod.Status.ContainerStatuses {
		if ended := status.State.Terminated; ended != nil && ended.FinishedAt.After(last) {
			last = ended.FinishedAt.Time
		}
	}
	return last
}

// unknownEnds are the reasons of containers that ended unseen, as where a node was rebooted:
// the container runtime's, and the kubelet's. Their exit codes are made up.
var unknownEnds = []string{"Unknown", "ContainerStatusUnknown"}

// exitCode is that of the container that runs the command, or of an init container
// that failed before it, which is then named. It is nil where it is not known, and
// where the cluster ended the pod (Kubernetes' condition DisruptionTarget: eviction,
// preemption, a lost node; a kubelet that evicts for a full volume leaves no condition):
// then it says nothing about the command.
func exitCode(pod *corev1.Pod, container string) (code *int, failedIn string) {
	if podCondition(pod, corev1.DisruptionTarget).Status == corev1.ConditionTrue || pod.Status.Reason == evicted {
		return nil, ""
	}
	for _, status := range pod.Status.ContainerStatuses {
		if ended := status.State.Terminated; status.Name == container && ended != nil {
			if slices.Contains(unknownEnds, ended.Reason) {
				return nil, ""
			}
			return ptr.To(int(ended.ExitCode)), ""
		}
	}
	for _, status := range pod.Status.InitContainerStatuses {
		if ended := status.State.Terminated; ended != nil && ended.ExitCode != 0 {
			return ptr.To(int(ended.ExitCode)), "the lead's init container " + status.Name
		}
	}
	return nil, ""
}

// BrokerReady reports whether the container of a broker is ready, whatever runs beside it.
func BrokerReady(pod *corev1.Pod) bool {
	status := jobset.FluxStatus(pod)
	return status != nil && status.Ready
}

// workload is how the JobSet is. One of somebody else is none.
func workload(v View, attempt int32) elastic.Workload {
	set, admission, generation := v.JobSet, v.MiniCluster.Status.Admission, v.MiniCluster.Generation
	if admission != nil {
		generation = admission.Generation
	}
	switch {
	case set == nil || !metav1.IsControlledBy(set, v.MiniCluster):
		return elastic.Absent
	case set.DeletionTimestamp != nil:
		return elastic.Deleting
	case jobset.Attempt(set) != attempt, jobset.Generation(set) != generation, admission == nil && !untouched(v):
		return elastic.Stale
	case admission == nil:
		return elastic.Ahead
	case meta.IsStatusConditionTrue(set.Status.Conditions, string(jobsetapi.JobSetCompleted)):
		return elastic.Completed
	case meta.IsStatusConditionTrue(set.Status.Conditions, string(jobsetapi.JobSetFailed)):
		return elastic.Broken
	}
	return elastic.Active
}

// untouched reports whether the JobSet goes on, and all of its pods wait to be placed.
func untouched(v View) bool {
	ended := meta.IsStatusConditionTrue(v.JobSet.Status.Conditions, string(jobsetapi.JobSetCompleted)) ||
		meta.IsStatusConditionTrue(v.JobSet.Status.Conditions, string(jobsetapi.JobSetFailed))
	return !ended && v.JobSet.Status.Restarts == 0 && !slices.ContainsFunc(v.Pods, func(pod *corev1.Pod) bool {
		return v.current(pod) && (!jobset.IsGated(pod) || Ended(pod) || pod.DeletionTimestamp != nil)
	})
}

// Made reports whether there is a pod for every rank that there may be.
func Made(v View) bool { return len(BrokerPods(v)) >= int(MaxSize(v.MiniCluster)) }

// madeForName reports whether an object was made for a MiniCluster of the name.
func madeForName(object metav1.Object, name string) bool {
	owner := metav1.GetControllerOf(object)
	return owner != nil && owner.Kind == v1alpha2.MiniClusterKind && owner.Name == name &&
		owner.APIVersion == v1alpha2.GroupVersion.String()
}

func policy(mc *v1alpha2.MiniCluster) elastic.Policy {
	s, e := &mc.Spec, &mc.Spec.Elastic
	return elastic.Policy{
		Sizing:        admittedSizing(mc),
		QuorumTimeout: e.QuorumTimeout.Duration,
		StartTimeout:  e.StartTimeout.Duration,
		Deadline:      time.Duration(min(*s.DeadlineSeconds, math.MaxInt64/int64(time.Second))) * time.Second,
		Max:           mostBrokers(mc),
		Want:          wanted(mc),
		BearsChange:   bearsChange(mc),
		RecreateLimit: int(*e.Recreate.Limit),
		BackoffBase:   e.Recreate.BackoffBase.Duration,
		BackoffMax:    e.Recreate.BackoffMax.Duration,
		Shrink:        e.Recreate.SizePolicy == v1alpha2.SizeShrink,
		OnLoss:        elastic.LossPolicy(e.OnLoss),
		Retries:       int(s.BackoffLimit),
		Suspend:       s.Suspend,
		TTL:           ttl(s),
	}
}

// ttl is how long one stays that is done; nil: for ever.
func ttl(s *v1alpha2.MiniClusterSpec) *time.Duration {
	switch {
	case s.Cleanup:
		return new(time.Duration)
	case s.TTLSecondsAfterFinished != nil:
		return ptr.To(time.Duration(*s.TTLSecondsAfterFinished) * time.Second)
	}
	return nil
}

// admittedSizing is what the pods were told about sizes and tasks, which the size that is
// wanted now does not change.
func admittedSizing(mc *v1alpha2.MiniCluster) elastic.Sizing {
	s := Sizing(&mc.Spec)
	if a := mc.Status.Admission; a != nil && a.Wanted > 0 {
		s.Min, s.Size = int(min(mc.Spec.MinSize, a.Wanted)), int(a.Wanted)
	}
	return s
}

// wanted is the size that is wanted now, where that is another one than at the admission,
// or was since; else 0.
func wanted(mc *v1alpha2.MiniCluster) int {
	if a := mc.Status.Admission; a != nil && a.Wanted > 0 && (a.Resized || a.Wanted != mc.Spec.Size) {
		return int(mc.Spec.Size)
	}
	return 0
}

// mostBrokers is up to which size one may grow: its maxSize, or once it was told another
// size, that.
func mostBrokers(mc *v1alpha2.MiniCluster) int {
	most := int(MaxSize(mc))
	if want := wanted(mc); want > 0 {
		return min(want, most)
	}
	return most
}

// jitter is a number from 0 to 1 that differs from one MiniCluster and attempt to
// the next, and is the same after a restart.
func jitter(mc *v1alpha2.MiniCluster) float64 {
	hash := fnv.New32a()
	count := int32(0)
	if mc.Status.RequeueState != nil {
		count = mc.Status.RequeueState.Count
	}
	fmt.Fprintf(hash, "%s/%d", mc.UID, count)
	return float64(hash.Sum32()) / math.MaxUint32
}
