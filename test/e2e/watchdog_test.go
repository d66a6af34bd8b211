// Copyright The flux-elastic Authors
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flux-elastic/flux-elastic/api/v1alpha2"
	"github.com/flux-elastic/flux-elastic/dev/fixture"
	"github.com/flux-elastic/flux-elastic/dev/simulator"
	"github.com/flux-elastic/flux-elastic/internal/protocol"
	"github.com/flux-elastic/flux-elastic/pkg/fluxion/hostlist"
)

// decisions are the reasons of events that tell of one, or of a size that was asked for.
var decisions = []string{
	"Admitted", "Started", "QuorumLowered", "GaveUp", "Retrying", "Released", "Draining", "Vacated", "Kept", "Grew", "Moved", "SizeIgnored", "BelowMinimum",
	"Restarting", "Restarted", "Prolonged", "Checkpointed", "Warned",
	v1alpha2.ReasonPreempted, v1alpha2.ReasonReclaimed, v1alpha2.ReasonNodesGo, v1alpha2.ReasonRequeued,
	v1alpha2.StateSucceeded, v1alpha2.ReasonCommandFailed, v1alpha2.ReasonLeadLost, v1alpha2.ReasonWorkersFailed, v1alpha2.ReasonBrokersLost,
	v1alpha2.ReasonDeadlineExceeded, v1alpha2.ReasonStartLimit,
}

// awaitDecisions waits until the events tell of certain decisions, each so often, and of no
// others but those that may be there, too.
func (s *site) awaitDecisions(mc *v1alpha2.MiniCluster, want map[string]int, may ...string) {
	s.t.Helper()
	eventually(s.t, func() error {
		got := s.events(mc)
		maps.DeleteFunc(got, func(reason string, _ int) bool {
			return !slices.Contains(decisions, reason) || slices.Contains(may, reason)
		})
		if !maps.Equal(got, want) {
			return fmt.Errorf("%s was told of %v, want %v", mc.Name, got, want)
		}
		return nil
	})
}

// awaitEnd waits until a MiniCluster has failed for a reason and holds no node any more.
func (s *site) awaitEnd(mc *v1alpha2.MiniCluster, reason string) {
	s.t.Helper()
	s.await(mc, "failed, with no node held", func(mc *v1alpha2.MiniCluster) bool { return state(mc) == v1alpha2.StateFailed && mc.Status.Nodes == 0 })
	if got := condition(mc, v1alpha2.ConditionFinished); got.Reason != reason {
		s.t.Errorf("%s failed with %s: %s; want %s", mc.Name, got.Reason, got.Message, reason)
	}
}

// awaitOnlyLead waits until no other pod of a MiniCluster is left than its lead's, which
// has ended, and returns the exit code of its command.
func (s *site) awaitOnlyLead(mc *v1alpha2.MiniCluster) int32 {
	s.t.Helper()
	var lead corev1.Pod
	eventually(s.t, func() error {
		pods := s.pods(mc)
		if len(pods) != 1 {
			return fmt.Errorf("%s has %d pods", mc.Name, len(pods))
		}
		lead = pods[0]
		if rank, _ := protocol.Rank(&lead); rank != 0 || lead.DeletionTimestamp != nil || (lead.Status.Phase != corev1.PodFailed && lead.Status.Phase != corev1.PodSucceeded) {
			return fmt.Errorf("what is left is pod %s: rank %d, %s", lead.Name, rank, lead.Status.Phase)
		}
		return nil
	})
	ended := lead.Status.ContainerStatuses[0].State.Terminated
	if ended == nil {
		s.t.Fatalf("the container of the lead says %+v", lead.Status.ContainerStatuses[0].State)
	}
	return ended.ExitCode
}

// nodesOf are the nodes of a MiniCluster, by rank.
func (s *site) nodesOf(mc *v1alpha2.MiniCluster) []string {
	s.t.Helper()
	nodes, err := hostlist.Decode(mc.Status.Admission.Nodes, int(mc.Status.Admission.Size))
	if err != nil {
		s.t.Fatal(err)
	}
	return nodes
}

// withhold cordons nodes until the returned function is called, or the test ends.
func (s *site) withhold(nodes ...string) (give func()) {
	s.t.Helper()
	for _, node := range nodes {
		cordon(s, node, true)
	}
	give = func() {
		for _, node := range nodes {
			cordon(s, node, false)
		}
	}
	s.t.Cleanup(give)
	return give
}

// awaitPlaced waits until as many pods have nodes as the MiniCluster's size.
func (s *site) awaitPlaced(mc *v1alpha2.MiniCluster) {
	s.t.Helper()
	s.await(mc, "placed on all its nodes", func(mc *v1alpha2.MiniCluster) bool { return occupied(s.pods(mc)) == int(mc.Spec.Size) })
}

func isGated(pod *corev1.Pod) bool { return protocol.IsGated(pod) && pod.DeletionTimestamp == nil }

// A follower that does not start on a node gets another one, once, and the MiniCluster its full size. An attempt has one
// lead: if that does not start, the next attempt begins at once. The node is remembered.
func TestBadNodeAndASpare(t *testing.T) {
	t.Parallel()
	for rank, decisions := range []map[string]int{
		{"Admitted": 2, "Released": 1, "Started": 1, "Succeeded": 1},
		{"Admitted": 1, "Moved": 1, "Started": 1, "Succeeded": 1},
	} {
		t.Run([]string{"lead", "follower"}[rank], func(t *testing.T) {
			t.Parallel()
			s := newSite(t, 4)
			give := s.withhold(s.nodes[3])
			mc := s.create(s.miniCluster("moves").Size(3).PodAnnotation(simulator.NeverStart, fmt.Sprint(rank)).Spec(func(spec *v1alpha2.MiniClusterSpec) {
				spec.Elastic.QuorumTimeout = duration("10m")
			}))
			s.awaitPlaced(mc)
			give()
			s.awaitNodes(1)
			bad := s.cannotStart(mc, rank)
			s.awaitPod(mc, rank, "on another node", func(pod *corev1.Pod) bool { return pod.Spec.NodeName != "" && pod.Spec.NodeName != bad })
			s.letStart(mc, rank)
			s.awaitState(mc, v1alpha2.StateRunning, v1alpha2.StateSucceeded)
			if a := mc.Status.Admission; a.Quorum != 3 || a.Vacated != "" || slices.Contains(s.nodesOf(mc), bad) {
				t.Errorf("it runs with the admission %+v", a)
			}
			if mc.Status.Avoid == nil || mc.Status.Avoid.Nodes != bad {
				t.Errorf("it avoids %+v, want %s", mc.Status.Avoid, bad)
			}
			s.awaitSuccess(mc)
			s.awaitDecisions(mc, decisions)
			if mc.Status.RequeueState != nil {
				t.Errorf("it gave up %+v", mc.Status.RequeueState)
			}
		})
	}
}

// cannotStart tells a pod that never starts that it cannot start where it is. It returns the node.
func (s *site) cannotStart(mc *v1alpha2.MiniCluster, rank int) (bad string) {
	s.t.Helper()
	bad = s.nodesOf(s.get(mc))[rank]
	s.tell(mc, rank, simulator.CannotStart, bad)
	return bad
}

// Where there is no other node an elastic MiniCluster starts without the pod that does
// not, long before quorumTimeout. The node is not kept for nothing.
func TestBadNodeAndNoOther(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4)
	mc := s.create(s.miniCluster("shrinks").Size(4).MinSize(2).PodAnnotation(simulator.CannotStart, s.nodes[2]).PodAnnotation(simulator.Runtime, "1h").
		Spec(func(spec *v1alpha2.MiniClusterSpec) { spec.Elastic.QuorumTimeout = duration("10m") }))
	s.awaitState(mc, v1alpha2.StateRunning)
	rank := slices.Index(s.nodesOf(mc), s.nodes[2])
	if a := mc.Status.Admission; a.Quorum != 3 {
		t.Errorf("it runs with the admission %+v", a)
	}
	s.await(mc, "without it", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.Admission.Vacated == fmt.Sprint(rank) })
	s.awaitPod(mc, rank, "behind its gate again", isGated)
	s.await(mc, "on three nodes", func(mc *v1alpha2.MiniCluster) bool { return mc.Status.Nodes == 3 && mc.Status.Size == 3 })
	other := s.create(s.miniCluster("other"))
	s.awaitSuccess(other)
	if got := s.nodesOf(other)[0]; got != s.nodes[2] {
		t.Errorf("the other ran on %s", got)
	}
	s.awaitDecisions(mc, map[string]int{"Admitted": 1, "QuorumLowered": 1, "Vacated": 1, "Started": 1})
}

// Where no pod starts, anywhere, an attempt is given up long before startTimeout, and the
// status tells of each. The next attempt would rather have other nodes.
func TestBadImage(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4)
	mc := s.create(s.miniCluster("no-image").Size(3).PodAnnotation(simulator.CannotStart, "*").Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Elastic.StartTimeout = duration("10m")
		spec.Elastic.Recreate = v1alpha2.Recreate{Limit: new(int32(1)), BackoffBase: duration("1s")}
	}))
	s.awaitEnd(mc, v1alpha2.ReasonStartLimit)
	if len(mc.Status.Attempts) != 2 || mc.Status.Avoid == nil {
		t.Fatalf("its attempts are %+v, and it avoids %+v", mc.Status.Attempts, mc.Status.Avoid)
	}
	for i, reason := range []string{"GaveUp", v1alpha2.ReasonStartLimit} {
		a := mc.Status.Attempts[i]
		if a.Attempt != int32(i)+1 || a.Size != 3 || a.Reason != reason || a.Started != nil || !a.Admitted.Before(&a.Ended) ||
			!strings.Contains(a.Message, " of 3 brokers cannot start; rank 0 on") || !strings.Contains(a.Message, "ImagePullBackOff") {
			t.Errorf("attempt %d is told as %+v", i+1, a)
		}
	}
	s.awaitDecisions(mc, map[string]int{"Admitted": 2, "GaveUp": 1, v1alpha2.ReasonStartLimit: 1})
}

// Suspending makes a fresh start: what was counted and avoided is forgotten, and the numbers of the attempts go on.
func TestSuspendForgetsFailures(t *testing.T) {
	t.Parallel()
	s := newSite(t, 2)
	mc := s.create(s.miniCluster("mended").Size(2).PodAnnotation(simulator.CannotStart, s.nodes[1]).Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Elastic.Recreate = v1alpha2.Recreate{Limit: new(int32(1)), BackoffBase: duration("30m")}
	}))
	s.awaitState(mc, v1alpha2.StateBackingOff)
	if r := mc.Status.RequeueState; r.Count != 1 || r.RequeueAt == nil || r.Size != 0 {
		t.Errorf("it is queued again with %+v", r)
	}
	if mc.Status.Nodes != 0 || len(mc.Status.Attempts) != 1 || mc.Status.Avoid == nil {
		t.Errorf("while it backs off the status is %+v", mc.Status)
	}
	s.patch(mc, `{"spec":{"suspend":true}}`)
	s.await(mc, "suspended, with nothing counted", func(mc *v1alpha2.MiniCluster) bool {
		return state(mc) == v1alpha2.StateSuspended && mc.Status.RequeueState == nil && mc.Status.Avoid == nil
	})
	s.patch(mc, `{"spec":{"suspend":false,"pod":{"annotations":{%q:null}}}}`, simulator.CannotStart)
	s.awaitSuccess(mc)
	if a := mc.Status.Admission; a.Attempt != 2 || len(mc.Status.Attempts) != 1 {
		t.Errorf("it succeeded in attempt %d, after %+v", a.Attempt, mc.Status.Attempts)
	}
	s.awaitDecisions(mc, map[string]int{"Admitted": 2, "GaveUp": 1, "Started": 1, "Succeeded": 1})
}

// With sizePolicy Shrink each attempt is smaller than the one before, down to minSize.
func TestShrinkPolicy(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4)
	record := s.newRecord()
	mc := s.create(s.miniCluster("smaller").Size(4).MinSize(3).PodAnnotation(simulator.CannotStart, "*").Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Elastic.Recreate = v1alpha2.Recreate{Limit: new(int32(2)), BackoffBase: duration("1s"), SizePolicy: v1alpha2.SizeShrink}
	}))
	for attempt := range int32(2) {
		record.await(s, mc, fmt.Sprintf("told of attempt %d", attempt+1), func(mc *v1alpha2.MiniCluster) bool {
			return mc.Status.RequeueState != nil && mc.Status.RequeueState.Count == attempt+1
		})
		if got := mc.Status.RequeueState.Size; got != 3 {
			t.Errorf("the next attempt may have %d brokers", got)
		}
	}
	s.awaitEnd(mc, v1alpha2.ReasonStartLimit)
	var sizes []int32
	for _, attempt := range mc.Status.Attempts {
		sizes = append(sizes, attempt.Size)
	}
	if !slices.Equal(sizes, []int32{4, 3, 3}) {
		t.Errorf("its attempts had %v brokers", sizes)
	}
	s.awaitDecisions(mc, map[string]int{"Admitted": 3, "GaveUp": 2, v1alpha2.ReasonStartLimit: 1})
}

// The next attempt goes where the one before did not fail. The queue is suspended until there is
// another node.
func TestNextAttemptElsewhere(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4)
	give := s.withhold(s.nodes[3])
	mc := s.create(s.miniCluster("again").Size(3).PodAnnotation(simulator.NeverStart, "1").Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Elastic.Recreate.BackoffBase = duration("1s")
	}))
	s.awaitPlaced(mc)
	s.patch(queueOf(s), `{"spec":{"suspended":true}}`)
	bad := s.cannotStart(mc, 1)
	s.await(mc, "given up", func(mc *v1alpha2.MiniCluster) bool { return len(mc.Status.Attempts) == 1 })
	if mc.Status.Avoid == nil || mc.Status.Avoid.Nodes != bad {
		t.Errorf("it avoids %+v, want %s", mc.Status.Avoid, bad)
	}
	s.patch(mc, `{"spec":{"pod":{"annotations":{%q:null,%q:%q}}}}`, simulator.NeverStart, simulator.CannotStart, bad)
	give()
	s.patch(queueOf(s), `{"spec":{"suspended":false}}`)
	s.awaitSuccess(mc)
	if nodes := s.nodesOf(mc); mc.Status.Admission.Attempt != 2 || slices.Contains(nodes, bad) || mc.Status.Admission.Moved != "" {
		t.Errorf("it ran with the admission %+v", mc.Status.Admission)
	}
	if attempts := mc.Status.Attempts; len(attempts) != 1 || attempts[0].Reason != "GaveUp" || attempts[0].Started != nil {
		t.Errorf("its attempts are %+v", attempts)
	}
	s.awaitDecisions(mc, map[string]int{"Admitted": 2, "GaveUp": 1, "Started": 1, "Succeeded": 1})
}

// losing begins a MiniCluster of three that loses its last broker once the lead is told to.
func (s *site) losing(name string) *fixture.MiniClusterWrapper {
	return s.miniCluster(name).Size(3).PodAnnotation(simulator.Runtime, untilTold).PodAnnotation(simulator.LoseRanks, "2").
		PodAnnotation(simulator.LoseAfter, untilTold)
}

// lose waits until the command of a MiniCluster runs, and lets the MiniCluster lose its broker.
func (s *site) lose(mc *v1alpha2.MiniCluster) {
	s.t.Helper()
	s.awaitState(mc, v1alpha2.StateRunning)
	s.tell(mc, 0, simulator.LoseAfter, "0s")
}

// A command that ends with the loss of a broker has the last word: its exit code counts,
// and its log stays.
func TestLossEndsCommand(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	mc := s.create(s.losing("loses")) // Fail, by default
	s.lose(mc)
	s.awaitEnd(mc, v1alpha2.ReasonCommandFailed)
	if code := mc.Status.ExitCode; code == nil || *code != 1 {
		t.Errorf("its exit code is %v", code)
	}
	if code := s.awaitOnlyLead(mc); code != 1 {
		t.Errorf("the lead's pod ended with %d", code)
	}
	want := map[string]int{"Admitted": 1, "Started": 1, v1alpha2.ReasonCommandFailed: 1}
	if mc.Status.Admission.Loss != nil { // where it was seen before the command's end
		want[v1alpha2.ReasonBrokersLost] = 1
	}
	s.awaitDecisions(mc, want)
}

// One that hangs is told to stop.
func TestLossThatHangs(t *testing.T) {
	t.Parallel()
	s := newSite(t, 3)
	record := s.newRecord()
	mc := s.create(s.losing("hangs").PodAnnotation(simulator.HangsOnLoss, "true"))
	s.lose(mc)
	record.await(s, mc, "told of the loss", func(mc *v1alpha2.MiniCluster) bool {
		return mc.Status.Admission != nil && mc.Status.Admission.Loss != nil
	})
	if loss := mc.Status.Admission.Loss; loss.Ranks != "2" || state(mc) != v1alpha2.StateRunning {
		t.Errorf("it is %s, and lost %s", state(mc), loss.Ranks)
	}
	s.awaitEnd(mc, v1alpha2.ReasonBrokersLost)
	if message := condition(mc, v1alpha2.ConditionFinished).Message; !strings.HasPrefix(message, "1 of 3 brokers were lost while the command ran: rank 2 on ") {
		t.Errorf("it was told %q", message)
	}
	if code := s.awaitOnlyLead(mc); code != 143 {
		t.Errorf("the lead's pod ended with %d", code)
	}
	// The loss, and the end.
	s.awaitDecisions(mc, map[string]int{"Admitted": 1, "Started": 1, v1alpha2.ReasonBrokersLost: 2})
}

// A command that bears losses goes on, and the lost rank comes back.
func TestLossIsBorne(t *testing.T) {
	t.Parallel()
	for name, mode := range map[string]func(*v1alpha2.MiniClusterContainer){
		"launcher": func(c *v1alpha2.MiniClusterContainer) { c.Launcher = true },
		"batch":    func(c *v1alpha2.MiniClusterContainer) { c.Batch = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, 3)
			mc := s.create(s.losing("loses").Spec(func(spec *v1alpha2.MiniClusterSpec) { mode(&spec.Containers[0]) }))
			runs := func(not types.UID) func(*corev1.Pod) bool {
				return func(pod *corev1.Pod) bool { return pod.Status.Phase == corev1.PodRunning && pod.UID != not }
			}
			first := s.awaitPod(mc, 2, "running", runs(""))
			s.lose(mc)
			again := s.awaitPod(mc, 2, "made anew, and running", runs(first.UID))
			if again.Spec.NodeName != first.Spec.NodeName {
				t.Errorf("rank 2 is back on %s, it was on %s", again.Spec.NodeName, first.Spec.NodeName)
			}
			s.await(mc, "running with all", func(mc *v1alpha2.MiniCluster) bool { return state(mc) == v1alpha2.StateRunning && mc.Status.Size == 3 })
			s.endCommand(mc)
			s.awaitSuccess(mc)
			if n := s.leadsOf(mc); n != 1 || len(mc.Status.Attempts) > 0 || mc.Status.Admission.Loss != nil {
				t.Errorf("the command ran %d times, after %+v; %+v", n, mc.Status.Attempts, mc.Status.Admission)
			}
			s.awaitDecisions(mc, map[string]int{"Admitted": 1, "Started": 1, "Succeeded": 1})
		})
	}
}

// With onLoss: Recreate the command is run again.
func TestLossRecreates(t *testing.T) {
	t.Parallel()
	s := newSite(t, 4)
	mc := s.create(s.miniCluster("loses").Size(3).PodAnnotation(simulator.Runtime, untilTold).Spec(func(spec *v1alpha2.MiniClusterSpec) {
		spec.Elastic.OnLoss = v1alpha2.LossRecreate
		spec.Elastic.Recreate.BackoffBase = duration("1s")
	}))
	s.awaitState(mc, v1alpha2.StateRunning)
	vanish(s, nodeOfRank(s, mc, 1))
	s.awaitSecondAttempt(mc)
}

// awaitSecondAttempt waits until a MiniCluster whose first attempt ran has succeeded with the next
// attempt. The command of the next attempt runs for a moment.
func (s *site) awaitSecondAttempt(mc *v1alpha2.MiniCluster) {
	s.t.Helper()
	s.patch(mc, `{"spec":{"pod":{"annotations":{%q:"1s"}}}}`, simulator.Runtime)
	s.awaitState(mc, v1alpha2.StateSucceeded)
	attempts := mc.Status.Attempts
	if len(attempts) != 1 || attempts[0].Started == nil || attempts[0].Attempt != 1 || attempts[0].Size != 3 || attempts[0].Reason != "GaveUp" {
		s.t.Errorf("its attempts are %+v", attempts)
	}
	if n := s.leadsOf(mc); n != 2 || mc.Status.Admission.Attempt != 2 {
		s.t.Errorf("the command ran %d times, the last in attempt %d", n, mc.Status.Admission.Attempt)
	}
	s.awaitDecisions(mc, map[string]int{"Admitted": 2, "GaveUp": 1, "Started": 2, "Succeeded": 1}, v1alpha2.ReasonBrokersLost) // seen before the lead's end
}

// The loss of the lead is the end, but with Recreate.
func TestLeadLost(t *testing.T) {
	t.Parallel()
	for _, policy := range []v1alpha2.LossPolicy{v1alpha2.LossFail, v1alpha2.LossContinue, v1alpha2.LossRecreate} {
		t.Run(string(policy), func(t *testing.T) {
			t.Parallel()
			s := newSite(t, 4)
			mc := s.create(s.miniCluster("loses").Size(3).PodAnnotation(simulator.Runtime, untilTold).Spec(func(spec *v1alpha2.MiniClusterSpec) {
				spec.Elastic.OnLoss = policy
				spec.Elastic.Recreate.BackoffBase = duration("1s")
			}))
			s.awaitState(mc, v1alpha2.StateRunning)
			vanish(s, nodeOfRank(s, mc, 0))
			if policy == v1alpha2.LossRecreate {
				s.awaitSecondAttempt(mc)
				return
			}
			s.awaitState(mc, v1alpha2.StateFailed)
			s.awaitEnd(mc, v1alpha2.ReasonLeadLost)
			if mc.Status.ExitCode != nil || len(mc.Status.Attempts) != 1 || mc.Status.Attempts[0].Started == nil {
				t.Errorf("its exit code is %v, its attempts are %+v", mc.Status.ExitCode, mc.Status.Attempts)
			}
			s.awaitDecisions(mc, map[string]int{"Admitted": 1, "Started": 1, v1alpha2.ReasonLeadLost: 1})
		})
	}
}
