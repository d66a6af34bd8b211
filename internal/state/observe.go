// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"hash/fnv"
	"math"
	"slices"
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
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// View is what exists of one MiniCluster.
type View struct {
	// MiniCluster has its defaults.
	MiniCluster *v1alpha2.MiniCluster
	// JobSet is the JobSet of its name, whoever owns it; nil if there is none.
	JobSet *jobsetapi.JobSet
	// LeadJob is the Job that the JobSet has for the lead, if the pod of the lead is not there; nil if there is none.
	LeadJob *batchv1.Job
	// WorkersJob is the Job that the JobSet has for the followers, if the pods of some are not there; nil if there is none.
	WorkersJob *batchv1.Job
	// Pods are the pods that belong to a MiniCluster of its name (protocol.MiniClusterOf), also to an
	// earlier one.
	Pods []protocol.Pod
	// Node finds a node; nil if there is none.
	Node func(name string) *corev1.Node
	// Troubles says since when pods, by UID, have had trouble.
	Troubles map[types.UID]time.Time
	// Kept says since when evictions of pods, by UID, have been refused.
	Kept map[types.UID]time.Time
	// Queue is the queue of a MiniCluster with nodes; nil if nobody has made it.
	Queue *v1alpha2.MiniClusterQueue
	// LeadDown is when the pod of the lead was last seen to be not ready any more; zero if it never was.
	LeadDown time.Time
}

// Observe returns the observation for life.Decide, without the queue's offer and order and the
// result of the spec's check.
func Observe(v View) (*life.Observation, error) {
	record, err := recordOf(v.MiniCluster)
	if err != nil {
		return nil, err
	}
	mc := v.MiniCluster
	o := &life.Observation{Policy: Policy(mc), Record: record, Jitter: jitter(mc)}
	o.Policy.MaxGrace = Deadlines(v.Queue).Grace
	if a := mc.Status.Admission; a != nil {
		o.Outdated = a.Generation != 0 && a.Generation != mc.Generation
	}
	if o.Workload = workload(v, int32(o.Attempt())); o.Workload == life.Stale && succeededLate(v, int32(o.Attempts)) {
		o.Workload = life.Completed
	}
	o.ServicesGated = v.Services() != nil && o.Workload == life.Active
	observePods(o, v)
	return o, nil
}

// recordOf reads the record from the status.
func recordOf(mc *v1alpha2.MiniCluster) (life.Record, error) {
	s := &mc.Status
	r := life.Record{Started: ptr.Deref(s.StartTime, metav1.Time{}).Time}
	if finished := meta.FindStatusCondition(s.Conditions, v1alpha2.ConditionFinished); finished != nil && finished.Status == metav1.ConditionTrue {
		r.Outcome, r.Ended = life.Outcome(finished.Reason), finished.LastTransitionTime.Time
	}
	r.Runs, r.Checkpointed = int(s.Runs), ptr.Deref(s.CheckpointTime, metav1.Time{}).Time
	if s.ExitCode != nil {
		r.ExitCode = ptr.To(int(*s.ExitCode))
	}
	if requeue := s.RequeueState; requeue != nil {
		r.GivenUp, r.Most = int(requeue.Count), int(requeue.Size)
		r.Retried, r.Requeued, r.NotBefore = int(requeue.Retries), int(requeue.Deadlines), ptr.Deref(requeue.RequeueAt, metav1.Time{}).Time
	}
	if s.Avoid != nil {
		r.Avoid, r.AvoidUntil = avoided(s.Avoid), s.Avoid.Until.Time
	}
	for i := range s.Attempts { // the last ten that have ended
		r.Attempts = max(r.Attempts, int(s.Attempts[i].Attempt))
	}
	var err error
	if r.Admission, err = admissionOf(mc); r.Admission != nil {
		r.Attempts = max(r.Attempts, r.Admission.Attempt)
	}
	return r, err
}

// admissionOf is the admission of the status; nil if there is none.
func admissionOf(mc *v1alpha2.MiniCluster) (*life.Admission, error) {
	a := mc.Status.Admission
	if a == nil {
		return nil, nil
	}
	nodes, err := Nodes(mc)
	if err != nil {
		return nil, err
	}
	out := &life.Admission{Attempt: int(a.Attempt), Quorum: int(a.Quorum), At: a.Time.Time, Nodes: nodes, Lead: string(a.Lead)}
	read := func(field, text string) []int {
		var some []int
		if err == nil {
			some, err = ranks(field, text, len(nodes))
		}
		return some
	}
	out.Vacated, out.Moved, out.Joining = read("vacated", a.Vacated), read("moved", a.Moved), read("joining", a.Joining)
	out.Restarts, out.Losses, out.ReadySince = int(a.Restarts), int(a.Losses), ptr.Deref(a.ReadySince, metav1.Time{}).Time
	if a.Restart != nil {
		out.Restart = &life.Restarting{From: int(a.Restart.From), At: a.Restart.Time.Time, Reason: a.Restart.Reason, Again: a.Restart.Again}
	}
	if a.Eviction != nil {
		out.Eviction = &life.Eviction{Reason: a.Eviction.Reason, Message: a.Eviction.Message, Deadline: a.Eviction.Deadline.Time, Again: a.Eviction.Again}
	}
	if a.Drain != nil {
		out.Draining = &life.Draining{
			Ranks: read("drain.ranks", a.Drain.Ranks), At: ptr.Deref(a.Drain.Time, a.Time).Time,
			Deadline: ptr.Deref(a.Drain.Deadline, metav1.Time{}).Time, Reason: a.Drain.Reason, Again: a.Drain.Again,
		}
	}
	if a.Loss != nil {
		out.Loss = &life.Loss{Ranks: read("loss.ranks", a.Loss.Ranks), At: a.Loss.Time.Time}
	}
	return out, err
}

// observePods adds what pods show.
func observePods(o *life.Observation, v View) {
	if v.JobSet != nil && !metav1.IsControlledBy(v.JobSet, v.MiniCluster) && madeForName(v.JobSet, v.MiniCluster.Name) {
		o.Leftover++ // of an earlier MiniCluster of the name
	}
	countPods(o, v)
	if o.Admission == nil {
		return
	}
	pods, completed := v.Brokers(), v.completed()
	o.Brokers = make([]life.Broker, len(o.Admission.Nodes))
	for rank, node := range o.Admission.Nodes {
		o.Brokers[rank] = brokerOf(pods[rank], v.Node(node), node)
		if pod := pods[rank]; pod != nil {
			o.Brokers[rank].TroubleSince, o.Brokers[rank].KeptSince = v.Troubles[pod.UID], v.Kept[pod.UID]
		}
		if pods[rank] == nil && completed.Has(int64(rank-1)) {
			o.Brokers[rank].State = life.Succeeded
		}
		v.readRefusal(&o.Brokers[rank], rank, node)
		v.readLoss(&o.Brokers[rank], rank)
	}
	if v.leadSucceeded() {
		o.Brokers[0].State = life.Succeeded
	}
	o.LeadGone, o.SecondLead = v.leadIsGone(pods[0]), v.hasSecondLead(pods[0])
	if lead := pods[0]; lead != nil {
		o.Lead, o.Published, o.Stopped = string(lead.UID), lead.Quorum, lead.Stop != ""
		o.PublishedDrain, _ = ranks("drain.ranks", lead.Drain, len(o.Brokers)) // unreadable: written again
		o.PublishedRestarts, o.LeadDownSince = lead.Restarts, v.LeadDown
		o.ToldBegan, o.ToldAsked, o.ToldCheckpointed, o.ToldRetried = lead.Began, lead.Asked, lead.Checkpointed, lead.Retried
		o.ToldLost, _ = ranks("lost", lead.Lost, len(o.Brokers)) // unreadable: none
	}
}

// countPods adds how many pods exist, by what they mean to the next attempt.
func countPods(o *life.Observation, v View) {
	o.Existing = len(v.Pods)
	for i := range v.Pods {
		pod := &v.Pods[i]
		switch {
		case v.stranded(pod):
			o.Stranded++
			if by := pod.DeletionTimestamp.Time; by.After(o.StrandedBy) { // includes the grace period
				o.StrandedBy = by
			}
		case v.kept(pod):
			o.Kept++
			o.KeptBy = v.JobSet.DeletionTimestamp.Add(collectedWithin)
		case !v.current(pod): // also without a JobSet
			o.Leftover++
		case pod.Rank > 0 && pod.Ended:
			o.Done++
		}
		if v.occupies(pod) != "" {
			o.Occupied++
		}
		if v.bereft(pod) {
			o.Bereft++
		}
		if v.orphaned(pod) {
			o.Orphans++
		}
	}
}

// brokerOf is the broker of a pod on its rank's node. The pod and the node may be nil.
func brokerOf(pod *protocol.Pod, node *corev1.Node, name string) life.Broker {
	b := life.Broker{}
	if pod != nil {
		b = pod.Broker
		b.Misplaced = pod.Node != "" && pod.Node != name
	}
	b.NodeGone, b.NodeDown = node == nil, node != nil && !Ready(node)
	b.NodeReturned = node != nil && returned(&b, readySince(node))
	if b.NodeGone && (b.State == life.Coming || b.State == life.Up || b.State == life.Leaving) {
		b.EndUnknown = !b.Since.IsZero()
		b.State, b.Ready, b.ReadySince, b.Idle, b.Since, b.Trouble = life.Leaving, false, time.Time{}, false, time.Time{}, ""
	}
	return b
}

// occupies is the node that a pod of the MiniCluster holds; "" if it holds none.
func (v View) occupies(pod *protocol.Pod) string {
	if !v.owns(pod) || pod.Ended {
		return ""
	}
	return pod.Node
}

// collectedWithin is how long the garbage collector may take to delete the pods of a JobSet that is being deleted.
const collectedWithin = 30 * time.Second

// stranded reports whether a pod is being deleted on a node that is down or gone, where no kubelet
// ends it.
func (v View) stranded(pod *protocol.Pod) bool {
	if pod.DeletionTimestamp == nil || pod.Spec.NodeName == "" {
		return false
	}
	node := v.Node(pod.Spec.NodeName)
	return node == nil || !Ready(node)
}

// OccupiedNodes are the nodes that pods of the MiniCluster hold, without duplicates.
func (v View) OccupiedNodes() map[string]bool {
	nodes := map[string]bool{}
	for i := range v.Pods {
		if node := v.occupies(&v.Pods[i]); node != "" {
			nodes[node] = true
		}
	}
	return nodes
}

// NeedsQuota are the ranks that need quota, rising: those that hold a node by the record, and those
// whose pods hold one. services is true if the services pod needs quota: it may come, or does not
// wait behind its gate any more.
func (v View) NeedsQuota(o *life.Observation) (ranks []int, services bool) {
	if o.Admission != nil && o.Outcome == "" {
		ranks, services = o.Admission.Members(), true
	}
	for i := range v.Pods {
		switch pod := &v.Pods[i]; {
		case pod.Rank >= 0 && v.occupies(pod) != "":
			ranks = append(ranks, pod.Rank)
		case pod.Services && v.owns(pod) && !pod.Ended && !protocol.HasGate(pod.Pod):
			services = true
		}
	}
	slices.Sort(ranks)
	return slices.Compact(ranks), services
}

// Mounted reports whether a broker of the JobSet has the files of the JobSet: a container of its pod has begun.
func (v View) Mounted() bool {
	return slices.ContainsFunc(v.Pods, func(pod protocol.Pod) bool { return v.current(&pod) && !pod.Ended && protocol.Began(pod.Pod) })
}

// Admitted is a broker's pod of the JobSet as admission by the API server left it; nil if there is
// none.
func (v View) Admitted() *corev1.Pod {
	for i := range v.Pods {
		if pod := &v.Pods[i]; pod.Rank >= 0 && v.current(pod) {
			return protocol.Unpinned(pod.Pod)
		}
	}
	return nil
}

// Services is the services pod of the JobSet if it waits behind its gate; nil otherwise.
func (v View) Services() *protocol.Pod {
	for i := range v.Pods {
		if pod := &v.Pods[i]; pod.Services && v.current(pod) && protocol.HasGate(pod.Pod) && pod.DeletionTimestamp == nil {
			return pod
		}
	}
	return nil
}

// workload is the state of the JobSet. A JobSet of another owner counts as absent.
func workload(v View, attempt int32) life.Workload {
	set, admission, generation := v.JobSet, v.MiniCluster.Status.Admission, v.MiniCluster.Generation
	if admission != nil {
		generation = admission.Generation
	}
	switch {
	case set == nil && admission != nil && leadHasEnded(v):
		return life.Orphaned
	case set == nil || !metav1.IsControlledBy(set, v.MiniCluster):
		return life.Absent
	case set.DeletionTimestamp != nil:
		return life.Deleting
	case jobset.Attempt(set) != attempt, jobset.Generation(set) != generation, admission == nil && !untouched(v), hasOtherNodes(set, admission):
		return life.Stale
	case admission == nil:
		return life.Ahead
	case hasEnded(set, jobsetapi.JobSetCompleted):
		return life.Completed
	case hasEnded(set, jobsetapi.JobSetFailed):
		return life.Broken
	}
	return life.Active
}

// succeededLate reports whether the lead of the last attempt ended with exit code 0, although the attempt had been ended.
func succeededLate(v View, last int32) bool {
	return v.MiniCluster.Status.Admission == nil && jobset.Attempt(v.JobSet) == last && (hasEnded(v.JobSet, jobsetapi.JobSetCompleted) || v.leadSucceeded())
}

// hasOtherNodes reports whether the pods of a JobSet get the nodes of another admission when they
// are created.
func hasOtherNodes(set *jobsetapi.JobSet, admission *v1alpha2.Admission) bool {
	admitted := jobset.Admitted(set)
	return admitted != "" && (admission == nil || admitted != jobset.AdmittedAt(admission.Time.Time))
}

func hasEnded(set *jobsetapi.JobSet, how jobsetapi.JobSetConditionType) bool {
	return meta.IsStatusConditionTrue(set.Status.Conditions, string(how))
}

// untouched reports whether the JobSet has not ended and all of its pods wait to be placed.
func untouched(v View) bool {
	if hasEnded(v.JobSet, jobsetapi.JobSetCompleted) || hasEnded(v.JobSet, jobsetapi.JobSetFailed) || v.JobSet.Status.Restarts > 0 {
		return false
	}
	for i := range v.Pods {
		pod := &v.Pods[i]
		if v.current(pod) && (!pod.Gated || pod.Ended || pod.DeletionTimestamp != nil) {
			return false
		}
	}
	return true
}

// madeForName reports whether an object was made for a MiniCluster of this name.
func madeForName(object metav1.Object, name string) bool {
	owner := metav1.GetControllerOf(object)
	return owner != nil && owner.Kind == v1alpha2.MiniClusterKind && owner.Name == name &&
		owner.APIVersion == v1alpha2.GroupVersion.String()
}

// Ready reports whether a node is ready.
func Ready(node *corev1.Node) bool {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.Status == corev1.ConditionTrue
		}
	}
	return false
}

// returnGrace is how long after its node the pods of a node may become ready again.
const returnGrace = 30 * time.Second

// returned reports whether a broker that had run before its node was ready became ready again with the node.
func returned(b *life.Broker, node time.Time) bool {
	return b.Since.Before(node) && !b.ReadySince.IsZero() && b.ReadySince.Before(node.Add(returnGrace))
}

// readySince is since when a node has been ready, or has not been.
func readySince(node *corev1.Node) time.Time {
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			return condition.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// jitter is a number from 0 to 1 that differs between MiniClusters and attempts and survives a
// restart.
func jitter(mc *v1alpha2.MiniCluster) float64 {
	hash := fnv.New32a()
	count := int32(0)
	if mc.Status.RequeueState != nil {
		count = mc.Status.RequeueState.Count
	}
	fmt.Fprintf(hash, "%s/%d", mc.UID, count)
	return float64(hash.Sum32()) / math.MaxUint32
}
