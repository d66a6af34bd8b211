// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"errors"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/test/harness/operator"
)

// saving begins a MiniCluster of some brokers whose command writes a checkpoint when it is asked to.
func (s *site) saving(name string, size int32) *fixture.MiniClusterWrapper {
	return s.miniCluster(name).Size(size).Tasks(size).PodAnnotation(simulator.Runtime, untilTold).Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Elastic.Checkpoint = &v1alpha2.Checkpoint{Signal: "SIGUSR1", Wait: duration("5m")}
	})
}

// restarting is the same, and the command is run again with other brokers.
func (s *site) restarting(name string, size int32) *fixture.MiniClusterWrapper {
	return s.saving(name, size).MinSize(1).Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.Elastic.Resize = v1alpha2.ResizeRestart })
}

// twice lets a MiniCluster grow and shrink by factors of two alone: also where two nodes become free one after the other.
func twice(spec *v1alpha2.MiniClusterSpec) {
	spec.Elastic.Sizes = &v1alpha2.Sizes{Operator: "*", Operand: 2}
}

// awaitRuns waits until the command of a MiniCluster was begun n times, and runs with some brokers.
func (s *site) awaitRuns(mc *v1alpha2.MiniCluster, n, brokers int32) {
	s.t.Helper()
	s.await(mc, fmt.Sprintf("running for the %d. time, with %d brokers", n, brokers), func(mc *v1alpha2.MiniCluster) bool {
		a := mc.Status.Admission
		return state(mc) == v1alpha2.StateRunning && mc.Status.Runs == n && mc.Status.Size == brokers && mc.Status.Nodes == brokers && a.Restart == nil && a.Quorum == brokers
	})
}

// A rigid command follows `kubectl scale`: it is run again with other brokers, in the same pods, and its nodes are others'
// once it has ended there.
func TestRestarts(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4)
	record := s.newRecord()
	mc := s.create(s.restarting("again", 4))
	s.awaitRuns(mc, 1, 4)
	departures := s.watchDepartures(mc)
	s.scale(mc, 2)
	s.awaitRuns(mc, 2, 2)
	departures.check(t, 2, 3)
	s.awaitSuccess(s.create(s.miniCluster("other").Size(2)))

	s.scale(mc, 4)
	s.awaitRuns(mc, 3, 4)
	lead := s.awaitPod(mc, 0, "told of its brokers", func(pod *corev1.Pod) bool { return protocol.Read(pod).Ranks == "0-3" })
	if told := protocol.Read(lead); told.Restarts != 2 || told.Drain != "" {
		t.Errorf("the lead was told of %d restarts, and that %q leave", told.Restarts, told.Drain)
	}
	s.endCommand(mc)
	s.awaitSuccess(mc)
	s.awaitDecisions(mc, map[string]int{"Admitted": 1, "Started": 1, "Restarting": 2, "Restarted": 2, "Vacated": 1, "Grew": 1, "Succeeded": 1})
	restarts := s.get(mc).Status.Restarts
	if len(restarts) != 2 || restarts[0].From != 4 || restarts[0].To != 2 || restarts[1].From != 2 || restarts[1].To != 4 || restarts[1].Seconds == nil {
		t.Errorf("its restarts are %+v", restarts)
	}
	if n := s.leadsOf(mc); n != 1 {
		t.Errorf("there were %d leads", n)
	}
	record.check(s)
}

// A command that loses a broker is run again with the others at once, and gets another broker when there is a node.
func TestRestartsAfterLoss(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4)
	record := s.newRecord()
	give := s.withhold(s.nodes[3])
	s.awaitNodes(3)
	mc := s.create(s.restarting("loses", 3).PodAnnotation(simulator.LoseRanks, "2").PodAnnotation(simulator.LoseAfter, untilTold))
	s.awaitRuns(mc, 1, 3)
	s.tell(mc, 0, simulator.LoseAfter, "6s") // sooner, no probe has seen the command run, and none would see that it runs again
	s.awaitRuns(mc, 2, 2)
	give()
	s.awaitRuns(mc, 3, 3)
	s.endCommand(mc)
	s.awaitSuccess(mc)
	if mc.Status.Admission.Attempt != 1 || mc.Status.Admission.Losses != 1 {
		t.Errorf("its admission is %+v", mc.Status.Admission)
	}
	record.check(s)
}

// A command that has to make room writes its checkpoint first, and goes on from it when it has nodes again.
func TestEvictedWithCheckpoint(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	record := s.newRecord()
	s.priorityClass(s.namespace+"-high", 100)
	low := s.create(s.saving("low", 2).PodAnnotation(simulator.Checkpoint, "1s"))
	s.awaitState(low, v1alpha2.StateRunning)
	high := s.create(s.miniCluster("high").Size(2).Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.PriorityClassName = s.namespace + "-high" }))
	s.awaitSuccess(high)
	s.await(low, "running again", func(mc *v1alpha2.MiniCluster) bool { return state(mc) == v1alpha2.StateRunning && mc.Status.Runs == 2 })
	if low.Status.CheckpointTime == nil || low.Status.CheckpointTime.After(high.Status.StartTime.Time) {
		t.Errorf("its checkpoint is of %s, and the others began at %s", low.Status.CheckpointTime, high.Status.StartTime)
	}
	s.endCommand(low)
	s.awaitSuccess(low)
	s.awaitDecisions(low, map[string]int{"Admitted": 2, "Started": 2, "Warned": 1, "Preempted": 1, "Succeeded": 1})
	record.check(s)
}

// A command whose deadline comes writes its checkpoint first, and goes on from there in another attempt. After the last time it
// fails at its deadline. Half of the deadline has much more than the 15s that the lead needs to end the command: a slow machine
// tells the lead late.
func TestGoesOnAfterItsDeadline(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	record := s.newRecord()
	first := s.create(s.saving("first", 2).PodAnnotation(simulator.Checkpoint, "1s").Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Elastic.OnDeadline, spec.Elastic.RequeueLimit, spec.DeadlineSeconds = v1alpha2.DeadlineRequeue, new(int32(1)), new(int64(80))
	}))
	s.awaitState(first, v1alpha2.StateRunning)
	s.await(first, "running again", func(mc *v1alpha2.MiniCluster) bool { return state(mc) == v1alpha2.StateRunning && mc.Status.Runs == 2 })
	if r := first.Status.RequeueState; r == nil || r.Deadlines != 1 || r.Count+r.Retries != 0 || first.Status.CheckpointTime == nil {
		t.Errorf("it was queued again as %+v, with a checkpoint of %s", r, first.Status.CheckpointTime)
	}
	s.awaitState(first, v1alpha2.StateFailed)
	s.awaitDecisions(first, map[string]int{"Admitted": 2, "Started": 2, "Warned": 1, "Requeued": 1, "DeadlineExceeded": 1})
	record.check(s)
}

// Of a command that can be run again, only the surplus is taken, and its brokers come back when it is worth that.
func TestShrunkByRestart(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4)
	record := s.newRecord()
	s.priorityClass(s.namespace+"-high", 100)
	low := s.create(s.restarting("low", 4).Spec(twice))
	s.awaitRuns(low, 1, 4)
	high := s.create(s.miniCluster("high").Size(2).PodAnnotation(simulator.Runtime, untilTold).
		Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.PriorityClassName = s.namespace + "-high" }))
	s.awaitState(high, v1alpha2.StateRunning)
	s.awaitRuns(low, 2, 2)
	s.endCommand(high)
	s.awaitRuns(low, 3, 4)
	s.endCommand(low)
	s.awaitSuccess(low)
	if n := s.events(low)[v1alpha2.ReasonPreempted]; n > 0 || low.Status.Admission.Attempt != 1 {
		t.Errorf("it was evicted %d times", n)
	}
	record.check(s)
}

// The manager is killed before and after writes of a life in which the command is run again twice: each step is taken once.
func TestKilledWhileRestarting(t *testing.T) {
	t.Parallel()
	// Before these writes the life is as any other. Some of the last may not come: a write may have the result of two.
	for kind, span := range map[string][2]int{"PATCH miniclusters/status": {4, 14}, "PATCH pods": {4, 9}} {
		for n := span[0]; n <= span[1]; n++ {
			at := operator.Write{Kind: kind, N: n, Before: n%2 == 0}
			t.Run(at.String(), func(t *testing.T) {
				t.Parallel()
				restartOnce(t, at)
			})
		}
	}
}

// restartOnce lives a life with two restarts, in which the manager is killed at a write.
func restartOnce(t *testing.T, at operator.Write) {
	t.Helper()
	s := newOwnSite(t, 3)
	record := s.newRecord()
	o := operator.Operate(s.shared, "--binder=gate")
	o.KillAt(at)
	mc := s.create(s.restarting("again", 3))
	reach := func(runs, brokers int32) {
		t.Helper()
		o.Eventually(func() error {
			s.get(mc)
			if a := mc.Status.Admission; a == nil || mc.Status.Runs != runs || a.Restart != nil || mc.Status.Size != brokers || mc.Status.Nodes != brokers {
				return errors.New("it has not been run again")
			}
			return nil
		})
	}
	reach(1, 3)
	s.scale(mc, 1)
	reach(2, 1)
	s.scale(mc, 3)
	reach(3, 3)
	s.endCommand(mc)
	o.Eventually(func() error {
		if state(s.get(mc)) != v1alpha2.StateSucceeded || mc.Status.Nodes > 0 || len(s.pods(mc)) > 1 {
			return errors.New("it is not done") // the last writes come later, and so may the kill
		}
		return nil
	})
	if n := s.leadsOf(mc); n != 1 || mc.Status.Admission.Attempt != 1 || mc.Status.Runs != 3 {
		t.Errorf("%d leads, and the status is %+v", n, mc.Status)
	}
	s.awaitDecisions(mc, map[string]int{"Admitted": 1, "Started": 1, "Restarting": 2, "Restarted": 2, "Vacated": 1, "Grew": 1, "Succeeded": 1})
	record.check(s)
}
