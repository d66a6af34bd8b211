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
	// HasNode reports whether a node exists.
	HasNode func(name string) bool
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
		out.Draining = &elastic.Draining{Deadline: a.Drain.Deadline.Time}
		if out.Draining.Ranks, err = ranks("drain.ranks", a.Drain.Ranks, out.Size); err != nil {
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
		o.Brokers[rank] = brokerOf(pods[rank], v.MiniCluster.Name, !v.HasNode(node))
		if pod := pods[rank]; pod != nil {
			observePlace(&o.Brokers[rank], pod, node)
		}
	}
	vacated, err := ranks("vacated", v.MiniCluster.Status.Admission.Vacated, o.Admission.Size)
	if err != nil {
		return err
	}
	for _, rank := range vacated {
		o.Brokers[rank].Vacated = true
	}
	if lead := pods[0]; lead != nil {
		o.Published = jobset.Quorum(lead)
		o.PublishedDrain, _ = ranks("drain.ranks", jobset.Drain(lead), o.Admission.Size) // what cannot be read is written anew
	}
	return nil
}

// observePlace fills in how a pod and the node that is meant for it get along.
func observePlace(b *elastic.Broker, pod *corev1.Pod, node string) {
	pinned := jobset.PinnedNode(pod)
	b.Placed = jobset.PlacedAt(pod)
	b.Misplaced = pinned != "" && pinned != node
	b.Unbindable = pinned != "" && (Unschedulable(pod) || turnedAway(pod))
}

// Unschedulable reports whether kube-scheduler finds no node for a pod that waits for
// nothing else.
func Unschedulable(pod *corev1.Pod) bool {
	if pod.Spec.NodeName != "" || pod.DeletionTimestamp != nil || Ended(pod) || jobset.IsGated(pod) {
		return false
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled {
			return condition.Status == corev1.ConditionFalse && condition.Reason == corev1.PodReasonUnschedulable
		}
	}
	return false
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

func brokerOf(pod *corev1.Pod, container string, nodeGone bool) elastic.Broker {
	b := elastic.Broker{NodeGone: nodeGone}
	if pod != nil && pod.DeletionTimestamp != nil {
		b.GoneBy = pod.DeletionTimestamp.Time // its grace period included
	}
	switch {
	case pod == nil:
		b.State = elastic.Missing
	case pod.Status.Phase == corev1.PodSucceeded:
		b.State = elastic.Succeeded
	case pod.Status.Phase == corev1.PodFailed:
		b.State = elastic.Failed
		b.ExitCode, b.FailedIn = exitCode(pod, container)
	case pod.DeletionTimestamp != nil || (nodeGone && !jobset.IsGated(pod)):
		b.State = elastic.Leaving
	case jobset.IsGated(pod):
		b.State = elastic.Gated
	case PodReady(pod):
		b.State = elastic.Up
	default:
		b.State = elastic.Coming
	}
	return b
}

// exitCode is that of the container that runs the command, or of an init container
// that failed before it, which is then named. It is nil where it is not known, and
// where the cluster ended the pod (Kubernetes' condition DisruptionTarget: eviction,
// preemption, a lost node): then it says nothing about the command.
func exitCode(pod *corev1.Pod, container string) (code *int, failedIn string) {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.DisruptionTarget && condition.Status == corev1.ConditionTrue {
			return nil, ""
		}
	}
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == container && status.State.Terminated != nil {
			return ptr.To(int(status.State.Terminated.ExitCode)), ""
		}
	}
	for _, status := range pod.Status.InitContainerStatuses {
		if ended := status.State.Terminated; ended != nil && ended.ExitCode != 0 {
			return ptr.To(int(ended.ExitCode)), "the lead's init container " + status.Name
		}
	}
	return nil, ""
}

// PodReady reports whether a pod says that it is.
func PodReady(pod *corev1.Pod) bool {
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
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
		Sizing:        Sizing(s),
		QuorumTimeout: e.QuorumTimeout.Duration,
		StartTimeout:  e.StartTimeout.Duration,
		Deadline:      time.Duration(min(*s.DeadlineSeconds, math.MaxInt64/int64(time.Second))) * time.Second,
		Max:           int(MaxSize(mc)),
		BearsChange:   bearsChange(mc),
		RecreateLimit: int(*e.Recreate.Limit),
		BackoffBase:   e.Recreate.BackoffBase.Duration,
		BackoffMax:    e.Recreate.BackoffMax.Duration,
		Retries:       int(s.BackoffLimit),
		Suspend:       s.Suspend,
		Cleanup:       s.Cleanup,
	}
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
