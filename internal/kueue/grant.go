// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package kueue

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/pkg/elastic/life"
)

// Cluster is what is read of Kueue beside Workloads. The functions return nil for an object that does
// not exist.
type Cluster struct {
	// Queue is the ClusterQueue of a LocalQueue.
	Queue    func(namespace string, name kueueapi.LocalQueueName) *kueueapi.ClusterQueue
	Flavor   func(name kueueapi.ResourceFlavorReference) *kueueapi.ResourceFlavor
	Topology func(name kueueapi.TopologyReference) *kueueapi.Topology
	Check    func(name kueueapi.AdmissionCheckReference) *kueueapi.AdmissionCheck
}

// Grant is what Kueue says about a MiniCluster.
type Grant struct {
	State life.QuotaState
	// Placeable is true if the MiniCluster is to get nodes now.
	Placeable bool
	// Quota is what the Workload holds; nil if it holds none.
	Quota *v1alpha2.Quota
	// Message says for users why there is no quota, or why Kueue took the quota back.
	Message string
	// Yield is what a preempted MiniCluster may keep.
	Yield Yield
}

// Read reads what Kueue says by a Workload; nil is a Workload that does not exist. Of the input, Read
// uses what is known before the scheduler is asked.
func Read(wl *kueueapi.Workload, in Input) Grant {
	if why := missing(wl, in); why != "" {
		return Grant{State: life.QuotaMissing, Message: why}
	}
	g := Grant{State: life.QuotaReserved}
	if isTrue(wl, kueueapi.WorkloadAdmitted) {
		g.State = life.QuotaAdmitted
	}
	var err error
	if g.Quota, err = quota(wl, in.Cluster); err != nil {
		g.Message = err.Error()
		return g
	}
	ours, others := ownChecks(wl, in.Cluster)
	switch {
	case in.MiniCluster.Status.Admission == nil && len(wl.Status.ReclaimablePods) > 0:
		g.Message = "gives back the quota of its last attempt"
	case awaitsTopology(wl):
		g.Message = "has quota, and waits until Kueue assigns domains of the topology"
	case slices.ContainsFunc(ours, func(i int) bool { return wl.Status.AdmissionChecks[i].State == kueueapi.CheckStateRetry }):
		g.Message = "gives its quota back, which found no room"
	case g.State == life.QuotaAdmitted, len(ours) > 0 && len(others) == 0:
		g.Placeable = true
	case len(others) > 0:
		g.Message = "has quota, and waits for admission checks of Kueue: " + strings.Join(others, ", ")
	default:
		g.Message = "has quota, and waits until Kueue admits it"
	}
	return g
}

// missing says why a MiniCluster has no quota; "" if it has.
func missing(wl *kueueapi.Workload, in Input) string {
	held := in.MiniCluster.Status.Admission
	switch {
	case wl == nil && held != nil:
		return "its Workload was deleted"
	case wl == nil:
		return "asks Kueue for quota"
	case wl.DeletionTimestamp != nil:
		return fmt.Sprintf("its Workload %s was deleted", wl.Name)
	case isTrue(wl, kueueapi.WorkloadFinished):
		return fmt.Sprintf("Kueue took its Workload %s for finished: %s", wl.Name, message(wl, kueueapi.WorkloadFinished))
	case isTrue(wl, kueueapi.WorkloadEvicted) && isTrue(wl, kueueapi.WorkloadQuotaReserved):
		return "Kueue took the quota back: " + message(wl, kueueapi.WorkloadEvicted) + requeued(wl)
	case !ptr.Deref(wl.Spec.Active, true):
		return whyInactive(wl)
	case !reserved(wl):
		return waits(wl, in)
	}
	return unfit(wl, in)
}

// whyInactive says why a Workload asks for no quota.
func whyInactive(wl *kueueapi.Workload) string {
	why, until := wl.Annotations[neverFitsAnnotation], restsUntil(wl)
	switch {
	case why == "":
		return fmt.Sprintf("its Workload %s is not active: %s", wl.Name, cmp.Or(message(wl, kueueapi.WorkloadEvicted), "somebody has deactivated it"))
	case until.IsZero():
		return why
	}
	return fmt.Sprintf("%s; asks Kueue again at %s", why, until.UTC().Format(time.RFC3339))
}

// unfit says why the quota of a Workload is not for the MiniCluster as it is; "" if it is.
func unfit(wl *kueueapi.Workload, in Input) string {
	held := in.MiniCluster.Status.Admission
	switch {
	case held != nil && !Holds(wl, held.Quota):
		return "Kueue took the quota back, and granted other quota"
	case held == nil && outdated(wl, in):
		return "asks Kueue for quota for its new spec"
	}
	return ""
}

// reserved reports whether a Workload has quota.
func reserved(wl *kueueapi.Workload) bool {
	return isTrue(wl, kueueapi.WorkloadQuotaReserved) && wl.Status.Admission != nil
}

// Holds reports whether a Workload still has the quota under which its MiniCluster was admitted.
// Kueue may take back quota that is not admitted, and grant other quota, without an eviction, perhaps
// within a second, which is how exact the time is. Flavors are not compared: somebody may edit their labels.
func Holds(wl *kueueapi.Workload, q *v1alpha2.Quota) bool {
	if wl == nil || q == nil || !reserved(wl) {
		return false
	}
	size := int32(0)
	for _, set := range wl.Status.Admission.PodSetAssignments {
		if set.Name != services {
			size += ptr.Deref(set.Count, countOf(wl, set.Name))
		}
	}
	at := reservedAt(wl)
	return wl.UID == q.Workload && at.Equal(&q.Time) && string(wl.Status.Admission.ClusterQueue) == q.ClusterQueue && size == q.Size
}

// waits says why a Workload has no quota.
func waits(wl *kueueapi.Workload, in Input) string {
	text := message(wl, kueueapi.WorkloadQuotaReserved)
	if text == "" {
		text = "Kueue has not decided yet"
	}
	return fmt.Sprintf("waits for quota in Kueue's queue %q%s: %s%s", wl.Spec.QueueName, in.Position, text, requeued(wl))
}

// requeued says how often a Workload was queued again, and when it will be.
func requeued(wl *kueueapi.Workload) string {
	r := ptr.Deref(wl.Status.RequeueState, kueueapi.RequeueState{})
	times := ptr.Deref(r.Count, 0)
	for i := range wl.Status.AdmissionChecks {
		times += ptr.Deref(wl.Status.AdmissionChecks[i].RetryCount, 0)
	}
	switch at := r.RequeueAt; {
	case at == nil && times == 0:
		return ""
	case at == nil:
		return fmt.Sprintf("; queued again %d times", times)
	case times == 0:
		return "; queued again at " + at.UTC().Format(time.RFC3339)
	default:
		return fmt.Sprintf("; queued again %d times, next at %s", times, at.UTC().Format(time.RFC3339))
	}
}

// quota is what a Workload with a reservation holds for brokers.
func quota(wl *kueueapi.Workload, cluster Cluster) (*v1alpha2.Quota, error) {
	return quotaOf(wl, cluster, func(set kueueapi.PodSetReference) bool { return set != services })
}

// quotaOf is what a Workload with a reservation holds for some pod sets.
func quotaOf(wl *kueueapi.Workload, cluster Cluster, counts func(kueueapi.PodSetReference) bool) (*v1alpha2.Quota, error) {
	q := &v1alpha2.Quota{ClusterQueue: string(wl.Status.Admission.ClusterQueue), Workload: wl.UID, Time: reservedAt(wl)}
	flavors := map[kueueapi.ResourceFlavorReference]bool{}
	for _, set := range wl.Status.Admission.PodSetAssignments {
		if !counts(set.Name) {
			continue
		}
		q.Size += ptr.Deref(set.Count, countOf(wl, set.Name))
		for _, name := range set.Flavors {
			flavors[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(flavors)) {
		flavor := cluster.Flavor(name)
		if flavor == nil {
			return nil, fmt.Errorf("has quota of the flavor %q, which does not exist", name)
		}
		if err := addNodes(q, flavor.Spec.NodeLabels, flavor.Spec.Tolerations); err != nil {
			return nil, err
		}
	}
	if err := addUpdates(q, wl, counts); err != nil {
		return nil, err
	}
	var err error
	q.Topology, err = assigned(wl, counts)
	return q, err
}

// addUpdates is addNodes for what admission checks of others say about some pod sets.
func addUpdates(q *v1alpha2.Quota, wl *kueueapi.Workload, counts func(kueueapi.PodSetReference) bool) error {
	for i := range wl.Status.AdmissionChecks {
		for _, update := range wl.Status.AdmissionChecks[i].PodSetUpdates {
			if !counts(update.Name) {
				continue
			}
			if err := addNodes(q, update.NodeSelector, update.Tolerations); err != nil {
				return err
			}
		}
	}
	return nil
}

// addNodes confines a quota to nodes with some labels, and tolerates their taints.
func addNodes(q *v1alpha2.Quota, selector map[string]string, tolerations []corev1.Toleration) error {
	if q.NodeSelector == nil && len(selector) > 0 {
		q.NodeSelector = map[string]string{}
	}
	for _, label := range slices.Sorted(maps.Keys(selector)) {
		if value, other := q.NodeSelector[label]; other && value != selector[label] {
			return fmt.Errorf("has quota of flavors that share no node: one has %s=%s, another %s=%s", label, value, label, selector[label])
		}
		q.NodeSelector[label] = selector[label]
	}
	for _, t := range tolerations {
		if !slices.ContainsFunc(q.Tolerations, func(has corev1.Toleration) bool { return equality.Semantic.DeepEqual(has, t) }) {
			q.Tolerations = append(q.Tolerations, t)
		}
	}
	return nil
}

// Confine returns a pod that can run on the nodes of a quota alone. A nil quota confines nothing.
func Confine(pod *corev1.Pod, q *v1alpha2.Quota) *corev1.Pod {
	if pod == nil || q == nil || (len(q.NodeSelector) == 0 && len(q.Tolerations) == 0) {
		return pod
	}
	out := *pod
	out.Spec.NodeSelector = maps.Clone(pod.Spec.NodeSelector)
	if out.Spec.NodeSelector == nil {
		out.Spec.NodeSelector = map[string]string{}
	}
	maps.Copy(out.Spec.NodeSelector, q.NodeSelector)
	out.Spec.Tolerations = slices.Concat(pod.Spec.Tolerations, q.Tolerations)
	return &out
}

// ownChecks are the admission checks of a Workload that this project answers, and those of others
// that are not ready.
func ownChecks(wl *kueueapi.Workload, cluster Cluster) (ours []int, others []string) {
	for i, state := range wl.Status.AdmissionChecks {
		check := cluster.Check(state.Name)
		switch {
		case check != nil && check.Spec.ControllerName == v1alpha2.PlacementCheck:
			ours = append(ours, i)
		case state.State != kueueapi.CheckStateReady:
			others = append(others, string(state.Name))
		}
	}
	return ours, others
}

// countOf is the number of pods of a pod set.
func countOf(wl *kueueapi.Workload, name kueueapi.PodSetReference) int32 {
	for i := range wl.Spec.PodSets {
		if wl.Spec.PodSets[i].Name == name {
			return wl.Spec.PodSets[i].Count
		}
	}
	return 0
}

// reservedAt is when the quota of a Workload was reserved.
func reservedAt(wl *kueueapi.Workload) metav1.Time {
	return meta.FindStatusCondition(wl.Status.Conditions, kueueapi.WorkloadQuotaReserved).LastTransitionTime
}

func isTrue(wl *kueueapi.Workload, kind string) bool {
	return meta.IsStatusConditionTrue(wl.Status.Conditions, kind)
}

// message is the message of a condition; "" if the condition is not set.
func message(wl *kueueapi.Workload, kind string) string {
	if condition := meta.FindStatusCondition(wl.Status.Conditions, kind); condition != nil {
		return condition.Message
	}
	return ""
}
