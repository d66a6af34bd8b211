// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2ekueue

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueueapi "sigs.k8s.io/kueue/apis/kueue/v1beta2"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/test/harness"
	"github.com/flux-elastic/flux-elastic/test/harness/operator"
)

// mortal is a MiniCluster in whose life a program is killed, and started again. Its ClusterQueue has
// quota for all nodes of the site.
type mortal struct {
	*site
	operator *operator.Operator
	revive   func() error
	mc       *v1alpha2.MiniCluster
	workload *kueueapi.Workload // the first one
}

// eventually waits until an attempt succeeds, whatever is killed meanwhile.
func (m *mortal) eventually(attempt func() error) {
	m.T.Helper()
	m.operator.Fuse.Eventually(m.T, m.revive, attempt)
}

// reach waits until the MiniCluster and its first Workload are as the test expects.
func (m *mortal) reach(what string, holds func(mc *v1alpha2.MiniCluster, wl *kueueapi.Workload) bool) {
	m.T.Helper()
	m.eventually(func() error {
		if err := m.Cluster.Client.Get(m.Ctx, client.ObjectKeyFromObject(m.mc), m.mc); err != nil {
			return err
		}
		workloads, err := m.workloads(m.mc)
		if err != nil {
			return err
		}
		for i := range workloads {
			if m.workload == nil || workloads[i].Name == m.workload.Name {
				m.workload = &workloads[i]
			}
		}
		if m.workload == nil || !holds(m.mc, m.workload) {
			return fmt.Errorf("%s is not %s, but %s: %s", m.mc.Name, what, harness.State(m.mc), harness.Condition(m.mc, v1alpha2.ConditionReady).Message)
		}
		return nil
	})
}

// reachSize waits until the MiniCluster runs with so many brokers, which are ready since an earlier second,
// and Kueue has been told that it does. Times of pods are in whole seconds: a broker that leaves in the
// second in which it started, or before it is ready, is not seen to be idle, and gets 30 s.
func (m *mortal) reachSize(size int32) {
	m.T.Helper()
	m.reach(fmt.Sprintf("running with %d brokers", size), func(mc *v1alpha2.MiniCluster, wl *kueueapi.Workload) bool {
		second := harness.WallClock.Now().Truncate(time.Second)
		isReady := func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue && c.LastTransitionTime.Time.Before(second)
		}
		ready := int32(0)
		for _, pod := range m.Pods(mc) {
			if slices.ContainsFunc(pod.Status.Conditions, isReady) {
				ready++
			}
		}
		return harness.State(mc) == v1alpha2.StateRunning && mc.Status.Size == size && ready == size &&
			meta.IsStatusConditionTrue(wl.Status.Conditions, kueueapi.WorkloadPodsReady)
	})
}

// reachEnd ends the command, and waits until Kueue has been told that it has ended.
func (m *mortal) reachEnd() {
	m.T.Helper()
	lead := m.AwaitPod(m.mc, 0, "running", func(pod *corev1.Pod) bool { return !protocol.Ended(pod) && pod.DeletionTimestamp == nil })
	m.eventually(func() error { return simulator.Tell(m.Ctx, m.Cluster.Client, lead, simulator.Runtime, "0s") })
	m.reach("done, without quota", func(mc *v1alpha2.MiniCluster, wl *kueueapi.Workload) bool {
		return harness.State(mc) == v1alpha2.StateSucceeded && mc.Status.Nodes == 0 && meta.IsStatusConditionTrue(wl.Status.Conditions, kueueapi.WorkloadFinished)
	})
}

// finish deletes the MiniCluster. Its command ran as often as it should, it had one Workload
// beside those of its growth, and all quota is free at the end.
func (m *mortal) finish(runs int) {
	m.T.Helper()
	m.eventually(func() error { return nil }) // nothing is to be dead when pods are deleted (docs/kueue.md)
	if n := m.runsOf(m.mc); n != runs || len(m.mc.Status.Attempts) != runs-1 {
		m.T.Errorf("the command ran %d times, want %d: %+v", n, runs, m.mc.Status)
	}
	m.Delete(m.mc)
	m.eventually(func() error {
		workloads, err := m.workloads(m.mc)
		if err == nil && len(workloads) > 0 {
			err = errors.New("it has Workloads")
		}
		return errors.Join(err, m.NothingLeft())
	})
	if n := m.workloadsSeen(m.mc)[m.workload.Name]; n != 1 {
		m.T.Errorf("there were %d Workloads %s", n, m.workload.Name)
	}
	if err := m.Cluster.Client.DeleteAllOf(m.Ctx, &kueueapi.Workload{}, client.InNamespace(m.Namespace)); err != nil {
		m.T.Fatal(err)
	}
	all := m.newWorkload("all", "team", podSet("lead", int32(len(m.Nodes)), "8"))
	m.awaitCondition(all, kueueapi.WorkloadQuotaReserved, metav1.ConditionTrue)
}

// newMortal begins a site with an operator of its own.
func (c *cluster) newMortal(t *testing.T, nodes int) *mortal {
	t.Helper()
	m := &mortal{site: c.newSite(t, nodes)}
	m.operator = operator.Operate(m.Site) // answers the queue's check
	m.newQueue("team", 8*nodes, preempting, m.withPlacement())
	m.revive = func() error { return m.operator.Start() }
	return m
}

// The writes that a life has because of Kueue. test/e2e kills the manager at others.
const (
	asks           = "POST workloads"
	tells          = "PATCH workloads/status"
	dropsFinalizer = "PATCH workloads"
	deletes        = "DELETE workloads"
)

// The manager is killed before and after every write of lives with quota of Kueue, and started again.
// Nothing is lost, and nothing is done twice. That no pod is placed without quota is checked in all
// tests (checkHistory).
func TestKilledAtEveryWrite(t *testing.T) {
	t.Parallel()
	c := newCluster(t, nodeCount, "")
	c.manager.Stop()
	for name, life := range map[string]struct {
		nodes int
		live  func(*mortal)
		kinds []string
	}{
		"partial": {3, livePartial, []string{asks, tells, dropsFinalizer}},
		"evicted": {2, liveEvicted, []string{asks, tells, dropsFinalizer}},
		"grows":   {2, liveGrowing, []string{asks, tells, dropsFinalizer, deletes}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			others := operator.AtEveryWrite(t, func(t *testing.T, at operator.Write) map[string]int {
				t.Helper()
				m := c.newMortal(t, life.nodes)
				m.operator.KillAt(at)
				life.live(m)
				return m.operator.Seen()
			}, life.kinds...)
			for kind := range others {
				if strings.Contains(kind, "workloads") && kind != dropsFinalizer {
					t.Errorf("a life also has %s", kind)
				}
			}
		})
	}
}

// Kueue is killed before and after the first writes to a Workload, so also between the reservation of quota and
// the admission. While Kueue is away, its webhooks refuse writes.
func TestKueueKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, "")
	c.manager.Stop()
	for _, at := range []operator.Write{{Kind: asks, N: 1, Before: true}, {Kind: asks, N: 1}, {Kind: tells, N: 1, Before: true}, {Kind: tells, N: 1}, {Kind: tells, N: 2}} {
		t.Run(at.String(), func(t *testing.T) {
			m := c.newMortal(t, 3)
			m.revive = func() error { c.startKueue(t, ""); return nil }
			m.operator.Set(at, func() {
				if err := c.Kill(m.Ctx, "kueue"); err != nil {
					t.Error(err)
				}
			})
			livePartial(m)
		})
	}
}

// The process of a manager is killed while a MiniCluster with quota starts, and another one is started.
func TestProcessKilled(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, "")
	s := c.newSite(t, 2)
	s.newQueue("team", 16)
	mc := s.create(s.miniCluster("life").Size(2).PodAnnotation(simulator.NeverStart, "1"), "team")
	for rank := range 2 {
		s.AwaitPod(mc, rank, "placed", func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" })
	}
	c.manager.Kill()
	s.Tell(mc, 1, simulator.NeverStart, "")
	if err := c.startManager(c.ManagerKubeconfig); err != nil {
		t.Fatal(err)
	}
	s.AwaitState(mc, v1alpha2.StateRunning)
	s.Tell(mc, 0, simulator.Runtime, "0s")
	s.AwaitSuccess(mc)
	if n := s.runsOf(mc); n != 1 || len(mc.Status.Attempts) > 0 {
		t.Errorf("the command ran %d times: %+v", n, mc.Status)
	}
}

// livePartial is granted a part, gives back a broker, and ends.
func livePartial(m *mortal) {
	m.mc = m.create(m.miniCluster("partial").Size(4).MinSize(2).Launcher(), "team")
	m.reachSize(3)
	m.Patch(m.mc, `{"spec":{"size":2}}`)
	m.reach("without the quota of the broker that left", func(mc *v1alpha2.MiniCluster, wl *kueueapi.Workload) bool {
		return mc.Status.Size == 2 && reclaimable(wl) == 2
	})
	m.reachEnd()
	m.finish(1)
}

// liveEvicted is preempted, and runs again.
func liveEvicted(m *mortal) {
	m.mc = m.create(m.miniCluster("evicted").Size(2), "team")
	m.reachSize(2)
	urgent := m.newUrgent("urgent", "team", m.newPriority("high", 100), podSet("lead", 2, "8"))
	m.reach("preempted", func(_ *v1alpha2.MiniCluster, wl *kueueapi.Workload) bool {
		return meta.IsStatusConditionFalse(wl.Status.Conditions, kueueapi.WorkloadQuotaReserved)
	})
	m.Delete(urgent)
	m.reachSize(2)
	m.reachEnd()
	m.finish(2)
}

// liveGrowing grows by a further Workload, gives its quota back, and is deleted while it runs.
func liveGrowing(m *mortal) {
	m.mc = m.create(m.miniCluster("grows").Size(1).MinSize(1).MaxSize(2).Launcher().Grow(), "team")
	m.reachSize(2)
	grown, err := m.workloads(m.mc)
	if err != nil {
		m.T.Fatal(err)
	}
	m.newWorkload("other", "team", podSet("lead", 1, "8"))
	m.reachSize(1)
	m.eventually(func() error { // a manager that was started again asks for more at once
		left, err := m.workloads(m.mc)
		for i := range left {
			if wl := &left[i]; wl.Name != m.workload.Name && slices.ContainsFunc(grown, func(old kueueapi.Workload) bool { return old.UID == wl.UID }) {
				err = fmt.Errorf("there is still Workload %s", wl.Name)
			}
		}
		return err
	})
	m.finish(1)
}
