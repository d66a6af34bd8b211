// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2ekueue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/test/harness"
)

// history has every state of pods, MiniClusters, Workloads and ClusterQueues, in the order in which
// the API server stored them: all kinds share one sequence of resource versions.
type history struct {
	mutex  sync.Mutex
	events []event
}

// event is one state of an object; gone is true if it was deleted.
type event struct {
	version uint64
	object  client.Object
	gone    bool
}

// watchHistory begins to record. It ends with the context.
func watchHistory(ctx context.Context, of *cluster) (*history, error) {
	config, err := of.RESTConfig()
	if err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{Scheme: env.Scheme})
	if err != nil {
		return nil, err
	}
	h := &history{}
	var listed []<-chan struct{}
	for object, list := range map[client.Object]client.ObjectList{
		&corev1.Pod{}: &corev1.PodList{}, &v1alpha2.MiniCluster{}: &v1alpha2.MiniClusterList{},
		&kueueapi.Workload{}: &kueueapi.WorkloadList{}, &kueueapi.ClusterQueue{}: &kueueapi.ClusterQueueList{},
	} {
		s := &store{history: h, last: map[types.UID]client.Object{}, listed: make(chan struct{})}
		listed = append(listed, s.listed)
		source := &toolscache.ListWatch{
			ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
				out := list.DeepCopyObject().(client.ObjectList)
				return out, c.List(ctx, out, &client.ListOptions{Raw: &options})
			},
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return c.Watch(ctx, list.DeepCopyObject().(client.ObjectList), &client.ListOptions{Raw: &options})
			},
		}
		go toolscache.NewReflector(source, object, s, 0).RunWithContext(ctx)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, done := range listed {
		select {
		case <-done:
		case <-ctx.Done():
			return nil, errors.New("watching: no answer")
		}
	}
	return h, nil
}

func (h *history) add(object client.Object, at string, gone bool) {
	version, err := strconv.ParseUint(at, 10, 64)
	if err != nil {
		panic(err)
	}
	object.SetManagedFields(nil)
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.events = append(h.events, event{version, object, gone})
}

// store takes what a reflector of one kind sees.
type store struct {
	*history
	last   map[types.UID]client.Object // only one goroutine uses it
	once   sync.Once
	listed chan struct{}
}

func (s *store) Add(object any) error { return s.Update(object) }

func (s *store) Update(object any) error {
	o := object.(client.Object)
	s.last[o.GetUID()] = o
	s.add(o, o.GetResourceVersion(), false)
	return nil
}

func (s *store) Delete(object any) error {
	o := object.(client.Object)
	delete(s.last, o.GetUID())
	s.add(o, o.GetResourceVersion(), true)
	return nil
}

// Replace sees all objects at once. When others were deleted is not known: before the list.
func (s *store) Replace(list []any, version string) error {
	there := map[types.UID]bool{}
	for _, object := range list {
		there[object.(client.Object).GetUID()] = true
	}
	for uid, object := range s.last {
		if !there[uid] {
			delete(s.last, uid)
			s.add(object, version, true)
		}
	}
	for _, object := range list {
		_ = s.Update(object)
	}
	s.once.Do(func() { close(s.listed) })
	return nil
}

func (s *store) Resync() error { return nil }

// of returns the events of a namespace, and of ClusterQueues, in order. It fails while the history
// has not seen yet that the pods, MiniClusters and Workloads of the namespace are gone.
func (h *history) of(namespace string) ([]event, error) {
	h.mutex.Lock()
	events := slices.DeleteFunc(slices.Clone(h.events), func(e event) bool {
		return e.object.GetNamespace() != "" && e.object.GetNamespace() != namespace
	})
	h.mutex.Unlock()
	slices.SortStableFunc(events, func(a, b event) int { return cmp.Compare(a.version, b.version) })
	there := map[types.UID]client.Object{}
	for _, e := range events {
		if there[e.object.GetUID()] = e.object; e.gone || e.object.GetNamespace() == "" {
			delete(there, e.object.GetUID())
		}
	}
	for _, object := range there {
		return nil, fmt.Errorf("%T %s is not seen to be gone", object, object.GetName())
	}
	return events, nil
}

// latest returns the last resource version that the history has seen of an object; 0 for none.
func (h *history) latest(object client.Object) uint64 {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	for i := len(h.events) - 1; i >= 0; i-- {
		if h.events[i].object.GetUID() == object.GetUID() {
			return h.events[i].version
		}
	}
	return 0
}

// awaitSeen waits until the history has seen an object as it is, and so all that was before of its kind.
func (s *site) awaitSeen(object client.Object) {
	s.T.Helper()
	version, err := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	if err != nil {
		s.T.Fatal(err)
	}
	harness.Eventually(s.T, func() error {
		if seen := s.history.latest(object); seen < version {
			return fmt.Errorf("of %T %s the version %d was seen, and not %d", object, object.GetName(), seen, version)
		}
		return nil
	})
}

// runsOf returns how many lead pods of a MiniCluster have run.
func (s *site) runsOf(mc *v1alpha2.MiniCluster) int {
	s.T.Helper()
	for _, pod := range s.Pods(mc) {
		s.awaitSeen(&pod)
	}
	leads := map[types.UID]bool{}
	s.history.mutex.Lock()
	defer s.history.mutex.Unlock()
	for _, e := range s.history.events {
		if pod, ok := e.object.(*corev1.Pod); ok && pod.Labels[v1alpha2.UIDLabel] == string(mc.UID) && pod.Status.Phase == corev1.PodRunning {
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
	s.history.mutex.Lock()
	defer s.history.mutex.Unlock()
	for _, e := range s.history.events {
		if wl, ok := e.object.(*kueueapi.Workload); ok && metav1.IsControlledBy(wl, mc) && !seen[wl.UID] {
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

// broken returns what must never be, and was, in a namespace: a placed broker without quota that its
// Workloads hold, more placed brokers than the quota of all ClusterQueues of a cohort, brokers on one
// node that together do not fit, and brokers on nodes that Kueue did not assign.
func (h *history) broken(namespace string) ([]string, error) {
	events, err := h.of(namespace)
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
				out = append(out, fmt.Sprintf("after %T %s was stored with version %d: %s", e.object, e.object.GetName(), e.version, problem))
			}
		}
	}
	return out, nil
}

func (m *moment) apply(e event) {
	switch object := e.object.(type) {
	case *corev1.Pod:
		if m.pods[object.UID] = object; e.gone {
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
		if m.workloads[owner.UID][object.UID] = object; e.gone {
			delete(m.workloads[owner.UID], object.UID)
		}
	case *kueueapi.ClusterQueue:
		if m.queues[object.Name] = object; e.gone {
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
