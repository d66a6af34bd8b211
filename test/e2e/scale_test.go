// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/idset"
)

// departures sees how pods of a site that run are deleted: whether the lead had been told
// that the rank leaves, and whether it was idle.
type departures struct {
	mutex sync.Mutex
	told  idset.Set    // by the lead's pod, at any time: the informer keeps no order among pods
	ready map[int]bool // pods that run, by rank
	left  []int
	wrong []string
}

// watchDepartures begins to watch the pods of one MiniCluster, the only one with a lead
// of that name.
func (s *site) watchDepartures(mc *v1alpha2.MiniCluster) *departures {
	s.t.Helper()
	d := &departures{ready: map[int]bool{}}
	s.watch(func(object any, gone bool) {
		if pod := object.(*corev1.Pod); !gone && pod.Labels[v1alpha2.MiniClusterLabel] == mc.Name {
			d.see(pod)
		}
	}, &corev1.Pod{})
	return d
}

func (d *departures) see(pod *corev1.Pod) {
	rank, ok := protocol.Rank(pod)
	if !ok {
		return
	}
	d.mutex.Lock()
	defer d.mutex.Unlock()
	_, running := d.ready[rank]
	switch {
	case pod.DeletionTimestamp == nil && pod.Status.Phase == corev1.PodRunning:
		if d.ready[rank] = protocol.Read(pod).Broker.Ready; rank == 0 {
			drain, _ := idset.Parse(protocol.Read(pod).Drain)
			d.told = idset.Union(d.told, drain)
		}
	case pod.DeletionTimestamp != nil && running:
		if d.ready[rank] {
			d.wrong = append(d.wrong, fmt.Sprintf("rank %d had to leave and was not idle", rank))
		}
		delete(d.ready, rank)
		d.left = append(d.left, rank)
	}
}

// check waits until some ranks have left, and checks that they did as they should.
func (d *departures) check(t *testing.T, want ...int) {
	t.Helper()
	eventually(t, func() error {
		d.mutex.Lock()
		defer d.mutex.Unlock()
		if left := slices.Sorted(slices.Values(d.left)); !slices.Equal(left, want) {
			return fmt.Errorf("ranks %v have left, want %v", left, want)
		}
		for _, rank := range want {
			if !d.told.Has(int64(rank)) {
				return fmt.Errorf("the lead was not told that rank %d leaves", rank)
			}
		}
		return nil
	})
	d.mutex.Lock()
	defer d.mutex.Unlock()
	for _, wrong := range d.wrong {
		t.Error(wrong)
	}
}

// launcher begins a MiniCluster whose command bears that brokers come and go, and runs on.
func (s *site) launcher(name string) *v1alpha2.MiniCluster {
	s.t.Helper()
	return s.create(s.miniCluster(name).Size(3).MinSize(2).MaxSize(4).Limit(corev1.ResourceMemory, "1Gi").Launcher().
		PodAnnotation(simulator.Runtime, "1h").PodAnnotation(simulator.Busy, "3s"))
}

// scale does what users do.
func (s *site) scale(mc *v1alpha2.MiniCluster, replicas int) {
	s.t.Helper()
	s.kubectl("scale", "mc/"+mc.Name, fmt.Sprintf("--replicas=%d", replicas))
}

// awaitBrokers waits until a MiniCluster runs with so many brokers, on as many nodes.
func (s *site) awaitBrokers(mc *v1alpha2.MiniCluster, n int32) {
	s.t.Helper()
	s.await(mc, fmt.Sprintf("running with %d brokers", n), func(mc *v1alpha2.MiniCluster) bool {
		return state(mc) == v1alpha2.StateRunning && mc.Status.Size == n && mc.Status.Nodes == n && mc.Status.Admission.Drain == nil
	})
}

// A command that bears it follows `kubectl scale`: ranks that are too many end their work
// and leave, and come back when they are wanted again.
func TestScale(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4)
	record := s.newRecord()
	mc := s.launcher("scales")
	s.awaitBrokers(mc, 3)
	s.patch(mc, `{"spec":{"elastic":{"grow":true}}}`)
	s.awaitBrokers(mc, 4) // nobody else wants the nodes
	departures := s.watchDepartures(mc)

	s.scale(mc, 2)
	record.await(s, mc, "asking two to leave", func(mc *v1alpha2.MiniCluster) bool {
		return mc.Status.Admission != nil && mc.Status.Admission.Drain != nil && mc.Status.Admission.Drain.Ranks == "2-3"
	})
	s.awaitBrokers(mc, 2)
	for _, rank := range []int{2, 3} {
		s.awaitPod(mc, rank, "behind its gate again", isGated)
	}
	departures.check(t, 2, 3)
	s.awaitSuccess(s.create(s.miniCluster("other").Size(2)))

	s.scale(mc, 4)
	s.awaitBrokers(mc, 4)
	lead := s.awaitPod(mc, 0, "told that nobody leaves", func(pod *corev1.Pod) bool { return protocol.Read(pod).Drain == "" })
	if lead.Status.Phase != corev1.PodRunning {
		t.Errorf("the lead is %s", lead.Status.Phase)
	}
	s.awaitDecisions(mc, map[string]int{"Admitted": 1, "Started": 1, "Grew": 2, "Draining": 1, "Vacated": 1})
}

// A MiniCluster grows to nodes that its pods can use after admission by the API server: a
// RuntimeClass adds a node selector and a toleration to them. The next manager, which has not
// checked the pods, knows these from the pods that exist.
func TestScaleWithRuntimeClass(t *testing.T) {
	s := newSite(t, 5)
	class := &nodev1.RuntimeClass{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace}, Handler: "runc",
		Scheduling: &nodev1.Scheduling{
			NodeSelector: map[string]string{"e2e-runtime": s.namespace},
			Tolerations:  []corev1.Toleration{{Key: "e2e-runtime", Operator: corev1.TolerationOpExists}},
		},
	}
	if err := env.client.Create(s.ctx, class); err != nil {
		t.Fatal(err)
	}
	special := s.nodes[1:] // the first node is an ordinary one
	for _, name := range special {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
		s.patch(node, `{"metadata":{"labels":{"e2e-runtime":%q}},"spec":{"taints":[{"key":"e2e-runtime","effect":"NoSchedule"}]}}`, s.namespace)
	}
	t.Cleanup(func() {
		for _, name := range special {
			s.patch(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, `{"metadata":{"labels":{"e2e-runtime":null}},"spec":{"taints":null,"unschedulable":false}}`)
		}
		s.delete(class)
	})
	cordon(s, special[2], true)
	cordon(s, special[3], true)
	mc := s.create(s.miniCluster("special").Size(2).MaxSize(4).Launcher().Grow().PodAnnotation(simulator.Runtime, "1h").
		Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.Pod.RuntimeClassName = class.Name }))
	s.awaitBrokers(mc, 2)
	cordon(s, special[2], false)
	s.awaitBrokers(mc, 3)

	env.manager.Stop()
	restartManager(t)
	cordon(s, special[3], false)
	s.awaitBrokers(mc, 4)
	nodes, err := hostlist.Decode(mc.Status.Admission.Nodes, 4)
	if err != nil || nodes[2] != special[2] || nodes[3] != special[3] {
		t.Errorf("it has the nodes %v (%v)", nodes, err)
	}
	s.awaitDecisions(mc, map[string]int{"Admitted": 1, "Started": 1, "Grew": 2})
}

// The API server refuses what cannot be.
func TestScaleRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, 1)
	mc := s.create(s.miniCluster("scales").Size(3).MinSize(2).MaxSize(4).Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.Suspend = true }))
	for replicas, want := range map[string]string{"5": "maxSize must be at least size", "0": "should be greater than or equal to 1"} {
		out, err := kubectl(s.ctx, "-n", s.namespace, "scale", "mc/scales", "--replicas="+replicas)
		if err == nil || !strings.Contains(string(out), want) {
			t.Errorf("scaling to %s says %q (%v)", replicas, out, err)
		}
	}
	if size := s.get(mc).Spec.Size; size != 3 {
		t.Errorf("its size is %d", size)
	}
	wrong := s.miniCluster("wrong").Size(2).MinSize(3).New()
	wrong.Namespace = s.namespace
	if err := env.client.Create(s.ctx, wrong); err == nil || !strings.Contains(err.Error(), "minSize must be at most size") {
		t.Errorf("creating one with minSize above size says %v", err)
	}
}

// A command that cannot grow has no pods that are never used, and its size may be raised while it
// waits.
func TestMaxSizeOfARigidCommand(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	first := s.create(s.miniCluster("first").PodAnnotation(simulator.Runtime, untilTold))
	s.awaitState(first, v1alpha2.StateRunning)
	mc := s.create(s.miniCluster("rigid").Size(3).Tasks(6).MinSize(3).MaxSize(9).PodAnnotation(simulator.Runtime, untilTold).Spec(needsScheduler))
	s.awaitState(mc, v1alpha2.StateQueued)
	s.patch(mc, `{"spec":{"size":2,"minSize":2}}`)
	s.awaitState(mc, v1alpha2.StateRunning)
	if n := len(s.pods(mc)); n != 2 || mc.Status.MaximumSize != 2 {
		t.Errorf("for two brokers it has %d pods, and a largest size of %d", n, mc.Status.MaximumSize)
	}
	if mc.Status.Tasks != 4 || *mc.Status.TasksFor != (v1alpha2.TasksFor{Size: 3, Tasks: 6}) {
		t.Errorf("of 6 tasks for 3 brokers it has %d for 2 (%v)", mc.Status.Tasks, mc.Status.TasksFor)
	}
	waits := s.create(s.miniCluster("waits").Size(1).MaxSize(9).PodAnnotation(simulator.Runtime, untilTold).Spec(needsScheduler))
	s.awaitState(waits, v1alpha2.StateQueued)
	s.scale(waits, 3)
	s.endCommand(first)
	s.endCommand(mc)
	s.awaitBrokers(waits, 3)
	if n := len(s.pods(waits)); n != 3 || waits.Status.MaximumSize != 3 {
		t.Errorf("for three brokers it has %d pods, and a largest size of %d", n, waits.Status.MaximumSize)
	}
}
