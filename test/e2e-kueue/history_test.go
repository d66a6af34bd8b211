// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2ekueue

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// runsOf returns how many lead pods of a MiniCluster have run.
func (s *site) runsOf(mc *v1alpha2.MiniCluster) int {
	s.T.Helper()
	for _, pod := range s.Pods(mc) {
		s.AwaitSeen(s.history, &pod)
	}
	leads := map[types.UID]bool{}
	for _, e := range s.history.All() {
		if pod, ok := e.Object.(*corev1.Pod); ok && pod.Labels[v1alpha2.UIDLabel] == string(mc.UID) && pod.Status.Phase == corev1.PodRunning {
			if rank, ok := protocol.Rank(pod); ok && rank == 0 {
				leads[pod.UID] = true
			}
		}
	}
	return len(leads)
}

// workloadsSeen returns how many Workloads a MiniCluster has ever had, by name.
func (s *site) workloadsSeen(mc *v1alpha2.MiniCluster) map[string]int {
	seen, counts := map[types.UID]bool{}, map[string]int{}
	for _, e := range s.history.All() {
		if wl, ok := e.Object.(*kueueapi.Workload); ok && metav1.IsControlledBy(wl, mc) && !seen[wl.UID] {
			seen[wl.UID] = true
			counts[wl.Name]++
		}
	}
	return counts
}

// moment is the state of a namespace at one resource version.
type moment struct {
	pods      map[types.UID]*corev1.Pod
	workloads map[types.UID]map[types.UID]*kueueapi.Workload // by the MiniCluster and their own UID
	queues    map[string]*kueueapi.ClusterQueue
	quota     map[types.UID]string // ClusterQueue, by MiniCluster that was admitted with quota
}

// broken returns what must never be, and was, in the namespace: a placed broker without quota that its
// Workloads hold, more placed brokers than the quota of all ClusterQueues of a cohort, brokers on one
// node that together do not fit, and brokers on nodes that Kueue did not assign.
func (s *site) broken() ([]string, error) {
	events, err := s.history.Of(s.Namespace)
	if err != nil {
		return nil, err
	}
	m := moment{
		pods: map[types.UID]*corev1.Pod{}, workloads: map[types.UID]map[types.UID]*kueueapi.Workload{},
		queues: map[string]*kueueapi.ClusterQueue{}, quota: map[types.UID]string{},
	}
	var out []string
	for _, e := range events {
		m.apply(e)
		for _, problem := range m.problems() {
			if len(out) < 5 {
				out = append(out, fmt.Sprintf("after %T %s was stored with version %d: %s", e.Object, e.Object.GetName(), e.Version, problem))
			}
		}
	}
	return out, nil
}

func (m *moment) apply(e harness.Event) {
	switch object := e.Object.(type) {
	case *corev1.Pod:
		if m.pods[object.UID] = object; e.Gone {
			delete(m.pods, object.UID)
		}
	case *v1alpha2.MiniCluster: // what it had counts as long as it has pods
		if admission := object.Status.Admission; admission != nil && admission.Quota != nil {
			m.quota[object.UID] = admission.Quota.ClusterQueue
		} else if admission != nil {
			delete(m.quota, object.UID)
		}
	case *kueueapi.Workload:
		owner := metav1.GetControllerOf(object)
		if owner == nil {
			return
		}
		if m.workloads[owner.UID] == nil {
			m.workloads[owner.UID] = map[types.UID]*kueueapi.Workload{}
		}
		if m.workloads[owner.UID][object.UID] = object; e.Gone {
			delete(m.workloads[owner.UID], object.UID)
		}
	case *kueueapi.ClusterQueue:
		if m.queues[object.Name] = object; e.Gone {
			delete(m.queues, object.Name)
		}
	}
}

func (m *moment) problems() []string {
	brokers := map[types.UID]map[kueueapi.PodSetReference]int32{} // placed, by MiniCluster
	nodes := map[types.UID]map[string]int32{}                     // of those, by MiniCluster
	cpus, pools := map[string]int64{}, map[string]int64{}         // by node, and by cohort or ClusterQueue
	for _, pod := range m.pods {
		node, owner := protocol.PinnedNode(pod), types.UID(pod.Labels[v1alpha2.UIDLabel])
		rank, isBroker := protocol.Rank(pod)
		if node == "" || protocol.Ended(pod) || !isBroker {
			continue
		}
		cpu := pod.Spec.Containers[0].Resources.Requests.Cpu().Value()
		cpus[node] += cpu
		queue, ok := m.quota[owner]
		if !ok {
			continue
		}
		if brokers[owner] == nil {
			brokers[owner], nodes[owner] = map[kueueapi.PodSetReference]int32{}, map[string]int32{}
		}
		set := kueueapi.PodSetReference("workers")
		if rank == 0 {
			set = "lead"
		}
		brokers[owner][set]++
		nodes[owner][node]++
		pools[m.pool(queue)] += cpu
	}
	var out []string
	for node, cpu := range cpus {
		if cpu > 8 {
			out = append(out, fmt.Sprintf("brokers with %d CPUs are on %s, which has 8", cpu, node))
		}
	}
	for pool, cpu := range pools {
		if most := m.nominal(pool); cpu > most {
			out = append(out, fmt.Sprintf("brokers with %d CPUs are placed with the quota of %s, which is %d", cpu, pool, most))
		}
	}
	for owner, sets := range brokers {
		held := held(m.workloads[owner])
		for set, placed := range sets {
			if placed > held[set] {
				out = append(out, fmt.Sprintf("%d brokers of podSet %s are placed, and the Workloads hold quota for %d: %s", placed, set, held[set], owner))
			}
		}
	}
	return append(out, m.unassigned(nodes)...)
}

// unassigned are brokers on nodes to which Kueue assigned fewer of their MiniCluster, or none.
func (m *moment) unassigned(nodes map[types.UID]map[string]int32) (out []string) {
	for owner, placed := range nodes {
		for _, workload := range m.workloads[owner] {
			if workload.Status.Admission == nil {
				continue
			}
			sets := workload.Status.Admission.PodSetAssignments
			if last := len(sets) - 1; sets[last].TopologyAssignment == nil || !slices.Contains(sets[last].TopologyAssignment.Levels, corev1.LabelHostname) {
				continue
			}
			assigned := assignedTo(workload)
			for node, count := range placed {
				if count > assigned[node] {
					out = append(out, fmt.Sprintf("%d brokers are on %s, to which Kueue assigned %d: %s", count, node, assigned[node], owner))
				}
			}
		}
	}
	return out
}

// pool is the cohort of a ClusterQueue, or the ClusterQueue.
func (m *moment) pool(queue string) string {
	if q := m.queues[queue]; q != nil && q.Spec.CohortName != "" {
		return string(q.Spec.CohortName)
	}
	return queue
}

// nominal is the number of CPUs of a cohort, or of a ClusterQueue.
func (m *moment) nominal(pool string) int64 {
	sum := int64(0)
	for name, queue := range m.queues {
		if m.pool(name) != pool {
			continue
		}
		for _, flavor := range queue.Spec.ResourceGroups[0].Flavors {
			sum += flavor.Resources[0].NominalQuota.Value()
		}
	}
	return sum
}

// held is the number of pods for which Workloads hold quota, by podSet.
func held(workloads map[types.UID]*kueueapi.Workload) map[kueueapi.PodSetReference]int32 {
	sum := map[kueueapi.PodSetReference]int32{}
	for _, wl := range workloads {
		if wl.Status.Admission == nil || !meta.IsStatusConditionTrue(wl.Status.Conditions, kueueapi.WorkloadQuotaReserved) ||
			meta.IsStatusConditionTrue(wl.Status.Conditions, kueueapi.WorkloadFinished) {
			continue
		}
		left := map[kueueapi.PodSetReference]int32{}
		for i := range wl.Spec.PodSets {
			left[wl.Spec.PodSets[i].Name] = wl.Spec.PodSets[i].Count
		}
		for _, r := range wl.Status.ReclaimablePods {
			left[r.Name] -= r.Count
		}
		for _, assigned := range wl.Status.Admission.PodSetAssignments {
			sum[assigned.Name] += min(*assigned.Count, left[assigned.Name])
		}
	}
	return sum
}
